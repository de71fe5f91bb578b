/* Responsible for second tries: mappings, extents and spans that a plugin refused to take back, or
 * that a graph capture forbade to give back, and of which it is known that nothing happened to
 * them. What is in an unknown state stays quarantined for good; nothing here touches it. */
#include "host/backing/internal.h"

#include <utlist.h>

#define FILL_LOOK_NS UINT64_C(1000000) /* an idle stream's signal is seen within it */

/* ---- Stuck slots */

static bool is_stuck(const mbr_slot *slot)
{
    return slot->state == MBR_SLOT_STUCK && slot->may_retry;
}

/* Nobody uses it, and each of its places may be tried again. */
static bool is_stuck_everywhere(const mbr_extent *extent)
{
    const mbr_slot *slot;
    DL_FOREACH(extent->slots, slot)
    if (!is_stuck(slot))
        return false;
    return extent->keeps == NULL && extent->attaching_count == 0;
}

/* An extent whose whole is quarantined goes back when the last of its places does. */
static bool may_retry_slot(const mbr_slot *slot, uint32_t round)
{
    if (!is_stuck(slot) || slot->tried == round)
        return false;
    const mbr_extent *extent = slot->extent;
    return atomic_load_explicit(&extent->state, memory_order_relaxed) != MBR_EXTENT_QUARANTINED ||
        is_stuck_everywhere(extent);
}

static bool find_slot(const mbr_range *range, uint32_t round, uint64_t *index)
{
    for (*index = 0; *index < range->slot_count; ++*index)
        if (may_retry_slot(&range->slots[*index], round))
            return true;
    return false;
}

static mbr_range *find_in(mbr_backing *backing, mbr_range *head, uint32_t round, uint64_t *index)
{
    mbr_range *range;
    DL_FOREACH(head, range)
    {
        bool is_edited = range->editor != NULL;
        bool was_asked = !is_edited && range->fill_asked_round == round;
        if (range->stuck_count == 0 || was_asked || !find_slot(range, round, index))
            continue;
        if (!is_edited)
            return range;
        mbr_backing_note_kept(backing); /* who edits it looks when he is done */
    }
    return NULL;
}

/* Marks the range as edited, so that it stays. NULL: none is left in this round. */
static mbr_range *begin_one(
    mbr_backing *backing, uint32_t round, const void *editor, uint64_t *index)
{
    mbr_range *const heads[] = {backing->retained, backing->cached, backing->live};
    mbr_range *found = NULL;
    mbr_lock_take(&backing->lock);
    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]) && found == NULL; i++)
        found = backing->retry_count == 0 ? NULL : find_in(backing, heads[i], round, index);
    if (found != NULL) {
        mbr_range_begin_edit(found, editor);
        found->slots[*index].tried = round;
    }
    mbr_lock_drop(&backing->lock);
    return found;
}

/* Nothing is mapped there any more. True if nobody uses the extent now. */
static bool release_slot_locked(mbr_range *range, uint64_t index)
{
    mbr_backing *backing = range->backing;
    mbr_slot *slot = &range->slots[index];
    mbr_extent *extent = slot->extent;
    slot->may_retry = false;
    backing->retry_count--;
    backing->quarantined_count--;
    mbr_range_set_slot(range, index, MBR_SLOT_EMPTY);
    mbr_extent_remove_slot(extent, slot);
    if (extent->slot_count == 0 && atomic_load(&extent->state) == MBR_EXTENT_QUARANTINED)
        mbr_quarantine_settle(extent->payer, extent->owned_bytes);
    return !mbr_extent_settle_users(backing, extent);
}

/* A range that was kept only for what was stuck in it gives its addresses back, or is cached with
 * what is parked in it. */
