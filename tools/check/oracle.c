/* Reads /proc and fstat. Never asks the plugin. Rss would count an alias twice, so that memory
 * files are counted by their blocks and private memory by Pss. */
#include "tools/check/oracle.h"

#include "tools/check/process.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define FILES_MAX 512
#define TMPFS_MAGIC_NUMBER 0x01021994
#define HUGE_PAGE_BYTES (UINT64_C(2) << 20)

typedef struct seen_files {
    struct {
        uint64_t device, inode;
    } files[FILES_MAX];
    uint32_t count;
} seen_files;

static bool add_file(seen_files *seen, uint64_t device, uint64_t inode)
{
    for (uint32_t i = 0; i < seen->count; i++)
        if (seen->files[i].device == device && seen->files[i].inode == inode)
            return false;
    if (seen->count == FILES_MAX)
        return false;
    seen->files[seen->count].device = device;
    seen->files[seen->count++].inode = inode;
    return true;
}

/* Blocks of every memory file behind a descriptor, each once. */
static bool read_descriptors(mbr_oracle *oracle, seen_files *seen)
{
    DIR *all = opendir("/proc/self/fd");
    if (all == NULL)
        return false;
    const struct dirent *entry;
    while ((entry = readdir(all)) != NULL) {
        struct stat facts;
        struct statfs system;
        int fd = atoi(entry->d_name);
        if (entry->d_name[0] == '.' || fd == dirfd(all))
            continue;
        oracle->descriptor_count++;
        if (fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode) || fstatfs(fd, &system) != 0 ||
            system.f_type != TMPFS_MAGIC_NUMBER || !add_file(seen, facts.st_dev, facts.st_ino))
            continue;
        oracle->file_bytes += (uint64_t)facts.st_blocks * 512;
    }
    closedir(all);
    return true;
}

typedef struct mapping {
    uint64_t start, end;
    uint64_t inode, device;
    bool is_memory_file;
} mapping;

static bool read_head(const char *line, mapping *now)
{
    unsigned long start, end, offset, inode;
    unsigned int major, minor;
    char access[8];
    int path = 0;
    if (sscanf(line, "%lx-%lx %7s %lx %x:%x %lu %n", &start, &end, access, &offset, &major, &minor,
            &inode, &path) != 7)
        return false;
    now->start = start;
    now->end = end;
    now->inode = inode;
    now->device = ((uint64_t)major << 8) | minor;
    now->is_memory_file = inode != 0 &&
        (strncmp(line + path, "/memfd:", 7) == 0 || strncmp(line + path, "/dev/shm", 8) == 0 ||
            strncmp(line + path, "/dev/zero", 9) == 0);
    return true;
}

static bool is_seen(const seen_files *seen, uint64_t inode)
{
    for (uint32_t i = 0; i < seen->count; i++)
        if (seen->files[i].inode == inode)
            return true;
    return false;
}

/* Private pages by Pss_Anon of the whole; pages of memory files that no descriptor shows by Pss. */
static bool read_mappings(mbr_oracle *oracle, const seen_files *seen)
{
    FILE *file = fopen("/proc/self/smaps", "re");
    char line[4352];
    mapping now = {0};
    unsigned long kib;
    if (file == NULL)
        return false;
    while (fgets(line, sizeof line, file) != NULL) {
        if (read_head(line, &now))
            oracle->mapping_count++;
        else if (sscanf(line, "Pss: %lu kB", &kib) == 1) {
            if (now.is_memory_file && !is_seen(seen, now.inode))
                oracle->file_bytes += kib * 1024;
        } else if (sscanf(line, "Anonymous: %lu kB", &kib) == 1)
            oracle->anonymous_bytes += kib * 1024;
    }
    fclose(file);
    return true;
}

