/* Copies of rows between two places of one geometry, enqueued on a stream: boundaries of a prefix,
 * and eager growth. Waits for nothing. */
#include "host/holder/kv/internal.h"

static mbr_status copy_bytes(
    mbr_kv_copy *copy, uint64_t to_offset, uint64_t from_offset, uint64_t bytes)
{
    if (bytes == 0)
        return MBR_OK;
    mbr_status status = mbr_ep_copy(copy->manager, copy->stream, copy->to_address + to_offset,
        copy->from_address + from_offset, bytes, copy->error);
    if (status == MBR_OK)
        copy->copied_bytes += bytes;
    return status;
}

/* Rows of [first, end) in one window: one run for each layer and plane. */
static mbr_status copy_part_of_window(mbr_kv_copy *copy, uint64_t first, uint64_t end)
{
    const mbr_layout *layout = copy->to_layout;
    uint64_t start = first / layout->window_tokens * layout->window_bytes +
        first % layout->window_tokens * layout->row_bytes;
    mbr_status status = MBR_OK;
    for (uint64_t f = 0; f < layout->fragments && status == MBR_OK; f++) {
        uint64_t offset = start + f * layout->fragment_stride_bytes;
        status = copy_bytes(copy, offset, offset, (end - first) * layout->row_bytes);
    }
    return status;
}

/* Whole windows in one piece; of others the rows alone, because whoever writes the later rows of
 * the same window may do so meanwhile. Windows lie alike in both places. */
static mbr_status copy_windows(mbr_kv_copy *copy, mbr_token_range tokens)
{
    const mbr_layout *layout = copy->to_layout;
    uint64_t window = layout->window_tokens, first = tokens.first;
    mbr_status status = MBR_OK;
    while (first < tokens.end && status == MBR_OK) {
        uint64_t end = mbr_min(tokens.end, (first / window + 1) * window);
        if (first % window == 0 && tokens.end - first >= window) {
            uint64_t offset = first / window * layout->window_bytes;
            uint64_t count = (tokens.end - first) / window;
            end = first + count * window;
            status = copy_bytes(copy, offset, offset, count * layout->window_bytes);
        } else {
            status = copy_part_of_window(copy, first, end);
        }
        first = end;
    }
    return status;
}

static mbr_status copy_windows_outside(
    mbr_kv_copy *copy, mbr_token_range tokens, mbr_byte_range shared)
{
    const mbr_layout *layout = copy->to_layout;
    uint64_t from = shared.start / layout->window_bytes * layout->window_tokens;
    uint64_t to = shared.end / layout->window_bytes * layout->window_tokens;
    mbr_token_range before = {tokens.first, mbr_max(tokens.first, mbr_min(from, tokens.end))};
    mbr_token_range behind = {mbr_min(mbr_max(to, before.end), tokens.end), tokens.end};
    mbr_status status = copy_windows(copy, before);
    return status == MBR_OK ? copy_windows(copy, behind) : status;
}

mbr_status mbr_kv_copy_span(
    mbr_kv_copy *copy, uint64_t span, mbr_token_range tokens, const mbr_byte_range *shared)
{
    mbr_byte_range to = mbr_layout_span_touched(copy->to_layout, span, tokens.first, tokens.end);
    mbr_byte_range from =
        mbr_layout_span_touched(copy->from_layout, span, tokens.first, tokens.end);
    mbr_byte_range none = {to.end, to.end};
    if (shared == NULL)
        shared = &none;
    if (copy->to_layout->kind == MBR_LAYOUT_WINDOW_MAJOR)
        return copy_windows_outside(copy, tokens, *shared);
    uint64_t before = mbr_min(mbr_max(shared->start, to.start), to.end) - to.start;
    uint64_t behind = mbr_min(mbr_max(shared->end, to.start + before), to.end) - to.start;
    mbr_status status = copy_bytes(copy, to.start, from.start, before);
    if (status == MBR_OK)
        status =
            copy_bytes(copy, to.start + behind, from.start + behind, to.end - to.start - behind);
    return status;
}
