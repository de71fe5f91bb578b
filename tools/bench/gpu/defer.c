/* P10 and P11: frees behind a stream that is busy, and how soon after its work they can be had
 * again. */
#include "tools/bench/gpu/device.h"

#include "tools/bench/gpu/kernels.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define FREES_A_ROUND 1024
#define FREES_AN_EPOCH 64
#define BLOCK_BYTES (UINT64_C(64) << 10)
#define PATIENCE_NS 1e9
#define SPINS_BEFORE_END 100 /* P11: the work ends while its caller spins, with the code warm */
/* Small, so that P11 is about one block and not about the many extents of a large one: giving 66
 * GiB again, a thousand extents, takes milliseconds. */
#define LIMIT_BYTES (UINT64_C(160) << 20)

typedef struct defer_state {
    mbr_bench_device device;
    mbr_kernels kernels;
    mbr_cuda_stream other; /* on which the spinning caller allocates */
    mbr_stream_handle other_attached;
    mbr_stream_handle asking; /* for whose use the spinning caller allocates; 0: the host's */
    mbr_allocation_handle blocks[FREES_A_ROUND];
    mbr_cuda_address addresses[FREES_A_ROUND];
    double samples_ns[FREES_A_ROUND];
    uint64_t slots, driver_calls; /* of the last turn's frees */
    uint64_t bytes;               /* of the block that is asked for again */
    bool was_early, was_blind;    /* some turn: had before the end; the end was not seen */
} defer_state;

/* ---- P10: what a free behind a busy stream costs its caller */
static bool take_blocks(defer_state *state)
{
    mbr_bench_world *world = &state->device.world;
    mbr_alloc_request request = {MBR_SIZED(mbr_alloc_request), .binding = world->binding,
        .holder = world->holder, .stream = state->device.attached, .bytes = BLOCK_BYTES};
    mbr_alloc_result result = {MBR_SIZED(mbr_alloc_result)};
    for (uint32_t i = 0; i < FREES_A_ROUND; i++) {
        if (mbr_alloc(world->manager, &request, &result, &world->error) != MBR_OK)
            return false;
        state->blocks[i] = result.allocation;
    }
    return true;
}

static bool free_blocks(defer_state *state)
{
    mbr_bench_world *world = &state->device.world;
    mbr_free_request request = {MBR_SIZED(mbr_free_request)};
    for (uint32_t i = 0; i < FREES_A_ROUND; i++) {
        request.allocation = state->blocks[i];
        double begin = mbr_bench_wall_ns();
        if (mbr_free(world->manager, &request, &world->error) != MBR_OK)
            return false;
        state->samples_ns[i] = mbr_bench_wall_ns() - begin;
    }
    return true;
}

static bool drain(mbr_bench_world *world)
{
    uint64_t deadline_ns = (uint64_t)mbr_bench_wall_ns() + (uint64_t)PATIENCE_NS;
    return mbr_ep_drain(world->manager, world->ep, deadline_ns, &world->error) == MBR_OK;
}

static bool let_go_and_drain(defer_state *state)
{
    mbr_bench_world *world = &state->device.world;
    mbr_kernels_let_go(&state->kernels);
    return drain(world);
}

static bool ours_once(void *context, double *median_ns, double *p99_ns)
{
    defer_state *state = context;
    if (!take_blocks(state) ||
        !mbr_kernels_hold(&state->device.hand, &state->kernels, state->device.stream))
        return false;
    uint64_t begin = mbr_bench_world_calls(&state->device.world);
    bool done = free_blocks(state);
    state->slots = mbr_bench_world_calls(&state->device.world) - begin;
    done = let_go_and_drain(state) && done;
    *median_ns = mbr_bench_rank(state->samples_ns, FREES_A_ROUND, 0.5);
    *p99_ns = mbr_bench_rank(state->samples_ns, FREES_A_ROUND, 0.99);
    return done;
}

