/* Gives memory of ranges back: parts of them, and whole ranges at their end. What the device may
 * still touch waits in the context's queue first. */
#include "host/backing/internal.h"

#include <utlist.h>

/* ---- The end of a range ---------------------------------------------------------------------- */

/* Exclusive extents stay mapped, paid by the cache from now on, but for those that may not be
 * written yet; consecutive ones of one holder move in one transfer. */
static void park_slots_locked(mbr_range *range)
{
    mbr_backing *backing = range->backing;
    mbr_holder *holder = NULL;
    uint64_t owned = 0, mapped = 0;
    for (uint64_t i = 0; i <= range->slot_count; i++) {
        mbr_slot *slot = i < range->slot_count ? &range->slots[i] : NULL;
        bool parks = slot != NULL && slot->state == MBR_SLOT_COMMITTED && !slot->is_sealed &&
            slot->extent->slot_count == 1 && slot->extent->keeps == NULL;
        if (holder != NULL && (slot == NULL || (parks && slot->holder != holder))) {
            if (holder != backing->cache) {
                mbr_transfer(holder, backing->cache, owned);
                mbr_mapped_transfer(holder, backing->cache, mapped);
            }
            owned = mapped = 0;
            holder = NULL;
        }
        if (!parks)
            continue;
        holder = slot->holder;
        owned += slot->extent->owned_bytes;
        mapped += slot->extent->bytes;
        slot->extent->payer = backing->cache;
        slot->holder = NULL;
        mbr_extent_move(backing, slot->extent, MBR_EXTENT_PARKED);
        mbr_range_set_slot(range, i, MBR_SLOT_PARKED);
    }
}

static bool leaves(const mbr_slot *slot)
{
    return slot->state == MBR_SLOT_COMMITTED || slot->state == MBR_SLOT_ALIAS ||
        slot->state == MBR_SLOT_LEAVING;
}

static void finish_ended(mbr_range *range)
{
    mbr_backing *backing = range->backing;
    mbr_context *context = range->context;
    mbr_lock_take(&backing->lock);
    DL_DELETE(backing->live, range);
    backing->live_count--;
    mbr_ahead_forget_locked(range);
    bool room = backing->cached_count < MBR_CACHED_RANGE_LIMIT_COUNT ||
        mbr_backing_device_locked(backing) == MBR_DEVICE_IS_LOST;
    bool withheld = range->stuck_count != 0;
    /* While a graph is captured nothing is unmapped: then there is one more than the limit. */
    bool discards = !withheld && !room && mbr_port_try_enter_gate(backing->port);
    if (withheld) {
        range->retained = true; /* its addresses are never handed out again (I10) */
        DL_APPEND(backing->retained, range);
    } else if (!discards) {
        mbr_range_cache(range);
    }
    range->keeps_pin = withheld && range->fill_stream_id != 0;
    bool pinned = range->keeps_pin;
    if (!discards)
        mbr_range_end_edit(range);
    mbr_lock_drop(&backing->lock);
    if (discards) {
        mbr_range_discard(range);
        mbr_port_leave_gate(backing->port);
    }
    mbr_alias_catch_up(backing); /* others did not look into what was edited */
    mbr_backing_look_again(backing);
    mbr_backing_keep_watermark(backing);
    if (!pinned)
        mbr_context_unpin(context);
}

/* What a fill was enqueued for is called zero or this group's. A loss may have taken the fill along
 * and the memory not, and then nobody knows what is there (I21). */
static void doubt_fills_locked(mbr_range *range)
{
    for (uint64_t i = 0; i < range->slot_count; i++) {
        if (range->slots[i].extent != NULL)
            range->slots[i].extent->content = MBR_CONTENT_UNDEFINED;
    }
}

static void end_released(mbr_range *range)
{
    mbr_backing *backing = range->backing;
    mbr_lock_take(&backing->lock);
    mbr_range_await_editor(backing, range);
    mbr_range_begin_edit(range, range);
    if (mbr_context_state(range->context) == MBR_CONTEXT_LOST)
        doubt_fills_locked(range);
    park_slots_locked(range);
    mbr_alias_park_all_locked(range);
    mbr_lock_drop(&backing->lock);
    for (uint64_t i = 0; i < range->slot_count; i++) {
        if (leaves(&range->slots[i]))
            mbr_range_unmap_slot(range, i);
    }
    finish_ended(range);
}

/* Nobody will know when the device was done: nothing is unmapped, the bytes stay charged until the
 * end of the context is confirmed (host.md, teardown). */
