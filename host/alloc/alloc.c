/* Responsible for one allocation from request to published result: class, payer, block, charge,
 * content, in this order, undone in reverse. Where the thread has no block it asks, dearest last:
 * releases that wait for the request's own stream, the slabs, completed releases, the backing, a
 * smaller span, other threads' blocks and idle slabs, releases that wait for other streams. Never
 * holds a lock by itself. */
#include "host/alloc/cache.h"
#include "host/alloc/payer.h"
#include "host/ep/context.h"

#include <string.h>

/* What one call needs, and where it stands. */
typedef struct need {
    mbr_arena *arena;
    mbr_cache *cache; /* NULL: the thread has none */
    const mbr_arena_request *request;
    uint32_t class_index;
    const mbr_memo *memo;  /* who pays */
    bool is_paid;          /* for the block, already */
    bool is_reaped;        /* a reap of this call has found nothing that was done */
    uint64_t queued_count; /* of the arena's releases, before anything was asked */
    mbr_status status;     /* of the last attempt */
    mbr_refusal refusal;   /* of the last refused one */
    mbr_error *error;
} need;

/* ---- A block where the thread has none ------------------------------------------------------- */
static uint32_t grow(need *need, uint32_t class_index, uint64_t span_bytes, uint64_t align_bytes)
{
    mbr_slab_request request = {.class_index = class_index,
        .span_bytes = span_bytes,
        .align_bytes = align_bytes,
        .stream_id = need->request->stream_id,
        .asked_bytes = need->request->bytes,
        .refusal = &need->refusal};
    return mbr_cache_grow(need->arena, need->cache, &request, &need->status, need->error);
}

/* A span for this one allocation. */
static uint32_t grow_own(need *need)
{
    uint64_t bytes;
    if (!mbr_align_up(mbr_max(need->request->bytes, 1), MBR_SPAN_ALIGN_MIN_BYTES, &bytes)) {
        need->status = mbr_fail(need->error, MBR_OVERFLOW,
            "%llu bytes do not fit 64 bits when rounded to %llu",
            (unsigned long long)need->request->bytes, (unsigned long long)MBR_SPAN_ALIGN_MIN_BYTES);
        return 0;
    }
    return grow(need, MBR_CLASS_OWN_SPAN, bytes,
        mbr_max(need->request->align_bytes, MBR_SPAN_ALIGN_MIN_BYTES));
}

/* A slab of one block: what a budget that has no room for more may still give. */
static uint32_t grow_least(need *need)
{
    if (need->class_index == MBR_CLASS_OWN_SPAN)
        return grow_own(need);
    return grow(need, need->class_index, mbr_class_bytes(need->class_index),
        mbr_class_plan(need->class_index).align_bytes);
}

static uint32_t refill(need *need)
{
    return need->class_index == MBR_CLASS_OWN_SPAN
        ? 0
        : mbr_cache_refill(need->arena, need->cache, need->class_index);
}

/* Out of the release queue. What must be zero is not taken: only the stream could fill it, and a
 * fill may be refused when the block cannot go back any more. */
static uint32_t reactivate(need *need, bool behind_others)
{
    if ((need->request->flags & MBR_ALLOC_ZEROED) != 0)
        return 0;
    mbr_reactivation wanted = {.class_index = need->class_index,
        .stream_id = need->request->stream_id,
        .bytes = need->request->bytes,
        .align_bytes = need->request->align_bytes,
        .payer_bits = need->memo->bits,
        .behind_others = behind_others};
    uint32_t block = mbr_alloc_reactivate(need->arena, need->cache, &wanted);
    need->is_paid = block != 0 && wanted.is_paid;
    return block;
}

static uint64_t queued_count(const mbr_arena *arena)
{
    return atomic_load_explicit(&arena->queued_count, memory_order_relaxed);
}

static uint32_t reap_and_refill(need *need)
{
    mbr_arena *arena = need->arena;
    if (need->queued_count == 0)
        return 0;
    need->is_reaped = mbr_context_reap(arena->context, true) == 0;
    return need->is_reaped ? 0 : refill(need);
}

/* Host memory does not come back by giving device memory back, and no giving back helps a request
 * above the limit. */
