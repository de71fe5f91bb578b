/* When the sequences of the paged stores begin, go on and end: with the stays of the one tenant.
 * What there is no room for, also without cold prefixes, is dropped and counted: nobody waits for
 * it. */
#include "tools/cli/replay/simulate.h"

#include "abi/base/checked.h"

#include <stdlib.h>

static bool judge(replay_sim *sim, const char *what, mbr_status status, const mbr_error *error)
{
    return status == MBR_OK || replay_fail(sim, "pages cannot %s: %s", what, error->text);
}

bool replay_open_pages(replay_sim *sim)
{
    mbr_error error = {MBR_SIZED(mbr_error)};
    return !sim->options->has_pages ||
        judge(sim, "be had",
            replay_pages_open(&sim->pages, &sim->tenants[0].touch, &sim->report->pages,
                sim->tenants[0].report->max_tokens, &error),
            &error);
}

bool replay_close_pages(replay_sim *sim)
{
    mbr_error error = {MBR_SIZED(mbr_error)};
    return sim->pages.touch == NULL ||
        judge(sim, "be given back", replay_pages_close(&sim->pages, &error), &error);
}

bool replay_forget_pages(replay_sim *sim)
{
    mbr_error error = {MBR_SIZED(mbr_error)};
    return sim->pages.touch == NULL ||
        judge(sim, "be given back", replay_pages_forget(&sim->pages, &error), &error);
}

/* ---- Stays */

static uint64_t alike_tokens(const mbr_trace_request *a, const mbr_trace_request *b)
{
    uint64_t tokens = mbr_min(a->prompt_tokens, b->prompt_tokens), block = 0;
    if (a->hash_ids == NULL || b->hash_ids == NULL)
        return 0;
    while (
        (block + 1) * MBR_TRACE_BLOCK_TOKENS <= tokens && a->hash_ids[block] == b->hash_ids[block])
        block++;
    return block * MBR_TRACE_BLOCK_TOKENS;
}

/* Of those that run with the same store. */
static replay_leaf *find_source(
    const replay_tenant *tenant, const replay_run *run, const mbr_paged *store, uint64_t *alike)
{
    replay_leaf *best = NULL;
    *alike = 0;
    for (uint64_t i = 0; i < tenant->run_count; i++) {
        const replay_run *other = &tenant->runs[i];
        if (other == run || other->leaf == NULL || other->leaf->store != store)
            continue;
        uint64_t tokens = alike_tokens(run->contents.request, other->contents.request);
        if (tokens <= *alike)
            continue;
        *alike = tokens;
        best = other->leaf;
    }
    return best;
}

static bool may_try_again(replay_tenant *tenant, mbr_status status, bool *drained)
{
    return status == MBR_OVER_BUDGET && replay_make_room(tenant, drained);
}

/* The leaf goes with a failure. */
static bool settle(
    replay_tenant *tenant, replay_run *run, mbr_status status, const mbr_error *error)
{
    replay_sim *sim = tenant->sim;
    bool is_refused = MBR_STATUS_CLASS(status) == MBR_CLASS_EXHAUSTED;
    if (status == MBR_OK)
        return true;
    if (run->leaf->sequence.value != 0)
        replay_leaf_end(&sim->pages, run->leaf, NULL);
    free(run->leaf);
    run->leaf = NULL;
    sim->report->pages.dropped_count += is_refused;
    return is_refused || judge(sim, "go on", status, error);
}

static bool begin(
    replay_tenant *tenant, replay_run *run, replay_leaf *source, mbr_paged *store, uint64_t alike)
{
    replay_sim *sim = tenant->sim;
    mbr_error error = {MBR_SIZED(mbr_error)};
    mbr_status status;
    bool drained = false;
    run->leaf = calloc(1, sizeof(*run->leaf));
    if (run->leaf == NULL)
        return replay_fail(sim, "out of memory for a sequence of pages");
    do {
        *run->leaf = (replay_leaf){.store = store, .writer = run->contents.origin.own};
        run->leaf->writer.allocation |= REPLAY_PAGES_ALLOCATION;
        status = replay_leaf_begin(&sim->pages, run->leaf, source, alike, run->tokens, &error);
    } while (may_try_again(tenant, status, &drained));
    return settle(tenant, run, status, &error);
}

bool replay_begin_leaf(replay_tenant *tenant, replay_run *run)
{
    replay_sim *sim = tenant->sim;
    if (sim->pages.touch == NULL)
        return true;
    uint64_t alike;
    mbr_paged *store = sim->pages.stores[run->index % REPLAY_PAGES_STORE_COUNT];
    replay_leaf *source = find_source(tenant, run, store, &alike);
    return begin(tenant, run, source, store, alike);
}

bool replay_fork_leaf(replay_tenant *tenant, replay_run *run, const replay_run *from)
{
    if (from->leaf == NULL)
        return true;
    return begin(tenant, run, from->leaf, from->leaf->store, UINT64_MAX);
}

bool replay_follow_leaf(replay_tenant *tenant, replay_run *run)
{
    mbr_error error = {MBR_SIZED(mbr_error)};
    mbr_status status;
    bool drained = false;
    if (run->leaf == NULL)
        return true;
    do
        status = replay_leaf_follow(&tenant->sim->pages, run->leaf, run->tokens, &error);
    while (may_try_again(tenant, status, &drained));
    return settle(tenant, run, status, &error);
}

bool replay_end_leaf(replay_tenant *tenant, replay_run *run)
{
    mbr_error error = {MBR_SIZED(mbr_error)};
    if (run->leaf == NULL)
        return true;
    mbr_status status = replay_leaf_end(&tenant->sim->pages, run->leaf, &error);
    if (status != MBR_OK)
        return settle(tenant, run, status, &error);
    free(run->leaf);
    run->leaf = NULL;
    return true;
}

/* ---- All at once */

/* What there is no room for stays where it is: its next move restores it. */
static bool move_all(replay_tenant *tenant, const char *what,
    mbr_status (*move)(replay_pages *pages, replay_leaf *leaf, mbr_error *error))
{
    for (uint64_t i = 0; i < tenant->run_count; i++) {
        mbr_error error = {MBR_SIZED(mbr_error)};
        replay_leaf *leaf = tenant->runs[i].leaf;
        mbr_status status = leaf == NULL ? MBR_OK : move(&tenant->sim->pages, leaf, &error);
        if (MBR_STATUS_CLASS(status) != MBR_CLASS_EXHAUSTED &&
            !judge(tenant->sim, what, status, &error))
            return false;
    }
    return true;
}

bool replay_preempt_leaves(replay_tenant *tenant)
{
    return move_all(tenant, "be preempted", replay_leaf_preempt);
}

bool replay_restore_leaves(replay_tenant *tenant)
{
    return move_all(tenant, "be restored", replay_leaf_restore);
}
