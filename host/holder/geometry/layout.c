/* Responsible for bases, strides and sizes of the four layouts. Never knows an extent, a commit or
 * a prefix, and never assumes that a fragment starts on a granule. */
#include "host/holder/geometry/layout.h"

#include "abi/base/assert.h"
#include "abi/base/checked.h"
#include "host/holder/geometry/nearest.h"

#include <stdio.h>
#include <string.h>

#define WASTE_PARTS MBR_LAYOUT_WINDOW_WASTE_PARTS
#define BYTES_MAX MBR_LAYOUT_BYTES_MAX

static const char *const reservation_overflows =
    "makes a reservation of more than 2^62 bytes; up to";

static const char *const names[MBR_LAYOUT_COUNT] = {
    [MBR_LAYOUT_HEAD_MAJOR] = "head-major",
    [MBR_LAYOUT_SEQ_MAJOR] = "seq-major",
    [MBR_LAYOUT_TOKEN_MAJOR] = "token-major",
    [MBR_LAYOUT_WINDOW_MAJOR] = "window-major",
};

const char *mbr_layout_name(mbr_layout_kind kind)
{
    MBR_ASSERT(kind < MBR_LAYOUT_COUNT);
    return names[kind];
}

static const char *name_at(const void *context, uint64_t index)
{
    (void)context;
    return names[index];
}

mbr_geometry_status mbr_layout_parse(
    const char *text, mbr_layout_kind *kind, mbr_geometry_error *error)
{
    *kind = MBR_LAYOUT_HEAD_MAJOR;
    mbr_geometry_error_clear(error);
    for (uint32_t i = 0; i < MBR_LAYOUT_COUNT; i++)
        if (strcmp(names[i], text) == 0) {
            *kind = (mbr_layout_kind)i;
            return MBR_GEOMETRY_OK;
        }
    char value[sizeof error->value];
    mbr_geometry_copy_printable(value, sizeof value, text, strlen(text));
    uint64_t nearest = mbr_nearest_name(text, MBR_LAYOUT_COUNT, name_at, NULL);
    bool near = nearest != MBR_LAYOUT_COUNT;
    return mbr_geometry_refuse(error, MBR_GEOMETRY_OUT_OF_RANGE, "layout", value, 0,
        "unknown layout '%s'; head-major, seq-major, token-major and window-major would work%s%s%s",
        value, near ? " (nearest: " : "", near ? names[nearest] : "", near ? ")" : "");
}

static mbr_geometry_status refuse(mbr_geometry_error *error, mbr_geometry_status status,
    const char *key, uint64_t refused, uint64_t would_work, const char *why)
{
    char value[24];
    snprintf(value, sizeof value, "%lu", refused);
    return mbr_geometry_refuse(error, status, key, value, would_work, "%s %lu %s %lu would work",
        key, refused, why, would_work);
}

/* 99 % of `bytes`, rounded up. */
static uint64_t least_used(uint64_t bytes)
{
    return bytes / WASTE_PARTS * (WASTE_PARTS - 1) + bytes % WASTE_PARTS;
}

static uint64_t divide_up(uint64_t value, uint64_t unit)
{
    return value / unit + (value % unit != 0);
}

/* One step a granule: the fewest tokens that fill `granules` well enough, if that many fit. No
 * product overflows: one granule suffices unless a token is larger than 1 % of it, a token has at
 * most 2^45 bytes, and a few hundred steps always find an answer. */
uint64_t mbr_layout_default_window(uint64_t token_bytes, uint64_t granule_bytes)
{
    MBR_ASSERT(token_bytes != 0 && token_bytes <= MBR_GEOMETRY_TOKEN_BYTES_MAX);
    MBR_ASSERT(granule_bytes != 0);
    uint64_t granules = divide_up(MBR_LAYOUT_WINDOW_TOKENS_MIN * token_bytes, granule_bytes);
    for (;; granules++) {
        uint64_t bytes = granules * granule_bytes;
        uint64_t tokens =
            mbr_max(MBR_LAYOUT_WINDOW_TOKENS_MIN, divide_up(least_used(bytes), token_bytes));
        if (tokens <= bytes / token_bytes)
            return tokens;
    }
}

static void init_fragments(mbr_layout *layout)
{
    const mbr_layer_group *group = &layout->group;
    uint64_t fragments = (uint64_t)group->planes * group->layers;
    layout->fragments = fragments;
    layout->row_bytes = mbr_layer_group_row_bytes(group);
    if (layout->kind == MBR_LAYOUT_HEAD_MAJOR) {
        layout->fragments = fragments * group->heads;
        layout->row_bytes /= group->heads;
    } else if (layout->kind == MBR_LAYOUT_TOKEN_MAJOR) {
        layout->fragments = 1;
        layout->row_bytes *= fragments;
    }
}

