/* Responsible for one allocation from request to published result: class, payer, block, charge,
 * content, in this order, undone in reverse. Where no block is to be had it asks, dearest last: the
 * slabs, completed releases, the backing, a smaller span, other threads' blocks and idle slabs.
 * Never holds a lock by itself. */
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
    mbr_status status;   /* of the last attempt */
    mbr_refusal refusal; /* of the last refused one */
    mbr_error *error;
} need;

/* ---- A block where the thread has none ---------------------------------------------------------
 */
static mbr_record *grow(need *need, uint32_t class_index, uint64_t span_bytes, uint64_t align_bytes)
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
static mbr_record *grow_own(need *need)
{
    uint64_t bytes;
    if (!mbr_align_up(mbr_max(need->request->bytes, 1), MBR_SPAN_ALIGN_MIN_BYTES, &bytes)) {
        need->status = mbr_fail(need->error, MBR_OVERFLOW,
            "%llu bytes do not fit 64 bits when rounded to %llu",
            (unsigned long long)need->request->bytes, (unsigned long long)MBR_SPAN_ALIGN_MIN_BYTES);
        return NULL;
    }
    return grow(need, MBR_CLASS_OWN_SPAN, bytes,
        mbr_max(need->request->align_bytes, MBR_SPAN_ALIGN_MIN_BYTES));
}

/* A slab of one block: what a budget that has no room for more may still give. */
static mbr_record *grow_least(need *need)
{
    if (need->class_index == MBR_CLASS_OWN_SPAN)
        return grow_own(need);
    return grow(need, need->class_index, mbr_class_bytes(need->class_index),
        mbr_class_plan(need->class_index).align_bytes);
}

static mbr_record *refill(need *need)
{
    return need->class_index == MBR_CLASS_OWN_SPAN
        ? NULL
        : mbr_cache_refill(need->arena, need->cache, need->class_index);
}

