/* Forks: of one request in so many a second answer is asked for. Once the prompt is computed, a
 * second sequence begins with all of it, shared as far as whole extents go, and both go on by
 * themselves. Nobody waits for a fork: it is dropped where there is no room. */
#include "tools/cli/replay/simulate.h"

/* Another stream than the source's, so that the order of the two is what the library says. */
static mbr_status create_sequence(replay_tenant *tenant, const replay_run *source,
    const mbr_kv_prefix *prefix, replay_run *fork, mbr_error *error)
{
    mbr_sequence_request asked = {MBR_SIZED(mbr_sequence_request),
        .stream = tenant->sim->world.streams[fork->contents.stream], .tokens = source->tokens,
        .prefix = prefix, .prefix_tokens = source->tokens, .tag = source->index};
    return mbr_sequence_create(tenant->seat->kv, &asked, &fork->contents.sequence, error);
}

static replay_run make_run(const replay_tenant *tenant, const replay_run *source)
{
    replay_run fork = {.index = source->index,
        .start_ns = tenant->sim->now_ns,
        .decode_ns = tenant->sim->now_ns,
        .tokens = source->tokens,
        .end_tokens = source->end_tokens,
        .is_fork = true};
    fork.contents.request = source->contents.request;
    fork.contents.tag = source->contents.tag;
    fork.contents.stream = (source->contents.stream + 1) % MBR_REPLAY_STREAM_COUNT;
    return fork;
}

/* The source has written its prompt when its stream has come so far. */
static bool settle_source(replay_tenant *tenant, const replay_run *source)
{
    replay_world *world = &tenant->sim->world;
    mbr_error error = {MBR_SIZED(mbr_error)};
    return mbr_ep_synchronize(world->manager, world->streams[source->contents.stream],
               replay_drain_deadline_ns(world), &error) == MBR_OK ||
        replay_fail(tenant->sim, "the writes of request %llu do not end: %s",
            (unsigned long long)source->index, error.text);
}

static bool fork_run(replay_tenant *tenant, uint64_t at)
{
    replay_sim *sim = tenant->sim;
    mbr_error error = {MBR_SIZED(mbr_error)};
    mbr_kv_prefix *prefix;
    if (!replay_reserve_run(tenant) || !settle_source(tenant, &tenant->runs[at]))
        return false;
    replay_run *source = &tenant->runs[at];
    replay_run fork = make_run(tenant, source);
    source->forked = true;
    bool shares =
        mbr_kv_prefix_create(source->contents.sequence, source->tokens, &prefix, NULL) == MBR_OK;
    bool made = shares && create_sequence(tenant, source, prefix, &fork, &error) == MBR_OK;
    if (shares)
        mbr_kv_prefix_destroy(prefix, NULL); /* it lives on in the sequences */
    sim->report->fork_count += made;
    sim->report->refused_fork_count += !made;
    if (!made)
        return true;
    mbr_sequence_figures figures = {MBR_SIZED(mbr_sequence_figures)};
    mbr_sequence_read(fork.contents.sequence, &figures, NULL);
    fork.capacity_tokens = figures.capacity_tokens;
    replay_name_writer(tenant, &fork);
    replay_run *added = &tenant->runs[tenant->run_count++];
    *added = fork;
    if (!replay_touch_begin(&tenant->touch, &added->contents,
            sim->options->has_stamps ? &source->contents.origin : NULL, source->tokens))
        return replay_fail(sim, "the contents of a fork of request %llu cannot be written: %s",
            (unsigned long long)source->index, replay_touch_reason(&tenant->touch));
    return replay_fork_leaf(tenant, added, source);
}

bool replay_fork_due(replay_tenant *tenant)
{
    const replay_sim *sim = tenant->sim;
    uint64_t every = sim->options->fork_every, count = tenant->run_count;
    for (uint64_t i = 0; every != 0 && i < count; i++) {
        const replay_run *run = &tenant->runs[i];
        bool is_due = !run->is_fork && !run->forked && run->decode_ns <= sim->now_ns &&
            run->tokens == run->contents.request->prompt_tokens && run->tokens < run->end_tokens &&
            run->index % every == 0;
        if (is_due && !fork_run(tenant, i))
            return false;
    }
    return true;
}
