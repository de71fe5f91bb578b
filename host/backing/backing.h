/* Backing: the policy above the primitives, written once for every plugin. Extents by offset, the
 * pool of unmapped extents, ranges that stay mapped after their release (parked), exact plans, the
 * grow transaction with its undo, prefixes, spans for the slabs above.
 *
 * One backing stands for one mechanism bound under one authority; its cache holder pays for
 * whatever is kept for reuse. Every extent has exactly one payer at any instant: a holder, the
 * cache, or a mark of quarantine on one of them.
 *
 *     owned bytes of the backing = sum over its extents and eager spans of what each owns
 *     charged by payers          = owned                                          (I5, at rest)
 *     mapped bytes               = sum over slots that hold an extent of its size
 *
 * Locking: one lock of the backing guards all lists and records. No slot of a plugin and no
 * callback is called under it: a range that is being edited is marked busy meanwhile, and other
 * edits of that range wait. */
#ifndef MEMBRANE_HOST_BACKING_BACKING_H
#define MEMBRANE_HOST_BACKING_BACKING_H

#include "abi/base/seam.h"
#include "abi/base/state.h"
#include "governor/governor.h"
#include "host/backing/port.h"
#include "host/backing/watch.h"
#include "host/ep/context.h"
#include "membrane/range.h"

typedef struct mbr_backing mbr_backing;
typedef struct mbr_range mbr_range;
typedef struct mbr_prefix mbr_prefix;

/* Extent states. held: unmapped, kept by a prefix alone. */
typedef enum mbr_extent_state {
    MBR_EXTENT_POOLED = 0,
    MBR_EXTENT_MAPPED,
    MBR_EXTENT_SHARED,
    MBR_EXTENT_PARKED,
    MBR_EXTENT_HELD,
    MBR_EXTENT_QUARANTINED,
    MBR_EXTENT_RETAINED,
    MBR_EXTENT_DESTROYED,
    MBR_EXTENT_STATE_COUNT
} mbr_extent_state;

extern const mbr_state_table mbr_extent_states;

typedef struct mbr_backing_options {
    mbr_port *port;           /* outlives the backing */
    mbr_authority *authority; /* pays for the cache */
    const char *name;         /* of the cache holder */
    uint64_t keep_bytes;      /* cached bytes above it go back to the system on release */
    const mbr_heap *heap;
    uint64_t busy_wait_ns; /* how long a call waits for another one in its range; 0: 10 s */
    uint64_t ahead_bytes;  /* the most that stands mapped ahead of need, beside those kept */
} mbr_backing_options;

mbr_status mbr_backing_create(
    const mbr_backing_options *options, mbr_backing **backing, mbr_error *error);
/* Gives every cache back. MBR_IN_USE with counts while a range, prefix or span is out; MBR_RESIDUAL
 * with counts if something cannot be given back: it is then leaked on purpose, and its cache stays
 * charged but is never asked for bytes again. */
mbr_status mbr_backing_destroy(mbr_backing *backing, mbr_error *error);

mbr_holder *mbr_backing_cache(mbr_backing *backing);
mbr_port *mbr_backing_port(mbr_backing *backing);
mbr_authority *mbr_backing_authority(mbr_backing *backing);
void mbr_backing_set_keep(mbr_backing *backing, uint64_t keep_bytes);
/* What stands ahead above it is parked like other cache from now on: range by range, what stands
 * longest first. */
void mbr_backing_set_ahead(mbr_backing *backing, uint64_t ahead_bytes);
uint64_t mbr_backing_ahead_limit(mbr_backing *backing);
/* What slabs over its spans hold idle counts against the backing's watermark:
 *     pooled + parked - ahead <= keep - idle, at rest
 * Takes no lock and gives nothing; where idle bytes rose, mbr_backing_keep_watermark follows. */
void mbr_backing_count_idle(mbr_backing *backing, int64_t by_bytes);
void mbr_backing_keep_watermark(mbr_backing *backing);

/* Gives what is mapped ahead, then pooled and parked extents back to the system, coldest first,
 * until at most keep_bytes are cached. What an unmap, destroy or release refused before is tried
 * once more. Returns the bytes released; nothing is while a capture is open. */
uint64_t mbr_backing_trim(mbr_backing *backing, uint64_t keep_bytes);
/* A capture on the device has ended: what had to wait for that is given back, down to the
 * watermark. */
void mbr_backing_catch_up(mbr_backing *backing);
/* The same by amount: what a refused grant is short of. */
uint64_t mbr_backing_evict(mbr_backing *backing, uint64_t bytes);
/* What the cache could give now, the idle slabs of its arenas among it. None while a capture is
 * open on the device. */
uint64_t mbr_backing_could_give(mbr_backing *backing);
/* Who keeps spans of the backing idle, such as slabs with no block out: asked what it could shed,
 * and to shed at least `bytes` where it has as many, with no lock held. The caller's memory, until
 * removed. */
