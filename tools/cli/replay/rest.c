/* When there is rest: after every so many requests that are done the caches have a nap, and then
 * the weights change over, asleep or awake, so that the caches have their bytes half of the time.
 */
#include "tools/cli/replay/simulate.h"

static bool judge(replay_sim *sim, const char *what, mbr_status status, const mbr_error *error)
{
    return status == MBR_OK || replay_fail(sim, "the weights cannot %s: %s", what, error->text);
}

static bool judge_arena(
    replay_sim *sim, const char *what, mbr_status status, const mbr_error *error)
{
    return status == MBR_OK || replay_fail(sim, "the arena cannot %s: %s", what, error->text);
}

bool replay_open_rest(replay_sim *sim)
{
    mbr_error error = {MBR_SIZED(mbr_error)};
    if (sim->options->sleep_every == 0)
        return true;
    sim->sleep_due = sim->options->sleep_every;
    return judge_arena(sim, "be had",
               replay_arena_open(&sim->arena, &sim->world, sim->options->budget_bytes, &error),
               &error) &&
        judge(sim, "be loaded",
            replay_weights_open(&sim->weights, &sim->tenants[0].touch, &sim->arena,
                sim->options->weight_bytes, &error),
            &error);
}

/* Cold prefixes make room for them; where that does not suffice they sleep on. */
static bool wake(replay_sim *sim)
{
    mbr_error error = {MBR_SIZED(mbr_error)};
    mbr_status status;
    bool drained = false;
    do
        status = replay_weights_wake(&sim->weights, &error);
    while (status == MBR_OVER_BUDGET && replay_make_room(&sim->tenants[0], &drained));
    sim->report->wake_count += status == MBR_OK;
    if (MBR_STATUS_CLASS(status) != MBR_CLASS_EXHAUSTED)
        return judge(sim, "wake", status, &error);
    sim->report->refused_wake_count++;
    return true;
}

static bool sleep_now(replay_sim *sim)
{
    mbr_error error = {MBR_SIZED(mbr_error)};
    mbr_status status = replay_weights_sleep(&sim->weights, &error);
    sim->report->sleep_count += status == MBR_OK;
    if (MBR_STATUS_CLASS(status) == MBR_CLASS_EXHAUSTED) /* no room for the arena: it stays awake */
        return true;
    if (status == MBR_OK)
        sim->release_count++; /* whoever waits is tried again */
    return judge(sim, "sleep", status, &error);
}

bool replay_rest_if_due(replay_sim *sim, uint64_t done_count)
{
    if (sim->options->sleep_every == 0 || done_count < sim->sleep_due)
        return true;
    sim->sleep_due = done_count + sim->options->sleep_every;
    if (!replay_nap(&sim->tenants[0]))
        return false;
    return sim->weights.is_asleep ? wake(sim) : sleep_now(sim);
}

bool replay_close_rest(replay_sim *sim)
{
    mbr_error error = {MBR_SIZED(mbr_error)};
    if (sim->weights.is_asleep && !wake(sim)) /* their contents are checked once more */
        return false;
    return (sim->weights.world == NULL ||
               judge(sim, "be given back", replay_weights_close(&sim->weights, &error), &error)) &&
        judge_arena(sim, "be given back", replay_arena_close(&sim->arena, &error), &error);
}

bool replay_forget_rest(replay_sim *sim)
{
    mbr_error error = {MBR_SIZED(mbr_error)};
    return sim->weights.world == NULL ||
        judge(sim, "be given back", replay_weights_forget(&sim->weights, &error), &error);
}
