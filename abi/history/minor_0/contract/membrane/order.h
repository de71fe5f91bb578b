/* Capability `membrane.order`: a point on a native stream, signalled and queried.
 *
 * A line is a 64-bit timeline on one native stream. Values rise from 1. Value v reached means that
 * all work submitted to the stream before the signal that returned v is done. A line outlives its
 * stream; a native stream value that is used again is a new line.
 *
 *   created by      released by     thread
 *   line_open       line_close      any
 */
#ifndef MEMBRANE_ORDER_H
#define MEMBRANE_ORDER_H

#include "membrane/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mbr_line_open_request {
    uint32_t struct_size;
    uint32_t flags;    /* none defined */
    uint64_t line_id;  /* the host's */
    mbr_native stream; /* of the plugin's kind, else MBR_INVALID_ARGUMENT */
} mbr_line_open_request;

typedef struct mbr_line_request {
    uint32_t struct_size;
    uint32_t reserved_0;
    uint64_t line_id;
} mbr_line_request;

typedef struct mbr_line_wait_request {
    uint32_t struct_size;
    uint32_t reserved_0;
    uint64_t line_id;
    uint64_t value;       /* one that signal returned, else MBR_INVALID_ARGUMENT */
    uint64_t deadline_ns; /* MBR_TIMED_OUT past it */
} mbr_line_wait_request;

typedef struct mbr_stream_wait_request {
    uint32_t struct_size;
    uint32_t reserved_0;
    uint64_t line_id;
    uint64_t value;
    mbr_native stream; /* work submitted to it later runs after the value is reached */
} mbr_stream_wait_request;

typedef struct mbr_order_vtable {
    uint32_t struct_size;
    uint16_t kind;  /* MBR_KIND_ORDER */
    uint16_t minor; /* MBR_MINOR_0 */

    /* [any-thread] */
    mbr_status (*line_open)(mbr_instance *instance, const mbr_line_open_request *request,
        mbr_outcome *outcome, mbr_error *error);

    /* Marks the stream's present end; outcome.value is the new value. MBR_BUSY on a stream that is
     * being captured. [serial: line] */
    mbr_status (*signal)(mbr_instance *instance, const mbr_line_request *request,
        mbr_outcome *outcome, mbr_error *error);

    /* outcome.value is the highest value done; never goes back, disturbs no capture on any thread.
     * MBR_DEVICE_LOST if nobody can know any more. [any-thread] */
    mbr_status (*reached)(mbr_instance *instance, const mbr_line_request *request,
        mbr_outcome *outcome, mbr_error *error);

    /* Waits on the host, with back-off, until the value is reached. [any-thread] */
    mbr_status (*wait)(mbr_instance *instance, const mbr_line_wait_request *request,
        mbr_outcome *outcome, mbr_error *error);

    /* Enqueues the wait on another native stream; never waits itself. [any-thread] */
    mbr_status (*stream_wait)(mbr_instance *instance, const mbr_stream_wait_request *request,
        mbr_outcome *outcome, mbr_error *error);

    /* Closes the line, also with values pending. [serial: line] */
    mbr_status (*line_close)(mbr_instance *instance, const mbr_line_request *request,
        mbr_outcome *outcome, mbr_error *error);
} mbr_order_vtable;

#ifdef __cplusplus
}
#endif

#endif
