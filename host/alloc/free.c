/* Responsible for the end of an allocation: at once, or through the release queue of its context;
 * and for what a client may ask about one. Exactly one
 * exchange of the record's word decides who ends it; everything after that is the winner's alone.
 */
#include "host/alloc/cache.h"
#include "host/alloc/payer.h"

/* ---- Finding --------------------------------------------------------------------------------- */
static inline uint32_t index_of(mbr_allocation_handle handle)
{
    return (uint32_t)(handle.value & (MBR_ALLOCATION_LIMIT_COUNT - 1));
}

/* 0: there is none. */
static inline uint32_t find_handle(
    const mbr_alloc_table *table, mbr_allocation_handle handle, uint64_t *word)
{
    const mbr_record *record = mbr_table_record(table, index_of(handle));
    if (__builtin_expect(record == NULL, 0))
        return 0;
    *word = mbr_record_word(record);
    bool same = ((*word ^ handle.value) & MBR_WORD_GENERATION) == 0;
    return __builtin_expect(same, 1) ? index_of(handle) : 0;
}

static inline uint32_t find(const mbr_alloc_table *table, mbr_allocation_handle handle,
    uint64_t address, bool interior, uint64_t *word)
{
    return handle.value != 0 ? find_handle(table, handle, word)
                             : mbr_table_find_address(table, address, interior, word);
}

MBR_RARE static mbr_status refuse_unknown(
    mbr_allocation_handle handle, uint64_t address, mbr_error *error)
{
    if (handle.value != 0)
        return mbr_fail(error, MBR_UNKNOWN_OBJECT,
            "handle 0x%llx names no live allocation: it was never given, or is released or queued "
            "already",
            (unsigned long long)handle.value);
    return mbr_fail(error, MBR_UNKNOWN_OBJECT,
        "no live allocation starts at 0x%llx: unknown, inside of one, or released or queued "
        "already",
        (unsigned long long)address);
}

/* ---- At once --------------------------------------------------------------------------------- */
/* True, as what comes next. */
MBR_RARE static bool release_slow(const mbr_alloc_table *table, uint32_t block, uint64_t word)
{
    const mbr_slab *slab = mbr_table_slab(table, block);
    mbr_arena *arena = slab->arena;
    mbr_cache *cache = mbr_cache_find(arena);
    mbr_payer_refund(
        arena, cache, word, atomic_load_explicit(&slab->block_bytes, memory_order_relaxed));
    mbr_cache_put(arena, cache, block);
    return true;
}

/* By tally, into a magazine that has room. In line, and calls nothing but, at its end, the slow
 * way. */
static inline bool release(
    const mbr_alloc_table *table, const mbr_slab *slab, uint32_t block, uint64_t word)
{
    uint32_t class_index = slab->class_index;
    mbr_cache *cache = mbr_cache_peek(slab->arena);
    mbr_tally *tally = cache != NULL ? mbr_payer_peek(cache, word) : NULL;
    if (__builtin_expect(tally == NULL || class_index == MBR_CLASS_OWN_SPAN ||
                !mbr_cache_has_room(cache, class_index),
            0))
        return release_slow(table, block, word);
    mbr_tally_add(
        &tally->freed_bytes, atomic_load_explicit(&slab->block_bytes, memory_order_relaxed));
    mbr_cache_push(cache, class_index, block);
    return true;
}

/* What is released last is given next, and is written to then: where the processor does that, its
 * first line comes while the record's does. Nothing that is read here has to be true. */
static inline void prefetch_block(const mbr_slab *slab, uint32_t block)
{
    if (slab != NULL && atomic_load_explicit(&slab->host_accessible, memory_order_relaxed))
        __builtin_prefetch((const void *)(uintptr_t)mbr_block_address(slab, block), 1);
}

bool mbr_alloc_try_free(mbr_alloc_table *table, mbr_allocation_handle allocation)
{
    uint32_t block = index_of(allocation);
    mbr_chunk *chunk = mbr_table_chunk(table, block);
    if (__builtin_expect(chunk == NULL, 0))
        return false;
    mbr_record *record = &chunk->records[block & (MBR_CHUNK_RECORDS - 1)];
    const mbr_slab *slab = mbr_chunk_slab(table, chunk, block);
    prefetch_block(slab, block);
    uint64_t word = mbr_record_word(record);
    if (__builtin_expect(((word ^ allocation.value) & MBR_WORD_GENERATION) != 0 ||
                mbr_word_state(word) != MBR_ALLOCATION_LIVE ||
                !mbr_record_try_move(record, &word, MBR_ALLOCATION_RELEASED),
            0))
        return false;
    return release(table, slab, block, word);
}

