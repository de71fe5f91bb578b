/* Whether a part of a range has really gone back, for holders that are asked for bytes: a decommit
 * that is accepted may leave it where it is, behind a capture or a graph, or stuck. */
#ifndef MEMBRANE_HOST_HOLDER_COMMON_GONE_H
#define MEMBRANE_HOST_HOLDER_COMMON_GONE_H

#include "membrane/range.h"

#include <stdbool.h>

/* Nothing of the part is committed, leaving or stuck. */
static inline bool mbr_range_is_gone(
    mbr_manager *manager, mbr_range_handle range, uint64_t offset_bytes, uint64_t bytes)
{
    mbr_range_run run = {.struct_size = sizeof(run)};
    return mbr_range_next_run(manager, range, offset_bytes, &run, NULL) == MBR_OK &&
        (run.bytes == 0 || run.offset_bytes >= offset_bytes + bytes);
}

#endif
