/* Responsible for blocks whose release still waits in the queue and that new work may have at once:
 * which would serve it, and whose bill it is. Never waits and never asks a stream; the context does
 * what there is to do about order. */
#include "host/alloc/payer.h"

static bool is_payer(uint64_t word, uint64_t payer_bits)
{
    return ((word ^ payer_bits) & (MBR_WORD_PAYER | MBR_WORD_EXACT)) == 0;
}

/* Blocks of a class are all alike. A span of its own serves what leaves at most an eighth of it. */
static bool has_the_size(const mbr_waiting *waiting, const mbr_reactivation *wanted)
{
    const mbr_slab *slab = mbr_table_slab(waiting->arena->table, waiting->block);
    uint64_t usable = atomic_load_explicit(&slab->usable_bytes, memory_order_relaxed);
    if (slab->class_index != MBR_CLASS_OWN_SPAN)
        return true;
    uint64_t align = mbr_max(wanted->align_bytes, 1);
    return wanted->bytes <= usable && usable - wanted->bytes <= usable / 8 &&
        (mbr_block_address(slab, waiting->block) & (align - 1)) == 0;
}

/* Under the context's lock. A payer with an allowance could refuse, so it gets what it pays for. */
static bool may_serve(const mbr_deferred *entry, const void *context)
{
    const mbr_reactivation *wanted = context;
    const mbr_waiting *waiting = (const mbr_waiting *)entry;
    uint64_t word = mbr_record_word(mbr_table_record(waiting->arena->table, waiting->block));
    bool may_be_paid =
        (wanted->payer_bits & MBR_WORD_EXACT) == 0 || is_payer(word, wanted->payer_bits);
    return may_be_paid && !mbr_word_is_worn(word) && has_the_size(waiting, wanted);
}

uint32_t mbr_alloc_reactivate(mbr_arena *arena, mbr_cache *cache, mbr_reactivation *wanted)
{
    if (atomic_load_explicit(&arena->queued_count, memory_order_relaxed) == 0)
        return 0;
    mbr_deferred *entry =
        mbr_context_reactivate(arena->context, &arena->bins[wanted->class_index].queued,
            wanted->stream_id, wanted->behind_others, may_serve, wanted);
    if (entry == NULL)
        return 0;
    uint32_t block = ((mbr_waiting *)entry)->block;
    mbr_record *record = mbr_table_record(arena->table, block);
    uint64_t word = mbr_record_word(record);
    wanted->is_paid = is_payer(word, wanted->payer_bits);
    if (!wanted->is_paid)
        mbr_payer_refund(arena, cache, word, entry->bytes);
    mbr_record_move(record, &word, MBR_ALLOCATION_REACTIVATED);
    if (wanted->class_index == MBR_CLASS_OWN_SPAN)
        atomic_store_explicit(
            &mbr_table_slab(arena->table, block)->asked_bytes, wanted->bytes, memory_order_relaxed);
    mbr_arena_uncount_queued(arena, entry->bytes);
    return block;
}
