/* Makes commit plans. A pure function over slots, pool and parked extents; calls no plugin. */
#include "host/backing/plan.h"

#include <utlist.h>

/* ---- The ranges of a plan -------------------------------------------------------------------- */

mbr_status mbr_plan_check_part(
    const mbr_backing *backing, const mbr_range_part *part, mbr_error *error)
{
    const mbr_range *range = part->range;
    uint64_t end;
    if (range->backing != backing)
        return mbr_fail(error, MBR_INVALID_ARGUMENT,
            "the pieces belong to different mechanisms or authorities; one call grows ranges of "
            "one");
    if (range->ended || (part->handle != 0 && part->handle != range->handle))
        return mbr_fail(error, MBR_STALE, "the range was released");
    if (mbr_range_is_lost(range))
        return mbr_fail(error, MBR_DEVICE_LOST, "the device of the range's EP is lost");
    if (!mbr_add(part->offset_bytes, part->bytes, &end) || end > range->bytes)
        return mbr_fail(error, MBR_OUT_OF_RANGE,
            "piece [%llu, +%llu) ends past the range's %llu bytes",
            (unsigned long long)part->offset_bytes, (unsigned long long)part->bytes,
            (unsigned long long)range->bytes);
    mbr_status status = mbr_mechanism_check_process(backing->mechanism, error);
    return status == MBR_OK ? mbr_context_check_active(range->context, error) : status;
}

static bool all_free(const void *what)
{
    const mbr_plan *plan = what;
    for (uint32_t i = 0; i < plan->part_count; i++) {
        if (plan->parts[i].range->editor != NULL && plan->parts[i].range->editor != plan)
            return false;
    }
    return true;
}

/* All or none under one lock, so that two plans never wait for each other. */
static mbr_status mark_ranges_locked(mbr_plan *plan, mbr_backing *backing, mbr_error *error)
    MBR_REQUIRES(&backing->lock)
{
    mbr_status status = plan->ahead && !all_free(plan)
        ? mbr_fail(error, MBR_BUSY, "another call is inside one of the ranges; later")
        : mbr_backing_await_free(backing, all_free, plan, error);
    for (uint32_t i = 0; i < plan->part_count && status == MBR_OK; i++)
        status = mbr_plan_check_part(backing, &plan->parts[i], error);
    if (status != MBR_OK)
        return status;
    for (uint32_t i = 0; i < plan->part_count; i++) {
        plan->parts[i].range->editor = plan;
        plan->parts[i].range->growing = true;
        plan->parts[i].range->is_mapping_ahead = plan->ahead;
    }
    return MBR_OK;
}

static void unmark_ranges_locked(mbr_plan *plan)
{
    for (uint32_t i = 0; i < plan->part_count; i++) {
        plan->parts[i].range->editor = NULL;
        plan->parts[i].range->growing = plan->parts[i].range->is_mapping_ahead = false;
    }
    mbr_condition_signal_all(&plan->backing->edited);
}

static void release_victims_locked(mbr_plan *plan)
{
    for (uint64_t i = 0; i < plan->item_count; i++) {
        if (plan->items[i].victim != NULL)
            plan->items[i].victim->editor = NULL;
        plan->items[i].victim = NULL;
    }
    mbr_condition_signal_all(&plan->backing->edited);
}

/* ---- Items ----------------------------------------------------------------------------------- */

/* Without the lock: while the plan edits its ranges, no decommit of theirs comes or goes. */
static void judge_leaves(const mbr_plan *plan)
{
    for (uint32_t i = 0; i < plan->part_count && plan->stream_id != 0; i++) {
        const mbr_range *range = plan->parts[i].range;
        mbr_leave *leave;
        DL_FOREACH(range->leaves, leave)
        leave->is_before = mbr_context_is_before(range->context, &leave->deferred, plan->stream_id);
    }
}

/* Of the decommits before that a growth has taken this place from, none is still to be waited for.
 */
static bool is_after_the_former(const mbr_range *range, uint64_t index)
{
    const mbr_leave *leave;
    DL_FOREACH(range->leaves, leave)
    {
        if (mbr_leave_is_former(leave, index) && !leave->is_before)
            return false;
    }
    return true;
}

/* A decommit behind the very stream that uses the memory next need not happen (reactivation). Not
 * of what others use, too: they would see what is written. A leaving place gets no new ones. */
