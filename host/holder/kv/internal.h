/* The records of one KV cache, for the files of this folder alone.
 *
 * A cache has a reservation (eager: an allocation) per layer group and sequence. What a growing
 * sequence of t tokens has committed in one group, shared extents included, is
 *
 *     S([held_first, t)) = the extents that hold a row of these tokens (geometry/commit.h)
 *
 * where held_first is the first token that was live when the last growth began: what a window has
 * left behind is given back by the growth after it, when the work that still reads it is queued.
 * Where something was adopted ahead of it, it is S([held_first, max(t, adopted_tokens))).
 *
 * A shared extent has one record, whoever maps it; its users are sequences and prefixes:
 *
 *     committed_bytes of the cache = sum over sequences of what they map alone
 *     shared_bytes of the cache    = sum over records, once each
 *     charge of holder and prefix holder for it = both together, once no release is queued
 *
 * Locking: `lock` guards the lists, the records and whatever mbr_kv_read looks at; nothing of the
 * client interface is called under it. The rest of a sequence belongs to the one thread that uses
 * it. What is adopted ahead changes hands by one exchange of offered_tokens: whoever takes it out,
 * that thread by growing or another by giving it back, has it alone. Adopting and giving back
 * (is_adopting) exclude a growth past what is quiet (is_growing). */
#ifndef MEMBRANE_HOST_HOLDER_KV_INTERNAL_H
#define MEMBRANE_HOST_HOLDER_KV_INTERNAL_H

#include "abi/base/assert.h"
#include "abi/base/checked.h"
#include "abi/base/error.h"
#include "abi/base/growable.h"
#include "abi/base/lock.h"
#include "abi/base/seam.h"
#include "host/bind/giver.h"
#include "host/ep/chore.h"
#include "host/holder/geometry/commit.h"
#include "host/holder/geometry/sharing.h"
#include "host/holder/kv/pace.h"
#include "membrane/ep.h"
#include "membrane/kv.h"
#include "membrane/manager.h"
#include "membrane/memory.h"
#include "membrane/range.h"

#include <stdatomic.h>
#include <string.h>

#define MBR_KV_GROUPS_MAX MBR_GEOMETRY_GROUPS_MAX
#define MBR_KV_READER_LIMIT_COUNT 16 /* streams that copied from one sequence */
#define MBR_KV_STREAM_LIMIT_COUNT 64 /* of one release, as the client interface has it */
#define MBR_KV_EAGER_ALIGN_BYTES 256 /* of an eager window: what mbr_alloc aligns to */
#define MBR_KV_PROTECT_WAIT_NS UINT64_C(10000000000) /* for what still writes (rule 25) */
#define MBR_KV_PIECE_INLINE_COUNT 32                 /* pieces of one growth without the heap */

typedef struct mbr_kv_group {
    mbr_extents extents;
    mbr_growth growth; /* the same rule in the client's words */
    uint64_t token_bytes;
} mbr_kv_group;

struct mbr_kv {
    mbr_manager *manager;
    mbr_heap heap;
    mbr_binding_handle binding;
    mbr_holder_handle holder, prefix_holder;
    uint32_t mode; /* MBR_KV_… */
    bool has_virtual, has_shared;
    bool protects; /* its prefixes, against their sources */
    uint64_t max_tokens;
    uint64_t token_bytes;
    uint64_t max_sequence_bytes; /* what max_tokens of one sequence take */
    mbr_lock lock;
    mbr_condition copied; /* nobody copies from, or is ahead of, some sequence any more */
    mbr_sequence *sequences;
    mbr_sequence *debtors; /* of refused creations: they owe what the release queue did not take */
    mbr_kv_prefix *prefixes;
    uint64_t sequence_count, prefix_count;
    uint64_t shared_bytes;      /* of records */
    uint64_t shared_data_bytes; /* rows in those of groups without a window */
    uint64_t copied_bytes;
    uint64_t growth_count, adopted_count;
    bool has_ahead; /* the next four are in use */
    mbr_chore ahead;
    _Atomic bool ahead_sleeps;
    uint64_t looked_ns; /* when the chore last looked; lock */
    mbr_giver giver;    /* of what is offered */
    uint32_t group_count;
    mbr_kv_group groups[MBR_KV_GROUPS_MAX];
};

/* One shared extent. */
typedef struct mbr_kv_extent {
    uint64_t offset, bytes;
    uint64_t data_bytes; /* rows in it: without padding */
    uint64_t first_live; /* of all users, while mbr_kv_read counts; else UINT64_MAX */
    uint32_t user_count;
} mbr_kv_extent;

/* Ascending by offset. */
typedef struct mbr_kv_list {
    mbr_kv_extent **items;
    uint32_t count;
    uint64_t data_bytes;
    uint64_t bytes;
} mbr_kv_list;

