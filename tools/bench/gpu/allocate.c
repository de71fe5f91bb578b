/* P8 and P9: allocate and free of mixed sizes, against the driver's own pool, which keeps all that
 * is freed. Ours is freed at once (the caller proves that nothing uses it), and, in rows of their
 * own, behind the stream, as the driver's is. */
#include "tools/bench/gpu/device.h"

#include <stdatomic.h>
#include <stdio.h>

#define THREADS 16
#define SIZE_COUNT 64      /* a turn of the sequence below */
#define SMALLEST_BYTES 512 /* to 64 MiB: 2^0 to 2^17 times this */
#define PATIENCE_NS UINT64_C(10000000000)
#define CLASS_COUNT 18
#define QUICK_CLASS_COUNT 10 /* up to 256 KiB, on any device */
/* Operations of each of several threads a round: many beside the time in which they all begin. The
 * driver's, and those that meet at a queue, take so long that few of them are. */
#define CROWD_COUNT 4096
#define QUEUE_CROWD_COUNT 1024
#define DRIVER_CROWD_COUNT 512

typedef struct allocate_state {
    mbr_bench_device *device;
    bool behind_stream;
    _Atomic bool *has_failed; /* some thread, which then left world.error */
    uint64_t bytes[SIZE_COUNT];
    mbr_cuda_stream streams[THREADS];
    mbr_stream_handle attached[THREADS];
} allocate_state;

/* Every class about as often, in an order without a pattern: x -> 5 x + 3 visits all of 2^6. */
static void choose_sizes(allocate_state *state, uint32_t class_count)
{
    uint32_t place = 0;
    for (uint32_t i = 0; i < SIZE_COUNT; i++) {
        place = (5 * place + 3) % SIZE_COUNT;
        state->bytes[i] = (uint64_t)SMALLEST_BYTES << (place % class_count);
    }
}

static bool pairs(void *context, uint32_t thread, uint64_t count)
{
    allocate_state *state = context;
    mbr_bench_world *world = &state->device->world;
    mbr_error error = {MBR_SIZED(mbr_error)};
    mbr_alloc_request request = {MBR_SIZED(mbr_alloc_request), .binding = world->binding,
        .holder = world->holder, .stream = state->attached[thread]};
    mbr_alloc_result result = {MBR_SIZED(mbr_alloc_result)};
    mbr_free_request back = {
        MBR_SIZED(mbr_free_request), .flags = state->behind_stream ? 0 : MBR_FREE_NOW};
    for (uint64_t i = 0; i < count; i++) {
        request.bytes = state->bytes[i % SIZE_COUNT];
        mbr_status status = mbr_alloc(world->manager, &request, &result, &error);
        if (status == MBR_OK) {
            back.allocation = result.allocation;
            status = mbr_free(world->manager, &back, &error);
        }
        if (status != MBR_OK) {
            if (!atomic_exchange(state->has_failed, true))
                world->error = error;
            return false;
        }
    }
    return true;
}

static bool driver_pairs(void *context, uint32_t thread, uint64_t count)
{
    allocate_state *state = context;
    mbr_hand *hand = &state->device->hand;
    mbr_cuda_stream stream = state->streams[thread];
    if (hand->call.context_set(hand->context) != MBR_CUDA_SUCCESS)
        return false;
    for (uint64_t i = 0; i < count; i++) {
        mbr_cuda_address address;
        if (!mbr_hand_did(hand,
                hand->call.allocate_async(&address, state->bytes[i % SIZE_COUNT], stream),
                "cuMemAllocAsync") ||
            !mbr_hand_did(hand, hand->call.free_async(address, stream), "cuMemFreeAsync"))
            return false;
    }
    return true;
}

static bool settle_driver(void *context)
{
    allocate_state *state = context;
    mbr_hand *hand = &state->device->hand;
    return mbr_hand_did(hand, hand->call.context_synchronize(), "cuCtxSynchronize");
}

/* What was freed behind the stream and given again would wait for it in the other rows, too. */
static bool drain(void *context)
{
    allocate_state *state = context;
    mbr_bench_world *world = &state->device->world;
    uint64_t deadline_ns = (uint64_t)mbr_bench_wall_ns() + PATIENCE_NS;
    return mbr_ep_drain(world->manager, world->ep, deadline_ns, &world->error) == MBR_OK;
}

static bool attach_streams(allocate_state *state)
{
    mbr_hand *hand = &state->device->hand;
    mbr_bench_world *world = &state->device->world;
    for (uint32_t i = 0; i < THREADS; i++) {
        if (!mbr_hand_did(hand,
                hand->call.stream_create(&state->streams[i], MBR_CUDA_STREAM_NON_BLOCKING),
                "cuStreamCreate"))
            return false;
        mbr_native native = mbr_bench_native(state->device, state->streams[i]);
        if (mbr_ep_attach_stream(
                world->manager, world->ep, native, &state->attached[i], &world->error) != MBR_OK)
            return false;
    }
    return true;
}

