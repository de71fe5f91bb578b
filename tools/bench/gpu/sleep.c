/* P18: weights fall asleep into an arena of pinned memory that is there, and wake again; against
 * the way in which vLLM's allocator does it: block by block pinned memory, a copy that is waited
 * for, unmap, release; and create, map, access, a copy back. Its first sleep makes the pinned
 * memory (P18a), where our arena is warm: made before, in a round that does not count. From its
 * second sleep on PyTorch keeps that memory, so that both sides are warm (P18c). */
#include "tools/bench/gpu/device.h"

#include "tools/bench/gpu/kernels.h"

#include <stdio.h>
#include <stdlib.h>

#define BLOCK_COUNT 8
#define TAG 1
#define PATIENCE_NS UINT64_C(20000000000)
/* Before a wake, on both sides: what fell asleep last would otherwise be cleared beside its copies.
 */
#define CLEARED_MS 20
#define QUICK_DIVISOR 8 /* leaves granules of 2 MiB whole */

/* Two layers of Llama-3-8B: what PyTorch asks a pluggable allocator for. */
static const uint64_t layer_mib[] = {48, 32, 224, 112};

/* By hand: one of its allocations. */
typedef struct sleep_block {
    uint64_t bytes;
    mbr_cuda_address address;
    mbr_cuda_handle handle;
    void *kept; /* while it sleeps, or for good */
} sleep_block;

typedef struct sleep_state {
    mbr_bench_device *device;
    mbr_kernels kernels;
    mbr_mechanism_handle pinned;
    mbr_authority_handle authority;
    mbr_holder_handle holder;
    mbr_binding_handle arena;
    mbr_sleeper *sleeper;
    uint64_t bytes;
    mbr_range_handle ranges[BLOCK_COUNT];
    sleep_block first[BLOCK_COUNT],
        later[BLOCK_COUNT]; /* pins at each sleep; keeps what it pinned */
} sleep_state;

static uint64_t block_bytes(const mbr_bench *bench, uint32_t i)
{
    uint64_t bytes = layer_mib[i % 4] * MBR_BENCH_MIB;
    return bench->options->quick ? bytes / QUICK_DIVISOR : bytes;
}

/* ---- Ours */
static bool open_arena(sleep_state *state)
{
    mbr_bench_world *world = &state->device->world;
    mbr_error *error = &world->error;
    mbr_mechanism_open_request open = {
        MBR_SIZED(mbr_mechanism_open_request), .plugin = world->plugin, .mechanism = "pinned0"};
    mbr_authority_request authority = {MBR_SIZED(mbr_authority_request), .tier = MBR_TIER_HOST,
        .name = "arena", .limit_bytes = 2 * state->bytes};
    if (mbr_manager_open_mechanism(world->manager, &open, &state->pinned, error) != MBR_OK ||
        mbr_manager_create_authority(world->manager, &authority, &state->authority, error) !=
            MBR_OK)
        return false;
    mbr_holder_request holder = {MBR_SIZED(mbr_holder_request), .role = MBR_ROLE_STAGING,
        .authority = state->authority, .name = "arena", .allowance_bytes = MBR_NO_ALLOWANCE};
    mbr_bind_request bind = {MBR_SIZED(mbr_bind_request), .mechanism = state->pinned,
        .ep = world->ep, .authority = state->authority, .cache_keep_bytes = UINT64_MAX};
    if (mbr_manager_create_holder(world->manager, &holder, &state->holder, error) != MBR_OK ||
        mbr_manager_bind(world->manager, &bind, &state->arena, error) != MBR_OK)
        return false;
    mbr_sleeper_request request = {MBR_SIZED(mbr_sleeper_request), .arena = state->arena,
        .holder = state->holder, .keep_bytes = UINT64_MAX};
    return mbr_sleeper_create(world->manager, &request, &state->sleeper, error) == MBR_OK;
}

static uint64_t deadline(void)
{
    return (uint64_t)mbr_bench_wall_ns() + PATIENCE_NS;
}

