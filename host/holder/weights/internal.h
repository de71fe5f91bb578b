/* The records of one weights holder, for the files of this folder alone.
 *
 *     loaded_bytes   = sum of bytes over items that are RESIDENT, PASSING or MOVING, <= budget
 *     resident_bytes = sum of bytes over those of them that are kept, <= budget - passing
 *
 * An item is MOVING while one call pages it in or out without the lock; others wait for that. */
#ifndef MEMBRANE_HOST_HOLDER_WEIGHTS_INTERNAL_H
#define MEMBRANE_HOST_HOLDER_WEIGHTS_INTERNAL_H

#include "abi/base/assert.h"
#include "abi/base/checked.h"
#include "abi/base/error.h"
#include "abi/base/growable.h"
#include "abi/base/lock.h"
#include "abi/base/seam.h"
#include "host/bind/giver.h"
#include "membrane/ep.h"
#include "membrane/manager.h"
#include "membrane/memory.h"
#include "membrane/weights.h"

#define MBR_ITEM_STREAM_COUNT 4 /* distinct streams whose work may still read an item */

typedef enum mbr_item_state {
    MBR_ITEM_OUT = 0,
    MBR_ITEM_MOVING,
    MBR_ITEM_RESIDENT, /* kept */
    MBR_ITEM_PASSING,  /* goes with its last use */
} mbr_item_state;

typedef struct mbr_item {
    uint64_t source_address;
    mbr_item_state state;
    bool is_kept;  /* will be RESIDENT, or was */
    bool is_empty; /* its memory could neither be filled nor freed: to be filled by the next use */
    uint32_t user_count;
    mbr_allocation_handle allocation;
    uint64_t address;
    mbr_stream_handle
        loading; /* on which it was paged in; 0: that is done, or of one stream alone */
    mbr_stream_handle streams[MBR_ITEM_STREAM_COUNT];
    uint32_t stream_uses[MBR_ITEM_STREAM_COUNT]; /* that have not ended, by stream */
    uint32_t stream_count;
    uint64_t passed; /* the last mbr_weights_give that found it in flight */
} mbr_item;

struct mbr_weights {
    mbr_manager *manager;
    mbr_heap heap;
    mbr_binding_handle binding;
    mbr_holder_handle holder;
    mbr_giver giver;
    mbr_weights_policy policy;
    uint64_t budget_bytes, passing_bytes;
    mbr_lock lock;
    mbr_condition moved; /* an item is not MOVING any more */
    uint64_t use_serial, give_serial;
    mbr_weights_figures figures;
    mbr_weight_view *views; /* one an item */
    uint32_t item_count;
    mbr_item items[];
};

/* ---- weights.c ---- */
/* The policy's choice, checked. */
uint32_t mbr_weights_choose_locked(mbr_weights *weights, uint32_t wanted)
    MBR_REQUIRES(&weights->lock);

/* ---- paging.c ---- */
/* Until no call moves the item; the lock is dropped meanwhile. */
void mbr_weights_await_move_locked(mbr_weights *weights, const mbr_item *item)
    MBR_REQUIRES(&weights->lock);
/* Pages a loaded item that nobody uses out; the lock is dropped meanwhile. On failure (mbr_free's)
 * it is as it was. `now`: its streams are done. */
mbr_status mbr_weights_page_out_locked(
    mbr_weights *weights, uint32_t index, bool now, mbr_error *error) MBR_REQUIRES(&weights->lock);

#endif