static bool may_rejoin(const mbr_plan *plan, const mbr_range *range, uint64_t index)
{
    const mbr_slot *slot = &range->slots[index];
    return slot->state == MBR_SLOT_LEAVING && !plan->ahead && plan->stream_id != 0 &&
        !slot->was_alias && slot->holder == plan->holder && slot->leave != NULL &&
        slot->leave->is_before && !slot->is_sealed && slot->extent->slot_count == 1 &&
        slot->extent->keeps == NULL && is_after_the_former(range, index);
}

/* Counts the holes when `fill` is false, else writes the items. Parts may overlap: a slot that an
 * earlier part planned is marked and skipped. */
static mbr_status walk_part(
    mbr_plan *plan, const mbr_range_part *part, uint64_t before_bytes, bool fill, mbr_error *error)
{
    mbr_range *range = part->range;
    uint64_t first, end;
    mbr_range_slots(range, part->offset_bytes, part->bytes, &first, &end);
    for (uint64_t index = first; index < end; index++) {
        mbr_slot_state state = range->slots[index].state;
        if (state == MBR_SLOT_COMMITTED || state == MBR_SLOT_ALIAS ||
            (plan->ahead && state == MBR_SLOT_PARKED))
            continue;
        bool leaves = state == MBR_SLOT_LEAVING && !may_rejoin(plan, range, index);
        if (leaves || state == MBR_SLOT_STUCK || state == MBR_SLOT_PARKED_ALIAS)
            return mbr_fail(error, MBR_BUSY, "offset %llu is %s",
                (unsigned long long)mbr_slot_offset(range, index),
                state == MBR_SLOT_STUCK
                    ? "quarantined: use another range, or try again after a trim"
                    : leaves
                    ? "still being given back; drain the EP and grow again"
                    : "an alias of a prefix that is parked there; nothing is unmapped ahead of "
                      "need, or while a graph is being captured");
        if (!fill) {
            plan->item_capacity++;
        } else if (!range->slots[index].planned) {
            range->slots[index].planned = true;
            uint64_t offset = mbr_slot_offset(range, index);
            plan->items[plan->item_count++] = (mbr_plan_item){.range = range,
                .index = index,
                .offset = offset,
                .bytes = mbr_slot_bytes(range, index),
                .before_bytes = before_bytes + offset - mbr_min(offset, part->offset_bytes)};
        }
    }
    return MBR_OK;
}

static mbr_status walk_parts(mbr_plan *plan, bool fill, mbr_error *error)
{
    uint64_t before_bytes = 0;
    for (uint32_t i = 0; i < plan->part_count; i++) {
        mbr_status status = walk_part(plan, &plan->parts[i], before_bytes, fill, error);
        if (status != MBR_OK)
            return status;
        before_bytes += plan->parts[i].bytes; /* wraps only where parts overlap: nobody watches */
    }
    plan->part_bytes = before_bytes;
    return MBR_OK;
}

/* A range that was taken for a prefix has them where the prefix was not attached after all, or in a
 * capture. */
static void strip_aliases(const mbr_plan *plan)
{
    for (uint32_t i = 0; i < plan->part_count && !plan->ahead; i++) {
        const mbr_range_part *part = &plan->parts[i];
        uint64_t first, end;
        mbr_range_slots(part->range, part->offset_bytes, part->bytes, &first, &end);
        mbr_alias_strip(part->range, first, end);
    }
}

static mbr_status make_items(mbr_plan *plan, mbr_error *error)
{
    mbr_backing *backing = plan->backing;
    mbr_lock_take(&backing->lock);
    mbr_status status = walk_parts(plan, false, error);
    mbr_lock_drop(&backing->lock);
    if (status != MBR_OK)
        return status;
    if (plan->item_capacity > MBR_PLAN_INLINE_COUNT) {
        plan->items = mbr_heap_allocate(backing->heap, plan->item_capacity * sizeof(*plan->items));
        if (plan->items == NULL)
            return mbr_fail(error, MBR_OUT_OF_HOST_MEMORY,
                "no host memory for a plan of %llu extents",
                (unsigned long long)plan->item_capacity);
    }
    mbr_lock_take(&backing->lock);
    status = walk_parts(plan, true, error);
    mbr_lock_drop(&backing->lock);
    return status;
}

/* ---- Sources --------------------------------------------------------------------------------- */