static bool may_reclaim(const need *need)
{
    return MBR_STATUS_CLASS(need->status) == MBR_CLASS_EXHAUSTED &&
        need->status != MBR_OUT_OF_HOST_MEMORY &&
        !(need->status == MBR_OVER_BUDGET && need->refusal.reason == MBR_REFUSED_CAPACITY);
}

/* Other caches are asked for what the last attempt lacked, and no more. */
static uint64_t press_others(const need *need, uint64_t bytes)
{
    const mbr_arena *arena = need->arena;
    if (need->status == MBR_OVER_BUDGET)
        bytes = need->refusal.asked_bytes -
            mbr_min(need->refusal.asked_bytes, need->refusal.available_bytes);
    return mbr_authority_press_caches(
        mbr_backing_authority(arena->backing), arena->cache_holder, bytes);
}

/* Whether another growth may fare better. Not where the books refused and nothing has come back
 * since: they would refuse it as they did the first, whose refusal stands and was true when it was
 * made. A device that refused has other users; what was queued another thread may have settled.
 *
 * What others give back meanwhile nobody misses: who tries again sees it, and who waits has a
 * ticket, whose submission looks at the books under the lock under which every later refund looks
 * for tickets; a refusal by itself has never registered anybody. */
static bool may_fit_now(const need *need, uint64_t given_bytes)
{
    return given_bytes != 0 || need->status != MBR_OVER_BUDGET ||
        queued_count(need->arena) != need->queued_count;
}

/* Other threads' blocks go back to their slabs: one of them may be what is needed, and slabs become
 * idle. Idle slabs and the backing's caches then make room. */
static uint32_t reclaim_and_grow(need *need)
{
    mbr_arena *arena = need->arena;
    bool has_released = !need->is_reaped && mbr_context_reap(arena->context, true) != 0;
    mbr_lock_take(&arena->lock);
    mbr_caches_collect_locked(arena);
    uint64_t idle_bytes = arena->idle_bytes;
    mbr_lock_drop(&arena->lock);
    uint32_t block = refill(need);
    /* What has just come back still stands mapped: the eviction below would have it made anew. */
    if (block == 0 && has_released)
        block = grow_least(need);
    if (block != 0) {
        mbr_slabs_shed(arena, UINT64_MAX);
        return block;
    }
    uint64_t bytes = need->class_index == MBR_CLASS_OWN_SPAN ? need->request->bytes
                                                             : mbr_class_bytes(need->class_index);
    uint64_t given_bytes = mbr_slabs_shed(arena, idle_bytes > bytes ? idle_bytes - bytes : 0);
    given_bytes += mbr_backing_evict(arena->backing, bytes);
    if (may_fit_now(need, given_bytes))
        block = grow_least(need);
    if (block == 0 && may_reclaim(need) && press_others(need, bytes) != 0)
        block = grow_least(need);
    if (block == 0 && may_reclaim(need))
        block = refill(need); /* meanwhile another thread may have released one */
    return block;
}

/* The class may round up past what is left, where the request itself still fits. */
static uint32_t grow_exact(need *need)
{
    uint64_t bytes;
    if (need->class_index == MBR_CLASS_OWN_SPAN ||
        !mbr_align_up(need->request->bytes, MBR_SPAN_ALIGN_MIN_BYTES, &bytes) ||
        bytes >= mbr_class_bytes(need->class_index))
        return 0;
    return grow_own(need);
}

/* 0: need->status says why. */
static uint32_t seek(need *need)
{
    need->queued_count = queued_count(need->arena);
    uint32_t block = reactivate(need, false);
    if (block == 0)
        block = refill(need);
    if (block == 0)
        block = reap_and_refill(need);
    if (block != 0)
        return block;
    if (need->class_index != MBR_CLASS_OWN_SPAN) {
        mbr_slab_plan plan = mbr_class_plan(need->class_index);
        block = grow(need, need->class_index, plan.span_bytes, plan.align_bytes);
        if (block != 0 || MBR_STATUS_CLASS(need->status) != MBR_CLASS_EXHAUSTED ||
            need->status == MBR_OUT_OF_HOST_MEMORY)
            return block;
    }
    block = grow_least(need);
    if (block == 0 && may_reclaim(need))
        block = reclaim_and_grow(need);
    if (block == 0 && MBR_STATUS_CLASS(need->status) == MBR_CLASS_EXHAUSTED)
        block = grow_exact(need);
    /* Instead of a refusal alone: the new work would stand still with the other stream. */
    if (block == 0 && MBR_STATUS_CLASS(need->status) == MBR_CLASS_EXHAUSTED)
        block = reactivate(need, true);
    return block;
}

