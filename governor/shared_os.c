/* Responsible for the shared ledger's system calls, one function each. Never interprets what is in
 * the file. */
#include "governor/shared_os.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <unistd.h>

static int answer(long result)
{
    return result < 0 ? -errno : (int)result;
}

static int system_open(void *context, const char *path, int flags, unsigned mode)
{
    (void)context;
    return answer(open(path, flags, (mode_t)mode));
}

static int system_stat(void *context, int file, struct stat *status)
{
    (void)context;
    return answer(fstat(file, status));
}

static int system_find(void *context, const char *path, struct stat *status)
{
    (void)context;
    return answer(lstat(path, status));
}

static int system_read(void *context, int file, void *to, size_t bytes)
{
    (void)context;
    return answer(pread(file, to, bytes, 0));
}

static int system_write(void *context, int file, const void *from, size_t bytes, uint64_t offset)
{
    (void)context;
    return answer(pwrite(file, from, bytes, (off_t)offset));
}

static int system_lock(
    void *context, int file, mbr_shared_lock kind, uint64_t offset, uint64_t bytes)
{
    (void)context;
    static const short types[] = {F_UNLCK, F_RDLCK, F_WRLCK, F_WRLCK};
    bool waits = kind != MBR_SHARED_LOCK_TRY;
    struct flock range = {.l_type = types[kind],
        .l_whence = SEEK_SET,
        .l_start = (off_t)offset,
        .l_len = (off_t)bytes};
    int result;
    do
        result = answer(fcntl(file, waits ? F_OFD_SETLKW : F_OFD_SETLK, &range));
    while (result == -EINTR);
    return result;
}

static int system_is_locked(void *context, int file, uint64_t offset)
{
    (void)context;
    struct flock range = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)offset, .l_len = 1};
    int result = answer(fcntl(file, F_OFD_GETLK, &range));
    return result < 0 ? result : range.l_type != F_UNLCK;
}

static int system_remove(void *context, const char *path)
{
    (void)context;
    return answer(unlink(path));
}

static int system_close(void *context, int file)
{
    (void)context;
    return answer(close(file));
}

const mbr_shared_os mbr_shared_os_system = {system_open, system_stat, system_find, system_read,
    system_write, system_lock, system_is_locked, system_remove, system_close, NULL};
