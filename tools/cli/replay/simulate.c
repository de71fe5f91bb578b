/* The run: simulated time, step by step, from the first arrival to the last end. */
#include "tools/cli/replay/simulate.h"

#include "abi/base/assert.h"
#include "abi/base/checked.h"
#include "tools/cli/args.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

volatile sig_atomic_t mbr_replay_interrupted;

#define SECOND_NS UINT64_C(1000000000)
#define EAGER_STEP_BYTES 65536 /* one byte of so many is written where there is no granule */
#define STAMP_STEP_BYTES 4096  /* a page, which is the least that a processor's mapping moves */

bool replay_fail(replay_sim *sim, const char *format, ...)
{
    if (sim->text[0] != '\0')
        return false;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sim->text, MBR_REPLAY_TEXT_BYTES, format, arguments);
    va_end(arguments);
    return false;
}

static uint64_t longest(const mbr_trace *trace)
{
    uint64_t tokens = 1;
    for (uint64_t i = 0; i < trace->request_count; i++) {
        const mbr_trace_request *request = &trace->requests[i];
        tokens = mbr_max(tokens, (uint64_t)request->prompt_tokens + request->output_tokens);
    }
    return tokens;
}

static uint64_t arrival_ns(const replay_sim *sim, const mbr_trace *trace, uint64_t index)
{
    return (uint64_t)((double)trace->requests[index].arrival_ns / sim->options->speed);
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

/* ---- Begin and end --------------------------------------------------------------------------- */

/* The seed of each tenant is its own, so that no tenant's bytes pass for another's. Stamps are in
 * every page where the processor writes them; each costs a device a copy. */
static void init_touch(replay_sim *sim, replay_tenant *tenant)
{
    replay_touch *touch = &tenant->touch;
    touch->world = &sim->world;
    touch->step_bytes = sim->world.mechanism_figures.granule_min_bytes;
    if (touch->step_bytes == 0) /* eager memory has none */
        touch->step_bytes = EAGER_STEP_BYTES;
    touch->has_stamps = sim->options->has_stamps;
    if (touch->has_stamps && sim->world.cpu != NULL)
        touch->step_bytes = mbr_min(touch->step_bytes, STAMP_STEP_BYTES);
    touch->meddler = sim->options->meddler;
    touch->seed = sim->options->seed + (uint64_t)(tenant - sim->tenants);
    /* The cache has read the same text. */
    MBR_CHECK(mbr_geometry_parse(tenant->model, &touch->geometry, NULL) == MBR_GEOMETRY_OK);
    sim->report->mark_step_bytes = touch->step_bytes;
}

static void note_sharing(const replay_sim *sim, replay_tenant *tenant)
{
    if (sim->options->prefixes == MBR_REPLAY_PREFIX_NONE || tenant->store != NULL)
        return;
    snprintf(tenant->report->note, sizeof(tenant->report->note), "prefixes are not shared: %s",
        !tenant->trace->has_hash_ids ? "the trace does not declare any (mooncake's hash_ids do)"
            : sim->options->eager != MBR_KV_GROWING ? "eager memory cannot be mapped twice"
                                                    : "the plugin does not offer membrane.shared");
}

static bool init_tenant(replay_sim *sim, replay_tenant *tenant)
{
    const mbr_replay_options *options = sim->options;
    mbr_replay_tenant_report *report = tenant->report;
    uint64_t count = tenant->trace->request_count;
    tenant->waiting = calloc(count, sizeof(*tenant->waiting));
    tenant->has_waited = calloc(count, sizeof(*tenant->has_waited));
    /* All at once: at the end of the first stay, the others may have used up all addresses. */
    report->stays = malloc(count * sizeof(*report->stays));
    report->stay_capacity = report->stays == NULL ? 0 : count;
    bool shares = options->prefixes != MBR_REPLAY_PREFIX_NONE && tenant->trace->has_hash_ids &&
        options->eager == MBR_KV_GROWING &&
        (sim->world.mechanism_figures.capabilities & MBR_CAPABILITY_SHARED) != 0;
    const replay_store_options store = {
        .whole_tokens = options->prefixes == MBR_REPLAY_PREFIX_AUTO};
    if (shares) {
        tenant->store = replay_store_create(&store);
        tenant->reuse = replay_reuse_create(
            options, tenant->model, report->max_tokens, &sim->world.mechanism_figures);
    }
    if (tenant->waiting == NULL || tenant->has_waited == NULL || report->stays == NULL ||
        (shares && (tenant->store == NULL || tenant->reuse == NULL)))
        return replay_fail(sim, "out of memory for %llu requests", (unsigned long long)count);
    init_touch(sim, tenant);
    note_sharing(sim, tenant);
    return true;
}

static uint64_t smallest(const mbr_trace *trace)
{
    uint64_t tokens = UINT64_MAX;
    for (uint64_t i = 0; i < trace->request_count; i++)
        tokens = mbr_min(
            tokens, (uint64_t)trace->requests[i].prompt_tokens + trace->requests[i].output_tokens);
    return tokens;
}

/* A budget under which the tenant could not serve one request is a mistake. */
static bool check_budget(replay_sim *sim, const replay_tenant *tenant, const mbr_replay_load *load)
{
    uint64_t tokens = smallest(load->trace), bytes = 0;
    uint64_t most = sim->way == MBR_REPLAY_STATIC ? load->share_bytes : sim->options->budget_bytes;
    if (sim->way == MBR_REPLAY_ALONE ||
        mbr_kv_need_bytes(tenant->seat->kv, tokens, &bytes, NULL) != MBR_OK || bytes <= most)
        return true;
    return replay_fail(sim,
        "tenant '%s': its smallest request, %llu tokens, needs %llu bytes and can have %llu; a "
        "larger --budget or share would work",
        load->name, (unsigned long long)tokens, (unsigned long long)bytes,
        (unsigned long long)most);
}

/* Everything that a tenant has before its first request; on failure the world is closed. */
static int open_tenant(replay_sim *sim, uint32_t index, const mbr_replay_load *load)
{
    replay_tenant *tenant = &sim->tenants[index];
    *tenant = (replay_tenant){.sim = sim,
        .trace = load->trace,
        .model = load->model,
        .report = &sim->report->tenants[index],
        .seat = &sim->world.seats[index]};
    mbr_pressure_callbacks pressed = replay_pressed(tenant);
    int code = replay_world_seat(&sim->world, tenant->seat, sim->options, sim->way, load,
        tenant->report->max_tokens, &pressed, sim->text);
    if (code != MBR_EXIT_OK || check_budget(sim, tenant, load))
        return code;
    replay_world_close(&sim->world, NULL);
    return MBR_EXIT_REFUSED;
}

static bool init(replay_sim *sim)
{
    static const char *const labels[] = {"replay", "elastic", "static"};
    mbr_progress_options progress = {.file = STDERR_FILENO,
        .term = getenv("TERM"),
        .label = labels[sim->way],
        .unit = "requests",
        .total_count = sim->total_count};
    mbr_progress_init(&sim->progress, &progress);
    sim->step_ns = mbr_max(1, SECOND_NS / sim->options->decode_rate);
    bool good = true;
    for (uint32_t i = 0; i < sim->tenant_count; i++)
        good = init_tenant(sim, &sim->tenants[i]) && good;
    return good;
}

static void finish(replay_sim *sim)
{
    mbr_progress_finish(&sim->progress);
    for (uint32_t i = 0; i < sim->tenant_count; i++) {
        free(sim->tenants[i].waiting);
        free(sim->tenants[i].has_waited);
        free(sim->tenants[i].runs);
        replay_reuse_destroy(sim->tenants[i].reuse);
        replay_origins_finish(&sim->tenants[i].origins);
    }
}

/* ---- Time ------------------------------------------------------------------------------------ */

static void take_arrivals(const replay_sim *sim, replay_tenant *tenant)
{
    while (tenant->next_arrival < tenant->trace->request_count &&
        arrival_ns(sim, tenant->trace, tenant->next_arrival) <= sim->now_ns)
        replay_wait_push(tenant, tenant->next_arrival++);
}

/* The next moment at which something can happen to the tenant: the next step, or, while everybody
 * computes a prompt or nobody runs, the first prompt's end or arrival after it. */
static uint64_t next_moment(const replay_sim *sim, const replay_tenant *tenant)
{
    uint64_t next = UINT64_MAX;
    for (uint64_t i = 0; i < tenant->run_count; i++)
        next = mbr_min(next, mbr_max(tenant->runs[i].decode_ns, sim->now_ns + sim->step_ns));
    if (tenant->next_arrival < tenant->trace->request_count) {
        uint64_t arrival = arrival_ns(sim, tenant->trace, tenant->next_arrival);
        next = mbr_min(next, mbr_max(arrival, sim->now_ns + 1));
    }
    return next;
}

static void advance(replay_sim *sim)
{
    uint64_t next = UINT64_MAX;
    for (uint32_t i = 0; i < sim->tenant_count; i++)
        next = mbr_min(next, next_moment(sim, &sim->tenants[i]));
    if (next == UINT64_MAX)
        return;
    /* Whole steps, so that all who decode stay in step. */
    uint64_t steps = (next - sim->now_ns + sim->step_ns - 1) / sim->step_ns;
    sim->now_ns += mbr_max(1, steps) * sim->step_ns;
    if (sim->options->ahead_bytes != 0)
        sim->world.simulated_ns = sim->now_ns;
}

static uint64_t done_count(const replay_sim *sim)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < sim->tenant_count; i++)
        count += sim->tenants[i].done_count;
    return count;
}

