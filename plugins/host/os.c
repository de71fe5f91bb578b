/* Calls Linux. Never decides anything, never keeps anything. */
#include "plugins/host/os.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U
#endif

static int answer_of(int result)
{
    return result == 0 ? 0 : errno;
}

static void *pointer_to(uint64_t address)
{
    return (void *)(uintptr_t)address; // NOLINT: an address of this process
}

static int os_mmap(void *context, uint64_t *address, uint64_t bytes, int protection, int flags,
    int file, uint64_t offset_bytes)
{
    (void)context;
    void *place = flags & MAP_FIXED ? pointer_to(*address) : NULL;
    void *start = mmap(place, bytes, protection, flags, file, (off_t)offset_bytes);
    if (start == MAP_FAILED)
        return errno;
    *address = (uintptr_t)start;
    return 0;
}

static int os_munmap(void *context, uint64_t address, uint64_t bytes)
{
    (void)context;
    return answer_of(munmap(pointer_to(address), bytes));
}

static int os_mprotect(void *context, uint64_t address, uint64_t bytes, int protection)
{
    (void)context;
    return answer_of(mprotect(pointer_to(address), bytes, protection));
}

static int os_madvise(void *context, uint64_t address, uint64_t bytes, int advice)
{
    (void)context;
    return answer_of(madvise(pointer_to(address), bytes, advice));
}

static int os_file_create(void *context, int *file, uint64_t *inode)
{
    (void)context;
    /* Sealed against execution where the kernel knows the flag (6.3) and may insist on it. */
    int created = memfd_create("membrane-host", MFD_CLOEXEC | MFD_NOEXEC_SEAL);
    if (created < 0 && errno == EINVAL)
        created = memfd_create("membrane-host", MFD_CLOEXEC);
    if (created < 0)
        return errno;
    struct stat facts;
    if (fstat(created, &facts) != 0) {
        int code = errno;
        close(created);
        return code;
    }
    *file = created;
    *inode = facts.st_ino;
    return 0;
}

static int os_file_close(void *context, int file)
{
    (void)context;
    return answer_of(close(file));
}

static int os_file_truncate(void *context, int file, uint64_t bytes)
{
    (void)context;
    return answer_of(ftruncate(file, (off_t)bytes));
}

static int os_file_allocate(
    void *context, int file, int mode, uint64_t offset_bytes, uint64_t bytes)
{
    (void)context;
    return answer_of(fallocate(file, mode, (off_t)offset_bytes, (off_t)bytes));
}

static int os_file_owned(void *context, int file, uint64_t *bytes)
{
    (void)context;
    struct stat facts;
    if (fstat(file, &facts) != 0)
        return errno;
    *bytes = (uint64_t)facts.st_blocks * 512; /* st_blocks counts 512 bytes whatever st_blksize */
    return 0;
}

static int os_file_size_limit(void *context, uint64_t *limit_bytes)
{
    (void)context;
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0)
        return errno;
    *limit_bytes = limit.rlim_cur;
    return 0;
}

/* Reads the first bytes of a small file of /proc as text. */
static int read_text(const char *path, char *text, size_t text_bytes)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return errno;
    ssize_t got = read(file, text, text_bytes - 1);
    int code = errno;
    close(file);
    if (got < 0)
        return code;
    text[got] = 0;
    return 0;
}

static int os_memory(void *context, uint64_t *total_bytes, uint64_t *available_bytes)
{
    (void)context;
    char text[512]; /* both figures stand in the first three lines */
    int code = read_text("/proc/meminfo", text, sizeof(text));
    if (code != 0)
        return code;
    const char *total = strstr(text, "MemTotal:"), *available = strstr(text, "MemAvailable:");
    if (!total || !available)
        return ENODATA;
    *total_bytes = strtoull(total + sizeof("MemTotal:") - 1, NULL, 10) * 1024;
    *available_bytes = strtoull(available + sizeof("MemAvailable:") - 1, NULL, 10) * 1024;
    return 0;
}

/* What inspect knows so far. */
struct survey {
    uint64_t start, end, inode, covered_bytes;
    bool all_reserved, all_file;
};

static void survey_line(struct survey *survey, const char *line)
{
    unsigned long long start, end, offset, inode;
    char access[8];
    if (sscanf(line, "%llx-%llx %7s %llx %*x:%*x %llu", &start, &end, access, &offset, &inode) != 5)
        return;
    uint64_t low = start > survey->start ? start : survey->start;
    uint64_t high = end < survey->end ? end : survey->end;
    if (low >= high)
        return;
    survey->covered_bytes += high - low;
    survey->all_reserved = survey->all_reserved && inode == 0 && strcmp(access, "---p") == 0;
    survey->all_file = survey->all_file && inode == survey->inode && access[3] == 's';
}

/* Reads /proc/self/maps line by line through a buffer of its own: on this path the heap may be the
 * thing that is exhausted. */
static int survey_maps(struct survey *survey, uint64_t *line_count)
{
    int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return errno;
    char text[8192]; /* a line has at most PATH_MAX and about 80 bytes */
    size_t filled = 0;
    ssize_t got;
    while ((got = read(file, text + filled, sizeof(text) - 1 - filled)) > 0) {
        filled += (size_t)got;
        text[filled] = 0;
        char *line = text;
        for (char *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
            *end = 0;
            survey_line(survey, line);
            ++*line_count;
        }
        filled -= (size_t)(line - text);
        memmove(text, line, filled);
    }
    int code = got < 0 ? errno : 0;
    close(file);
    return code;
}

static int os_inspect(
    void *context, uint64_t address, uint64_t bytes, uint64_t inode, struct mbr_host_range *range)
{
    (void)context;
    struct survey survey = {address, address + bytes, inode, 0, true, true};
    struct mbr_host_range found = {.kind = MBR_HOST_RANGE_OTHER};
    char text[32];
    int code = read_text("/proc/sys/vm/max_map_count", text, sizeof(text));
    if (code == 0)
        code = survey_maps(&survey, &found.mapping_count);
    if (code != 0)
        return code;
    found.mapping_count_limit = strtoull(text, NULL, 10);
    if (survey.covered_bytes == 0)
        found.kind = MBR_HOST_RANGE_HOLE;
    else if (survey.covered_bytes == bytes && survey.all_reserved)
        found.kind = MBR_HOST_RANGE_RESERVED;
    else if (survey.covered_bytes == bytes && survey.all_file)
        found.kind = MBR_HOST_RANGE_FILE;
    *range = found;
    return 0;
}

void mbr_host_os_linux(struct mbr_host_os *os)
{
    *os = (struct mbr_host_os){
        .mmap = os_mmap,
        .munmap = os_munmap,
        .mprotect = os_mprotect,
        .madvise = os_madvise,
        .file_create = os_file_create,
        .file_close = os_file_close,
        .file_truncate = os_file_truncate,
        .file_allocate = os_file_allocate,
        .file_owned = os_file_owned,
        .file_size_limit = os_file_size_limit,
        .memory = os_memory,
        .inspect = os_inspect,
        .page_bytes = (uint64_t)sysconf(_SC_PAGESIZE),
    };
}
