/* Responsible for the release queue's bookkeeping: entries, epochs and their marks, from defer to
 * the lists of what is ready and what is lost. Never asks a line and never settles an entry; the
 * one slot behind it is the signal that closes a full epoch. */
#include "abi/base/checked.h"
#include "abi/base/error.h"
#include "host/ep/internal.h"

#include <inttypes.h>

void mbr_entry_list_append(mbr_entry_list *list, mbr_deferred *entry)
{
    entry->next = NULL;
    entry->prev = list->last;
    if (list->first == NULL)
        list->first = entry;
    else
        list->last->next = entry;
    list->last = entry;
}

void mbr_entry_list_remove(mbr_entry_list *list, mbr_deferred *entry)
{
    if (entry->prev != NULL)
        entry->prev->next = entry->next;
    else
        list->first = entry->next;
    if (entry->next != NULL)
        entry->next->prev = entry->prev;
    else
        list->last = entry->prev;
}

mbr_deferred *mbr_entry_list_pop(mbr_entry_list *list)
{
    mbr_deferred *entry = list->first;
    if (entry != NULL)
        mbr_entry_list_remove(list, entry);
    return entry;
}

/* What a graph owns is used whenever it is launched, in no order with a stream's work. */
static bool is_shelved(const mbr_deferred *entry)
{
    return entry->shelf != NULL && entry->graphs.first == 0;
}

void mbr_entry_shelve(mbr_deferred *entry)
{
    mbr_shelf *shelf = entry->shelf;
    if (!is_shelved(entry))
        return;
    entry->shelf_prev = NULL;
    entry->shelf_next = shelf->newest;
    if (shelf->newest != NULL)
        shelf->newest->shelf_prev = entry;
    shelf->newest = entry;
}

void mbr_entry_unshelve(mbr_deferred *entry)
{
    if (!is_shelved(entry))
        return;
    if (entry->shelf_next != NULL)
        entry->shelf_next->shelf_prev = entry->shelf_prev;
    if (entry->shelf_prev != NULL)
        entry->shelf_prev->shelf_next = entry->shelf_next;
    else
        entry->shelf->newest = entry->shelf_next;
}

/* ---- Epochs -------------------------------------------------------------------------------- */

static void open_epoch_locked(mbr_context *context) MBR_REQUIRES(&context->lock)
{
    mbr_epoch *epoch = mbr_pool_take(&context->epochs);
    epoch->sequence = ++context->epoch_sequence;
    epoch->opened_ns = mbr_clock_now(context->clock);
    TAILQ_INIT(&epoch->marks);
    TAILQ_INSERT_TAIL(&context->live, epoch, link);
    context->open = epoch;
    mbr_context_poke_reaper_locked(context, epoch->opened_ns + MBR_EPOCH_AGE_NS);
}

void mbr_context_seal_locked(mbr_context *context)
{
    mbr_epoch *epoch = context->open;
    context->open = NULL;
    mbr_mark *mark;
    TAILQ_FOREACH (mark, &epoch->marks, sibling) {
        mbr_line *line = mark->line;
        line->open_mark = NULL;
        TAILQ_INSERT_TAIL(&line->unsignalled, mark, link);
        if (!line->is_dirty) {
            line->is_dirty = true;
            TAILQ_INSERT_TAIL(&context->dirty, line, dirty_link);
        }
    }
}

static void consider_clean_locked(mbr_context *context, mbr_line *line) MBR_REQUIRES(&context->lock)
{
    if (!line->is_dirty || !TAILQ_EMPTY(&line->unsignalled))
        return;
    line->is_dirty = false;
    TAILQ_REMOVE(&context->dirty, line, dirty_link);
}

static void consider_done_locked(mbr_context *context, mbr_line *line) MBR_REQUIRES(&context->lock)
{
    if (!line->is_waiting || !TAILQ_EMPTY(&line->pending))
        return;
    line->is_waiting = false;
    TAILQ_REMOVE(&context->waiting, line, waiting_link);
}

static bool epoch_is_full(const mbr_epoch *epoch)
{
    return epoch->entry_count >= MBR_EPOCH_ENTRY_COUNT || epoch->bytes >= MBR_EPOCH_BYTES;
}

