/* Cache lines: what two threads write apart must not lie in one. */
#ifndef MEMBRANE_BASE_LINE_H
#define MEMBRANE_BASE_LINE_H

#include "abi/base/seam.h"

#define MBR_LINE_BYTES 64 /* a cache line: no two threads write the same one */

/* Zeroed memory at the start of a cache line; *block is what to release. NULL when exhausted. */
static inline void *mbr_line_allocate(const mbr_heap *heap, size_t bytes, void **block)
{
    *block = mbr_heap_allocate(heap, bytes + MBR_LINE_BYTES - 1);
    if (*block == NULL)
        return NULL;
    uintptr_t start = (uintptr_t)*block;
    return (char *)*block + (MBR_LINE_BYTES - start % MBR_LINE_BYTES) % MBR_LINE_BYTES;
}

#endif