static mbr_record *reap_and_refill(need *need)
{
    mbr_arena *arena = need->arena;
    if (atomic_load_explicit(&arena->queued_count, memory_order_relaxed) == 0)
        return NULL;
    return mbr_context_reap(arena->context, true) == 0 ? NULL : refill(need);
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

/* Other threads' blocks go back to their slabs: one of them may be what is needed, and slabs become
 * idle. Idle slabs and the backing's caches then make room. */
static mbr_record *reclaim_and_grow(need *need)
{
    mbr_arena *arena = need->arena;
    mbr_context_reap(arena->context, true);
    mbr_lock_take(&arena->lock);
    mbr_caches_collect_locked(arena);
    uint64_t idle_bytes = arena->idle_bytes;
    mbr_lock_drop(&arena->lock);
    mbr_record *block = refill(need);
    if (block != NULL) {
        mbr_slabs_shed(arena, UINT64_MAX);
        return block;
    }
    uint64_t bytes = need->class_index == MBR_CLASS_OWN_SPAN ? need->request->bytes
                                                             : mbr_class_bytes(need->class_index);
    mbr_slabs_shed(arena, idle_bytes > bytes ? idle_bytes - bytes : 0);
    mbr_backing_evict(arena->backing, bytes);
    block = grow_least(need);
    if (block == NULL && may_reclaim(need) && press_others(need, bytes) != 0)
        block = grow_least(need);
    if (block == NULL && may_reclaim(need))
        block = refill(need); /* meanwhile another thread may have released one */
    return block;
}

/* The class may round up past what is left, where the request itself still fits. */
static mbr_record *grow_exact(need *need)
{
    uint64_t bytes;
    if (need->class_index == MBR_CLASS_OWN_SPAN ||
        !mbr_align_up(need->request->bytes, MBR_SPAN_ALIGN_MIN_BYTES, &bytes) ||
        bytes >= mbr_class_bytes(need->class_index))
        return NULL;
    return grow_own(need);
}

/* NULL: need->status says why. */
static mbr_record *seek(need *need)
{
    mbr_record *block = refill(need);
    if (block == NULL)
        block = reap_and_refill(need);
    if (block != NULL)
        return block;
    if (need->class_index != MBR_CLASS_OWN_SPAN) {
        mbr_slab_plan plan = mbr_class_plan(need->class_index);
        block = grow(need, need->class_index, plan.span_bytes, plan.align_bytes);
        if (block != NULL || MBR_STATUS_CLASS(need->status) != MBR_CLASS_EXHAUSTED ||
            need->status == MBR_OUT_OF_HOST_MEMORY)
            return block;
    }
    block = grow_least(need);
    if (block == NULL && may_reclaim(need))
        block = reclaim_and_grow(need);
    if (block == NULL && MBR_STATUS_CLASS(need->status) == MBR_CLASS_EXHAUSTED)
        block = grow_exact(need);
    return block;
}

/* A block whose record has generations left. */
static mbr_record *take_block(need *need)
{
    for (;;) {
        mbr_record *block = NULL;
        if (need->cache != NULL && need->class_index != MBR_CLASS_OWN_SPAN)
            block = mbr_cache_pop(need->cache, need->class_index);
        if (block == NULL)
            block = seek(need);
        if (block == NULL || !mbr_word_is_worn(mbr_record_word(block)))
            return block;
        mbr_lock_take(&need->arena->lock);
        mbr_slabs_wear_locked(need->arena, block);
        mbr_slab *detached = mbr_slabs_detach_locked(need->arena, need->arena->keep_bytes);
        mbr_lock_drop(&need->arena->lock);
        mbr_slabs_give(need->arena, detached);
    }
}

/* ---- Charge and content -------------------------------------------------------------------------
 */
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

/* ---- The call -----------------------------------------------------------------------------------
 */
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

/* What an allocation is published with. */
typedef struct wish {
    uint64_t bytes, stream_id, tag;
} wish;

/* Nothing can fail any more. `before` is the block's word. */
static inline void publish(const mbr_alloc_table *table, const wish *wish, mbr_record *block,
    uint64_t before, uint64_t payer_bits, uint32_t content, mbr_alloc_result *result)
{
    const mbr_slab *slab = mbr_record_slab(block);
    uint32_t index = mbr_record_index(block);
    uint64_t usable_bytes = atomic_load_explicit(&slab->usable_bytes, memory_order_relaxed);
    uint64_t bits = payer_bits;
    if ((wish->stream_id | wish->tag) != 0) {
        mbr_note *note = mbr_table_note(table, index);
        atomic_store_explicit(&note->stream_id, wish->stream_id, memory_order_relaxed);
        atomic_store_explicit(&note->tag, wish->tag, memory_order_relaxed);
        bits |= MBR_WORD_NOTED;
    }
    atomic_store_explicit(
        &block->slack_bytes, (uint32_t)(usable_bytes - wish->bytes), memory_order_relaxed);
    result->content = content;
    result->address = mbr_record_address(block);
    result->usable_bytes = usable_bytes;
    result->charged_bytes = atomic_load_explicit(&slab->block_bytes, memory_order_relaxed);
    result->allocation.value =
        mbr_word_handle(mbr_record_begin(block, before, bits, content), index);
}

static mbr_status alloc_block(need *need, mbr_alloc_result *result)
{
    mbr_memo own;
    const mbr_memo *memo = find_payer(need, &own);
    if (memo == NULL)
        return need->status;
    mbr_record *block = take_block(need);
    if (block == NULL) {
        report_refusal(need);
        return need->status;
    }
    const mbr_slab *slab = mbr_record_slab(block);
    uint64_t bytes = atomic_load_explicit(&slab->block_bytes, memory_order_relaxed);
    uint64_t before = mbr_record_word(block);
    uint32_t content = mbr_word_content(before);
    if (!charge(need, memo, bytes)) {
        report_refusal(need);
        goto put_block;
    }
    if ((need->request->flags & MBR_ALLOC_ZEROED) != 0 && content != MBR_CONTENT_ZERO) {
        need->status = zero(need, mbr_record_address(block),
            atomic_load_explicit(&slab->usable_bytes, memory_order_relaxed));
        if (need->status != MBR_OK)
            goto refund;
        content = MBR_CONTENT_ZERO;
    }
    const wish wish = {need->request->bytes, need->request->stream_id, need->request->tag};
    publish(need->arena->table, &wish, block, before, memo->bits, content, result);
    return MBR_OK;
refund:
    mbr_payer_refund(need->arena, need->cache, memo->bits, bytes);
put_block:
    mbr_cache_put(need->arena, need->cache, block);
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
    mbr_record *block = mbr_cache_pop(cache, class_index);
    if (block == NULL)
        return false;
    uint64_t before = atomic_load_explicit(&block->word, memory_order_relaxed);
    if (mbr_word_is_worn(before)) {
        mbr_cache_push(cache, class_index, block);
        return false;
    }
    if (memo->tally != NULL)
        mbr_tally_add(&memo->tally->allocated_bytes,
            atomic_load_explicit(&mbr_record_slab(block)->block_bytes, memory_order_relaxed));
    publish(arena->table, wish, block, before, memo->bits, mbr_word_content(before), result);
    return true;
}

bool mbr_arena_try_alloc(const mbr_arena *arena, const mbr_holder *holder, uint64_t holder_id,
    uint64_t bytes, mbr_alloc_result *result)
{
    const wish wish = {bytes, 0, 0};
    return __builtin_expect(alloc_fast(arena, holder, holder_id, &wish, result), 1);
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
