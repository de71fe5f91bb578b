/* P12 and P13: a prefix of 1 GiB and its sharers, against copies of it. */
#include "tools/bench/gpu/device.h"

#define SHARERS 64
#define SMALL_BYTES (UINT64_C(64) << 20)
#define LARGE_BYTES (UINT64_C(256) << 20)

typedef struct share_state {
    mbr_bench_device *device;
    uint64_t bytes, extent_bytes;
    mbr_range_handle owner;
    mbr_prefix_handle prefix;
    mbr_range_handle sharer; /* the one that attaches in a round */
    mbr_range_handle sharers[SHARERS];
} share_state;

static bool write_prefix(share_state *state)
{
    mbr_bench_world *world = &state->device->world;
    if (!mbr_bench_reserve(world, state->bytes, state->extent_bytes, &state->owner) ||
        !mbr_bench_grow(world, state->owner, 0, state->bytes))
        return false;
    mbr_piece piece = {state->owner, 0, state->bytes};
    mbr_prefix_request request = {
        MBR_SIZED(mbr_prefix_request), .piece_count = 1, .holder = world->holder, .pieces = &piece};
    mbr_prefix_result result = {MBR_SIZED(mbr_prefix_result)};
    bool done = mbr_prefix_create(world->manager, &request, &result, &world->error) == MBR_OK;
    state->prefix = result.prefix;
    return done;
}

static bool end_prefix(share_state *state)
{
    mbr_bench_world *world = &state->device->world;
    bool done = mbr_bench_release(world, &state->sharer);
    for (uint32_t i = 0; i < SHARERS; i++)
        done = mbr_bench_release(world, &state->sharers[i]) && done;
    if (state->prefix.value != 0)
        done = mbr_prefix_release(world->manager, state->prefix, &world->error) == MBR_OK && done;
    return mbr_bench_release(world, &state->owner) && done;
}

static bool attach_to(share_state *state, mbr_range_handle target)
{
    mbr_bench_world *world = &state->device->world;
    mbr_prefix_attach_request request = {MBR_SIZED(mbr_prefix_attach_request), .target_count = 1,
        .prefix = state->prefix, .holder = world->holder, .targets = &target};
    mbr_prefix_attach_result result = {MBR_SIZED(mbr_prefix_attach_result)};
    return mbr_prefix_attach(world->manager, &request, &result, &world->error) == MBR_OK;
}

/* ---- One attach a round */
static bool attach(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    (void)count;
    share_state *state = context;
    return attach_to(state, state->sharer);
}

/* Where a sharer before has left aliases of the prefix, if one has. */
static bool reserve_sharer(void *context)
{
    share_state *state = context;
    mbr_bench_world *world = &state->device->world;
    mbr_range_reserve_request request = {MBR_SIZED(mbr_range_reserve_request),
        .binding = world->binding, .bytes = state->bytes,
        .growth = {state->extent_bytes, state->extent_bytes, 0}, .prefix = state->prefix};
    mbr_range_reserve_result result = {MBR_SIZED(mbr_range_reserve_result)};
    mbr_status status = mbr_range_reserve(world->manager, &request, &result, &world->error);
    state->sharer = result.range;
    return status == MBR_OK;
}

static bool release_sharer(void *context)
{
    share_state *state = context;
    return mbr_bench_release(&state->device->world, &state->sharer);
}

/* Parked aliases go, too. */
static bool release_sharer_whole(void *context)
{
    share_state *state = context;
    return release_sharer(state) && mbr_bench_trim(&state->device->world);
}

/* ---- Theirs: memory from a warm pool and a copy */
static bool copy_prefix(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    (void)count;
    share_state *state = context;
    mbr_hand *hand = &state->device->hand;
    mbr_cuda_stream stream = state->device->stream;
    mbr_range_figures figures = {MBR_SIZED(mbr_range_figures)};
    mbr_bench_world *world = &state->device->world;
    if (mbr_range_read(world->manager, state->owner, 0, &figures, &world->error) != MBR_OK)
        return false;
    mbr_cuda_address copy;
    return mbr_hand_did(
               hand, hand->call.allocate_async(&copy, state->bytes, stream), "cuMemAllocAsync") &&
        mbr_hand_did(hand,
            hand->call.copy_on_device_async(copy, figures.address, state->bytes, stream),
            "cuMemcpyDtoDAsync") &&
        mbr_hand_did(hand, hand->call.free_async(copy, stream), "cuMemFreeAsync") &&
        mbr_hand_did(hand, hand->call.stream_synchronize(stream), "cuStreamSynchronize");
}

static bool take(mbr_bench_row *row, const mbr_contestant *mine, const mbr_contestant *theirs)
{
    share_state *state = mine->context;
    mbr_bench_take_ratio(row, mine, theirs, 1e3);
    return mbr_bench_device_count(state->device, mine, MBR_COUNT_OURS, 0, &row->ours) &&
        mbr_bench_device_count(state->device, theirs, MBR_COUNT_BY_HAND, 0, &row->theirs);
}

