/* D: frees that wait for a stream, through the client's calls on the CPU EP. The stream stands
 * still while they are measured, as behind work of many milliseconds; nobody reaps beside the
 * caller. */
#include "tools/bench/rounds.h"
#include "tools/bench/world.h"

#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>

#define FREES_A_ROUND 4096
#define EPOCH_COUNT 64 /* frees behind one signal */
#define BLOCK_BYTES 4096
#define LIMIT_BYTES (UINT64_C(1) << 30)
#define SHALLOW_COUNT 100
#define DEEP_COUNT 100000
#define QUICK_DEEP_COUNT 1000
#define DRAIN_NS 60e9

typedef struct defer_state {
    mbr_bench_world world;
    mbr_native natives[2];
    mbr_stream_handle streams[2]; /* that stands still, and that works */
    sem_t gate;
    bool now; /* the baseline: freed at once */
    double apart_ns;
    uint64_t queued_count; /* behind the one that stands still, while depth is measured */
    mbr_allocation_handle blocks[FREES_A_ROUND];
    double samples_ns[FREES_A_ROUND];
} defer_state;

/* ---- The streams */
static void pass(void *gate)
{
    sem_wait(gate);
}

static bool stall(defer_state *state)
{
    mbr_bench_world *world = &state->world;
    return mbr_cpu_host_function(
               world->cpu, state->natives[0], pass, &state->gate, &world->error) == MBR_OK;
}

static bool let_go(defer_state *state)
{
    mbr_bench_world *world = &state->world;
    sem_post(&state->gate);
    uint64_t deadline_ns = (uint64_t)(mbr_bench_wall_ns() + DRAIN_NS);
    return mbr_ep_drain(world->manager, world->ep, deadline_ns, &world->error) == MBR_OK;
}

static bool before(void *context)
{
    return stall(context);
}

static bool after(void *context)
{
    return let_go(context);
}

/* ---- One allocation, one free */
static bool take(defer_state *state, uint32_t stream, mbr_allocation_handle *block)
{
    mbr_alloc_request request = {MBR_SIZED(mbr_alloc_request), .binding = state->world.binding,
        .holder = state->world.holder, .bytes = BLOCK_BYTES};
    if (stream < 2)
        request.stream = state->streams[stream];
    mbr_alloc_result result = {MBR_SIZED(mbr_alloc_result)};
    mbr_status status = mbr_alloc(state->world.manager, &request, &result, &state->world.error);
    *block = result.allocation;
    return status == MBR_OK;
}

static bool give(defer_state *state, uint32_t stream, mbr_allocation_handle block)
{
    mbr_free_request request = {MBR_SIZED(mbr_free_request), .allocation = block};
    if (state->now) {
        request.flags = MBR_FREE_NOW;
    } else {
        request.streams = &state->streams[stream];
        request.stream_count = 1;
    }
    return mbr_free(state->world.manager, &request, &state->world.error) == MBR_OK;
}

#define BY_THE_HOST 2 /* no stream: nothing that waits is taken again */

static bool take_all(defer_state *state)
{
    bool done = true;
    for (uint32_t i = 0; i < FREES_A_ROUND && done; i++)
        done = take(state, BY_THE_HOST, &state->blocks[i]);
    return done;
}

/* ---- D1: frees alone; that they are settled, and blocks taken, is apart */
static bool frees(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    defer_state *state = context;
    bool done = true;
    for (uint64_t i = 0; i < count && done; i += FREES_A_ROUND) {
        double begin = mbr_bench_own_ns();
        done = take_all(state) && stall(state);
        state->apart_ns += mbr_bench_own_ns() - begin;
        for (uint32_t k = 0; k < FREES_A_ROUND && done; k++)
            done = give(state, 0, state->blocks[k]);
        begin = mbr_bench_own_ns();
        done = let_go(state) && done;
        state->apart_ns += mbr_bench_own_ns() - begin;
    }
    return done;
}

/* ---- D2: what is freed is used again on its stream, whose work is not done */
static bool pairs(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    defer_state *state = context;
    bool done = true;
    for (uint64_t i = 0; i < count && done; i++) {
        mbr_allocation_handle block;
        done = take(state, 0, &block) && give(state, 0, block);
    }
    return done;
}

