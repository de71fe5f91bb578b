/* Growing memory: a range of addresses that never moves, with physical extents behind as much of it
 * as is needed, and prefixes of it shared read-only with other ranges.
 *
 * The size of an extent is a function of its offset alone (mbr_growth), the same for all ranges of
 * a geometry, so that prefixes line up. Committing rounds outward to whole extents; decommitting
 * gives back the whole extents inside and says what it left. */
#ifndef MEMBRANE_RANGE_H
#define MEMBRANE_RANGE_H

#include "membrane/budget.h"
#include "membrane/handle.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Frozen. Extents start at unit_bytes and grow with the offset: the largest power-of-two multiple
 * of the unit that is <= offset / divisor, divides the offset, and is <= max_bytes. divisor 0: all
 * extents are unit_bytes. unit_bytes 0: the mechanism's recommended granule. */
typedef struct mbr_growth {
    uint64_t unit_bytes; /* a whole number of granules */
    uint64_t max_bytes;
    uint64_t divisor;
} mbr_growth;

#define MBR_RANGE_UNPARKED                                                                         \
    65536 /* optional: prefer addresses with nothing parked, as for a range that                   \
           * a prefix will be mapped into */

typedef struct mbr_range_reserve_request {
    uint32_t struct_size;
    uint32_t flags; /* MBR_RANGE_… */
    mbr_binding_handle binding;
    uint64_t bytes;       /* addresses; rounded up to a whole unit */
    uint64_t align_bytes; /* 0: the granule */
    mbr_growth growth;
    /* A hint: how much of it will be committed soon. Of the kept addresses those with about as much
     * parked are taken, so that less is moved later. 0: the last ones kept. */
    uint64_t expected_bytes;
    /* A hint: piece `prefix_piece` of it will be mapped into the range. Kept addresses where an
     * earlier sharer left aliases of it are taken, and attaching then maps nothing; none, while a
     * graph is being captured. 0: no hint */
    mbr_prefix_handle prefix;
    uint32_t prefix_piece;
    uint32_t reserved_1;
} mbr_range_reserve_request;

typedef struct mbr_range_reserve_result {
    uint32_t struct_size;
    uint32_t reserved_0;
    mbr_range_handle range;
    uint64_t address; /* constant until the range is released (I9) */
    uint64_t bytes;
    uint64_t parked_bytes; /* extents still mapped from an earlier life, free to be adopted */
} mbr_range_reserve_result;

/* MBR_UNSUPPORTED on a mechanism without `membrane.virtual`; MBR_OUT_OF_ADDRESSES, after the kept
 * addresses of ended ranges were given back and it was tried once more. Costs no bytes.
 */
MBR_API mbr_status mbr_range_reserve(mbr_manager *manager, const mbr_range_reserve_request *request,
    mbr_range_reserve_result *result, mbr_error *error);

/* Frozen: [offset, offset + bytes) of one range. */
typedef struct mbr_piece {
    mbr_range_handle range;
    uint64_t offset_bytes;
    uint64_t bytes;
} mbr_piece;

#define MBR_GROW_ZEROED 1 /* critical: what is new is zero */
/* critical: what is missing in the pieces is mapped ahead of need: parked there, paid by the cache
 * and the first to go under pressure, until a growth adopts it without a driver call. Presses
 * nobody, waits for nobody who is inside one of the ranges (MBR_BUSY), and is MBR_OVER_BUDGET past
 * the binding's ahead_bytes; MBR_UNSUPPORTED where memory must be filled before another isolation
 * group gets it. Another thread may meanwhile grow the ranges over what stands there
 * already. No publish callback. */
#define MBR_GROW_AHEAD 2

