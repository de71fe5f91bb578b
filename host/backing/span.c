/* Spans: contiguous memory for the slabs and large allocations above, paid by the cache from take
 * to give. With `virtual` a span is a range of its own; without it, one allocation of the plugin.
 */
#include "host/backing/internal.h"

#include <utlist.h>

#define SPAN_EXTENT_MAX_BYTES (UINT64_C(64) << 20) /* larger spans are cut into equal extents */

/* What the plugin owns for it, which may be less or more than its addresses. */
static uint64_t owned_by(const mbr_range *range)
{
    uint64_t bytes = 0;
    mbr_lock_take(&range->backing->lock);
    for (uint64_t i = 0; i < range->slot_count; i++)
        if (range->slots[i].extent != NULL)
            bytes += range->slots[i].extent->owned_bytes;
    mbr_lock_drop(&range->backing->lock);
    return bytes;
}

static mbr_status take_range(mbr_backing *backing, mbr_context *context, uint64_t stream_id,
    uint64_t align_bytes, mbr_span *span, mbr_refusal *refusal, mbr_error *error)
{
    uint64_t granule = backing->mechanism->granule_min_bytes;
    uint64_t largest = mbr_min(SPAN_EXTENT_MAX_BYTES, backing->mechanism->extent_max_bytes);
    uint64_t count = span->bytes / largest + (span->bytes % largest != 0);
    uint64_t unit;
    if (!mbr_align_up(span->bytes / count + (span->bytes % count != 0), granule, &unit))
        return mbr_fail(error, MBR_OVERFLOW, "a span of %llu bytes does not fit 64 bits",
            (unsigned long long)span->bytes);
    mbr_range_options options = {.context = context,
        .isolation_group = span->isolation_group,
        .bytes = span->bytes,
        .align_bytes = align_bytes,
        .growth = {.unit_bytes = unit}};
    mbr_status status = mbr_backing_reserve(backing, &options, &span->range, error);
    if (status != MBR_OK)
        return status;
    mbr_range_part part = {.range = span->range, .bytes = mbr_range_bytes(span->range)};
    mbr_grow_options grow = {.holder = backing->cache,
        .stream_id = stream_id,
        .parts = &part,
        .part_count = 1,
        .refusal = refusal};
    mbr_range_grow_result result = {MBR_SIZED(mbr_range_grow_result)};
    status = mbr_backing_grow(backing, &grow, &result, error);
    if (status != MBR_OK) {
        mbr_range_end_now(span->range);
        span->range = NULL;
        return status;
    }
    span->address = mbr_range_address(span->range);
    span->bytes = part.bytes;
    span->owned_bytes = owned_by(span->range);
    span->content = result.content;
    return MBR_OK;
}

/* Pays for one allocation of the plugin. Without `virtual` nothing is cached that could be given.
 */
static mbr_status grant_eager(
    mbr_backing *backing, uint64_t bytes, mbr_refusal *refusal, mbr_error *error)
{
    mbr_refusal own = {MBR_SIZED(mbr_refusal)};
    if (refusal == NULL)
        refusal = &own;
    uint64_t aside; /* 0: nobody sets aside for a cache */
    mbr_status status = mbr_backing_grant(backing, backing->cache, bytes, &aside, refusal);
    if (status != MBR_OK)
        return mbr_backing_refuse(status, refusal, error);
    return MBR_OK;
}

/* The residual stays charged, marked. */
static void withhold(mbr_backing *backing, uint64_t owned_bytes)
{
    mbr_quarantine(backing->cache, owned_bytes);
    mbr_lock_take(&backing->lock);
    backing->withheld_span_bytes += owned_bytes;
    backing->quarantined_count++;
    mbr_lock_drop(&backing->lock);
}

/* What a release was refused for waits for a retry, if nothing has happened to it. */
static void withhold_span(mbr_backing *backing, mbr_eager_span *record, const mbr_answer *refused)
{
    withhold(backing, record->owned_bytes);
    if (!refused->unchanged) {
        mbr_heap_release(backing->heap, record);
        return;
    }
    mbr_lock_take(&backing->lock);
    DL_APPEND(backing->withheld_spans, record);
    mbr_lock_drop(&backing->lock);
    if (mbr_answer_keeps(refused)) {
        mbr_backing_note_kept(backing);
        mbr_backing_look_again(backing);
    }
}

