/* Seams: method tables given at construction, the same for ports and for tests that make the Nth
 * call fail. A NULL seam in an option struct means the default one below. */
#ifndef MEMBRANE_BASE_SEAM_H
#define MEMBRANE_BASE_SEAM_H

#include <stddef.h>
#include <stdint.h>

typedef struct mbr_heap {
    void *(*allocate)(void *context, size_t bytes); /* zeroed; NULL when exhausted */
    void (*release)(void *context, void *memory);   /* NULL is allowed */
    void *context;
} mbr_heap;

typedef struct mbr_clock {
    uint64_t (*now_ns)(void *context); /* monotonic */
    void *context;
} mbr_clock;

extern const mbr_heap mbr_heap_libc;
extern const mbr_clock mbr_clock_monotonic;

static inline void *mbr_heap_allocate(const mbr_heap *heap, size_t bytes)
{
    return heap->allocate(heap->context, bytes);
}

static inline void mbr_heap_release(const mbr_heap *heap, void *memory)
{
    heap->release(heap->context, memory);
}

static inline uint64_t mbr_clock_now(const mbr_clock *clock)
{
    return clock->now_ns(clock->context);
}

#endif