static void choose_source(mbr_plan *plan, mbr_plan_item *item)
{
    mbr_backing *backing = plan->backing;
    mbr_slot *slot = &item->range->slots[item->index];
    item->victim = NULL;
    item->extent = NULL;
    item->filled = false;
    item->stage = MBR_STAGE_PLANNED;
    if (slot->state == MBR_SLOT_PARKED) {
        item->source = MBR_SOURCE_PARKED;
        item->extent = slot->extent;
        plan->parked_bytes += item->bytes;
        plan->adopted_owned_bytes += item->extent->owned_bytes;
        return;
    }
    if (slot->state == MBR_SLOT_LEAVING) {
        item->source = MBR_SOURCE_LEAVING;
        item->extent = slot->extent;
        plan->rejoined_bytes += item->bytes;
        return;
    }
    item->extent = mbr_extent_pool_take(backing, item->bytes, item->range->isolation_group);
    if (plan->ahead && item->extent != NULL &&
        mbr_extent_needs_fill(item->range, item->extent, 0)) {
        mbr_extent_pool_put(backing, item->extent); /* its class is there: it was taken from it */
        item->extent = NULL;
    }
    if (item->extent != NULL) {
        item->source = MBR_SOURCE_POOL;
        item->stage = MBR_STAGE_UNMAPPED;
        plan->pool_bytes += item->bytes;
        plan->adopted_owned_bytes += item->extent->owned_bytes;
        return;
    }
    item->victim =
        plan->may_steal ? mbr_find_parked(backing, item->bytes, plan, &item->victim_index) : NULL;
    if (item->victim != NULL) {
        item->source = MBR_SOURCE_STEAL;
        item->extent = item->victim->slots[item->victim_index].extent;
        item->victim->editor = plan;
        /* Out of sight of the next item's search; stays mapped and paid until it is unmapped. */
        mbr_range_set_slot(item->victim, item->victim_index, MBR_SLOT_LEAVING);
        plan->pool_bytes += item->bytes;
        plan->adopted_owned_bytes += item->extent->owned_bytes;
        return;
    }
    item->source = MBR_SOURCE_CREATE;
    plan->create_bytes += item->bytes;
}

void mbr_plan_sources(mbr_plan *plan)
{
    plan->create_bytes = plan->pool_bytes = plan->parked_bytes = plan->adopted_owned_bytes = 0;
    plan->rejoined_bytes = 0;
    plan->may_steal = !plan->ahead && !mbr_port_is_gated(plan->backing->port);
    mbr_lock_take(&plan->backing->lock);
    for (uint64_t i = 0; i < plan->item_count; i++)
        choose_source(plan, &plan->items[i]);
    mbr_lock_drop(&plan->backing->lock);
}

void mbr_plan_drop_sources(mbr_plan *plan)
{
    mbr_backing *backing = plan->backing;
    for (uint64_t i = 0; i < plan->item_count; i++) {
        mbr_plan_item *item = &plan->items[i];
        if (item->stage == MBR_STAGE_UNMAPPED && item->source != MBR_SOURCE_CREATE) {
            mbr_extent_recycle(backing, item->extent);
            item->stage = MBR_STAGE_GONE;
        }
    }
    mbr_lock_take(&backing->lock);
    for (uint64_t i = 0; i < plan->item_count; i++) {
        mbr_plan_item *item = &plan->items[i];
        if (item->source == MBR_SOURCE_STEAL && item->stage == MBR_STAGE_PLANNED)
            mbr_range_set_slot(item->victim, item->victim_index, MBR_SLOT_PARKED);
    }
    release_victims_locked(plan);
    mbr_lock_drop(&backing->lock);
}

mbr_status mbr_plan_make(mbr_plan *plan, mbr_backing *backing, const mbr_range_part *parts,
    uint32_t part_count, mbr_error *error)
{
    plan->backing = backing;
    plan->parts = parts;
    plan->part_count = part_count;
    plan->items = plan->inline_items;
    plan->item_count = plan->item_capacity = 0;
    mbr_lock_take(&backing->lock);
    mbr_status status = mark_ranges_locked(plan, backing, error);
    mbr_lock_drop(&backing->lock);
    if (status != MBR_OK)
        return status;
    judge_leaves(plan);
    strip_aliases(plan);
    status = make_items(plan, error);
    if (status != MBR_OK) {
        mbr_plan_finish(plan);
        return status;
    }
    mbr_plan_sources(plan);
    return MBR_OK;
}

void mbr_plan_finish(mbr_plan *plan)
{
    mbr_lock_take(&plan->backing->lock);
    for (uint64_t i = 0; i < plan->item_count; i++)
        plan->items[i].range->slots[plan->items[i].index].planned = false;
    unmark_ranges_locked(plan);
    release_victims_locked(plan);
    mbr_lock_drop(&plan->backing->lock);
    if (plan->items != plan->inline_items)
        mbr_heap_release(plan->backing->heap, plan->items);
    mbr_backing_look_again(plan->backing);
}