typedef struct mbr_range_grow_request {
    uint32_t struct_size;
    uint32_t flags; /* MBR_GROW_… */
    mbr_holder_handle holder;
    /* On which the new memory is used first, and fills run, where one is needed; may be 0. What is
     * on its way back behind this stream alone, is the holder's and used by nobody else, stays
     * instead. */
    mbr_stream_handle stream;
    const mbr_piece *pieces;
    uint32_t
        piece_count; /* ranges of one mechanism; parts that are committed already cost nothing */
    uint32_t reserved_0;
    /* Called when everything is ready and before it counts, with no lock held. MBR_OK publishes;
     * any other status undoes the growth and is returned. It must not call this manager, whose
     * ranges are being edited. May be NULL. */
    mbr_status (*publish)(void *context);
    void *publish_context;
    mbr_refusal *refusal; /* may be NULL */
} mbr_range_grow_request;

typedef struct mbr_range_grow_result {
    uint32_t struct_size;
    uint32_t content;        /* MBR_CONTENT_… of what is new */
    uint64_t new_bytes;      /* committed by this call */
    uint64_t created_bytes;  /* of new: extents made now */
    uint64_t pooled_bytes;   /* of new: taken from the pool */
    uint64_t parked_bytes;   /* of new: adopted in place, or kept from leaving: no driver call */
    uint64_t residual_bytes; /* after MBR_RESIDUAL: what the undo could not take back, charged */
} mbr_range_grow_result;

/* One transaction over all pieces: all of it or none. On failure the old contents, lengths and
 * figures hold. Growth within what is committed takes no lock, so nobody releases a range that
 * another thread may be growing. Before a refusal holders of the role cache are asked: the caller
 * holds no lock that their callbacks take. Errors: MBR_OVER_BUDGET, the mechanism's, the publish
 * callback's; MBR_BUSY: a place is on its way back or quarantined, a fill is needed on a stream
 * that is captured, or a capture is open and a place holds what the hint of the reservation found
 * and was not attached before; MBR_RESIDUAL: an undo failed, or met a capture that is open on the
 * device and forbids it, or a fill that nobody saw done; the rest holds, and those places are
 * MBR_BUSY until the capture ends, or until a trim finds the fill done. */
MBR_API mbr_status mbr_range_grow(mbr_manager *manager, const mbr_range_grow_request *request,
    mbr_range_grow_result *result, mbr_error *error);

typedef struct mbr_range_release_request {
    uint32_t struct_size;
    uint32_t flags;  /* MBR_FREE_NOW, or 0: after the streams */
    mbr_piece piece; /* decommit: the part; release: the range, offset and bytes 0 */
    const mbr_stream_handle *streams;
    uint32_t stream_count;
    uint32_t reserved_0;
} mbr_range_release_request;

typedef struct mbr_range_decommit_result {
    uint32_t struct_size;
    uint32_t reserved_0;
    uint64_t decommitted_bytes; /* whole extents inside the piece; gone or queued */
    uint64_t kept_bytes;        /* committed bytes of the piece that stay: part of an extent */
} mbr_range_decommit_result;

/* Gives back the whole extents inside the piece, after the streams; those that a growth kept from a
 * decommit which is still queued, also with MBR_FREE_NOW after what that one waits for. Errors:
 * MBR_QUEUE_FULL. */
MBR_API mbr_status mbr_range_decommit(mbr_manager *manager,
    const mbr_range_release_request *request, mbr_range_decommit_result *result, mbr_error *error);

/* Ends the range: its extents go to the cache or back to the system after the streams; those that
 * others share live on, and their bill moves to a survivor. The handle is stale at once. */
MBR_API mbr_status mbr_range_release(
    mbr_manager *manager, const mbr_range_release_request *request, mbr_error *error);

typedef struct mbr_range_figures {
    uint32_t struct_size;
    uint32_t extent_count;
    mbr_range_handle range;
    uint64_t address;
    uint64_t bytes;
    uint64_t committed_bytes; /* readable and writable by this range */
    uint64_t shared_bytes;    /* of committed: aliases of a prefix, read-only */
    uint64_t parked_bytes;    /* mapped ahead of use, paid by the cache */
    uint64_t remap_epoch;     /* rises with every decommit, also with one that is handed back: what
                               * was captured or noted before may show other memory since */
    uint64_t pin_count;
    uint64_t view_count; /* views that were not dropped; counted in debug builds, else 0 */
} mbr_range_figures;

