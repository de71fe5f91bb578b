/* Opens, marks, puts to sleep and wakes the range of weights. When that happens is decided by the
 * run. */
#include "tools/cli/replay/weights.h"

#include "abi/base/checked.h"

#define TAG 1

static const mbr_trace_request no_request; /* its tokens have no names */

static bool submit(const replay_weights *weights, bool write)
{
    replay_mark_job job = {.touch = weights->touch,
        .request = &no_request,
        .writer = {TAG, 1},
        .write = write,
        .meddles = !write,
        .low = weights->address,
        .known = weights->address,
        .end = weights->address + weights->bytes,
        .strides = {.address = weights->address, .token_bytes = weights->touch->step_bytes}};
    return replay_mark_submit(&job, 0);
}

static mbr_status mark(const replay_weights *weights, bool write, mbr_error *error)
{
    if (submit(weights, write))
        return MBR_OK;
    *error = weights->touch->error;
    return error->status != MBR_OK ? error->status : MBR_OUT_OF_HOST_MEMORY;
}

/* ---- Life */

static mbr_status open_holder(replay_weights *weights, mbr_error *error)
{
    mbr_holder_request request = {MBR_SIZED(mbr_holder_request), .role = MBR_ROLE_WEIGHTS,
        .authority = weights->world->authority, .name = "weights",
        .allowance_bytes = MBR_NO_ALLOWANCE};
    return mbr_manager_create_holder(weights->world->manager, &request, &weights->holder, error);
}

static mbr_status open_range(replay_weights *weights, uint64_t bytes, mbr_error *error)
{
    mbr_manager *manager = weights->world->manager;
    mbr_range_reserve_request reserve = {MBR_SIZED(mbr_range_reserve_request),
        .binding = weights->world->binding, .bytes = bytes, .expected_bytes = bytes};
    mbr_range_reserve_result place = {MBR_SIZED(mbr_range_reserve_result)};
    mbr_status status = mbr_range_reserve(manager, &reserve, &place, error);
    if (status != MBR_OK)
        return status;
    weights->range = place.range;
    weights->address = place.address;
    weights->bytes = bytes;
    mbr_piece piece = {.range = place.range, .bytes = bytes};
    mbr_range_grow_request grow = {MBR_SIZED(mbr_range_grow_request), .holder = weights->holder,
        .stream = weights->world->streams[0], .pieces = &piece, .piece_count = 1};
    mbr_range_grow_result grown = {MBR_SIZED(mbr_range_grow_result)};
    return mbr_range_grow(manager, &grow, &grown, error);
}

mbr_status replay_weights_open(replay_weights *weights, replay_touch *touch, replay_arena *arena,
    uint64_t bytes, mbr_error *error)
{
    *weights = (replay_weights){.touch = touch, .world = touch->world, .arena = arena};
    mbr_status status = open_holder(weights, error);
    if (status == MBR_OK)
        status = open_range(weights, bytes, error);
    if (status == MBR_OK)
        status = mbr_sleeper_add(arena->sleeper, weights->range, weights->holder, TAG, error);
    weights->has_tag = status == MBR_OK;
    return status == MBR_OK ? mark(weights, true, error) : status;
}

static mbr_status release(replay_weights *weights, mbr_error *error)
{
    mbr_range_release_request request = {MBR_SIZED(mbr_range_release_request),
        .piece.range = weights->range, .streams = weights->world->streams,
        .stream_count = weights->world->stream_count};
    if (weights->range.value == 0)
        return MBR_OK;
    mbr_status status = mbr_range_release(weights->world->manager, &request, error);
    if (status == MBR_OK)
        weights->range.value = 0;
    return status;
}

mbr_status replay_weights_close(replay_weights *weights, mbr_error *error)
{
    mbr_status status = MBR_OK;
    if (weights->is_asleep)
        status = replay_arena_drop(weights->arena, TAG, error);
    if (status == MBR_OK && weights->has_tag)
        status = mbr_sleeper_remove(weights->arena->sleeper, weights->range, error);
    if (status != MBR_OK)
        return status;
    weights->is_asleep = weights->has_tag = false;
    return release(weights, error);
}

mbr_status replay_weights_forget(replay_weights *weights, mbr_error *error)
{
    return weights->holder.value == 0
        ? MBR_OK
        : mbr_manager_destroy_holder(weights->world->manager, weights->holder, error);
}

/* ---- Sleep and wake */

mbr_status replay_weights_sleep(replay_weights *weights, mbr_error *error)
{
    uint64_t bytes;
    mbr_status status = mark(weights, false, error);
    if (status == MBR_OK)
        status = replay_arena_sleep(weights->arena, TAG, &bytes, error);
    weights->is_asleep = status == MBR_OK || status == MBR_RESIDUAL;
    return weights->is_asleep ? MBR_OK : status; /* the wake tries the rest once more */
}

mbr_status replay_weights_wake(replay_weights *weights, mbr_error *error)
{
    mbr_status status = replay_arena_wake(weights->arena, TAG, error);
    if (status != MBR_OK)
        return status;
    weights->is_asleep = false;
    return mark(weights, false, error);
}
