/* P5 and P6: a buffer of 8 GiB that grows by 64 MiB, against a new buffer, a copy and a free. */
#include "tools/bench/gpu/device.h"

#include <stdio.h>

#define BUFFER_BYTES (UINT64_C(8) << 30)
#define STEP_BYTES (UINT64_C(64) << 20)

typedef struct grow_state {
    mbr_bench_device *device;
    uint64_t buffer_bytes, step_bytes;
    mbr_range_handle range;
    mbr_cuda_address old;
    uint64_t free_bytes;    /* of the device, before the old buffer was there */
    uint64_t *lowest_bytes; /* where a counted copy says what was free while both were there */
} grow_state;

/* ---- Ours */
static bool grow_step(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    (void)count;
    grow_state *state = context;
    return mbr_bench_grow(
        &state->device->world, state->range, state->buffer_bytes, state->step_bytes);
}

static bool take_step_back(grow_state *state)
{
    return mbr_bench_decommit(
        &state->device->world, state->range, state->buffer_bytes, state->step_bytes);
}

/* Decommitting unmaps into the pool. */
static bool leave_step_pooled(void *context)
{
    grow_state *state = context;
    return grow_step(state, 0, 1) && take_step_back(state);
}

static bool after_pooled(void *context)
{
    return take_step_back(context);
}

/* A range that is released parks all of itself: the next one adopts the buffer, and then has the
 * step ahead of it, still mapped. */
static bool leave_step_parked(void *context)
{
    grow_state *state = context;
    mbr_bench_world *world = &state->device->world;
    return grow_step(state, 0, 1) && mbr_bench_release(world, &state->range) &&
        mbr_bench_reserve(
            world, state->buffer_bytes + state->step_bytes, state->step_bytes, &state->range) &&
        mbr_bench_grow(world, state->range, 0, state->buffer_bytes);
}

/* ---- Theirs */
static bool copy_grow(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    (void)count;
    grow_state *state = context;
    mbr_hand *hand = &state->device->hand;
    mbr_cuda_address grown;
    bool done = mbr_hand_did(hand,
                    hand->call.device_allocate(&grown, state->buffer_bytes + state->step_bytes),
                    "cuMemAlloc") &&
        mbr_hand_did(hand,
            hand->call.copy_on_device_async(
                grown, state->old, state->buffer_bytes, state->device->stream),
            "cuMemcpyDtoDAsync") &&
        mbr_hand_did(
            hand, hand->call.stream_synchronize(state->device->stream), "cuStreamSynchronize");
    if (done && state->lowest_bytes != NULL)
        done = mbr_hand_free_bytes(hand, state->lowest_bytes);
    /* What is freed is the copy, as large as the old buffer, which is used again. */
    return done && mbr_hand_did(hand, hand->call.device_free(grown), "cuMemFree");
}

static bool prepare(mbr_bench *bench, grow_state *state)
{
    mbr_bench_world *world = &state->device->world;
    mbr_hand *hand = &state->device->hand;
    state->buffer_bytes = mbr_bench_device_bytes(bench, BUFFER_BYTES);
    state->step_bytes = mbr_bench_device_bytes(bench, STEP_BYTES);
    return mbr_bench_reserve(
               world, state->buffer_bytes + state->step_bytes, state->step_bytes, &state->range) &&
        mbr_bench_grow(world, state->range, 0, state->buffer_bytes) &&
        mbr_hand_free_bytes(hand, &state->free_bytes) &&
        mbr_hand_did(
            hand, hand->call.device_allocate(&state->old, state->buffer_bytes), "cuMemAlloc");
}

static bool count_copy(grow_state *state, const mbr_contestant *one, mbr_bench_side *side)
{
    uint64_t lowest_bytes = 0;
    state->lowest_bytes = &lowest_bytes;
    bool done = mbr_bench_device_count(state->device, one, MBR_COUNT_BY_HAND, 0, side);
    state->lowest_bytes = NULL;
    side->owned_bytes = state->free_bytes - lowest_bytes;
    return done;
}

static void take_peak(mbr_bench_row *row, const mbr_bench_row *growth)
{
    row->ours = growth->ours;
    row->theirs = growth->theirs;
    row->ours.median = row->ours.p99 = (double)row->ours.owned_bytes / MBR_BENCH_MIB;
    row->theirs.median = row->theirs.p99 = (double)row->theirs.owned_bytes / MBR_BENCH_MIB;
    row->ratio = row->theirs.median / row->ours.median;
    row->value = row->ours.median / row->theirs.median;
    row->has_baseline = true;
    snprintf(row->note, sizeof row->note,
        "ours as the mechanism reports it after the step, theirs as the driver while both are "
        "there");
}

static bool measure(mbr_bench *bench, grow_state *state, mbr_bench_row *rows)
{
    mbr_contestant sides[] = {
        {.context = state,
            .work = grow_step,
            .before = leave_step_pooled,
            .after = after_pooled,
            .fixed_count = 1,
            .by_wall = true},
        {.context = state,
            .work = grow_step,
            .before = leave_step_parked,
            .after = after_pooled,
            .fixed_count = 1,
            .by_wall = true},
        {.context = state, .work = copy_grow, .fixed_count = 1, .by_wall = true},
    };
    if (!mbr_bench_rounds(bench, sides, 3, bench->options->rounds))
        return false;
    for (uint32_t i = 0; i < 2; i++) {
        mbr_bench_take_ratio(&rows[i], &sides[i], &sides[2], 1e3);
        if (!mbr_bench_device_count(state->device, &sides[i], MBR_COUNT_OURS, 0, &rows[i].ours) ||
            !count_copy(state, &sides[2], &rows[i].theirs))
            return false;
    }
    take_peak(&rows[2], &rows[0]);
    return true;
}

static bool run(mbr_bench *bench, mbr_bench_row *rows)
{
    mbr_bench_device device;
    if (!mbr_bench_device_open(bench, UINT64_MAX, &device))
        return false;
    grow_state state = {.device = &device};
    bool done = prepare(bench, &state) && measure(bench, &state, rows);
    if (state.old != 0)
        done = mbr_hand_did(&device.hand, device.hand.call.device_free(state.old), "cuMemFree") &&
            done;
    done = mbr_bench_release(&device.world, &state.range) && done;
    return mbr_bench_device_close(bench, &device, done);
}

static const mbr_bench_plan plans[] = {
    {"P5a", "grow a buffer of 8 GiB by 64 MiB, from the pool", "x", "us", "allocate + copy + free",
        true, 200, 60},
    {"P5b", "the same, parked", "x", "us", "allocate + copy + free", true, 3000, 500},
    {"P6", "owned bytes at the peak of that growth", "x", "MiB", "allocate + copy + free", false,
        0.52, 0.55},
};

const mbr_bench_group mbr_bench_device_grow = {plans, 3, run};