static bool close_arena(sleep_state *state)
{
    mbr_bench_world *world = &state->device->world;
    mbr_error *error = &world->error;
    bool done =
        state->sleeper == NULL || mbr_sleeper_destroy(state->sleeper, deadline(), error) == MBR_OK;
    done = mbr_ep_drain(world->manager, world->ep, deadline(), error) == MBR_OK && done;
    if (done && state->arena.value != 0)
        done = mbr_manager_unbind(world->manager, state->arena, error) == MBR_OK;
    if (done && state->holder.value != 0)
        done = mbr_manager_destroy_holder(world->manager, state->holder, error) == MBR_OK;
    if (done && state->authority.value != 0)
        done = mbr_manager_destroy_authority(world->manager, state->authority, error) == MBR_OK;
    if (done && state->pinned.value != 0)
        done = mbr_manager_close_mechanism(world->manager, state->pinned, error) == MBR_OK;
    return done;
}

static bool take_ranges(mbr_bench *bench, sleep_state *state)
{
    mbr_bench_world *world = &state->device->world;
    for (uint32_t i = 0; i < BLOCK_COUNT; i++) {
        uint64_t bytes = block_bytes(bench, i);
        mbr_range_figures figures = {MBR_SIZED(mbr_range_figures)};
        if (!mbr_bench_reserve(world, bytes, bytes, &state->ranges[i]) ||
            !mbr_bench_grow(world, state->ranges[i], 0, bytes) ||
            mbr_range_read(world->manager, state->ranges[i], 0, &figures, &world->error) !=
                MBR_OK ||
            mbr_sleeper_add(state->sleeper, state->ranges[i], world->holder, TAG, &world->error) !=
                MBR_OK ||
            !mbr_kernels_write(&state->device->hand, &state->kernels, figures.address, bytes, i,
                state->device->stream))
            return false;
    }
    return true;
}

/* Every word that slept is looked at. */
static bool check_ranges(mbr_bench *bench, sleep_state *state)
{
    mbr_bench_world *world = &state->device->world;
    mbr_hand *hand = &state->device->hand;
    *state->kernels.seen = 0;
    for (uint32_t i = 0; i < BLOCK_COUNT; i++) {
        mbr_range_figures figures = {MBR_SIZED(mbr_range_figures)};
        if (mbr_range_read(world->manager, state->ranges[i], 0, &figures, &world->error) !=
                MBR_OK ||
            !mbr_kernels_check(hand, &state->kernels, figures.address, block_bytes(bench, i), i,
                state->device->stream))
            return false;
    }
    if (!mbr_hand_did(
            hand, hand->call.stream_synchronize(state->device->stream), "cuStreamSynchronize"))
        return false;
    return *state->kernels.seen == 0 ||
        mbr_bench_fail(bench, "P18: %u words woke with other contents", *state->kernels.seen);
}

static bool end_ranges(sleep_state *state)
{
    mbr_bench_world *world = &state->device->world;
    bool done = true;
    for (uint32_t i = 0; i < BLOCK_COUNT; i++)
        if (state->ranges[i].value != 0)
            done = mbr_sleeper_remove(state->sleeper, state->ranges[i], &world->error) == MBR_OK &&
                mbr_bench_release(world, &state->ranges[i]) && done;
    return done;
}

static bool fall_asleep(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    (void)count;
    sleep_state *state = context;
    mbr_sleep_request request = {MBR_SIZED(mbr_sleep_request), .level = MBR_SLEEP_KEEP, .tag = TAG,
        .stream = state->device->attached, .deadline_ns = deadline()};
    mbr_sleep_result result = {MBR_SIZED(mbr_sleep_result)};
    return mbr_sleeper_sleep(state->sleeper, &request, &result, &state->device->world.error) ==
        MBR_OK;
}

static bool wake_up(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    (void)count;
    sleep_state *state = context;
    mbr_wake_request request = {MBR_SIZED(mbr_wake_request), .tag = TAG,
        .stream = state->device->attached, .deadline_ns = deadline()};
    mbr_wake_result result = {MBR_SIZED(mbr_wake_result)};
    return mbr_sleeper_wake(state->sleeper, &request, &result, &state->device->world.error) ==
        MBR_OK;
}

