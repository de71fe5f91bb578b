/* Responsible for filling the client's structs; measures nothing. */
#include "tools/bench/ranges.h"

bool mbr_bench_reserve(
    mbr_bench_world *world, uint64_t bytes, uint64_t unit_bytes, mbr_range_handle *range)
{
    mbr_range_reserve_request request = {MBR_SIZED(mbr_range_reserve_request),
        .binding = world->binding, .bytes = bytes, .growth = {unit_bytes, unit_bytes, 0}};
    mbr_range_reserve_result result = {MBR_SIZED(mbr_range_reserve_result)};
    mbr_status status = mbr_range_reserve(world->manager, &request, &result, &world->error);
    *range = result.range;
    return status == MBR_OK;
}

bool mbr_bench_grow(
    mbr_bench_world *world, mbr_range_handle range, uint64_t offset_bytes, uint64_t bytes)
{
    mbr_piece piece = {range, offset_bytes, bytes};
    mbr_range_grow_request request = {MBR_SIZED(mbr_range_grow_request), .holder = world->holder,
        .pieces = &piece, .piece_count = 1};
    mbr_range_grow_result result = {MBR_SIZED(mbr_range_grow_result)};
    return mbr_range_grow(world->manager, &request, &result, &world->error) == MBR_OK;
}

bool mbr_bench_decommit(
    mbr_bench_world *world, mbr_range_handle range, uint64_t offset_bytes, uint64_t bytes)
{
    mbr_range_release_request request = {MBR_SIZED(mbr_range_release_request),
        .flags = MBR_FREE_NOW, .piece = {range, offset_bytes, bytes}};
    mbr_range_decommit_result result = {MBR_SIZED(mbr_range_decommit_result)};
    return mbr_range_decommit(world->manager, &request, &result, &world->error) == MBR_OK;
}

bool mbr_bench_release(mbr_bench_world *world, mbr_range_handle *range)
{
    if (range->value == 0)
        return true;
    mbr_range_release_request request = {
        MBR_SIZED(mbr_range_release_request), .flags = MBR_FREE_NOW, .piece = {.range = *range}};
    mbr_status status = mbr_range_release(world->manager, &request, &world->error);
    range->value = 0;
    return status == MBR_OK;
}

bool mbr_bench_trim(mbr_bench_world *world)
{
    uint64_t released_bytes;
    return mbr_manager_trim(world->manager, world->mechanism, 0, &released_bytes, &world->error) ==
        MBR_OK;
}
