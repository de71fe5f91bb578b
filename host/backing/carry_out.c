/* Carries a growth's plan out: extents made, mapped, protected, filled; and takes it back in
 * reverse. All of it at once, or, where somebody watches, stretch by stretch. Holds no lock across
 * the plugin; knows no budget but what it charges of the grant. */
#include "host/backing/growth.h"

#include <string.h>
#include <utlist.h>

#define UNDO_WAIT_NS UINT64_C(10000000000) /* for work that was enqueued before the undo */

/* Items [first, end) of the plan. */
typedef struct mbr_stretch {
    uint64_t first, end;
} mbr_stretch;

/* ---- Making extents -------------------------------------------------------------------------- */

/* Nobody knows what there is of it: no further call. */
static void withhold_new(mbr_backing *backing, mbr_extent *extent)
{
    mbr_lock_take(&backing->lock);
    mbr_extent_withhold(backing, extent);
    DL_APPEND(backing->withheld, extent);
    mbr_lock_drop(&backing->lock);
}

/* What a failure has left of an extent is destroyed at once, where the plugin knows what that is.
 */
static mbr_status create_extent(mbr_growth_run *run, mbr_plan_item *item)
{
    mbr_backing *backing = run->backing;
    mbr_holder *holder = run->options->holder;
    mbr_extent *extent = mbr_heap_allocate(backing->heap, sizeof(*extent));
    if (extent == NULL)
        return mbr_fail(run->error, MBR_OUT_OF_HOST_MEMORY, "no host memory for an extent");
    mbr_answer answer;
    mbr_status status =
        mbr_port_extent_create(backing->port, item->bytes, item->bytes, 0, &answer, run->error);
    if (status != MBR_OK && answer.owned_bytes == 0) {
        mbr_heap_release(backing->heap, extent);
        return status;
    }
    /* Owned bytes are charged when the extent is made, also those of a failure that left some. */
    uint64_t granted = mbr_min(answer.owned_bytes, item->bytes);
    mbr_charge(holder, granted);
    mbr_record_committed(holder, answer.owned_bytes - granted);
    run->granted_bytes -= granted;
    *extent = (mbr_extent){.id = answer.id,
        .bytes = item->bytes,
        .owned_bytes = answer.owned_bytes,
        .content = answer.content,
        .payer = holder,
        .isolation_group = item->range->isolation_group};
    mbr_lock_take(&backing->lock);
    backing->extent_count++;
    mbr_lock_drop(&backing->lock);
    if (status != MBR_OK) {
        if (answer.quarantined || mbr_extent_destroy(backing, extent) == 0)
            run->residual_bytes += answer.owned_bytes;
        if (answer.quarantined)
            withhold_new(backing, extent);
        return status;
    }
    item->extent = extent;
    item->stage = MBR_STAGE_UNMAPPED;
    return MBR_OK;
}

static mbr_status steal_extent(mbr_growth_run *run, mbr_plan_item *item)
{
    mbr_backing *backing = run->backing;
    mbr_range *victim = item->victim;
    mbr_slot *slot = &victim->slots[item->victim_index];
    mbr_answer answer;
    mbr_status status = mbr_range_unmap_if_there(
        victim, mbr_slot_offset(victim, item->victim_index), item->bytes, &answer, run->error);
    run->met_capture = answer.gated;                   /* and another plan steals none */
    if (status != MBR_OK && mbr_answer_keeps(&answer)) /* it stays parked */
        return status;
    mbr_lock_take(&backing->lock);
    if (status != MBR_OK) {
        mbr_slot_strand(victim, item->victim_index, answer.unchanged);
        run->residual_bytes += item->extent->owned_bytes;
        item->stage = MBR_STAGE_GONE;
    } else {
        mbr_range_set_slot(victim, item->victim_index, MBR_SLOT_EMPTY);
        mbr_extent_remove_slot(item->extent, slot);
        mbr_extent_move(backing, item->extent, MBR_EXTENT_POOLED);
        item->stage = MBR_STAGE_UNMAPPED;
    }
    mbr_lock_drop(&backing->lock);
    if (status == MBR_OK)
        mbr_mapped_sub(backing->cache, item->bytes);
    return status;
}

