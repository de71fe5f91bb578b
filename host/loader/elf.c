/* Reads and judges an ELF file before the dynamic linker sees it. Responsible for never reading
 * outside the file and never more than the limits of elf.h; runs no code of the file, maps nothing.
 * What the Membrane note says is note.c's. */
#include "host/loader/elf.h"

#include "abi/base/checked.h"
#include "host/loader/reason.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#if defined(__x86_64__)
#define OWN_MACHINE EM_X86_64
#define OWN_MACHINE_NAME "x86-64"
#elif defined(__aarch64__)
#define OWN_MACHINE EM_AARCH64
#define OWN_MACHINE_NAME "AArch64"
#else
#error "name this machine's ELF number here"
#endif

static bool read_file(const mbr_elf *elf, uint64_t offset, void *to, uint64_t bytes)
{
    uint64_t end;
    if (!mbr_add(offset, bytes, &end) || end > elf->file_bytes)
        return false;
    char *at = to;
    while (bytes > 0) {
        ssize_t got = elf->os->pread(elf->fd, at, bytes, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false; /* cut while we read it */
        at += got;
        offset += (uint64_t)got;
        bytes -= (uint64_t)got;
    }
    return true;
}

bool mbr_elf_read_at(const mbr_elf *elf, uint64_t base, uint64_t offset, void *to, uint64_t bytes)
{
    uint64_t address;
    if (!mbr_add(base, offset, &address))
        return false;
    for (uint32_t i = 0; i < elf->segment_count; i++) {
        const Elf64_Phdr *segment = &elf->segments[i];
        if (segment->p_type != PT_LOAD || address < segment->p_vaddr)
            continue;
        uint64_t inside = address - segment->p_vaddr;
        if (inside <= segment->p_filesz && bytes <= segment->p_filesz - inside)
            return read_file(elf, segment->p_offset + inside, to, bytes);
    }
    return false;
}

bool mbr_elf_read_string(const mbr_elf *elf, uint64_t offset, char *to, uint64_t bytes)
{
    to[0] = '\0';
    if (offset >= elf->string_bytes)
        return false;
    uint64_t room = mbr_min(bytes, elf->string_bytes - offset);
    if (!mbr_elf_read_at(elf, elf->string_table, offset, to, room))
        return false;
    if (memchr(to, '\0', room) != NULL)
        return true;
    to[0] = '\0';
    return false;
}

static mbr_status judge_identity(const Elf64_Ehdr *head, mbr_candidate *candidate)
{
    if (memcmp(head->e_ident, ELFMAG, SELFMAG) != 0)
        return mbr_candidate_refuse(candidate, MBR_REASON_NOT_ELF,
            "it does not begin like an ELF file; a plugin is a shared object (gcc -shared)");
    if (head->e_ident[EI_CLASS] != ELFCLASS64)
        return mbr_candidate_refuse(candidate, MBR_REASON_WRONG_MACHINE,
            "ELF class %u; this host loads 64-bit " OWN_MACHINE_NAME " (class 2): build for that",
            head->e_ident[EI_CLASS]);
    if (head->e_ident[EI_DATA] != ELFDATA2LSB)
        return mbr_candidate_refuse(candidate, MBR_REASON_WRONG_MACHINE,
            "ELF byte order %u; this host loads little-endian " OWN_MACHINE_NAME " (1)",
            head->e_ident[EI_DATA]);
    if (head->e_machine != OWN_MACHINE)
        return mbr_candidate_refuse(candidate, MBR_REASON_WRONG_MACHINE,
            "ELF machine %u; this host is " OWN_MACHINE_NAME " (%u): build for that",
            head->e_machine, (unsigned)OWN_MACHINE);
    if (head->e_ident[EI_VERSION] != EV_CURRENT || head->e_version != EV_CURRENT)
        return mbr_candidate_refuse(
            candidate, MBR_REASON_NOT_ELF, "ELF version %u is not 1", head->e_version);
    if (head->e_type != ET_DYN)
        return mbr_candidate_refuse(candidate, MBR_REASON_NOT_SHARED,
            "ELF type %u is no shared object (3): link with -shared", head->e_type);
    return MBR_OK;
}

static mbr_status judge_segment(const mbr_elf *elf, uint32_t index, mbr_candidate *candidate)
{
    const Elf64_Phdr *segment = &elf->segments[index];
    uint64_t file_end, image_end;
    if (segment->p_type != PT_LOAD)
        return MBR_OK;
    if (!mbr_add(segment->p_offset, segment->p_filesz, &file_end) ||
        !mbr_add(segment->p_vaddr, segment->p_memsz, &image_end) ||
        segment->p_filesz > segment->p_memsz)
        return mbr_candidate_refuse(
            candidate, MBR_REASON_NOT_ELF, "segment %u has impossible sizes", index);
    /* The dynamic linker would map past the end, and touching that is SIGBUS. */
    if (file_end > elf->file_bytes)
        return mbr_candidate_refuse(candidate, MBR_REASON_NOT_ELF,
            "cut short: segment %u ends at byte %lu of %lu; copy the file again", index, file_end,
            elf->file_bytes);
    return MBR_OK;
}

static mbr_status read_segments(mbr_elf *elf, const Elf64_Ehdr *head, mbr_candidate *candidate)
{
    if (head->e_phentsize != sizeof(Elf64_Phdr) || head->e_phnum == 0 ||
        head->e_phnum > MBR_ELF_SEGMENTS_MAX)
        return mbr_candidate_refuse(candidate, MBR_REASON_NOT_ELF,
            "%u program headers of %u bytes; 1 to %u of %zu are readable", head->e_phnum,
            head->e_phentsize, (unsigned)MBR_ELF_SEGMENTS_MAX, sizeof(Elf64_Phdr));
    if (!read_file(elf, head->e_phoff, elf->segments, head->e_phnum * sizeof(Elf64_Phdr)))
        return mbr_candidate_refuse(candidate, MBR_REASON_NOT_ELF,
            "cut short: the program headers at byte %lu are not in its %lu bytes", head->e_phoff,
            elf->file_bytes);
    elf->segment_count = head->e_phnum;
    for (uint32_t i = 0; i < elf->segment_count; i++) {
        mbr_status status = judge_segment(elf, i, candidate);
        if (status != MBR_OK)
            return status;
    }
    return MBR_OK;
}

static const Elf64_Phdr *find_segment(const mbr_elf *elf, uint32_t type)
{
    for (uint32_t i = 0; i < elf->segment_count; i++)
        if (elf->segments[i].p_type == type)
            return &elf->segments[i];
    return NULL;
}

/* Entry `index`, or false past the end of the table's bytes in the file. */
static bool read_entry(const mbr_elf *elf, uint64_t index, Elf64_Dyn *entry)
{
    const Elf64_Phdr *table = find_segment(elf, PT_DYNAMIC);
    if (table == NULL || index >= table->p_filesz / sizeof *entry)
        return false;
    return mbr_elf_read_at(elf, table->p_vaddr, index * sizeof *entry, entry, sizeof *entry);
}

static void take_entry(mbr_elf *elf, const Elf64_Dyn *entry)
{
    uint64_t value = entry->d_un.d_val;
    switch (entry->d_tag) {
    case DT_STRTAB:
        elf->string_table = value;
        break;
    case DT_STRSZ:
        elf->string_bytes = value;
        break;
    case DT_SYMTAB:
        elf->symbol_table = value;
        break;
    case DT_HASH:
        elf->hash_table = value;
        break;
    case DT_GNU_HASH:
        elf->gnu_hash_table = value;
        break;
    case DT_FLAGS:
        elf->flags = value;
        break;
    case DT_FLAGS_1:
        elf->flags_1 = value;
        break;
    case DT_TEXTREL:
        elf->has_text_relocations = true;
        break;
    default:
        break;
    }
}

static mbr_status read_dynamic(mbr_elf *elf, mbr_candidate *candidate)
{
    /* The dynamic linker reads on to the null entry without asking for the table's size. */
    for (uint64_t index = 0; index < MBR_ELF_DYNAMIC_ENTRIES_MAX; index++) {
        Elf64_Dyn entry;
        if (!read_entry(elf, index, &entry))
            break;
        if (entry.d_tag != DT_NULL) {
            take_entry(elf, &entry);
            continue;
        }
        elf->dynamic_count = index;
        if (elf->string_table == 0 || elf->symbol_table == 0)
            break;
        if ((elf->flags_1 & DF_1_PIE) != 0)
            return mbr_candidate_refuse(candidate, MBR_REASON_NOT_SHARED,
                "a position-independent executable; link with -shared instead of -pie");
        return MBR_OK;
    }
    return mbr_candidate_refuse(candidate, MBR_REASON_NOT_SHARED,
        "no complete dynamic table; a plugin is linked with -shared and not stripped of it");
}

mbr_status mbr_elf_read_head(
    mbr_elf *elf, const mbr_loader_os *os, int fd, uint64_t file_bytes, mbr_candidate *candidate)
{
    *elf = (mbr_elf){.os = os, .fd = fd, .file_bytes = file_bytes};
    Elf64_Ehdr head;
    if (!read_file(elf, 0, &head, sizeof head))
        return mbr_candidate_refuse(candidate, MBR_REASON_NOT_ELF,
            "%lu bytes are too short for an ELF header of %zu", file_bytes, sizeof head);
    mbr_status status = judge_identity(&head, candidate);
    if (status == MBR_OK)
        status = read_segments(elf, &head, candidate);
    if (status == MBR_OK)
        status = read_dynamic(elf, candidate);
    return status;
}

/* ---- What the dynamic linker would do with it ------------------------------------------------ */

static bool starts_with(const char *text, uint64_t bytes, const char *prefix)
{
    uint64_t length = strlen(prefix);
    return bytes >= length && memcmp(text, prefix, length) == 0;
}

/* Whether a folder means the same whatever the current directory is. */
static bool is_fixed(const char *folder, uint64_t bytes)
{
    if (bytes > 0 && folder[0] == '/')
        return true;
    static const char *const origins[] = {"$ORIGIN", "${ORIGIN}"};
    for (unsigned i = 0; i < sizeof origins / sizeof *origins; i++) {
        uint64_t length = strlen(origins[i]);
        if (starts_with(folder, bytes, origins[i]) && (bytes == length || folder[length] == '/'))
            return true;
    }
    return false;
}

static mbr_status judge_search_path(const char *path, mbr_candidate *candidate)
{
    for (const char *element = path;; element++) {
        uint64_t bytes = strcspn(element, ":");
        if (!is_fixed(element, bytes))
            return mbr_candidate_refuse(candidate, MBR_REASON_RELATIVE_RPATH,
                "its library search path \"%s\" has the %s element \"%.*s\", which depends on the "
                "current directory; link with an absolute one or with $ORIGIN",
                path, bytes == 0 ? "empty" : "relative", (int)bytes, element);
        element += bytes;
        if (*element == '\0')
            return MBR_OK;
    }
}

static mbr_status judge_entry(const mbr_elf *elf, const Elf64_Dyn *entry, mbr_candidate *candidate)
{
    char text[MBR_ELF_STRING_BYTES_MAX];
    bool is_path = entry->d_tag == DT_RPATH || entry->d_tag == DT_RUNPATH;
    bool is_library = entry->d_tag == DT_NEEDED || entry->d_tag == DT_FILTER ||
        entry->d_tag == DT_AUXILIARY || entry->d_tag == DT_AUDIT || entry->d_tag == DT_DEPAUDIT;
    if (!is_path && !is_library)
        return MBR_OK;
    if (!mbr_elf_read_string(elf, entry->d_un.d_val, text, sizeof text))
        return mbr_candidate_refuse(candidate, MBR_REASON_NOT_ELF,
            "its dynamic table names a string at %lu that is not in its string table",
            entry->d_un.d_val);
    if (is_path)
        return judge_search_path(text, candidate);
    if (strchr(text, '/') != NULL && !is_fixed(text, strlen(text)))
        return mbr_candidate_refuse(candidate, MBR_REASON_RELATIVE_RPATH,
            "it needs \"%s\", a path that depends on the current directory; link it with -l, an "
            "absolute path or $ORIGIN",
            text);
    return MBR_OK;
}

static mbr_status judge_stack(const mbr_elf *elf, mbr_candidate *candidate)
{
    const Elf64_Phdr *stack = find_segment(elf, PT_GNU_STACK);
    if (stack == NULL)
        return mbr_candidate_refuse(candidate, MBR_REASON_EXEC_STACK,
            "no PT_GNU_STACK header, which makes every stack executable; link with "
            "-Wl,-z,noexecstack");
    if ((stack->p_flags & PF_X) != 0)
        return mbr_candidate_refuse(candidate, MBR_REASON_EXEC_STACK,
            "it asks for executable stacks (PT_GNU_STACK flags %u); link with -Wl,-z,noexecstack",
            stack->p_flags);
    return MBR_OK;
}

mbr_status mbr_elf_judge(const mbr_elf *elf, mbr_candidate *candidate)
{
    mbr_status status = judge_stack(elf, candidate);
    if (status != MBR_OK)
        return status;
    if (elf->has_text_relocations || (elf->flags & DF_TEXTREL) != 0)
        return mbr_candidate_refuse(candidate, MBR_REASON_TEXT_RELOCATIONS,
            "its code must be written to before it runs (DT_TEXTREL); compile with -fPIC");
    for (uint64_t index = 0; index < elf->dynamic_count; index++) {
        Elf64_Dyn entry;
        if (!read_entry(elf, index, &entry))
            return mbr_candidate_refuse(
                candidate, MBR_REASON_NOT_ELF, "cut while it was read; try again");
        status = judge_entry(elf, &entry, candidate);
        if (status != MBR_OK)
            return status;
    }
    return MBR_OK;
}
