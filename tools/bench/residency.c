/* R: holders of memory that is not all there, or not for long.
 *
 *   R1   an item of weights in a cyclic scan, half of which has room: the stable subset that is the
 *        default against the least recently used, which such a scan never finds there
 *   R2   a take of a workspace in its steady state, eight a step, against what it cannot do
 * without: a mutex that nobody else holds, and an addition */
#include "tools/bench/rounds.h"
#include "tools/bench/world.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ITEM_COUNT 16
#define ROOM_COUNT 8 /* items of the budget */
#define ITEM_BYTES (UINT64_C(4) << 20)
#define TAKE_COUNT UINT64_C(8) /* a step */
#define TAKE_BYTES (UINT64_C(64) << 10)
#define LIMIT_BYTES (UINT64_C(1) << 30)

typedef struct residency_state {
    mbr_bench_world *world;
    mbr_native native;
    mbr_stream_handle stream;
    char *source;
    mbr_weights *weights[2]; /* stable, least recently used */
    mbr_workspace *workspace;
    pthread_mutex_t mutex;
    uint64_t used; /* by hand */
} residency_state;

typedef struct residency_side {
    residency_state *state;
    mbr_weights *weights;
    uint32_t next;
} residency_side;

/* ---- Sides */
static bool scan(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    residency_side *side = context;
    residency_state *state = side->state;
    mbr_error *error = &state->world->error;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t address;
        if (mbr_weights_use(side->weights, side->next, state->stream, &address, NULL, error) !=
                MBR_OK ||
            mbr_ep_synchronize(state->world->manager, state->stream, UINT64_MAX, error) != MBR_OK)
            return false;
        mbr_weights_done(side->weights, side->next, state->stream);
        side->next = (side->next + 1) % ITEM_COUNT;
    }
    return true;
}

static bool take_steps(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    residency_state *state = context;
    mbr_status failed = MBR_OK;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t address;
        failed |= mbr_workspace_take(state->workspace, MBR_WORKSPACE_STEP, TAKE_BYTES, 0, &address,
            NULL, &state->world->error);
        if (i % TAKE_COUNT == TAKE_COUNT - 1)
            mbr_workspace_end(state->workspace, MBR_WORKSPACE_STEP);
    }
    return failed == MBR_OK;
}

static bool add_under_mutex(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    residency_state *state = context;
    for (uint64_t i = 0; i < count; i++) {
        pthread_mutex_lock(&state->mutex);
        state->used += TAKE_BYTES;
        if (i % TAKE_COUNT == TAKE_COUNT - 1)
            state->used = 0;
        pthread_mutex_unlock(&state->mutex);
    }
    return true;
}

/* ---- What they stand on */
static mbr_status make_weights(residency_state *state)
{
    mbr_weight items[ITEM_COUNT];
    for (uint32_t i = 0; i < ITEM_COUNT; i++)
        items[i] = (mbr_weight){(uint64_t)(uintptr_t)(state->source + i * ITEM_BYTES), ITEM_BYTES};
    mbr_weights_request request = {MBR_SIZED(mbr_weights_request), .item_count = ITEM_COUNT,
        .items = items, .binding = state->world->binding, .holder = state->world->holder,
        .budget_bytes = ROOM_COUNT * ITEM_BYTES};
    mbr_manager *manager = state->world->manager;
    mbr_status status =
        mbr_weights_create(manager, &request, &state->weights[0], &state->world->error);
    request.policy = mbr_weights_policy_lru();
    request.passing_bytes = MBR_WEIGHTS_NO_PASSING;
    if (status == MBR_OK)
        status = mbr_weights_create(manager, &request, &state->weights[1], &state->world->error);
    return status;
}

