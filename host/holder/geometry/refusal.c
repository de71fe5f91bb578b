/* Responsible for the refusal to share: which condition fails and what would work instead. Every
 * proposal is computed with the same arithmetic that refused, never guessed. */
#include "host/holder/geometry/sharing.h"

#include "abi/base/assert.h"
#include "abi/base/checked.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static bool shares(const mbr_extents *extents, uint64_t prefix_tokens)
{
    mbr_sharing sharing;
    mbr_geometry_status status = mbr_sharing_compute(extents, prefix_tokens, &sharing, NULL);
    MBR_CHECK(status == MBR_GEOMETRY_OK);
    return sharing.shared_extents != 0;
}

/* The same with other extents of this layout; the caller's size is one that is accepted. */
static bool shares_with(const mbr_layout *layout, uint64_t extent_bytes, uint64_t prefix_tokens)
{
    mbr_extents extents;
    mbr_geometry_status status = mbr_extents_init(&extents, layout, extent_bytes, NULL);
    MBR_CHECK(status == MBR_GEOMETRY_OK);
    return shares(&extents, prefix_tokens);
}

/* End of the first whole extent of a span that a longer prefix fills. */
static uint64_t next_extent_end(const mbr_extent_rule *rule, mbr_byte_range filled)
{
    uint64_t start = mbr_extent_rule_start_at(rule, filled.end);
    if (start < filled.start) /* the extent begins in the span before */
        start += mbr_extent_rule_size_at(rule, start);
    return start + mbr_extent_rule_size_at(rule, start);
}

/* The shortest prefix above `prefix_tokens`, which shares nothing, that fills an extent; 0: none.
 * It holds for sliding groups too: the token that fills an extent is live itself. */
static uint64_t next_prefix(const mbr_extents *extents, uint64_t prefix_tokens)
{
    const mbr_layout *layout = &extents->layout;
    uint64_t best = UINT64_MAX;
    for (uint64_t span = 0; span < mbr_layout_span_count(layout); span++) {
        mbr_byte_range filled = mbr_layout_span_filled(layout, span, prefix_tokens);
        uint64_t bytes = next_extent_end(&extents->rule, filled) - filled.start;
        uint64_t tokens = layout->kind == MBR_LAYOUT_WINDOW_MAJOR
            ? bytes / layout->window_bytes * layout->window_tokens
            : bytes / layout->row_bytes + (bytes % layout->row_bytes != 0);
        best = mbr_min(best, tokens);
    }
    return best <= layout->max_tokens ? best : 0;
}

/* The largest fixed extent that shares this prefix. Nothing above the bytes of one span's prefix
 * fits, and the first span starts on a boundary; a window that slid may leave only the smallest. */
static uint64_t largest_extent(const mbr_layout *layout, uint64_t prefix_tokens)
{
    uint64_t unit =
        layout->kind == MBR_LAYOUT_WINDOW_MAJOR ? layout->window_bytes : layout->granule_bytes;
    uint64_t filled = mbr_layout_span_filled(layout, 0, prefix_tokens).end;
    uint64_t largest = mbr_align_down(filled, unit);
    if (largest != 0 && shares_with(layout, largest, prefix_tokens))
        return largest;
    return shares_with(layout, unit, prefix_tokens) ? unit : 0;
}

/* The other layouts, with their default extents, that share this prefix. */
static uint32_t other_layouts(const mbr_layout *layout, uint64_t prefix_tokens)
{
    uint32_t found = 0;
    for (uint32_t kind = 0; kind < MBR_LAYOUT_COUNT; kind++) {
        mbr_layout_request request = {
            .kind = (mbr_layout_kind)kind,
            .max_tokens = layout->max_tokens,
            .granule_bytes = layout->granule_bytes,
        };
        mbr_layout other;
        /* Padding may make another layout too large for any reservation. */
        if (request.kind != layout->kind &&
            mbr_layout_init(&other, &layout->group, &request, NULL) == MBR_GEOMETRY_OK &&
            shares_with(&other, 0, prefix_tokens))
            found |= 1U << kind;
    }
    return found;
}

__attribute__((format(printf, 2, 3))) static void say(
    mbr_sharing_refusal *refusal, const char *format, ...)
{
    size_t used = strlen(refusal->text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(refusal->text + used, sizeof refusal->text - used, format, arguments);
    va_end(arguments);
}

static void say_mechanism(mbr_sharing_refusal *refusal, bool has_virtual, bool has_shared)
{
    say(refusal, "the mechanism lacks %s%s%s; one with virtual and shared would work",
        has_virtual ? "" : "virtual", !has_virtual && !has_shared ? " and " : "",
        has_shared ? "" : "shared");
}

static void say_remedies(mbr_sharing_refusal *refusal)
{
    const char *separator = "; would work: ";
    if (refusal->prefix_tokens != 0) {
        say(refusal, "%sa prefix of %lu tokens", separator, refusal->prefix_tokens);
        separator = ", ";
    }
    if (refusal->extent_bytes != 0) {
        char bytes[32];
        say(refusal, "%sextents of %s", separator,
            mbr_geometry_format_bytes(bytes, sizeof bytes, refusal->extent_bytes));
        separator = ", ";
    }
    for (uint32_t kind = 0; kind < MBR_LAYOUT_COUNT; kind++)
        if ((refusal->layouts & 1U << kind) != 0) {
            say(refusal, "%s%s", separator, mbr_layout_name((mbr_layout_kind)kind));
            separator = ", ";
        }
    if (refusal->prefix_tokens == 0 && refusal->extent_bytes == 0 && refusal->layouts == 0)
        say(refusal, "; would work: a reservation for more tokens, or a smaller granule");
}

static void say_extent(
    mbr_sharing_refusal *refusal, const mbr_extents *extents, uint64_t prefix_tokens)
{
    const mbr_layout *layout = &extents->layout;
    char smallest[32];
    say(refusal, "%sno whole extent (%s%s) lies inside a prefix of %lu tokens in %s",
        refusal->text[0] == '\0' ? "" : "; and ", extents->rule.divisor == 0 ? "" : "at least ",
        mbr_geometry_format_bytes(smallest, sizeof smallest, extents->rule.unit_bytes),
        prefix_tokens, mbr_layout_name(layout->kind));
    say_remedies(refusal);
}

bool mbr_sharing_check(const mbr_extents *extents, uint64_t prefix_tokens, bool has_virtual,
    bool has_shared, mbr_sharing_refusal *refusal)
{
    memset(refusal, 0, sizeof *refusal);
    MBR_ASSERT(prefix_tokens <= extents->layout.max_tokens);
    if (!has_virtual || !has_shared) {
        refusal->failed |= MBR_SHARING_MECHANISM;
        say_mechanism(refusal, has_virtual, has_shared);
    }
    if (!shares(extents, prefix_tokens)) {
        refusal->failed |= MBR_SHARING_EXTENT;
        refusal->prefix_tokens = next_prefix(extents, prefix_tokens);
        refusal->layouts = other_layouts(&extents->layout, prefix_tokens);
        refusal->extent_bytes = largest_extent(&extents->layout, prefix_tokens);
        say_extent(refusal, extents, prefix_tokens);
    }
    return refusal->failed == 0;
}