/* What a failure has left is given back at once, where the plugin knows what and where that is;
 * what it refuses takes the span's record. */
static void end_residual(mbr_backing *backing, mbr_span *span, const mbr_answer *left)
{
    if (left->quarantined || left->address == 0) {
        mbr_mapped_add(backing->cache, left->mapped_bytes);
        withhold(backing, left->owned_bytes);
        return;
    }
    mbr_answer answer;
    if (mbr_port_release(
            backing->port, left->id, left->address, left->owned_bytes, &answer, NULL) == MBR_OK) {
        mbr_refund(backing->cache, left->owned_bytes);
        return;
    }
    mbr_mapped_add(backing->cache, left->owned_bytes);
    *span->record = (mbr_eager_span){
        .allocation_id = left->id, .address = left->address, .owned_bytes = left->owned_bytes};
    withhold_span(backing, span->record, &answer);
    span->record = NULL;
}

/* With no bytes of another group: zeroed where there may be some, which is looked at again once the
 * memory is there. */
static mbr_status allocate_unseen(mbr_backing *backing, const mbr_span *span, uint64_t align_bytes,
    uint64_t most_bytes, mbr_answer *answer, mbr_error *error)
{
    mbr_port *port = backing->port;
    bool may_hold = backing->mechanism->fresh_content != MBR_CONTENT_ZERO;
    mbr_port_serve_group(port, span->isolation_group);
    bool zeroed = may_hold && mbr_port_has_groups(port);
    mbr_status status = mbr_port_allocate(port, span->bytes, align_bytes, most_bytes,
        zeroed ? MBR_ALLOCATE_ZEROED : 0, answer, error);
    if (status != MBR_OK || zeroed || !may_hold || !mbr_port_has_groups(port))
        return status;
    mbr_answer gone;
    status = mbr_port_release(port, answer->id, answer->address, answer->owned_bytes, &gone, error);
    answer->quarantined = gone.quarantined;
    return status != MBR_OK ? status
                            : mbr_port_allocate(port, span->bytes, align_bytes, most_bytes,
                                  MBR_ALLOCATE_ZEROED, answer, error);
}

/* Allocates owning at most so much, and books it. *answered: the plugin was asked. */
static mbr_status allocate_eager(mbr_backing *backing, mbr_span *span, uint64_t align_bytes,
    uint64_t most_bytes, mbr_answer *answer, bool *answered, mbr_refusal *refusal, mbr_error *error)
{
    *answered = false;
    mbr_status status = grant_eager(backing, most_bytes, refusal, error);
    if (status != MBR_OK)
        return status;
    *answered = true;
    status = allocate_unseen(backing, span, align_bytes, most_bytes, answer, error);
    uint64_t granted = mbr_min(answer->owned_bytes, most_bytes);
    mbr_charge(backing->cache, granted);
    mbr_record_committed(backing->cache, answer->owned_bytes - granted);
    mbr_grant_return(backing->cache, most_bytes - granted);
    if (status == MBR_OUT_OF_MEMORY)
        mbr_authority_note_exhausted(backing->authority);
    if (status != MBR_OK && answer->owned_bytes != 0)
        end_residual(backing, span, answer);
    return status;
}

/* Some own what they align with, which no fact says: the first refusal tells, and is remembered. */
static mbr_status allocate_aligned(mbr_backing *backing, mbr_span *span, uint64_t align_bytes,
    mbr_answer *answer, mbr_refusal *refusal, mbr_error *error)
{
    bool answered;
    uint64_t most, padded, round_bytes = backing->mechanism->allocation_round_bytes;
    if (!mbr_align_up(span->bytes, round_bytes, &most) || !mbr_add(most, align_bytes, &padded))
        return mbr_fail(error, MBR_OVERFLOW, "%llu bytes do not fit 64 bits when rounded",
            (unsigned long long)span->bytes);
    bool may_pad = align_bytes > round_bytes, pads = may_pad && atomic_load(&backing->pads);
    mbr_status status = allocate_eager(
        backing, span, align_bytes, pads ? padded : most, answer, &answered, refusal, error);
    bool may_again = answered && may_pad && !pads && span->record != NULL; /* no residual has it */
    if (status != MBR_OVER_BUDGET || !may_again)
        return status;
    atomic_store(&backing->pads, true);
    return allocate_eager(backing, span, align_bytes, padded, answer, &answered, refusal, error);
}

