/* Execution providers: a device context, its streams, and the order in which memory is released.
 *
 * An EP brings its lines either from a mechanism's `order` capability or from tables of its own;
 * the tables are the contract's (membrane/order.h, membrane/transfer.h), called with the EP's
 * instance.
 *
 * Context states: active -> retiring (no new work, releases go on) -> terminated; active or
 * retiring
 * -> lost. A live allocation, a queued release and an open transaction each pin the context. */
#ifndef MEMBRANE_EP_H
#define MEMBRANE_EP_H

#include "membrane/handle.h"
#include "membrane/order.h"
#include "membrane/transfer.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mbr_ep_request {
    uint32_t struct_size;
    uint32_t queue_entries;              /* bound of the release queue; 0: 65536 */
    uint64_t queue_bytes;                /* bound of the bytes in it; 0: no bound */
    const char *name;                    /* for people, at most 47 bytes */
    mbr_mechanism_handle mechanism;      /* brings order and transfer, if `order` is NULL; it is of
                                          * the device that captures of this EP close the gate of
                                          * (membrane/capture.h), beside those it is bound to */
    const mbr_order_vtable *order;       /* the EP's own; copied */
    const mbr_transfer_vtable *transfer; /* may be NULL: nothing can be filled or copied */
    mbr_instance *instance;              /* passed to both; outlives the EP */
} mbr_ep_request;

MBR_API mbr_status mbr_ep_create(
    mbr_manager *manager, const mbr_ep_request *request, mbr_ep_handle *ep, mbr_error *error);

/* Drains the queue first, until deadline_ns. MBR_IN_USE with counts while bindings, allocations,
 * streams, captures or graphs refer to it; MBR_TIMED_OUT: it goes on as it was, retiring.
 *
 * A lost EP: the call says that the device's own context is gone, and that is done first, also
 * where it then answers MBR_IN_USE. Call it only when that is so: what was lost is refunded without
 * a call into the device. The order for a client, in which the first two steps may change places:
 *   1. mbr_ep_destroy: what was freed or released before is refunded, once. MBR_IN_USE.
 *   2. Free and release the rest: each is refunded as it comes, whatever streams are named. Detach
 *      the streams.
 *   3. Unbind. Until the end is confirmed it is MBR_IN_USE, where memory does not outlive its
 *      context (MBR_FACT_RELEASABLE_AFTER_LOSS); if a step before left lost bytes, repeat 1.
 *   4. mbr_ep_destroy: MBR_OK. */
MBR_API mbr_status mbr_ep_destroy(
    mbr_manager *manager, mbr_ep_handle ep, uint64_t deadline_ns, mbr_error *error);

/* A native value that is used again is a new stream with a new handle. */
MBR_API mbr_status mbr_ep_attach_stream(mbr_manager *manager, mbr_ep_handle ep, mbr_native native,
    mbr_stream_handle *stream, mbr_error *error);
/* The line outlives it: releases that wait for the stream are still settled. MBR_BUSY: the stream
 * is being captured and releases wait for it; it stays attached. Of a lost EP it always works:
 * there is nothing left to wait for. */
MBR_API mbr_status mbr_ep_detach_stream(
    mbr_manager *manager, mbr_stream_handle stream, mbr_error *error);

/* For clients that have no driver at hand: a native stream of the EP's own kind, made by its
 * transfer table and attached to nothing yet; and its end, once it is detached (work under way goes
 * on). MBR_UNSUPPORTED where the EP has no transfer. */
MBR_API mbr_status mbr_ep_create_stream(
    mbr_manager *manager, mbr_ep_handle ep, mbr_native *native, mbr_error *error);
MBR_API mbr_status mbr_ep_destroy_stream(
    mbr_manager *manager, mbr_ep_handle ep, mbr_native native, mbr_error *error);

/* Waits until all work submitted to the stream so far is done, or the deadline. Never elided.
 * MBR_BUSY: a stream of its device is being captured, this one or another. */
MBR_API mbr_status mbr_ep_synchronize(
    mbr_manager *manager, mbr_stream_handle stream, uint64_t deadline_ns, mbr_error *error);

/* Enqueues a fill of every byte with `value`, as mbr_ep_copy does a copy, and is refused where that
 * is. */
MBR_API mbr_status mbr_ep_fill(mbr_manager *manager, mbr_stream_handle stream, uint64_t address,
    uint8_t value, uint64_t bytes, mbr_error *error);

/* Enqueues a copy on the stream, by the EP's transfer table; the ranges do not overlap. 0 bytes
 * only check the stream. MBR_UNSUPPORTED where the EP has no transfer. MBR_BUSY: the stream is
 * being captured, so that it would be done at each launch of the graph, and not now; a copy that is
 * to be part of a graph is the driver's own. */
MBR_API mbr_status mbr_ep_copy(mbr_manager *manager, mbr_stream_handle stream, uint64_t to_address,
    uint64_t from_address, uint64_t bytes, mbr_error *error);

/* No new allocations; releases go on. */
MBR_API mbr_status mbr_ep_retire(mbr_manager *manager, mbr_ep_handle ep, mbr_error *error);
/* The client knows that the device is gone. Queued releases settle as lost: they stay charged, like
 * all else of the EP, until mbr_ep_destroy confirms that the device's context has ended. */
MBR_API mbr_status mbr_ep_lost(mbr_manager *manager, mbr_ep_handle ep, mbr_error *error);

/* Closes the open epoch and waits until every queued release is settled, or the deadline; not for
 * those that wait for a graph's retirement. MBR_BUSY while a capture is open on its device. */
MBR_API mbr_status mbr_ep_drain(
    mbr_manager *manager, mbr_ep_handle ep, uint64_t deadline_ns, mbr_error *error);

typedef struct mbr_ep_figures {
    uint32_t struct_size;
    uint32_t context_state; /* MBR_CONTEXT_… */
    uint64_t pin_count;
    uint64_t stream_count;
    uint64_t line_count; /* open lines, also of detached streams */
    uint64_t queued_count;
    uint64_t queued_bytes;
    uint64_t released_count; /* entries settled as released since create */
    uint64_t lost_count;
    uint64_t signal_count;    /* one an epoch and stream */
    uint64_t wake_count;      /* of the reaper */
    uint64_t violation_count; /* answers of the tables that the contract does not allow */
    uint64_t capture_count;   /* open captures (membrane/capture.h) */
    uint64_t graph_count;     /* graphs that are not retired */
    uint64_t held_count;      /* of queued: releases that wait for a graph's retirement */
    uint64_t held_bytes;
    uint64_t reactivated_count; /* entries that new work took out of the queue again */
    uint64_t stream_wait_count; /* device-side waits for that */
} mbr_ep_figures;

#define MBR_CONTEXT_ACTIVE 0
#define MBR_CONTEXT_RETIRING 1
#define MBR_CONTEXT_TERMINATED 2
#define MBR_CONTEXT_LOST 3

MBR_API mbr_status mbr_ep_read(
    mbr_manager *manager, mbr_ep_handle ep, mbr_ep_figures *figures, mbr_error *error);

#ifdef __cplusplus
}
#endif

#endif
