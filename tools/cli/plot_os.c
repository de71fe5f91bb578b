/* The operating system's part of plotting: files, and a child process. Never decides what is
 * plotted and never retries but after an interrupt. */
#include "tools/cli/plot.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* A file above the standard three: the child gets those replaced one after another. */
static int lift(int file)
{
    if (file < 0)
        return -errno;
    if (file > STDERR_FILENO)
        return file;
    int lifted = fcntl(file, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    int failure = lifted < 0 ? -errno : lifted;
    close(file);
    return failure;
}

static int system_memory_file(void *context)
{
    (void)context;
    return lift(memfd_create("membrane-plot", MFD_CLOEXEC));
}

static int system_is_replaceable(void *context, const char *path)
{
    (void)context;
    struct stat about;
    if (stat(path, &about) != 0)
        return errno == ENOENT ? 1 : -errno;
    return S_ISDIR(about.st_mode) ? -EISDIR : S_ISREG(about.st_mode);
}

static int system_create(void *context, const char *path)
{
    (void)context;
    return lift(open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
}

static int64_t system_write(void *context, int file, const void *from, size_t bytes)
{
    (void)context;
    ssize_t written = write(file, from, bytes);
    return written < 0 ? -(int64_t)errno : written;
}

static int64_t system_size(void *context, int file)
{
    (void)context;
    struct stat about;
    return fstat(file, &about) != 0 ? -(int64_t)errno : about.st_size;
}

static int64_t system_read(void *context, int file, void *to, size_t bytes, uint64_t offset)
{
    (void)context;
    ssize_t got = pread(file, to, bytes, (off_t)offset);
    return got < 0 ? -(int64_t)errno : got;
}

static int system_rewind(void *context, int file)
{
    (void)context;
    return lseek(file, 0, SEEK_SET) < 0 ? -errno : 0;
}

static int wait_for(pid_t child, int *out_status)
{
    while (waitpid(child, out_status, 0) < 0)
        if (errno != EINTR)
            return -errno;
    return 0;
}

static int system_run(
    void *context, const char *const *arguments, int input, int output, int errors, int *out_status)
{
    (void)context;
    posix_spawn_file_actions_t actions;
    pid_t child;
    int failure = posix_spawn_file_actions_init(&actions);
    if (failure != 0)
        return -failure;
    failure = posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
    if (failure == 0)
        failure = posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    if (failure == 0)
        failure = posix_spawn_file_actions_adddup2(&actions, errors, STDERR_FILENO);
    if (failure == 0) /* the strings are not written to: the missing const is POSIX's */
        failure = posix_spawnp(
            &child, arguments[0], &actions, NULL, (char *const *)(uintptr_t)arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    return failure != 0 ? -failure : wait_for(child, out_status);
}

static int system_rename(void *context, const char *from, const char *to)
{
    (void)context;
    return rename(from, to) != 0 ? -errno : 0;
}

static int system_remove(void *context, const char *path)
{
    (void)context;
    return unlink(path) != 0 ? -errno : 0;
}

static void system_close(void *context, int file)
{
    (void)context;
    close(file);
}

const mbr_plot_os mbr_plot_os_default = {
    .memory_file = system_memory_file,
    .is_replaceable = system_is_replaceable,
    .create = system_create,
    .write = system_write,
    .size = system_size,
    .read = system_read,
    .rewind = system_rewind,
    .run = system_run,
    .rename = system_rename,
    .remove = system_remove,
    .close = system_close,
};