static bool theirs_once(void *context, double *median_ns, double *p99_ns)
{
    defer_state *state = context;
    mbr_hand *hand = &state->device.hand;
    mbr_cuda_stream stream = state->device.stream;
    for (uint32_t i = 0; i < FREES_A_ROUND; i++)
        if (!mbr_hand_did(hand,
                hand->call.allocate_async(&state->addresses[i], BLOCK_BYTES, stream),
                "cuMemAllocAsync"))
            return false;
    if (!mbr_hand_did(hand, hand->call.stream_synchronize(stream), "cuStreamSynchronize") ||
        !mbr_kernels_hold(hand, &state->kernels, stream))
        return false;
    bool done = true;
    uint64_t calls = mbr_hand_calls();
    for (uint32_t i = 0; i < FREES_A_ROUND && done; i++) {
        double begin = mbr_bench_wall_ns();
        done = mbr_hand_did(
            hand, hand->call.free_async(state->addresses[i], stream), "cuMemFreeAsync");
        state->samples_ns[i] = mbr_bench_wall_ns() - begin;
    }
    state->driver_calls = mbr_hand_calls() - calls;
    mbr_kernels_let_go(&state->kernels);
    *median_ns = mbr_bench_rank(state->samples_ns, FREES_A_ROUND, 0.5);
    *p99_ns = mbr_bench_rank(state->samples_ns, FREES_A_ROUND, 0.99);
    return mbr_hand_did(hand, hand->call.stream_synchronize(stream), "cuStreamSynchronize") && done;
}

static mbr_ep_figures figures_of(defer_state *state)
{
    mbr_bench_world *world = &state->device.world;
    mbr_ep_figures figures = {MBR_SIZED(mbr_ep_figures)};
    mbr_ep_read(world->manager, world->ep, &figures, &world->error);
    return figures;
}

static bool measure_free(mbr_bench *bench, defer_state *state, mbr_bench_row *row)
{
    const mbr_bench_turn sides[] = {ours_once, theirs_once};
    mbr_ep_figures before = figures_of(state);
    if (!mbr_bench_turns(bench, sides, state, row))
        return false;
    uint64_t signals = figures_of(state).signal_count - before.signal_count;
    uint64_t rounds = bench->options->rounds + 1, frees = rounds * FREES_A_ROUND;
    row->value = row->ours.p99;
    row->ratio = row->theirs.p99 / row->ours.p99;
    row->ours.calls = state->slots;
    row->theirs.calls = state->driver_calls;
    snprintf(row->note, sizeof row->note,
        "%llu signals for %llu frees, and no slot that waits; p99 is the median of the rounds' own",
        (unsigned long long)signals, (unsigned long long)frees);
    if (signals > frees / FREES_AN_EPOCH + rounds ||
        state->slots > FREES_A_ROUND / FREES_AN_EPOCH + 1)
        return mbr_bench_fail(bench,
            "P10: %llu signals for %llu frees, and %llu slots called by the last %d: one for %d is "
            "the goal, and no other",
            (unsigned long long)signals, (unsigned long long)frees,
            (unsigned long long)state->slots, FREES_A_ROUND, FREES_AN_EPOCH);
    return true;
}

/* ---- P11: from the kernel's end, which another thread sees, to the first allocation. For the host
 * the memory must be free; for another stream it may be given before, behind a wait on the device:
 * then the time is 0. */

/* More than half of the budget, in one block: another such block waits for it. What earlier rounds
 * have left in the queue is gone first. */
static bool fill_budget(defer_state *state, mbr_allocation_handle *block, uint64_t *bytes)
{
    mbr_bench_world *world = &state->device.world;
    mbr_authority_figures figures = {MBR_SIZED(mbr_authority_figures)};
    if (!drain(world) || !mbr_bench_trim(world) ||
        mbr_manager_read_authority(world->manager, world->authority, &figures, &world->error) !=
            MBR_OK)
        return false;
    uint64_t taken = figures.granted_bytes + figures.charged_bytes;
    *bytes = (figures.limit_bytes - taken) / 8 * 5 / MBR_BENCH_MIB / 2 * 2 * MBR_BENCH_MIB;
    mbr_alloc_request request = {MBR_SIZED(mbr_alloc_request), .binding = world->binding,
        .holder = world->holder, .stream = state->device.attached, .bytes = *bytes};
    mbr_alloc_result result = {MBR_SIZED(mbr_alloc_result)};
    mbr_status status = mbr_alloc(world->manager, &request, &result, &world->error);
    *block = result.allocation;
    return status == MBR_OK;
}

/* ---- Who sees the kernel's end: a thread that does nothing else */
typedef struct watch {
    pthread_t thread;
    volatile uint32_t *seen;
    _Atomic bool is_watching;
    double seen_ns;
} watch;

