/* The records of one paged store, for the files of this folder alone.
 *
 * Pages are of two areas: the store's own, where sequences share them, and the saved one, where a
 * preempted sequence has pages that are its alone. An area is one range; extents of it are
 * committed when no free page is left and given back when none of their pages is used:
 *
 *     absent --grow--> empty <--> partial <--> full; empty --decommit--> absent
 *
 * At rest, of one area, of the store's own, and over all sequences:
 *
 *     committed pages = pages in use + free_count
 *     pages in use = shared_count + exclusive_count
 *     sum of exclusive_count = exclusive_count of the store
 *
 * Whom a page that one alone has belongs to is known without a list: `holders` is the XOR of all
 * that have it, so with one reference it is that one.
 *
 * Locking: `lock` guards everything but what is said below; nothing of the client interface is
 * called under it, and no page is copied. What is on its way - pages taken, extents that grow or
 * leave, a sequence that moves - belongs to the call that is at it. A sequence's list of pages and
 * its lengths belong to the thread that uses it, or to the call that moves it. */
#ifndef MEMBRANE_HOST_HOLDER_PAGED_INTERNAL_H
#define MEMBRANE_HOST_HOLDER_PAGED_INTERNAL_H

#include "abi/base/assert.h"
#include "abi/base/checked.h"
#include "abi/base/error.h"
#include "abi/base/growable.h"
#include "abi/base/lock.h"
#include "abi/base/seam.h"
#include "abi/base/state.h"
#include "host/bind/giver.h"
#include "host/bind/table.h"
#include "membrane/manager.h"
#include "membrane/memory.h"
#include "membrane/paged.h"
#include "membrane/range.h"

#include <string.h>

#define MBR_PAGED_SAVED UINT32_C(0x80000000) /* in a slot: the page is of the saved area */
#define MBR_PAGED_PAGE_LIMIT_COUNT (MBR_PAGED_SAVED - 1) /* of an area */
#define MBR_PAGED_SLOT_LIMIT_COUNT (UINT32_MAX - 1)      /* of a sequence */
#define MBR_PAGED_TOKEN_LIMIT_COUNT (UINT64_C(1) << 40)  /* the same */
#define MBR_PAGED_MOVE_INLINE_COUNT 16                   /* moves of one call without the heap */

typedef struct mbr_paged_record mbr_paged_record;

/* What the request comes to; no field changes afterwards. */
typedef struct mbr_paged_shape {
    uint64_t token_bytes, page_tokens, page_bytes;
    uint64_t max_tokens, window_tokens, sink_tokens;
    uint32_t sink_slot_count; /* slots that hold a sink's rows */
} mbr_paged_shape;

typedef struct mbr_paged_page {
    uintptr_t holders;  /* the records that have it, XORed */
    uint32_t ref_count; /* of the saved area: not counted */
    uint32_t next_free; /* while it is free: the next of its extent, index + 1; 0: the last */
} mbr_paged_page;

typedef struct mbr_paged_extent {
    struct mbr_paged_extent *prev, *next; /* of the list that it is on; full ones are on none */
    uint32_t first_free;                  /* index + 1 */
    uint32_t free_count;
    uint32_t yield_count; /* scratch of could_give, else 0 */
} mbr_paged_extent;

typedef struct mbr_paged_area {
    mbr_binding_handle binding; /* 0: the store has no such area */
    mbr_holder_handle holder;
    mbr_range_handle range; /* 0: none */
    uint64_t address;
    uint64_t extent_bytes;
    uint32_t extent_pages, extent_count;
    mbr_paged_page *pages;
    mbr_paged_extent *extents;
    mbr_paged_extent *absent, *empty, *partial; /* the one to take is the first */
    uint32_t absent_count, empty_count;
    uint32_t present_count; /* committed extents */
    uint64_t free_count;    /* pages */
} mbr_paged_area;

struct mbr_paged {
    mbr_manager *manager;
    mbr_heap heap;
    mbr_paged_shape shape;
    mbr_giver giver;     /* of its own area's holder */
    mbr_giver saver;     /* of the saved area's, where it saves elsewhere */
    mbr_table sequences; /* records by handle; has a lock of its own */
    mbr_lock lock;
    mbr_condition moved; /* some record is not MOVING any more */
    mbr_paged_area own, saved;
    uint32_t keep_count;        /* empty extents of its own area that stay committed */
    bool saves_elsewhere;       /* the saved area is another authority's */
    mbr_paged_record *yielding; /* offered and preempted, the first offered first */
    uint64_t sequence_count, shared_count, exclusive_count;
    uint64_t copied_bytes, preempted_count;
};

struct mbr_paged_record {
    mbr_paged_record *prev, *next; /* while it is on `yielding` */
    uint32_t state;                /* MBR_PAGED_… */
    uint32_t slot_count, slot_capacity;
    uint32_t first_slot; /* behind the sinks, the first that a window has left */
    uint32_t *slots;     /* pages in order; MBR_PAGED_NO_PAGE: dropped; MBR_PAGED_SAVED | page */
    uint64_t tokens;
    uint64_t quiet_tokens; /* appending up to here changes nothing but `tokens` */
    uint64_t held_count, exclusive_count, saved_count; /* pages */
};