static mbr_record *record_of(const need *need, uint32_t block)
{
    return mbr_table_record(need->arena->table, block);
}

/* A block whose record has generations left. */
static uint32_t take_block(need *need)
{
    for (;;) {
        uint32_t block = 0;
        if (need->cache != NULL && need->class_index != MBR_CLASS_OWN_SPAN)
            block = mbr_cache_pop(need->cache, need->class_index);
        if (block == 0)
            block = seek(need);
        if (block == 0 || !mbr_word_is_worn(mbr_record_word(record_of(need, block))))
            return block;
        mbr_lock_take(&need->arena->lock);
        mbr_slabs_wear_locked(need->arena, block);
        mbr_slab *detached = mbr_slabs_detach_locked(need->arena, need->arena->keep_bytes);
        mbr_lock_drop(&need->arena->lock);
        mbr_slabs_give(need->arena, detached);
    }
}

/* ---- Charge and content ---------------------------------------------------------------------- */
static void report_refusal(const need *need)
{
    if (need->status == MBR_OVER_BUDGET)
        mbr_context_give_refusal(need->arena->context, &need->refusal, need->request->refusal);
}

static bool charge(need *need, const mbr_memo *memo, uint64_t bytes)
{
    need->status = mbr_payer_charge(need->arena, memo, bytes, &need->refusal);
    if (need->status == MBR_OK)
        return true;
    if (mbr_context_reap(need->arena->context, true) != 0)
        need->status = mbr_payer_charge(need->arena, memo, bytes, &need->refusal);
    if (need->status != MBR_OK)
        mbr_fail_bytes(need->error, need->status, bytes, need->refusal.available_bytes,
            "asked for %llu bytes, %llu are left of the holder's allowance; release some, or raise "
            "it",
            (unsigned long long)bytes, (unsigned long long)need->refusal.available_bytes);
    return need->status == MBR_OK;
}

/* The block is nobody's, so the processor may write where it can, whatever the stream does. */
static mbr_status zero(need *need, uint64_t address, uint64_t bytes)
{
    mbr_arena *arena = need->arena;
    if (need->request->stream_id != 0) {
        mbr_error own = {MBR_SIZED(mbr_error)};
        mbr_status status =
            mbr_context_fill(arena->context, need->request->stream_id, address, 0, bytes, &own);
        if (status == MBR_OK)
            return MBR_OK;
        if (status != MBR_UNSUPPORTED) {
            mbr_error_copy(need->error, &own);
            return status;
        }
    }
    if (arena->mechanism->host_accessible) {
        memset((void *)(uintptr_t)address, 0, bytes);
        return MBR_OK;
    }
    return mbr_fail(need->error, MBR_UNSUPPORTED,
        "nobody can zero this memory: name a stream of an EP that has a transfer table");
}

/* ---- The call -------------------------------------------------------------------------------- */
static mbr_status refuse_request(const mbr_arena_request *request, mbr_error *error)
{
    if ((request->flags & 0xFFFF & ~(uint32_t)MBR_ALLOC_ZEROED) != 0)
        return mbr_fail(error, MBR_UNSUPPORTED, "flags 0x%x: only MBR_ALLOC_ZEROED is known",
            (unsigned)request->flags);
    return mbr_fail(error, MBR_INVALID_ARGUMENT,
        "an alignment of %llu bytes is no power of two; 0 means %llu",
        (unsigned long long)request->align_bytes, (unsigned long long)MBR_BLOCK_ALIGN_BYTES);
}

static bool is_valid(const mbr_arena_request *request)
{
    return (request->flags & 0xFFFF & ~(uint32_t)MBR_ALLOC_ZEROED) == 0 &&
        (request->align_bytes & (request->align_bytes - 1)) == 0;
}

static inline mbr_memo *memo_of(mbr_cache *cache, const mbr_holder *holder, uint64_t id)
{
    mbr_memo *memo = &cache->memos[id & (MBR_MEMO_COUNT - 1)];
    return __builtin_expect(memo->holder == holder && memo->holder_id == id, 1) ? memo : NULL;
}

