// Counts the C library's heap calls of a test that is linked with --wrap=calloc and --wrap=malloc.
// Included once, by the test itself.
#ifndef MEMBRANE_TESTS_UNIT_ALLOC_HEAP_COUNT_H
#define MEMBRANE_TESTS_UNIT_ALLOC_HEAP_COUNT_H

#include <atomic>
#include <cstddef>
#include <cstdint>

static std::atomic<uint64_t> heap_count{0};

extern "C" {

void *__real_calloc(size_t count, size_t bytes);
void *__real_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_malloc(size_t bytes);

void *__wrap_calloc(size_t count, size_t bytes)
{
    heap_count++;
    return __real_calloc(count, bytes);
}

void *__wrap_malloc(size_t bytes)
{
    heap_count++;
    return __real_malloc(bytes);
}

} // extern "C"

#endif
