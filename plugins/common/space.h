/* The books of `membrane.virtual` and `membrane.shared`: which extent is mapped where and with what
 * access, every refusal that follows from that, and what is left after a call failed half-way. The
 * plugin gives the primitives as a port and makes and ends its extents itself.
 *
 * Equations, true whenever the lock is free and no slot is inside:
 *     mapped_bytes         = bytes of all mappings (and what the plugin counts for allocations)
 *     extent.mapping_count = mappings of it in all reservations; an extent ends at 0 only */
#ifndef MEMBRANE_PLUGINS_COMMON_SPACE_H
#define MEMBRANE_PLUGINS_COMMON_SPACE_H

#include "abi/base/interval_tree.h"
#include "plugins/common/objects.h"

struct mbr_reservation {
    struct mbr_object object;      /* first */
    struct mbr_interval *mappings; /* by offset */
    struct mbr_interval place;     /* of addresses, in mbr_objects.places */
};

/* First member of the plugin's own record of an extent. */
struct mbr_extent {
    struct mbr_object object; /* first */
    uint32_t mapping_count;
    uint32_t content; /* MBR_CONTENT_…: the plugin's at first, STALE after a writable mapping */
    bool broken;      /* a give-back failed: only destroy is left */
};

struct mbr_mapping {
    struct mbr_interval place; /* offset in the reservation; first */
    struct mbr_extent *extent;
    struct mbr_answer_access access; /* of every device */
    bool doubtful; /* nobody knows what stands there: looked at before the next attempt */
};

/* Called without the lock, for a reservation that no other call works on. A function that fails
 * writes the error. */
struct mbr_space_port {
    uint64_t reservation_max_bytes;
    /* Sets address and outer_…; a failure leaves nothing. */
    mbr_status (*reserve)(mbr_instance *instance, struct mbr_object *reservation,
        uint64_t align_bytes, mbr_error *error);
    enum mbr_end (*unreserve)(
        mbr_instance *instance, struct mbr_object *reservation, mbr_error *error);
    /* With the access of the record; after a failure the range may be in any state. */
    mbr_status (*map)(mbr_instance *instance, const struct mbr_mapping *mapping, uint64_t address,
        mbr_error *error);
    /* Whole mappings, in one step: GONE says that the range is reserved and empty. */
    enum mbr_end (*unmap)(
        mbr_instance *instance, uint64_t address, uint64_t bytes, mbr_error *error);
    enum mbr_end (*look)(const mbr_instance *instance, uint64_t address, uint64_t bytes);
    /* Of the devices that are named. May fail half-way; `is_undo` puts back what was there. */
    mbr_status (*protect)(mbr_instance *instance, uint64_t address, uint64_t bytes,
        const struct mbr_answer_access *access, bool is_undo, mbr_error *error);
};

/* mbr_object_enter for an extent that is to end: MBR_BUSY while it is mapped. */
void *mbr_space_enter_extent(
    struct mbr_objects *objects, uint64_t id, mbr_status *status, mbr_error *error);

/* Of a range of addresses that a driver is to read or write: MBR_INVALID_ARGUMENT where it touches
 * a reservation and not everything there is mapped. Of other addresses nothing is known here. */
mbr_status mbr_space_check_mapped(
    struct mbr_objects *objects, uint64_t address, uint64_t bytes, mbr_error *error);

mbr_status mbr_space_slot_reserve(
    mbr_instance *instance, const mbr_reserve_request *raw, mbr_outcome *outcome, mbr_error *error);
mbr_status mbr_space_slot_unreserve(mbr_instance *instance, const mbr_unreserve_request *raw,
    mbr_outcome *outcome, mbr_error *error);
mbr_status mbr_space_slot_map(
    mbr_instance *instance, const mbr_map_request *raw, mbr_outcome *outcome, mbr_error *error);
mbr_status mbr_space_slot_map_shared(mbr_instance *instance, const mbr_map_shared_request *raw,
    mbr_outcome *outcome, mbr_error *error);
mbr_status mbr_space_slot_protect(
    mbr_instance *instance, const mbr_protect_request *raw, mbr_outcome *outcome, mbr_error *error);
mbr_status mbr_space_slot_unmap(
    mbr_instance *instance, const mbr_unmap_request *raw, mbr_outcome *outcome, mbr_error *error);
mbr_status mbr_space_slot_query(mbr_instance *instance, const mbr_query_request *raw,
    mbr_query_outcome *outcome, mbr_error *error);

#endif
