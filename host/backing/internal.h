/* The records of one backing, for the files of this folder alone.
 *
 * A range is cut into slots by its extent rule; a slot is the place of one extent. An extent's
 * users are the slots that map it and the prefixes that keep it:
 *
 *     slot state   extent in it   paid by
 *     empty        none           nobody
 *     parked       parked         the cache
 *     committed    mapped/shared  the slot's holder, or the holder of a prefix that keeps it
 *     alias        shared         another user: read-only here
 *     parked alias shared/mapped  another user, or the cache where none is left: nobody's use
 *     leaving      mapped/shared  as before, until its streams are done
 *     stuck        quarantined    as before, until a retry unmaps it, or for good
 *
 * A committed or leaving slot may be sealed: its range has lost the access to write there, until
 * the extent is nobody else's any more (seal.c).
 *
 * A range has at most one editor at a time: whoever marked it may call the plugin for it without
 * the lock, and others wait for it (mbr_range_await_editor). */
#ifndef MEMBRANE_HOST_BACKING_INTERNAL_H
#define MEMBRANE_HOST_BACKING_INTERNAL_H

#include "abi/base/assert.h"
#include "abi/base/checked.h"
#include "abi/base/error.h"
#include "abi/base/growable.h"
#include "abi/base/lock.h"
#include "host/backing/backing.h"
#include "host/backing/extent_rule.h"

#include <stdatomic.h>

#define MBR_RANGE_BUCKET_COUNT 256        /* cached ranges by shape */
#define MBR_CACHED_RANGE_LIMIT_COUNT 4096 /* cached ranges, parked ones included */
#define MBR_POOL_CLASS_LIMIT_COUNT 64     /* distinct extent sizes in the pool */
#define MBR_BUSY_WAIT_DEFAULT_NS UINT64_C(10000000000)
#define MBR_LARGE_GRANT_BYTES (UINT64_C(64) << 20) /* from here on the limit is sampled first */
#define MBR_SLOT_LIMIT_COUNT (UINT64_C(1) << 24)   /* slots of one range */

typedef struct mbr_extent mbr_extent;

typedef enum mbr_slot_state {
    MBR_SLOT_EMPTY = 0,
    MBR_SLOT_PARKED,
    MBR_SLOT_COMMITTED,
    MBR_SLOT_ALIAS,
    MBR_SLOT_PARKED_ALIAS,
    MBR_SLOT_LEAVING,
    MBR_SLOT_STUCK,
} mbr_slot_state;

typedef struct mbr_slot {
    mbr_extent *extent;
    mbr_holder *holder;           /* whose use it is; NULL while parked, as an alias too */
    struct mbr_slot *next, *prev; /* the extent's other users */
    mbr_slot_state state;
    bool was_alias;          /* of a leaving slot */
    bool lost;               /* in a range that ended with its context lost */
    struct mbr_leave *leave; /* of a leaving slot: the decommit that it waits for (release.c) */
    struct mbr_range *alias_range; /* of a parked alias: its own */
    bool planned;                  /* by the plan that edits the range: parts may overlap */
    bool is_ahead;                 /* of a parked slot: no life of the range has used it yet */
    bool may_retry;                /* of a stuck slot: its unmap was refused and changed nothing */
    bool is_sealed;                /* read-only, or perhaps so where an answer cannot be told */
    uint32_t tried;                /* in the last round of retries that looked at it */
} mbr_slot;

/* A prefix's use of an extent. */
typedef struct mbr_keep {
    mbr_extent *extent;
    mbr_prefix *prefix;
    struct mbr_keep *next, *prev; /* the extent's other keeps */
    uint32_t piece;               /* of the prefix */
    uint64_t offset_bytes;        /* in the piece's range, and so in every target */
    mbr_range *source;            /* the piece's range, if it still has the extent (seal.c) */
} mbr_keep;