/* The thread's memo of the holder, or *own, filled. */
static const mbr_memo *find_payer(need *need, mbr_memo *own)
{
    mbr_holder *holder = need->request->holder;
    mbr_memo *memo = own;
    if (need->cache != NULL) {
        memo = memo_of(need->cache, holder, mbr_holder_id(holder));
        if (memo != NULL)
            return memo;
        memo = &need->cache->memos[mbr_holder_id(holder) & (MBR_MEMO_COUNT - 1)];
    }
    need->status = mbr_payer_find(need->arena, need->cache, holder, memo, need->error);
    return need->status == MBR_OK ? memo : NULL;
}

/* What one call has made of a block so far. */
typedef struct block {
    uint32_t index;
    mbr_record *record;
    const mbr_slab *slab;
    uint64_t before; /* the record's word */
} block;

static inline block block_at(const mbr_alloc_table *table, uint32_t index)
{
    mbr_chunk *chunk = mbr_table_chunk(table, index);
    mbr_record *record = &chunk->records[index & (MBR_CHUNK_RECORDS - 1)];
    return (block){index, record, mbr_chunk_slab(table, chunk, index),
        atomic_load_explicit(&record->word, memory_order_relaxed)};
}

static inline uint64_t bytes_of(const block *block)
{
    return atomic_load_explicit(&block->slab->block_bytes, memory_order_relaxed);
}

/* What the caller asked to have published. */
typedef struct wish {
    uint64_t bytes, stream_id, tag;
} wish;

/* Nothing can fail any more. `bits` are the payer's, and slack or noted. */
static inline void publish(
    const block *block, uint64_t bits, uint32_t content, uint32_t state, mbr_alloc_result *result)
{
    result->content = content;
    result->address = mbr_block_address(block->slab, block->index);
    result->usable_bytes = atomic_load_explicit(&block->slab->usable_bytes, memory_order_relaxed);
    result->charged_bytes = bytes_of(block);
    result->allocation.value = mbr_word_handle(
        mbr_record_begin(block->record, block->before, bits, content, state), block->index);
}

/* Of the record's word: slack, or that it is in the note. In line, and calls nothing. */
static inline uint64_t note_bits(const mbr_alloc_table *table, const block *block, const wish *wish)
{
    uint64_t slack_bytes =
        atomic_load_explicit(&block->slab->usable_bytes, memory_order_relaxed) - wish->bytes;
    if (__builtin_expect(
            (wish->stream_id | wish->tag) == 0 && slack_bytes <= MBR_WORD_SLACK_MAX_BYTES, 1))
        return slack_bytes << MBR_WORD_SLACK_SHIFT;
    mbr_note *note = mbr_table_note(table, block->index);
    atomic_store_explicit(&note->stream_id, wish->stream_id, memory_order_relaxed);
    atomic_store_explicit(&note->tag, wish->tag, memory_order_relaxed);
    atomic_store_explicit(&note->slack_bytes, slack_bytes, memory_order_relaxed);
    return MBR_WORD_NOTED;
}

/* What is made while a capture is open belongs to its graph: its place in the queue knows which.
 * What came out of the queue is told apart: work of its former life may be under way. */
static uint32_t note_graphs(const mbr_arena *arena, const block *block, const wish *wish)
{
    mbr_graphs graphs = mbr_context_graphs_now(arena->context, wish->stream_id);
    if (graphs.first == 0)
        return mbr_word_state(block->before) == MBR_ALLOCATION_REACTIVATED
            ? MBR_ALLOCATION_GIVEN_AGAIN
            : MBR_ALLOCATION_LIVE;
    mbr_table_waiting(arena->table, block->index)->deferred.graphs = graphs;
    return MBR_ALLOCATION_CAPTURED;
}

