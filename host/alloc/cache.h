/* The calling thread's cache of one arena: blocks that it may hand out without a lock. */
#ifndef MEMBRANE_HOST_ALLOC_CACHE_H
#define MEMBRANE_HOST_ALLOC_CACHE_H

#include "abi/base/thread.h"
#include "host/alloc/record.h"

#define MBR_THREAD_ARENA_COUNT 16 /* arenas that a thread finds at once */

typedef struct mbr_thread_slot {
    uint64_t arena_id;
    mbr_cache *cache;
} mbr_thread_slot;

extern MBR_THREAD_HOT mbr_thread_slot mbr_thread_slots[MBR_THREAD_ARENA_COUNT];

/* Makes the cache, or finds it again after a collision. NULL: no host memory, or the thread's end
 * would not be seen; the thread then works without one. */
mbr_cache *mbr_cache_open(mbr_arena *arena);

/* NULL: none is known here. */
static inline mbr_cache *mbr_cache_peek(const mbr_arena *arena)
{
    const mbr_thread_slot *slot = &mbr_thread_slots[arena->id & (MBR_THREAD_ARENA_COUNT - 1)];
    return __builtin_expect(slot->arena_id == arena->id, 1) ? slot->cache : NULL;
}

static inline mbr_cache *mbr_cache_find(mbr_arena *arena)
{
    mbr_cache *cache = mbr_cache_peek(arena);
    return __builtin_expect(cache != NULL, 1) ? cache : mbr_cache_open(arena);
}

/* Others, who hold the arena's lock, look no further than this: a block that is being pushed right
 * now they see or do not see, as if they had come a moment later or earlier. */
static inline uint32_t mbr_magazine_top(const mbr_magazine *magazine)
{
    return atomic_load_explicit(&magazine->top_index, memory_order_relaxed);
}

static inline void mbr_magazine_set_top(mbr_magazine *magazine, uint32_t top_index)
{
    atomic_store_explicit(&magazine->top_index, top_index, memory_order_relaxed);
}

/* A block of the class, or 0. Others may have taken what is below the top. */
static inline uint32_t mbr_cache_pop(mbr_cache *cache, uint32_t class_index)
{
    mbr_magazine *magazine = &cache->magazines[class_index];
    for (uint32_t top = mbr_magazine_top(magazine); top-- != 0;) {
        mbr_magazine_set_top(magazine, top);
        uint32_t block = atomic_exchange_explicit(&magazine->blocks[top], 0, memory_order_acquire);
        cache->large_bytes -= magazine->counted_bytes;
        if (__builtin_expect(block != 0, 1))
            return block;
    }
    return 0;
}

static inline bool mbr_cache_has_room(const mbr_cache *cache, uint32_t class_index)
{
    const mbr_magazine *magazine = &cache->magazines[class_index];
    return mbr_magazine_top(magazine) != magazine->limit_count &&
        cache->large_bytes + magazine->counted_bytes <= MBR_CACHE_LARGE_LIMIT_BYTES;
}

/* It has room. */
static inline void mbr_cache_push(mbr_cache *cache, uint32_t class_index, uint32_t block)
{
    mbr_magazine *magazine = &cache->magazines[class_index];
    cache->large_bytes += magazine->counted_bytes;
    uint32_t top = mbr_magazine_top(magazine);
    atomic_store_explicit(&magazine->blocks[top], block, memory_order_release);
    mbr_magazine_set_top(magazine, top + 1);
}

/* A block out of the slabs; more go to the magazine. `cache` may be NULL. 0: there is none. */
uint32_t mbr_cache_refill(mbr_arena *arena, mbr_cache *cache, uint32_t class_index);

/* The same out of a new slab, for which the backing is asked. */
uint32_t mbr_cache_grow(mbr_arena *arena, mbr_cache *cache, const mbr_slab_request *request,
    mbr_status *status, mbr_error *error);

/* Takes a block back where the thread has no room for it: others go to the slabs to make some, or
 * it goes itself. */
void mbr_cache_put_slow(mbr_arena *arena, mbr_cache *cache, uint32_t block);

static inline void mbr_cache_put(mbr_arena *arena, mbr_cache *cache, uint32_t block)
{
    uint32_t class_index = mbr_table_slab(arena->table, block)->class_index;
    if (__builtin_expect(cache == NULL || class_index == MBR_CLASS_OWN_SPAN ||
                !mbr_cache_has_room(cache, class_index),
            0))
        mbr_cache_put_slow(arena, cache, block);
    else
        mbr_cache_push(cache, class_index, block);
}

#endif