struct mbr_extent {
    uint64_t id;
    uint64_t bytes;
    uint64_t owned_bytes;
    _Atomic uint32_t state; /* mbr_extent_state */
    uint32_t content;       /* MBR_CONTENT_… */
    uint32_t isolation_group;
    uint32_t slot_count;         /* slots that map it */
    uint32_t parked_alias_count; /* of them, the last ones of the list */
    uint32_t stuck_count;        /* of them, those that nobody uses and that cannot be unmapped */
    uint32_t lost_count;         /* of them, those that are lost */
    uint32_t attaching_count;    /* mappings of the attach under way, in no slot yet */
    mbr_holder *payer;
    mbr_slot *slots;
    mbr_keep *keeps;
    uint64_t pooled_serial;  /* rises with each put: the pool's lowest is its coldest */
    bool may_retry;          /* withheld because destroy refused and changed nothing */
    mbr_extent *next, *prev; /* in the pool's class, or among the withheld */
};

typedef struct mbr_pool_class {
    uint64_t bytes;
    mbr_extent *extents; /* coldest first */
} mbr_pool_class;

struct mbr_range {
    mbr_backing *backing;
    mbr_context *context; /* NULL while cached */
    uint64_t handle;
    uint64_t reservation_id;
    uint64_t address;
    uint64_t bytes;
    uint64_t align_bytes;
    mbr_extent_rule rule;
    uint32_t isolation_group;
    bool ended;    /* no new work */
    bool cached;   /* in the cache's lists */
    bool retained; /* out of use for good, or until the end of a lost context is confirmed */
    const void *editor;
    bool growing;          /* its editor is a plan that grows it, not one that takes from it */
    bool is_mapping_ahead; /* its editor fills empty slots alone: what is parked may be adopted */
    mbr_slot *slots;
    uint64_t slot_count;
    _Atomic uint64_t committed_end; /* [0, end) is committed or aliased */
    uint64_t committed_bytes, alias_bytes, parked_bytes, leaving_bytes;
    uint64_t ahead_bytes; /* of parked */
    uint64_t ahead_ns;    /* when the last of them was mapped */
    uint64_t stuck_count;
    uint64_t sealed_count;
    /* The stream of fills that an undo did not see done; 0: none. Before, no stuck place is tried
     * again; ended meanwhile, the range keeps its context pinned for the question. */
    uint64_t fill_stream_id;
    uint32_t fill_asked_round; /* of retries */
    bool keeps_pin;
    uint64_t parked_alias_count;
    uint64_t leave_count;     /* decommits in the queue; the end waits for them */
    struct mbr_leave *leaves; /* the same, but for what is lost; none goes while a plan edits */
    mbr_graphs graphs; /* those that may touch it: made or grown while their captures were open */
    uint64_t remap_epoch; /* rises when addresses may change what is behind them */
    uint64_t pin_count;
    uint64_t view_count;  /* counted in debug builds */
    bool end_waits, lost; /* lost: a part of it will never be known to be done */
    mbr_settled end_how;
    mbr_deferred deferred;                       /* of its end */
    struct mbr_range *next, *prev;               /* live, cached (coldest first) or spare */
    struct mbr_range *bucket_next, *bucket_prev; /* cached ranges of one shape */
    struct mbr_range *ahead_next, *ahead_prev;   /* that have something ahead */
    struct mbr_range *alias_next, *alias_prev;   /* that have parked aliases */
};

/* A decommit, until its streams are done. */
typedef struct mbr_leave {
    mbr_deferred deferred;
    mbr_range *range;
    uint64_t first, end; /* slots */
    bool is_before;      /* the plan that edits the range: its work runs after this one's streams */
    bool is_former; /* a growth kept places of it: work that it waits for may still touch them */
    struct mbr_leave *next, *prev; /* of the range */
} mbr_leave;

/* The place may have been kept from this one. It is not unmapped before it is settled, whatever a
 * later decommit waits for. */
static inline bool mbr_leave_is_former(const mbr_leave *leave, uint64_t index)
{
    return leave->is_former && leave->first <= index && index < leave->end;
}

