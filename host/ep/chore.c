/* Responsible for when a context's chores run, and on which thread. Knows nothing of what they do,
 * and holds no lock while they do it. */
#include "host/ep/chore.h"

#include "abi/base/checked.h"
#include "host/ep/internal.h"

#include <utlist.h>

mbr_status mbr_chore_begin(mbr_chore *chore, mbr_context *context, mbr_error *error)
{
    mbr_status status = mbr_context_pin(context, error);
    if (status != MBR_OK)
        return status;
    *chore = (mbr_chore){.run = chore->run, .context = context, .due_ns = UINT64_MAX};
    mbr_lock_take(&context->lock);
    DL_APPEND(context->chores, chore);
    mbr_lock_drop(&context->lock);
    return MBR_OK;
}

void mbr_chore_end(mbr_chore *chore)
{
    mbr_context *context = chore->context;
    mbr_lock_take(&context->lock);
    /* In a forked child the thread that ran it is not there (rule 27). */
    while (chore->is_running && mbr_context_check_process(context, NULL) == MBR_OK)
        mbr_context_await_locked(context, UINT64_MAX);
    DL_DELETE(context->chores, chore);
    mbr_lock_drop(&context->lock);
    mbr_context_unpin(context);
}

void mbr_chore_wake(mbr_chore *chore)
{
    mbr_context *context = chore->context;
    mbr_lock_take(&context->lock);
    chore->is_woken = true;
    chore->due_ns = 0;
    mbr_context_poke_reaper_locked(context, 0);
    mbr_lock_drop(&context->lock);
}

bool mbr_chore_is_capturing(const mbr_chore *chore)
{
    return mbr_context_is_capturing(chore->context);
}

uint64_t mbr_context_chores_due_locked(const mbr_context *context)
{
    uint64_t due_ns = UINT64_MAX;
    const mbr_chore *chore;
    DL_FOREACH(context->chores, chore)
    due_ns = mbr_min(due_ns, chore->due_ns);
    return due_ns;
}

/* One that is due and that nobody runs; NULL: none. */
static mbr_chore *find_due_locked(const mbr_context *context, uint64_t now_ns)
    MBR_REQUIRES(&context->lock)
{
    mbr_chore *chore;
    DL_FOREACH(context->chores, chore)
    {
        if (!chore->is_running && chore->due_ns <= now_ns)
            return chore;
    }
    return NULL;
}

/* Only its end takes a chore out of the list, and that waits. */
static void run_locked(mbr_context *context, mbr_chore *chore, uint64_t now_ns)
    MBR_REQUIRES(&context->lock)
{
    chore->is_running = true;
    chore->is_woken = false;
    chore->due_ns = UINT64_MAX;
    mbr_lock_drop(&context->lock);
    uint64_t pause_ns = chore->run(chore, now_ns);
    mbr_lock_take(&context->lock);
    chore->is_running = false;
    if (!chore->is_woken && pause_ns != UINT64_MAX)
        chore->due_ns = mbr_clock_now(context->clock) + pause_ns;
    mbr_context_notify_locked(context);
}

void mbr_context_do_chores_locked(mbr_context *context)
{
    if (context->chores == NULL || mbr_context_check_process(context, NULL) != MBR_OK)
        return;
    uint64_t now_ns = mbr_clock_now(context->clock);
    mbr_chore *chore;
    while ((chore = find_due_locked(context, now_ns)) != NULL)
        run_locked(context, chore, now_ns);
}

void mbr_context_do_chores(mbr_context *context)
{
    if (context->has_reaper)
        return;
    mbr_lock_take(&context->lock);
    mbr_context_do_chores_locked(context);
    mbr_lock_drop(&context->lock);
}