static bool detach_streams(allocate_state *state)
{
    mbr_hand *hand = &state->device->hand;
    mbr_bench_world *world = &state->device->world;
    bool done = true;
    for (uint32_t i = 0; i < THREADS; i++) {
        if (state->attached[i].value != 0)
            done =
                mbr_ep_detach_stream(world->manager, state->attached[i], &world->error) == MBR_OK &&
                done;
        if (state->streams[i] != NULL)
            done = mbr_hand_did(
                       hand, hand->call.stream_destroy(state->streams[i]), "cuStreamDestroy") &&
                done;
    }
    return done;
}

static bool measure(mbr_bench *bench, allocate_state *now, allocate_state *later, uint32_t threads,
    mbr_bench_row *rows)
{
    bool is_crowd = threads > 1 && !bench->options->quick;
    mbr_contestant sides[] = {
        {.context = now,
            .work = pairs,
            .thread_count = threads,
            .step_count = SIZE_COUNT,
            .fixed_count = is_crowd ? CROWD_COUNT : 0,
            .by_wall = true},
        {.context = later,
            .work = pairs,
            .after = drain,
            .thread_count = threads,
            .step_count = SIZE_COUNT,
            .fixed_count = is_crowd ? QUEUE_CROWD_COUNT : 0,
            .by_wall = true},
        {.context = now,
            .work = driver_pairs,
            .after = settle_driver,
            .thread_count = threads,
            .step_count = SIZE_COUNT,
            .fixed_count = is_crowd ? DRIVER_CROWD_COUNT : 0,
            .by_wall = true},
    };
    if (!mbr_bench_rounds(bench, sides, 3, bench->options->rounds))
        return false;
    mbr_bench_device *device = now->device;
    for (uint32_t i = 0; i < 2; i++) {
        mbr_bench_take_ratio(&rows[i], &sides[i], &sides[2], 1);
        snprintf(rows[i].note, sizeof rows[i].note,
            "calls of %d pairs on one thread; %llu of %llu rounds disturbed; no reaper beside them",
            SIZE_COUNT, (unsigned long long)sides[i].disturbed_count,
            (unsigned long long)bench->options->rounds);
        if (!mbr_bench_device_count(device, &sides[i], MBR_COUNT_OURS, SIZE_COUNT, &rows[i].ours) ||
            !mbr_bench_device_count(
                device, &sides[2], MBR_COUNT_BY_HAND, SIZE_COUNT, &rows[i].theirs))
            return false;
    }
    return true;
}

static bool run(mbr_bench *bench, mbr_bench_row *rows, uint32_t threads)
{
    mbr_bench_device device;
    if (!mbr_bench_device_open(bench, UINT64_MAX, &device))
        return false;
    _Atomic bool has_failed = false;
    allocate_state now = {.device = &device, .has_failed = &has_failed};
    choose_sizes(&now, bench->options->quick ? QUICK_CLASS_COUNT : CLASS_COUNT);
    bool done = mbr_hand_keep_pool(&device.hand) && attach_streams(&now);
    allocate_state later = now;
    later.behind_stream = true;
    done = done && measure(bench, &now, &later, threads, rows);
    done = mbr_hand_did(&device.hand, device.hand.call.context_synchronize(), "cuCtxSynchronize") &&
        detach_streams(&now) && mbr_hand_empty_pool(&device.hand) && done;
    return mbr_bench_device_close(bench, &device, done);
}

static bool run_alone(mbr_bench *bench, mbr_bench_row *rows)
{
    return run(bench, rows, 1);
}

static bool run_crowd(mbr_bench *bench, mbr_bench_row *rows)
{
    return run(bench, rows, THREADS);
}

static const mbr_bench_plan alone_plans[] = {
    {"P8a", "allocate + free, 512 B to 64 MiB mixed, freed at once, 1 thread", "x", "ns",
        "cuMemAllocAsync + cuMemFreeAsync, warm pool", true, 10, 4},
    {"P8b", "the same, freed behind the stream", "x", "ns",
        "cuMemAllocAsync + cuMemFreeAsync, warm pool", true, 10, 4},
};
static const mbr_bench_plan crowd_plans[] = {
    {"P9a", "allocate + free, 512 B to 64 MiB mixed, freed at once, 16 threads", "x", "ns",
        "cuMemAllocAsync + cuMemFreeAsync, warm pool", true, 15, 5},
    {"P9b", "the same, freed behind each thread's stream", "x", "ns",
        "cuMemAllocAsync + cuMemFreeAsync, warm pool", true, 15, 5},
};

const mbr_bench_group mbr_bench_device_allocate = {alone_plans, 2, run_alone};
const mbr_bench_group mbr_bench_device_crowd = {crowd_plans, 2, run_crowd};
