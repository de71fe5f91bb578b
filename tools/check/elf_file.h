/* The plugin's ELF file as its program headers tell it. Section tables are not used: they can be
 * stripped or forged. Every offset is checked; what cannot be read is absent. */
#ifndef MEMBRANE_TOOLS_CHECK_ELF_FILE_H
#define MEMBRANE_TOOLS_CHECK_ELF_FILE_H

#include "tools/check/trial.h"

#include <gelf.h>

#define MBR_ELF_DYNAMIC_MAX 512
#define MBR_ELF_SEGMENTS_MAX 64
#define MBR_ELF_NOTES_MAX 8

typedef struct mbr_elf_file {
    Elf *elf;
    const unsigned char *bytes; /* of the whole file */
    uint64_t byte_count;
    GElf_Phdr segments[MBR_ELF_SEGMENTS_MAX];
    uint32_t segment_count;
    GElf_Dyn dynamic[MBR_ELF_DYNAMIC_MAX];
    uint32_t dynamic_count;
    uint64_t strings_address, strings_bytes;
    uint64_t symbols_address, symbol_count;
    struct {
        const unsigned char *bytes; /* the description */
        uint64_t byte_count;
    } notes[MBR_ELF_NOTES_MAX]; /* of Membrane's owner and type */
    uint32_t note_count;
} mbr_elf_file;

/* Reads the trial's file; the check needs what LNK-001 owns, that it is whole. */
void mbr_elf_file_read(mbr_trial *trial, mbr_elf_file *file);

/* The same, whatever of it can be read. */
void mbr_elf_file_read_any(mbr_trial *trial, mbr_elf_file *file);

/* Whether there are a dynamic table, symbols and their names. */
bool mbr_elf_file_is_whole(const mbr_elf_file *file);

/* `count` bytes at an address of the image that the file holds; NULL outside of it. */
const unsigned char *mbr_elf_file_at(const mbr_elf_file *file, uint64_t address, uint64_t count);

/* A terminated string of the dynamic string table, or NULL. */
const char *mbr_elf_file_string(const mbr_elf_file *file, uint64_t offset);

/* The value of a dynamic entry; false if there is none. */
bool mbr_elf_file_dynamic(const mbr_elf_file *file, int64_t tag, uint64_t *value);

bool mbr_elf_file_symbol(const mbr_elf_file *file, uint64_t index, Elf64_Sym *symbol);

/* The head of the one note; needs that there is one that is long enough. */
mbr_note_head mbr_elf_file_note(mbr_trial *trial, const mbr_elf_file *file);

/* Whether its name is 1 to 31 of [a-z0-9-], terminated. */
bool mbr_elf_note_has_name(const mbr_note_head *head);

#endif
