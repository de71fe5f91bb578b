/* What a plugin must leave as it is: the state of the process around it. */
#ifndef MEMBRANE_TOOLS_CHECK_PROCESS_H
#define MEMBRANE_TOOLS_CHECK_PROCESS_H

#include "tools/check/trial.h"

#include <fenv.h>
#include <signal.h>
#include <sys/resource.h>

typedef enum mbr_aspect {
    MBR_ASPECT_THREADS,
    MBR_ASPECT_DESCRIPTORS,
    MBR_ASPECT_ENVIRONMENT,
    MBR_ASPECT_SIGNALS, /* dispositions, and the calling thread's mask */
    MBR_ASPECT_LOCALE,
    MBR_ASPECT_DIRECTORY,      /* current directory and umask */
    MBR_ASPECT_FLOATING_POINT, /* rounding and traps of the calling thread */
    MBR_ASPECT_LIMITS,
    MBR_ASPECT_COUNT,
} mbr_aspect;

#define MBR_PROCESS_SIGNALS 65

typedef struct mbr_process {
    uint64_t thread_count, descriptor_count;
    uint64_t environment_hash;
    struct {
        void *handler;
        uint64_t flags;
    } actions[MBR_PROCESS_SIGNALS];
    sigset_t mask;
    char locale[256], directory[4096];
    uint32_t umask;
    int rounding, traps;
    struct rlimit limits[RLIM_NLIMITS];
} mbr_process;

/* Entries of a folder of /proc/self, such as its threads; its own descriptor is one of "fd". */
uint64_t mbr_process_count_entries(const char *folder);

void mbr_process_read(mbr_process *process);

/* Whether an aspect is as it was; if not, `text` says what changed. */
bool mbr_process_is_same(const mbr_process *before, const mbr_process *after, mbr_aspect aspect,
    char *text, uint64_t room);

#endif