extern const mbr_state_table mbr_paged_states;

/* ---- shape.c: arithmetic --------------------------------------------------------------------- */
mbr_status mbr_paged_shape_init(
    mbr_paged_shape *shape, const mbr_paged_request *request, mbr_error *error);
/* Extents of one area: as large as asked or as the mechanism recommends, without a part of a page
 * but for less than a granule. */
mbr_status mbr_paged_cut_area(mbr_paged_area *area, const mbr_paged_shape *shape,
    uint64_t extent_bytes, uint64_t max_pages, const mbr_mechanism_figures *mechanism,
    mbr_error *error);
static inline uint64_t mbr_paged_slots_of(const mbr_paged_shape *shape, uint64_t tokens)
{
    return tokens / shape->page_tokens + (tokens % shape->page_tokens != 0);
}
/* The first token that a window leaves of so many. */
static inline uint64_t mbr_paged_window_first(const mbr_paged_shape *shape, uint64_t tokens)
{
    return shape->window_tokens == 0 || tokens < shape->window_tokens
        ? 0
        : tokens - shape->window_tokens;
}

/* ---- area.c: extents and free pages ---------------------------------------------------------- */
mbr_status mbr_area_init(mbr_paged *store, mbr_paged_area *area, mbr_error *error);
/* Gives the range back, once more where that was refused; what else it has goes with finish. */
mbr_status mbr_area_release(mbr_paged *store, mbr_paged_area *area, mbr_error *error);
void mbr_area_finish(mbr_paged *store, mbr_paged_area *area);
static inline uint64_t mbr_area_address(
    const mbr_paged *store, const mbr_paged_area *area, uint32_t page)
{
    return area->address + page / area->extent_pages * area->extent_bytes +
        page % area->extent_pages * store->shape.page_bytes;
}

/* One page of a transaction: it will stand in this slot. */
typedef struct mbr_paged_move {
    uint32_t slot;
    uint32_t page;
} mbr_paged_move;

/* A free page for each move, all or none, from extents that are granted and committed where no
 * free page is left. The lock is dropped meanwhile. */
mbr_status mbr_area_take_locked(mbr_paged *store, mbr_paged_area *area, mbr_paged_move *moves,
    uint32_t count, mbr_refusal *refusal, mbr_error *error) MBR_REQUIRES(&store->lock);
void mbr_area_put_locked(mbr_paged *store, mbr_paged_area *area, uint32_t page)
    MBR_REQUIRES(&store->lock);
/* Gives empty extents back down to `keep_count`; the bytes that went. One that is refused stays
 * empty and committed; one that waits or is stuck is no byte that went. The lock is dropped
 * meanwhile. */
uint64_t mbr_area_trim_locked(mbr_paged *store, mbr_paged_area *area, uint32_t keep_count)
    MBR_REQUIRES(&store->lock);

/* ---- sequence.c ------------------------------------------------------------------------------ */
/* The record, once nobody else moves it; NULL: *status says why. `resident`: in that state alone.
 */
mbr_paged_record *mbr_paged_find_locked(mbr_paged *store, mbr_paged_sequence sequence,
    bool resident, mbr_status *status, mbr_error *error) MBR_REQUIRES(&store->lock);
void mbr_paged_set_state(mbr_paged_record *record, uint32_t state);
/* A reference of the store's own page more, less. */
void mbr_paged_ref_locked(mbr_paged *store, mbr_paged_record *record, uint32_t page)
    MBR_REQUIRES(&store->lock);
void mbr_paged_unref_locked(mbr_paged *store, mbr_paged_record *record, uint32_t page)
    MBR_REQUIRES(&store->lock);
/* Whatever stands in the slot is no longer the record's. */
void mbr_paged_empty_slot_locked(mbr_paged *store, mbr_paged_record *record, uint32_t slot)
    MBR_REQUIRES(&store->lock);
/* Notes up to where appending changes nothing but the length. */
void mbr_paged_quieten_locked(mbr_paged *store, mbr_paged_record *record)
    MBR_REQUIRES(&store->lock);

/* ---- preempt.c ------------------------------------------------------------------------------- */
/* What of so much room for saved pages its sequences would take if they went; any thread, with no
 * lock held. */
uint64_t mbr_paged_would_save(mbr_paged *store, uint64_t room_bytes);

/* ---- move.c: the transaction ----------------------------------------------------------------- */
typedef enum mbr_paged_purpose {
    MBR_PAGED_WRITE,   /* slots that are new, or whose page others have too */
    MBR_PAGED_SAVE,    /* pages of the record alone, to the saved area */
    MBR_PAGED_RESTORE, /* and back */
} mbr_paged_purpose;

/* Takes a page for each slot in [first, end) that the purpose wants another one for, copies the
 * rows of its present tokens, and only then puts the new pages in their places; slots past the last
 * become part of the list. On failure nothing has changed. The lock is dropped meanwhile. */
mbr_status mbr_paged_move_locked(mbr_paged *store, mbr_paged_record *record, uint32_t first,
    uint32_t end, mbr_paged_purpose purpose, mbr_refusal *refusal, mbr_error *error)
    MBR_REQUIRES(&store->lock);

#endif
