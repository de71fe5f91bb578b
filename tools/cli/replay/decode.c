/* Decode: one token a step, and what follows when it needs memory. Admits nobody. */
#include "tools/cli/replay/simulate.h"

#include "abi/base/checked.h"

/* Where there is an admission, what it was promised covers the growth, or others go first. */
static bool may_grow(replay_tenant *tenant, replay_run *run)
{
    uint64_t need;
    if (run->member == 0)
        return true;
    mbr_kv_need_bytes(tenant->seat->kv, run->tokens + 1, &need, NULL);
    need -= mbr_min(need, run->shared_bytes);
    if (need <= run->promised_bytes)
        return true;
    bool may = mbr_manager_grow_member(tenant->sim->world.manager, tenant->seat->admission,
                   run->member, need - run->promised_bytes, NULL, NULL) == MBR_OK;
    if (may)
        run->promised_bytes = need;
    return may;
}

/* A token more, with what has to be given up for it. *took_ns is of the last try. */
static mbr_status append(replay_tenant *tenant, replay_run *run, uint64_t *took_ns,
    uint64_t *asked_bytes, mbr_error *error)
{
    mbr_refusal refusal = {MBR_SIZED(mbr_refusal)};
    bool drained = false;
    mbr_status status;
    do {
        uint64_t before = replay_wall_ns();
        status = mbr_sequence_append(run->contents.sequence, 1, &refusal, error);
        *took_ns = replay_wall_ns() - before;
        tenant->sim->report->call_seconds += (double)*took_ns / 1e9;
    } while (status == MBR_OVER_BUDGET && replay_make_room(tenant, &drained));
    *asked_bytes = refusal.asked_bytes;
    return status;
}

/* A token that needs memory: the one case in which appending reaches the ledger. */
static bool grow(replay_tenant *tenant, replay_run *run)
{
    replay_sim *sim = tenant->sim;
    mbr_error error = {MBR_SIZED(mbr_error)};
    uint64_t took_ns, asked_bytes;
    run->stalled = true;
    if (!may_grow(tenant, run))
        return true;
    mbr_status status = append(tenant, run, &took_ns, &asked_bytes, &error);
    if (status == MBR_OVER_BUDGET && replay_wait_for_bytes(tenant, asked_bytes))
        status = append(tenant, run, &took_ns, &asked_bytes, &error);
    replay_return_aside(tenant);
    if (MBR_STATUS_CLASS(status) == MBR_CLASS_EXHAUSTED)
        return true;
    if (status != MBR_OK)
        return replay_fail(sim, "request %llu at %llu tokens: %s", (unsigned long long)run->index,
            (unsigned long long)run->tokens, error.text);
    run->stalled = false;
    run->tokens++;
    sim->report->ledger_calls++;
    mbr_quantiles_add(&sim->report->growth_ns, took_ns);
    mbr_sequence_figures figures = {MBR_SIZED(mbr_sequence_figures)};
    mbr_sequence_read(run->contents.sequence, &figures, NULL);
    run->capacity_tokens = figures.capacity_tokens;
    if (!replay_touch_grown(&tenant->touch, &run->contents))
        return replay_fail(sim, "the contents of request %llu cannot be written: %s",
            (unsigned long long)run->index, replay_touch_reason(&tenant->touch));
    return replay_follow_leaf(tenant, run);
}

static bool is_done(const replay_tenant *tenant, const replay_run *run)
{
    return run->tokens == run->end_tokens && run->decode_ns <= tenant->sim->now_ns;
}

static bool decode(replay_tenant *tenant, replay_run *run)
{
    if (run->tokens == run->end_tokens || run->decode_ns > tenant->sim->now_ns)
        return true;
    if (run->tokens >= run->capacity_tokens)
        return grow(tenant, run);
    mbr_error error = {MBR_SIZED(mbr_error)};
    if (mbr_sequence_append(run->contents.sequence, 1, NULL, &error) != MBR_OK)
        return replay_fail(tenant->sim, "request %llu at %llu tokens: %s",
            (unsigned long long)run->index, (unsigned long long)run->tokens, error.text);
    run->tokens++;
    tenant->sim->report->quiet_appends++;
    return true;
}

static bool complete(replay_tenant *tenant, uint64_t at)
{
    const replay_sim *sim = tenant->sim;
    mbr_replay_tenant_report *report = tenant->report;
    const replay_run *run = &tenant->runs[at];
    const mbr_trace_request *request = &tenant->trace->requests[run->index];
    if (run->is_fork)
        return replay_end_run(tenant, at);
    uint64_t arrival = (uint64_t)((double)request->arrival_ns / sim->options->speed);
    mbr_quantiles_add(&report->wait_ns, run->start_ns - arrival);
    report->completed_tokens += sim->now_ns <= sim->span_ns ? request->output_tokens : 0;
    report->served++;
    tenant->done_count++;
    return replay_end_run(tenant, at);
}

bool replay_decode(replay_tenant *tenant, bool *moves)
{
    for (uint64_t i = 0; i < tenant->run_count;) {
        if (!decode(tenant, &tenant->runs[i]))
            return false;
        *moves = *moves || !tenant->runs[i].stalled;
        if (!is_done(tenant, &tenant->runs[i]))
            i++;
        else if (!complete(tenant, i))
            return false;
        else
            *moves = true;
    }
    return true;
}
