/* Responsible for taking an entry out of the queue again for new work on a stream. Never settles an
 * entry and never waits on the host; the one slot behind it is stream_wait.
 *
 * Work that is submitted to a stream later runs after all that an entry of that stream waits for.
 * For the values of other streams the device is told to wait first; meanwhile the entry is claimed:
 * it keeps its place, and whatever comes, its values or a loss, leaves it to the claimer. */
#include "host/ep/internal.h"

/* What new work on a line would have to wait for. */
typedef enum order_of_work {
    ORDER_NONE = 0, /* it is after the entry's work by itself */
    ORDER_WAITS,    /* of further lines, whose values are known */
    ORDER_UNKNOWN,  /* of a line that was not signalled yet */
} order_of_work;

static order_of_work judge(const mbr_deferred *entry, const mbr_line *line)
{
    order_of_work order = ORDER_NONE;
    const mbr_mark *mark;
    TAILQ_FOREACH (mark, &entry->epoch->marks, sibling) {
        if ((entry->epoch_streams & mark->bit) == 0 || mark->line == line)
            continue;
        if (mark->value == 0)
            return ORDER_UNKNOWN;
        order = ORDER_WAITS;
    }
    return order;
}

/* The newest that needs no wait; else, if one may wait, the oldest, which is done first. */
static mbr_deferred *choose_locked(const mbr_shelf *shelf, const mbr_line *line, bool may_wait,
    bool (*fits)(const mbr_deferred *entry, const void *wanted), const void *wanted)
{
    mbr_deferred *behind = NULL, *entry = shelf->newest;
    for (uint32_t seen = 0; entry != NULL && seen < MBR_REACTIVATE_SEEN_COUNT; seen++) {
        order_of_work order = judge(entry, line);
        if (order != ORDER_UNKNOWN && fits(entry, wanted)) {
            if (order == ORDER_NONE)
                return entry;
            behind = entry;
        }
        entry = entry->shelf_next;
    }
    return may_wait ? behind : NULL;
}

static void claim_locked(mbr_context *context, mbr_deferred *entry) MBR_REQUIRES(&context->lock)
{
    mbr_entry_unshelve(entry);
    entry->is_claimed = true;
    context->claimed_count++;
    context->queued_count--;
    context->queued_bytes -= entry->bytes;
}

static void unclaim_locked(mbr_context *context, mbr_deferred *entry) MBR_REQUIRES(&context->lock)
{
    entry->is_claimed = false;
    context->claimed_count--;
}

/* The claimer's for good. */
static void take_locked(mbr_context *context, mbr_deferred *entry) MBR_REQUIRES(&context->lock)
{
    unclaim_locked(context, entry);
    if (entry->epoch != NULL)
        mbr_context_leave_epoch_locked(context, entry);
    context->reactivated_count++;
    context->progress_count++;
}

/* As if it had never been claimed. */
static void put_back_locked(mbr_context *context, mbr_deferred *entry) MBR_REQUIRES(&context->lock)
{
    unclaim_locked(context, entry);
    context->queued_count++;
    context->queued_bytes += entry->bytes;
    if (entry->epoch != NULL)
        mbr_entry_shelve(entry);
    else if (mbr_context_is_lost(context))
        mbr_context_join_lost_locked(context, entry);
    else
        mbr_context_make_ready_locked(context, entry);
    mbr_context_poke_reaper_locked(context, 0);
}

/* The values that the entry waits for, but for those of the line itself; each line is held. */
typedef struct wait_list {
    mbr_line *lines[MBR_DEFER_STREAM_COUNT];
    uint64_t values[MBR_DEFER_STREAM_COUNT];
    uint32_t count;
} wait_list;

static void list_waits_locked(mbr_context *context, const mbr_deferred *entry, const mbr_line *line,
    wait_list *waits) MBR_REQUIRES(&context->lock)
{
    waits->count = 0;
    const mbr_mark *mark;
    TAILQ_FOREACH (mark, &entry->epoch->marks, sibling) {
        if ((entry->epoch_streams & mark->bit) == 0 || mark->line == line)
            continue;
        mbr_context_hold_line_locked(context, mark->line);
        waits->lines[waits->count] = mark->line;
        waits->values[waits->count] = mark->value;
        waits->count++;
    }
}

