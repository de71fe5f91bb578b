/* Workspace arenas: memory for kernels' scratch, taken by moving a pointer and given back all at
 * once.
 *
 *   step     what is taken lives until mbr_workspace_end(…, MBR_WORKSPACE_STEP); then the same
 *            addresses serve the next step: its work is on the same stream and comes after
 *   session  what is taken lives until the session ends, over any number of steps
 *
 * Each scope is a growing range: addresses never move, commitment follows the need. A step's stays
 * at its high-water mark, which falls slowly when later steps need less. In the steady state a take
 * is a comparison and an addition under a lock that nobody else holds: no heap, no system call, no
 * driver.
 *
 * Thread rule: take and end by one thread at a time, could_give, give and read by any. */
#ifndef MEMBRANE_WORKSPACE_H
#define MEMBRANE_WORKSPACE_H

#include "membrane/budget.h"
#include "membrane/handle.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mbr_workspace mbr_workspace;

#define MBR_WORKSPACE_STEP 0
#define MBR_WORKSPACE_SESSION 1
#define MBR_WORKSPACE_SCOPE_COUNT 2

typedef struct mbr_workspace_request {
    uint32_t struct_size;
    uint32_t reserved_0;
    mbr_binding_handle binding;
    mbr_holder_handle holder; /* pays; role workspace */
    mbr_stream_handle
        stream; /* of all work on it; attached as long as it lives; 0: the host's alone */
    uint64_t most_bytes[MBR_WORKSPACE_SCOPE_COUNT]; /* addresses of each scope: they cost nothing;
                                                     * 0: the scope is not used */
    uint64_t unit_bytes; /* by which it grows, a whole number of granules; 0: the recommended one */
} mbr_workspace_request;

/* Takes addresses and no bytes. Errors: those of mbr_range_reserve; MBR_STALE (holder, stream),
 * MBR_INVALID_ARGUMENT (a stream of another EP), MBR_OUT_OF_HOST_MEMORY, MBR_OUT_OF_DESCRIPTORS
 * (the holder cannot be asked for bytes: too many of its authority are). */
MBR_API mbr_status mbr_workspace_create(mbr_manager *manager, const mbr_workspace_request *request,
    mbr_workspace **workspace, mbr_error *error);
/* Behind the stream. Whatever was taken is over. MBR_QUEUE_FULL, MBR_BUSY (pinned): call it again;
 * nothing may be taken any more. One look for bytes that is inside is awaited; first end the way on
 * which the holder's callbacks come here. */
MBR_API mbr_status mbr_workspace_destroy(mbr_workspace *workspace, mbr_error *error);

/* `align_bytes` is a power of two up to the granule; 0: 256. 0 bytes get an address of their own.
 * Contents are undefined. Errors, and then nothing has changed: MBR_INVALID_ARGUMENT (scope,
 * alignment), MBR_OUT_OF_RANGE (past most_bytes), those of mbr_range_grow (`refusal` may be NULL).
 */
MBR_API mbr_status mbr_workspace_take(mbr_workspace *workspace, uint32_t scope, uint64_t bytes,
    uint64_t align_bytes, uint64_t *address, mbr_refusal *refusal, mbr_error *error);

/* All that was taken of the scope is over, once the work submitted so far is done. A session gives
 * all its bytes back, behind the stream; a step what is far above its mark. Cannot fail: what the
 * release queue has no room for stays committed until a later end. */
MBR_API void mbr_workspace_end(mbr_workspace *workspace, uint32_t scope);

/* The holder is asked for bytes: without callbacks of the client's (mbr_holder_request) the
 * workspace answers by itself, with these: of whole extents above what is taken now, if the stream
 * is done, no capture is open, no graph owns and no pin holds them; at most `wanted_bytes`; and
 * giving them. Returns the bytes. */
MBR_API uint64_t mbr_workspace_could_give(mbr_workspace *workspace, uint64_t wanted_bytes);
MBR_API uint64_t mbr_workspace_give(mbr_workspace *workspace, uint64_t wanted_bytes);

typedef struct mbr_workspace_figures {
    uint32_t struct_size;
    uint32_t reserved_0;
    uint64_t used_bytes[MBR_WORKSPACE_SCOPE_COUNT]; /* taken now, what aligns it included */
    uint64_t committed_bytes[MBR_WORKSPACE_SCOPE_COUNT];
    uint64_t mark_bytes; /* of steps: what the next one is expected to take */
    uint64_t peak_bytes; /* of steps, since create */
    uint64_t step_count; /* that have ended */
    uint64_t grow_count; /* takes that had to commit */
} mbr_workspace_figures;

MBR_API void mbr_workspace_read(mbr_workspace *workspace, mbr_workspace_figures *figures);

#ifdef __cplusplus
}
#endif

#endif
