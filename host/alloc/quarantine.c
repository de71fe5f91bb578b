/* Responsible for blocks that nobody uses and that are not free: lost with their device, or
 * abandoned with their binding. Each stays charged to whoever paid, with a mark in the books, until
 * the end of its context is confirmed, or until an abandoned one is freed after all. Queues
 * nothing and asks no stream. */
#include "host/alloc/payer.h"

static uint64_t bytes_of(const mbr_arena *arena, uint32_t block)
{
    const mbr_slab *slab = mbr_table_slab(arena->table, block);
    return atomic_load_explicit(&slab->block_bytes, memory_order_relaxed);
}

static mbr_holder *payer_of(const mbr_arena *arena, uint64_t word) MBR_REQUIRES(&arena->lock)
{
    return mbr_payer_at(arena, mbr_word_payer(word))->holder;
}

/* Its charge is in the books by now. */
static void mark_locked(mbr_arena *arena, uint32_t block, uint64_t word) MBR_REQUIRES(&arena->lock)
{
    uint64_t bytes = bytes_of(arena, block);
    mbr_quarantine(payer_of(arena, word), bytes);
    arena->quarantined_count++;
    arena->quarantined_bytes += bytes;
}

static void unmark_locked(mbr_arena *arena, uint32_t block, uint64_t word)
    MBR_REQUIRES(&arena->lock)
{
    uint64_t bytes = bytes_of(arena, block);
    mbr_quarantine_settle(payer_of(arena, word), bytes);
    arena->quarantined_count--;
    arena->quarantined_bytes -= bytes;
}

void mbr_block_quarantine(mbr_arena *arena, uint32_t block, uint64_t word, uint32_t to)
{
    mbr_lock_take(&arena->lock);
    mbr_payers_fold_locked(arena);
    mark_locked(arena, block, word);
    mbr_record_move(mbr_table_record(arena->table, block), &word, to);
    mbr_lock_drop(&arena->lock);
}

/* Whoever abandons holds the lock from the block's new state to its graphs, so they are here. */
mbr_graphs mbr_block_take_back(mbr_arena *arena, uint32_t block, uint64_t word)
{
    mbr_lock_take(&arena->lock);
    mbr_graphs graphs = mbr_table_waiting(arena->table, block)->deferred.graphs;
    unmark_locked(arena, block, word);
    mbr_lock_drop(&arena->lock);
    return graphs;
}

/* ---- A binding that is abandoned ------------------------------------------------------------- */
/* Whose free is faster has it. */
static bool abandon_block_locked(mbr_arena *arena, uint32_t block) MBR_REQUIRES(&arena->lock)
{
    const mbr_graphs none = {0, 0};
    mbr_record *record = mbr_table_record(arena->table, block);
    uint64_t word = mbr_record_word(record);
    uint32_t state = mbr_word_state(word);
    if (state != MBR_ALLOCATION_LIVE && state != MBR_ALLOCATION_CAPTURED &&
        state != MBR_ALLOCATION_GIVEN_AGAIN)
        return false;
    if (!mbr_record_try_move(record, &word, MBR_ALLOCATION_QUARANTINED))
        return false;
    if (state != MBR_ALLOCATION_CAPTURED)
        mbr_table_waiting(arena->table, block)->deferred.graphs = none;
    mark_locked(arena, block, word);
    return true;
}

uint64_t mbr_arena_abandon(mbr_arena *arena)
{
    uint64_t count = 0;
    mbr_lock_take(&arena->lock);
    mbr_payers_fold_locked(arena);
    for (mbr_slab *slab = arena->slabs; slab != NULL; slab = slab->all_next) {
        uint32_t first = atomic_load_explicit(&slab->first_index, memory_order_relaxed);
        for (uint32_t i = 0; i < slab->carved_count; i++)
            count += abandon_block_locked(arena, first + i);
    }
    mbr_lock_drop(&arena->lock);
    if (mbr_context_has_ended(arena->context))
        mbr_arena_confirm_lost(arena); /* whoever confirms may have passed here before */
    return count;
}

/* ---- The confirmed end of a lost context ----------------------------------------------------- */
static uint64_t confirm_block_locked(mbr_arena *arena, uint32_t block) MBR_REQUIRES(&arena->lock)
{
    mbr_record *record = mbr_table_record(arena->table, block);
    uint64_t word = mbr_record_word(record);
    uint32_t state = mbr_word_state(word);
    if (state != MBR_ALLOCATION_DEVICE_LOST && state != MBR_ALLOCATION_QUARANTINED)
        return 0;
    if (!mbr_record_try_move(record, &word, MBR_ALLOCATION_RELEASED))
        return 0; /* it is freed after all */
    uint64_t bytes = bytes_of(arena, block);
    unmark_locked(arena, block, word);
    mbr_payer_refund_locked(arena, word, bytes);
    mbr_slabs_put_locked(arena, block);
    return bytes;
}

uint64_t mbr_arena_confirm_lost(mbr_arena *arena)
{
    uint64_t released_bytes = 0;
    mbr_lock_take(&arena->lock);
    arena->keep_bytes = 0; /* nobody allocates here any more */
    mbr_caches_collect_locked(arena);
    for (mbr_slab *slab = arena->slabs; slab != NULL; slab = slab->all_next) {
        uint32_t first = atomic_load_explicit(&slab->first_index, memory_order_relaxed);
        for (uint32_t i = 0; i < slab->carved_count; i++)
            released_bytes += confirm_block_locked(arena, first + i);
    }
    mbr_lock_drop(&arena->lock);
    mbr_slabs_shed(arena, 0);
    return released_bytes;
}