void mbr_oracle_read(mbr_trial *trial, mbr_oracle *oracle)
{
    seen_files seen = {.count = 0};
#ifdef __SANITIZE_THREAD__ /* keeps several bytes of its own for each byte that anybody touches */
    mbr_trial_skip(trial, MBR_SKIP_SYSTEM, "the system counts a sanitizer's memory too");
#endif
    memset(oracle, 0, sizeof *oracle);
    if (!read_descriptors(oracle, &seen) || !read_mappings(oracle, &seen))
        mbr_trial_give_up(
            trial, MBR_VERDICT_RESOURCE, "/proc/self cannot be read: %s", strerror(errno));
    oracle->thread_count = mbr_process_count_entries("/proc/self/task");
    oracle->owned_bytes = oracle->anonymous_bytes + oracle->file_bytes;
}

typedef struct huge_pages {
    uint64_t bytes;
    bool is_possible;
} huge_pages;

/* What one line of a mapping says: transparent huge pages by name, those of hugetlb by page size.
 */
static void take_huge_line(huge_pages *huge, const char *line, const mapping *now)
{
    uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    unsigned long figure;
    if (sscanf(line, "AnonHugePages: %lu kB", &figure) == 1 ||
        sscanf(line, "ShmemPmdMapped: %lu kB", &figure) == 1 ||
        sscanf(line, "FilePmdMapped: %lu kB", &figure) == 1)
        huge->bytes += figure * 1024;
    else if (sscanf(line, "KernelPageSize: %lu kB", &figure) == 1 && figure * 1024 > page_bytes)
        huge->bytes += now->end - now->start;
    else if (sscanf(line, "THPeligible: %lu", &figure) == 1)
        huge->is_possible |= figure != 0;
}

static huge_pages read_huge(mbr_trial *trial, uint64_t address, uint64_t bytes)
{
    FILE *file = fopen("/proc/self/smaps", "re");
    char line[4352];
    mapping now = {0};
    huge_pages huge = {0};
    if (file == NULL)
        mbr_trial_give_up(trial, MBR_VERDICT_RESOURCE, "/proc/self/smaps cannot be read");
    while (fgets(line, sizeof line, file) != NULL)
        if (!read_head(line, &now) && now.start < address + bytes && now.end > address)
            take_huge_line(&huge, line, &now);
    fclose(file);
    return huge;
}

/* Whether the tool is given one for the asking, in private memory, where most systems have them. */
static bool is_huge_page_free(mbr_trial *trial)
{
    char *memory = mmap(NULL, 2 * HUGE_PAGE_BYTES, PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return false;
    (void)madvise(memory, 2 * HUGE_PAGE_BYTES, MADV_HUGEPAGE);
    memory[HUGE_PAGE_BYTES] = 1; /* in the whole one, wherever it begins */
    uint64_t bytes = read_huge(trial, (uintptr_t)memory, 2 * HUGE_PAGE_BYTES).bytes;
    munmap(memory, 2 * HUGE_PAGE_BYTES);
    return bytes > 0;
}

mbr_huge mbr_oracle_huge(mbr_trial *trial, uint64_t address, uint64_t bytes)
{
    huge_pages huge = read_huge(trial, address, bytes);
    if (huge.bytes > 0)
        return MBR_HUGE_SOMEWHERE;
    return huge.is_possible && !is_huge_page_free(trial) ? MBR_HUGE_UNKNOWN : MBR_HUGE_NOWHERE;
}

uint64_t mbr_oracle_address_bytes(mbr_trial *trial)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    bool is_told = file != NULL && fscanf(file, "%lu", &pages) == 1;
    if (file != NULL)
        fclose(file);
    if (!is_told)
        mbr_trial_give_up(trial, MBR_VERDICT_RESOURCE, "/proc/self/statm cannot be read");
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

bool mbr_oracle_grew_by(const mbr_oracle *before, const mbr_oracle *after, int64_t bytes)
{
    int64_t grown = (int64_t)(after->owned_bytes - before->owned_bytes);
    int64_t apart = grown > bytes ? grown - bytes : bytes - grown;
    return apart <= (int64_t)MBR_ORACLE_SLACK_BYTES;
}

mbr_footing mbr_footing_read(mbr_trial *trial)
{
    mbr_footing now;
    mbr_oracle_read(trial, &now.oracle);
    now.address_bytes = mbr_oracle_address_bytes(trial);
    return now;
}
