/* The calls through which the loader meets files before they are mapped: a seam, so that a test
 * makes the Nth one fail. Each behaves like the libc function of its name. */
#ifndef MEMBRANE_HOST_LOADER_OS_H
#define MEMBRANE_HOST_LOADER_OS_H

#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/types.h>

typedef struct mbr_loader_os {
    char *(*realpath)(const char *path, char *resolved);
    int (*stat)(const char *path, struct stat *out);
    int (*lstat)(const char *path, struct stat *out);
    ssize_t (*readlink)(const char *path, char *target, size_t bytes);
    int (*open)(const char *path, int flags);
    int (*fstat)(int fd, struct stat *out);
    ssize_t (*pread)(int fd, void *to, size_t bytes, off_t offset);
    int (*close)(int fd);
    FILE *(*open_maps)(void); /* /proc/self/maps for reading */
} mbr_loader_os;

extern const mbr_loader_os mbr_loader_os_libc;

#endif
