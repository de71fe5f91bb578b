/* The slots of `membrane.transfer` over a driver's streams: the checks, and the streams that were
 * made here. Fills and copies go to any stream of the driver's, also to one of its user. */
#ifndef MEMBRANE_PLUGINS_COMMON_TRANSFERS_H
#define MEMBRANE_PLUGINS_COMMON_TRANSFERS_H

#include "plugins/common/objects.h"

/* A function that fails writes the error. None is called under a lock. */
struct mbr_transfer_port {
    mbr_status (*stream_create)(mbr_instance *instance, uint64_t *stream, mbr_error *error);
    /* Pending work goes on. */
    enum mbr_end (*stream_destroy)(mbr_instance *instance, uint64_t stream, mbr_error *error);
    mbr_status (*fill)(mbr_instance *instance, uint64_t stream, uint64_t address, uint64_t bytes,
        uint8_t pattern, mbr_error *error);
    mbr_status (*copy)(mbr_instance *instance, uint64_t stream, uint64_t to_address,
        uint64_t from_address, uint64_t bytes, mbr_error *error);
};

mbr_status mbr_transfer_slot_stream_create(mbr_instance *instance,
    const mbr_stream_create_request *raw, mbr_stream_create_outcome *outcome, mbr_error *error);
mbr_status mbr_transfer_slot_stream_destroy(mbr_instance *instance,
    const mbr_stream_destroy_request *raw, mbr_outcome *outcome, mbr_error *error);
mbr_status mbr_transfer_slot_fill(
    mbr_instance *instance, const mbr_fill_request *raw, mbr_outcome *outcome, mbr_error *error);
mbr_status mbr_transfer_slot_copy(
    mbr_instance *instance, const mbr_copy_request *raw, mbr_outcome *outcome, mbr_error *error);

#endif