/* ---- Through the queue ----------------------------------------------------------------------- */
/* On whatever thread reaps. The arena may end as soon as its lock is dropped, unless it waits for
 * slabs that are being given. */
static void settle(mbr_deferred *entry, mbr_settled how)
{
    mbr_arena *arena = ((mbr_waiting *)entry)->arena;
    uint32_t block = ((mbr_waiting *)entry)->block;
    mbr_record *record = mbr_table_record(arena->table, block);
    uint64_t word = mbr_record_word(record);
    const mbr_slab *slab = mbr_table_slab(arena->table, block);
    uint64_t bytes = atomic_load_explicit(&slab->block_bytes, memory_order_relaxed);
    if (how == MBR_SETTLED_LOST) {
        mbr_block_quarantine(arena, block, word, MBR_ALLOCATION_DEVICE_LOST);
        mbr_arena_uncount_queued(arena, bytes);
        return;
    }
    mbr_record_move(record, &word, MBR_ALLOCATION_RELEASED);
    mbr_lock_take(&arena->lock);
    mbr_payer_refund_locked(arena, word, bytes);
    mbr_slabs_put_locked(arena, block);
    mbr_arena_uncount_queued(arena, bytes);
    mbr_slab *detached = mbr_slabs_detach_locked(arena, arena->keep_bytes);
    mbr_lock_drop(&arena->lock);
    mbr_slabs_give(arena, detached);
}

_Static_assert(offsetof(mbr_waiting, deferred) == 0, "settle finds the entry around the deferred");

/* `before` is its state where the queue refuses; `graphs` are those that own a captured one. */
__attribute__((noinline)) static mbr_status queue(mbr_alloc_table *table, uint32_t block,
    uint64_t word, uint32_t before, mbr_graphs graphs, const uint64_t *stream_ids,
    uint32_t stream_count, mbr_error *error)
{
    const mbr_slab *slab = mbr_table_slab(table, block);
    mbr_arena *arena = slab->arena;
    uint64_t bytes = atomic_load_explicit(&slab->block_bytes, memory_order_relaxed);
    mbr_waiting *waiting = mbr_table_waiting(table, block);
    *waiting = (mbr_waiting){{.bytes = bytes,
                                 .settle = settle,
                                 .graphs = graphs,
                                 .shelf = &arena->bins[slab->class_index].queued},
        arena, block};
    mbr_arena_count_queued(arena, bytes); /* before: it may settle before defer returns */
    mbr_error own = {MBR_SIZED(mbr_error)};
    mbr_status status =
        mbr_context_defer(arena->context, stream_ids, stream_count, &waiting->deferred, &own);
    if (status == MBR_OK)
        return MBR_OK;
    if (status == MBR_DEVICE_LOST) { /* as if it had been queued just before the loss */
        if (mbr_context_has_ended(arena->context)) {
            settle(&waiting->deferred, MBR_SETTLED_RELEASED);
            return MBR_OK;
        }
        mbr_block_quarantine(arena, block, word, MBR_ALLOCATION_DEVICE_LOST);
        if (mbr_context_has_ended(arena->context))
            mbr_arena_confirm_lost(arena); /* whoever confirms just now may have passed this one */
        mbr_arena_uncount_queued(arena, bytes);
        return MBR_OK;
    }
    if (before == MBR_ALLOCATION_QUARANTINED)
        mbr_block_quarantine(arena, block, word, before);
    else
        mbr_record_move(mbr_table_record(table, block), &word, before);
    mbr_arena_uncount_queued(arena, bytes);
    mbr_error_copy(error, &own);
    return status;
}

/* The stream that it was allocated for; 0: none. */
static uint64_t own_stream(const mbr_alloc_table *table, uint32_t block, uint64_t word)
{
    if ((word & MBR_WORD_NOTED) == 0)
        return 0;
    return atomic_load_explicit(&mbr_table_note(table, block)->stream_id, memory_order_relaxed);
}

