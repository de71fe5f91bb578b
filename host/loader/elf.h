/* Reading of an ELF file through its program headers, without mapping it: every offset is checked
 * against the file's size, and what is read is bounded whatever the file claims (rule 29). Section
 * tables are not looked at, because they can be stripped or forged. */
#ifndef MEMBRANE_HOST_LOADER_ELF_H
#define MEMBRANE_HOST_LOADER_ELF_H

#include "host/loader/loader.h"
#include "host/loader/os.h"

#include <elf.h>

#define MBR_ELF_SEGMENTS_MAX 64
#define MBR_ELF_DYNAMIC_ENTRIES_MAX 4096
#define MBR_ELF_STRING_BYTES_MAX 4096
#define MBR_ELF_NOTE_BYTES_MAX 65536
#define MBR_ELF_SYMBOLS_MAX 65536

typedef struct mbr_elf {
    const mbr_loader_os *os;
    int fd; /* the caller's */
    uint64_t file_bytes;
    uint32_t segment_count;
    Elf64_Phdr segments[MBR_ELF_SEGMENTS_MAX];
    /* From PT_DYNAMIC; addresses are the file's own, 0 where absent. */
    uint64_t dynamic_count;
    uint64_t string_table, string_bytes;
    uint64_t symbol_table;
    uint64_t hash_table, gnu_hash_table;
    uint64_t flags, flags_1;
    bool has_text_relocations;
} mbr_elf;

/* Reads headers, segments and dynamic table. Refuses what is no complete shared object of this
 * machine: MBR_REASON_NOT_ELF, _WRONG_MACHINE, _NOT_SHARED. */
mbr_status mbr_elf_read_head(
    mbr_elf *elf, const mbr_loader_os *os, int fd, uint64_t file_bytes, mbr_candidate *candidate);

/* Refuses an executable stack, text relocations, and search paths that depend on the current
 * directory. */
mbr_status mbr_elf_judge(const mbr_elf *elf, mbr_candidate *candidate);

/* Fills in what pins a file: thread-local storage and unique symbols. */
void mbr_elf_find_pins(const mbr_elf *elf, mbr_note_facts *facts);

/* Bytes at `base + offset` of the loaded image, from the file. False outside of it. */
bool mbr_elf_read_at(const mbr_elf *elf, uint64_t base, uint64_t offset, void *to, uint64_t bytes);

/* A terminated string of the string table. False if it is outside, or longer than `bytes` - 1. */
bool mbr_elf_read_string(const mbr_elf *elf, uint64_t offset, char *to, uint64_t bytes);

#endif
