/* Responsible for the set of extents behind live tokens, and for differences of such sets. Never
 * allocates, never calls a mechanism, never remembers what was committed. */
#include "host/holder/geometry/commit.h"

#include "abi/base/assert.h"
#include "abi/base/checked.h"

#include <stddef.h>

static const mbr_byte_range nothing = {0, 0};

static bool is_empty(mbr_byte_range range)
{
    return range.start == range.end;
}

/* Rounds out to whole extents. No overflow: the end is at most the reservation's. */
static mbr_byte_range round_out(const mbr_extent_rule *rule, mbr_byte_range bytes)
{
    mbr_byte_range range = {mbr_extent_rule_start_at(rule, bytes.start), 0};
    bool fits = mbr_extent_rule_next_boundary(rule, bytes.end, &range.end);
    MBR_CHECK(fits);
    return range;
}

static mbr_byte_range span_extents(const mbr_commit_cursor *cursor, uint64_t span)
{
    mbr_byte_range touched = mbr_layout_span_touched(
        &cursor->extents->layout, span, cursor->tokens.first, cursor->tokens.end);
    return round_out(&cursor->extents->rule, touched);
}

mbr_commit_cursor mbr_commit_begin(const mbr_extents *extents, mbr_token_range tokens)
{
    MBR_ASSERT(mbr_extents_is_valid(extents));
    MBR_ASSERT(tokens.first <= tokens.end && tokens.end <= extents->layout.max_tokens);
    mbr_commit_cursor cursor = {extents, tokens, 0};
    if (tokens.first == tokens.end)
        cursor.next_span = mbr_layout_span_count(&extents->layout);
    return cursor;
}

bool mbr_commit_next(mbr_commit_cursor *cursor, mbr_byte_range *range)
{
    uint64_t count = mbr_layout_span_count(&cursor->extents->layout);
    *range = nothing;
    if (cursor->next_span == count)
        return false;
    *range = span_extents(cursor, cursor->next_span++);
    /* Spans ascend, and so do their rounded ends: two neighbours may share an extent. */
    while (cursor->next_span < count) {
        mbr_byte_range next = span_extents(cursor, cursor->next_span);
        if (next.start > range->end)
            break;
        range->end = next.end;
        cursor->next_span++;
    }
    return true;
}

mbr_commit_delta mbr_commit_between(
    const mbr_extents *extents, mbr_token_range from, mbr_token_range to)
{
    mbr_commit_delta delta = {
        .wanted = mbr_commit_begin(extents, to),
        .held = mbr_commit_begin(extents, from),
    };
    mbr_commit_next(&delta.held, &delta.held_range);
    return delta;
}

bool mbr_commit_delta_next(mbr_commit_delta *delta, mbr_byte_range *range)
{
    mbr_byte_range *wanted = &delta->wanted_range, *held = &delta->held_range;
    *range = nothing;
    for (;;) {
        if (is_empty(*wanted) && !mbr_commit_next(&delta->wanted, wanted))
            return false;
        while (!is_empty(*held) && held->end <= wanted->start)
            mbr_commit_next(&delta->held, held);
        if (is_empty(*held) || held->start >= wanted->end) {
            *range = *wanted;
            *wanted = nothing;
            return true;
        }
        if (held->start > wanted->start) {
            *range = (mbr_byte_range){wanted->start, held->start};
            wanted->start = held->start;
            return true;
        }
        wanted->start = mbr_min(held->end, wanted->end);
    }
}

mbr_token_range mbr_commit_live(const mbr_extents *extents, uint64_t tokens)
{
    return (mbr_token_range){mbr_layer_group_first_live(&extents->layout.group, tokens), tokens};
}

mbr_commit_delta mbr_commit_grow(
    const mbr_extents *extents, uint64_t from_tokens, uint64_t to_tokens)
{
    mbr_token_range held = mbr_commit_live(extents, from_tokens);
    mbr_token_range both = {held.first, to_tokens};
    return mbr_commit_between(extents, held, both);
}

mbr_commit_delta mbr_commit_behind_window(
    const mbr_extents *extents, uint64_t from_tokens, uint64_t tokens)
{
    mbr_token_range held = {mbr_commit_live(extents, from_tokens).first, tokens};
    return mbr_commit_between(extents, mbr_commit_live(extents, tokens), held);
}

static uint64_t extents_in(const mbr_extent_rule *rule, mbr_byte_range range)
{
    return mbr_extent_rule_count(rule, range.end) - mbr_extent_rule_count(rule, range.start);
}

uint64_t mbr_commit_bytes(const mbr_extents *extents, mbr_token_range tokens)
{
    mbr_commit_cursor cursor = mbr_commit_begin(extents, tokens);
    uint64_t bytes = 0; /* at most the reservation's */
    mbr_byte_range range;
    while (mbr_commit_next(&cursor, &range))
        bytes += range.end - range.start;
    return bytes;
}

uint64_t mbr_commit_extent_count(const mbr_extents *extents, mbr_token_range tokens)
{
    mbr_commit_cursor cursor = mbr_commit_begin(extents, tokens);
    uint64_t count = 0;
    mbr_byte_range range;
    while (mbr_commit_next(&cursor, &range))
        count += extents_in(&extents->rule, range);
    return count;
}

uint64_t mbr_commit_granule_bytes(const mbr_extents *extents, mbr_token_range tokens)
{
    const mbr_layout *layout = &extents->layout;
    bool windowed = layout->kind == MBR_LAYOUT_WINDOW_MAJOR;
    mbr_extents finest;
    mbr_geometry_status status = mbr_extents_init(
        &finest, layout, windowed ? layout->window_bytes : layout->granule_bytes, NULL);
    MBR_CHECK(status == MBR_GEOMETRY_OK);
    return mbr_commit_bytes(&finest, tokens);
}

uint64_t mbr_commit_floor_bytes(const mbr_extents *extents)
{
    return mbr_commit_bytes(extents, (mbr_token_range){0, 1});
}

/* Tokens whose rows of one span lie whole in `bytes` from the span's first live byte on. */
static uint64_t tokens_in(const mbr_layout *layout, uint64_t bytes)
{
    if (layout->kind == MBR_LAYOUT_WINDOW_MAJOR)
        return bytes / layout->window_bytes * layout->window_tokens;
    return bytes / layout->row_bytes;
}

uint64_t mbr_commit_capacity_tokens(const mbr_extents *extents, uint64_t tokens)
{
    const mbr_layout *layout = &extents->layout;
    mbr_token_range live = mbr_commit_live(extents, tokens);
    mbr_commit_cursor cursor = mbr_commit_begin(extents, live);
    mbr_byte_range range;
    if (!mbr_commit_next(&cursor, &range))
        return 0;
    /* A window is committed whole, also before its first live token. */
    uint64_t first =
        live.first - (layout->window_tokens == 0 ? 0 : live.first % layout->window_tokens);
    uint64_t capacity = layout->max_tokens;
    for (uint64_t span = 0; span < mbr_layout_span_count(layout); span++) {
        mbr_byte_range touched = mbr_layout_span_touched(layout, span, live.first, live.end);
        while (range.end <= touched.start)
            mbr_commit_next(&cursor, &range);
        uint64_t whole = first + tokens_in(layout, range.end - touched.start);
        capacity = mbr_min(capacity, whole);
    }
    return capacity;
}