/* Of a captured one, which is queued by now: at once only if no graph owns it any more. */
MBR_RARE static mbr_status end_captured(mbr_alloc_table *table, uint32_t block, uint64_t word,
    bool now, const uint64_t *stream_ids, uint32_t stream_count, mbr_error *error)
{
    mbr_graphs graphs = mbr_table_waiting(table, block)->deferred.graphs;
    const mbr_slab *slab = mbr_table_slab(table, block);
    if (!now || mbr_context_owns(slab->arena->context, graphs))
        return queue(table, block, word, MBR_ALLOCATION_CAPTURED, graphs, stream_ids,
            now ? 0 : stream_count, error);
    mbr_record_move(mbr_table_record(table, block), &word, MBR_ALLOCATION_RELEASED);
    release(table, slab, block, word);
    return MBR_OK;
}

static mbr_status refuse_detached(mbr_error *error)
{
    return mbr_fail(error, MBR_STALE,
        "the stream that the allocation was made for is detached; name the streams that may still "
        "touch it, or free it with MBR_FREE_NOW where none does");
}

/* The block's state is not what it was a moment ago. Abandoned meanwhile, it is there as before. */
static mbr_status free_again(mbr_alloc_table *table, mbr_allocation_handle allocation,
    uint64_t address, uint64_t word, bool now, const uint64_t *stream_ids, uint32_t stream_count,
    mbr_error *error)
{
    return mbr_word_state(word) == MBR_ALLOCATION_QUARANTINED
        ? mbr_alloc_free(table, allocation, address, now, stream_ids, stream_count, error)
        : refuse_unknown(allocation, address, error);
}

/* Before anything is asked of it: queued, and with the graphs that may touch it. */
static bool begin_end(mbr_alloc_table *table, uint32_t block, uint64_t *word, mbr_graphs *graphs)
{
    const mbr_graphs none = {0, 0};
    bool quarantined = mbr_word_state(*word) == MBR_ALLOCATION_QUARANTINED;
    if (!mbr_record_try_move(mbr_table_record(table, block), word, MBR_ALLOCATION_QUEUED))
        return false;
    *graphs =
        quarantined ? mbr_block_take_back(mbr_table_slab(table, block)->arena, block, *word) : none;
    return true;
}

/* Of one that was given again, or abandoned. Whoever frees it answers for its own use and not for
 * all the work that may touch it: of the memory's former life, which its own stream comes after, or
 * of whoever abandoned it. It waits for its own stream, too. Where that is detached nobody can, and
 * the caller's word is all there is. */
__attribute__((noinline)) static mbr_status end_behind_own(mbr_alloc_table *table, uint32_t block,
    uint64_t word, bool now, const uint64_t *stream_ids, uint32_t stream_count, mbr_error *error)
{
    const uint32_t before = mbr_word_state(word);
    const mbr_slab *slab = mbr_table_slab(table, block);
    mbr_allocation_handle handle = {mbr_word_handle(word, block)};
    uint64_t ids[MBR_DEFER_STREAM_COUNT + 1] = {own_stream(table, block, word)};
    uint64_t first = word;
    mbr_graphs graphs;
    uint32_t count = 1;
    for (uint32_t i = 0; i < stream_count && !now && count <= MBR_DEFER_STREAM_COUNT; i++) {
        if (stream_ids[i] != ids[0])
            ids[count++] = stream_ids[i];
    }
    if (ids[0] != 0) {
        if (!begin_end(table, block, &first, &graphs))
            return free_again(table, handle, 0, first, now, stream_ids, stream_count, error);
        mbr_status status = queue(table, block, first, before, graphs, ids, count, error);
        if (status != MBR_UNKNOWN_OBJECT)
            return status;
        if (!now && stream_count == 0)
            return refuse_detached(error);
    }
    now |= stream_count == 0; /* used by the host alone */
    if (!begin_end(table, block, &word, &graphs))
        return free_again(table, handle, 0, word, now, stream_ids, stream_count, error);
    if (!now || mbr_context_owns(slab->arena->context, graphs))
        return queue(table, block, word, before, graphs, stream_ids, now ? 0 : stream_count, error);
    mbr_record_move(mbr_table_record(table, block), &word, MBR_ALLOCATION_RELEASED);
    release(table, slab, block, word);
    return MBR_OK;
}

