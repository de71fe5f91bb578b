/* Graph captures and what a graph owns; docs/ordering.md says which calls wait, are refused or work
 * as ever while a capture is open.
 *
 * The client says when it captures: begin before the driver's own begin, end after the driver's
 * end, also of a capture that failed. What is allocated, reserved, grown or attached in between
 * belongs to the graph: freed at any time, it is given back after the graph's retirement. */
#ifndef MEMBRANE_CAPTURE_H
#define MEMBRANE_CAPTURE_H

#include "membrane/handle.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mbr_graph_handle {
    uint64_t value;
} mbr_graph_handle;

/* Closes the capture gate of the devices that the stream's EP works on, for all EPs of this manager
 * on them, once no gated call is inside; on failure nothing has changed. Several streams may be
 * captured at once. Errors: MBR_TIMED_OUT (such a call was still inside at deadline_ns of
 * CLOCK_MONOTONIC), MBR_ALREADY_EXISTS (the stream is being captured: captures do not nest on one
 * stream), MBR_BUSY (the EP is retiring), MBR_DEVICE_LOST. */
MBR_API mbr_status mbr_ep_capture_begin(
    mbr_manager *manager, mbr_stream_handle stream, uint64_t deadline_ns, mbr_error *error);

/* Any thread. What waited for the gate goes on once the last capture on the device has ended; what
 * is above the caches' watermarks is given back here. Errors: MBR_UNKNOWN_OBJECT (the stream is not
 * being captured), MBR_DEVICE_LOST (meanwhile: the capture is over, there is no graph). */
MBR_API mbr_status mbr_ep_capture_end(
    mbr_manager *manager, mbr_stream_handle stream, mbr_graph_handle *graph, mbr_error *error);

/* The graph is not launched any more. What it owns and was freed is given back once all work
 * submitted so far to the streams is done: every stream on which a launch of it may still run; none
 * where no launch is pending. The handle is stale at once. Errors: MBR_QUEUE_FULL and those of a
 * stream (MBR_STALE, MBR_INVALID_ARGUMENT of another EP), MBR_BUSY (another thread is retiring it):
 * the graph is as it was. Of a lost EP it always works. */
MBR_API mbr_status mbr_ep_graph_retire(mbr_manager *manager, mbr_graph_handle graph,
    const mbr_stream_handle *streams, uint32_t stream_count, mbr_error *error);

typedef struct mbr_graph_figures {
    uint32_t struct_size;
    uint32_t reserved_0;
    mbr_ep_handle ep;
    uint64_t held_count; /* releases that wait for its retirement alone */
    uint64_t held_bytes;
} mbr_graph_figures;

MBR_API mbr_status mbr_ep_graph_read(
    mbr_manager *manager, mbr_graph_handle graph, mbr_graph_figures *figures, mbr_error *error);

#ifdef __cplusplus
}
#endif

#endif