static mbr_status take_eager(mbr_backing *backing, mbr_context *context, uint64_t align_bytes,
    mbr_span *span, mbr_refusal *refusal, mbr_error *error)
{
    mbr_status status = mbr_context_pin(context, error);
    if (status != MBR_OK)
        return status;
    span->record = mbr_heap_allocate(backing->heap, sizeof(*span->record));
    if (span->record == NULL) {
        status = mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no host memory for a span");
        goto unpin;
    }
    mbr_answer answer;
    status = allocate_aligned(backing, span, align_bytes, &answer, refusal, error);
    if (status != MBR_OK)
        goto free_record;
    mbr_mapped_add(backing->cache, answer.owned_bytes);
    *span->record = (mbr_eager_span){.context = context,
        .allocation_id = answer.id,
        .address = answer.address,
        .owned_bytes = answer.owned_bytes};
    span->address = answer.address;
    span->owned_bytes = answer.owned_bytes;
    span->content = answer.content;
    span->allocation_id = answer.id;
    span->context = context;
    return MBR_OK;
free_record:
    mbr_heap_release(backing->heap, span->record);
unpin:
    mbr_context_unpin(context);
    return status;
}

mbr_status mbr_backing_take_span(mbr_backing *backing, mbr_context *context, uint64_t stream_id,
    uint32_t isolation_group, uint64_t bytes, uint64_t align_bytes, mbr_span *span,
    mbr_refusal *refusal, mbr_error *error)
{
    *span = (mbr_span){0};
    if (bytes == 0)
        return mbr_fail(error, MBR_INVALID_ARGUMENT, "a span of no bytes");
    mbr_span taken = {.bytes = bytes, .isolation_group = isolation_group};
    mbr_status status = backing->mechanism->has_virtual
        ? take_range(backing, context, stream_id, align_bytes, &taken, refusal, error)
        : take_eager(backing, context, align_bytes, &taken, refusal, error);
    if (status != MBR_OK)
        return status;
    mbr_lock_take(&backing->lock);
    backing->span_count++;
    backing->span_bytes += taken.owned_bytes;
    mbr_lock_drop(&backing->lock);
    *span = taken;
    return MBR_OK;
}

/* Nobody knows whether it is still there: no call (I12), charged until the end of the context is
 * confirmed. Where the fact says that memory is releasable after a loss, this is about `release`:
 * without `virtual` there is nothing else that could be given back. */
static bool retain_eager(mbr_backing *backing, const mbr_span *span)
{
    if (mbr_context_state(span->context) != MBR_CONTEXT_LOST ||
        backing->mechanism->releasable_after_loss)
        return false;
    mbr_retain(backing->cache, span->owned_bytes);
    mbr_lock_take(&backing->lock);
    backing->retained_bytes += span->owned_bytes;
    DL_APPEND(backing->retained_spans, span->record);
    mbr_lock_drop(&backing->lock);
    if (mbr_context_has_ended(span->context)) /* nobody confirms it once more */
        mbr_backing_confirm_lost(backing, span->context);
    return true;
}

static void give_eager(mbr_backing *backing, const mbr_span *span)
{
    mbr_answer answer;
    mbr_status status = mbr_port_release(
        backing->port, span->allocation_id, span->address, span->owned_bytes, &answer, NULL);
    if (status == MBR_OK) {
        mbr_mapped_sub(backing->cache, span->owned_bytes);
        mbr_refund(backing->cache, span->owned_bytes);
        mbr_heap_release(backing->heap, span->record);
        return;
    }
    if (!mbr_answer_keeps(&answer))
        mbr_authority_note_violation(backing->authority);
    withhold_span(backing, span->record, &answer);
}

void mbr_backing_give_span(mbr_backing *backing, mbr_span *span)
{
    mbr_lock_take(&backing->lock);
    backing->span_count--;
    backing->span_bytes -= span->owned_bytes;
    mbr_lock_drop(&backing->lock);
    if (span->range != NULL) {
        mbr_range_end_now(span->range);
    } else {
        if (!retain_eager(backing, span))
            give_eager(backing, span);
        mbr_context_unpin(span->context);
    }
    *span = (mbr_span){0};
}
