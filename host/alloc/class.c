/* Size classes: which class holds a request, and how a class's slabs are cut. Never touches memory
 * and keeps nothing. */
#include "host/alloc/class.h"

#include "abi/base/checked.h"
#include "host/alloc/arena.h"

#define SPAN_MIN_BYTES (UINT64_C(2) << 20)
#define SPAN_MAX_BYTES (UINT64_C(16) << 20) /* of slabs of several blocks */
#define SPAN_BLOCK_COUNT 8                  /* blocks that a span has room for, where it may */
#define MAGAZINE_BYTES (UINT64_C(16) << 20)
#define MAGAZINE_COUNT 64
/* Of magazines that grew. Small blocks: batches of a thousand stay with their thread, and bytes
 * stay few. Large ones: a thread's bytes have a limit of their own. */
#define MAGAZINE_LIMIT_COUNT 1024
#define MAGAZINE_SMALL_BYTES (UINT64_C(4) << 20)
#define MAGAZINE_LARGE_BYTES (UINT64_C(64) << 20)

uint32_t mbr_class_for(uint64_t bytes, uint64_t align_bytes)
{
    if (bytes > MBR_CLASS_MAX_BYTES || align_bytes > MBR_SPAN_ALIGN_MAX_BYTES)
        return MBR_CLASS_OWN_SPAN;
    uint32_t class_index = mbr_class_of(mbr_max(bytes, align_bytes));
    /* Ends within three steps: the next power of two is a class and above the alignment. */
    while (mbr_natural_align(mbr_class_bytes(class_index)) < align_bytes)
        class_index++;
    return class_index;
}

/* The smallest power of two that is at least value. */
static uint64_t power_above(uint64_t value)
{
    return UINT64_C(1) << (64 - __builtin_clzll(value - 1));
}

/* Spans of small blocks have few sizes, so that the backing's parked ranges fit the next slab
 * whatever its class; larger blocks fill theirs exactly. */
static uint64_t span_bytes_of(uint64_t block_bytes)
{
    if (block_bytes > SPAN_MIN_BYTES)
        return mbr_max(SPAN_MAX_BYTES / block_bytes, 1) * block_bytes;
    return mbr_max(power_above(block_bytes * SPAN_BLOCK_COUNT), SPAN_MIN_BYTES);
}

static uint64_t clamp_count(uint64_t count, uint64_t limit_count)
{
    return mbr_min(mbr_max(count, 1), limit_count);
}

mbr_slab_plan mbr_class_plan(uint32_t class_index)
{
    uint64_t block_bytes = mbr_class_bytes(class_index);
    uint64_t most = mbr_max(MBR_SLAB_SPAN_MAX_BYTES / block_bytes, 1);
    uint64_t kept = clamp_count(MAGAZINE_BYTES / block_bytes, MAGAZINE_COUNT);
    uint64_t limit = class_index < MBR_CLASS_FIRST_LARGE
        ? clamp_count(MAGAZINE_SMALL_BYTES / block_bytes, MAGAZINE_LIMIT_COUNT)
        : clamp_count(MAGAZINE_LARGE_BYTES / block_bytes, MAGAZINE_COUNT);
    return (mbr_slab_plan){
        .span_bytes = span_bytes_of(block_bytes),
        .align_bytes = mbr_min(mbr_max(mbr_natural_align(block_bytes), MBR_SPAN_ALIGN_MIN_BYTES),
            MBR_SPAN_ALIGN_MAX_BYTES),
        .most_blocks = (uint32_t)mbr_min(most, MBR_SLAB_BLOCK_LIMIT_COUNT),
        .magazine_blocks = (uint32_t)kept,
        .magazine_limit = (uint32_t)mbr_max(limit, kept),
    };
}