static void *watch_word(void *context)
{
    watch *self = context;
    double begin = mbr_bench_wall_ns(), now;
    atomic_store(&self->is_watching, true);
    do
        now = mbr_bench_wall_ns();
    while (*self->seen == 0 && now - begin < PATIENCE_NS);
    self->seen_ns = now;
    return NULL;
}

static bool watch_begin(defer_state *state, watch *self)
{
    *self = (watch){.seen = state->kernels.seen};
    if (pthread_create(&self->thread, NULL, watch_word, self) != 0)
        return false;
    while (!atomic_load(&self->is_watching))
        continue;
    return true;
}

/* How long after the kernel's end `done_ns` was; 0: before it. */
static double watch_end(watch *self, defer_state *state, double done_ns)
{
    pthread_join(self->thread, NULL);
    state->was_blind = state->was_blind || *self->seen == 0;
    return done_ns > self->seen_ns ? done_ns - self->seen_ns : 0;
}

/* Spins until the block that waits for the device can be had, and ends the work meanwhile. */
static bool spin_for(defer_state *state, uint64_t bytes, double *done_ns)
{
    mbr_bench_world *world = &state->device.world;
    mbr_error error = {MBR_SIZED(mbr_error)};
    mbr_alloc_request request = {MBR_SIZED(mbr_alloc_request), .binding = world->binding,
        .holder = world->holder, .stream = state->asking, .bytes = bytes};
    mbr_alloc_result result = {MBR_SIZED(mbr_alloc_result)};
    double begin = mbr_bench_wall_ns();
    uint32_t spins = 0;
    mbr_status status;
    do {
        if (spins++ == SPINS_BEFORE_END)
            mbr_kernels_let_go(&state->kernels);
        status = mbr_alloc(world->manager, &request, &result, &error);
    } while (status == MBR_OVER_BUDGET && mbr_bench_wall_ns() - begin < PATIENCE_NS);
    *done_ns = mbr_bench_wall_ns();
    state->was_early = state->was_early || *state->kernels.seen == 0;
    if (status != MBR_OK) {
        world->error = error;
        return false;
    }
    mbr_free_request back = {
        MBR_SIZED(mbr_free_request), .flags = MBR_FREE_NOW, .allocation = result.allocation};
    return mbr_free(world->manager, &back, &world->error) == MBR_OK;
}

static bool reuse_once(void *context, double *median_ns, double *p99_ns)
{
    defer_state *state = context;
    mbr_bench_world *world = &state->device.world;
    mbr_hand *hand = &state->device.hand;
    mbr_allocation_handle block;
    watch watched;
    double done_ns = 0;
    *state->kernels.seen = 0;
    if (!fill_budget(state, &block, &state->bytes) ||
        !mbr_kernels_hold(hand, &state->kernels, state->device.stream) ||
        !mbr_kernels_tell(hand, &state->kernels, state->device.stream, 1) ||
        !watch_begin(state, &watched))
        return false;
    mbr_free_request request = {MBR_SIZED(mbr_free_request), .allocation = block};
    bool done = mbr_free(world->manager, &request, &world->error) == MBR_OK &&
        spin_for(state, state->bytes, &done_ns);
    mbr_kernels_let_go(&state->kernels);
    *median_ns = *p99_ns = watch_end(&watched, state, done_ns);
    return done;
}

/* What the driver's own event takes to say so to a caller who spins on it. */
static bool query_once(void *context, double *median_ns, double *p99_ns)
{
    defer_state *state = context;
    mbr_hand *hand = &state->device.hand;
    mbr_cuda_event event;
    watch watched;
    *state->kernels.seen = 0;
    if (!mbr_hand_did(hand, hand->call.event_create(&event, MBR_CUDA_EVENT_DISABLE_TIMING),
            "cuEventCreate") ||
        !mbr_kernels_hold(hand, &state->kernels, state->device.stream) ||
        !mbr_kernels_tell(hand, &state->kernels, state->device.stream, 1) ||
        !mbr_hand_did(
            hand, hand->call.event_record(event, state->device.stream), "cuEventRecord") ||
        !watch_begin(state, &watched))
        return false;
    uint32_t spins = 0;
    mbr_cuda_result result;
    do {
        if (spins++ == SPINS_BEFORE_END)
            mbr_kernels_let_go(&state->kernels);
        result = hand->call.event_query(event);
    } while (result == MBR_CUDA_NOT_READY);
    mbr_kernels_let_go(&state->kernels); /* whatever the answer was */
    *median_ns = *p99_ns = watch_end(&watched, state, mbr_bench_wall_ns());
    return mbr_hand_did(hand, result, "cuEventQuery") &&
        mbr_hand_did(hand, hand->call.event_destroy(event), "cuEventDestroy");
}