static void end_retained(mbr_range *range)
{
    mbr_backing *backing = range->backing;
    mbr_context *context = range->context;
    mbr_lock_take(&backing->lock);
    mbr_range_await_editor(backing, range);
    mbr_range_begin_edit(range, range);
    for (uint64_t i = 0; i < range->slot_count; i++) {
        mbr_slot *slot = &range->slots[i];
        if (!leaves(slot))
            continue;
        slot->lost = true;
        slot->extent->lost_count++;
        mbr_extent_settle_users(backing, slot->extent); /* retained once all its users are lost */
    }
    DL_DELETE(backing->live, range);
    backing->live_count--;
    mbr_ahead_forget_locked(range);
    range->fill_stream_id = 0; /* nobody is asked any more */
    range->retained = true;
    DL_APPEND(backing->retained, range);
    mbr_range_end_edit(range);
    mbr_lock_drop(&backing->lock);
    if (mbr_context_has_ended(context)) /* nobody confirms it once more */
        mbr_backing_confirm_lost(backing, context);
    mbr_context_unpin(context);
}

static void end_range(mbr_range *range, mbr_settled how)
{
    mbr_backing *backing = range->backing;
    mbr_lock_take(&backing->lock);
    bool holds = range->committed_bytes + range->alias_bytes + range->leaving_bytes != 0;
    bool lost = how == MBR_SETTLED_LOST || range->lost;
    mbr_lock_drop(&backing->lock);
    lost = lost && !backing->mechanism->releasable_after_loss;
    if (holds && (lost || mbr_range_is_lost(range)))
        end_retained(range);
    else
        end_released(range);
}

/* The last that who ends something does with the backing: it may be gone then. */
static void end_done(mbr_backing *backing, uint64_t count)
{
    atomic_fetch_sub_explicit(&backing->ending_count, count, memory_order_release);
}

static void settle_end(mbr_deferred *entry, mbr_settled how)
{
    mbr_range *range = (mbr_range *)((char *)entry - offsetof(mbr_range, deferred));
    mbr_backing *backing = range->backing;
    mbr_lock_take(&backing->lock);
    bool waits = range->leave_count != 0; /* parts of it wait for other streams (I11) */
    range->end_waits = waits;
    range->end_how = how;
    mbr_lock_drop(&backing->lock);
    if (waits)
        return;
    end_range(range, how);
    end_done(backing, 1);
}

/* Takes the range from its user: no new work. */
static mbr_status take_for_end_locked(mbr_range *range, mbr_error *error)
{
    if (range->ended)
        return mbr_fail(error, MBR_STALE, "the range was released already");
    mbr_status status = mbr_range_check_pins_locked(range, error);
    if (status != MBR_OK)
        return status;
    range->ended = true;
    atomic_fetch_add_explicit(&range->backing->ending_count, 1, memory_order_relaxed);
    range->deferred.bytes = range->committed_bytes + range->alias_bytes;
    range->deferred.settle = settle_end;
    range->deferred.graphs = range->graphs;
    return MBR_OK;
}

static void settle_end_now(mbr_range *range)
{
    bool lost = mbr_context_state(range->context) == MBR_CONTEXT_LOST;
    settle_end(&range->deferred, lost ? MBR_SETTLED_LOST : MBR_SETTLED_RELEASED);
}

void mbr_range_end_now(mbr_range *range)
{
    mbr_backing *backing = range->backing;
    mbr_lock_take(&backing->lock);
    mbr_range_await_editor(backing, range);
    mbr_status status = take_for_end_locked(range, NULL);
    mbr_lock_drop(&backing->lock);
    if (status == MBR_OK)
        settle_end_now(range);
}

mbr_status mbr_range_end(
    mbr_range *range, bool now, const uint64_t *stream_ids, uint32_t stream_count, mbr_error *error)
{
    mbr_backing *backing = range->backing;
    mbr_lock_take(&backing->lock);
    mbr_status status = mbr_range_try_await_editor(backing, range, error);
    if (status == MBR_OK)
        status = take_for_end_locked(range, error);
    if (status == MBR_OK) /* until it is known whether it ends: seal.c waits for that */
        mbr_range_begin_edit(range, &range->deferred);
    mbr_lock_drop(&backing->lock);
    if (status != MBR_OK)
        return status;
    /* With nothing mapped there is nothing to wait for. */
    bool waits = range->deferred.bytes != 0 && (!now || mbr_range_must_wait(range));
    if (waits)
        status = mbr_context_defer(
            range->context, stream_ids, now ? 0 : stream_count, &range->deferred, error);
    bool is_lost = MBR_STATUS_CLASS(status) == MBR_CLASS_LOST;
    mbr_lock_take(&backing->lock);
    range->ended = status == MBR_OK || is_lost;
    mbr_range_end_edit(range);
    mbr_lock_drop(&backing->lock);
    if (is_lost)
        settle_end(&range->deferred, MBR_SETTLED_LOST);
    else if (!waits)
        settle_end_now(range);
    else
        mbr_backing_look_again(backing); /* others did not look into what was edited */
    if (status != MBR_OK && !is_lost)
        end_done(backing, 1);
    return is_lost ? MBR_OK : status;
}