static void finish_one(mbr_range *range)
{
    mbr_backing *backing = range->backing;
    mbr_lock_take(&backing->lock);
    mbr_range_end_edit(range);
    bool holds =
        range->committed_bytes + range->alias_bytes + range->leaving_bytes + range->stuck_count !=
        0;
    bool over = range->retained && !holds;
    bool parks = over && range->parked_bytes + range->parked_alias_count != 0;
    if (over) {
        DL_DELETE(backing->retained, range);
        range->retained = false;
    }
    if (parks)
        mbr_range_cache(range);
    mbr_lock_drop(&backing->lock);
    if (over && !parks)
        mbr_range_dissolve(range);
}

static void retry_slot(mbr_range *range, uint64_t index)
{
    mbr_backing *backing = range->backing;
    mbr_slot *slot = &range->slots[index];
    mbr_extent *extent = slot->extent;
    uint64_t bytes = extent->bytes;
    mbr_answer answer;
    mbr_status status = mbr_slot_unmap_if_there(range, index, &answer);
    mbr_lock_take(&backing->lock);
    mbr_holder *holder = slot->holder != NULL ? slot->holder : backing->cache;
    bool unused = status == MBR_OK && release_slot_locked(range, index);
    if (status != MBR_OK && answer.quarantined) {
        slot->may_retry = false; /* now nobody knows */
        backing->retry_count--;
    }
    mbr_lock_drop(&backing->lock);
    if (status == MBR_OK)
        mbr_mapped_sub(holder, bytes);
    if (unused)
        mbr_extent_recycle(backing, extent);
}

/* ---- Fills of growths that failed */

static void let_go_of_fills(mbr_range *range)
{
    range->fill_stream_id = 0;
    if (range->keeps_pin)
        mbr_context_unpin(range->context);
    range->keeps_pin = false;
}

/* Nobody will see them done: what is stuck in the range stays so. Its editor calls it. */
static void give_up_fills(mbr_range *range)
{
    mbr_backing *backing = range->backing;
    mbr_lock_take(&backing->lock);
    for (uint64_t i = 0; i < range->slot_count; i++) {
        mbr_slot *slot = &range->slots[i];
        backing->retry_count -= is_stuck(slot);
        slot->may_retry = false;
    }
    mbr_lock_drop(&backing->lock);
    let_go_of_fills(range);
}

/* Nothing is unmapped under a fill that may still run (I11). A retry looks, and does not wait. */
static bool fills_are_done(mbr_range *range, uint32_t round)
{
    if (range->fill_stream_id == 0)
        return true;
    mbr_status status = mbr_context_synchronize(range->context, range->fill_stream_id,
        mbr_clock_now(&mbr_clock_monotonic) + FILL_LOOK_NS, NULL);
    bool done = status == MBR_OK || MBR_STATUS_CLASS(status) == MBR_CLASS_LOST;
    if (done)
        let_go_of_fills(range);
    else if (status == MBR_UNKNOWN_OBJECT) /* the stream is detached */
        give_up_fills(range);
    else
        range->fill_asked_round = round;
    return done;
}

/* Whoever edits one asks its stream, hears of the loss, and lets go himself. */
static mbr_range *begin_filled(mbr_backing *backing, const mbr_context *context, const void *editor)
{
    mbr_lock_take(&backing->lock);
    mbr_range *range = backing->retained;
    while (range != NULL &&
        (range->context != context || range->editor != NULL || range->fill_stream_id == 0))
        range = range->next;
    if (range != NULL)
        mbr_range_begin_edit(range, editor);
    mbr_lock_drop(&backing->lock);
    return range;
}

void mbr_backing_forget_fills(mbr_backing *backing, const mbr_context *context)
{
    int editor;
    mbr_range *range;
    while ((range = begin_filled(backing, context, &editor)) != NULL) {
        let_go_of_fills(range);
        mbr_lock_take(&backing->lock);
        mbr_range_end_edit(range);
        mbr_lock_drop(&backing->lock);
    }
}

void mbr_backing_give_up_fills(mbr_backing *backing)
{
    mbr_range *range;
    DL_FOREACH(backing->retained, range)
    if (range->fill_stream_id != 0)
        give_up_fills(range);
}

