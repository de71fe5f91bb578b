/* The grow transaction: plan, grant, carry out, publish; and pressure between two attempts. Calls
 * no slot; decides no policy beyond the plan's. */
#include "host/backing/growth.h"

/* ---- The books */

static void return_budget(mbr_growth_run *run)
{
    mbr_holder *holder = run->options->holder;
    if (run->adopted_bytes != 0)
        mbr_transfer(holder, run->backing->cache, run->adopted_bytes);
    run->adopted_bytes = 0;
    /* A ticket's bytes are for the next try. What of them was charged, the undo gave back to all:
     * it is claimed again, unless it is a residual's or somebody has it already. */
    uint64_t kept = mbr_min(run->aside_bytes, run->granted_bytes);
    uint64_t charged = run->aside_bytes - kept;
    mbr_grant_return(holder, run->granted_bytes - kept);
    if (run->residual_bytes == 0 && mbr_grant(holder, charged, NULL) == MBR_OK)
        kept += charged;
    mbr_set_aside(holder, kept);
    run->granted_bytes = run->aside_bytes = 0;
}

static mbr_status take_budget(mbr_growth_run *run)
{
    const mbr_grow_options *options = run->options;
    uint64_t adopted = run->plan.adopted_owned_bytes;
    mbr_status status = mbr_backing_grant(
        run->backing, options->holder, run->plan.create_bytes, &run->aside_bytes, options->refusal);
    if (status != MBR_OK)
        return status;
    run->granted_bytes = run->plan.create_bytes;
    if (options->holder != run->backing->cache && adopted != 0) {
        /* What is adopted needs no new bytes: as many of those set aside are for others again, and
         * leave their place in the allowance, which holds for adopted bytes too. All is paid for
         * again on an undo. */
        uint64_t spared = mbr_take_aside(options->holder, adopted);
        if (spared != 0)
            mbr_grant_return(options->holder, spared);
        run->aside_bytes += spared;
        status = mbr_try_transfer(run->backing->cache, options->holder, adopted, options->refusal);
        if (status != MBR_OK) {
            return_budget(run);
            return status;
        }
        run->adopted_bytes = adopted;
    }
    return MBR_OK;
}

/* ---- Publish */

void mbr_slot_adopt_locked(mbr_range *range, uint64_t index, mbr_holder *holder)
{
    mbr_slot *slot = &range->slots[index];
    mbr_extent *extent = slot->extent;
    mbr_range_set_slot(range, index, MBR_SLOT_COMMITTED);
    mbr_extent_move(range->backing, extent, MBR_EXTENT_MAPPED);
    slot->holder = holder;
    extent->payer = holder;
    extent->isolation_group = range->isolation_group;
    extent->content = MBR_CONTENT_STALE; /* of its next life */
}

/* Nobody has used it yet: its content and its isolation group are as they were. */
static void park_item_locked(mbr_growth_run *run, mbr_plan_item *item)
{
    mbr_extent_move(run->backing, item->extent, MBR_EXTENT_MAPPED);
    mbr_extent_move(run->backing, item->extent, MBR_EXTENT_PARKED);
    mbr_range_set_slot(item->range, item->index, MBR_SLOT_PARKED);
    item->range->slots[item->index].planned = false; /* from here on an adoption may take it */
    mbr_ahead_mark_locked(item->range, item->index);
}

static void publish_item_locked(mbr_growth_run *run, mbr_plan_item *item)
{
    mbr_slot *slot = &item->range->slots[item->index];
    if (item->source == MBR_SOURCE_LEAVING) {
        mbr_range_set_slot(item->range, item->index, MBR_SLOT_COMMITTED);
        slot->leave->is_former = true; /* users and payer are as they were */
        slot->leave = NULL;
        item->extent->content = MBR_CONTENT_STALE;
        return;
    }
    if (item->source != MBR_SOURCE_PARKED)
        mbr_extent_add_slot(item->extent, slot);
    if (run->plan.ahead)
        park_item_locked(run, item);
    else /* the transfer was booked by take_budget */
        mbr_slot_adopt_locked(item->range, item->index, run->options->holder);
}

