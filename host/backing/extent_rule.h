/* The size of an extent as a function of its offset in the reservation. The same rule in every
 * sequence of a geometry makes their prefixes line up, so that whole extents can be shared.
 *
 * Thread rule: every function is pure and may be called from any thread; a rule is plain data that
 * nobody changes once it is in use. All sizes and offsets are in bytes. */
#ifndef MEMBRANE_BACKING_EXTENT_RULE_H
#define MEMBRANE_BACKING_EXTENT_RULE_H

#include <stdbool.h>
#include <stdint.h>

/* Window-major grows its extents with these two unless the caller chose others. */
#define MBR_EXTENT_RULE_DEFAULT_MAX_BYTES (UINT64_C(64) << 20)
#define MBR_EXTENT_RULE_DEFAULT_DIVISOR UINT64_C(16)

/* Extents tile the reservation from offset 0 without a gap:
 *
 *     boundary(0) = 0,  boundary(i + 1) = boundary(i) + size_at(boundary(i))
 *     size_at(o)  = unit * 2^k with the largest k so that
 *                   unit * 2^k <= o / divisor,  unit * 2^k <= max,  unit * 2^k divides o;
 *                   `unit` where no such k exists
 *
 * A divisor of 0 means fixed extents: size_at(o) = unit everywhere.
 * Extents of one size begin at divisor * unit * 2^k, a multiple of that size: so "divides o" holds
 * at every boundary by itself, an extent never straddles a change of size, and the extent around
 * any offset is found without walking the ones before it. */
typedef struct mbr_extent_rule {
    uint64_t granule_bytes; /* the mechanism's granule, as queried */
    uint64_t unit_bytes;    /* smallest extent: one padded window, or the fixed extent */
    uint64_t max_bytes;     /* growth stops here; a unit above it stays as it is */
    uint64_t divisor;       /* an extent is at most offset / divisor; 0: fixed extents */
} mbr_extent_rule;

/* True when `rule` satisfies its equation: no size is 0 and the unit is whole granules. Every other
 * function asserts it. */
bool mbr_extent_rule_is_valid(const mbr_extent_rule *rule);

/* The rule for fixed extents of `extent_bytes`. The caller checks what comes from a user. */
mbr_extent_rule mbr_extent_rule_fixed(uint64_t granule_bytes, uint64_t extent_bytes);

/* The rule whose extents grow with the offset, from one unit up to the default limit. */
mbr_extent_rule mbr_extent_rule_growing(uint64_t granule_bytes, uint64_t unit_bytes);

/* Size of the extent that contains `offset`; at a boundary, of the extent that starts there. */
uint64_t mbr_extent_rule_size_at(const mbr_extent_rule *rule, uint64_t offset);

/* Start of the extent that contains `offset`: the last boundary at or before it. */
uint64_t mbr_extent_rule_start_at(const mbr_extent_rule *rule, uint64_t offset);

/* The first boundary at or after `offset`. False, and *boundary 0, when it lies beyond 2^64 - 1. */
bool mbr_extent_rule_next_boundary(
    const mbr_extent_rule *rule, uint64_t offset, uint64_t *boundary);

/* Number of extents that hold a byte of [0, bytes). At a boundary this is also the index of the
 * extent that starts there. */
uint64_t mbr_extent_rule_count(const mbr_extent_rule *rule, uint64_t bytes);

/* Start of the extent with this index, counted from 0. False, and *offset 0, when it lies beyond
 * 2^64 - 1. */
bool mbr_extent_rule_offset_of(const mbr_extent_rule *rule, uint64_t index, uint64_t *offset);

#endif
