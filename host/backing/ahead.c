/* What stands ahead of need: extents mapped at addresses that no growth has handed out yet, paid by
 * the cache. Says which they are, how many there may be, hands them to the growth that reaches
 * them, in one step under the lock, and takes them again from a holder that has not used them.
 * Maps nothing itself: a growth with MBR_GROW_AHEAD does. */
#include "host/backing/plan.h"

#include <utlist.h>

/* What has stood so long without being reached is not ahead of anything that grows. */
#define STALE_AGE_NS UINT64_C(1000000000)

/* ---- Which they are -------------------------------------------------------------------------- */

void mbr_ahead_mark_locked(mbr_range *range, uint64_t index)
{
    mbr_backing *backing = range->backing;
    mbr_slot *slot = &range->slots[index];
    MBR_ASSERT(slot->state == MBR_SLOT_PARKED && !slot->is_ahead);
    if (range->ahead_bytes != 0)
        DL_DELETE2(backing->ahead, range, ahead_prev, ahead_next);
    DL_APPEND2(backing->ahead, range, ahead_prev, ahead_next);
    range->ahead_ns = mbr_clock_now(&mbr_clock_monotonic);
    slot->is_ahead = true;
    range->ahead_bytes += slot->extent->bytes;
    backing->ahead_bytes += slot->extent->owned_bytes;
}

void mbr_ahead_unmark_locked(mbr_range *range, uint64_t index)
{
    mbr_backing *backing = range->backing;
    mbr_slot *slot = &range->slots[index];
    slot->is_ahead = false;
    range->ahead_bytes -= slot->extent->bytes;
    backing->ahead_bytes -= slot->extent->owned_bytes;
    if (range->ahead_bytes == 0)
        DL_DELETE2(backing->ahead, range, ahead_prev, ahead_next);
}

void mbr_ahead_forget_locked(mbr_range *range)
{
    for (uint64_t i = 0; i < range->slot_count && range->ahead_bytes != 0; i++) {
        if (range->slots[i].is_ahead)
            mbr_ahead_unmark_locked(range, i);
    }
}

/* ---- How many there may be ------------------------------------------------------------------- */

void mbr_backing_set_ahead(mbr_backing *backing, uint64_t ahead_bytes)
{
    atomic_store_explicit(&backing->ahead_limit_bytes, ahead_bytes, memory_order_relaxed);
    mbr_lock_take(&backing->lock);
    while (backing->ahead != NULL && backing->ahead_bytes > ahead_bytes)
        mbr_ahead_forget_locked(backing->ahead);
    mbr_lock_drop(&backing->lock);
    mbr_backing_keep_watermark(backing);
}

uint64_t mbr_backing_ahead_limit(mbr_backing *backing)
{
    return atomic_load_explicit(&backing->ahead_limit_bytes, memory_order_relaxed);
}

/* What stands longest goes first, but nothing that may still be reached soon. */
static void forget_stale_locked(mbr_backing *backing, uint64_t most_bytes)
{
    uint64_t now_ns = mbr_clock_now(&mbr_clock_monotonic);
    while (backing->ahead != NULL && backing->ahead_bytes > most_bytes &&
        now_ns - backing->ahead->ahead_ns >= STALE_AGE_NS)
        mbr_ahead_forget_locked(backing->ahead);
}

mbr_status mbr_ahead_refuse_undefined(mbr_error *error)
{
    return mbr_fail(error, MBR_UNSUPPORTED,
        "fresh memory of this mechanism is not zero and there are several isolation groups: it is "
        "filled when it is handed out, and nothing is mapped ahead of that");
}

mbr_status mbr_ahead_take_room(mbr_backing *backing, uint64_t bytes, mbr_error *error)
{
    uint64_t limit_bytes = mbr_backing_ahead_limit(backing);
    if (atomic_load_explicit(&backing->fresh_is_undefined, memory_order_relaxed))
        return mbr_ahead_refuse_undefined(error);
    mbr_lock_take(&backing->lock);
    uint64_t before = backing->ahead_bytes, coming = backing->ahead_coming_bytes;
    bool fits = bytes <= limit_bytes && coming <= limit_bytes - bytes;
    if (fits)
        forget_stale_locked(backing, limit_bytes - bytes - coming);
    bool forgot = backing->ahead_bytes != before;
    uint64_t stands = backing->ahead_bytes + coming;
    fits = fits && stands <= limit_bytes - bytes;
    if (fits)
        backing->ahead_coming_bytes += bytes;
    mbr_lock_drop(&backing->lock);
    if (forgot) /* parked like other cache from now on */
        mbr_backing_keep_watermark(backing);
    if (fits)
        return MBR_OK;
    return mbr_fail(error, MBR_OVER_BUDGET,
        "%llu bytes more ahead of need, where %llu stand, are above the binding's ahead_bytes %llu",
        (unsigned long long)bytes, (unsigned long long)stands, (unsigned long long)limit_bytes);
}

