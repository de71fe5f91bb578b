/* Structs against guard pages: each ends where readable memory ends, so that whoever reads or
 * writes past the size that it states dies there. And checks that name their line. Nothing is given
 * back: the programs are short. */
#ifndef MEMBRANE_TESTS_COMPAT_GUARD_H
#define MEMBRANE_TESTS_COMPAT_GUARD_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define GUARD_PAGE_BYTES 4096

#define CHECK(condition)                                                                           \
    ((condition) ? (void)0                                                                         \
                 : (fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition), exit(1)))

/* A copy of `bytes` bytes, at most a page, whose last one is the last before an unmapped page. */
static inline void *guard(const void *from, size_t bytes)
{
    CHECK(bytes % 4 == 0 && bytes <= GUARD_PAGE_BYTES);
    char *pages = mmap(NULL, 2 * (size_t)GUARD_PAGE_BYTES, PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED);
    CHECK(mprotect(pages + GUARD_PAGE_BYTES, GUARD_PAGE_BYTES, PROT_NONE) == 0);
    return memcpy(pages + GUARD_PAGE_BYTES - bytes, from, bytes);
}

/* A request, and the room for an answer. */
#define IN(type, ...) ((const type *)guard(&(type){MBR_SIZED(type), __VA_ARGS__}, sizeof(type)))
#define OUT(type) ((type *)guard(&(type){MBR_SIZED(type)}, sizeof(type)))

/* The compiler must not turn the checks of a neighbour's memory into assumptions. */
#define TOUCH(address) (*(volatile unsigned char *)(uintptr_t)(address))

#endif
