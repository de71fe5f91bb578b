/* The default seams: the C library's heap and the monotonic clock. */
#include "abi/base/seam.h"

#include <stdlib.h>
#include <time.h>

static void *libc_allocate(void *context, size_t bytes)
{
    (void)context;
    return calloc(1, bytes);
}

static void libc_release(void *context, void *memory)
{
    (void)context;
    free(memory);
}

static uint64_t monotonic_now(void *context)
{
    (void)context;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

const mbr_heap mbr_heap_libc = {libc_allocate, libc_release, NULL};
const mbr_clock mbr_clock_monotonic = {monotonic_now, NULL};
