/* The CPU EP with its seams in the open: what mbr_cpu_create uses the system for. */
#ifndef MEMBRANE_HOST_EP_CPU_SEAMS_H
#define MEMBRANE_HOST_EP_CPU_SEAMS_H

#include "abi/base/seam.h"
#include "host/ep/thread.h"
#include "membrane/cpu.h"

typedef struct mbr_cpu_seams {
    const mbr_heap *heap;       /* NULL: libc */
    const mbr_threads *threads; /* NULL: the system's */
} mbr_cpu_seams;

mbr_status mbr_cpu_create_with(
    const mbr_cpu_options *options, const mbr_cpu_seams *seams, mbr_cpu **cpu, mbr_error *error);

#endif