/* One allocation of the plugin. Made when it is taken, so that giving it cannot fail. */
typedef struct mbr_eager_span {
    const mbr_context *context;
    uint64_t allocation_id; /* the port's */
    uint64_t address, owned_bytes;
    bool may_retry;                     /* its release was refused and changed nothing */
    struct mbr_eager_span *next, *prev; /* retained or withheld ones */
} mbr_eager_span;

/* What stands behind a mechanism whose memory ends with its context. */
typedef enum mbr_device_state {
    MBR_DEVICE_LIVES = 0,
    MBR_DEVICE_IS_LOST,   /* nobody knows what is there: no call, no refund */
    MBR_DEVICE_HAS_ENDED, /* nothing is there: no call, all is refunded */
} mbr_device_state;

struct mbr_prefix {
    mbr_backing *backing;
    mbr_holder *holder;
    uint32_t piece_count;
    uint32_t keep_count;
    mbr_extent_rule *rules; /* one a piece */
    uint32_t *groups;
    mbr_keep *keeps;
    uint64_t shared_bytes;
    mbr_prefix *next, *prev;
};

struct mbr_backing {
    mbr_port *port;
    const mbr_mechanism *mechanism;
    mbr_authority *authority;
    mbr_holder *cache;
    const mbr_heap *heap;
    mbr_lock lock;
    mbr_condition edited; /* an editor is done, or an attach */
    bool attaching;       /* one attach at a time: the first mapping of a held extent is its own */
    _Atomic uint64_t keep_bytes;
    _Atomic bool pads;           /* the plugin owns what it aligns plain allocations with */
    _Atomic uint64_t idle_bytes; /* of slabs above */
    mbr_idle_keeper *keepers;    /* lock */
    uint64_t busy_wait_ns;
    mbr_range *live;
    mbr_range *cached; /* coldest first */
    mbr_range *spare;  /* records without addresses */
    mbr_range *retained;
    mbr_range *aliased; /* with parked aliases; parked longest first */
    uint64_t parked_alias_count;
    /* Written under the lock. */
    _Atomic bool has_orphans; /* some of them may be of prefixes that have ended */
    _Atomic bool has_open;    /* some sealed places may be open again */
    _Atomic bool
        has_kept;     /* something may be here only because of a capture, or a loss, that is over */
    mbr_range *ahead; /* with something ahead, of whatever list; what stands longest first */
    mbr_range *buckets[MBR_RANGE_BUCKET_COUNT];
    mbr_pool_class pool[MBR_POOL_CLASS_LIMIT_COUNT];
    uint32_t pool_class_count;
    uint64_t pool_serial; /* of the last put */
    mbr_extent *withheld; /* quarantined without a slot */
    mbr_eager_span *retained_spans;
    mbr_eager_span *withheld_spans; /* that may be tried again */
    uint64_t retry_count;           /* slots that may be */
    uint32_t retry_round;           /* of the last round of retries, of whatever kind */
    mbr_backing_user *users;
    mbr_prefix *prefixes;
    uint64_t pooled_bytes, parked_bytes, held_bytes, span_bytes;
    uint64_t ahead_bytes;        /* of parked */
    uint64_t ahead_coming_bytes; /* being mapped ahead */
    _Atomic uint64_t ahead_limit_bytes;
    _Atomic bool fresh_is_undefined; /* seen where there are several groups */
    uint64_t withheld_span_bytes;
    uint64_t extent_count, live_count, cached_count, prefix_count, span_count;
    uint64_t quarantined_count, retained_bytes;
    _Atomic uint64_t ending_count; /* ends of ranges that wait or are under way, and decommits that
                                    * are */
};

/* ---- backing.c ------------------------------------------------------------------------------ */
mbr_device_state mbr_backing_device_locked(const mbr_backing *backing) MBR_REQUIRES(&backing->lock);
mbr_device_state mbr_backing_device(mbr_backing *backing);
/* Discards every cached range. False: nothing was given back. */
bool mbr_backing_discard_cached(mbr_backing *backing);
/* Gives back all that is kept, ranges without extents too. */
void mbr_backing_empty_cache(mbr_backing *backing);
/* Without the lock: mbr_grant, with the limit sampled first for large amounts and before a refusal
 * for want of measured or shared bytes, where a sample is due. `refusal` is not NULL. *aside_bytes
 * is what of the bytes had been set aside for the holder; 0 after a refusal. */
