/* Whether a piece of work makes a system call, as the kernel sees it: with syscall user dispatch
 * the first one is caught. */
#ifndef MEMBRANE_TOOLS_BENCH_SYSCALLS_H
#define MEMBRANE_TOOLS_BENCH_SYSCALLS_H

#include <stdbool.h>
#include <stdint.h>

typedef enum mbr_syscalls {
    MBR_SYSCALLS_NONE = 0,
    MBR_SYSCALLS_SOME,
    MBR_SYSCALLS_UNKNOWN, /* this kernel or processor cannot tell */
} mbr_syscalls;

/* Runs work(context, 0, count) in this thread. *done is its answer. One thread of a process at a
 * time. */
mbr_syscalls mbr_syscalls_watch(bool (*work)(void *context, uint32_t thread, uint64_t count),
    void *context, uint64_t count, bool *done);

#endif
