/* What the files of `membrane.virtual` ask of each other. */
#ifndef MEMBRANE_PLUGINS_HOST_RESERVATION_H
#define MEMBRANE_PLUGINS_HOST_RESERVATION_H

#include "plugins/host/core.h"

/* The reservation, marked busy until it is left; or NULL, with *status and *error saying why. */
struct mbr_host_reservation *mbr_host_reservation_enter(
    mbr_instance *instance, uint64_t id, mbr_status *status, mbr_error *error);
struct mbr_host_reservation *mbr_host_reservation_enter_locked(
    mbr_instance *instance, uint64_t id, mbr_status *status, mbr_error *error);
void mbr_host_reservation_leave(mbr_instance *instance, struct mbr_host_reservation *reservation);

/* The mapping that covers a byte, or NULL. The reservation is entered. */
struct mbr_host_mapping *mbr_host_mapping_at(
    const struct mbr_host_reservation *reservation, uint64_t offset_bytes);

/* Slots of the tables in reservation.c. */
mbr_status mbr_host_slot_extent_create(mbr_instance *instance, const mbr_extent_create_request *raw,
    mbr_outcome *outcome, mbr_error *error);
mbr_status mbr_host_slot_extent_destroy(mbr_instance *instance,
    const mbr_extent_destroy_request *raw, mbr_outcome *outcome, mbr_error *error);
mbr_status mbr_host_slot_map(
    mbr_instance *instance, const mbr_map_request *raw, mbr_outcome *outcome, mbr_error *error);
mbr_status mbr_host_slot_map_shared(mbr_instance *instance, const mbr_map_shared_request *raw,
    mbr_outcome *outcome, mbr_error *error);
mbr_status mbr_host_slot_protect(
    mbr_instance *instance, const mbr_protect_request *raw, mbr_outcome *outcome, mbr_error *error);
mbr_status mbr_host_slot_unmap(
    mbr_instance *instance, const mbr_unmap_request *raw, mbr_outcome *outcome, mbr_error *error);

#endif
