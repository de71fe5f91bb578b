/* A layout cut into extents: which rule a reservation's extents follow, and how large it is.
 *
 * Thread rule: every function is pure; the struct is plain data. Sizes in bytes. */
#ifndef MEMBRANE_HOLDER_GEOMETRY_EXTENTS_H
#define MEMBRANE_HOLDER_GEOMETRY_EXTENTS_H

#include "host/backing/extent_rule.h"
#include "host/holder/geometry/layout.h"

/* Extents of the layouts without windows, rounded up to a granule. */
#define MBR_EXTENTS_SPLIT_BYTES (UINT64_C(2) << 20)

/* A layout and the rule of its extents.
 *
 *     rule.granule = layout.granule
 *     window-major: an extent is a whole number of windows, so that one serves all layers of them
 *     reservation = the first boundary at or after layout.span */
typedef struct mbr_extents {
    mbr_layout layout;
    mbr_extent_rule rule;
    uint64_t reservation_bytes; /* whole extents; ask the mechanism for this much */
} mbr_extents;

/* Joins a layout with fixed extents of `extent_bytes`, or with the default rule for 0: extents that
 * grow with the offset from one window in window-major, 2 MiB elsewhere. Refused: an extent that is
 * not whole granules, or in window-major not whole windows, or above MBR_LAYOUT_BYTES_MAX; the
 * error says the next size that works. On a refusal *extents is zero. */
mbr_geometry_status mbr_extents_init(mbr_extents *extents, const mbr_layout *layout,
    uint64_t extent_bytes, mbr_geometry_error *error);

/* The check of the equation above; every function that takes extents asserts it. */
bool mbr_extents_is_valid(const mbr_extents *extents);

#endif
