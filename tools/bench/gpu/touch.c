/* P17: what kernels get of our memory, against plain memory of the driver: reads and writes of
 * 4 GiB, and the replay of a graph of both (8 GiB of traffic). A pause after every bulk release:
 * the driver clears freed memory behind everybody's back. */
#include "tools/bench/gpu/device.h"

#include "tools/bench/gpu/kernels.h"

#include <stdio.h>

#define BUFFER_BYTES (UINT64_C(4) << 30)
#define EXTENT_BYTES (UINT64_C(64) << 20)
#define GRAPH_NODES 8

typedef struct touch_state {
    mbr_bench_device *device;
    mbr_kernels *kernels;
    mbr_cuda_address address;
    uint64_t bytes;
    mbr_cuda_graph_exec replayed;
} touch_state;

static bool finish_stream(touch_state *state)
{
    mbr_hand *hand = &state->device->hand;
    return mbr_hand_did(
        hand, hand->call.stream_synchronize(state->device->stream), "cuStreamSynchronize");
}

static bool read_buffer(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    touch_state *state = context;
    for (uint64_t i = 0; i < count; i++)
        if (!mbr_kernels_read(&state->device->hand, state->kernels, state->address, state->bytes,
                state->device->stream))
            return false;
    return finish_stream(state);
}

static bool write_buffer(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    touch_state *state = context;
    for (uint64_t i = 0; i < count; i++)
        if (!mbr_kernels_write(&state->device->hand, state->kernels, state->address, state->bytes,
                0, state->device->stream))
            return false;
    return finish_stream(state);
}

static bool replay_graph(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    touch_state *state = context;
    mbr_hand *hand = &state->device->hand;
    for (uint64_t i = 0; i < count; i++)
        if (!mbr_hand_did(hand, hand->call.graph_launch(state->replayed, state->device->stream),
                "cuGraphLaunch"))
            return false;
    return finish_stream(state);
}

/* Writes and reads of parts of the buffer. */
static bool touch_parts(void *context)
{
    touch_state *state = context;
    mbr_hand *hand = &state->device->hand;
    mbr_cuda_stream stream = state->device->stream;
    uint64_t part = state->bytes / GRAPH_NODES;
    for (uint32_t i = 0; i < GRAPH_NODES; i++)
        if (!mbr_kernels_write(hand, state->kernels, state->address + i * part, part, 0, stream) ||
            !mbr_kernels_read(hand, state->kernels, state->address + i * part, part, stream))
            return false;
    return true;
}

static bool capture(touch_state *state)
{
    mbr_bench_device *device = state->device;
    return mbr_hand_capture(&device->hand, device->stream, touch_parts, state, &state->replayed);
}

static bool measure(mbr_bench *bench, touch_state *ours, touch_state *theirs, mbr_bench_row *rows)
{
    static bool (*const works[])(void *context, uint32_t thread, uint64_t count) = {
        read_buffer, write_buffer, replay_graph};
    if (!capture(ours) || !capture(theirs) || !mbr_bench_device_rest(MBR_BENCH_REST_MS))
        return false;
    for (uint32_t i = 0; i < 3; i++) {
        mbr_contestant sides[] = {
            {.context = ours,
                .work = works[i],
                .fixed_count = bench->options->quick ? 1 : 4,
                .by_wall = true,
                .rival = &sides[1]},
            {.context = theirs,
                .work = works[i],
                .fixed_count = bench->options->quick ? 1 : 4,
                .by_wall = true},
        };
        if (!mbr_bench_rounds(bench, sides, 2, bench->options->rounds) ||
            !mbr_bench_device_count(ours->device, &sides[0], MBR_COUNT_BY_HAND, 0, &rows[i].ours) ||
            !mbr_bench_device_count(ours->device, &sides[1], MBR_COUNT_BY_HAND, 0, &rows[i].theirs))
            return false;
        mbr_bench_take_round_ratio(&rows[i], &sides[0], &sides[1], 1e3);
        double bytes = (double)ours->bytes * (works[i] == replay_graph ? 2 : 1);
        snprintf(rows[i].note, sizeof rows[i].note,
            "median of the rounds' ratios; %.2f TB/s; both sides launch the same",
            bytes / sides[0].median_ns / 1e3);
    }
    return true;
}

static bool measure_on(
    mbr_bench *bench, mbr_bench_device *device, mbr_kernels *kernels, mbr_bench_row *rows)
{
    mbr_hand *hand = &device->hand;
    mbr_bench_world *world = &device->world;
    uint64_t bytes = mbr_bench_device_bytes(bench, BUFFER_BYTES);
    mbr_range_handle range = {0};
    mbr_range_figures figures = {MBR_SIZED(mbr_range_figures)};
    touch_state ours = {.device = device, .kernels = kernels, .bytes = bytes};
    touch_state theirs = ours;
    bool done =
        mbr_bench_reserve(world, bytes, mbr_bench_device_bytes(bench, EXTENT_BYTES), &range) &&
        mbr_bench_grow(world, range, 0, bytes) &&
        mbr_range_read(world->manager, range, 0, &figures, &world->error) == MBR_OK &&
        mbr_hand_did(hand, hand->call.device_allocate(&theirs.address, bytes), "cuMemAlloc");
    ours.address = figures.address;
    done = done && measure(bench, &ours, &theirs, rows);
    touch_state *both[] = {&ours, &theirs};
    for (uint32_t i = 0; i < 2; i++)
        if (both[i]->replayed != NULL)
            done = mbr_hand_did(hand, hand->call.graph_exec_destroy(both[i]->replayed),
                       "cuGraphExecDestroy") &&
                done;
    if (theirs.address != 0)
        done = mbr_hand_did(hand, hand->call.device_free(theirs.address), "cuMemFree") && done;
    return mbr_bench_release(world, &range) && done;
}

static bool run(mbr_bench *bench, mbr_bench_row *rows)
{
    mbr_bench_device device;
    mbr_kernels kernels;
    if (!mbr_bench_device_open(bench, UINT64_MAX, &device))
        return false;
    bool done = mbr_kernels_open(&device.hand, &kernels);
    done = done && measure_on(bench, &device, &kernels, rows);
    done = mbr_kernels_close(&device.hand, &kernels) && done;
    return mbr_bench_device_close(bench, &device, done);
}

static const mbr_bench_plan plans[] = {
    {"P17a", "a kernel reads 4 GiB of ours", "x", "us", "the same of cuMemAlloc", true, 0.99, 0.97},
    {"P17b", "a kernel writes 4 GiB of ours", "x", "us", "the same of cuMemAlloc", true, 0.99,
        0.97},
    {"P17c", "replay of a graph over 4 GiB of ours", "x", "us", "the same of cuMemAlloc", true,
        0.99, 0.97},
};

const mbr_bench_group mbr_bench_device_touch = {plans, 3, run};