static mbr_geometry_status init_windows(
    mbr_layout *layout, uint64_t window_tokens, mbr_geometry_error *error)
{
    uint64_t token_bytes = mbr_layer_group_token_bytes(&layout->group);
    uint64_t granule = layout->granule_bytes;
    if (window_tokens == 0)
        window_tokens = mbr_layout_default_window(token_bytes, granule);
    uint64_t bytes;
    if (!mbr_mul(window_tokens, token_bytes, &bytes) || !mbr_align_up(bytes, granule, &bytes) ||
        bytes > BYTES_MAX)
        return refuse(error, MBR_GEOMETRY_OVERFLOW, "window", window_tokens,
            mbr_align_down(BYTES_MAX, granule) / token_bytes,
            "tokens have more than 2^62 bytes; up to");
    layout->window_tokens = window_tokens;
    layout->window_bytes = bytes;
    layout->fragment_stride_bytes = window_tokens * layout->row_bytes;
    uint64_t windows = divide_up(layout->max_tokens, window_tokens);
    if (!mbr_mul(windows, bytes, &layout->span_bytes) || layout->span_bytes > BYTES_MAX)
        return refuse(error, MBR_GEOMETRY_OVERFLOW, "max-tokens", layout->max_tokens,
            BYTES_MAX / bytes * window_tokens, reservation_overflows);
    return MBR_GEOMETRY_OK;
}

static mbr_geometry_status init_spans(
    mbr_layout *layout, uint64_t stride, mbr_geometry_error *error)
{
    uint64_t fragment, all;
    if (!mbr_mul(layout->max_tokens, layout->row_bytes, &fragment) ||
        !mbr_mul(layout->fragments, fragment, &all) || all > BYTES_MAX)
        return refuse(error, MBR_GEOMETRY_OVERFLOW, "max-tokens", layout->max_tokens,
            BYTES_MAX / mbr_layer_group_token_bytes(&layout->group), reservation_overflows);
    if (stride == 0 || layout->kind == MBR_LAYOUT_TOKEN_MAJOR)
        stride = fragment;
    uint64_t element = layout->group.element_bytes;
    if (stride < fragment)
        return refuse(error, MBR_GEOMETRY_OUT_OF_RANGE, "fragment-stride", stride, fragment,
            "is below the bytes of one fragment;");
    if (stride % element != 0)
        return refuse(error, MBR_GEOMETRY_NOT_DIVISIBLE, "fragment-stride", stride,
            mbr_align_down(stride, element), "is not a whole number of elements;");
    if (!mbr_mul(layout->fragments, stride, &all) || all > BYTES_MAX)
        return refuse(error, MBR_GEOMETRY_OVERFLOW, "fragment-stride", stride,
            mbr_align_down(BYTES_MAX / layout->fragments, element), reservation_overflows);
    layout->fragment_stride_bytes = stride;
    layout->span_bytes = all - stride + fragment;
    return MBR_GEOMETRY_OK;
}

/* Every stride is at most fragments * fragment_stride, which was checked. */
static void init_strides(mbr_layout *layout)
{
    mbr_layout_strides *strides = &layout->strides;
    const mbr_layer_group *group = &layout->group;
    uint64_t head_bytes = (uint64_t)group->dim * group->element_bytes;
    uint64_t plane_bytes = layout->fragment_stride_bytes;
    *strides = (mbr_layout_strides){
        .window_tokens = layout->max_tokens,
        .token_bytes = layout->row_bytes,
        .head_bytes = head_bytes,
        .element_bytes = group->element_bytes,
    };
    if (layout->kind == MBR_LAYOUT_HEAD_MAJOR) {
        strides->head_bytes = layout->fragment_stride_bytes;
        plane_bytes = layout->fragment_stride_bytes * group->heads;
    } else if (layout->kind == MBR_LAYOUT_TOKEN_MAJOR) {
        plane_bytes = mbr_layer_group_row_bytes(group);
    } else if (layout->kind == MBR_LAYOUT_WINDOW_MAJOR) {
        strides->window_tokens = layout->window_tokens;
        strides->window_bytes = layout->window_bytes;
    }
    strides->plane_bytes = plane_bytes;
    strides->layer_bytes = plane_bytes * group->planes;
}

mbr_geometry_status mbr_layout_init(mbr_layout *layout, const mbr_layer_group *group,
    const mbr_layout_request *request, mbr_geometry_error *error)
{
    memset(layout, 0, sizeof *layout);
    mbr_geometry_error_clear(error);
    MBR_ASSERT(mbr_layer_group_is_valid(group) && request->kind < MBR_LAYOUT_COUNT);
    if (request->granule_bytes == 0)
        return refuse(error, MBR_GEOMETRY_OUT_OF_RANGE, "granule", 0, 1,
            "is no size; the mechanism's granule, at least");
    if (request->granule_bytes > BYTES_MAX)
        return refuse(error, MBR_GEOMETRY_OUT_OF_RANGE, "granule", request->granule_bytes,
            BYTES_MAX, "is larger than any device; up to");
    if (request->max_tokens == 0)
        return refuse(
            error, MBR_GEOMETRY_OUT_OF_RANGE, "max-tokens", 0, 1, "leaves no room; at least");
    mbr_layout result = {
        .kind = request->kind,
        .group = *group,
        .max_tokens = request->max_tokens,
        .granule_bytes = request->granule_bytes,
    };
    init_fragments(&result);
    mbr_geometry_status status = result.kind == MBR_LAYOUT_WINDOW_MAJOR
        ? init_windows(&result, request->window_tokens, error)
        : init_spans(&result, request->fragment_stride_bytes, error);
    if (status != MBR_GEOMETRY_OK)
        return status;
    init_strides(&result);
    *layout = result;
    MBR_ASSERT(mbr_layout_is_valid(layout));
    return MBR_GEOMETRY_OK;
}