static mbr_status make_extents(mbr_growth_run *run, mbr_stretch items)
{
    mbr_status status = MBR_OK;
    for (uint64_t i = items.first; i < items.end && status == MBR_OK; i++) {
        mbr_plan_item *item = &run->plan.items[i];
        if (item->source == MBR_SOURCE_CREATE)
            status = create_extent(run, item);
        else if (item->source == MBR_SOURCE_STEAL)
            status = steal_extent(run, item);
    }
    return status;
}

/* ---- Mapping */

/* The residual of an item: mapped and owned, charged to whoever pays now; its slot is stuck. */
static void strand_item(mbr_growth_run *run, mbr_plan_item *item, bool may_retry)
{
    mbr_backing *backing = run->backing;
    mbr_lock_take(&backing->lock);
    mbr_extent_add_slot(item->extent, &item->range->slots[item->index]);
    item->range->slots[item->index].holder = item->extent->payer;
    mbr_slot_strand(item->range, item->index, may_retry);
    mbr_lock_drop(&backing->lock);
    mbr_mapped_add(item->extent->payer, item->bytes);
    run->residual_bytes += item->extent->owned_bytes;
    item->stage = MBR_STAGE_GONE;
}

static void strand_parked(mbr_growth_run *run, mbr_plan_item *item, bool may_retry)
{
    mbr_backing *backing = run->backing;
    mbr_lock_take(&backing->lock);
    mbr_slot_strand(item->range, item->index, may_retry);
    mbr_lock_drop(&backing->lock);
    run->residual_bytes += item->extent->owned_bytes;
    item->stage = MBR_STAGE_GONE;
}

static mbr_status map_item(mbr_growth_run *run, mbr_plan_item *item)
{
    mbr_answer answer;
    mbr_status status = mbr_port_map(run->backing->port, item->range->reservation_id, item->offset,
        item->extent->id, item->bytes, &answer, run->error);
    if (answer.quarantined)
        strand_item(run, item, false);
    else if (status == MBR_OK || answer.mapped_bytes != 0)
        item->stage = MBR_STAGE_MAPPED; /* also a failure that left it mapped: the undo unmaps */
    return status;
}

/* One call for each run of adjacent new mappings; for each mapping, where a driver may refuse for
 * no reason (HIP's was seen to refuse a range of several whenever it is asked). */
static mbr_status protect_items(mbr_growth_run *run, mbr_stretch items)
{
    const mbr_plan *plan = &run->plan;
    bool joins = !run->backing->mechanism->protect_may_fail_spuriously;
    for (uint64_t i = items.first; i < items.end;) {
        const mbr_plan_item *first = &plan->items[i];
        uint64_t end = first->offset + first->bytes;
        bool mapped = first->stage == MBR_STAGE_MAPPED;
        for (i++; i < items.end && mapped && joins; i++) {
            const mbr_plan_item *item = &plan->items[i];
            if (item->stage != MBR_STAGE_MAPPED || item->range != first->range ||
                item->offset != end)
                break;
            end += item->bytes;
        }
        if (!mapped)
            continue;
        mbr_status status = mbr_port_protect(run->backing->port, first->range->reservation_id,
            first->offset, end - first->offset, MBR_ACCESS_READ_WRITE, NULL, run->error);
        if (status != MBR_OK)
            return status;
    }
    return MBR_OK;
}

static mbr_status map_items(mbr_growth_run *run, mbr_stretch items)
{
    mbr_status status = MBR_OK;
    for (uint64_t i = items.first; i < items.end && status == MBR_OK; i++) {
        if (run->plan.items[i].stage == MBR_STAGE_UNMAPPED)
            status = map_item(run, &run->plan.items[i]);
    }
    return status == MBR_OK ? protect_items(run, items) : status;
}

/* ---- Contents (I21) -------------------------------------------------------------------------- */