static mbr_status make(residency_state *state)
{
    const mbr_bench_world *world = state->world;
    mbr_error *error = &state->world->error;
    mbr_status status = mbr_cpu_stream_create(world->cpu, &state->native, error);
    if (status == MBR_OK)
        status =
            mbr_ep_attach_stream(world->manager, world->ep, state->native, &state->stream, error);
    if (status == MBR_OK)
        status = make_weights(state);
    mbr_workspace_request request = {MBR_SIZED(mbr_workspace_request), .binding = world->binding,
        .holder = world->holder, .stream = state->stream,
        .most_bytes = {TAKE_COUNT * (TAKE_BYTES + 256)}};
    if (status == MBR_OK)
        status = mbr_workspace_create(world->manager, &request, &state->workspace, error);
    return status;
}

static void end(residency_state *state)
{
    const mbr_bench_world *world = state->world;
    for (int i = 0; i < 2; i++) {
        if (state->weights[i] != NULL)
            mbr_weights_destroy(state->weights[i], NULL);
    }
    if (state->workspace != NULL)
        mbr_workspace_destroy(state->workspace, NULL);
    if (state->stream.value != 0)
        mbr_ep_detach_stream(world->manager, state->stream, NULL);
    if (state->native.value != 0)
        mbr_cpu_stream_destroy(world->cpu, state->native, NULL);
    free(state->source);
}

/* ---- The rows */
static bool measure(mbr_bench *bench, residency_state *state, mbr_bench_row *rows)
{
    residency_side stable = {state, state->weights[0], 0}, lru = {state, state->weights[1], 0};
    mbr_contestant scans[] = {
        {.context = &stable, .work = scan, .step_count = ITEM_COUNT, .by_wall = true},
        {.context = &lru, .work = scan, .step_count = ITEM_COUNT, .by_wall = true},
    };
    mbr_contestant takes[] = {
        {.context = state, .work = take_steps, .step_count = TAKE_COUNT},
        {.context = state, .work = add_under_mutex, .step_count = TAKE_COUNT},
    };
    if (!mbr_bench_rounds(bench, scans, 2, bench->options->rounds) ||
        !mbr_bench_rounds(bench, takes, 2, bench->options->rounds))
        return false;
    mbr_bench_take_ratio(&rows[0], &scans[0], &scans[1], 1e3);
    mbr_bench_take_time(&rows[1], &takes[0], &takes[1]);
    mbr_weights_figures ours = {MBR_SIZED(mbr_weights_figures)}, theirs = ours;
    mbr_weights_read(stable.weights, &ours);
    mbr_weights_read(lru.weights, &theirs);
    snprintf(rows[0].note, sizeof rows[0].note,
        "%llu hits and %llu page-ins; least recently used: %llu hits and %llu page-ins",
        (unsigned long long)ours.hit_count, (unsigned long long)ours.page_in_count,
        (unsigned long long)theirs.hit_count, (unsigned long long)theirs.page_in_count);
    return true;
}

static bool run(mbr_bench *bench, mbr_bench_row *rows)
{
    mbr_bench_world world;
    mbr_bench_world_options options = {.limit_bytes = LIMIT_BYTES, .keep_bytes = UINT64_MAX};
    if (!mbr_bench_world_open(bench, &options, &world))
        return false;
    residency_state state = {.world = &world,
        .source = malloc(ITEM_COUNT * ITEM_BYTES),
        .mutex = PTHREAD_MUTEX_INITIALIZER};
    bool done = state.source != NULL || mbr_bench_fail(bench, "no memory for the weights");
    if (done) /* its pages are there */
        memset(state.source, 1, ITEM_COUNT * ITEM_BYTES);
    done = done && make(&state) == MBR_OK && measure(bench, &state, rows);
    if (!done)
        mbr_bench_fail_world(bench, "a holder", &world);
    end(&state);
    return mbr_bench_world_close(bench, &world) && done;
}

static const mbr_bench_plan plans[] = {
    {"R1", "an item of 16 in a cyclic scan with room for 8: a stable subset is kept", "x", "us",
        "the least recently used go", true, 1.5, 1.2},
    {"R2", "a take of 64 KiB of a workspace, 8 a step", "ns", "ns",
        "an uncontended mutex pair and an addition", false, 30, 60},
};

const mbr_bench_group mbr_bench_residency = {plans, 2, run};
