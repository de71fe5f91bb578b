/* Responsible for settling: one pass over the queue, reap, drain and loss. Entries are settled only
 * here and with no lock held, by one thread at a time and in the order in which they became ready.
 * Never waits in a reap, and never settles an entry whose values were not all seen reached, except
 * as lost. */
#include "abi/base/checked.h"
#include "abi/base/error.h"
#include "host/ep/internal.h"

#include <inttypes.h>

#define BATCH_COUNT 64
#define DRAIN_BACKOFF_MIN_NS 20000

typedef struct batch {
    mbr_entry_list entries;
    mbr_settled how;
    uint64_t count;
    uint64_t bytes;
} batch;

/* Takes up to BATCH_COUNT entries out of the queue until they reach bound_bytes. */
static bool take_batch_locked(mbr_context *context, uint64_t bound_bytes, batch *taken)
    MBR_REQUIRES(&context->lock)
{
    *taken = (batch){.how = MBR_SETTLED_RELEASED};
    mbr_entry_list *list = &context->ready;
    if (list->first == NULL) {
        list = &context->lost;
        taken->how = MBR_SETTLED_LOST;
    }
    while (list->first != NULL && taken->count < BATCH_COUNT && taken->bytes < bound_bytes) {
        mbr_deferred *entry = mbr_entry_list_pop(list);
        taken->count++;
        taken->bytes += entry->bytes; /* part of queued_bytes, which does not overflow */
        mbr_entry_list_append(&taken->entries, entry);
    }
    context->queued_count -= taken->count;
    context->queued_bytes -= taken->bytes;
    return taken->count != 0;
}

/* An entry may be gone, or queued again, when its settle returns. */
static void settle_batch(batch *taken)
{
    mbr_deferred *entry;
    while ((entry = mbr_entry_list_pop(&taken->entries)) != NULL) {
        mbr_lock_assert_none_held();
        entry->settle(entry, taken->how);
    }
}

static void account_locked(mbr_context *context, const batch *taken) MBR_REQUIRES(&context->lock)
{
    context->settled_total += taken->count;
    context->progress_count += taken->count;
    if (taken->how == MBR_SETTLED_RELEASED)
        context->released_count += taken->count;
    else
        context->lost_count += taken->count;
}

uint64_t mbr_context_settle_locked(mbr_context *context)
{
    if (context->settling)
        return 0;
    /* A loss is settled whole and at once; where a mechanism is called all the same, its own gate
     * stands before that. */
    bool is_wanted = context->ready.first != NULL || context->lost.first != NULL;
    uint32_t entered = is_wanted ? mbr_context_try_enter_gates_locked(context) : 0;
    if (is_wanted && entered == 0 && !mbr_context_is_lost(context))
        return 0;
    context->settling = true;
    context->settler = pthread_self();
    uint64_t settled_bytes = 0;
    batch taken;
    /* The bound keeps a caller's pass short; a loss is not left half settled. */
    while (settled_bytes < MBR_REAP_PASS_BYTES || mbr_context_is_lost(context)) {
        uint64_t bound =
            mbr_context_is_lost(context) ? UINT64_MAX : MBR_REAP_PASS_BYTES - settled_bytes;
        if (!take_batch_locked(context, bound, &taken))
            break;
        mbr_lock_drop(&context->lock);
        settle_batch(&taken);
        mbr_lock_take(&context->lock);
        account_locked(context, &taken);
        settled_bytes += taken.bytes;
    }
    context->settling = false;
    mbr_context_leave_gates_locked(context, entered);
    mbr_context_consider_termination_locked(context);
    if (context->ready.first != NULL) /* past the bound */
        mbr_context_poke_reaper_locked(context, 0);
    mbr_context_notify_locked(context);
    return settled_bytes;
}

static bool is_due_locked(const mbr_context *context)
{
    return mbr_clock_now(context->clock) - context->open->opened_ns >= MBR_EPOCH_AGE_NS;
}