/* ---- Parts of a range ------------------------------------------------------------------------ */

/* Parts of a range may overlap: what waits for one decommit is not touched by another (I11). */
static bool leaves_with(const mbr_slot *slot, const mbr_leave *leave)
{
    return slot->state == MBR_SLOT_LEAVING && slot->leave == leave;
}

/* What a growth had kept from a decommit that is still queued goes with that one, in its turn:
 * whoever gives a place back answers for his own use of it, and not for work before that. */
static void hand_on_locked(const mbr_leave *leave)
{
    mbr_range *range = leave->range;
    mbr_leave *other;
    DL_FOREACH(range->leaves, other)
    {
        for (uint64_t i = leave->first; i < leave->end && other->is_former; i++) {
            if (leaves_with(&range->slots[i], leave) && mbr_leave_is_former(other, i))
                range->slots[i].leave = other;
        }
    }
}

/* The leave is in no list any more. Drops the lock meanwhile. */
static void unmap_leaving_locked(mbr_backing *backing, mbr_leave *leave)
    MBR_REQUIRES(&backing->lock)
{
    mbr_range *range = leave->range;
    mbr_range_begin_edit(range, leave);
    if (mbr_context_state(range->context) == MBR_CONTEXT_LOST)
        doubt_fills_locked(range);
    hand_on_locked(leave);
    mbr_lock_drop(&backing->lock);
    for (uint64_t i = leave->first; i < leave->end; i++) {
        if (leaves_with(&range->slots[i], leave))
            mbr_range_unmap_slot(range, i);
    }
    mbr_lock_take(&backing->lock);
    mbr_range_end_edit(range);
}

static void settle_leave(mbr_deferred *entry, mbr_settled how)
{
    mbr_leave *leave = (mbr_leave *)((char *)entry - offsetof(mbr_leave, deferred));
    mbr_range *range = leave->range;
    mbr_backing *backing = range->backing;
    bool lost = how == MBR_SETTLED_LOST && !backing->mechanism->releasable_after_loss;
    /* Once the range needs it no more, another thread may end that. */
    atomic_fetch_add_explicit(&backing->ending_count, 1, memory_order_relaxed);
    lost = lost || mbr_range_is_lost(range); /* also what was done before: no unmap any more */
    mbr_lock_take(&backing->lock);
    mbr_range_await_editor(backing, range); /* a plan looks at what leaves */
    DL_DELETE(range->leaves, leave);
    if (!lost) /* else it stays leaving; the end of the range retains it */
        unmap_leaving_locked(backing, leave);
    range->leave_count--;
    range->lost |= lost;
    bool ends = range->end_waits && range->leave_count == 0;
    mbr_settled end_how = range->end_how;
    mbr_lock_drop(&backing->lock);
    mbr_heap_release(backing->heap, leave);
    if (ends)
        end_range(range, end_how);
    else
        mbr_backing_keep_watermark(backing);
    mbr_backing_look_again(backing);
    end_done(backing, ends ? 2 : 1); /* the range's, too */
}

static uint64_t usable_bytes(const mbr_range *range, uint64_t offset, uint64_t bytes)
{
    uint64_t first, end, usable = 0;
    mbr_range_slots(range, offset, bytes, &first, &end);
    for (uint64_t i = first; i < end; i++) {
        if (range->slots[i].state != MBR_SLOT_COMMITTED && range->slots[i].state != MBR_SLOT_ALIAS)
            continue;
        uint64_t start = mbr_slot_offset(range, i);
        uint64_t stop = mbr_min(start + mbr_slot_bytes(range, i), offset + bytes);
        usable += stop - mbr_max(start, offset);
    }
    return usable;
}

/* Marks what leaves; returns its bytes. */
static uint64_t mark_leaving_locked(mbr_leave *leave)
{
    mbr_range *range = leave->range;
    uint64_t marked = 0;
    for (uint64_t i = leave->first; i < leave->end; i++) {
        if (range->slots[i].state != MBR_SLOT_COMMITTED && range->slots[i].state != MBR_SLOT_ALIAS)
            continue;
        marked += range->slots[i].extent->bytes;
        mbr_range_set_slot(range, i, MBR_SLOT_LEAVING);
        range->slots[i].leave = leave;
    }
    return marked;
}