typedef struct mbr_idle_keeper {
    uint64_t (*idle_bytes)(void *context);
    uint64_t (*shed)(void *context, uint64_t bytes);
    void *context;
    struct mbr_idle_keeper *prev, *next; /* the backing's, like the next */
    bool is_called;
} mbr_idle_keeper;

void mbr_backing_add_keeper(mbr_backing *backing, mbr_idle_keeper *keeper);
/* Waits until it is not being called. */
void mbr_backing_remove_keeper(mbr_backing *backing, mbr_idle_keeper *keeper);

/* A context that may use the backing; the caller's memory, for as long as it is bound. Where the
 * mechanism's memory does not outlive its context (MBR_FACT_RELEASABLE_AFTER_LOSS), the last living
 * user stands for the device: once all users are lost no slot is called any more and nothing is
 * given to the system, and once the ends of all are confirmed what the cache keeps is refunded
 * without a call. */
typedef struct mbr_backing_user {
    const mbr_context *context;
    struct mbr_backing_user *next, *prev;
} mbr_backing_user;

void mbr_backing_add_user(mbr_backing *backing, mbr_backing_user *user);
/* If only lost ones remain, the cache goes back to the system before: nobody could do that later.
 */
void mbr_backing_remove_user(mbr_backing *backing, mbr_backing_user *user);

/* Ends of ranges that wait in a queue, or are carried out: while there are some it cannot be
 * destroyed. */
uint64_t mbr_backing_ending_count(const mbr_backing *backing);

/* The end of a lost context is confirmed from outside (mbr_context_confirm_end): what was retained
 * for it is refunded, once. What is retained for it later is refunded at once. */
void mbr_backing_confirm_lost(mbr_backing *backing, const mbr_context *context);

typedef struct mbr_backing_figures {
    uint64_t pooled_bytes, parked_bytes, held_bytes, span_bytes;
    uint64_t extent_count, range_count, cached_range_count, prefix_count;
    uint64_t quarantined_count, retained_bytes;
    uint64_t ahead_bytes; /* of parked */
    uint64_t parked_alias_count;
} mbr_backing_figures;

void mbr_backing_read(mbr_backing *backing, mbr_backing_figures *figures);
/* Recomputes the equations above from the records. */
mbr_status mbr_backing_audit(mbr_backing *backing, mbr_error *error);

/* ---- Ranges ---------------------------------------------------------------------------------- */
/* Where the first whole extent of a prefix goes, which a kept range may have there already. */
typedef struct mbr_alias_hint {
    uint64_t extent_id; /* 0: none */
    uint64_t offset_bytes;
} mbr_alias_hint;

typedef struct mbr_range_options {
    mbr_context *context; /* pinned until the range is gone */
    uint32_t isolation_group;
    uint32_t flags; /* MBR_RANGE_… of membrane/range.h */
    uint64_t bytes;
    uint64_t align_bytes;
    uint64_t expected_bytes; /* a hint: what will be committed soon; 0: unknown */
    mbr_alias_hint alias;    /* a hint: of the prefix that will be mapped into it */
    mbr_growth growth;
    uint64_t handle; /* the client's, for reports */
} mbr_range_options;

mbr_status mbr_backing_reserve(
    mbr_backing *backing, const mbr_range_options *options, mbr_range **range, mbr_error *error);
uint64_t mbr_range_address(const mbr_range *range);
uint64_t mbr_range_bytes(const mbr_range *range);
/* True if [0, end) is committed: one load and one comparison (H7). Any thread. */
bool mbr_range_is_committed_to(const mbr_range *range, uint64_t end_bytes);
void mbr_range_figures_read(mbr_range *range, mbr_range_figures *figures);
/* mbr_range_next_run; `handle` as of a part. */
mbr_status mbr_range_find_run(
    mbr_range *range, uint64_t handle, uint64_t from_bytes, mbr_range_run *run, mbr_error *error);
/* `handle` is the client's, checked against the range's, as of a part (MBR_STALE).
 * A pinned range is neither decommitted nor ended: MBR_BUSY, with the number of pins. Any number of
 * pins. MBR_INVALID_ARGUMENT: it is not pinned. */
mbr_status mbr_range_pin_down(mbr_range *range, uint64_t handle, mbr_error *error);
mbr_status mbr_range_let_up(mbr_range *range, uint64_t handle, mbr_error *error);
/* The present remap epoch. Views are counted in debug builds, by 1, 0 or -1. */
mbr_status mbr_range_look(
    mbr_range *range, uint64_t handle, int32_t by, uint64_t *epoch, mbr_error *error);

typedef struct mbr_range_part {
    mbr_range *range;
    uint64_t handle; /* the client's, checked against the range's (MBR_STALE); 0: not checked */
    uint64_t offset_bytes;
    uint64_t bytes;
} mbr_range_part;