mbr_status mbr_alloc_free(mbr_alloc_table *table, mbr_allocation_handle allocation,
    uint64_t address, bool now, const uint64_t *stream_ids, uint32_t stream_count, mbr_error *error)
{
    const uint64_t *ids = stream_ids;
    uint64_t word = 0, own = 0;
    uint32_t count = stream_count;
    bool at_once = now;
    uint32_t block = find(table, allocation, address, false, &word);
    uint32_t state = block != 0 ? mbr_word_state(word) : 0;
    bool captured = state == MBR_ALLOCATION_CAPTURED;
    if (state == MBR_ALLOCATION_GIVEN_AGAIN || state == MBR_ALLOCATION_QUARANTINED)
        return end_behind_own(table, block, word, now, stream_ids, stream_count, error);
    if (__builtin_expect(state != MBR_ALLOCATION_LIVE && !captured, 0))
        return refuse_unknown(allocation, address, error);
    if (!now && stream_count == 0) {
        own = own_stream(table, block, word);
        ids = &own;
        count = own != 0;
        at_once = own == 0; /* used by the host alone */
    }
    uint32_t next = at_once && !captured ? MBR_ALLOCATION_RELEASED : MBR_ALLOCATION_QUEUED;
    if (!mbr_record_try_move(mbr_table_record(table, block), &word, next))
        return free_again(table, allocation, address, word, now, stream_ids, stream_count, error);
    if (at_once && !captured) {
        release(table, mbr_table_slab(table, block), block, word);
        return MBR_OK;
    }
    const mbr_graphs none = {0, 0};
    mbr_status status = captured
        ? end_captured(table, block, word, at_once, ids, count, error)
        : queue(table, block, word, MBR_ALLOCATION_LIVE, none, ids, count, error);
    if (status == MBR_UNKNOWN_OBJECT && own != 0) /* nobody can wait for it any more */
        return refuse_detached(error);
    return status;
}

/* ---- Figures --------------------------------------------------------------------------------- */
static mbr_status refuse_view(
    const mbr_alloc_table *table, mbr_allocation_handle handle, uint64_t address, mbr_error *error)
{
    if (handle.value == 0)
        return mbr_fail(error, MBR_UNKNOWN_OBJECT, "no allocation holds the address 0x%llx",
            (unsigned long long)address);
    const mbr_record *record = mbr_table_record(table, index_of(handle));
    uint64_t generation = handle.value & MBR_WORD_GENERATION;
    if (record == NULL || generation == 0 ||
        (mbr_record_word(record) & MBR_WORD_GENERATION) < generation)
        return mbr_fail(error, MBR_UNKNOWN_OBJECT, "handle 0x%llx was never given",
            (unsigned long long)handle.value);
    return mbr_fail(error, MBR_STALE, "the allocation of handle 0x%llx was released",
        (unsigned long long)handle.value);
}

static void describe(
    const mbr_alloc_table *table, uint32_t block, uint64_t word, mbr_allocation_figures *figures)
{
    const mbr_slab *slab = mbr_table_slab(table, block);
    uint64_t usable = atomic_load_explicit(&slab->usable_bytes, memory_order_relaxed);
    uint64_t asked = atomic_load_explicit(&slab->asked_bytes, memory_order_relaxed);
    const mbr_note *note = (word & MBR_WORD_NOTED) != 0 ? mbr_table_note(table, block) : NULL;
    uint64_t slack = note != NULL ? atomic_load_explicit(&note->slack_bytes, memory_order_relaxed)
                                  : mbr_word_slack_bytes(word);
    /* A span of its own is the one kind of slab without a reciprocal. */
    bool own = atomic_load_explicit(&slab->reciprocal, memory_order_relaxed) == 0;
    figures->state = mbr_word_state(word);
    figures->address = mbr_block_address(slab, block);
    figures->bytes = own ? asked : usable - slack;
    figures->charged_bytes = atomic_load_explicit(&slab->block_bytes, memory_order_relaxed);
    figures->tag = note != NULL ? atomic_load_explicit(&note->tag, memory_order_relaxed) : 0;
    figures->allocation.value = mbr_word_handle(word, block);
}

/* No lock: what was read is right if the word is still the same afterwards. */
mbr_status mbr_alloc_table_read(mbr_alloc_table *table, mbr_allocation_handle allocation,
    uint64_t address, mbr_allocation_figures *figures, mbr_error *error)
{
    for (;;) {
        uint64_t word = 0;
        uint32_t block = find(table, allocation, address, true, &word);
        uint32_t state = mbr_word_state(word);
        if (block == 0 || state == 0 || state == MBR_ALLOCATION_RELEASED)
            return refuse_view(table, allocation, address, error);
        describe(table, block, word, figures);
        atomic_thread_fence(memory_order_acquire);
        const mbr_record *record = mbr_table_record(table, block);
        if (atomic_load_explicit(&record->word, memory_order_relaxed) == word)
            return MBR_OK;
    }
}