static void unmark_leaving(mbr_leave *leave)
{
    mbr_range *range = leave->range;
    mbr_lock_take(&range->backing->lock);
    for (uint64_t i = leave->first; i < leave->end; i++) {
        if (leaves_with(&range->slots[i], leave))
            mbr_range_set_slot(
                range, i, range->slots[i].was_alias ? MBR_SLOT_ALIAS : MBR_SLOT_COMMITTED);
    }
    DL_DELETE(range->leaves, leave);
    range->leave_count--;
    mbr_range_update_committed_end(range);
    mbr_range_end_edit(range);
    mbr_lock_drop(&range->backing->lock);
}

static mbr_status mark_part(mbr_range *range, uint64_t offset, uint64_t bytes, mbr_leave *leave,
    mbr_range_decommit_result *result, mbr_error *error)
{
    mbr_backing *backing = range->backing;
    mbr_lock_take(&backing->lock);
    uint64_t end;
    mbr_status status = mbr_range_try_await_editor(backing, range, error);
    if (status == MBR_OK && range->ended)
        status = mbr_fail(error, MBR_STALE, "the range was released");
    else if (status == MBR_OK && (!mbr_add(offset, bytes, &end) || end > range->bytes))
        status = mbr_fail(error, MBR_OUT_OF_RANGE, "[%llu, +%llu) ends past the range's %llu bytes",
            (unsigned long long)offset, (unsigned long long)bytes,
            (unsigned long long)range->bytes);
    if (status == MBR_OK && bytes != 0)
        status = mbr_range_check_pins_locked(range, error);
    if (status == MBR_OK && bytes != 0) {
        mbr_range_whole_slots(range, offset, bytes, &leave->first, &leave->end);
        uint64_t before = usable_bytes(range, offset, bytes);
        result->decommitted_bytes = mark_leaving_locked(leave);
        result->kept_bytes = before - result->decommitted_bytes;
        leave->deferred.bytes = result->decommitted_bytes;
        leave->deferred.graphs = range->graphs;
        range->remap_epoch += result->decommitted_bytes != 0;
        range->leave_count++;
        DL_APPEND(range->leaves, leave);
        mbr_range_begin_edit(range, leave);
    }
    mbr_lock_drop(&backing->lock);
    return status;
}

mbr_status mbr_range_give_back(mbr_range *range, uint64_t offset_bytes, uint64_t bytes, bool now,
    const uint64_t *stream_ids, uint32_t stream_count, mbr_range_decommit_result *result,
    mbr_error *error)
{
    mbr_backing *backing = range->backing;
    *result = (mbr_range_decommit_result){.struct_size = result->struct_size};
    mbr_leave *leave = mbr_heap_allocate(backing->heap, sizeof(*leave));
    if (leave == NULL)
        return mbr_fail(
            error, MBR_OUT_OF_HOST_MEMORY, "no host memory for a decommit; nothing was changed");
    *leave = (mbr_leave){.range = range, .deferred = {.settle = settle_leave}};
    mbr_status status = mark_part(range, offset_bytes, bytes, leave, result, error);
    if (status != MBR_OK || bytes == 0) {
        mbr_heap_release(backing->heap, leave);
        return status;
    }
    if (result->decommitted_bytes == 0 || (now && !mbr_range_must_wait(range))) {
        mbr_lock_take(&backing->lock);
        mbr_range_end_edit(range);
        mbr_lock_drop(&backing->lock);
        bool lost = mbr_context_state(range->context) == MBR_CONTEXT_LOST;
        settle_leave(&leave->deferred, lost ? MBR_SETTLED_LOST : MBR_SETTLED_RELEASED);
        return MBR_OK;
    }
    status = mbr_context_defer(
        range->context, stream_ids, now ? 0 : stream_count, &leave->deferred, error);
    if (status != MBR_OK) {
        unmark_leaving(leave);
        mbr_heap_release(backing->heap, leave);
        *result = (mbr_range_decommit_result){.struct_size = result->struct_size};
    } else {
        mbr_lock_take(&backing->lock);
        mbr_range_end_edit(range);
        mbr_lock_drop(&backing->lock);
    }
    mbr_backing_look_again(backing);
    return status;
}

/* ---- Lost contexts --------------------------------------------------------------------------- */

