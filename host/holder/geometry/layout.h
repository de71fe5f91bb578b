/* Where a byte of a KV cache lies: the four layouts of one layer group in one reservation.
 *
 * Thread rule: every function is pure and may be called from any thread; a layout is plain data.
 * Offsets and sizes are bytes from the start of the reservation; ranges are half-open. */
#ifndef MEMBRANE_HOLDER_GEOMETRY_LAYOUT_H
#define MEMBRANE_HOLDER_GEOMETRY_LAYOUT_H

#include "host/holder/geometry/error.h"
#include "host/holder/geometry/model.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum mbr_layout_kind {
    MBR_LAYOUT_HEAD_MAJOR,   /* [layer][plane][head][token][dim] */
    MBR_LAYOUT_SEQ_MAJOR,    /* [layer][plane][token][head][dim] */
    MBR_LAYOUT_TOKEN_MAJOR,  /* [token][layer][plane][head][dim] */
    MBR_LAYOUT_WINDOW_MAJOR, /* [window of W tokens][layer][plane][token][head][dim] */
    MBR_LAYOUT_COUNT,
} mbr_layout_kind;

/* A window has at least this many tokens by default, and wastes at most one part in 100. */
#define MBR_LAYOUT_WINDOW_TOKENS_MIN 16
#define MBR_LAYOUT_WINDOW_WASTE_PARTS 100

/* No reservation, window, granule or extent is larger. Rounding any of them up to whole extents
 * then never overflows. */
#define MBR_LAYOUT_BYTES_MAX (UINT64_C(1) << 62)

typedef struct mbr_byte_range {
    uint64_t start; /* bytes */
    uint64_t end;   /* exclusive; equal to start: empty */
} mbr_byte_range;

/* All that a kernel needs to find an element, in every layout by one formula:
 *
 *     offset = (token / window_tokens) * window_bytes + (token % window_tokens) * token_bytes
 *            + layer * layer_bytes + plane * plane_bytes + head * head_bytes
 *            + element * element_bytes
 *
 * Without windows the whole sequence is one window and the quotient is 0. */
typedef struct mbr_layout_strides {
    uint64_t window_tokens;
    uint64_t window_bytes;
    uint64_t token_bytes;
    uint64_t layer_bytes;
    uint64_t plane_bytes;
    uint64_t head_bytes;
    uint64_t element_bytes;
} mbr_layout_strides;

/* What a layout is made from. */
typedef struct mbr_layout_request {
    mbr_layout_kind kind;
    uint64_t max_tokens;            /* room of the reservation, at least 1 */
    uint64_t granule_bytes;         /* of the mechanism, 1 to MBR_LAYOUT_BYTES_MAX */
    uint64_t window_tokens;         /* window-major; 0: the default W. Ignored elsewhere */
    uint64_t fragment_stride_bytes; /* head-major and seq-major: from one fragment's base to the
                                       next; 0: packed (max_tokens * c). Ignored elsewhere */
} mbr_layout_request;

/* A layout in a reservation that starts at offset 0.
 *
 *     head-major, seq-major, token-major:
 *         fragment f covers [f * fragment_stride, f * fragment_stride + max_tokens * row), and its
 *         base need not lie on a granule
 *         fragments * row = bytes of a token;  span = (fragments - 1) * stride + max_tokens * row
 *     window-major:
 *         window = round_up(W * bytes of a token, granule), windows = ceil(max_tokens / W)
 *         piece f of window w starts at w * window + f * W * row;  span = windows * window */
typedef struct mbr_layout {
    mbr_layout_kind kind;
    mbr_layer_group group;
    uint64_t max_tokens;
    uint64_t granule_bytes;
    uint64_t fragments;             /* F; window-major: pieces inside each window */
    uint64_t row_bytes;             /* c: contiguous bytes of one token in one fragment or piece */
    uint64_t fragment_stride_bytes; /* base to base; window-major: W * row_bytes */
    uint64_t window_tokens;         /* W; 0 in the other layouts */
    uint64_t window_bytes;          /* padded to whole granules; 0 in the other layouts */
    uint64_t span_bytes;            /* end of the last row, or of the last window */
    mbr_layout_strides strides;
} mbr_layout;

/* "head-major" and so on; the name of a kind below MBR_LAYOUT_COUNT. */
const char *mbr_layout_name(mbr_layout_kind kind);

/* Reads a layout's name. On a refusal *kind is head-major and the text lists the names. */
mbr_geometry_status mbr_layout_parse(
    const char *text, mbr_layout_kind *kind, mbr_geometry_error *error);

/* Lays `group` out. Refused: a size of 0, a stride below a fragment, and anything larger than
 * MBR_LAYOUT_BYTES_MAX (the error says which figure would fit). On a refusal *layout is zero. */
mbr_geometry_status mbr_layout_init(mbr_layout *layout, const mbr_layer_group *group,
    const mbr_layout_request *request, mbr_geometry_error *error);

/* The check of the equation above; every other function asserts it. */
bool mbr_layout_is_valid(const mbr_layout *layout);

/* The smallest W >= 16 whose window wastes at most 1 % of its granules. Both sizes at least 1,
 * token_bytes at most MBR_GEOMETRY_TOKEN_BYTES_MAX. */
uint64_t mbr_layout_default_window(uint64_t token_bytes, uint64_t granule_bytes);

/* Offset of element 0 of a row. Every index below its count; token below max_tokens. */
uint64_t mbr_layout_offset(
    const mbr_layout *layout, uint64_t layer, uint64_t plane, uint64_t head, uint64_t token);

/* A span is the stretch of a reservation that grows as a whole with the tokens: each fragment of
 * the split layouts, and the single one of token-major and window-major. Spans ascend. */
uint64_t mbr_layout_span_count(const mbr_layout *layout);

/* Bytes of span `index` that hold a row of the tokens [first, end); in window-major the windows
 * that these tokens touch. Empty for no token. first <= end <= max_tokens. */
mbr_byte_range mbr_layout_span_touched(
    const mbr_layout *layout, uint64_t index, uint64_t first, uint64_t end);

/* Bytes of span `index` that belong to the tokens [0, end) and to no later one; in window-major
 * the whole windows among these tokens. */
mbr_byte_range mbr_layout_span_filled(const mbr_layout *layout, uint64_t index, uint64_t end);

/* Rows of the tokens [0, tokens) that have a granule's boundary inside and so lie in two granules
 * or more (Phi-4 2560 B, Phi-3-mini 6144 B, MLA 1152 B). Takes time by granules, for reports. */
uint64_t mbr_layout_straddling_rows(const mbr_layout *layout, uint64_t tokens);

#endif