typedef struct mbr_grow_options {
    mbr_holder *holder;
    uint64_t stream_id; /* of the ranges' context; 0: no fill can be enqueued */
    uint32_t flags;     /* MBR_GROW_… */
    const mbr_range_part *parts;
    uint32_t part_count;
    mbr_status (*publish)(void *context);
    void *publish_context;
    const mbr_growth_watch *watch; /* NULL: nobody; not while mapping ahead */
    mbr_refusal *refusal;
} mbr_grow_options;

/* All parts or none; every range of one backing. With MBR_GROW_AHEAD the cache pays, whoever the
 * holder is. */
mbr_status mbr_backing_grow(mbr_backing *backing, const mbr_grow_options *options,
    mbr_range_grow_result *result, mbr_error *error);

/* The whole growth at once, where all that is missing stands there, parked, and needs no fill. No
 * slot is called, nothing waited for, no memory taken. False: nothing changed. */
bool mbr_backing_adopt(
    mbr_backing *backing, const mbr_grow_options *options, mbr_range_grow_result *result);
/* The reverse for whole extents that the holder alone has and nobody has used since: they stand
 * ahead of need again, or are parked like other cache where the bound has no room for them. Not
 * while a capture is open on the device, of a pinned range, or one that a graph owns; the ranges do
 * not grow meanwhile. False: nothing changed. */
bool mbr_backing_disown(
    mbr_backing *backing, const mbr_grow_options *options, mbr_range_grow_result *result);

/* Streams are ids of the range's context; now: the caller proves quiescence. */
mbr_status mbr_range_give_back(mbr_range *range, uint64_t offset_bytes, uint64_t bytes, bool now,
    const uint64_t *stream_ids, uint32_t stream_count, mbr_range_decommit_result *result,
    mbr_error *error);

/* The range is the backing's from now on and must not be used again. On failure (MBR_QUEUE_FULL,
 * MBR_BUSY) it still is the caller's. */
mbr_status mbr_range_end(mbr_range *range, bool now, const uint64_t *stream_ids,
    uint32_t stream_count, mbr_error *error);
/* Ends at once the range of a caller that has nobody to hand it back to: waits as long as it takes
 * for whoever is inside. */
void mbr_range_end_now(mbr_range *range);

/* ---- Prefixes -------------------------------------------------------------------------------- */
mbr_status mbr_backing_make_prefix(mbr_backing *backing, const mbr_range_part *parts,
    uint32_t part_count, mbr_holder *holder, mbr_prefix **prefix, mbr_prefix_result *result,
    mbr_error *error);
mbr_status mbr_prefix_map_into(mbr_prefix *prefix, mbr_range *const *targets, uint32_t target_count,
    const uint64_t *limit_bytes, mbr_holder *holder, mbr_prefix_attach_result *result,
    mbr_error *error);
mbr_alias_hint mbr_prefix_hint(mbr_prefix *prefix, uint32_t piece);
/* The ranges that it was made of may only read its extents, until those are nobody else's any more
 * (mbr_prefix_protect). The caller knows that nobody writes there, and keeps the prefix meanwhile.
 * On failure what was closed before stays so. */
mbr_status mbr_prefix_check_seal(const mbr_prefix *prefix, mbr_error *error);
mbr_status mbr_prefix_seal(mbr_prefix *prefix, mbr_error *error);
void mbr_prefix_end(mbr_prefix *prefix);
void mbr_prefix_figures_read(mbr_prefix *prefix, mbr_prefix_figures *figures);

/* ---- Spans: contiguous memory for slabs and large allocations -------------------------------- */
/* Paid by the cache from take to give. With `virtual` a span is a range with one part committed;
 * without it, one allocation of the plugin. */
typedef struct mbr_span {
    uint64_t address;
    uint64_t bytes;       /* usable */
    uint64_t owned_bytes; /* charged to the cache holder */
    uint32_t content;     /* MBR_CONTENT_… */
    uint32_t isolation_group;
    mbr_range *range;              /* NULL: eager */
    mbr_context *context;          /* eager: pinned from take to give */
    uint64_t allocation_id;        /* eager: the port's */
    struct mbr_eager_span *record; /* eager: the backing's */
} mbr_span;

mbr_status mbr_backing_take_span(mbr_backing *backing, mbr_context *context, uint64_t stream_id,
    uint32_t isolation_group, uint64_t bytes, uint64_t align_bytes, mbr_span *span,
    mbr_refusal *refusal, mbr_error *error);
/* Nobody touches it any more. What cannot be given back is quarantined and counted; with its
 * context lost it is retained, unless the mechanism can release it all the same. */
void mbr_backing_give_span(mbr_backing *backing, mbr_span *span);

#endif