static mbr_status alloc_block(need *need, mbr_alloc_result *result)
{
    const mbr_arena_request *request = need->request;
    mbr_memo own;
    const mbr_memo *memo = find_payer(need, &own);
    need->memo = memo;
    if (memo == NULL)
        return need->status;
    uint32_t index = take_block(need);
    if (index == 0) {
        report_refusal(need);
        return need->status;
    }
    const block block = block_at(need->arena->table, index);
    const wish wish = {request->bytes, request->stream_id, request->tag};
    uint64_t bytes = bytes_of(&block);
    uint32_t content = mbr_word_content(block.before);
    if (!need->is_paid && !charge(need, memo, bytes)) {
        report_refusal(need);
        goto put_block;
    }
    if ((request->flags & MBR_ALLOC_ZEROED) != 0 && content != MBR_CONTENT_ZERO) {
        need->status = zero(need, mbr_block_address(block.slab, index),
            atomic_load_explicit(&block.slab->usable_bytes, memory_order_relaxed));
        if (need->status != MBR_OK)
            goto refund;
        content = MBR_CONTENT_ZERO;
    }
    publish(&block, memo->bits | note_bits(need->arena->table, &block, &wish), content,
        note_graphs(need->arena, &block, &wish), result);
    return MBR_OK;
refund:
    mbr_payer_refund(need->arena, need->cache, memo->bits, bytes);
put_block:
    mbr_cache_put(need->arena, need->cache, index);
    return need->status;
}

MBR_RARE static mbr_status alloc_slow(
    mbr_arena *arena, const mbr_arena_request *request, mbr_alloc_result *result, mbr_error *error)
{
    result->content = MBR_CONTENT_UNDEFINED;
    result->allocation.value = 0;
    result->address = result->usable_bytes = result->charged_bytes = 0;
    if (!is_valid(request))
        return refuse_request(request, error);
    mbr_status status = mbr_mechanism_check_process(arena->mechanism, error);
    if (status == MBR_OK)
        status = mbr_context_check_active(arena->context, error);
    if (status != MBR_OK)
        return status;
    need need = {.arena = arena,
        .cache = mbr_cache_find(arena),
        .request = request,
        .class_index = mbr_class_for(request->bytes, request->align_bytes),
        .refusal = {MBR_SIZED(mbr_refusal)},
        .error = error};
    return alloc_block(&need, result);
}

/* What most allocations are: of a class, as aligned as every block, paid through a tally, of a
 * block that the thread has. In line, and calls nothing: a caller keeps its registers. */
static inline bool alloc_fast(const mbr_arena *arena, const mbr_holder *holder, uint64_t holder_id,
    const wish *wish, mbr_alloc_result *result)
{
    if (wish->bytes > MBR_CLASS_MAX_BYTES || !mbr_fork_flag_is_up(arena->serves))
        return false;
    mbr_cache *cache = mbr_cache_peek(arena);
    if (cache == NULL)
        return false;
    const mbr_memo *memo = memo_of(cache, holder, holder_id);
    if (memo == NULL || (memo->bits & MBR_WORD_EXACT) != 0)
        return false;
    uint32_t class_index = mbr_class_of(wish->bytes);
    uint32_t index = mbr_cache_pop(cache, class_index);
    if (index == 0)
        return false;
    const block block = block_at(arena->table, index);
    if (__builtin_expect(mbr_word_is_worn(block.before), 0)) {
        mbr_cache_push(cache, class_index, index);
        return false;
    }
    if (memo->tally != NULL)
        mbr_tally_add(&memo->tally->allocated_bytes, bytes_of(&block));
    publish(&block, memo->bits | note_bits(arena->table, &block, wish),
        mbr_word_content(block.before), MBR_ALLOCATION_LIVE, result);
    return true;
}

bool mbr_arena_try_alloc(const mbr_arena *arena, const mbr_holder *holder, uint64_t holder_id,
    uint64_t bytes, mbr_alloc_result *result)
{
    const wish wish = {bytes, 0, 0};
    return alloc_fast(arena, holder, holder_id, &wish, result);
}

mbr_status mbr_arena_alloc(
    mbr_arena *arena, const mbr_arena_request *request, mbr_alloc_result *result, mbr_error *error)
{
    const wish wish = {request->bytes, request->stream_id, request->tag};
    bool plain = request->flags == 0 && request->align_bytes <= MBR_BLOCK_ALIGN_BYTES &&
        (request->align_bytes & (request->align_bytes - 1)) == 0;
    if (__builtin_expect(plain &&
                alloc_fast(arena, request->holder, mbr_holder_id(request->holder), &wish, result),
            1))
        return MBR_OK;
    return alloc_slow(arena, request, result, error);
}