/* The line's mark in the open epoch; the pool holds enough. */
static mbr_mark *open_mark_locked(mbr_context *context, mbr_line *line) MBR_REQUIRES(&context->lock)
{
    mbr_epoch *epoch = context->open;
    if (line->open_mark != NULL)
        return line->open_mark;
    mbr_mark *mark = mbr_pool_take(&context->marks);
    mark->epoch = epoch;
    mark->line = line;
    mark->bit = UINT64_C(1) << epoch->mark_count;
    TAILQ_INSERT_TAIL(&epoch->marks, mark, sibling);
    epoch->mark_count++;
    line->open_mark = mark;
    line->mark_count++;
    return mark;
}

void mbr_context_free_mark_locked(mbr_context *context, mbr_mark *mark)
{
    mark->line->mark_count--;
    if (mark->epoch != NULL)
        TAILQ_REMOVE(&mark->epoch->marks, mark, sibling);
    mbr_pool_give(&context->marks, mark);
}

/* Nobody waits for it any more. One that is in flight goes when its signal returns. */
static void drop_mark_locked(mbr_context *context, mbr_mark *mark) MBR_REQUIRES(&context->lock)
{
    mbr_line *line = mark->line;
    if (mark->is_inflight) {
        TAILQ_REMOVE(&mark->epoch->marks, mark, sibling);
        mark->epoch = NULL;
        return;
    }
    if (mark == line->open_mark) {
        line->open_mark = NULL;
    } else if (mark->value == 0) {
        TAILQ_REMOVE(&line->unsignalled, mark, link);
        consider_clean_locked(context, line);
    } else {
        TAILQ_REMOVE(&line->pending, mark, link);
        consider_done_locked(context, line);
    }
    mbr_context_free_mark_locked(context, mark);
    mbr_context_consider_closing_locked(context, line);
}

static void end_epoch_locked(mbr_context *context, mbr_epoch *epoch) MBR_REQUIRES(&context->lock)
{
    mbr_mark *mark;
    while ((mark = TAILQ_FIRST(&epoch->marks)) != NULL)
        drop_mark_locked(context, mark);
    if (epoch == context->open) {
        context->open = NULL;
        context->emptied_due_ns = epoch->opened_ns + MBR_EPOCH_AGE_NS;
    }
    TAILQ_REMOVE(&context->live, epoch, link);
    mbr_pool_give(&context->epochs, epoch);
}

/* It is in the epoch's list no more. What it left does not close the epoch either. */
static void part_locked(mbr_epoch *epoch, mbr_deferred *entry)
{
    entry->epoch = NULL;
    epoch->entry_count--;
    epoch->bytes -= entry->bytes;
}

void mbr_context_leave_epoch_locked(mbr_context *context, mbr_deferred *entry)
{
    mbr_epoch *epoch = entry->epoch;
    mbr_entry_list_remove(&epoch->entries, entry);
    part_locked(epoch, entry);
    if (epoch->entries.first == NULL)
        end_epoch_locked(context, epoch);
}

/* ---- Reaching and losing ------------------------------------------------------------------- */

void mbr_context_join_lost_locked(mbr_context *context, mbr_deferred *entry)
{
    mbr_entry_list_append(&context->lost, entry);
    context->ready_total++;
}

/* Moves the entries whose marks are all done to `ready`; a claimed one is its claimer's. */
static void collect_locked(mbr_context *context, mbr_epoch *epoch) MBR_REQUIRES(&context->lock)
{
    mbr_entry_list kept = {NULL, NULL};
    mbr_deferred *entry;
    while ((entry = mbr_entry_list_pop(&epoch->entries)) != NULL) {
        if ((entry->epoch_streams & ~epoch->done) != 0) {
            mbr_entry_list_append(&kept, entry);
            continue;
        }
        part_locked(epoch, entry);
        if (entry->is_claimed)
            continue;
        mbr_entry_unshelve(entry);
        mbr_context_make_ready_locked(context, entry);
    }
    epoch->entries = kept;
    if (kept.first == NULL)
        end_epoch_locked(context, epoch);
}

void mbr_context_reach_locked(mbr_context *context, mbr_line *line, uint64_t value)
{
    /* No more than was signalled: a higher answer must not cover later signals. */
    uint64_t reached = mbr_min(value, line->signalled);
    if (reached <= line->reached)
        return;
    line->reached = reached;
    mbr_mark *mark;
    while ((mark = TAILQ_FIRST(&line->pending)) != NULL && mark->value <= reached) {
        mbr_epoch *epoch = mark->epoch;
        TAILQ_REMOVE(&line->pending, mark, link);
        epoch->done |= mark->bit;
        context->progress_count++;
        mbr_context_free_mark_locked(context, mark);
        collect_locked(context, epoch);
    }
    consider_done_locked(context, line);
    mbr_context_notify_locked(context);
}

