/* The run: simulated time, step by step, from the first arrival to the last end. */
#include "tools/cli/replay/simulate.h"

#include "abi/base/checked.h"
#include "tools/cli/args.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

volatile sig_atomic_t mbr_replay_interrupted;

#define SECOND_NS UINT64_C(1000000000)
#define EAGER_STEP_BYTES 65536 /* one byte of so many is written where there is no granule */

static uint64_t longest(const mbr_trace *trace)
{
    uint64_t tokens = 1;
    for (uint64_t i = 0; i < trace->request_count; i++) {
        const mbr_trace_request *request = &trace->requests[i];
        tokens = mbr_max(tokens, (uint64_t)request->prompt_tokens + request->output_tokens);
    }
    return tokens;
}

static uint64_t arrival_ns(const replay_sim *sim, uint64_t index)
{
    return (uint64_t)((double)sim->trace->requests[index].arrival_ns / sim->options->speed);
}

/* Simulated time ends well before uint64_t does. */
static bool fits_in_time(
    const mbr_replay_options *options, const mbr_trace *trace, char text[MBR_REPLAY_TEXT_BYTES])
{
    double last_s = trace->request_count == 0
        ? 0
        : (double)trace->requests[trace->request_count - 1].arrival_ns / (double)SECOND_NS;
    if (last_s / options->speed <= (double)MBR_TRACE_MAX_TIME_SECONDS)
        return true;
    snprintf(text, MBR_REPLAY_TEXT_BYTES,
        "--speed: %g moves the last arrival, %.0f s after the first, beyond %llu s; at least %.6f "
        "would work",
        options->speed, last_s, (unsigned long long)MBR_TRACE_MAX_TIME_SECONDS,
        last_s / (double)MBR_TRACE_MAX_TIME_SECONDS + 0.0000005);
    return false;
}

/* ---- Begin and end
 * ------------------------------------------------------------------------------------------ */

static bool init(replay_sim *sim)
{
    const mbr_replay_options *options = sim->options;
    uint64_t count = sim->trace->request_count;
    sim->step_ns = mbr_max(1, SECOND_NS / options->decode_rate);
    sim->waiting = calloc(count, sizeof(*sim->waiting));
    sim->has_waited = calloc(count, sizeof(*sim->has_waited));
    /* All at once: at the end of the first stay, the others may have used up all addresses. */
    sim->report->stays = malloc(count * sizeof(*sim->report->stays));
    sim->report->stay_capacity = sim->report->stays == NULL ? 0 : count;
    bool shares = options->prefix_declared && sim->trace->has_hash_ids &&
        options->eager == MBR_KV_GROWING &&
        (sim->world.mechanism_figures.capabilities & MBR_CAPABILITY_SHARED) != 0;
    if (shares)
        sim->store = replay_store_create();
    if (sim->waiting == NULL || sim->has_waited == NULL || sim->report->stays == NULL ||
        (shares && sim->store == NULL))
        return replay_fail(sim, "out of memory for %llu requests", (unsigned long long)count);
    sim->touch.world = &sim->world;
    sim->touch.granule_bytes = sim->world.mechanism_figures.granule_min_bytes;
    if (sim->touch.granule_bytes == 0) /* eager memory has none */
        sim->touch.granule_bytes = EAGER_STEP_BYTES;
    sim->touch.seed = options->seed;
    mbr_progress_options progress = {.file = STDERR_FILENO,
        .term = getenv("TERM"),
        .label = "replay",
        .unit = "requests",
        .total_count = count};
    mbr_progress_init(&sim->progress, &progress);
    return true;
}

static void finish(replay_sim *sim)
{
    mbr_progress_finish(&sim->progress);
    free(sim->waiting);
    free(sim->has_waited);
    free(sim->runs);
}

/* ---- Time
 * ---------------------------------------------------------------------------------------------------------
 */

static void take_arrivals(replay_sim *sim)
{
    while (sim->next_arrival < sim->trace->request_count &&
        arrival_ns(sim, sim->next_arrival) <= sim->now_ns)
        replay_wait_push(sim, sim->next_arrival++);
}

/* The next moment at which something can happen: the next step, or, while everybody computes a
 * prompt or nobody runs, the first prompt's end or arrival after it. */
static void advance(replay_sim *sim)
{
    uint64_t next = UINT64_MAX;
    for (uint64_t i = 0; i < sim->run_count; i++)
        next = mbr_min(next, mbr_max(sim->runs[i].decode_ns, sim->now_ns + sim->step_ns));
    if (sim->next_arrival < sim->trace->request_count)
        next = mbr_min(next, mbr_max(arrival_ns(sim, sim->next_arrival), sim->now_ns + 1));
    if (next == UINT64_MAX)
        return;
    /* Whole steps, so that all who decode stay in step. */
    uint64_t steps = (next - sim->now_ns + sim->step_ns - 1) / sim->step_ns;
    sim->now_ns += mbr_max(1, steps) * sim->step_ns;
}

static void show_progress(replay_sim *sim)
{
    char note[64], bytes[32];
    snprintf(note, sizeof(note), "%s owned, %llu running",
        mbr_args_format_bytes(bytes, sizeof(bytes), sim->report->owned.last),
        (unsigned long long)sim->run_count);
    mbr_progress_update(&sim->progress, sim->done_count, note);
}

