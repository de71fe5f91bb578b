/* Failures of the system below the plugin, at a chosen place and only while a slot runs: the nth
 * allocation, the nth system call of a kind, a resource limit. They are armed by the hooks of the
 * thread's manner, so that the tool's own work around a call never meets one. One thread. */
#ifndef MEMBRANE_TOOLS_CHECK_FAULTS_H
#define MEMBRANE_TOOLS_CHECK_FAULTS_H

#include "tools/check/trial.h"

typedef enum mbr_fault_source {
    MBR_FAULT_HEAP,       /* malloc and its like */
    MBR_FAULT_MMAP,       /* ENOMEM */
    MBR_FAULT_MUNMAP,     /* ENOMEM: a mapping would have to be split */
    MBR_FAULT_MPROTECT,   /* ENOMEM */
    MBR_FAULT_MADVISE,    /* ENOMEM */
    MBR_FAULT_MEMFD,      /* memfd_create: EMFILE */
    MBR_FAULT_FILE_SPACE, /* fallocate, ftruncate: ENOSPC */
    /* Limits: `nth` is how much is left, 1 is nothing. */
    MBR_FAULT_ADDRESSES,   /* RLIMIT_AS */
    MBR_FAULT_DESCRIPTORS, /* RLIMIT_NOFILE */
    MBR_FAULT_FILE_SIZE,   /* RLIMIT_FSIZE */
    MBR_FAULT_SOURCE_COUNT,
} mbr_fault_source;

/* Makes the source ready; the check is skipped (system) where this system has no way to. Once, and
 * before figures of the process are taken. */
void mbr_faults_prepare(mbr_trial *trial, mbr_fault_source source);

/* From now on the nth event of the source inside of slots fails, counted over all calls; with
 * `for_good` those behind it in the same call too. 0: none. */
void mbr_faults_plan(mbr_fault_source source, uint64_t nth, bool for_good);

/* Whether it failed, since the plan was made. A limit counts as failed once a slot ran under it. */
bool mbr_faults_struck(void);

/* "the 3rd …" in words: "malloc 3", "mmap 1 and all behind it", "RLIMIT_AS at 2". */
const char *mbr_faults_words(void);

#endif