/* ---- D3: each free by itself */
static bool frees_once(defer_state *state, double *median_ns, double *p99_ns)
{
    bool done = take_all(state) && stall(state);
    for (uint32_t i = 0; i < FREES_A_ROUND && done; i++) {
        double begin = mbr_bench_wall_ns();
        done = give(state, 0, state->blocks[i]);
        state->samples_ns[i] = mbr_bench_wall_ns() - begin;
    }
    done = let_go(state) && done;
    *median_ns = mbr_bench_rank(state->samples_ns, FREES_A_ROUND, 0.5);
    *p99_ns = mbr_bench_rank(state->samples_ns, FREES_A_ROUND, 0.99);
    return done;
}

static bool frees_behind(void *context, double *median_ns, double *p99_ns)
{
    ((defer_state *)context)->now = false;
    return frees_once(context, median_ns, p99_ns);
}

static bool frees_now(void *context, double *median_ns, double *p99_ns)
{
    ((defer_state *)context)->now = true;
    return frees_once(context, median_ns, p99_ns);
}

static bool measure_single(mbr_bench *bench, defer_state *state, mbr_bench_row *row)
{
    const mbr_bench_turn sides[] = {frees_behind, frees_now};
    if (!mbr_bench_turns(bench, sides, state, row))
        return false;
    row->value = row->ours.p99;
    row->ratio = row->theirs.p99 / row->ours.p99;
    return true;
}

/* ---- D4: epochs of frees behind the stream that works, with others queued behind the one that
 * does not; a poll settles what is done */
static bool epochs(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    defer_state *state = context;
    bool done = true;
    for (uint64_t i = 0; i < count && done; i += EPOCH_COUNT) {
        for (uint32_t k = 0; k < EPOCH_COUNT && done; k++)
            done = take(state, BY_THE_HOST, &state->blocks[k]);
        for (uint32_t k = 0; k < EPOCH_COUNT && done; k++)
            done = give(state, 1, state->blocks[k]);
        mbr_manager_poll(state->world.manager);
    }
    return done;
}

static bool settle_in(defer_state *state)
{
    bool done = stall(state);
    for (uint64_t i = 0; i < state->queued_count && done; i++) {
        mbr_allocation_handle block;
        done = take(state, BY_THE_HOST, &block) && give(state, 0, block);
    }
    return done;
}

/* ---- Opening and closing */
static bool open_streams(mbr_bench *bench, defer_state *state)
{
    mbr_bench_world *world = &state->world;
    sem_init(&state->gate, 0, 0);
    mbr_status status = MBR_OK;
    for (uint32_t i = 0; i < 2 && status == MBR_OK; i++) {
        status = mbr_cpu_stream_create(world->cpu, &state->natives[i], &world->error);
        if (status == MBR_OK)
            status = mbr_ep_attach_stream(
                world->manager, world->ep, state->natives[i], &state->streams[i], &world->error);
    }
    return status == MBR_OK || mbr_bench_fail_world(bench, "opening the streams", world);
}

static bool open_state(mbr_bench *bench, defer_state **state)
{
    *state = calloc(1, sizeof **state);
    if (*state == NULL)
        return mbr_bench_fail(bench, "no memory for the row's state");
    mbr_bench_world_options options = {.limit_bytes = LIMIT_BYTES,
        .keep_bytes = LIMIT_BYTES,
        .populate = true,
        .queue_entries = 2 * DEEP_COUNT};
    return mbr_bench_world_open(bench, &options, &(*state)->world) && open_streams(bench, *state);
}

static bool close_state(mbr_bench *bench, defer_state *state)
{
    if (state == NULL || bench->text[0] != '\0')
        return false; /* what failed is told; the process ends */
    mbr_bench_world *world = &state->world;
    for (uint32_t i = 0; i < 2; i++) {
        mbr_ep_detach_stream(world->manager, state->streams[i], &world->error);
        mbr_cpu_stream_destroy(world->cpu, state->natives[i], &world->error);
    }
    bool closed = mbr_bench_world_close(bench, world);
    sem_destroy(&state->gate);
    free(state);
    return closed;
}

