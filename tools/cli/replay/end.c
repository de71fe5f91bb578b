/* Ends of stays: done, preempted, or at the end of the run. Starts nothing. */
#include "tools/cli/replay/simulate.h"

#include "abi/base/checked.h"

#include <stdlib.h>

static bool add_stay(replay_tenant *tenant, const replay_run *run)
{
    mbr_replay_tenant_report *report = tenant->report;
    uint64_t now = tenant->sim->now_ns;
    if (report->stay_count == report->stay_capacity) {
        uint64_t capacity = 2 * report->stay_capacity; /* somebody stays a second time */
        mbr_replay_stay *grown = realloc(report->stays, capacity * sizeof(*grown));
        if (grown == NULL)
            return replay_fail(tenant->sim, "out of memory for the schedule of %llu requests",
                (unsigned long long)capacity);
        report->stays = grown;
        report->stay_capacity = capacity;
    }
    report->stays[report->stay_count++] =
        (mbr_replay_stay){run->start_ns, mbr_min(run->decode_ns, now), now,
            tenant->trace->requests[run->index].prompt_tokens, run->tokens};
    return true;
}

static mbr_status destroy(replay_sim *sim, replay_run *run, mbr_error *error)
{
    uint64_t before = replay_wall_ns();
    mbr_status status = mbr_sequence_destroy(run->contents.sequence, NULL, 0, error);
    if (MBR_STATUS_CLASS(status) == MBR_CLASS_EXHAUSTED) {
        replay_settle_releases(sim);
        status = mbr_sequence_destroy(run->contents.sequence, NULL, 0, error);
    }
    sim->report->call_seconds += (double)(replay_wall_ns() - before) / 1e9;
    sim->report->ledger_calls++;
    return status;
}

/* Checks what it holds, then gives it back behind its stream. After a failure it may have ended all
 * the same: its sequence is NULL then, and ending it again does nothing. */
static bool end_run(replay_tenant *tenant, replay_run *run)
{
    replay_sim *sim = tenant->sim;
    mbr_error error = {MBR_SIZED(mbr_error)};
    if (!replay_end_leaf(tenant, run))
        return false;
    if (run->contents.sequence == NULL)
        return true;
    if (!replay_verify_all(&tenant->touch, &run->contents))
        return replay_fail(sim, "the contents of request %llu cannot be checked: %s",
            (unsigned long long)run->index, replay_touch_reason(&tenant->touch));
    if (destroy(sim, run, &error) != MBR_OK)
        return replay_fail(
            sim, "request %llu cannot be ended: %s", (unsigned long long)run->index, error.text);
    run->contents.sequence = NULL;
    bool added = run->is_fork || add_stay(tenant, run);
    if (run->member != 0)
        mbr_manager_dismiss(sim->world.manager, tenant->seat->admission, run->member, NULL);
    if (run->entry != NULL)
        replay_store_release(tenant->store, run->entry);
    replay_contents_finish(&run->contents);
    sim->release_count++;
    return added;
}

bool replay_end_run(replay_tenant *tenant, uint64_t at)
{
    if (!end_run(tenant, &tenant->runs[at]))
        return false;
    tenant->runs[at] = tenant->runs[--tenant->run_count];
    return true;
}

bool replay_end_all(replay_tenant *tenant)
{
    bool ended = true;
    while (tenant->run_count != 0) {
        ended = end_run(tenant, &tenant->runs[tenant->run_count - 1]) && ended;
        tenant->run_count--;
    }
    return ended;
}

uint64_t replay_run_count(const replay_sim *sim)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < sim->tenant_count; i++)
        count += sim->tenants[i].run_count;
    return count;
}

/* Who has done least since its start. */
static bool is_younger(const replay_run *run, const replay_run *best)
{
    return best == NULL || run->start_ns > best->start_ns ||
        (run->start_ns == best->start_ns && run->index > best->index);
}

bool replay_preempt_youngest(replay_sim *sim, replay_tenant *only, bool *preempted)
{
    replay_tenant *of = NULL;
    const replay_run *best = NULL;
    *preempted = false;
    for (uint32_t t = 0; t < sim->tenant_count; t++) {
        replay_tenant *tenant = &sim->tenants[t];
        for (uint64_t i = 0; (only == NULL || only == tenant) && i < tenant->run_count; i++) {
            if (!is_younger(&tenant->runs[i], best))
                continue;
            best = &tenant->runs[i];
            of = tenant;
        }
    }
    if (best == NULL)
        return true;
    uint64_t index = best->index;
    bool is_fork = best->is_fork;
    *preempted = true;
    if (!replay_end_run(of, (uint64_t)(best - of->runs)))
        return false;
    if (is_fork) /* it is not wanted enough to be made again */
        return true;
    of->report->preempted++;
    replay_wait_push_front(of, index);
    return true;
}