static void publish(mbr_growth_run *run, mbr_range_grow_result *result)
{
    mbr_backing *backing = run->backing;
    mbr_plan *plan = &run->plan;
    uint64_t mapped = 0;
    bool zero = plan->item_count != 0, undefined = false;
    mbr_lock_take(&backing->lock);
    for (uint64_t i = 0; i < plan->item_count; i++) {
        zero = zero && plan->items[i].extent->content == MBR_CONTENT_ZERO;
        undefined |= plan->items[i].extent->content == MBR_CONTENT_UNDEFINED;
        bool stays = plan->items[i].source == MBR_SOURCE_PARKED ||
            plan->items[i].source == MBR_SOURCE_LEAVING;
        mapped += stays ? 0 : plan->items[i].bytes;
        publish_item_locked(run, &plan->items[i]);
    }
    for (uint32_t i = 0; i < plan->part_count; i++)
        mbr_range_update_committed_end(plan->parts[i].range);
    mbr_mapped_add(run->options->holder, mapped); /* before an adoption moves it on */
    mbr_lock_drop(&backing->lock);
    if (plan->parked_bytes != 0 && run->options->holder != backing->cache)
        mbr_mapped_transfer(backing->cache, run->options->holder, plan->parked_bytes);
    mbr_grant_return(run->options->holder, run->granted_bytes);
    result->content = mbr_content_of(zero, undefined);
    result->created_bytes = plan->create_bytes;
    result->pooled_bytes = plan->pool_bytes;
    result->parked_bytes = plan->parked_bytes + plan->rejoined_bytes;
    result->new_bytes = plan->create_bytes + plan->pool_bytes + result->parked_bytes;
}

/* ---- The transaction */

static mbr_status execute(mbr_growth_run *run)
{
    mbr_status status = mbr_growth_carry_out(run);
    if (status == MBR_OK && run->options->publish != NULL) {
        mbr_lock_assert_none_held();
        status = run->options->publish(run->options->publish_context);
        run->refused_by_client = status != MBR_OK;
        if (status != MBR_OK)
            mbr_fail(run->error, status, "the publish callback refused; all is undone");
    }
    if (status == MBR_OK)
        return MBR_OK;
    mbr_growth_undo(run);
    return_budget(run);
    return status;
}

/* One attempt. *short_bytes: what an eviction would have to free for another. */
static mbr_status attempt(mbr_growth_run *run, mbr_range_grow_result *result, uint64_t *short_bytes)
{
    const mbr_refusal *refusal = run->options->refusal;
    uint64_t create_bytes = run->plan.create_bytes;
    *short_bytes = 0;
    mbr_status status = take_budget(run);
    if (status != MBR_OK) {
        if (refusal->reason != MBR_REFUSED_ALLOWANCE && refusal->reason != MBR_REFUSED_CAPACITY)
            *short_bytes =
                refusal->asked_bytes - mbr_min(refusal->available_bytes, refusal->asked_bytes);
        return mbr_backing_refuse(status, refusal, run->error);
    }
    run->planned = false;
    status = execute(run);
    if (status == MBR_OK) {
        publish(run, result);
    } else if (MBR_STATUS_CLASS(status) == MBR_CLASS_EXHAUSTED &&
        status != MBR_OUT_OF_HOST_MEMORY && run->residual_bytes == 0 && !run->refused_by_client) {
        /* By class (rule 6): whatever is used up, it may work after something is given back. */
        if (status == MBR_OUT_OF_MEMORY)
            mbr_authority_note_exhausted(run->backing->authority);
        *short_bytes = create_bytes;
    }
    return status;
}

/* What the cache keeps, but for what stands in the ranges that grow. What the plan took from the
 * pool and from others is out of the cache's figures already. */
static uint64_t cached_elsewhere(const mbr_growth_run *run)
{
    const mbr_plan *plan = &run->plan;
    mbr_lock_take(&run->backing->lock);
    uint64_t bytes = mbr_backing_cached_bytes_locked(run->backing);
    for (uint32_t i = 0; i < plan->part_count; i++) {
        bool counted = false;
        for (uint32_t k = 0; k < i && !counted; k++)
            counted = plan->parts[k].range == plan->parts[i].range;
        bytes -= counted ? 0 : mbr_min(bytes, plan->parts[i].range->parked_bytes);
    }
    mbr_lock_drop(&run->backing->lock);
    return bytes;
}

/* Slabs are asked where that is too little. Nothing of it can go while a capture is open. */
static uint64_t could_give(const mbr_growth_run *run, uint64_t short_bytes)
{
    if (mbr_port_is_gated(run->backing->port))
        return 0;
    uint64_t bytes = cached_elsewhere(run);
    return bytes < short_bytes ? bytes + mbr_backing_idle_bytes(run->backing) : bytes;
}

/* The cache is first asked what it could give, and gives only if that suffices, together with what
 * other caches under the authority offer: a refusal costs nobody its parked extents. */