bool mbr_extent_needs_fill(const mbr_range *range, const mbr_extent *extent, uint32_t flags)
{
    if (extent->content == MBR_CONTENT_ZERO)
        return false;
    return (flags & MBR_GROW_ZEROED) != 0 || extent->isolation_group != range->isolation_group ||
        (extent->content == MBR_CONTENT_UNDEFINED && mbr_port_has_groups(range->backing->port));
}

static mbr_status fill_item(mbr_growth_run *run, mbr_plan_item *item)
{
    uint64_t address = item->range->address + item->offset;
    if (run->options->stream_id != 0)
        return mbr_context_fill(
            item->range->context, run->options->stream_id, address, 0, item->bytes, run->error);
    const mbr_mechanism *mechanism = run->backing->mechanism;
    if (!mechanism->host_accessible || !mechanism->usable_after_protect)
        return mbr_fail(run->error, MBR_INVALID_ARGUMENT,
            "this growth must be filled, and no stream was given to fill it on; pass a stream");
    memset((void *)(uintptr_t)address, 0, item->bytes);
    return MBR_OK;
}

static mbr_status fill_items(mbr_growth_run *run, mbr_stretch items)
{
    for (uint64_t i = items.first; i < items.end; i++) {
        mbr_plan_item *item = &run->plan.items[i];
        if (!mbr_extent_needs_fill(item->range, item->extent, run->options->flags))
            continue;
        mbr_status status = fill_item(run, item);
        item->filled = status != MBR_BUSY; /* another failure may have enqueued it */
        if (status != MBR_OK)
            return status;
        item->extent->content = MBR_CONTENT_ZERO;
        item->extent->isolation_group = item->range->isolation_group;
    }
    return MBR_OK;
}

/* What the watch may have written is the range's own and stale, whoever has the extent next. */
static mbr_status tell(mbr_growth_run *run, mbr_stretch items, uint64_t *told_bytes)
{
    const mbr_growth_watch *watch = run->options->watch;
    const mbr_plan *plan = &run->plan;
    uint64_t from = *told_bytes;
    *told_bytes =
        items.end < plan->item_count ? plan->items[items.end].before_bytes : plan->part_bytes;
    bool has_enqueued = false;
    mbr_lock_assert_none_held();
    mbr_status status = watch->stand(watch->context, from, *told_bytes, &has_enqueued);
    run->refused_by_client = status != MBR_OK;
    for (uint64_t i = items.first; i < items.end && has_enqueued; i++) {
        mbr_plan_item *item = &plan->items[i];
        item->filled = true;
        item->extent->content = MBR_CONTENT_STALE;
        item->extent->isolation_group = item->range->isolation_group;
    }
    return status;
}

/* ---- Undo */

static void unmap_item(mbr_growth_run *run, mbr_plan_item *item)
{
    mbr_answer answer;
    mbr_status status =
        mbr_range_unmap_if_there(item->range, item->offset, item->bytes, &answer, NULL);
    if (status == MBR_OK)
        item->stage = MBR_STAGE_UNMAPPED;
    else
        strand_item(run, item, answer.unchanged);
    if (status != MBR_OK && mbr_answer_keeps(&answer))
        mbr_backing_note_kept(run->backing);
}

/* For a retry, which asks the stream first. False: the range waits for another one already. */
static bool note_fill(mbr_range *range, uint64_t stream_id)
{
    if (range->fill_stream_id != 0 && range->fill_stream_id != stream_id)
        return false;
    range->fill_stream_id = stream_id;
    return true;
}

/* Nothing is unmapped under a fill, or the watch's work, that may still run (I11): the stream is
 * waited for once, and where that fails (also because a capture is open) the filled items are stuck
 * until a retry sees them done. */