bool mbr_layout_is_valid(const mbr_layout *layout)
{
    bool windowed = layout->kind == MBR_LAYOUT_WINDOW_MAJOR;
    uint64_t token_bytes = mbr_layer_group_token_bytes(&layout->group);
    if (layout->kind >= MBR_LAYOUT_COUNT || !mbr_layer_group_is_valid(&layout->group) ||
        layout->max_tokens == 0 || layout->granule_bytes == 0 || layout->span_bytes > BYTES_MAX ||
        layout->fragments * layout->row_bytes != token_bytes ||
        (layout->window_tokens != 0) != windowed)
        return false;
    if (windowed)
        return layout->window_bytes % layout->granule_bytes == 0 &&
            layout->window_bytes - layout->window_tokens * token_bytes < layout->granule_bytes &&
            layout->span_bytes ==
            divide_up(layout->max_tokens, layout->window_tokens) * layout->window_bytes;
    uint64_t fragment = layout->max_tokens * layout->row_bytes;
    return layout->fragment_stride_bytes >= fragment &&
        layout->span_bytes == (layout->fragments - 1) * layout->fragment_stride_bytes + fragment;
}

uint64_t mbr_layout_offset(
    const mbr_layout *layout, uint64_t layer, uint64_t plane, uint64_t head, uint64_t token)
{
    const mbr_layout_strides *strides = &layout->strides;
    MBR_ASSERT(layer < layout->group.layers && plane < layout->group.planes);
    MBR_ASSERT(head < layout->group.heads && token < layout->max_tokens);
    return token / strides->window_tokens * strides->window_bytes +
        token % strides->window_tokens * strides->token_bytes + layer * strides->layer_bytes +
        plane * strides->plane_bytes + head * strides->head_bytes;
}

uint64_t mbr_layout_span_count(const mbr_layout *layout)
{
    return layout->kind == MBR_LAYOUT_WINDOW_MAJOR ? 1 : layout->fragments;
}

mbr_byte_range mbr_layout_span_touched(
    const mbr_layout *layout, uint64_t index, uint64_t first, uint64_t end)
{
    MBR_ASSERT(index < mbr_layout_span_count(layout));
    MBR_ASSERT(first <= end && end <= layout->max_tokens);
    uint64_t base = index * layout->fragment_stride_bytes;
    if (first == end)
        return (mbr_byte_range){base, base};
    if (layout->kind != MBR_LAYOUT_WINDOW_MAJOR)
        return (mbr_byte_range){base + first * layout->row_bytes, base + end * layout->row_bytes};
    return (mbr_byte_range){first / layout->window_tokens * layout->window_bytes,
        divide_up(end, layout->window_tokens) * layout->window_bytes};
}

mbr_byte_range mbr_layout_span_filled(const mbr_layout *layout, uint64_t index, uint64_t end)
{
    MBR_ASSERT(index < mbr_layout_span_count(layout) && end <= layout->max_tokens);
    uint64_t base = index * layout->fragment_stride_bytes;
    if (layout->kind != MBR_LAYOUT_WINDOW_MAJOR)
        return (mbr_byte_range){base, base + end * layout->row_bytes};
    return (mbr_byte_range){0, end / layout->window_tokens * layout->window_bytes};
}

/* Rows of one contiguous run that a granule's boundary cuts. A row longer than a granule is always
 * cut; of the others each boundary inside cuts one, unless it lies between two rows. */
static uint64_t straddling_in_run(uint64_t base, uint64_t rows, uint64_t row, uint64_t granule)
{
    if (row > granule)
        return rows;
    uint64_t cut = 0;
    uint64_t bytes = rows * row, first = granule - base % granule;
    uint64_t boundaries = first < bytes ? (bytes - 1 - first) / granule + 1 : 0;
    for (uint64_t i = 0; i < boundaries; i++)
        cut += (first + i * granule) % row != 0;
    return cut;
}

uint64_t mbr_layout_straddling_rows(const mbr_layout *layout, uint64_t tokens)
{
    MBR_ASSERT(tokens <= layout->max_tokens);
    uint64_t row = layout->row_bytes, granule = layout->granule_bytes, cut = 0, rows = tokens;
    if (layout->kind == MBR_LAYOUT_WINDOW_MAJOR) {
        /* Windows start on granules, and the pieces of a full one are a single run. */
        uint64_t window = layout->window_tokens;
        cut = tokens / window * straddling_in_run(0, layout->fragments * window, row, granule);
        rows = tokens % window;
    }
    for (uint64_t f = 0; f < layout->fragments; f++)
        cut += straddling_in_run(f * layout->fragment_stride_bytes, rows, row, granule);
    return cut;
}
