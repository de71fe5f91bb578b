/* Sharing of a prefix by whole extents: how much of it, at what cost, and where it refuses why.
 *
 * A prefix is the tokens [0, prefix_tokens) of a sequence. A sliding group keeps only its window of
 * them; an extent that still holds one live token is whole and may be shared, with the dead rows of
 * the same prefix in it.
 *
 * Thread rule: every function is pure and may be called from any thread. */
#ifndef MEMBRANE_HOLDER_GEOMETRY_SHARING_H
#define MEMBRANE_HOLDER_GEOMETRY_SHARING_H

#include "host/holder/geometry/commit.h"

/* One span of a prefix.
 *
 *     shared = [ceil(filled.start), floor(filled.end)) in extents, from the extent of the first
 *              live byte on; never negative
 *
 * What a sharer copies for itself: [live.start, shared.start) where that is not negative, and
 * [shared.end, live.end). Without a shared extent, `shared` is empty at live.end. */
typedef struct mbr_sharing_span {
    mbr_byte_range live;   /* bytes of live tokens; in window-major the windows they touch */
    mbr_byte_range shared; /* whole extents that hold nothing but the prefix */
} mbr_sharing_span;

mbr_sharing_span mbr_sharing_span_at(
    const mbr_extents *extents, uint64_t span, uint64_t prefix_tokens);

/* floor(end / g) - ceil(start / g), 0 where that is negative. A granule of 0 is refused and gives
 * *granules 0. */
mbr_geometry_status mbr_sharing_whole_granules(
    mbr_byte_range range, uint64_t granule_bytes, uint64_t *granules, mbr_geometry_error *error);

/* The sum over all spans. */
typedef struct mbr_sharing {
    uint64_t prefix_bytes;   /* of live tokens, without padding */
    uint64_t shared_extents; /* also the map operations of each sharer */
    uint64_t shared_bytes;   /* of those extents, with padding and dead rows */
    uint64_t boundary_bytes; /* of live tokens outside them: each sharer's own copy */
} mbr_sharing;

/* Refused, with *sharing zero: a prefix above max_tokens. */
mbr_geometry_status mbr_sharing_compute(const mbr_extents *extents, uint64_t prefix_tokens,
    mbr_sharing *sharing, mbr_geometry_error *error);

/* Bytes of the extents that a sharer of the prefix owns itself when it has `tokens` tokens
 * (prefix_tokens <= tokens <= max_tokens): its committed extents without the shared ones. */
uint64_t mbr_sharing_private_bytes(
    const mbr_extents *extents, uint64_t prefix_tokens, uint64_t tokens);

/* (sequences - 1) * shared_bytes. Refused, with *bytes 0: no sequence, and overflow. */
mbr_geometry_status mbr_sharing_saving(
    uint64_t shared_bytes, uint64_t sequences, uint64_t *bytes, mbr_geometry_error *error);

#define MBR_SHARING_UNBOUNDED UINT64_MAX

/* Sequences in a pool of B bytes, prefix p and private q bytes each. Unshared: floor(B / (p + q)).
 * Shared: floor((B - p) / q). 0 if B < p + q; MBR_SHARING_UNBOUNDED where the divisor is 0. */
typedef struct mbr_sharing_capacity {
    uint64_t unshared;
    uint64_t shared;
} mbr_sharing_capacity;

mbr_sharing_capacity mbr_sharing_pool_capacity(
    uint64_t pool_bytes, uint64_t prefix_bytes, uint64_t private_bytes);

/* The two conditions and no other; a refusal names those that fail. */
typedef enum mbr_sharing_condition {
    MBR_SHARING_MECHANISM = 1, /* the mechanism offers `virtual` and `shared` */
    MBR_SHARING_EXTENT = 2,    /* at least one whole extent lies inside the prefix */
} mbr_sharing_condition;

typedef struct mbr_sharing_refusal {
    uint32_t failed;        /* set of mbr_sharing_condition */
    uint64_t prefix_tokens; /* the next longer prefix that works; 0: none in this reservation */
    uint32_t layouts;       /* set of 1 << mbr_layout_kind: those that would share this prefix with
                               their default extents */
    uint64_t extent_bytes;  /* an extent that works for this prefix and layout, the largest one
                               unless a window slides; 0: none */
    char text[512];         /* one line with all of this */
} mbr_sharing_refusal;

/* True when the prefix can be shared; else *refusal says why and what would work. The prefix is at
 * most max_tokens. *refusal is zero on success. */
bool mbr_sharing_check(const mbr_extents *extents, uint64_t prefix_tokens, bool has_virtual,
    bool has_shared, mbr_sharing_refusal *refusal);

#endif