void mbr_ahead_leave_room(mbr_backing *backing, uint64_t bytes)
{
    mbr_lock_take(&backing->lock);
    backing->ahead_coming_bytes -= bytes;
    mbr_lock_drop(&backing->lock);
}

/* ---- Adopting -------------------------------------------------------------------------------- */

/* Who maps ahead in the range changes nothing of what stands there. */
static bool may_adopt_in(const mbr_range *range)
{
    return range->editor == NULL || range->is_mapping_ahead;
}

typedef struct mbr_adoption {
    const mbr_grow_options *options;
    uint64_t mapped_bytes, owned_bytes;
    bool any, zero, undefined;
} mbr_adoption;

/* Counts and marks, since parts may overlap. False: it is missing, or has to be filled. */
static bool look_at_slot_locked(mbr_range *range, mbr_slot *slot, mbr_adoption *all)
{
    if (slot->state == MBR_SLOT_COMMITTED || slot->state == MBR_SLOT_ALIAS)
        return true;
    if (slot->state != MBR_SLOT_PARKED ||
        mbr_extent_needs_fill(range, slot->extent, all->options->flags))
        return false;
    if (slot->planned)
        return true;
    slot->planned = true;
    all->mapped_bytes += slot->extent->bytes;
    all->owned_bytes += slot->extent->owned_bytes;
    all->any = true;
    all->zero = all->zero && slot->extent->content == MBR_CONTENT_ZERO;
    all->undefined |= slot->extent->content == MBR_CONTENT_UNDEFINED;
    return true;
}

/* Of the slots before `end` of the part. Who maps ahead there has planned empty ones. */
static void unmark_before_locked(
    const mbr_range_part *part, uint64_t first, uint64_t end, mbr_holder *adopter)
{
    mbr_range *range = part->range;
    for (uint64_t i = first; i < end; i++) {
        if (!range->slots[i].planned || range->slots[i].state != MBR_SLOT_PARKED)
            continue;
        range->slots[i].planned = false;
        if (adopter != NULL)
            mbr_slot_adopt_locked(range, i, adopter);
    }
}

/* False: nothing of it is marked. */
static bool look_at_part_locked(mbr_backing *backing, const mbr_range_part *part, mbr_adoption *all)
{
    mbr_range *range = part->range;
    uint64_t first, end;
    if (mbr_plan_check_part(backing, part, NULL) != MBR_OK || !may_adopt_in(range) ||
        mbr_context_is_capturing(range->context))
        return false;
    mbr_range_slots(range, part->offset_bytes, part->bytes, &first, &end);
    for (uint64_t i = first; i < end; i++) {
        if (look_at_slot_locked(range, &range->slots[i], all))
            continue;
        unmark_before_locked(part, first, i, NULL);
        return false;
    }
    return true;
}

/* `adopter` NULL: nothing is adopted after all. */
static void end_part_locked(const mbr_range_part *part, mbr_holder *adopter)
{
    uint64_t first, end;
    mbr_range_slots(part->range, part->offset_bytes, part->bytes, &first, &end);
    unmark_before_locked(part, first, end, adopter);
    if (adopter != NULL)
        mbr_range_update_committed_end(part->range);
}