/* By handle, or by any address inside when the handle is 0. */
MBR_API mbr_status mbr_range_read(mbr_manager *manager, mbr_range_handle range, uint64_t address,
    mbr_range_figures *figures, mbr_error *error);

#define MBR_RUN_ALIAS 1      /* extents of a prefix, mapped read-only */
#define MBR_RUN_SHARED 2     /* a prefix or another range has these extents, too */
#define MBR_RUN_LEAVING 4    /* being given back, behind streams or a capture: nobody's any more */
#define MBR_RUN_OWNED 8      /* a graph may touch it: given back, it waits for the retirement */
#define MBR_RUN_STUCK 16     /* quarantined: an unmap was refused; a trim may try it again */
#define MBR_RUN_PROTECTED 32 /* of a prefix that is protected: the range may only read there */

typedef struct mbr_range_run {
    uint32_t struct_size;
    uint32_t flags; /* MBR_RUN_…; committed, but for LEAVING and STUCK; 0: private to the range */
    uint64_t offset_bytes;
    uint64_t bytes; /* whole extents; 0: no more */
} mbr_range_run;

/* The first run of extents of one kind that ends behind from_bytes, whole: call it again from the
 * end of the last. What other threads change meanwhile may be seen or not. Errors: MBR_STALE,
 * MBR_OUT_OF_RANGE (from_bytes is past the range's end). */
MBR_API mbr_status mbr_range_next_run(mbr_manager *manager, mbr_range_handle range,
    uint64_t from_bytes, mbr_range_run *run, mbr_error *error);

/* A registration (with a network card, a graph that outlives everything): while a range is pinned
 * it is neither decommitted nor released: MBR_BUSY, with the number of pins. It may grow. Any
 * number of pins; each needs an unpin. Errors: MBR_STALE; of an unpin MBR_INVALID_ARGUMENT (none is
 * left). */
MBR_API mbr_status mbr_range_pin(mbr_manager *manager, mbr_range_handle range, mbr_error *error);
MBR_API mbr_status mbr_range_unpin(mbr_manager *manager, mbr_range_handle range, mbr_error *error);

/* Frozen. A range as it was seen: good until the range ends or its remap epoch rises. For whoever
 * keeps addresses of it without keeping it, such as a captured graph. */
typedef struct mbr_range_view {
    mbr_range_handle range;
    uint64_t generation; /* the range's remap_epoch */
} mbr_range_view;

/* A view costs nothing and need not be dropped: a drop only takes it out of view_count again, where
 * debug builds count them. */
MBR_API mbr_status mbr_range_view_take(
    mbr_manager *manager, mbr_range_handle range, mbr_range_view *view, mbr_error *error);
/* MBR_STALE: the range has ended, or was remapped since; what was captured of it is not right any
 * more. */
MBR_API mbr_status mbr_range_view_check(
    mbr_manager *manager, mbr_range_view view, mbr_error *error);
MBR_API mbr_status mbr_range_view_drop(mbr_manager *manager, mbr_range_view view, mbr_error *error);

/* ---- Prefixes -------------------------------------------------------------------------------- */
typedef struct mbr_prefix_request {
    uint32_t struct_size;
    uint32_t piece_count;
    mbr_holder_handle holder; /* pays for the extents from now on; of the same authority */
    const mbr_piece *pieces;  /* committed parts of ranges of one binding; the whole extents inside
                               * each are shareable */
} mbr_prefix_request;

typedef struct mbr_prefix_result {
    uint32_t struct_size;
    uint32_t extent_count;
    mbr_prefix_handle prefix;
    uint64_t shared_bytes;   /* of the whole extents */
    uint64_t boundary_bytes; /* of the pieces outside whole extents: never shared */
} mbr_prefix_result;

/* The range's own access does not change: sealing is bookkeeping after the last write (kv.md). The
 * range must not write there any more; mbr_prefix_protect shows whether it does. Errors:
 * MBR_UNSUPPORTED (no `membrane.shared`), MBR_INVALID_ARGUMENT (a piece is not committed, or holds
 * no whole extent: the text says from which length on it would). */