/* The device took the memory with it: the record of one slot's use ends without a call. */
static void forget_slot(mbr_range *range, uint64_t index)
{
    mbr_backing *backing = range->backing;
    mbr_slot *slot = &range->slots[index];
    mbr_extent *extent = slot->extent;
    mbr_holder *holder = slot->holder != NULL ? slot->holder : backing->cache;
    mbr_lock_take(&backing->lock);
    bool was_retained = atomic_load(&extent->state) == MBR_EXTENT_RETAINED;
    extent->lost_count -= slot->lost;
    mbr_range_set_slot(range, index, MBR_SLOT_EMPTY);
    mbr_extent_remove_slot(extent, slot);
    bool used = mbr_extent_settle_users(backing, extent);
    if (!used && was_retained) {
        mbr_retain_settle(extent->payer, extent->owned_bytes);
        backing->retained_bytes -= extent->owned_bytes;
    }
    if (!used) {
        if (!was_retained)
            mbr_extent_move(backing, extent, MBR_EXTENT_POOLED);
        mbr_extent_move(backing, extent, MBR_EXTENT_DESTROYED);
        backing->extent_count--;
    }
    mbr_lock_drop(&backing->lock);
    mbr_mapped_sub(holder, extent->bytes);
    mbr_port_forget_mapping(backing->port, extent->bytes);
    if (used)
        return;
    mbr_refund(extent->payer, extent->owned_bytes);
    mbr_port_forget_extent(backing->port, extent->owned_bytes);
    mbr_heap_release(backing->heap, extent);
}

static mbr_range *find_retained_locked(const mbr_backing *backing, const mbr_context *context)
{
    mbr_range *range = backing->retained;
    while (range != NULL && (range->context != context || range->stuck_count != 0))
        range = range->next;
    return range;
}

/* Marked: its parked aliases are still found by their extents. */
static mbr_range *take_retained_of(
    mbr_backing *backing, const mbr_context *context, const void *editor)
{
    mbr_range *range;
    mbr_lock_take(&backing->lock);
    while ((range = find_retained_locked(backing, context)) != NULL && range->editor != NULL)
        mbr_range_await_editor(backing, range);
    if (range != NULL) {
        DL_DELETE(backing->retained, range);
        mbr_range_begin_edit(range, editor);
    }
    mbr_lock_drop(&backing->lock);
    return range;
}

static void forget_range(mbr_range *range)
{
    mbr_backing *backing = range->backing;
    for (uint64_t i = 0; i < range->slot_count; i++) {
        if (range->slots[i].extent != NULL)
            forget_slot(range, i);
    }
    mbr_lock_take(&backing->lock);
    mbr_range_end_edit(range);
    mbr_lock_drop(&backing->lock);
    mbr_port_forget_reservation(backing->port, range->address, range->bytes);
    mbr_range_make_spare(range);
}

/* But for those in which something is stuck. False: there was none. */
static bool forget_ranges(mbr_backing *backing, const mbr_context *context)
{
    int editor;
    mbr_range *range;
    bool took = false;
    for (; (range = take_retained_of(backing, context, &editor)) != NULL; took = true)
        forget_range(range);
    return took;
}

static mbr_eager_span *take_retained_span_of(mbr_backing *backing, const mbr_context *context)
{
    mbr_eager_span *span;
    mbr_lock_take(&backing->lock);
    DL_SEARCH_SCALAR(backing->retained_spans, span, context, context);
    if (span != NULL) {
        DL_DELETE(backing->retained_spans, span);
        backing->retained_bytes -= span->owned_bytes;
    }
    mbr_lock_drop(&backing->lock);
    return span;
}

static void forget_span(mbr_backing *backing, mbr_eager_span *span)
{
    mbr_retain_settle(backing->cache, span->owned_bytes);
    mbr_mapped_sub(backing->cache, span->owned_bytes);
    mbr_refund(backing->cache, span->owned_bytes);
    mbr_port_forget_allocation(backing->port, span->address, span->owned_bytes);
    mbr_heap_release(backing->heap, span);
}

void mbr_backing_confirm_lost(mbr_backing *backing, const mbr_context *context)
{
    mbr_eager_span *span;
    while ((span = take_retained_span_of(backing, context)) != NULL)
        forget_span(backing, span);
    mbr_backing_forget_fills(backing, context);
    bool has_ended = mbr_backing_device(backing) == MBR_DEVICE_HAS_ENDED;
    bool took;
    do { /* what is stuck goes with the extent's last other user, and then its range does */
        if (has_ended) /* which calls nobody then */
            mbr_backing_retry_quarantined(backing);
        took = forget_ranges(backing, context);
    } while (has_ended && took);
    if (has_ended)
        mbr_backing_empty_cache(backing);
}
