/* State bundles: recurrent state of fixed bytes per sequence, such as that of state-space or
 * convolution layers. A bundle has several buffers and is one unit: made, forked, saved to host
 * memory, restored and ended whole, or not at all; what is restored is what was saved, bit for bit.
 *
 * Copies are enqueued on the stream that a call names, which is attached; work of other streams on
 * the bundle is ordered by the caller. Nothing here waits.
 *
 * A bundle that lives, and one that is saved, is somebody's contents, none of which can be given
 * under pressure: there is no mbr_states_could_give, and its holder needs no callbacks. Who is to
 * give saves, and destroys the bundle.
 *
 * Thread rule: any thread; one bundle is used by one thread at a time. */
#ifndef MEMBRANE_STATE_H
#define MEMBRANE_STATE_H

#include "membrane/budget.h"
#include "membrane/handle.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mbr_states mbr_states;           /* bundles of one shape */
typedef struct mbr_state mbr_state;             /* one sequence's */
typedef struct mbr_saved_state mbr_saved_state; /* its contents at one point of a stream */

typedef struct mbr_states_request {
    uint32_t struct_size;
    uint32_t buffer_count;        /* 1 … 4096 */
    const uint64_t *buffer_bytes; /* buffer_count of them, each above 0 */
    mbr_binding_handle binding;
    mbr_holder_handle holder;        /* pays for bundles */
    mbr_binding_handle save_binding; /* memory that the host reaches, with the same EP; 0: nothing
                                      * is saved (MBR_UNSUPPORTED) */
    mbr_holder_handle save_holder;   /* pays for what is saved */
} mbr_states_request;

/* Errors: MBR_OUT_OF_RANGE (buffer_count), MBR_INVALID_ARGUMENT (a buffer of 0 bytes, buffers
 * NULL), MBR_OVERFLOW, MBR_STALE (binding, holder), MBR_OUT_OF_HOST_MEMORY. */
MBR_API mbr_status mbr_states_create(
    mbr_manager *manager, const mbr_states_request *request, mbr_states **states, mbr_error *error);
/* MBR_IN_USE with counts while bundles or saved ones live. MBR_QUEUE_FULL: the release queue has no
 * room yet for what a refused call left. */
MBR_API mbr_status mbr_states_destroy(mbr_states *states, mbr_error *error);

#define MBR_STATE_ZEROED 1 /* critical: every buffer begins as zero */

/* Errors: those of mbr_alloc; MBR_OUT_OF_HOST_MEMORY. `refusal` may be NULL. */
MBR_API mbr_status mbr_state_create(mbr_states *states, mbr_stream_handle stream, uint32_t flags,
    mbr_refusal *refusal, mbr_state **state, mbr_error *error);
/* A new bundle with the same contents, copied on the stream. Errors: the same, and those of
 * mbr_ep_copy; there is no new bundle then, and `state` is as it was. */
MBR_API mbr_status mbr_state_fork(mbr_state *state, mbr_stream_handle stream, mbr_refusal *refusal,
    mbr_state **fork, mbr_error *error);
/* Behind the streams that may still touch it; none: it is quiet. MBR_QUEUE_FULL: it lives on. */
MBR_API mbr_status mbr_state_destroy(
    mbr_state *state, const mbr_stream_handle *streams, uint32_t stream_count, mbr_error *error);

/* Constant while the bundle lives; 256-byte aligned. MBR_OUT_OF_RANGE (index). */
MBR_API mbr_status mbr_state_buffer(
    const mbr_state *state, uint32_t index, uint64_t *address, uint64_t *bytes, mbr_error *error);

/* Copies all buffers to host memory, on the stream, in one copy. Errors: MBR_UNSUPPORTED, those of
 * mbr_alloc and mbr_ep_copy; nothing is saved then. */
MBR_API mbr_status mbr_state_save(mbr_state *state, mbr_stream_handle stream, mbr_refusal *refusal,
    mbr_saved_state **saved, mbr_error *error);
/* Copies all of it into a bundle of the same shape, on the stream, in one copy; any number of
 * times. Errors: MBR_INVALID_ARGUMENT (of other states), those of mbr_ep_copy; the bundle is as it
 * was. */
MBR_API mbr_status mbr_state_restore(
    mbr_state *state, const mbr_saved_state *saved, mbr_stream_handle stream, mbr_error *error);
/* As of a bundle: behind the streams that save and restore it. */
MBR_API mbr_status mbr_saved_state_destroy(mbr_saved_state *saved, const mbr_stream_handle *streams,
    uint32_t stream_count, mbr_error *error);

typedef struct mbr_states_figures {
    uint32_t struct_size;
    uint32_t buffer_count;
    uint64_t bundle_bytes; /* of one: its buffers and what aligns them */
    uint64_t state_count;
    uint64_t saved_count;
    uint64_t charged_bytes;       /* of bundles */
    uint64_t saved_charged_bytes; /* of saved ones */
} mbr_states_figures;

MBR_API void mbr_states_read(mbr_states *states, mbr_states_figures *figures);

#ifdef __cplusplus
}
#endif

#endif