typedef struct mbr_sequence_group {
    mbr_range_handle range;           /* growing; 0 once it is released */
    mbr_allocation_handle allocation; /* eager; 0 once it is freed */
    mbr_allocation_handle owed;       /* eager: one that the queue did not take; growing: `range` */
    uint64_t address;
    uint64_t held_first;     /* see above */
    uint64_t readable_first; /* others may copy from here on: held_first, raised before a release */
    mbr_layout layout;       /* the group's; eager copy: for the present capacity */
    mbr_kv_list shared;
} mbr_sequence_group;

struct mbr_sequence {
    mbr_kv *kv;
    mbr_sequence *prev, *next;
    _Atomic uint64_t tokens;
    uint64_t quiet_tokens; /* appending up to here changes nothing but `tokens` (H7) */
    uint64_t trim_tokens;  /* past them a window leaves an extent behind; 0: never quiet */
    _Atomic uint64_t offered_tokens; /* adopted ahead up to here, not yet taken; 0: nothing is */
    _Atomic uint64_t capacity_tokens;
    _Atomic uint64_t taken_count; /* growths that took an offer, and needed nothing else */
    uint64_t valid_tokens;        /* the first tokens whose contents came with a prefix */
    uint64_t committed_bytes;     /* private */
    uint64_t reserved_bytes;
    uint64_t tag;
    mbr_stream_handle stream;
    mbr_stream_handle readers[MBR_KV_READER_LIMIT_COUNT];
    uint32_t reader_count;
    uint32_t copying_count; /* threads that enqueue copies from it now */
    bool is_mapping_ahead;  /* for it, now; lock, like what follows up to `ending` */
    bool is_adopting;       /* for it, or giving back what was, now */
    bool is_growing;        /* past what is quiet, now */
    uint64_t
        ahead_tokens; /* growing up to here was mapped ahead, and may have been pressed since */
    uint64_t adopted_tokens; /* ahead, up to here: committed, also where no token needs it yet */
    uint64_t offered_first;  /* of what is offered: it was committed before */
    uint64_t offered_bytes;  /* of the last offer, taken or not */
    uint64_t pressed_tokens; /* an offer from here on was taken back for another; 0: none was */
    mbr_kv_pace pace;
    bool ending;
    bool has_adopted;            /* all its aliases, which stood there before it came */
    bool is_lent;                /* its ranges may sleep: appending is never quiet */
    mbr_sequence_group groups[]; /* as many as the cache has */
};

/* The whole extents of one span. */
typedef struct mbr_kv_piece {
    uint32_t group;
    uint64_t span;
    mbr_byte_range shared;
} mbr_kv_piece;

struct mbr_kv_prefix {
    mbr_kv *kv;
    mbr_kv_prefix *prev, *next;
    mbr_prefix_handle handle;
    uint64_t tokens, shared_tokens;
    mbr_sequence *source; /* NULL once it has ended */
    mbr_kv_piece *pieces; /* ascending by group, then span */
    uint32_t piece_count;
    mbr_kv_list lists[MBR_KV_GROUPS_MAX];
};

/* ---- kv.c ----------------------------------------------------------------------------------- */
mbr_status mbr_kv_refuse(const mbr_geometry_error *refused, mbr_error *error);

/* ---- shared.c: records and lists of shared extents ------------------------------------------- */
/* Rows of the tokens from `first` on inside the extent. */
uint64_t mbr_kv_extent_live(
    const mbr_extents *extents, const mbr_kv_extent *extent, uint64_t first);
mbr_kv_extent *mbr_kv_extent_create(
    const mbr_kv *kv, const mbr_extents *extents, uint64_t offset, uint64_t bytes);
/* Room for `capacity` items; false without memory. count stays 0. */
bool mbr_kv_list_init(const mbr_kv *kv, mbr_kv_list *list, uint64_t capacity);
void mbr_kv_list_finish(const mbr_kv *kv, mbr_kv_list *list);
void mbr_kv_list_append(mbr_kv_list *list, mbr_kv_extent *extent);
/* Index of the first item that ends behind `offset`; count if none. */
uint32_t mbr_kv_list_find(const mbr_kv_list *list, uint64_t offset);
/* The run of shared extents inside a span's live bytes; empty at live.end if there is none. */
mbr_byte_range mbr_kv_list_run(const mbr_kv_list *list, mbr_byte_range live);
/* Under the lock: a user of every item more or less. The last one takes the record along. */
void mbr_kv_list_use_locked(mbr_kv *kv, uint32_t group, mbr_kv_list *list);
void mbr_kv_list_drop_locked(mbr_kv *kv, uint32_t group, mbr_kv_list *list);
/* Under the lock: drops the items inside [start, end) and returns their bytes. */
uint64_t mbr_kv_list_cut_locked(
    mbr_kv *kv, uint32_t group, mbr_kv_list *list, mbr_byte_range bytes);

