/* Size classes: pure arithmetic. Multiples of 256 bytes up to 1 KiB, then four classes for each
 * doubling up to MBR_CLASS_MAX_BYTES, so that a block wastes at most a fifth of itself above 1 KiB.
 *
 *     class_bytes(class_of(bytes)) >= bytes, and no smaller class holds bytes */
#ifndef MEMBRANE_HOST_ALLOC_CLASS_H
#define MEMBRANE_HOST_ALLOC_CLASS_H

#include <stdbool.h>
#include <stdint.h>

#define MBR_BLOCK_ALIGN_BYTES UINT64_C(256) /* of every block */
#define MBR_CLASS_COUNT 68                  /* classes that are cut from slabs */
#define MBR_CLASS_OWN_SPAN MBR_CLASS_COUNT  /* no class: one block over a span of its own */
#define MBR_CLASS_FIRST_LARGE 28            /* the first class above 64 KiB */
#define MBR_SPAN_ALIGN_MIN_BYTES (UINT64_C(64) << 10) /* a page of the address map */
#define MBR_SPAN_ALIGN_MAX_BYTES (UINT64_C(2) << 20)  /* above it a request gets its own span */
#define MBR_SLAB_BLOCK_LIMIT_COUNT 8192
#define MBR_SLAB_SPAN_MAX_BYTES (UINT64_C(64) << 20) /* no block of a slab starts beyond it */

/* The smallest class that holds bytes, which is at most MBR_CLASS_MAX_BYTES. */
static inline uint32_t mbr_class_of(uint64_t bytes)
{
    if (bytes <= 1024)
        return bytes == 0 ? 0 : (uint32_t)((bytes - 1) >> 8);
    uint32_t log = 63 - (uint32_t)__builtin_clzll(bytes - 1);
    return (log - 10) * 4 + (uint32_t)((bytes - 1) >> (log - 2) & 3) + 4;
}

static inline uint64_t mbr_class_bytes(uint32_t class_index)
{
    if (class_index < 4)
        return (class_index + UINT64_C(1)) << 8;
    uint32_t log = (class_index - 4) / 4 + 10;
    return ((class_index - 4) % 4 + UINT64_C(5)) << (log - 2);
}

/* The largest power of two that divides value, which is not 0. */
static inline uint64_t mbr_natural_align(uint64_t value)
{
    return value & (~value + 1);
}

/* The smallest class whose blocks hold bytes at align_bytes, a power of two; MBR_CLASS_OWN_SPAN
 * where none does. */
uint32_t mbr_class_for(uint64_t bytes, uint64_t align_bytes);

/* How the slabs of a class are cut. */
typedef struct mbr_slab_plan {
    uint64_t span_bytes;      /* what is asked of the backing */
    uint64_t align_bytes;     /* of the span */
    uint32_t most_blocks;     /* also where the span is larger than asked */
    uint32_t magazine_blocks; /* that one thread keeps at first, */
    uint32_t magazine_limit;  /* and where it frees more than that at a time */
} mbr_slab_plan;

mbr_slab_plan mbr_class_plan(uint32_t class_index);

/* Division of an offset inside a slab by its block's size, as a product: exact for offsets below
 * MBR_SLAB_SPAN_MAX_BYTES and sizes that are multiples of 256. */
static inline uint64_t mbr_block_reciprocal(uint64_t block_bytes)
{
    uint64_t units = block_bytes >> 8;
    return ((UINT64_C(1) << 40) + units - 1) / units;
}

static inline uint64_t mbr_block_divide(uint64_t offset_bytes, uint64_t reciprocal)
{
    return (offset_bytes >> 8) * reciprocal >> 40;
}

#endif
