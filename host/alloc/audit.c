/* Responsible for recomputing an arena's totals from its records, with threads at rest. Changes
 * nothing but the books, into which it folds first. */
#include "host/alloc/payer.h"
#include "host/alloc/record.h"

typedef struct sums {
    uint64_t count[MBR_ALLOCATION_GIVEN_AGAIN + 1]; /* by state */
    uint64_t bytes[MBR_ALLOCATION_GIVEN_AGAIN + 1];
    uint64_t tallied_bytes; /* of payers that are neither exact nor the cache */
    uint64_t out_count[MBR_CLASS_COUNT + 1];
    uint64_t slab_bytes, idle_bytes;
    uint64_t here_count;
} sums;

#define EQUAL(what, recomputed, kept)                                                              \
    do {                                                                                           \
        uint64_t recomputed_ = (recomputed), kept_ = (kept);                                       \
        if (recomputed_ != kept_)                                                                  \
            return mbr_fail(error, MBR_INTERNAL, "arena: %s: recomputed %llu, kept %llu", (what),  \
                (unsigned long long)recomputed_, (unsigned long long)kept_);                       \
    } while (0)

static bool is_here(const mbr_slab *slab, uint32_t block)
{
    return (slab->bits[block / 64] >> (block % 64) & 1) != 0;
}

/* A block is in the bits, or in a magazine or out; what is out has a state. */
static mbr_status sum_slab_locked(const mbr_arena *arena, const mbr_slab *slab, sums *sums,
    mbr_error *error) MBR_REQUIRES(&arena->lock)
{
    uint32_t first = atomic_load_explicit(&slab->first_index, memory_order_relaxed);
    uint64_t bytes = atomic_load_explicit(&slab->block_bytes, memory_order_relaxed);
    uint32_t here = 0;
    EQUAL("a slab's address", atomic_load_explicit(&slab->address, memory_order_relaxed),
        slab->span.address);
    for (uint32_t i = 0; i < slab->carved_count; i++) {
        const mbr_record *record = mbr_table_record(arena->table, first + i);
        uint64_t word = mbr_record_word(record);
        uint32_t state = mbr_word_state(word);
        bool is_out = state != 0 && state != MBR_ALLOCATION_RELEASED;
        here += is_here(slab, i);
        EQUAL("a record's slab", mbr_table_slab(arena->table, first + i) == slab, 1);
        EQUAL("blocks that are here and out", is_here(slab, i) && is_out, 0);
        sums->count[state]++;
        sums->bytes[state] += bytes;
        if (is_out && mbr_word_payer(word) != 0 && (word & MBR_WORD_EXACT) == 0)
            sums->tallied_bytes += bytes;
    }
    EQUAL("blocks here", here, slab->here_count);
    EQUAL("idle", slab->here_count + slab->worn_count == slab->carved_count, slab->idle);
    EQUAL("the slab of its first address",
        mbr_map_find(&arena->table->map, slab->span.address) == slab, 1);
    sums->out_count[slab->class_index] += slab->carved_count - here - slab->worn_count;
    sums->slab_bytes += slab->span.owned_bytes;
    sums->idle_bytes += slab->idle ? slab->span.owned_bytes : 0;
    return MBR_OK;
}

static mbr_status compare_locked(const mbr_arena *arena, const sums *sums, mbr_error *error)
    MBR_REQUIRES(&arena->lock)
{
    uint64_t kept[MBR_CLASS_COUNT + 1] = {0};
    uint64_t all = 0, in_magazines = 0;
    mbr_caches_count_locked((mbr_arena *)(uintptr_t)arena, kept);
    for (uint32_t i = 0; i <= MBR_CLASS_COUNT; i++) {
        EQUAL("blocks out of a class", sums->out_count[i], arena->bins[i].out_count);
        all += arena->bins[i].out_count;
        in_magazines += kept[i];
    }
    EQUAL("blocks in magazines and out",
        in_magazines + sums->count[MBR_ALLOCATION_LIVE] + sums->count[MBR_ALLOCATION_CAPTURED] +
            sums->count[MBR_ALLOCATION_GIVEN_AGAIN] + sums->count[MBR_ALLOCATION_QUEUED] +
            sums->count[MBR_ALLOCATION_DEVICE_LOST] + sums->count[MBR_ALLOCATION_QUARANTINED],
        all);
    EQUAL("queued allocations", sums->count[MBR_ALLOCATION_QUEUED],
        atomic_load_explicit(&arena->queued_count, memory_order_relaxed));
    EQUAL("queued bytes", sums->bytes[MBR_ALLOCATION_QUEUED],
        atomic_load_explicit(&arena->queued_bytes, memory_order_relaxed));
    EQUAL("quarantined allocations",
        sums->count[MBR_ALLOCATION_DEVICE_LOST] + sums->count[MBR_ALLOCATION_QUARANTINED],
        arena->quarantined_count);
    EQUAL("quarantined bytes",
        sums->bytes[MBR_ALLOCATION_DEVICE_LOST] + sums->bytes[MBR_ALLOCATION_QUARANTINED],
        arena->quarantined_bytes);
    EQUAL("bytes of spans", sums->slab_bytes, arena->slab_bytes);
    EQUAL("bytes of idle spans", sums->idle_bytes, arena->idle_bytes);
    EQUAL("bytes that holders pay for", sums->tallied_bytes, mbr_payers_total_locked(arena));
    return MBR_OK;
}

mbr_status mbr_arena_audit(mbr_arena *arena, mbr_error *error)
{
    sums sums = {0};
    mbr_status status = MBR_OK;
    mbr_lock_take(&arena->lock);
    mbr_payers_fold_locked(arena);
    for (mbr_slab *slab = arena->slabs; slab != NULL && status == MBR_OK; slab = slab->all_next)
        status = sum_slab_locked(arena, slab, &sums, error);
    if (status == MBR_OK)
        status = compare_locked(arena, &sums, error);
    mbr_lock_drop(&arena->lock);
    return status;
}
