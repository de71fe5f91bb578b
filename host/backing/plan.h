/* A commit plan: for every hole in the parts of one growth, where its extent comes from. It is made
 * under the backing's lock, while the ranges are marked, and takes what it names out of the pool
 * and marks the ranges it takes parked extents from: so it is exact. */
#ifndef MEMBRANE_HOST_BACKING_PLAN_H
#define MEMBRANE_HOST_BACKING_PLAN_H

#include "host/backing/internal.h"

typedef enum mbr_source {
    MBR_SOURCE_PARKED,  /* in this very slot: no call */
    MBR_SOURCE_LEAVING, /* the same, and on its way back behind the plan's stream alone: it stays */
    MBR_SOURCE_POOL,    /* map */
    MBR_SOURCE_STEAL,   /* parked elsewhere: unmap there, map */
    MBR_SOURCE_CREATE,  /* create, map */
} mbr_source;

/* How far an item has come; the undo goes the same steps back. */
typedef enum mbr_item_stage {
    MBR_STAGE_PLANNED = 0,
    MBR_STAGE_UNMAPPED, /* an extent that no slot maps */
    MBR_STAGE_MAPPED,   /* at its new place, not published */
    MBR_STAGE_GONE,     /* undone */
} mbr_item_stage;

typedef struct mbr_plan_item {
    mbr_range *range;
    uint64_t index, offset, bytes;
    uint64_t before_bytes; /* of the parts, counted through in their order */
    mbr_source source;
    mbr_item_stage stage;
    bool filled;        /* or written, or may be: work was enqueued */
    mbr_extent *extent; /* NULL until created */
    mbr_range *victim;  /* of STEAL */
    uint64_t victim_index;
} mbr_plan_item;

#define MBR_PLAN_INLINE_COUNT 48 /* more items come from the heap */

typedef struct mbr_plan {
    mbr_backing *backing;
    const mbr_range_part *parts;
    uint32_t part_count;
    const mbr_holder *holder; /* pays; set before, like the next */
    uint64_t stream_id;       /* on which the memory is used first; 0: none is known */
    bool ahead;               /* only empty slots, to be parked; set before, too */
    bool may_steal;           /* no capture is open, so that parked extents may be moved */
    mbr_plan_item *items;
    uint64_t item_count, item_capacity;
    uint64_t part_bytes;                             /* of all parts */
    uint64_t create_bytes, pool_bytes, parked_bytes; /* pool_bytes: also stolen ones */
    uint64_t rejoined_bytes;                         /* leaving ones */
    uint64_t adopted_owned_bytes; /* of pool and parked: what the cache pays for them */
    mbr_plan_item inline_items[MBR_PLAN_INLINE_COUNT];
} mbr_plan;

/* Under the lock: whether the part may grow now. */
mbr_status mbr_plan_check_part(
    const mbr_backing *backing, const mbr_range_part *part, mbr_error *error);
/* Checks the parts, marks their ranges with this plan as editor, and plans. On failure nothing is
 * marked. MBR_BUSY: a slot is stuck, or leaving behind other streams or for another holder; where
 * it maps ahead, also that somebody edits a range. */
mbr_status mbr_plan_make(mbr_plan *plan, mbr_backing *backing, const mbr_range_part *parts,
    uint32_t part_count, mbr_error *error);
/* Plans again after something was evicted; the ranges are still marked, nothing was executed. */
void mbr_plan_sources(mbr_plan *plan);
/* Gives back what was planned and not executed. */
void mbr_plan_drop_sources(mbr_plan *plan);
/* Ends the edit of all ranges, victims included, and frees the items. */
void mbr_plan_finish(mbr_plan *plan);

#endif
