/* Whether a part of a range goes back, and really has, for holders that are asked for bytes: a
 * decommit that is accepted may leave it where it is, behind a capture or a graph, or stuck. */
#ifndef MEMBRANE_HOST_HOLDER_COMMON_GONE_H
#define MEMBRANE_HOST_HOLDER_COMMON_GONE_H

#include "abi/base/growable.h"
#include "host/bind/seams.h"
#include "membrane/range.h"

#include <stdbool.h>

/* A graph owns what stands from the offset on, or the range has ended. */
static inline bool mbr_range_is_owned(
    mbr_manager *manager, mbr_range_handle range, uint64_t offset_bytes)
{
    mbr_range_run run = {MBR_SIZED(mbr_range_run)};
    return mbr_range_next_run(manager, range, offset_bytes, &run, NULL) != MBR_OK ||
        (run.flags & MBR_RUN_OWNED) != 0;
}

/* What is given back from the offset on stays where it is for now: a capture is open on the device
 * of the range's binding, or a graph owns the range. */
static inline bool mbr_range_is_held(
    mbr_manager *manager, mbr_binding_handle binding, mbr_range_handle range, uint64_t offset_bytes)
{
    return mbr_manager_is_capturing(manager, binding) ||
        mbr_range_is_owned(manager, range, offset_bytes);
}

/* Nothing of the part is committed, leaving or stuck. */
static inline bool mbr_range_is_gone(
    mbr_manager *manager, mbr_range_handle range, uint64_t offset_bytes, uint64_t bytes)
{
    mbr_range_run run = {MBR_SIZED(mbr_range_run)};
    return mbr_range_next_run(manager, range, offset_bytes, &run, NULL) == MBR_OK &&
        (run.bytes == 0 || run.offset_bytes >= offset_bytes + bytes);
}

#endif