static bool make_room(mbr_growth_run *run, uint64_t short_bytes)
{
    mbr_backing *backing = run->backing;
    if (mbr_backing_retry_quarantined(backing) != 0) /* which the cache does not count as its own */
        return true;
    uint64_t own = mbr_min(could_give(run, short_bytes), short_bytes);
    uint64_t others =
        mbr_authority_press_caches(backing->authority, backing->cache, short_bytes - own);
    if (own + others < short_bytes)
        return others != 0; /* somebody gave less than was offered; it may do all the same */
    bool gave = own != 0 && mbr_backing_give_beside(backing, own, &run->plan);
    return gave || others != 0;
}

/* After a failed attempt. False: no other plan would do. */
static bool try_prepare_another(mbr_growth_run *run, uint64_t short_bytes)
{
    if (run->met_capture) /* it creates what may not be moved now */
        return run->residual_bytes == 0;
    return short_bytes != 0 && !run->plan.ahead && make_room(run, short_bytes);
}

static mbr_status attempt_under_pressure(mbr_growth_run *run, mbr_range_grow_result *result)
{
    for (;;) {
        uint64_t short_bytes;
        run->met_capture = false;
        mbr_status status = attempt(run, result, &short_bytes);
        if (status == MBR_OK || !try_prepare_another(run, short_bytes))
            return status;
        if (!run->planned) {
            mbr_plan_sources(&run->plan);
            run->planned = true;
        }
    }
}

/* What grows while a capture is open may be touched by its graph from now on, as a whole. */
static void note_graphs(const mbr_plan *plan, uint64_t stream_id)
{
    for (uint32_t i = 0; i < plan->part_count; i++)
        mbr_range_note_graphs(plan->parts[i].range, stream_id);
}

/* Kept out of its caller, whose frame would otherwise hold a plan. */
__attribute__((noinline)) static mbr_status grow_by_plan(mbr_backing *backing,
    const mbr_grow_options *options, mbr_range_grow_result *result, mbr_error *error)
{
    /* The caller's struct may know fewer fields: what decides here is a copy of its own. */
    mbr_refusal refusal = {MBR_SIZED(mbr_refusal)};
    mbr_grow_options own_options = *options;
    own_options.refusal = &refusal;
    mbr_growth_run run = {
        .options = &own_options, .backing = backing, .error = error, .planned = true};

    run.plan.ahead = (options->flags & MBR_GROW_AHEAD) != 0;
    if (run.plan.ahead)
        own_options.holder = backing->cache;
    run.plan.holder = own_options.holder;
    run.plan.stream_id = options->stream_id;
    mbr_status status =
        mbr_plan_make(&run.plan, backing, options->parts, options->part_count, error);
    if (status != MBR_OK)
        return status;
    if (!run.plan.ahead) /* what nobody was given is in no graph; the growth that adopts it notes */
        note_graphs(&run.plan, options->stream_id);
    uint64_t coming_bytes = run.plan.ahead ? run.plan.create_bytes + run.plan.pool_bytes : 0;
    if (run.plan.ahead)
        status = mbr_ahead_take_room(backing, coming_bytes, error);
    bool has_room = run.plan.ahead && status == MBR_OK;
    if (status == MBR_OK)
        status = attempt_under_pressure(&run, result);
    if (has_room)
        mbr_ahead_leave_room(backing, coming_bytes);
    if (status == MBR_OVER_BUDGET && refusal.reason != 0 && !run.refused_by_client &&
        !run.plan.ahead)
        mbr_context_give_refusal(run.plan.parts[0].range->context, &refusal, options->refusal);
    if (run.planned)
        mbr_plan_drop_sources(&run.plan);
    mbr_plan_finish(&run.plan);
    if (run.residual_bytes != 0) {
        result->residual_bytes = run.residual_bytes;
        status = mbr_fail(error, MBR_RESIDUAL,
            "an undo failed: %llu bytes stay charged and are quarantined; the rest is as before",
            (unsigned long long)run.residual_bytes);
    }
    return status;
}

mbr_status mbr_backing_grow(mbr_backing *backing, const mbr_grow_options *options,
    mbr_range_grow_result *result, mbr_error *error)
{
    *result = (mbr_range_grow_result){.struct_size = result->struct_size};
    bool adopted =
        (options->flags & MBR_GROW_AHEAD) == 0 && mbr_backing_adopt(backing, options, result);
    return adopted ? MBR_OK : grow_by_plan(backing, options, result, error);
}
