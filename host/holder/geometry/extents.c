/* Responsible for choosing the extent rule of a layout. Never computes a commit or a sharing. */
#include "host/holder/geometry/extents.h"

#include "abi/base/assert.h"
#include "abi/base/checked.h"

#include <stdio.h>
#include <string.h>

/* What an extent must be a multiple of. */
static uint64_t unit_of(const mbr_layout *layout)
{
    return layout->kind == MBR_LAYOUT_WINDOW_MAJOR ? layout->window_bytes : layout->granule_bytes;
}

/* The size nearest above that works, or below where there is none above. */
static uint64_t nearest_extent(uint64_t extent_bytes, uint64_t unit)
{
    uint64_t above;
    bool fits = mbr_align_up(mbr_max(extent_bytes, 1), unit, &above);
    return fits && above <= MBR_LAYOUT_BYTES_MAX ? above
                                                 : mbr_align_down(MBR_LAYOUT_BYTES_MAX, unit);
}

static mbr_geometry_status check_extent(
    const mbr_layout *layout, uint64_t extent_bytes, mbr_geometry_error *error)
{
    uint64_t unit = unit_of(layout);
    uint64_t nearest = nearest_extent(extent_bytes, unit);
    char value[24];
    snprintf(value, sizeof value, "%lu", extent_bytes);
    if (extent_bytes > MBR_LAYOUT_BYTES_MAX)
        return mbr_geometry_refuse(error, MBR_GEOMETRY_OUT_OF_RANGE, "extent", value, nearest,
            "extent %lu is larger than any device; up to %lu would work", extent_bytes, nearest);
    if (extent_bytes % unit != 0)
        return mbr_geometry_refuse(error, MBR_GEOMETRY_NOT_DIVISIBLE, "extent", value, nearest,
            "extent %lu is no whole number of %s of %lu bytes; %lu would work", extent_bytes,
            unit == layout->granule_bytes ? "granules" : "windows", unit, nearest);
    return MBR_GEOMETRY_OK;
}

static mbr_extent_rule default_rule(const mbr_layout *layout)
{
    uint64_t granule = layout->granule_bytes;
    if (layout->kind == MBR_LAYOUT_WINDOW_MAJOR)
        return mbr_extent_rule_growing(granule, layout->window_bytes);
    return mbr_extent_rule_fixed(granule, nearest_extent(MBR_EXTENTS_SPLIT_BYTES, granule));
}

mbr_geometry_status mbr_extents_init(mbr_extents *extents, const mbr_layout *layout,
    uint64_t extent_bytes, mbr_geometry_error *error)
{
    memset(extents, 0, sizeof *extents);
    mbr_geometry_error_clear(error);
    MBR_ASSERT(mbr_layout_is_valid(layout));
    mbr_geometry_status status = check_extent(layout, extent_bytes, error);
    if (status != MBR_GEOMETRY_OK)
        return status;
    extents->layout = *layout;
    extents->rule = extent_bytes == 0 ? default_rule(layout)
                                      : mbr_extent_rule_fixed(layout->granule_bytes, extent_bytes);
    /* Both are at most 2^62, so the rounding stays below 2^64. */
    bool fits = mbr_extent_rule_next_boundary(
        &extents->rule, layout->span_bytes, &extents->reservation_bytes);
    MBR_CHECK(fits);
    return MBR_GEOMETRY_OK;
}

bool mbr_extents_is_valid(const mbr_extents *extents)
{
    const mbr_extent_rule *rule = &extents->rule;
    return mbr_layout_is_valid(&extents->layout) && mbr_extent_rule_is_valid(rule) &&
        rule->granule_bytes == extents->layout.granule_bytes &&
        rule->unit_bytes % unit_of(&extents->layout) == 0 &&
        extents->reservation_bytes >= extents->layout.span_bytes &&
        mbr_extent_rule_start_at(rule, extents->reservation_bytes) == extents->reservation_bytes;
}