uint64_t mbr_context_pass_locked(mbr_context *context, bool now)
{
    if (context->open != NULL && (now || is_due_locked(context)))
        mbr_context_seal_locked(context);
    if (!TAILQ_EMPTY(&context->dirty) && !context->signalling) {
        context->signalling = true;
        mbr_context_signal_locked(context);
    }
    mbr_context_ask_locked(context, now);
    mbr_context_close_lines_locked(context);
    return mbr_context_settle_locked(context); /* last: any of the calls may have found a loss */
}

uint64_t mbr_context_reap(mbr_context *context, bool now)
{
    if (atomic_load_explicit(&context->queued_count, memory_order_relaxed) == 0)
        return 0;
    mbr_lock_take(&context->lock);
    mbr_context_enter_locked(context);
    uint64_t settled_bytes = mbr_context_pass_locked(context, now);
    mbr_context_leave_locked(context);
    mbr_lock_drop(&context->lock);
    return settled_bytes;
}

/* ---- Loss ---------------------------------------------------------------------------------- */

static bool is_settled_locked(const mbr_context *context)
{
    return context->queued_count == 0 && context->claimed_count == 0 && !context->settling;
}

/* Whether anything waits for a settle and nobody is at it. */
static bool wants_settler_locked(const mbr_context *context)
{
    return !context->settling && context->queued_count != 0;
}

void mbr_context_lose(mbr_context *context)
{
    mbr_lock_take(&context->lock);
    mbr_context_enter_locked(context);
    mbr_context_mark_lost_locked(context);
    while (mbr_context_is_lost(context) && !is_settled_locked(context)) {
        if (wants_settler_locked(context))
            mbr_context_settle_locked(context);
        else if (context->settling && pthread_equal(context->settler, pthread_self()))
            break; /* called by a settle function: the loop around it settles the rest */
        else
            mbr_context_await_locked(context, UINT64_MAX);
    }
    mbr_context_leave_locked(context);
    mbr_lock_drop(&context->lock);
}

/* ---- Drain --------------------------------------------------------------------------------- */

/* What a drain waits for: every epoch up to `sequence` gone, then everything that had become ready
 * by then settled. */
typedef struct drain {
    uint64_t sequence;
    uint64_t ready_total;
    bool epochs_gone;
    uint64_t deadline_ns;
    uint64_t backoff_ns;
} drain;

static bool is_drained_locked(const mbr_context *context, drain *wanted)
{
    mbr_epoch *oldest = TAILQ_FIRST(&context->live);
    if (!wanted->epochs_gone && (oldest == NULL || oldest->sequence > wanted->sequence)) {
        wanted->epochs_gone = true;
        wanted->ready_total = context->ready_total;
    }
    return wanted->epochs_gone && context->claimed_count == 0 &&
        context->settled_total >= wanted->ready_total;
}

/* A line with a value that the drain waits for. */
static mbr_line *find_awaited_locked(const mbr_context *context, const drain *wanted)
{
    mbr_line *line;
    TAILQ_FOREACH (line, &context->waiting, waiting_link)
        if (TAILQ_FIRST(&line->pending)->epoch->sequence <= wanted->sequence)
            return line;
    return NULL;
}

/* Waits on the line for a slice of the time: another line's entries are not held back longer. */
static mbr_status await_line_locked(mbr_context *context, mbr_line *line, const drain *wanted,
    mbr_error *error) MBR_REQUIRES(&context->lock)
{
    uint64_t value = TAILQ_FIRST(&line->pending)->value;
    uint64_t slice_ns = mbr_clock_now(context->clock) + MBR_REAPER_BACKOFF_MAX_NS;
    uint32_t entered = mbr_context_try_enter_gates_locked(context);
    if (entered == 0)
        return mbr_context_refuse_gated(context, error);
    mbr_context_hold_line_locked(context, line);
    mbr_lock_drop(&context->lock);
    mbr_status status =
        mbr_slot_wait(context, line->id, value, mbr_min(slice_ns, wanted->deadline_ns), error);
    mbr_lock_take(&context->lock);
    mbr_context_leave_gates_locked(context, entered);
    if (mbr_context_is_lost(context))
        status = MBR_OK; /* meanwhile: everything is ready or lost */
    else if (status == MBR_OK)
        mbr_context_reach_locked(context, line, value);
    else if (MBR_STATUS_CLASS(status) == MBR_CLASS_LOST)
        mbr_context_mark_lost_locked(context);
    mbr_context_drop_line_locked(context, line);
    bool goes_on = status == MBR_TIMED_OUT || MBR_STATUS_CLASS(status) == MBR_CLASS_LOST;
    return goes_on ? MBR_OK : status;
}

