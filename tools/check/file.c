/* Tells what can be no plugin at all from what is worth a check. Loads nothing. */
#include "tools/check/file.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <sha256.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__x86_64__)
#define OWN_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define OWN_MACHINE EM_AARCH64
#else
#error "the ELF machine number of this architecture is missing here"
#endif

static bool refuse(mbr_file *file, const char *what, const char *detail)
{
    snprintf(file->refusal, sizeof file->refusal, "%s%s%.160s", what, *detail == '\0' ? "" : ": ",
        detail);
    return false;
}

/* A position-independent executable is of the same ELF type; it names an interpreter. */
static bool is_executable(int fd, const Elf64_Ehdr *head)
{
    for (uint32_t i = 0; i < head->e_phnum; i++) {
        Elf64_Phdr segment;
        if (pread(fd, &segment, sizeof segment, (off_t)(head->e_phoff + i * sizeof segment)) !=
            sizeof segment)
            return false;
        if (segment.p_type == PT_INTERP)
            return true;
    }
    return false;
}

static bool look_at_head(int fd, uint64_t file_bytes, mbr_file *file)
{
    Elf64_Ehdr head;
    ssize_t count = pread(fd, &head, sizeof head, 0);
    if (count < EI_NIDENT || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0)
        return refuse(file, "not an ELF file", "");
    if (head.e_ident[EI_CLASS] != ELFCLASS64)
        return refuse(file, "not a 64-bit ELF file", "");
    if (head.e_ident[EI_DATA] != ELFDATA2LSB || count < (ssize_t)sizeof head)
        return refuse(file, "the ELF header is cut off or of another byte order", "");
    if (head.e_machine != OWN_MACHINE)
        return refuse(file, "built for another machine", "");
    if (head.e_type != ET_DYN)
        return refuse(file, "not a shared object", "");
    if (head.e_phentsize != sizeof(Elf64_Phdr) || head.e_phoff > file_bytes ||
        head.e_phnum > (file_bytes - head.e_phoff) / sizeof(Elf64_Phdr))
        return refuse(file, "the file is cut off", "");
    for (uint32_t i = 0; i < head.e_phnum; i++) {
        Elf64_Phdr segment;
        if (pread(fd, &segment, sizeof segment, (off_t)(head.e_phoff + i * sizeof segment)) !=
            sizeof segment)
            return refuse(file, "the file cannot be read", strerror(errno));
        if (segment.p_type == PT_LOAD &&
            (segment.p_offset > file_bytes || segment.p_filesz > file_bytes - segment.p_offset))
            return refuse(file, "the file is cut off: a segment ends behind it", "");
    }
    if (is_executable(fd, &head))
        return refuse(file, "an executable, not a shared object", "");
    return true;
}

bool mbr_file_look(const char *path, mbr_file *file)
{
    struct stat facts;
    memset(file, 0, sizeof *file);
    char *resolved = realpath(path, NULL);
    if (resolved == NULL)
        return refuse(file, "the file cannot be found", strerror(errno));
    int length = snprintf(file->path, sizeof file->path, "%s", resolved);
    free(resolved);
    if (length >= (int)sizeof file->path)
        return refuse(file, "the path is too long", "");
    /* Not blocking: a pipe by that name would wait for a writer. */
    int fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return refuse(file, "the file cannot be opened", strerror(errno));
    bool is_regular = fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode);
    bool is_good = is_regular
        ? look_at_head(fd, (uint64_t)facts.st_size, file)
        : refuse(file, S_ISDIR(facts.st_mode) ? "a directory" : "not a regular file", "");
    close(fd);
    if (is_regular && SHA256File(file->path, file->sha256) == NULL)
        return refuse(file, "the file cannot be read", strerror(errno));
    return is_good;
}
