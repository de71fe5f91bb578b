/* Responsible for the arithmetic of sharing a prefix by whole extents. Never maps, never copies,
 * never proposes to copy a prefix instead of sharing it. */
#include "host/holder/geometry/sharing.h"

#include "abi/base/assert.h"
#include "abi/base/checked.h"

#include <stdio.h>
#include <string.h>

mbr_sharing_span mbr_sharing_span_at(
    const mbr_extents *extents, uint64_t span, uint64_t prefix_tokens)
{
    const mbr_extent_rule *rule = &extents->rule;
    mbr_token_range live = mbr_commit_live(extents, prefix_tokens);
    mbr_byte_range filled = mbr_layout_span_filled(&extents->layout, span, prefix_tokens);
    mbr_sharing_span result;
    result.live = mbr_layout_span_touched(&extents->layout, span, live.first, live.end);
    /* No overflow: a span's start lies in the reservation. */
    bool fits = mbr_extent_rule_next_boundary(rule, filled.start, &result.shared.start);
    MBR_CHECK(fits);
    result.shared.start =
        mbr_max(result.shared.start, mbr_extent_rule_start_at(rule, result.live.start));
    result.shared.end = mbr_extent_rule_start_at(rule, filled.end);
    if (result.shared.end <= result.shared.start)
        result.shared = (mbr_byte_range){result.live.end, result.live.end};
    return result;
}

mbr_geometry_status mbr_sharing_whole_granules(
    mbr_byte_range range, uint64_t granule_bytes, uint64_t *granules, mbr_geometry_error *error)
{
    *granules = 0;
    mbr_geometry_error_clear(error);
    if (granule_bytes == 0)
        return mbr_geometry_refuse(error, MBR_GEOMETRY_OUT_OF_RANGE, "granule", "0", 1,
            "granule 0 is no size; the mechanism's granule, at least 1, would work");
    uint64_t first = range.start / granule_bytes + (range.start % granule_bytes != 0);
    uint64_t end = range.end / granule_bytes;
    *granules = end > first ? end - first : 0;
    return MBR_GEOMETRY_OK;
}

/* Bytes of live tokens inside the shared extents of one span. */
static uint64_t live_bytes_shared(
    const mbr_extents *extents, mbr_sharing_span span, mbr_token_range live)
{
    const mbr_layout *layout = &extents->layout;
    if (layout->kind != MBR_LAYOUT_WINDOW_MAJOR)
        return span.shared.end - mbr_max(span.shared.start, span.live.start);
    uint64_t first = span.shared.start / layout->window_bytes * layout->window_tokens;
    uint64_t end = span.shared.end / layout->window_bytes * layout->window_tokens;
    return (end - mbr_max(first, live.first)) * mbr_layer_group_token_bytes(&layout->group);
}

mbr_geometry_status mbr_sharing_compute(const mbr_extents *extents, uint64_t prefix_tokens,
    mbr_sharing *sharing, mbr_geometry_error *error)
{
    const mbr_layout *layout = &extents->layout;
    memset(sharing, 0, sizeof *sharing);
    mbr_geometry_error_clear(error);
    MBR_ASSERT(mbr_extents_is_valid(extents));
    if (prefix_tokens > layout->max_tokens) {
        char value[24];
        snprintf(value, sizeof value, "%lu", prefix_tokens);
        return mbr_geometry_refuse(error, MBR_GEOMETRY_OUT_OF_RANGE, "prefix", value,
            layout->max_tokens,
            "prefix of %lu tokens is longer than the reservation; up to %lu would work",
            prefix_tokens, layout->max_tokens);
    }
    mbr_token_range live = mbr_commit_live(extents, prefix_tokens);
    sharing->prefix_bytes = (live.end - live.first) * mbr_layer_group_token_bytes(&layout->group);
    sharing->boundary_bytes = sharing->prefix_bytes;
    for (uint64_t i = 0; i < mbr_layout_span_count(layout); i++) {
        mbr_sharing_span span = mbr_sharing_span_at(extents, i, prefix_tokens);
        if (span.shared.start == span.shared.end)
            continue;
        sharing->shared_extents += mbr_extent_rule_count(&extents->rule, span.shared.end) -
            mbr_extent_rule_count(&extents->rule, span.shared.start);
        sharing->shared_bytes += span.shared.end - span.shared.start;
        sharing->boundary_bytes -= live_bytes_shared(extents, span, live);
    }
    return MBR_GEOMETRY_OK;
}

uint64_t mbr_sharing_private_bytes(
    const mbr_extents *extents, uint64_t prefix_tokens, uint64_t tokens)
{
    const mbr_layout *layout = &extents->layout;
    mbr_token_range live = mbr_commit_live(extents, tokens);
    MBR_ASSERT(prefix_tokens <= tokens);
    uint64_t bytes = mbr_commit_bytes(extents, live);
    for (uint64_t i = 0; i < mbr_layout_span_count(layout); i++) {
        mbr_sharing_span span = mbr_sharing_span_at(extents, i, prefix_tokens);
        mbr_byte_range touched = mbr_layout_span_touched(layout, i, live.first, live.end);
        /* A window that slid past the prefix has left its first extents behind. */
        uint64_t held =
            mbr_max(span.shared.start, mbr_extent_rule_start_at(&extents->rule, touched.start));
        bytes -= span.shared.end > held ? span.shared.end - held : 0;
    }
    return bytes;
}

mbr_geometry_status mbr_sharing_saving(
    uint64_t shared_bytes, uint64_t sequences, uint64_t *bytes, mbr_geometry_error *error)
{
    *bytes = 0;
    mbr_geometry_error_clear(error);
    if (sequences == 0)
        return mbr_geometry_refuse(error, MBR_GEOMETRY_OUT_OF_RANGE, "sequences", "0", 1,
            "sequences 0: nobody shares; at least 1 would work");
    if (mbr_mul(sequences - 1, shared_bytes, bytes))
        return MBR_GEOMETRY_OK;
    char value[24];
    snprintf(value, sizeof value, "%lu", sequences);
    /* A product that overflows has shared_bytes >= 2, so adding 1 does not. */
    uint64_t highest = UINT64_MAX / shared_bytes + 1;
    return mbr_geometry_refuse(error, MBR_GEOMETRY_OVERFLOW, "sequences", value, highest,
        "sequences %lu save more than 2^64 - 1 bytes; up to %lu would work", sequences, highest);
}

mbr_sharing_capacity mbr_sharing_pool_capacity(
    uint64_t pool_bytes, uint64_t prefix_bytes, uint64_t private_bytes)
{
    uint64_t both;
    if (!mbr_add(prefix_bytes, private_bytes, &both) || pool_bytes < both)
        return (mbr_sharing_capacity){0, 0};
    mbr_sharing_capacity capacity = {MBR_SHARING_UNBOUNDED, MBR_SHARING_UNBOUNDED};
    if (both != 0)
        capacity.unshared = pool_bytes / both;
    if (private_bytes != 0)
        capacity.shared = (pool_bytes - prefix_bytes) / private_bytes;
    return capacity;
}