mbr_status mbr_backing_grant(mbr_backing *backing, mbr_holder *holder, uint64_t bytes,
    uint64_t *aside_bytes, mbr_refusal *refusal);
/* The text of its refusal; returns `status`. */
mbr_status mbr_backing_refuse(mbr_status status, const mbr_refusal *refusal, mbr_error *error);

/* ---- extent.c: records, users, payers, the pool. All under the lock. ------------------------- */
void mbr_extent_move(mbr_backing *backing, mbr_extent *extent, mbr_extent_state to);
void mbr_extent_pay(mbr_extent *extent, mbr_holder *payer);
/* Behind who uses the extent already, the oldest first, and before the aliases that are parked. */
void mbr_extent_queue_slot(mbr_extent *extent, mbr_slot *slot);
void mbr_extent_add_slot(mbr_extent *extent, mbr_slot *slot);
void mbr_extent_remove_slot(mbr_extent *extent, mbr_slot *slot);
/* After a user left: the state that fits the users that remain, and a payer among them. False if
 * none remains. */
bool mbr_extent_settle_users(mbr_backing *backing, mbr_extent *extent);
/* Unmapped and without users: into the pool, paid by the cache. False if the pool cannot take it.
 */
bool mbr_extent_pool_put(mbr_backing *backing, mbr_extent *extent);
mbr_extent *mbr_extent_pool_take(mbr_backing *backing, uint64_t bytes, uint32_t isolation_group);
mbr_extent *mbr_extent_pool_take_coldest(mbr_backing *backing);
void mbr_extent_withhold(mbr_backing *backing, mbr_extent *extent);
/* Without the lock: gives an extent of no state but POOLED back to the system and refunds its
 * payer. A failure quarantines it, charged as it is. Returns the bytes released. */
uint64_t mbr_extent_destroy(mbr_backing *backing, mbr_extent *extent);
/* Once more for each that a destroy refused while its state was known. Returns the bytes. */
uint64_t mbr_extent_retry_withheld(mbr_backing *backing);
/* Unmapped, without users, outside the lock: to the pool, or the system if the pool is full. */
void mbr_extent_recycle(mbr_backing *backing, mbr_extent *extent);

/* ---- range.c --------------------------------------------------------------------------------- */
uint64_t mbr_slot_offset(const mbr_range *range, uint64_t index);
uint64_t mbr_slot_bytes(const mbr_range *range, uint64_t index);
/* Indices [*first, *end) of the slots that hold a byte of the part. */
void mbr_range_slots(
    const mbr_range *range, uint64_t offset_bytes, uint64_t bytes, uint64_t *first, uint64_t *end);
/* The same of the slots that lie in the part as a whole. */
void mbr_range_whole_slots(
    const mbr_range *range, uint64_t offset_bytes, uint64_t bytes, uint64_t *first, uint64_t *end);
/* Under the lock. */
void mbr_range_set_slot(mbr_range *range, uint64_t index, mbr_slot_state state);
void mbr_range_update_committed_end(mbr_range *range);
/* Waits until `is_free(what)` says so: MBR_BUSY after the backing's busy_wait_ns (rule 25). */
mbr_status mbr_backing_await_free(mbr_backing *backing, bool (*is_free)(const void *what),
    const void *what, mbr_error *error) MBR_REQUIRES(&backing->lock);
/* Until nobody edits the range. A call of the client's is refused with MBR_BUSY in the end; what
 * settles has nobody to hand the range back to and waits as long as it takes. */
mbr_status mbr_range_try_await_editor(mbr_backing *backing, mbr_range *range, mbr_error *error)
    MBR_REQUIRES(&backing->lock);
