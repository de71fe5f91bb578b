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
} mbr_range_reserve_request;

typedef struct mbr_range_reserve_result {
    uint32_t struct_size;
    uint32_t reserved_0;
    mbr_range_handle range;
    uint64_t address; /* constant until the range is released (I9) */
    uint64_t bytes;
    uint64_t parked_bytes; /* extents still mapped from an earlier life, free to be adopted */
} mbr_range_reserve_result;

/* MBR_UNSUPPORTED on a mechanism without `membrane.virtual`; MBR_OUT_OF_ADDRESSES. Costs no bytes.
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

typedef struct mbr_range_grow_request {
    uint32_t struct_size;
    uint32_t flags; /* MBR_GROW_… */
    mbr_holder_handle holder;
    mbr_stream_handle stream; /* on which fills run, where one is needed; may be 0 */
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
    uint64_t parked_bytes;   /* of new: adopted in place, without a driver call */
    uint64_t residual_bytes; /* after MBR_RESIDUAL: what the undo could not take back, charged */
} mbr_range_grow_result;

/* One transaction over all pieces: all of it or none. On failure the old contents, lengths and
 * figures hold. Errors: MBR_OVER_BUDGET, the mechanism's, the publish callback's; MBR_RESIDUAL: an
 * undo failed, the rest holds. */
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

/* Gives back the whole extents inside the piece, after the streams. Errors: MBR_QUEUE_FULL. */
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
} mbr_range_figures;

/* By handle, or by any address inside when the handle is 0. */
MBR_API mbr_status mbr_range_read(mbr_manager *manager, mbr_range_handle range, uint64_t address,
    mbr_range_figures *figures, mbr_error *error);

/* ---- Prefixes
 * ---------------------------------------------------------------------------------------- */
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
 * range must not write there any more. Errors: MBR_UNSUPPORTED (no `membrane.shared`),
 * MBR_INVALID_ARGUMENT (a piece is not committed, or holds no whole extent: the text says from
 * which length on it would). */
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
} mbr_prefix_attach_result;

/* One transaction over all pieces. Errors: MBR_UNSUPPORTED, MBR_ALREADY_EXISTS (a target is
 * committed there), MBR_INVALID_ARGUMENT (growth rules differ), MBR_RESIDUAL (the private path is
 * forbidden: release the target). */
MBR_API mbr_status mbr_prefix_attach(mbr_manager *manager, const mbr_prefix_attach_request *request,
    mbr_prefix_attach_result *result, mbr_error *error);

/* Ends the prefix object. Its extents live on while a range has them mapped; the bill moves to one
 * of those, or the extents go to the cache after the streams of the ranges are done. */
MBR_API mbr_status mbr_prefix_release(
    mbr_manager *manager, mbr_prefix_handle prefix, mbr_error *error);

typedef struct mbr_prefix_figures {
    uint32_t struct_size;
    uint32_t sharer_count; /* ranges that map extents of it now */
    uint64_t shared_bytes;
    uint64_t exclusive_bytes; /* would become free if it were released now */
} mbr_prefix_figures;

MBR_API mbr_status mbr_prefix_read(
    mbr_manager *manager, mbr_prefix_handle prefix, mbr_prefix_figures *figures, mbr_error *error);

#ifdef __cplusplus
}
#endif

#endif