static bool measure_attach(
    mbr_bench *bench, share_state *small, share_state *large, mbr_bench_row *rows)
{
    mbr_contestant sides[] = {
        {.context = small,
            .work = attach,
            .before = reserve_sharer,
            .after = release_sharer,
            .fixed_count = 1,
            .by_wall = true},
        {.context = large,
            .work = attach,
            .before = reserve_sharer,
            .after = release_sharer_whole,
            .fixed_count = 1,
            .by_wall = true},
        {.context = small,
            .work = attach,
            .before = reserve_sharer,
            .after = release_sharer_whole,
            .fixed_count = 1,
            .by_wall = true},
        {.context = small, .work = copy_prefix, .fixed_count = 1, .by_wall = true},
    };
    /* The round before the parked one leaves its alias parked: it takes its turn after itself. */
    if (!mbr_bench_rounds(bench, &sides[1], 3, bench->options->rounds))
        return false;
    mbr_contestant parked[] = {sides[0], sides[3]};
    if (!reserve_sharer(small) || !attach(small, 0, 1) || !release_sharer(small) ||
        !mbr_bench_rounds(bench, parked, 2, bench->options->rounds))
        return false;
    return take(&rows[0], &parked[0], &parked[1]) && take(&rows[1], &sides[1], &sides[3]) &&
        take(&rows[2], &sides[2], &sides[3]);
}

/* ---- P12: what 64 sharers own */
/* One of the copies, as the driver counts it. */
static bool own_copy(share_state *state, uint64_t *owned_bytes)
{
    mbr_hand *hand = &state->device->hand;
    mbr_cuda_address copy;
    uint64_t before_bytes, after_bytes;
    if (!mbr_hand_free_bytes(hand, &before_bytes) ||
        !mbr_hand_did(hand, hand->call.device_allocate(&copy, state->bytes), "cuMemAlloc") ||
        !mbr_hand_free_bytes(hand, &after_bytes))
        return false;
    *owned_bytes = before_bytes - after_bytes;
    return mbr_hand_did(hand, hand->call.device_free(copy), "cuMemFree");
}

static bool measure_sharers(share_state *state, mbr_bench_row *row)
{
    mbr_bench_world *world = &state->device->world;
    for (uint32_t i = 0; i < SHARERS; i++)
        if (!mbr_bench_reserve(world, state->bytes, state->extent_bytes, &state->sharers[i]) ||
            !attach_to(state, state->sharers[i]))
            return false;
    row->ours.owned_bytes = mbr_bench_world_owned(world);
    uint64_t copy_bytes;
    if (!own_copy(state, &copy_bytes))
        return false;
    row->theirs.owned_bytes = SHARERS * copy_bytes;
    row->ours.median = row->ours.p99 = (double)row->ours.owned_bytes / MBR_BENCH_MIB;
    row->theirs.median = row->theirs.p99 = (double)row->theirs.owned_bytes / MBR_BENCH_MIB;
    row->value = row->ours.median / row->theirs.median;
    row->ratio = 1 / row->value;
    row->has_baseline = true;
    row->rounds = 1;
    return true;
}

static bool run(mbr_bench *bench, mbr_bench_row *rows)
{
    mbr_bench_device device;
    if (!mbr_bench_device_open(bench, UINT64_MAX, &device))
        return false;
    uint64_t bytes = mbr_bench_device_bytes(bench, MBR_BENCH_GIB);
    share_state small = {.device = &device,
        .bytes = bytes,
        .extent_bytes = mbr_bench_device_bytes(bench, SMALL_BYTES)};
    share_state large = {.device = &device,
        .bytes = bytes,
        .extent_bytes = mbr_bench_device_bytes(bench, LARGE_BYTES)};
    bool done = mbr_hand_keep_pool(&device.hand) && write_prefix(&large) &&
        measure_sharers(&large, &rows[0]) && end_prefix(&large);
    large.prefix.value = 0;
    done = done && mbr_bench_trim(&device.world) && write_prefix(&large) && write_prefix(&small) &&
        measure_attach(bench, &small, &large, &rows[1]);
    done = end_prefix(&small) && done;
    done = end_prefix(&large) && done;
    done = mbr_hand_empty_pool(&device.hand) && done;
    return mbr_bench_device_close(bench, &device, done);
}

static const mbr_bench_plan plans[] = {
    {"P12", "owned bytes of a prefix of 1 GiB with 64 sharers", "x", "MiB",
        "64 copies (one is measured)", false, 1.0 / 60, 1.0 / 50},
    {"P13a", "attach a prefix of 1 GiB, its alias parked", "x", "us",
        "cuMemAllocAsync from a warm pool + copy", true, 100, 25},
    {"P13b", "the same afresh, extents of 256 MiB", "x", "us",
        "cuMemAllocAsync from a warm pool + copy", true, 2, 1.5},
    {"P13c", "the same afresh, extents of 64 MiB", "x", "us",
        "cuMemAllocAsync from a warm pool + copy", true, 0.7, MBR_BENCH_NO_FLOOR},
};

const mbr_bench_group mbr_bench_device_share = {plans, 4, run};