void mbr_range_await_editor(mbr_backing *backing, mbr_range *range) MBR_REQUIRES(&backing->lock);
void mbr_range_begin_edit(mbr_range *range, const void *editor);
void mbr_range_end_edit(mbr_range *range);
/* Its context is lost, and nothing of it may be unmapped (I12). */
bool mbr_range_is_lost(const mbr_range *range);
void mbr_range_cache(mbr_range *range);   /* into the cache's lists */
void mbr_range_uncache(mbr_range *range); /* out of them */
/* Without the lock; holds no extent. Gives the addresses back and makes the record spare. */
void mbr_range_dissolve(mbr_range *range);
/* The same of a range in no list, by its editor, inside the gate: what is parked in it is recycled
 * first, under the mark, since parked aliases are found by their extents, too. One with an extent
 * that cannot be unmapped is retained. */
void mbr_range_discard(mbr_range *range);
/* The record of a range without addresses waits for its next life: records are never freed before
 * the backing, so that a late caller finds an ended range and not freed memory. */
void mbr_range_make_spare(mbr_range *range);
/* Without the lock, by the editor: unmaps one slot and drops its use of the extent; the extent goes
 * to its other users, else is recycled. False: the slot is stuck. */
bool mbr_range_unmap_slot(mbr_range *range, uint64_t index);

/* Without the lock, by the editor: the unmap alone, or what stands for it where the device is gone.
 */
mbr_status mbr_range_unmap_if_there(const mbr_range *range, uint64_t offset_bytes, uint64_t bytes,
    mbr_answer *answer, mbr_error *error);
static inline mbr_status mbr_slot_unmap_if_there(
    const mbr_range *range, uint64_t index, mbr_answer *answer)
{
    return mbr_range_unmap_if_there(
        range, mbr_slot_offset(range, index), range->slots[index].extent->bytes, answer, NULL);
}
/* Under the lock: the slot's mapping stays, and what it maps is quarantined. */
void mbr_slot_strand(mbr_range *range, uint64_t index, bool may_retry);

/* ---- alias.c --------------------------------------------------------------------------------- */
/* Under the lock, at the end of a range: aliases that a later sharer may want stay. */
void mbr_alias_park_all_locked(mbr_range *range);
void mbr_alias_adopt_locked(mbr_range *range, uint64_t index, mbr_holder *holder);
void mbr_alias_uncount_locked(mbr_range *range, mbr_slot *slot);
/* Without the lock, by the editor: unmaps those in slots [first, end), or none while a capture is
 * open. */
void mbr_alias_strip(mbr_range *range, uint64_t first, uint64_t end);
/* Without the lock: unmaps all of the extent; one of the range with the oldest, or of those that no
 * prefix keeps any more, where `orphan` says so. False: there is none. */
void mbr_alias_give_up_of(mbr_backing *backing, const mbr_extent *extent);
bool mbr_alias_give_up_one(mbr_backing *backing, bool orphan);
/* Those that no prefix keeps any more go, but for those in ranges that somebody edits. */
void mbr_alias_catch_up(mbr_backing *backing);

/* ---- seal.c ---------------------------------------------------------------------------------- */
/* Under the lock: the place of the prefix's own range, while that has the extent; else NULL. */
mbr_slot *mbr_seal_place_locked(const mbr_keep *keep);
/* Under the lock: a user has left the extent, which has others, or is stuck there. */
void mbr_seal_note_locked(mbr_backing *backing, const mbr_extent *extent);
/* Without the lock, by nobody who edits: sealed places that are nobody else's any more may be
 * written again, but for those in ranges that somebody edits. */
void mbr_seal_catch_up(mbr_backing *backing);

/* ---- ahead.c: under the lock where they say so ----------------------------------------------- */
void mbr_ahead_mark_locked(mbr_range *range, uint64_t index);
void mbr_ahead_unmark_locked(mbr_range *range, uint64_t index);
/* What the range has ahead is parked like other cache from now on. */
void mbr_ahead_forget_locked(mbr_range *range);
mbr_status mbr_ahead_refuse_undefined(mbr_error *error);
/* For bytes that are mapped ahead now, until they stand or have failed to. MBR_OVER_BUDGET: so many
 * more would be above the bound; or as above. */