static void settle_fills(mbr_growth_run *run)
{
    mbr_plan *plan = &run->plan;
    bool waits = run->options->stream_id != 0, asked = false, is_kept = false;
    for (uint64_t i = 0; i < plan->item_count && waits; i++) {
        mbr_plan_item *item = &plan->items[i];
        if (!item->filled)
            continue;
        if (!asked) {
            uint64_t deadline = mbr_clock_now(&mbr_clock_monotonic) + UNDO_WAIT_NS;
            mbr_status status = mbr_context_synchronize(
                item->range->context, run->options->stream_id, deadline, NULL);
            if (status == MBR_OK)
                return;
            is_kept = status == MBR_BUSY;
            asked = true;
        }
        item->extent->content = MBR_CONTENT_UNDEFINED; /* a loss may take the fill along (I21) */
        bool may_retry = note_fill(item->range, run->options->stream_id);
        if (item->stage == MBR_STAGE_MAPPED)
            strand_item(run, item, may_retry);
        else if (item->source == MBR_SOURCE_PARKED || item->source == MBR_SOURCE_LEAVING)
            strand_parked(run, item, may_retry);
    }
    if (is_kept) /* last: who looks before would see nothing of it, and take the note along */
        mbr_backing_note_kept(run->backing);
}

/* An extent that was made for nothing. While a capture is open nothing is destroyed: the cache
 * keeps it. */
static void unmake_item(mbr_growth_run *run, mbr_plan_item *item)
{
    uint64_t owned = item->extent->owned_bytes; /* its record may be gone afterwards */
    if (mbr_port_is_gated(run->backing->port))
        mbr_extent_recycle(run->backing, item->extent);
    else if (mbr_extent_destroy(run->backing, item->extent) == 0)
        run->residual_bytes += owned;
    item->stage = MBR_STAGE_GONE;
}

void mbr_growth_undo(mbr_growth_run *run)
{
    settle_fills(run);
    for (uint64_t i = run->plan.item_count; i-- > 0;) {
        mbr_plan_item *item = &run->plan.items[i];
        if (item->stage == MBR_STAGE_MAPPED)
            unmap_item(run, item);
        if (item->stage == MBR_STAGE_UNMAPPED && item->source == MBR_SOURCE_CREATE)
            unmake_item(run, item);
    }
    mbr_plan_drop_sources(&run->plan);
}

/* ---- All of it ------------------------------------------------------------------------------- */

/* Nothing is mapped ahead that must be filled first: its range would show it meanwhile (I21). */
static mbr_status check_contents(mbr_growth_run *run, mbr_stretch items)
{
    for (uint64_t i = items.first; i < items.end && run->plan.ahead; i++) {
        const mbr_plan_item *item = &run->plan.items[i];
        if (!mbr_extent_needs_fill(item->range, item->extent, 0))
            continue;
        atomic_store_explicit(&run->backing->fresh_is_undefined, true, memory_order_relaxed);
        return mbr_ahead_refuse_undefined(run->error);
    }
    return MBR_OK;
}

static mbr_status carry_out(mbr_growth_run *run, mbr_stretch items)
{
    mbr_status status = make_extents(run, items);
    if (status == MBR_OK)
        status = check_contents(run, items);
    if (status == MBR_OK)
        status = map_items(run, items);
    if (status == MBR_OK && !run->plan.ahead)
        status = fill_items(run, items);
    return status;
}

static uint64_t stretch_end(const mbr_growth_run *run, uint64_t first)
{
    const mbr_plan *plan = &run->plan;
    const mbr_growth_watch *watch = run->options->watch;
    if (watch == NULL)
        return plan->item_count;
    uint64_t end = first;
    for (uint64_t bytes = 0; end < plan->item_count && bytes < watch->least_bytes; end++)
        bytes += plan->items[end].bytes;
    return end;
}

mbr_status mbr_growth_carry_out(mbr_growth_run *run)
{
    mbr_status status;
    mbr_stretch items = {0, 0};
    uint64_t told_bytes = 0;
    do {
        items = (mbr_stretch){items.end, stretch_end(run, items.end)};
        status = carry_out(run, items);
        if (status == MBR_OK && run->options->watch != NULL)
            status = tell(run, items, &told_bytes);
    } while (status == MBR_OK && items.end < run->plan.item_count);
    return status;
}
