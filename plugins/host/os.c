/* Calls Linux. Never decides anything, never keeps anything. */
#include "plugins/host/os.h"

#include "abi/base/system_text.h"
#include "plugins/common/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U
#endif

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

/* A system call that answers 0 or -1 with errno. */
#define OS_CALL(name, call, ...)                                                                   \
    static int os_##name(void *context, __VA_ARGS__)                                               \
    {                                                                                              \
        (void)context;                                                                             \
        return (call) == 0 ? 0 : errno;                                                            \
    }

OS_CALL(munmap, munmap(pointer_to(address), bytes), uint64_t address, uint64_t bytes)
OS_CALL(mprotect, mprotect(pointer_to(address), bytes, access), uint64_t address, uint64_t bytes,
    int access)
OS_CALL(madvise, madvise(pointer_to(address), bytes, advice), uint64_t address, uint64_t bytes,
    int advice)
OS_CALL(file_close, close(file), int file)
OS_CALL(file_truncate, ftruncate(file, (off_t)bytes), int file, uint64_t bytes)
OS_CALL(file_allocate, fallocate(file, mode, (off_t)offset_bytes, (off_t)bytes), int file, int mode,
    uint64_t offset_bytes, uint64_t bytes)

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

static int os_memory(void *context, uint64_t *total_bytes, uint64_t *available_bytes)
{
    (void)context;
    return mbr_system_memory("", total_bytes, available_bytes);
}

static int os_inspect(
    void *context, uint64_t address, uint64_t bytes, uint64_t inode, struct mbr_host_range *range)
{
    (void)context;
    struct mbr_proc_survey survey;
    int code = mbr_proc_survey(address, address + bytes, inode, &survey);
    if (code != 0)
        return code;
    bool is_whole = survey.covered_bytes == bytes;
    range->kind = survey.covered_bytes == 0 ? MBR_HOST_RANGE_HOLE
        : is_whole && survey.all_reserved   ? MBR_HOST_RANGE_RESERVED
        : is_whole && survey.all_file       ? MBR_HOST_RANGE_FILE
                                            : MBR_HOST_RANGE_OTHER;
    range->mapping_count = survey.mapping_count;
    range->mapping_count_limit = survey.mapping_count_limit;
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
