/* Everything that the host plugin asks of the operating system: the only place where a system call
 * is made, and the seam where tests fail one.
 *
 * True for all functions: [any-thread]; 0 or a positive errno; out-parameters are written on
 * success only. A failed call changed nothing as far as Linux goes; the callers do not rely on it
 * but look
 * (`inspect`), because older kernels left a hole behind a failed fixed mmap. */
#ifndef MEMBRANE_PLUGINS_HOST_OS_H
#define MEMBRANE_PLUGINS_HOST_OS_H

#include <stdint.h>

/* What stands in an address range. */
enum mbr_host_range_kind {
    MBR_HOST_RANGE_HOLE,     /* nothing */
    MBR_HOST_RANGE_RESERVED, /* private, anonymous and without access, to the last byte */
    MBR_HOST_RANGE_FILE,     /* shared mappings of the file that was asked for, to the last byte */
    MBR_HOST_RANGE_OTHER
};

struct mbr_host_range {
    enum mbr_host_range_kind kind;
    uint64_t mapping_count;       /* of the whole process */
    uint64_t mapping_count_limit; /* vm.max_map_count */
};

struct mbr_host_os {
    void *context;
    /* *address is a place to map at with MAP_FIXED, else only written. */
    int (*mmap)(void *context, uint64_t *address, uint64_t bytes, int protection, int flags,
        int file, uint64_t offset_bytes);
    int (*munmap)(void *context, uint64_t address, uint64_t bytes);
    int (*mprotect)(void *context, uint64_t address, uint64_t bytes, int protection);
    int (*madvise)(void *context, uint64_t address, uint64_t bytes, int advice);
    /* A new memory file without a name, closed by exec; *inode tells it from others in inspect. */
    int (*file_create)(void *context, int *file, uint64_t *inode);
    int (*file_close)(void *context, int file);
    int (*file_truncate)(void *context, int file, uint64_t bytes);
    int (*file_allocate)(void *context, int file, int mode, uint64_t offset_bytes, uint64_t bytes);
    int (*file_owned)(void *context, int file, uint64_t *bytes);  /* from st_blocks */
    int (*file_size_limit)(void *context, uint64_t *limit_bytes); /* RLIMIT_FSIZE */
    int (*memory)(void *context, uint64_t *total_bytes, uint64_t *available_bytes);
    int (*inspect)(void *context, uint64_t address, uint64_t bytes, uint64_t inode,
        struct mbr_host_range *range);
    uint64_t page_bytes;
};

/* Linux itself. Without globals: the caller holds the table. */
void mbr_host_os_linux(struct mbr_host_os *os);

#endif