static bool measure_reuse(
    mbr_bench *bench, defer_state *state, mbr_stream_handle asking, mbr_bench_row *row)
{
    const mbr_bench_turn sides[] = {reuse_once, query_once};
    state->asking = asking;
    state->was_early = state->was_blind = false;
    if (!mbr_bench_turns(bench, sides, state, row))
        return false;
    if (state->was_blind)
        return mbr_bench_fail(
            bench, "%s: the kernel's end was not seen in a second", row->plan->id);
    if (state->was_early && asking.value == 0)
        return mbr_bench_fail(
            bench, "%s: memory was given to the host before the kernel's end", row->plan->id);
    row->ours.median /= 1e3;
    row->ours.p99 /= 1e3;
    row->theirs.median /= 1e3;
    row->theirs.p99 /= 1e3;
    row->value = row->ours.median;
    row->ratio = row->ours.median > 0 ? row->theirs.median / row->ours.median : 0;
    snprintf(row->note, sizeof row->note, "a block of %llu MiB; %s",
        (unsigned long long)(state->bytes / MBR_BENCH_MIB),
        state->was_early ? "some had before the kernel's end, behind a device's wait"
                         : "the end is what another thread sees in pinned memory");
    return true;
}

/* ---- Both */
static bool open_state(defer_state *state)
{
    mbr_hand *hand = &state->device.hand;
    mbr_bench_world *world = &state->device.world;
    if (!mbr_kernels_open(hand, &state->kernels) || !mbr_hand_keep_pool(hand) ||
        !mbr_hand_did(hand, hand->call.stream_create(&state->other, MBR_CUDA_STREAM_NON_BLOCKING),
            "cuStreamCreate"))
        return false;
    mbr_native native = mbr_bench_native(&state->device, state->other);
    return mbr_ep_attach_stream(
               world->manager, world->ep, native, &state->other_attached, &world->error) == MBR_OK;
}

static bool close_state(defer_state *state)
{
    mbr_hand *hand = &state->device.hand;
    mbr_bench_world *world = &state->device.world;
    bool done = true;
    if (state->other_attached.value != 0)
        done = mbr_ep_detach_stream(world->manager, state->other_attached, &world->error) == MBR_OK;
    if (state->other != NULL)
        done =
            mbr_hand_did(hand, hand->call.stream_destroy(state->other), "cuStreamDestroy") && done;
    done = mbr_kernels_close(hand, &state->kernels) && done; /* whatever spins is let go */
    return mbr_hand_empty_pool(hand) && done;
}

static bool run(mbr_bench *bench, mbr_bench_row *rows)
{
    defer_state *state = calloc(1, sizeof *state);
    if (state == NULL)
        return mbr_bench_fail(bench, "no memory for the samples");
    const mbr_bench_world_options options = {.limit_bytes = LIMIT_BYTES, .keep_bytes = UINT64_MAX};
    bool done = mbr_bench_device_open_as(bench, &options, &state->device);
    if (done) {
        done = open_state(state) && measure_free(bench, state, &rows[0]) &&
            measure_reuse(bench, state, (mbr_stream_handle){0}, &rows[1]) &&
            measure_reuse(bench, state, state->other_attached, &rows[2]);
        done = close_state(state) && done;
        done = mbr_bench_device_close(bench, &state->device, done);
    }
    free(state);
    return done;
}

static const mbr_bench_plan plans[] = {
    {"P10", "free behind a busy stream: the caller's p99", "ns", "ns",
        "cuMemFreeAsync on the same stream", false, 1000, 10000},
    {"P11a", "from a kernel's end to the host's first allocation", "us", "us",
        "an event of the driver, asked in a loop", false, 5, 20},
    {"P11b", "to the first allocation for another stream", "us", "us",
        "an event of the driver, asked in a loop", false, 5, 20},
};

const mbr_bench_group mbr_bench_device_defer = {plans, 3, run};