/* ---- sequence.c ------------------------------------------------------------------------------ */
uint64_t mbr_sequence_tokens(const mbr_sequence *sequence);
/* The streams that a release of the sequence's memory waits for: its own, the caller's, and those
 * that copied from it and are still attached. Without doubles. */
uint32_t mbr_sequence_streams(mbr_sequence *sequence, const mbr_stream_handle *streams,
    uint32_t stream_count, mbr_stream_handle all[MBR_KV_STREAM_LIMIT_COUNT]);

/* ---- grow.c ---------------------------------------------------------------------------------- */
/* Commits S([held_first, tokens)) of all groups as one transaction. A refusal takes back what other
 * sequences of the cache were offered, no more than it needs, and tries once more. */
mbr_status mbr_sequence_commit(
    mbr_sequence *sequence, uint64_t from, uint64_t to, mbr_refusal *refusal, mbr_error *error);
/* Maps what a growth from one length to another will commit, as one transaction, before it is
 * needed. Any thread, while is_mapping_ahead. */
mbr_status mbr_sequence_map_ahead(mbr_sequence *sequence, uint64_t from, uint64_t to);
/* What a growth from one length, up to which all is committed, to another needs: adopted where it
 * stands, or given back unused. False: nothing has changed. Any thread, while is_adopting. *bytes
 * is how much. */
bool mbr_sequence_adopt(mbr_sequence *sequence, uint64_t from, uint64_t to, uint64_t *bytes);
bool mbr_sequence_disown(mbr_sequence *sequence, uint64_t from, uint64_t to, uint64_t *bytes);
/* Growing a sequence of so many tokens up to here commits nothing more. */
uint64_t mbr_kv_capacity_of(const mbr_kv *kv, uint64_t tokens);
/* Publishes a length whose rows are committed, and ends a growth. */
void mbr_sequence_publish(mbr_sequence *sequence, uint64_t tokens);

/* ---- ahead.c: mapping ahead of need ---------------------------------------------------------- */
/* Nothing, where the binding's ahead_bytes is 0. */
mbr_status mbr_kv_begin_ahead(mbr_kv *kv, mbr_error *error);
void mbr_kv_end_ahead(mbr_kv *kv);
/* A sequence has begun or grown. A system call after a rest alone. */
void mbr_kv_wake_ahead(mbr_kv *kv);

/* ---- attach.c -------------------------------------------------------------------------------- */
/* Maps the whole extents of the prefix's first `tokens` into the new sequence: all of them or none.
 */
mbr_status mbr_sequence_attach(
    mbr_sequence *sequence, const mbr_kv_prefix *prefix, uint64_t tokens, mbr_error *error);
/* Copies what is left of them on the sequence's stream, where the source lives and still holds all
 * of it; afterwards valid_tokens stands. */
void mbr_sequence_fill_boundary(
    mbr_sequence *sequence, const mbr_kv_prefix *prefix, uint64_t tokens);
/* Of a sequence or prefix of `tokens` tokens with these shared extents (a list for each group): how
 * many tokens have every live row in them, and *valid_tokens, how many of the first tokens can be
 * read through them alone. */
uint64_t mbr_kv_shared_tokens(
    const mbr_kv *kv, const mbr_kv_list *const *lists, uint64_t tokens, uint64_t *valid_tokens);

/* ---- copy.c ---------------------------------------------------------------------------------- */
typedef struct mbr_kv_copy {
    mbr_manager *manager;
    mbr_stream_handle stream;
    const mbr_layout *to_layout, *from_layout; /* of one group and kind */
    uint64_t to_address, from_address;
    uint64_t copied_bytes; /* enqueued so far */
    mbr_error *error;
} mbr_kv_copy;

/* Enqueues copies of the rows of these tokens that lie outside `shared` (their span's shared run;
 * NULL: none), one span. */
mbr_status mbr_kv_copy_span(
    mbr_kv_copy *copy, uint64_t span, mbr_token_range tokens, const mbr_byte_range *shared);

/* ---- eager.c --------------------------------------------------------------------------------- */
mbr_status mbr_sequence_allocate(
    mbr_sequence *sequence, uint64_t tokens, mbr_refusal *refusal, mbr_error *error);
mbr_status mbr_sequence_regrow(
    mbr_sequence *sequence, uint64_t tokens, mbr_refusal *refusal, mbr_error *error);
/* Frees what an earlier growth or creation could not. */
mbr_status mbr_sequence_free_owed(mbr_sequence *sequence, const mbr_stream_handle *streams,
    uint32_t stream_count, mbr_error *error);

/* ---- sequence.c ------------------------------------------------------------------------------ */
/* Frees what refused creations owe. Errors: mbr_free's; the rest is owed on. */
mbr_status mbr_kv_pay_debts(mbr_kv *kv, mbr_error *error);

#endif