static void free_marks_locked(mbr_context *context, struct mbr_mark_list *list)
    MBR_REQUIRES(&context->lock)
{
    mbr_mark *mark;
    while ((mark = TAILQ_FIRST(list)) != NULL) {
        TAILQ_REMOVE(list, mark, link);
        mbr_context_free_mark_locked(context, mark);
    }
}

static void forget_marks_locked(mbr_context *context, mbr_line *line) MBR_REQUIRES(&context->lock)
{
    free_marks_locked(context, &line->unsignalled);
    free_marks_locked(context, &line->inflight);
    free_marks_locked(context, &line->pending);
    if (line->open_mark != NULL)
        mbr_context_free_mark_locked(context, line->open_mark);
    line->open_mark = NULL;
    line->is_dirty = false;
    line->is_waiting = false;
}

/* What stands in an epoch has a mark that is not done; what was seen reached stands in `ready` and
 * is settled as released. */
void mbr_context_lose_entries_locked(mbr_context *context)
{
    TAILQ_INIT(&context->dirty);
    TAILQ_INIT(&context->waiting);
    for (uint32_t place = 0; place < context->place_count; place++)
        forget_marks_locked(context, context->lines[place]);
    context->open = NULL;
    mbr_context_lose_graphs_locked(context);
    mbr_epoch *epoch;
    while ((epoch = TAILQ_FIRST(&context->live)) != NULL) {
        mbr_deferred *entry;
        while ((entry = mbr_entry_list_pop(&epoch->entries)) != NULL) {
            entry->epoch = NULL;
            if (entry->is_claimed)
                continue;
            mbr_entry_unshelve(entry);
            mbr_context_join_lost_locked(context, entry);
        }
        end_epoch_locked(context, epoch);
    }
    context->progress_count++;
}

/* ---- Defer --------------------------------------------------------------------------------- */

/* Why an entry is handed back, with the number that the text names. */
typedef struct refusal {
    mbr_status status;
    uint64_t figure;
} refusal;

static refusal check_bounds_locked(mbr_context *context, uint64_t bytes)
    MBR_REQUIRES(&context->lock)
{
    uint64_t sum;
    if (!mbr_add(context->queued_bytes, bytes, &sum))
        return (refusal){MBR_OVERFLOW, bytes};
    if (context->queued_count >= context->queue_entries ||
        (context->queue_bytes != 0 && sum > context->queue_bytes))
        return (refusal){MBR_QUEUE_FULL, context->queued_count};
    return (refusal){MBR_OK, 0};
}

/* Everything that can refuse, so that what follows cannot. */
static refusal admit_locked(mbr_context *context, const uint64_t *stream_ids, uint32_t stream_count,
    uint64_t bytes) MBR_REQUIRES(&context->lock)
{
    uint32_t state = mbr_context_state_now(context);
    if (state == MBR_CONTEXT_LOST)
        return (refusal){MBR_DEVICE_LOST, 0};
    if (state == MBR_CONTEXT_TERMINATED)
        return (refusal){MBR_BUSY, 0};
    if (stream_count > MBR_DEFER_STREAM_COUNT)
        return (refusal){MBR_OUT_OF_RANGE, stream_count};
    for (uint32_t index = 0; index < stream_count; index++)
        if (mbr_context_find_line_locked(context, stream_ids[index]) == NULL)
            return (refusal){MBR_UNKNOWN_OBJECT, stream_ids[index]};
    refusal bounds = check_bounds_locked(context, bytes);
    if (bounds.status != MBR_OK)
        return bounds;
    if (stream_count != 0 &&
        (!mbr_pool_try_ensure(&context->marks, stream_count) ||
            !mbr_pool_try_ensure(&context->epochs, 1)))
        return (refusal){MBR_OUT_OF_HOST_MEMORY, 0};
    return (refusal){MBR_OK, 0};
}

