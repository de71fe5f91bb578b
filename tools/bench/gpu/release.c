/* P14: 1 GiB given back in 16 scattered runs of 64 MiB, to the driver and into the pool, against
 * an unmap and a release for each granule. */
#include "tools/bench/gpu/device.h"

#include <stdlib.h>

#define RUN_COUNT 16
#define HANDLE_LIMIT_COUNT 512

/* Every second run of the range is what goes, so that no two of them meet. */
typedef struct release_state {
    mbr_bench_device *device;
    uint64_t run_bytes, extent_bytes;
    bool to_driver;
    mbr_range_handle range;
    mbr_cuda_address address;
    mbr_cuda_handle handles[2 * HANDLE_LIMIT_COUNT];
} release_state;

static bool commit(void *context)
{
    release_state *state = context;
    mbr_bench_world *world = &state->device->world;
    uint64_t bytes = 2 * RUN_COUNT * state->run_bytes;
    return mbr_bench_reserve(world, bytes, state->extent_bytes, &state->range) &&
        mbr_bench_grow(world, state->range, 0, bytes);
}

static bool decommit_runs(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    (void)count;
    release_state *state = context;
    mbr_bench_world *world = &state->device->world;
    for (uint32_t i = 0; i < RUN_COUNT; i++)
        if (!mbr_bench_decommit(world, state->range, 2 * i * state->run_bytes, state->run_bytes))
            return false;
    return !state->to_driver || mbr_bench_trim(world);
}

static bool release_rest(void *context)
{
    release_state *state = context;
    return mbr_bench_release(&state->device->world, &state->range) &&
        mbr_bench_trim(&state->device->world);
}

static bool commit_by_hand(void *context)
{
    release_state *state = context;
    return mbr_hand_commit(&state->device->hand, state->address, 2 * RUN_COUNT * state->run_bytes,
        state->extent_bytes, MBR_HAND_AT_ONCE, state->handles);
}

static bool decommit_by_hand(release_state *state, uint32_t first)
{
    uint64_t run_handles = state->run_bytes / state->extent_bytes;
    for (uint32_t i = first; i < 2 * RUN_COUNT; i += 2)
        if (!mbr_hand_decommit(&state->device->hand, state->address + i * state->run_bytes,
                state->run_bytes, state->extent_bytes, MBR_HAND_EACH,
                &state->handles[i * run_handles]))
            return false;
    return true;
}

static bool decommit_runs_by_hand(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    (void)count;
    return decommit_by_hand(context, 0);
}

static bool release_rest_by_hand(void *context)
{
    return decommit_by_hand(context, 1);
}

static bool measure(mbr_bench *bench, release_state *states, mbr_bench_row *rows)
{
    mbr_contestant sides[3];
    for (uint32_t i = 0; i < 2; i++)
        sides[i] = (mbr_contestant){.context = &states[i],
            .work = decommit_runs,
            .before = commit,
            .after = release_rest,
            .fixed_count = 1,
            .by_wall = true};
    sides[2] = (mbr_contestant){.context = &states[2],
        .work = decommit_runs_by_hand,
        .before = commit_by_hand,
        .after = release_rest_by_hand,
        .fixed_count = 1,
        .by_wall = true};
    if (!mbr_hand_reserve(
            &states[2].device->hand, 2 * RUN_COUNT * states[2].run_bytes, &states[2].address) ||
        !mbr_bench_rounds(bench, sides, 3, bench->options->rounds))
        return false;
    mbr_bench_device *device = states[0].device;
    for (uint32_t i = 0; i < 2; i++) {
        mbr_bench_take_ratio(&rows[i], &sides[i], &sides[2], 1e3);
        if (!mbr_bench_device_count(device, &sides[i], MBR_COUNT_OURS, 0, &rows[i].ours) ||
            !mbr_bench_device_count(device, &sides[2], MBR_COUNT_BY_HAND, 0, &rows[i].theirs))
            return false;
    }
    return true;
}

static bool run_in(mbr_bench *bench, mbr_bench_device *device, mbr_bench_row *rows)
{
    uint64_t run_bytes = mbr_bench_device_bytes(bench, MBR_BENCH_GIB) / RUN_COUNT;
    uint64_t granule = device->hand.granule_bytes;
    if (run_bytes < granule)
        run_bytes = granule;
    if (RUN_COUNT * run_bytes / granule > HANDLE_LIMIT_COUNT)
        return mbr_bench_fail(bench, "a granule of %llu bytes makes more than %d handles of a GiB",
            (unsigned long long)granule, HANDLE_LIMIT_COUNT);
    release_state *states = calloc(3, sizeof *states);
    if (states == NULL)
        return mbr_bench_fail(bench, "no memory for the contestants");
    for (uint32_t i = 0; i < 3; i++) {
        states[i].device = device;
        states[i].run_bytes = run_bytes;
        states[i].extent_bytes = i == 2 ? granule : run_bytes;
        states[i].to_driver = i == 0;
    }
    bool done = measure(bench, states, rows);
    for (uint32_t i = 0; i < 2; i++)
        done = mbr_bench_release(&device->world, &states[i].range) && done;
    if (states[2].address != 0)
        done = mbr_hand_unreserve(
                   &device->hand, states[2].address, 2 * RUN_COUNT * states[2].run_bytes) &&
            done;
    free(states);
    return done;
}

static bool run(mbr_bench *bench, mbr_bench_row *rows)
{
    mbr_bench_device device;
    if (!mbr_bench_device_open(bench, UINT64_MAX, &device))
        return false;
    return mbr_bench_device_close(bench, &device, run_in(bench, &device, rows));
}

static const mbr_bench_plan plans[] = {
    {"P14a", "release 1 GiB in 16 scattered runs, to the driver", "x", "us",
        "unmap and release, granule by granule", true, 15, 8},
    {"P14b", "the same into the pool", "x", "us", "unmap and release, granule by granule", true, 35,
        20},
};

const mbr_bench_group mbr_bench_device_release = {plans, 2, run};