/* Checkpoints are spread evenly over the requests. */
static void check_if_due(replay_sim *sim)
{
    uint64_t wanted = sim->options->checkpoint_count;
    if (wanted == 0 || sim->report->oracle_points >= wanted)
        return;
    uint64_t due = (sim->report->oracle_points + 1) * sim->trace->request_count / (wanted + 1);
    if (sim->done_count >= due)
        replay_checkpoint(sim);
}

static bool serve(replay_sim *sim)
{
    while (sim->done_count < sim->trace->request_count && !mbr_replay_interrupted) {
        take_arrivals(sim);
        if (!replay_admit_waiting(sim) || !replay_decode_all(sim))
            return false;
        replay_sample(sim);
        check_if_due(sim);
        mbr_manager_poll(sim->world.manager);
        show_progress(sim);
        if (atomic_load(&sim->touch.wrong_count) != 0)
            return replay_fail(sim,
                "wrong contents at address %llx: a byte is not what was written",
                (unsigned long long)atomic_load(&sim->touch.first_wrong_address));
        advance(sim);
    }
    return true;
}

/* ---- The whole
 * -----------------------------------------------------------------------------------------------------
 */

static void write_figures(replay_sim *sim, uint64_t wall_started_ns)
{
    mbr_replay_report *report = sim->report;
    mbr_authority_figures books = {MBR_SIZED(mbr_authority_figures)};
    mbr_kv_figures cache = {MBR_SIZED(mbr_kv_figures)};
    mbr_manager_read_authority(sim->world.manager, sim->world.authority, &books, NULL);
    mbr_kv_read(sim->world.kv, &cache, NULL);
    mbr_mechanism_figures mechanism = {MBR_SIZED(mbr_mechanism_figures)};
    mbr_manager_read_mechanism(sim->world.manager, sim->world.mechanism, &mechanism, NULL);
    report->plugin_calls = mechanism.call_count;
    bool leases = books.leased_bytes != MBR_UNKNOWN_BYTES; /* its limit is what it has just now */
    report->limit_bytes = leases ? books.set_limit_bytes : books.limit_bytes;
    report->token_bytes = cache.token_bytes;
    report->largest_extent_bytes = cache.largest_extent_bytes;
    report->simulated_seconds = (double)sim->now_ns / 1e9;
    report->wall_seconds = (double)(mbr_clock_now(&mbr_clock_monotonic) - wall_started_ns) / 1e9;
    report->interrupted = mbr_replay_interrupted != 0;
    report->max_prealloc_bytes = mbr_replay_max_prealloc(
        report->stays, report->stay_count, report->max_tokens, report->token_bytes);
    report->grow_and_copy_bytes =
        mbr_replay_grow_and_copy(report->stays, report->stay_count, report->token_bytes);
    report->paged16_bytes =
        mbr_replay_paged16(report->stays, report->stay_count, report->token_bytes);
}

static void note_sharing(replay_sim *sim)
{
    if (!sim->options->prefix_declared || sim->store != NULL)
        return;
    snprintf(sim->report->note, sizeof(sim->report->note), "prefixes are not shared: %s",
        !sim->trace->has_hash_ids ? "the trace does not declare any (mooncake's hash_ids do)"
            : sim->options->eager != MBR_KV_GROWING ? "eager memory cannot be mapped twice"
                                                    : "the plugin does not offer membrane.shared");
}

int mbr_replay_run(const mbr_replay_options *options, const mbr_trace *trace,
    mbr_replay_report *report, char text[MBR_REPLAY_TEXT_BYTES])
{
    text[0] = '\0';
    *report = (mbr_replay_report){.total = trace->request_count};
    mbr_quantiles_init(&report->growth_ns, NULL, 0, options->seed);
    report->max_tokens = options->max_tokens != 0 ? options->max_tokens : longest(trace);
    if (!fits_in_time(options, trace, text))
        return MBR_EXIT_USAGE;
    replay_sim sim = {.options = options, .trace = trace, .report = report, .text = text};
    int code = replay_world_open(&sim.world, options, report->max_tokens, text);
    if (code != MBR_EXIT_OK)
        return code;
    report->granule_bytes = sim.world.mechanism_figures.granule_min_bytes;
    uint64_t started = mbr_clock_now(&mbr_clock_monotonic);
    bool good = init(&sim);
    if (good)
        note_sharing(&sim);
    good = good && serve(&sim);
    good = replay_end_all(&sim) && good;
    if (good)
        write_figures(&sim, started);
    replay_store_destroy(sim.store);
    replay_world_settle(&sim.world, report);
    report->touched_count = atomic_load(&sim.touch.written_count);
    report->verified_count = atomic_load(&sim.touch.verified_count);
    if (good && atomic_load(&sim.touch.wrong_count) != 0)
        good = replay_fail(&sim, "wrong contents at address %llx: a byte is not what was written",
            (unsigned long long)atomic_load(&sim.touch.first_wrong_address));
    finish(&sim);
    mbr_error error = {MBR_SIZED(mbr_error)};
    if (replay_world_close(&sim.world, &error) != MBR_OK && good)
        good = replay_fail(&sim, "at the end: %s", error.text);
    return good ? MBR_EXIT_OK : MBR_EXIT_REFUSED;
}

void mbr_replay_report_finish(mbr_replay_report *report)
{
    mbr_quantiles_finish(&report->growth_ns);
    free(report->live.points);
    free(report->mapped.points);
    free(report->owned.points);
    free(report->stays);
}