/* ---- Rows */
static void note_figures(defer_state *state, const mbr_ep_figures *then, mbr_bench_row *row)
{
    mbr_bench_world *world = &state->world;
    mbr_ep_figures now = {MBR_SIZED(mbr_ep_figures)};
    mbr_ep_read(world->manager, world->ep, &now, &world->error);
    uint64_t signals = now.signal_count - then->signal_count;
    uint64_t again = now.reactivated_count - then->reactivated_count;
    uint64_t frees = now.released_count - then->released_count + again;
    snprintf(row->note, sizeof row->note, "%llu frees, %llu signals, %llu taken again",
        (unsigned long long)frees, (unsigned long long)signals, (unsigned long long)again);
}

static bool measure_waiting(
    mbr_bench *bench, defer_state *ours, defer_state *theirs, mbr_bench_row *rows)
{
    mbr_contestant sides[] = {
        {.context = ours, .work = frees, .step_count = FREES_A_ROUND, .apart_ns = &ours->apart_ns},
        {.context = theirs,
            .work = frees,
            .step_count = FREES_A_ROUND,
            .apart_ns = &theirs->apart_ns},
        {.context = ours, .work = pairs, .before = before, .after = after},
        {.context = theirs, .work = pairs, .before = before, .after = after},
    };
    theirs->now = true;
    for (uint32_t row = 0; row < 2; row++) {
        mbr_ep_figures then = {MBR_SIZED(mbr_ep_figures)};
        mbr_ep_read(ours->world.manager, ours->world.ep, &then, &ours->world.error);
        if (!mbr_bench_rounds(bench, &sides[2 * row], 2, bench->options->rounds))
            return mbr_bench_fail_world(bench, "frees that wait", &ours->world);
        mbr_bench_take_time(&rows[row], &sides[2 * row], &sides[2 * row + 1]);
        note_figures(ours, &then, &rows[row]);
    }
    return measure_single(bench, ours, &rows[2]) ||
        mbr_bench_fail_world(bench, "frees behind a busy stream", &ours->world);
}

static bool measure_depth(
    mbr_bench *bench, defer_state *deep, defer_state *shallow, mbr_bench_row *row)
{
    deep->now = shallow->now = false;
    deep->queued_count = bench->options->quick ? QUICK_DEEP_COUNT : DEEP_COUNT;
    shallow->queued_count = SHALLOW_COUNT;
    mbr_contestant sides[] = {
        {.context = deep, .work = epochs, .step_count = EPOCH_COUNT},
        {.context = shallow, .work = epochs, .step_count = EPOCH_COUNT},
    };
    bool done = settle_in(deep) && settle_in(shallow) &&
        mbr_bench_rounds(bench, sides, 2, bench->options->rounds);
    mbr_bench_take_time(row, &sides[0], &sides[1]);
    row->value = sides[0].median_ns / sides[1].median_ns;
    done = let_go(deep) && let_go(shallow) && done;
    return done || mbr_bench_fail_world(bench, "frees beside those that wait", &deep->world);
}

static bool run(mbr_bench *bench, mbr_bench_row *rows)
{
    defer_state *ours = NULL, *theirs = NULL;
    bool done = open_state(bench, &ours) && open_state(bench, &theirs) &&
        measure_waiting(bench, ours, theirs, rows) && measure_depth(bench, ours, theirs, &rows[3]);
    bool closed = close_state(bench, ours);
    return close_state(bench, theirs) && closed && done;
}

static const mbr_bench_plan plans[] = {
    {"D1", "a free of 4 KiB that waits for a stream, 64 an epoch", "ns", "ns", "the same at once",
        false, 100, 200},
    {"D2", "allocate + such a free, used again on its stream", "ns", "ns",
        "the same pair with a free at once", false, 200, 400},
    {"D3", "the caller's p99 of a free behind a stream that is busy for long", "ns p99", "ns",
        "the same at once", false, 1000, 10000},
    {"D4", "allocate + free behind a stream, with 10^5 others queued", "x", "ns",
        "the same with 10^2 queued", false, 1.2, 1.5},
};

const mbr_bench_group mbr_bench_defer = {plans, 4, run};