/* Whether a later signal may go through without anybody's repair. */
static bool is_passing(mbr_status status)
{
    int32_t class = MBR_STATUS_CLASS(status);
    return class == MBR_CLASS_OK || class == MBR_CLASS_RETRY || class == MBR_CLASS_EXHAUSTED;
}

/* No value to wait for: a signal is refused or under way, or another thread settles. */
static mbr_status await_others_locked(mbr_context *context, drain *wanted, mbr_error *error)
    MBR_REQUIRES(&context->lock)
{
    mbr_line *line;
    TAILQ_FOREACH (line, &context->dirty, dirty_link) {
        bool is_wanted = TAILQ_FIRST(&line->unsignalled)->epoch->sequence <= wanted->sequence;
        if (is_wanted && !is_passing(line->failure))
            return mbr_fail_argument(error, line->failure, 0,
                "EP %s: the signal of line %" PRIu64 " failed with %" PRId32
                "; its releases stay queued",
                context->name, line->id, line->failure);
    }
    uint64_t until_ns =
        mbr_min(mbr_clock_now(context->clock) + wanted->backoff_ns, wanted->deadline_ns);
    /* A pass that changed nothing wakes other drains, too: they would wake each other for ever. */
    uint64_t seen = context->progress_count;
    while (mbr_context_await_locked(context, until_ns) && context->progress_count == seen)
        ;
    wanted->backoff_ns = mbr_min(wanted->backoff_ns * 2, MBR_REAPER_BACKOFF_MAX_NS);
    return MBR_OK;
}

static mbr_status time_out(const mbr_context *context, mbr_error *error)
{
    return mbr_fail_argument(error, MBR_TIMED_OUT, 1,
        "EP %s: %" PRIu64 " releases of %" PRIu64 " bytes are still queued", context->name,
        context->queued_count, context->queued_bytes);
}

static mbr_status drain_locked(mbr_context *context, drain *wanted, mbr_error *error)
    MBR_REQUIRES(&context->lock)
{
    for (;;) {
        bool holds_open = context->open != NULL && context->open->sequence <= wanted->sequence;
        mbr_context_pass_locked(context, holds_open);
        if (is_drained_locked(context, wanted))
            return MBR_OK;
        if (mbr_context_is_gated_locked(context) && !mbr_context_is_lost(context))
            return mbr_context_refuse_gated(context, error);
        if (mbr_clock_now(context->clock) >= wanted->deadline_ns)
            return time_out(context, error);
        mbr_line *line = find_awaited_locked(context, wanted);
        mbr_status status = line != NULL ? await_line_locked(context, line, wanted, error)
                                         : await_others_locked(context, wanted, error);
        if (status != MBR_OK)
            return status;
    }
}

mbr_status mbr_context_drain(mbr_context *context, uint64_t deadline_ns, mbr_error *error)
{
    mbr_status refused = mbr_context_check_process(context, error);
    if (refused != MBR_OK)
        return refused;
    mbr_lock_take(&context->lock);
    mbr_context_enter_locked(context);
    drain wanted = {.sequence = context->epoch_sequence,
        .deadline_ns = deadline_ns,
        .backoff_ns = DRAIN_BACKOFF_MIN_NS};
    mbr_status status = drain_locked(context, &wanted, error);
    mbr_context_leave_locked(context);
    mbr_lock_drop(&context->lock);
    return status;
}