mbr_status mbr_ahead_take_room(mbr_backing *backing, uint64_t bytes, mbr_error *error);
void mbr_ahead_leave_room(mbr_backing *backing, uint64_t bytes);

/* ---- carry_out.c, grow.c --------------------------------------------------------------------- */
/* Whether it may only be handed out filled (I21). */
bool mbr_extent_needs_fill(const mbr_range *range, const mbr_extent *extent, uint32_t flags);
/* Under the lock: what was parked there is the holder's, who has the bytes already. */
void mbr_slot_adopt_locked(mbr_range *range, uint64_t index, mbr_holder *holder);

static inline uint32_t mbr_content_of(bool all_zero, bool any_undefined)
{
    return all_zero ? MBR_CONTENT_ZERO : any_undefined ? MBR_CONTENT_UNDEFINED : MBR_CONTENT_STALE;
}

/* ---- hold.c ---------------------------------------------------------------------------------- */
/* Without the lock: captures that are open now own it, too. */
void mbr_range_note_graphs(mbr_range *range, uint64_t stream_id);
/* Whether a release that says now has to wait for a capture or a graph all the same. */
bool mbr_range_must_wait(mbr_range *range);
/* MBR_BUSY while it is pinned. */
mbr_status mbr_range_check_pins_locked(const mbr_range *range, mbr_error *error);

/* ---- quarantine.c ---------------------------------------------------------------------------- */
/* Without the lock: once more for each mapping, extent and span whose unmap, destroy or release was
 * refused and changed nothing. Returns the bytes given back to the system. */
uint64_t mbr_backing_retry_quarantined(mbr_backing *backing);
/* It is refused only for now: because of a capture, or of a loss whose end is not confirmed. */
static inline bool mbr_answer_keeps(const mbr_answer *refused)
{
    return refused->gated ||
        (refused->unchanged && MBR_STATUS_CLASS(refused->status) == MBR_CLASS_LOST);
}
/* Something could not be given back for such a reason, or a fill not be waited for. Whoever notes
 * it calls mbr_backing_look_again when he edits nothing any more: a capture that has ended before,
 * or an end that was confirmed, has not found it. */
void mbr_backing_note_kept(mbr_backing *backing);
/* Without the lock, by whoever was editing, when he is done: the others have not looked into what
 * he edited. Tries again what a capture kept, and opens what is sealed for nobody. */
void mbr_backing_look_again(mbr_backing *backing);
/* Of ranges that have ended: what is stuck under a fill that nobody saw done stays so. */
void mbr_backing_give_up_fills(mbr_backing *backing);
/* Their lost context has ended: its pins go, and what is stuck is tried again without a question.
 */
void mbr_backing_forget_fills(mbr_backing *backing, const mbr_context *context);

/* ---- evict.c --------------------------------------------------------------------------------- */
/* Under the lock: the coldest range with a parked extent of this size (0: any) that nobody edits,
 * or that `editor` already takes from; *index its last such slot. */
mbr_range *mbr_find_parked(
    mbr_backing *backing, uint64_t bytes, const void *editor, uint64_t *index);
uint64_t mbr_backing_cached_bytes_locked(const mbr_backing *backing);
/* What keepers above have idle. Calls them, so the caller holds no lock. */
uint64_t mbr_backing_idle_bytes(mbr_backing *backing);
/* Evicts, and has the keepers shed what that leaves short. False: neither gave anything. */
bool mbr_backing_give_beside(mbr_backing *backing, uint64_t bytes, const void *editor);
/* mbr_backing_evict, which also takes what is parked in the ranges that `editor` takes from. */
uint64_t mbr_backing_evict_beside(mbr_backing *backing, uint64_t bytes, const void *editor);

#endif