MBR_API mbr_status mbr_prefix_create(mbr_manager *manager, const mbr_prefix_request *request,
    mbr_prefix_result *result, mbr_error *error);

typedef struct mbr_prefix_attach_request {
    uint32_t struct_size;
    uint32_t target_count; /* as many as the prefix has pieces */
    mbr_prefix_handle prefix;
    mbr_holder_handle holder;        /* of the sharer: pays if it survives the prefix */
    const mbr_range_handle *targets; /* one a piece; its extents are mapped at the same offsets,
                                      * which must be free of commitment */
    const uint64_t *limit_bytes;     /* one a piece: only whole extents that end at or before this
                                      * offset are shared; NULL: all */
    mbr_stream_handle stream;        /* may be 0 */
} mbr_prefix_attach_request;

typedef struct mbr_prefix_attach_result {
    uint32_t struct_size;
    uint32_t extent_count;
    uint64_t shared_bytes; /* mapped read-only into the targets; owned once */
    uint64_t residual_bytes;
    uint64_t adopted_bytes; /* of shared: what an earlier sharer had left there, without a call */
} mbr_prefix_attach_result;

/* One transaction over all pieces. Errors: MBR_UNSUPPORTED, MBR_ALREADY_EXISTS (a target is
 * committed there), MBR_INVALID_ARGUMENT (growth rules differ), MBR_RESIDUAL (the private path is
 * forbidden: release the target). */
MBR_API mbr_status mbr_prefix_attach(mbr_manager *manager, const mbr_prefix_attach_request *request,
    mbr_prefix_attach_result *result, mbr_error *error);

typedef struct mbr_prefix_protect_request {
    uint32_t struct_size;
    uint32_t stream_count;
    mbr_prefix_handle prefix;
    const mbr_stream_handle *streams; /* that may still write there: they are waited for */
    uint64_t deadline_ns;             /* of CLOCK_MONOTONIC, for them together; UINT64_MAX: none */
} mbr_prefix_protect_request;

/* For debugging: once the streams are done, the ranges that the prefix was made of may only read
 * its whole extents, so that a write which should not be faults at once instead of changing what
 * all sharers read (on most devices that ends the context). It costs more than mapping did. They
 * may write again when the extents are theirs alone: no prefix, no other range has them. Where the
 * driver refuses that, it is asked again at a trim, and when anything grows or is given back.
 *
 * Errors, and then the prefix is as good as before; what was protected by then stays so, and the
 * call may be repeated: MBR_UNSUPPORTED (the mechanism enforces no read-only access: the fact
 * READ_ONLY_ENFORCED), MBR_TIMED_OUT (the streams), MBR_BUSY (a capture is open, a graph owns or a
 * pin holds one of the ranges, a call stays inside), MBR_DEVICE_LOST, those of the mechanism. */
MBR_API mbr_status mbr_prefix_protect(
    mbr_manager *manager, const mbr_prefix_protect_request *request, mbr_error *error);

/* Ends the prefix object. Its extents live on while a range has them mapped; the bill moves to one
 * of those, or the extents go to the cache after the streams of the ranges are done. Waits, however
 * long that takes, for the calls of other threads that have found it before: an attach (its slots
 * to map the extents, and no callback of a client), a protection (also the streams that it waits
 * for, until its deadline) and a read. A driver that hangs in one of them keeps it waiting. */
MBR_API mbr_status mbr_prefix_release(
    mbr_manager *manager, mbr_prefix_handle prefix, mbr_error *error);

typedef struct mbr_prefix_figures {
    uint32_t struct_size;
    uint32_t sharer_count; /* ranges that map extents of it now */
    uint64_t shared_bytes;
    uint64_t exclusive_bytes; /* would become free if it were released now */
    uint64_t protected_bytes; /* of shared: mbr_prefix_protect has taken the write access away */
} mbr_prefix_figures;

MBR_API mbr_status mbr_prefix_read(
    mbr_manager *manager, mbr_prefix_handle prefix, mbr_prefix_figures *figures, mbr_error *error);

#ifdef __cplusplus
}
#endif

#endif
