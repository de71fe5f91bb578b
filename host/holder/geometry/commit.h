/* Exact commit ranges: which extents must have memory behind them for the tokens that live.
 *
 * Thread rule: every function is pure; cursors and deltas are plain data of one caller. Nothing
 * allocates. Ranges are half-open, in bytes, whole extents, ascending, disjoint and not adjacent
 * (merged). Token ranges are half-open and end at most at the layout's max_tokens. */
#ifndef MEMBRANE_HOLDER_GEOMETRY_COMMIT_H
#define MEMBRANE_HOLDER_GEOMETRY_COMMIT_H

#include "host/holder/geometry/extents.h"

typedef struct mbr_token_range {
    uint64_t first;
    uint64_t end; /* exclusive */
} mbr_token_range;

/* Walks S(tokens): the extents that hold a byte of these tokens in any fragment.
 *
 *     S([a, b)) = union over spans of [touched.start, touched.end) rounded out to extents */
typedef struct mbr_commit_cursor {
    const mbr_extents *extents; /* borrowed; must outlive the cursor */
    mbr_token_range tokens;
    uint64_t next_span;
} mbr_commit_cursor;

/* Starts a walk over S(tokens). */
mbr_commit_cursor mbr_commit_begin(const mbr_extents *extents, mbr_token_range tokens);

/* The next range. False, and *range empty, at the end. */
bool mbr_commit_next(mbr_commit_cursor *cursor, mbr_byte_range *range);

/* Walks S(to) minus S(from): what to commit when the live tokens go from `from` to `to`. With the
 * two swapped it is what may be decommitted. */
typedef struct mbr_commit_delta {
    mbr_commit_cursor wanted;
    mbr_commit_cursor held;
    mbr_byte_range wanted_range; /* the rest of the current one; empty: fetch the next */
    mbr_byte_range held_range;   /* the first that ends behind the last answer; empty: none left */
} mbr_commit_delta;

mbr_commit_delta mbr_commit_between(
    const mbr_extents *extents, mbr_token_range from, mbr_token_range to);

/* The next range of the difference. False, and *range empty, at the end. */
bool mbr_commit_delta_next(mbr_commit_delta *delta, mbr_byte_range *range);

/* Growth of a sequence from `from_tokens` to `to_tokens` (from <= to), in a sliding group with what
 * the window leaves behind still held: commit first, give back afterwards. */
mbr_commit_delta mbr_commit_grow(
    const mbr_extents *extents, uint64_t from_tokens, uint64_t to_tokens);

/* Whole extents that a sequence of `tokens` may give back after it grew from `from_tokens`: those
 * behind the window of a sliding group. Empty for full attention. */
mbr_commit_delta mbr_commit_behind_window(
    const mbr_extents *extents, uint64_t from_tokens, uint64_t tokens);

/* Live tokens of a sequence of `tokens`: all, or the window's. */
mbr_token_range mbr_commit_live(const mbr_extents *extents, uint64_t tokens);

/* Bytes and number of the extents of S(tokens). Takes time by fragments. */
uint64_t mbr_commit_bytes(const mbr_extents *extents, mbr_token_range tokens);
uint64_t mbr_commit_extent_count(const mbr_extents *extents, mbr_token_range tokens);

/* g * the granules that hold a live byte: what the same tokens would take with extents of one
 * granule (window-major: one window). At most mbr_commit_bytes. */
uint64_t mbr_commit_granule_bytes(const mbr_extents *extents, mbr_token_range tokens);

/* Bytes committed for the first token: the floor of the layout under these extents. */
uint64_t mbr_commit_floor_bytes(const mbr_extents *extents);

/* How many tokens have every row inside the extents committed for `tokens` tokens: growing up to
 * this number commits nothing. Whole rows only; at least `tokens`, at most max_tokens; 0 for 0. */
uint64_t mbr_commit_capacity_tokens(const mbr_extents *extents, uint64_t tokens);

#endif
