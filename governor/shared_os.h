/* The system calls of the shared ledger: a seam, so that a test can fail or kill at each of them.
 * Every call answers a negative errno on failure. */
#ifndef MEMBRANE_GOVERNOR_SHARED_OS_H
#define MEMBRANE_GOVERNOR_SHARED_OS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

/* How a lock is asked for. */
typedef enum mbr_shared_lock {
    MBR_SHARED_UNLOCK = 0,
    MBR_SHARED_LOCK_READ, /* waits */
    MBR_SHARED_LOCK_WRITE,
    MBR_SHARED_LOCK_TRY, /* to write; -EAGAIN where another description holds it */
} mbr_shared_lock;

typedef struct mbr_shared_os {
    int (*open)(void *context, const char *path, int flags, unsigned mode);
    int (*stat)(void *context, int file, struct stat *status);
    int (*find)(void *context, const char *path, struct stat *status); /* follows no link */
    int (*read)(void *context, int file, void *to, size_t bytes);      /* from 0; the count */
    int (*write)(void *context, int file, const void *from, size_t bytes, uint64_t offset);
    /* Of an open file description, not of a process. */
    int (*lock)(void *context, int file, mbr_shared_lock kind, uint64_t offset, uint64_t bytes);
    int (*is_locked)(void *context, int file, uint64_t offset); /* by another: 1 or 0 */
    int (*remove)(void *context, const char *path);
    int (*close)(void *context, int file);
    void *context;
} mbr_shared_os;

extern const mbr_shared_os mbr_shared_os_system;

#endif
