/* The client's calls for growing memory, shortened for H5 to H7. Each false leaves its reason in
 * world->error. */
#ifndef MEMBRANE_TOOLS_BENCH_RANGES_H
#define MEMBRANE_TOOLS_BENCH_RANGES_H

#include "tools/bench/world.h"

bool mbr_bench_reserve(
    mbr_bench_world *world, uint64_t bytes, uint64_t unit_bytes, mbr_range_handle *range);
bool mbr_bench_grow(
    mbr_bench_world *world, mbr_range_handle range, uint64_t offset_bytes, uint64_t bytes);
bool mbr_bench_decommit(
    mbr_bench_world *world, mbr_range_handle range, uint64_t offset_bytes, uint64_t bytes);
/* The handle is 0 afterwards; 0 is allowed. */
bool mbr_bench_release(mbr_bench_world *world, mbr_range_handle *range);
/* Nothing stays cached. */
bool mbr_bench_trim(mbr_bench_world *world);

#endif
