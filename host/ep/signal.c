/* Responsible for the two questions to a line: its signal, which gives waiting marks a value, and
 * its reached value. Never settles an entry, never waits. A refused signal (a stream that is being
 * captured says MBR_BUSY) leaves the marks where they were, for a later pass. */
#include "abi/base/checked.h"
#include "host/ep/internal.h"

mbr_status mbr_context_judge_value_locked(
    mbr_context *context, mbr_line *line, mbr_status status, uint64_t value)
{
    if (status != MBR_OK)
        return status;
    if (value <= line->signalled) {
        atomic_fetch_add(&context->violation_count, 1);
        return MBR_CONTRACT_BROKEN;
    }
    line->signalled = value;
    return MBR_OK;
}

/* The signal came after every entry behind these marks. */
static void stamp_locked(mbr_context *context, mbr_line *line, uint64_t value)
    MBR_REQUIRES(&context->lock)
{
    mbr_mark *mark;
    TAILQ_FOREACH (mark, &line->inflight, link)
        mark->value = value;
    TAILQ_CONCAT(&line->pending, &line->inflight, link);
    if (!line->is_waiting && !TAILQ_EMPTY(&line->pending)) {
        line->is_waiting = true;
        TAILQ_INSERT_TAIL(&context->waiting, line, waiting_link);
    }
    context->signal_count++;
    context->progress_count++;
}

/* Back in front of what was sealed meanwhile. */
static void restore_locked(mbr_context *context, mbr_line *line) MBR_REQUIRES(&context->lock)
{
    TAILQ_CONCAT(&line->inflight, &line->unsignalled, link);
    TAILQ_CONCAT(&line->unsignalled, &line->inflight, link);
    if (!line->is_dirty && !TAILQ_EMPTY(&line->unsignalled)) {
        line->is_dirty = true;
        TAILQ_INSERT_TAIL(&context->dirty, line, dirty_link);
    }
}

static void take_off_locked(mbr_line *line)
{
    mbr_mark *mark;
    TAILQ_FOREACH (mark, &line->unsignalled, link)
        mark->is_inflight = true;
    TAILQ_CONCAT(&line->inflight, &line->unsignalled, link);
}

/* What lost its entries meanwhile goes. */
static void land_locked(mbr_context *context, mbr_line *line) MBR_REQUIRES(&context->lock)
{
    mbr_mark *next;
    for (mbr_mark *mark = TAILQ_FIRST(&line->inflight); mark != NULL; mark = next) {
        next = TAILQ_NEXT(mark, link);
        mark->is_inflight = false;
        if (mark->epoch != NULL)
            continue;
        TAILQ_REMOVE(&line->inflight, mark, link);
        mbr_context_free_mark_locked(context, mark);
    }
}

static void signal_line_locked(mbr_context *context, mbr_line *line) MBR_REQUIRES(&context->lock)
{
    uint64_t value;
    TAILQ_REMOVE(&context->dirty, line, dirty_link);
    line->is_dirty = false;
    if (line->capture != NULL) { /* what the slot would say */
        line->failure = MBR_BUSY;
        restore_locked(context, line);
        return;
    }
    take_off_locked(line);
    mbr_context_hold_line_locked(context, line);
    mbr_lock_drop(&context->lock);
    mbr_status status = mbr_slot_signal(context, line->id, &value, NULL);
    mbr_lock_take(&context->lock);
    land_locked(context, line);
    mbr_context_drop_line_locked(context, line);
    /* Lost meanwhile: no mark is left for what follows. */
    line->failure = mbr_context_judge_value_locked(context, line, status, value);
    if (line->failure == MBR_OK)
        stamp_locked(context, line, value);
    else if (MBR_STATUS_CLASS(line->failure) == MBR_CLASS_LOST)
        mbr_context_mark_lost_locked(context);
    else
        restore_locked(context, line);
}

static uint32_t dirty_count_locked(const mbr_context *context)
{
    uint32_t count = 0;
    mbr_line *line;
    TAILQ_FOREACH (line, &context->dirty, dirty_link)
        count++;
    return count;
}

void mbr_context_signal_locked(mbr_context *context)
{
    MBR_ASSERT(context->signalling);
    /* Lines that are refused or become dirty meanwhile go to the end and are left for later: a
     * caller's thread does not signal for ever on behalf of others. */
    uint32_t left = dirty_count_locked(context);
    uint64_t before = context->progress_count;
    for (; left != 0 && !TAILQ_EMPTY(&context->dirty); left--)
        signal_line_locked(context, TAILQ_FIRST(&context->dirty));
    context->signalling = false;
    if (context->progress_count != before)
        mbr_context_poke_reaper_locked(context, 0);
    mbr_context_notify_locked(context);
}

static void ask_line_locked(mbr_context *context, mbr_line *line) MBR_REQUIRES(&context->lock)
{
    uint64_t value;
    mbr_context_hold_line_locked(context, line);
    mbr_lock_drop(&context->lock);
    mbr_status status = mbr_slot_reached(context, line->id, &value);
    mbr_lock_take(&context->lock);
    if (!mbr_context_is_lost(context)) {
        if (status == MBR_OK)
            mbr_context_reach_locked(context, line, value);
        else if (MBR_STATUS_CLASS(status) == MBR_CLASS_LOST)
            mbr_context_mark_lost_locked(context);
    }
    mbr_context_drop_line_locked(context, line);
}

static uint32_t waiting_count_locked(const mbr_context *context)
{
    uint32_t count = 0;
    mbr_line *line;
    TAILQ_FOREACH (line, &context->waiting, waiting_link)
        count++;
    return count;
}

void mbr_context_ask_locked(mbr_context *context, bool now)
{
    if (context->asking && !now)
        return; /* with `now`, what the other was told may be older than this call */
    context->asking = true;
    for (uint32_t left = waiting_count_locked(context); left != 0; left--) {
        mbr_line *line = TAILQ_FIRST(&context->waiting);
        if (line == NULL)
            break; /* lost, or settled by somebody's wait */
        TAILQ_REMOVE(&context->waiting, line, waiting_link);
        TAILQ_INSERT_TAIL(&context->waiting, line, waiting_link);
        ask_line_locked(context, line);
    }
    context->asking = false;
    mbr_context_notify_locked(context);
}
