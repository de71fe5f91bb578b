/* The loader's calls of the operating system as they are. Decides nothing. */
#include "host/loader/os.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static int own_open(const char *path, int flags)
{
    return open(path, flags);
}

static FILE *own_open_maps(void)
{
    return fopen("/proc/self/maps", "re");
}

const mbr_loader_os mbr_loader_os_libc = {
    .realpath = realpath,
    .stat = stat,
    .lstat = lstat,
    .readlink = readlink,
    .open = own_open,
    .fstat = fstat,
    .pread = pread,
    .close = close,
    .open_maps = own_open_maps,
};