static void show_progress(replay_sim *sim)
{
    char note[64], bytes[32];
    snprintf(note, sizeof(note), "%s owned, %llu running",
        mbr_args_format_bytes(bytes, sizeof(bytes), sim->report->owned.last),
        (unsigned long long)replay_run_count(sim));
    mbr_progress_update(&sim->progress, done_count(sim), note);
}

/* Checkpoints are spread evenly over the requests. */
static void check_if_due(replay_sim *sim)
{
    uint64_t wanted = sim->options->checkpoint_count;
    if (wanted == 0 || sim->report->oracle_points >= wanted)
        return;
    uint64_t due = (sim->report->oracle_points + 1) * sim->total_count / (wanted + 1);
    if (done_count(sim) >= due)
        replay_checkpoint(sim);
}

static bool check_contents(replay_sim *sim)
{
    char wrong[MBR_REPLAY_TEXT_BYTES];
    for (uint32_t i = 0; i < sim->tenant_count; i++)
        if (replay_touch_is_wrong(&sim->tenants[i].touch, wrong))
            return replay_fail(sim, "%s", wrong);
    return true;
}

/* Alone with all the memory and still stuck: it can never be served. */
static bool refuse_last(replay_sim *sim)
{
    replay_tenant *tenant = sim->tenants;
    while (tenant->run_count == 0)
        tenant++;
    uint64_t index = tenant->runs[0].index;
    bool is_fork = tenant->runs[0].is_fork;
    if (!replay_end_all(tenant))
        return false;
    if (is_fork)
        return true;
    replay_wait_push_front(tenant, index);
    replay_refuse_head(
        tenant, "it outgrows the budget even when it runs alone; a larger --budget would work");
    return true;
}