/* ---- Theirs */
typedef struct sleep_hand {
    sleep_state *state;
    sleep_block *blocks;
    bool keeps;
} sleep_hand;

static bool make_block(mbr_hand *hand, sleep_block *block)
{
    return mbr_hand_commit(
        hand, block->address, block->bytes, block->bytes, MBR_HAND_AT_ONCE, &block->handle);
}

static bool hand_block_over(mbr_hand *hand, sleep_block *block)
{
    return (block->kept != NULL ||
               mbr_hand_did(hand, hand->call.host_allocate(&block->kept, block->bytes, 0),
                   "cuMemHostAlloc")) &&
        mbr_hand_did(hand, hand->call.copy_to_host(block->kept, block->address, block->bytes),
            "cuMemcpyDtoH") &&
        mbr_hand_decommit(
            hand, block->address, block->bytes, block->bytes, MBR_HAND_AT_ONCE, &block->handle);
}

static bool sleep_by_hand(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    (void)count;
    sleep_hand *side = context;
    for (uint32_t i = 0; i < BLOCK_COUNT; i++)
        if (!hand_block_over(&side->state->device->hand, &side->blocks[i]))
            return false;
    return true;
}

static bool wake_by_hand(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    (void)count;
    sleep_hand *side = context;
    mbr_hand *hand = &side->state->device->hand;
    for (uint32_t i = 0; i < BLOCK_COUNT; i++) {
        sleep_block *block = &side->blocks[i];
        if (!make_block(hand, block) ||
            !mbr_hand_did(hand,
                hand->call.copy_to_device(block->address, block->kept, block->bytes),
                "cuMemcpyHtoD"))
            return false;
    }
    return true;
}

static bool drop_kept(sleep_hand *side)
{
    mbr_hand *hand = &side->state->device->hand;
    bool done = true;
    for (uint32_t i = 0; i < BLOCK_COUNT; i++) {
        if (side->blocks[i].kept != NULL)
            done =
                mbr_hand_did(hand, hand->call.host_free(side->blocks[i].kept), "cuMemFreeHost") &&
                done;
        side->blocks[i].kept = NULL;
    }
    return done;
}

static bool take_blocks(mbr_bench *bench, sleep_hand *side)
{
    mbr_hand *hand = &side->state->device->hand;
    for (uint32_t i = 0; i < BLOCK_COUNT; i++) {
        side->blocks[i].bytes = block_bytes(bench, i);
        if (!mbr_hand_reserve(hand, side->blocks[i].bytes, &side->blocks[i].address) ||
            !make_block(hand, &side->blocks[i]))
            return false;
    }
    return true;
}

static bool end_blocks(sleep_hand *side)
{
    mbr_hand *hand = &side->state->device->hand;
    bool done = drop_kept(side);
    for (uint32_t i = 0; i < BLOCK_COUNT; i++) {
        sleep_block *block = &side->blocks[i];
        if (block->handle != 0)
            done = mbr_hand_decommit(hand, block->address, block->bytes, block->bytes,
                       MBR_HAND_AT_ONCE, &block->handle) &&
                done;
        if (block->address != 0)
            done = mbr_hand_unreserve(hand, block->address, block->bytes) && done;
    }
    return done;
}

/* ---- Turns: what is not timed puts everything back */
static bool wake_after(void *context)
{
    return wake_up(context, 0, 1);
}

static bool sleep_before(void *context)
{
    return fall_asleep(context, 0, 1) && mbr_bench_device_rest(CLEARED_MS);
}

static bool wake_after_by_hand(void *context)
{
    sleep_hand *side = context;
    return wake_by_hand(side, 0, 1) && (side->keeps || drop_kept(side));
}

static bool sleep_before_by_hand(void *context)
{
    return sleep_by_hand(context, 0, 1) && mbr_bench_device_rest(CLEARED_MS);
}

