/* The caches' nap: all that the sequences have alone sleeps, and wakes before the next step; what
 * they share stays, and so do prefixes that nobody uses. Sequences of the paged stores, which no
 * sleeper has, are preempted and restored at the same time. Says not when: rest.c does. */
#include "tools/cli/replay/simulate.h"

#define TAG 2

typedef mbr_status (*visit)(replay_tenant *tenant, mbr_range_handle range, mbr_error *error);

/* Each layer group of each sequence that lives. */
static mbr_status walk(replay_tenant *tenant, visit visit_range, mbr_error *error)
{
    mbr_status status = MBR_OK;
    for (uint64_t i = 0; i < tenant->run_count && status == MBR_OK; i++) {
        mbr_sequence *sequence = tenant->runs[i].contents.sequence;
        mbr_sequence_figures figures = {MBR_SIZED(mbr_sequence_figures)};
        mbr_sequence_read(sequence, &figures, NULL);
        for (uint32_t group = 0; group < figures.group_count && status == MBR_OK; group++) {
            mbr_range_handle range;
            status = mbr_sequence_lend(sequence, group, &range, error);
            if (status == MBR_OK)
                status = visit_range(tenant, range, error);
        }
    }
    return status;
}

static mbr_status add(replay_tenant *tenant, mbr_range_handle range, mbr_error *error)
{
    return mbr_sleeper_add(tenant->sim->arena.sleeper, range, tenant->seat->holder, TAG, error);
}

static mbr_status take_back(replay_tenant *tenant, mbr_range_handle range, mbr_error *error)
{
    mbr_status status = mbr_sleeper_remove(tenant->sim->arena.sleeper, range, error);
    return status == MBR_UNKNOWN_OBJECT ? MBR_OK : status; /* not all had been added */
}

static bool fail(replay_sim *sim, const char *what, const mbr_error *error)
{
    return replay_fail(sim, "the caches cannot %s: %s", what, error->text);
}

/* ---- Outcomes */

/* What did not wake is not there any more: nobody looks for it, and whoever had it begins anew. */
static bool begin_anew(replay_tenant *tenant)
{
    replay_sim *sim = tenant->sim;
    mbr_error error = {MBR_SIZED(mbr_error)};
    for (uint64_t i = 0; i < tenant->run_count; i++)
        tenant->runs[i].contents.is_lost = true;
    mbr_status status = replay_arena_drop(&sim->arena, TAG, &error);
    if (status == MBR_OK)
        status = walk(tenant, take_back, &error);
    if (status != MBR_OK)
        return fail(sim, "be given up", &error);
    for (bool preempted = true; preempted;)
        if (!replay_preempt_youngest(sim, tenant, &preempted))
            return false;
    return true;
}

/* Their bytes were free meanwhile: other processes may have taken them. */
static mbr_status wake(replay_tenant *tenant, mbr_error *error)
{
    bool drained = false;
    mbr_status status;
    do
        status = replay_arena_wake(&tenant->sim->arena, TAG, error);
    while (status == MBR_OVER_BUDGET && replay_make_room(tenant, &drained));
    return status;
}

/* Before the next step: whoever is wrong then is wrong for the sleep. */
static bool check(replay_tenant *tenant)
{
    replay_world *world = &tenant->sim->world;
    mbr_error error = {MBR_SIZED(mbr_error)};
    for (uint64_t i = 0; i < tenant->run_count; i++)
        if (!replay_verify_all(&tenant->touch, &tenant->runs[i].contents))
            return replay_fail(tenant->sim, "the contents of request %llu cannot be checked: %s",
                (unsigned long long)tenant->runs[i].index, replay_touch_reason(&tenant->touch));
    for (uint32_t i = 0; i < world->stream_count; i++)
        if (mbr_ep_synchronize(world->manager, world->streams[i], replay_drain_deadline_ns(world),
                &error) != MBR_OK)
            return fail(tenant->sim, "be checked", &error);
    return true;
}

/* All that slept is awake, and right; or begins anew. */
static bool wake_up(replay_tenant *tenant)
{
    replay_sim *sim = tenant->sim;
    mbr_error error = {MBR_SIZED(mbr_error)};
    mbr_status status = wake(tenant, &error);
    if (status != MBR_OK) {
        bool is_refused = MBR_STATUS_CLASS(status) == MBR_CLASS_EXHAUSTED;
        if (!is_refused)
            fail(sim, "wake", &error);
        sim->report->caches.lost_count++;
        return begin_anew(tenant) && is_refused;
    }
    sim->report->caches.sleep_count++;
    if (walk(tenant, take_back, &error) != MBR_OK)
        return fail(sim, "be taken back", &error);
    return check(tenant);
}

/* *is_asleep is false where the arena has no room for them. */
static bool fall_asleep(replay_tenant *tenant, bool *is_asleep)
{
    replay_sim *sim = tenant->sim;
    mbr_error error = {MBR_SIZED(mbr_error)};
    uint64_t slept_bytes = 0;
    mbr_status status = walk(tenant, add, &error);
    if (status == MBR_OK)
        status = replay_arena_sleep(&sim->arena, TAG, &slept_bytes, &error);
    *is_asleep = status == MBR_OK || status == MBR_RESIDUAL;
    sim->report->caches.slept_bytes += slept_bytes;
    if (*is_asleep) /* what could not be given back is tried once more by the wake */
        return true;
    bool is_refused = MBR_STATUS_CLASS(status) == MBR_CLASS_EXHAUSTED;
    sim->report->caches.refused_count += is_refused;
    if (!is_refused)
        fail(sim, "sleep", &error);
    return walk(tenant, take_back, &error) == MBR_OK ? is_refused
                                                     : fail(sim, "be taken back", &error);
}

bool replay_nap(replay_tenant *tenant)
{
    bool is_asleep;
    const mbr_replay_meddler *meddler = tenant->sim->options->meddler;
    if (tenant->run_count == 0)
        return true;
    if (!replay_preempt_leaves(tenant) || !fall_asleep(tenant, &is_asleep))
        return false;
    if (is_asleep && meddler != NULL && meddler->rest != NULL)
        meddler->rest(meddler->context);
    return (!is_asleep || wake_up(tenant)) && replay_restore_leaves(tenant);
}