/* Enqueues the waits on the native stream. A refusal leaves those before it there: later work waits
 * once more than it has to. MBR_BUSY: a capture has begun on its device. Drops the lock. */
static mbr_status wait_on_device_locked(
    mbr_context *context, const wait_list *waits, mbr_native native) MBR_REQUIRES(&context->lock)
{
    uint32_t entered = mbr_context_try_enter_gates_locked(context);
    mbr_status status = entered == 0 ? MBR_BUSY : MBR_OK;
    mbr_lock_drop(&context->lock);
    for (uint32_t i = 0; i < waits->count && status == MBR_OK; i++)
        status = mbr_slot_stream_wait(context, waits->lines[i]->id, waits->values[i], native, NULL);
    mbr_lock_take(&context->lock);
    mbr_context_leave_gates_locked(context, entered);
    if (MBR_STATUS_CLASS(status) == MBR_CLASS_LOST)
        mbr_context_mark_lost_locked(context);
    for (uint32_t i = 0; i < waits->count; i++)
        mbr_context_drop_line_locked(context, waits->lines[i]);
    if (status == MBR_OK)
        context->stream_wait_count += waits->count;
    return status;
}

/* False: the device does not wait, and the entry is queued as before. */
static bool claim_behind_locked(mbr_context *context, mbr_deferred *entry, mbr_line *line)
    MBR_REQUIRES(&context->lock)
{
    wait_list waits;
    list_waits_locked(context, entry, line, &waits);
    if (waits.count == 0)
        return true;
    mbr_context_enter_locked(context);
    mbr_context_hold_line_locked(context, line);
    mbr_status status = wait_on_device_locked(context, &waits, line->native);
    mbr_context_drop_line_locked(context, line);
    bool is_behind = status == MBR_OK && !mbr_context_is_lost(context);
    if (!is_behind)
        put_back_locked(context, entry);
    mbr_context_leave_locked(context);
    return is_behind;
}

/* New work of a capture runs when its graph is launched, whatever stands on its stream now. */
static bool may_order_locked(const mbr_context *context) MBR_REQUIRES(&context->lock)
{
    return mbr_context_state_now(context) == MBR_CONTEXT_ACTIVE &&
        atomic_load(&context->capture_count) == 0 && !mbr_context_is_gated_locked(context);
}

/* Of detached streams that nobody waits for any more. Drops the lock. */
static void close_lines_locked(mbr_context *context) MBR_REQUIRES(&context->lock)
{
    if (TAILQ_EMPTY(&context->closing))
        return;
    mbr_context_enter_locked(context);
    mbr_context_close_lines_locked(context);
    mbr_context_leave_locked(context);
}

mbr_deferred *mbr_context_reactivate(mbr_context *context, mbr_shelf *shelf, uint64_t stream_id,
    bool behind_others, bool (*fits)(const mbr_deferred *entry, const void *wanted),
    const void *wanted)
{
    mbr_deferred *taken = NULL;
    mbr_lock_take(&context->lock);
    mbr_line *line = mbr_context_find_line_locked(context, stream_id);
    if (line != NULL && may_order_locked(context))
        taken = choose_locked(shelf, line, behind_others, fits, wanted);
    if (taken != NULL) {
        claim_locked(context, taken);
        if (claim_behind_locked(context, taken, line))
            take_locked(context, taken);
        else
            taken = NULL;
        close_lines_locked(context);
        mbr_context_notify_locked(context);
    }
    mbr_lock_drop(&context->lock);
    return taken;
}

bool mbr_context_is_before(mbr_context *context, const mbr_deferred *entry, uint64_t stream_id)
{
    mbr_lock_take(&context->lock);
    const mbr_line *line = mbr_context_find_line_locked(context, stream_id);
    bool is_before = line != NULL && may_order_locked(context) && entry->graphs.first == 0 &&
        (entry->epoch == NULL || judge(entry, line) == ORDER_NONE);
    mbr_lock_drop(&context->lock);
    return is_before;
}