static bool take(
    sleep_state *state, mbr_contestant *ours, mbr_contestant *theirs, mbr_bench_row *row)
{
    mbr_bench_take_ratio(row, ours, theirs, 1e6);
    snprintf(row->note, sizeof row->note,
        "%llu MiB in %d blocks, %.1f GB/s; contents checked; calls: ours without copies, "
        "theirs with them",
        (unsigned long long)(state->bytes / MBR_BENCH_MIB), BLOCK_COUNT,
        (double)state->bytes / ours->median_ns);
    return mbr_bench_device_count(state->device, ours, MBR_COUNT_OURS, 0, &row->ours) &&
        mbr_bench_device_count(state->device, theirs, MBR_COUNT_BY_HAND, 0, &row->theirs);
}

static bool measure(
    mbr_bench *bench, sleep_state *state, sleep_hand *first, sleep_hand *later, mbr_bench_row *rows)
{
    mbr_contestant asleep[] = {
        {.context = state, .work = fall_asleep, .after = wake_after},
        {.context = first, .work = sleep_by_hand, .after = wake_after_by_hand},
        {.context = later, .work = sleep_by_hand, .after = wake_after_by_hand},
    };
    mbr_contestant awake[] = {
        {.context = state, .work = wake_up, .before = sleep_before},
        {.context = later, .work = wake_by_hand, .before = sleep_before_by_hand},
    };
    for (uint32_t i = 0; i < 5; i++) {
        mbr_contestant *one = i < 3 ? &asleep[i] : &awake[i - 3];
        one->fixed_count = 1;
        one->by_wall = true;
    }
    if (!mbr_bench_rounds(bench, asleep, 3, bench->options->rounds) ||
        !take(state, &asleep[0], &asleep[1], &rows[0]) ||
        !take(state, &asleep[0], &asleep[2], &rows[2]) ||
        !mbr_bench_rounds(bench, awake, 2, bench->options->rounds) ||
        !take(state, &awake[0], &awake[1], &rows[1]))
        return false;
    return check_ranges(bench, state);
}

static bool run_on(mbr_bench *bench, sleep_state *state, mbr_bench_row *rows)
{
    sleep_hand first = {state, state->first, false}, later = {state, state->later, true};
    for (uint32_t i = 0; i < BLOCK_COUNT; i++)
        state->bytes += block_bytes(bench, i);
    bool done = mbr_kernels_open(&state->device->hand, &state->kernels) && open_arena(state) &&
        take_ranges(bench, state) && take_blocks(bench, &first) && take_blocks(bench, &later) &&
        measure(bench, state, &first, &later, rows);
    done = end_blocks(&first) && done;
    done = end_blocks(&later) && done;
    done = end_ranges(state) && done;
    done = close_arena(state) && done;
    return mbr_kernels_close(&state->device->hand, &state->kernels) && done;
}

static bool run(mbr_bench *bench, mbr_bench_row *rows)
{
    mbr_bench_device device;
    sleep_state *state = calloc(1, sizeof *state);
    if (state == NULL)
        return mbr_bench_fail(bench, "no memory for the blocks");
    bool done = mbr_bench_device_open(bench, UINT64_MAX, &device);
    if (done) {
        state->device = &device;
        done = run_on(bench, state, rows);
        done = mbr_bench_device_close(bench, &device, done);
    }
    free(state);
    return done;
}

static const mbr_bench_plan plans[] = {
    {"P18a", "sleep of weights, contents kept, the arena warm", "x", "ms",
        "as vLLM's allocator, block by block, its first sleep, which pins", true, 5, 3},
    {"P18b", "wake of them", "x", "ms", "as vLLM's allocator, block by block", true, 1.5, 1.1},
    {"P18c", "the same sleep as P18a", "x", "ms",
        "as vLLM's allocator, from its second sleep on, its pinned memory kept", true, 1, 0.9},
};

const mbr_bench_group mbr_bench_device_sleep = {plans, 3, run};