static void retry_slots(mbr_backing *backing)
{
    int editor;
    uint64_t index;
    mbr_range *range;
    mbr_lock_take(&backing->lock);
    uint32_t round = ++backing->retry_round;
    atomic_store_explicit(&backing->has_kept, false, memory_order_relaxed);
    /* A round of another thread may try a place between two looks of this one: neither goes on
     * because of the other for ever. */
    uint64_t left_count = backing->retry_count;
    mbr_lock_drop(&backing->lock);
    while (left_count-- > 0 && (range = begin_one(backing, round, &editor, &index)) != NULL) {
        if (fills_are_done(range, round))
            retry_slot(range, index);
        finish_one(range);
    }
}

/* ---- Spans */

/* What a device took along is gone without a call. */
static mbr_status release_if_there(
    mbr_backing *backing, const mbr_eager_span *span, mbr_answer *answer)
{
    *answer = (mbr_answer){.unchanged = true};
    switch (mbr_backing_device(backing)) {
    case MBR_DEVICE_IS_LOST:
        return MBR_DEVICE_LOST;
    case MBR_DEVICE_HAS_ENDED:
        mbr_port_forget_allocation(backing->port, span->address, span->owned_bytes);
        return MBR_OK;
    default:
        return mbr_port_release(
            backing->port, span->allocation_id, span->address, span->owned_bytes, answer, NULL);
    }
}

static uint64_t retry_span(mbr_backing *backing, mbr_eager_span *span)
{
    mbr_answer answer;
    mbr_status status = release_if_there(backing, span, &answer);
    bool gone = status == MBR_OK, lost = !gone && !answer.unchanged;
    mbr_lock_take(&backing->lock);
    if (gone) {
        backing->quarantined_count--;
        backing->withheld_span_bytes -= span->owned_bytes;
    } else if (!lost) {
        DL_APPEND(backing->withheld_spans, span);
    }
    mbr_lock_drop(&backing->lock);
    uint64_t released_bytes = gone ? span->owned_bytes : 0;
    if (gone) {
        mbr_quarantine_settle(mbr_backing_cache(backing), released_bytes);
        mbr_mapped_sub(mbr_backing_cache(backing), released_bytes);
        mbr_refund(mbr_backing_cache(backing), released_bytes);
    }
    if (gone || lost)
        mbr_heap_release(backing->heap, span);
    return released_bytes;
}

static uint64_t retry_spans(mbr_backing *backing)
{
    uint64_t released_bytes = 0;
    mbr_lock_take(&backing->lock);
    mbr_eager_span *spans = backing->withheld_spans;
    backing->withheld_spans = NULL;
    mbr_lock_drop(&backing->lock);
    while (spans != NULL) {
        mbr_eager_span *span = spans;
        DL_DELETE(spans, span);
        released_bytes += retry_span(backing, span);
    }
    return released_bytes;
}

uint64_t mbr_backing_retry_quarantined(mbr_backing *backing)
{
    if (!mbr_port_try_enter_gate(backing->port)) /* nothing could be done */
        return 0;
    retry_slots(backing);
    uint64_t released_bytes = retry_spans(backing) + mbr_extent_retry_withheld(backing);
    mbr_port_leave_gate(backing->port);
    return released_bytes;
}

/* ---- What captures and losses keep ----------------------------------------------------------- */

void mbr_backing_note_kept(mbr_backing *backing)
{
    atomic_store_explicit(&backing->has_kept, true, memory_order_relaxed);
}

static bool retry_kept(mbr_backing *backing)
{
    bool tries = atomic_load_explicit(&backing->has_kept, memory_order_relaxed);
    if (tries)
        mbr_backing_retry_quarantined(backing);
    return tries;
}

void mbr_backing_look_again(mbr_backing *backing)
{
    retry_kept(backing);
    mbr_seal_catch_up(backing);
    if (retry_kept(backing)) /* others did not look into what was edited */
        mbr_seal_catch_up(backing);
}
