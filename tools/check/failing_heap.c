/* Stands before the C library's heap and forwards to it. Counts only where a thread asked for it,
 * and never allocates anything itself. */
#include "tools/check/failing_heap.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define OWNS_HEAP 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define OWNS_HEAP 0
#endif
#endif
#ifndef OWNS_HEAP
#define OWNS_HEAP 1
#endif

static _Thread_local struct {
    uint64_t left_count; /* 0: not armed */
    bool is_for_good;
    uint32_t failure_count;
} plan;

bool mbr_failing_heap_is_there(void)
{
    return OWNS_HEAP;
}

uint32_t mbr_failing_heap_arm(uint64_t nth, bool for_good)
{
    uint32_t failure_count = plan.failure_count;
    plan.left_count = nth;
    plan.is_for_good = for_good;
    plan.failure_count = 0;
    return failure_count;
}

uint64_t mbr_failing_heap_left(void)
{
    return plan.left_count;
}

#if OWNS_HEAP

/* The names under which the C library keeps its own. */
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *memory, size_t bytes);
extern void *__libc_memalign(size_t align, size_t bytes);

static bool is_struck(void)
{
    if (plan.left_count == 0)
        return false;
    if (plan.left_count > 1) {
        plan.left_count--;
        return false;
    }
    if (!plan.is_for_good)
        plan.left_count = 0;
    plan.failure_count++;
    errno = ENOMEM;
    return true;
}

#define SHOWN __attribute__((visibility("default")))

SHOWN void *malloc(size_t bytes)
{
    return is_struck() ? NULL : __libc_malloc(bytes);
}

SHOWN void *calloc(size_t count, size_t bytes)
{
    return is_struck() ? NULL : __libc_calloc(count, bytes);
}

SHOWN void *realloc(void *memory, size_t bytes)
{
    return is_struck() ? NULL : __libc_realloc(memory, bytes);
}

SHOWN void *aligned_alloc(size_t align, size_t bytes)
{
    return is_struck() ? NULL : __libc_memalign(align, bytes);
}

SHOWN int posix_memalign(void **memory, size_t align, size_t bytes)
{
    void *made = is_struck() ? NULL : __libc_memalign(align, bytes);
    if (made == NULL)
        return ENOMEM;
    *memory = made;
    return 0;
}

#endif
