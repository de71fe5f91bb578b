/* Responsible for the one thread that reaps when nobody allocates or polls, and does the context's
 * chores when they are due. It sleeps without a time-out while the queue is empty, until the open
 * epoch's age otherwise, and with a doubling back-off while values are not reached. Never touches
 * an entry: its pass is anybody's pass. */
#include "abi/base/checked.h"
#include "abi/base/error.h"
#include "host/ep/internal.h"

#define BACKOFF_MIN_NS 100000

/* When there is something to reap: 0 is now, UINT64_MAX is when somebody wakes it. */
static uint64_t next_reap_locked(const mbr_context *context, uint64_t backoff_ns)
    MBR_REQUIRES(&context->lock)
{
    bool is_ready = context->ready.first != NULL || context->lost.first != NULL;
    if (is_ready && !context->settling && !mbr_context_is_gated_locked(context))
        return 0;
    uint64_t now_ns = mbr_clock_now(context->clock);
    if (context->queued_count == 0)
        return context->emptied_due_ns > now_ns ? context->emptied_due_ns : UINT64_MAX;
    uint64_t wake_ns = UINT64_MAX;
    /* Anything beside the open epoch waits for a line, for another thread, or for the end of a
     * capture, which may be another EP's and wakes nobody here. */
    if (is_ready || TAILQ_FIRST(&context->live) != context->open)
        wake_ns = now_ns + backoff_ns;
    if (context->open != NULL)
        wake_ns = mbr_min(wake_ns, context->open->opened_ns + MBR_EPOCH_AGE_NS);
    return wake_ns > now_ns ? wake_ns : 0;
}

static uint64_t next_wake_locked(const mbr_context *context, uint64_t backoff_ns)
    MBR_REQUIRES(&context->lock)
{
    uint64_t due_ns = mbr_context_chores_due_locked(context);
    if (due_ns != UINT64_MAX && due_ns <= mbr_clock_now(context->clock))
        return 0;
    return mbr_min(due_ns, next_reap_locked(context, backoff_ns));
}

void mbr_context_poke_reaper_locked(mbr_context *context, uint64_t until_ns)
{
    if (!context->reaper_sleeping || context->reaper_until_ns <= until_ns)
        return;
    context->reaper_sleeping = false;
    mbr_condition_signal_all(&context->reaper_wake);
}

/* False when the context ends. Drops the lock. */
static bool sleep_locked(mbr_context *context, uint64_t backoff_ns) MBR_REQUIRES(&context->lock)
{
    uint64_t until_ns = next_wake_locked(context, backoff_ns);
    if (context->reaper_stop || until_ns == 0)
        return !context->reaper_stop;
    uint64_t real_ns = until_ns == UINT64_MAX ? UINT64_MAX : mbr_context_real_ns(context, until_ns);
    context->reaper_until_ns = until_ns;
    context->reaper_sleeping = true;
    bool in_time = true;
    while (in_time && context->reaper_sleeping)
        in_time = mbr_condition_wait(&context->reaper_wake, &context->lock, real_ns);
    context->reaper_sleeping = false;
    context->wake_count++;
    return !context->reaper_stop;
}

static void *reap_on(void *argument)
{
    mbr_context *context = argument;
    uint64_t backoff_ns = BACKOFF_MIN_NS;
    uint64_t seen = 0;
    mbr_lock_take(&context->lock);
    while (sleep_locked(context, backoff_ns)) {
        mbr_context_enter_locked(context);
        mbr_context_pass_locked(context, false);
        mbr_context_do_chores_locked(context);
        mbr_context_leave_locked(context);
        backoff_ns = context->progress_count != seen
            ? BACKOFF_MIN_NS
            : mbr_min(backoff_ns * 2, MBR_REAPER_BACKOFF_MAX_NS);
        seen = context->progress_count;
    }
    mbr_lock_drop(&context->lock);
    return NULL;
}

mbr_status mbr_context_start_reaper(mbr_context *context, mbr_error *error)
{
    int answer =
        mbr_threads_start(context->threads, &context->reaper, "mbr-reaper", reap_on, context);
    if (answer != 0)
        return mbr_fail_native(error, MBR_SYSTEM, MBR_NATIVE_ERRNO, answer,
            "no thread for the reaper of EP %s: errno %d", context->name, answer);
    context->has_reaper = true;
    return MBR_OK;
}

void mbr_context_stop_reaper(mbr_context *context)
{
    if (!context->has_reaper)
        return;
    mbr_lock_take(&context->lock);
    context->reaper_stop = true;
    context->reaper_sleeping = false;
    mbr_condition_signal_all(&context->reaper_wake);
    mbr_lock_drop(&context->lock);
    mbr_threads_join(context->reaper);
}