bool mbr_backing_adopt(
    mbr_backing *backing, const mbr_grow_options *options, mbr_range_grow_result *result)
{
    mbr_refusal refusal = {MBR_SIZED(mbr_refusal)};
    mbr_adoption all = {.options = options, .zero = true};
    if (options->publish != NULL || options->watch != NULL || mbr_has_aside(options->holder))
        return false;
    uint32_t looked = 0;
    bool adopts = true;
    mbr_lock_take(&backing->lock);
    while (adopts && looked < options->part_count) {
        adopts = look_at_part_locked(backing, &options->parts[looked], &all);
        looked += adopts;
    }
    adopts = adopts &&
        mbr_try_transfer(backing->cache, options->holder, all.owned_bytes, &refusal) == MBR_OK;
    for (uint32_t i = 0; i < looked; i++)
        end_part_locked(&options->parts[i], adopts ? options->holder : NULL);
    mbr_lock_drop(&backing->lock);
    if (!adopts)
        return false;
    if (options->holder != backing->cache)
        mbr_mapped_transfer(backing->cache, options->holder, all.mapped_bytes);
    result->content = !all.any ? MBR_CONTENT_STALE : mbr_content_of(all.zero, all.undefined);
    result->new_bytes = result->parked_bytes = all.mapped_bytes;
    return true;
}

/* ---- And back -------------------------------------------------------------------------------- */

/* Under the lock. Whether the part is whole extents, each the holder's alone. */
static bool may_disown_locked(
    mbr_backing *backing, const mbr_range_part *part, const mbr_holder *holder)
{
    const mbr_range *range = part->range;
    uint64_t first, end;
    if (mbr_plan_check_part(backing, part, NULL) != MBR_OK || !may_adopt_in(range) ||
        mbr_context_is_capturing(range->context) || range->pin_count != 0)
        return false;
    mbr_range_slots(range, part->offset_bytes, part->bytes, &first, &end);
    uint64_t whole_end = part->offset_bytes;
    for (uint64_t i = first; i < end; i++) {
        const mbr_slot *slot = &range->slots[i];
        if (slot->state != MBR_SLOT_COMMITTED || slot->is_sealed || slot->holder != holder ||
            slot->extent->payer != holder || slot->extent->slot_count != 1 ||
            slot->extent->keeps != NULL || mbr_slot_offset(range, i) != whole_end)
            return false;
        whole_end += slot->extent->bytes;
    }
    return whole_end == part->offset_bytes + part->bytes;
}

static bool has_room_ahead_locked(mbr_backing *backing, uint64_t bytes)
{
    uint64_t stands = backing->ahead_bytes + backing->ahead_coming_bytes;
    uint64_t limit_bytes = mbr_backing_ahead_limit(backing);
    return bytes <= limit_bytes && stands <= limit_bytes - bytes;
}

/* Its content is taken for stale, though nobody has written it. What the bound has no room for, as
 * others have mapped ahead meanwhile, is parked like other cache. */
static void disown_part_locked(
    mbr_backing *backing, const mbr_range_part *part, uint64_t *mapped, uint64_t *owned)
{
    mbr_range *range = part->range;
    uint64_t first, end;
    mbr_range_slots(range, part->offset_bytes, part->bytes, &first, &end);
    for (uint64_t i = first; i < end; i++) {
        mbr_slot *slot = &range->slots[i];
        *mapped += slot->extent->bytes;
        *owned += slot->extent->owned_bytes;
        slot->extent->payer = backing->cache;
        slot->holder = NULL;
        mbr_extent_move(backing, slot->extent, MBR_EXTENT_PARKED);
        mbr_range_set_slot(range, i, MBR_SLOT_PARKED);
        if (has_room_ahead_locked(backing, slot->extent->owned_bytes))
            mbr_ahead_mark_locked(range, i);
    }
}

bool mbr_backing_disown(
    mbr_backing *backing, const mbr_grow_options *options, mbr_range_grow_result *result)
{
    uint64_t mapped = 0, owned = 0;
    bool may = true;
    for (uint32_t i = 0; i < options->part_count && may; i++) /* none grows meanwhile */
        may = !mbr_range_must_wait(options->parts[i].range);
    mbr_lock_take(&backing->lock);
    for (uint32_t i = 0; i < options->part_count && may; i++)
        may = may_disown_locked(backing, &options->parts[i], options->holder);
    for (uint32_t i = 0; i < options->part_count && may; i++)
        disown_part_locked(backing, &options->parts[i], &mapped, &owned);
    if (may && options->holder != backing->cache) {
        mbr_transfer(options->holder, backing->cache, owned);
        mbr_mapped_transfer(options->holder, backing->cache, mapped);
    }
    mbr_lock_drop(&backing->lock);
    if (may)
        mbr_backing_keep_watermark(backing);
    result->new_bytes = mapped;
    return may;
}
