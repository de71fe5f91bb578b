/* Capability `membrane.transfer`: fills and copies, enqueued on a native stream. Required for
 * conformance level 2, together with `membrane.order`, where memory is not host-accessible.
 *
 *   created by       released by       thread
 *   stream_create    stream_destroy    any; pending work goes on after stream_destroy
 */
#ifndef MEMBRANE_TRANSFER_H
#define MEMBRANE_TRANSFER_H

#include "membrane/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mbr_stream_create_request {
    uint32_t struct_size;
    uint32_t flags; /* none defined */
} mbr_stream_create_request;

typedef struct mbr_stream_create_outcome {
    uint32_t struct_size;
    uint32_t reserved_0;
    mbr_native stream;
} mbr_stream_create_outcome;

typedef struct mbr_stream_destroy_request {
    uint32_t struct_size;
    uint32_t reserved_0;
    mbr_native stream;
} mbr_stream_destroy_request;

typedef struct mbr_fill_request {
    uint32_t struct_size;
    uint32_t pattern; /* its low byte is written to every byte */
    mbr_native stream;
    uint64_t address;
    uint64_t bytes;
} mbr_fill_request;

typedef struct mbr_copy_request {
    uint32_t struct_size;
    uint32_t reserved_0;
    mbr_native stream;
    uint64_t to_address;   /* either side may be memory of the mechanism or of the host */
    uint64_t from_address; /* the ranges do not overlap */
    uint64_t bytes;
} mbr_copy_request;

typedef struct mbr_transfer_vtable {
    uint32_t struct_size;
    uint16_t kind;  /* MBR_KIND_TRANSFER */
    uint16_t minor; /* MBR_MINOR_0 */

    /* [any-thread] */
    mbr_status (*stream_create)(mbr_instance *instance, const mbr_stream_create_request *request,
        mbr_stream_create_outcome *outcome, mbr_error *error);

    /* [any-thread] */
    mbr_status (*stream_destroy)(mbr_instance *instance, const mbr_stream_destroy_request *request,
        mbr_outcome *outcome, mbr_error *error);

    /* Enqueues a fill. [any-thread] */
    mbr_status (*fill)(mbr_instance *instance, const mbr_fill_request *request,
        mbr_outcome *outcome, mbr_error *error);

    /* Enqueues a copy in any direction. [any-thread] */
    mbr_status (*copy)(mbr_instance *instance, const mbr_copy_request *request,
        mbr_outcome *outcome, mbr_error *error);
} mbr_transfer_vtable;

#ifdef __cplusplus
}
#endif

#endif