static bool decode_all(replay_sim *sim, bool *moves)
{
    *moves = false;
    for (uint32_t i = 0; i < sim->tenant_count; i++)
        if (!replay_decode(&sim->tenants[i], moves))
            return false;
    return true;
}

/* Who has least of its share comes first. */
static void sort_by_need(replay_sim *sim, replay_tenant *sorted[MBR_REPLAY_TENANT_LIMIT_COUNT])
{
    for (uint32_t i = 0; i < sim->tenant_count; i++) {
        replay_tenant *moving = &sim->tenants[i];
        uint32_t at = i;
        for (; at > 0 && replay_share_used(moving) < replay_share_used(sorted[at - 1]); at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = moving;
    }
}

/* Nobody borrows while another waits for what is its own: it would be taken back at once. */
static bool admit_all(replay_sim *sim)
{
    replay_tenant *sorted[MBR_REPLAY_TENANT_LIMIT_COUNT];
    bool is_wanted = false;
    sort_by_need(sim, sorted);
    for (uint32_t i = 0; i < sim->tenant_count; i++) {
        if (is_wanted && replay_share_used(sorted[i]) >= 1)
            break;
        if (!replay_admit_waiting(sorted[i]))
            return false;
        is_wanted |= sorted[i]->waiting_count != 0 && replay_share_used(sorted[i]) < 1;
    }
    for (uint32_t i = 0; i < sim->tenant_count; i++)
        replay_count_waiting(&sim->tenants[i]);
    return true;
}

/* One step of all. Where nobody gets on, the youngest gives what it has to the others, who have a
 * step before anybody is let in again. */
static bool step(replay_sim *sim)
{
    for (uint32_t i = 0; i < sim->tenant_count; i++)
        take_arrivals(sim, &sim->tenants[i]);
    if (!sim->is_stuck && !admit_all(sim))
        return false;
    bool moves, preempted;
    for (uint32_t i = 0; i < sim->tenant_count; i++)
        if (!replay_fork_due(&sim->tenants[i]))
            return false;
    if (!decode_all(sim, &moves))
        return false;
    sim->is_stuck = !moves && replay_run_count(sim) != 0;
    if (!sim->is_stuck)
        return true;
    return replay_run_count(sim) == 1 ? refuse_last(sim)
                                      : replay_preempt_youngest(sim, NULL, &preempted);
}

static bool serve(replay_sim *sim)
{
    while (done_count(sim) < sim->total_count && !mbr_replay_interrupted) {
        if (!step(sim) || !replay_rest_if_due(sim, done_count(sim)))
            return false;
        replay_settle_releases(sim); /* a step is long: what it released is there at its end */
        replay_sample(sim);
        check_if_due(sim);
        mbr_manager_poll(sim->world.manager);
        show_progress(sim);
        if (!check_contents(sim))
            return false;
        advance(sim);
    }
    return true;
}

/* Nobody waits any more when the first of them ends. */
static bool end_all(replay_sim *sim)
{
    bool ended = true;
    for (uint32_t i = 0; i < sim->tenant_count; i++)
        replay_end_ticket(&sim->tenants[i]);
    for (uint32_t i = 0; i < sim->tenant_count; i++)
        ended = replay_end_all(&sim->tenants[i]) && ended;
    return ended;
}

/* ---- The whole ------------------------------------------------------------------------------- */

/* Peaks of several tenants are of one moment only by chance, so the ways are compared for one. */
static void compare_ways(replay_sim *sim)
{
    mbr_replay_report *report = sim->report;
    const mbr_replay_tenant_report *own = &report->tenants[0];
    if (sim->tenant_count != 1)
        return;
    report->max_prealloc_bytes =
        mbr_replay_max_prealloc(own->stays, own->stay_count, own->max_tokens, own->token_bytes);
    report->grow_and_copy_bytes =
        mbr_replay_grow_and_copy(own->stays, own->stay_count, own->token_bytes);
    report->paged16_bytes = mbr_replay_paged16(own->stays, own->stay_count, own->token_bytes);
}

static void write_tenant(const replay_sim *sim, const replay_tenant *tenant)
{
    mbr_kv_figures cache = {MBR_SIZED(mbr_kv_figures)};
    mbr_holder_figures holder = {MBR_SIZED(mbr_holder_figures)};
    mbr_kv_read(tenant->seat->kv, &cache, NULL);
    mbr_manager_read_holder(sim->world.manager, tenant->seat->holder, &holder, NULL);
    tenant->report->token_bytes = cache.token_bytes;
    tenant->report->largest_extent_bytes = cache.largest_extent_bytes;
    tenant->report->peak_bytes = holder.peak_charged_bytes;
    sim->report->growth_count += cache.growth_count;
    sim->report->adopted_count += cache.adopted_count;
}

static void write_figures(replay_sim *sim, uint64_t wall_started_ns)
{
    mbr_replay_report *report = sim->report;
    mbr_authority_figures books = {MBR_SIZED(mbr_authority_figures)};
    mbr_manager_read_authority(sim->world.manager, sim->world.authority, &books, NULL);
    mbr_mechanism_figures mechanism = {MBR_SIZED(mbr_mechanism_figures)};
    mbr_manager_read_mechanism(sim->world.manager, sim->world.mechanism, &mechanism, NULL);
    report->plugin_calls = mechanism.call_count;
    bool leases = books.leased_bytes != MBR_UNKNOWN_BYTES; /* its limit is what it has just now */
    report->limit_bytes = leases ? books.set_limit_bytes : books.limit_bytes;
    report->simulated_seconds = (double)sim->now_ns / 1e9;
    report->wall_seconds = (double)(replay_wall_ns() - wall_started_ns) / 1e9;
    report->interrupted = mbr_replay_interrupted != 0;
    for (uint32_t i = 0; i < sim->tenant_count; i++)
        write_tenant(sim, &sim->tenants[i]);
    compare_ways(sim);
}

static bool run(replay_sim *sim)
{
    mbr_replay_report *report = sim->report;
    uint64_t started = replay_wall_ns();
    bool good = init(sim) && replay_open_rest(sim) && replay_open_pages(sim) && serve(sim);
    good = end_all(sim) && good;
    good = replay_close_pages(sim) && good;
    good = replay_close_rest(sim) && good;
    if (good)
        write_figures(sim, started);
    for (uint32_t i = 0; i < sim->tenant_count; i++)
        replay_store_destroy(sim->tenants[i].store);
    replay_world_settle(&sim->world, report);
    for (uint32_t i = 0; i < sim->tenant_count; i++) {
        report->touched_count += atomic_load(&sim->tenants[i].touch.written_count);
        report->verified_count += atomic_load(&sim->tenants[i].touch.verified_count);
    }
    good = good && check_contents(sim);
    good = replay_forget_pages(sim) && good;
    good = replay_forget_rest(sim) && good;
    finish(sim);
    mbr_error error = {MBR_SIZED(mbr_error)};
    if (replay_world_close(&sim->world, &error) != MBR_OK && good)
        good = replay_fail(sim, "at the end: %s", error.text);
    return good;
}

static void begin_report(
    const replay_sim *sim, const mbr_replay_load *load, mbr_replay_tenant_report *report)
{
    const mbr_replay_options *options = sim->options;
    *report = (mbr_replay_tenant_report){
        .total = load->trace->request_count, .share_bytes = load->share_bytes};
    mbr_quantiles_init(&report->wait_ns, NULL, 0, options->seed);
    report->max_tokens = options->max_tokens != 0 ? options->max_tokens : longest(load->trace);
}

int mbr_replay_run(const mbr_replay_options *options, mbr_replay_way way,
    const mbr_replay_load *loads, uint32_t count, mbr_replay_report *report,
    char text[MBR_REPLAY_TEXT_BYTES])
{
    replay_sim sim = {
        .options = options, .way = way, .report = report, .tenant_count = count, .text = text};
    text[0] = '\0';
    *report = (mbr_replay_report){.tenant_count = count};
    mbr_quantiles_init(&report->growth_ns, NULL, 0, options->seed);
    for (uint32_t i = 0; i < count; i++) {
        const mbr_trace *trace = loads[i].trace;
        begin_report(&sim, &loads[i], &report->tenants[i]);
        if (!fits_in_time(options, trace, text))
            return MBR_EXIT_USAGE;
        sim.total_count += trace->request_count;
        sim.span_ns = mbr_max(sim.span_ns, arrival_ns(&sim, trace, trace->request_count - 1));
    }
    int code = replay_world_open(&sim.world, options, text);
    for (uint32_t i = 0; i < count && code == MBR_EXIT_OK; i++)
        code = open_tenant(&sim, i, &loads[i]);
    if (code != MBR_EXIT_OK)
        return code;
    report->granule_bytes = sim.world.mechanism_figures.granule_min_bytes;
    return run(&sim) ? MBR_EXIT_OK : MBR_EXIT_REFUSED;
}

void mbr_replay_report_finish(mbr_replay_report *report)
{
    mbr_quantiles_finish(&report->growth_ns);
    free(report->mapped.points);
    free(report->owned.points);
    for (uint32_t i = 0; i < report->tenant_count; i++) {
        mbr_replay_tenant_report *own = &report->tenants[i];
        mbr_quantiles_finish(&own->wait_ns);
        free(own->live.points);
        free(own->owned.points);
        free(own->stays);
    }
}
