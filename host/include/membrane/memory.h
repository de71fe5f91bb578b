/* Plain allocations. Small ones come from slabs and threads' own caches and reach neither the
 * driver nor the governor; larger ones from pooled or parked extents, or from the plugin.
 *
 * Allocation states: live -> queued -> released | reactivated; reactivated -> given again, as
 * another allocation, which goes on as a live one; live or queued -> partially unmapped |
 * quarantined | device lost, each -> released once it is settled; quarantined -> queued, where it
 * is freed after all. Only released is terminal. */
#ifndef MEMBRANE_MEMORY_H
#define MEMBRANE_MEMORY_H

#include "membrane/budget.h"
#include "membrane/handle.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MBR_ALLOC_ZEROED                                                                           \
    1 /* critical: filled on the request's stream where it is not zero already */

typedef struct mbr_alloc_request {
    uint32_t struct_size;
    uint32_t flags; /* MBR_ALLOC_… */
    mbr_binding_handle binding;
    mbr_holder_handle holder; /* pays; of the binding's authority */
    mbr_stream_handle stream; /* on which it is used first; 0: by the host only */
    uint64_t bytes;
    uint64_t align_bytes; /* a power of two; 0: 256 */
    uint64_t tag;         /* the caller's, shown in traces */
    mbr_refusal *refusal; /* filled with MBR_OVER_BUDGET; may be NULL */
} mbr_alloc_request;

typedef struct mbr_alloc_result {
    uint32_t struct_size;
    uint32_t content; /* MBR_CONTENT_… */
    mbr_allocation_handle allocation;
    uint64_t address;
    uint64_t usable_bytes;  /* at least bytes */
    uint64_t charged_bytes; /* to the holder */
} mbr_alloc_result;

/* Errors: MBR_OVER_BUDGET (figures in the refusal), the mechanism's MBR_OUT_OF_…, MBR_STALE
 * (binding), MBR_OVERFLOW, MBR_INVALID_ARGUMENT, MBR_BUSY (the EP retires; zeroed on a stream that
 * is captured; a mechanism without `virtual` while a capture is open on its device). Memory whose
 * release still waits for the request's stream alone may be given again at once (reactivated): name
 * the stream on which it is used first. Before a refusal completed releases are reaped and caches
 * are asked for what is missing, holders of that role among them: the caller holds no lock that
 * their callbacks take. If all that is not enough, memory that waits for other streams is given,
 * and the request's stream waits for those on the device. */
MBR_API mbr_status mbr_alloc(mbr_manager *manager, const mbr_alloc_request *request,
    mbr_alloc_result *result, mbr_error *error);

#define MBR_FREE_NOW 1 /* critical: the caller proves that no device work touches it any more */

typedef struct mbr_free_request {
    uint32_t struct_size;
    uint32_t flags;                   /* MBR_FREE_… */
    mbr_allocation_handle allocation; /* or 0 and an address */
    uint64_t address;                 /* the allocation's start */
    const mbr_stream_handle *streams; /* every stream that may still touch it */
    uint32_t stream_count;            /* 0: the stream that it was allocated for */
    uint32_t reserved_0;
} mbr_free_request;

/* With streams: released after all work submitted to them so far. Errors: MBR_UNKNOWN_OBJECT
 * (unknown, interior or released already: at most one of racing threads succeeds), MBR_QUEUE_FULL
 * (still live, nothing queued), MBR_STALE (a stream is detached: nobody can wait for it any more.
 * Name others, or MBR_FREE_NOW where all work is done).
 * One that was given again waits for the stream that it was allocated for in any case, also with
 * MBR_FREE_NOW, which says nothing of the work of its memory's former life: it may then be
 * MBR_QUEUE_FULL, too. Of such memory the call names at most 63 others. Once that stream is
 * detached, what the caller says counts for both. The same holds for one whose binding was
 * abandoned. */
MBR_API mbr_status mbr_free(
    mbr_manager *manager, const mbr_free_request *request, mbr_error *error);

typedef struct mbr_allocation_figures {
    uint32_t struct_size;
    uint32_t state; /* MBR_ALLOCATION_… */
    uint64_t address;
    uint64_t bytes;
    uint64_t charged_bytes;
    uint64_t tag;
    mbr_allocation_handle allocation;
} mbr_allocation_figures;

#define MBR_ALLOCATION_LIVE 1
#define MBR_ALLOCATION_QUEUED 2
#define MBR_ALLOCATION_PARTIALLY_UNMAPPED 3 /* no path enters it today; a reader knows it */
#define MBR_ALLOCATION_QUARANTINED                                                                 \
    4 /* abandoned with its binding (mbr_manager_abandon): charged and in nobody's use, until it   \
       * is freed after all or the end of its EP's device is confirmed */
#define MBR_ALLOCATION_DEVICE_LOST 5
#define MBR_ALLOCATION_RELEASED 6
#define MBR_ALLOCATION_REACTIVATED 7 /* its memory is about to be another allocation's */
#define MBR_ALLOCATION_CAPTURED                                                                    \
    8 /* live, and made in a graph capture: freed, it waits for the                                \
       * graph's retirement, also with MBR_FREE_NOW */
#define MBR_ALLOCATION_GIVEN_AGAIN                                                                 \
    9 /* live, in memory that earlier work on its stream may still touch: freed, it waits for that \
       * stream, also with MBR_FREE_NOW */

/* By handle, or by any address inside when the handle is 0. */
MBR_API mbr_status mbr_alloc_read(mbr_manager *manager, mbr_allocation_handle allocation,
    uint64_t address, mbr_allocation_figures *figures, mbr_error *error);

#ifdef __cplusplus
}
#endif

#endif