static uint32_t missing_marks_locked(mbr_context *context, const uint64_t *stream_ids,
    uint32_t stream_count) MBR_REQUIRES(&context->lock)
{
    uint32_t missing = 0;
    for (uint32_t index = 0; index < stream_count; index++)
        missing += mbr_context_find_line_locked(context, stream_ids[index])->open_mark == NULL;
    return missing;
}

/* Puts the entry into the open epoch. True if an epoch was sealed: its lines want a signal. */
static bool join_epoch_locked(mbr_context *context, const uint64_t *stream_ids,
    uint32_t stream_count, mbr_deferred *entry) MBR_REQUIRES(&context->lock)
{
    bool sealed = false;
    if (context->open != NULL &&
        context->open->mark_count + missing_marks_locked(context, stream_ids, stream_count) >
            MBR_DEFER_STREAM_COUNT) {
        mbr_context_seal_locked(context);
        sealed = true;
    }
    if (context->open == NULL)
        open_epoch_locked(context);
    mbr_epoch *epoch = context->open;
    for (uint32_t index = 0; index < stream_count; index++) {
        mbr_line *line = mbr_context_find_line_locked(context, stream_ids[index]);
        entry->epoch_streams |= open_mark_locked(context, line)->bit;
    }
    entry->epoch = epoch;
    mbr_entry_list_append(&epoch->entries, entry);
    mbr_entry_shelve(entry);
    epoch->entry_count++;
    epoch->bytes += entry->bytes; /* part of queued_bytes, which does not overflow */
    if (!epoch_is_full(epoch))
        return sealed;
    mbr_context_seal_locked(context);
    return true;
}

/* An entry without streams waits for nothing but the next reap, and its graphs. */
static void join_idle_locked(mbr_context *context, mbr_deferred *entry) MBR_REQUIRES(&context->lock)
{
    mbr_context_make_ready_locked(context, entry);
    mbr_context_poke_reaper_locked(context, 0);
}

static mbr_status explain(const mbr_context *context, refusal why, mbr_error *error)
{
    switch (why.status) {
    case MBR_OK:
        return MBR_OK;
    case MBR_UNKNOWN_OBJECT:
        return mbr_fail_argument(error, why.status, 1,
            "EP %s has no attached stream with the id %" PRIu64, context->name, why.figure);
    case MBR_OUT_OF_RANGE:
        return mbr_fail_argument(error, why.status, 2,
            "a release behind %" PRIu64 " streams; at most %d", why.figure, MBR_DEFER_STREAM_COUNT);
    case MBR_QUEUE_FULL:
        return mbr_fail_argument(error, why.status, 0,
            "EP %s has %" PRIu64 " releases queued, bounds %" PRIu32 " entries and %" PRIu64
            " bytes (0: none); reap, or release after a synchronization",
            context->name, why.figure, context->queue_entries, context->queue_bytes);
    case MBR_OVERFLOW:
        return mbr_fail_argument(error, why.status, 3,
            "queued bytes and %" PRIu64 " more do not fit 64 bits", why.figure);
    case MBR_OUT_OF_HOST_MEMORY:
        return mbr_fail_argument(error, why.status, 0, "no memory for a further epoch");
    case MBR_DEVICE_LOST:
        return mbr_fail_argument(
            error, why.status, 0, "the device of EP %s is lost", context->name);
    default:
        return mbr_fail_argument(error, why.status, 0, "EP %s is terminated", context->name);
    }
}

mbr_status mbr_context_defer(mbr_context *context, const uint64_t *stream_ids,
    uint32_t stream_count, mbr_deferred *entry, mbr_error *error)
{
    MBR_ASSERT(entry->settle != NULL);
    bool sealed = false;
    mbr_lock_take(&context->lock);
    refusal why = admit_locked(context, stream_ids, stream_count, entry->bytes);
    if (why.status == MBR_OK) {
        context->queued_count++;
        context->queued_bytes += entry->bytes;
        entry->epoch = NULL;
        entry->epoch_streams = 0;
        entry->is_claimed = false;
        if (stream_count == 0)
            join_idle_locked(context, entry);
        else
            sealed = join_epoch_locked(context, stream_ids, stream_count, entry);
    }
    /* Whoever signals now does not see the new marks; the next seal or reap does. */
    if (sealed && !context->signalling) {
        mbr_context_enter_locked(context);
        context->signalling = true;
        mbr_context_signal_locked(context);
        mbr_context_leave_locked(context);
    }
    mbr_lock_drop(&context->lock);
    return explain(context, why, error);
}
