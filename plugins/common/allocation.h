/* The slots `allocate` and `release` over a plugin's primitives: the checks,
 * the books, and what is left after a call failed half-way. */
#ifndef MEMBRANE_PLUGINS_COMMON_ALLOCATION_H
#define MEMBRANE_PLUGINS_COMMON_ALLOCATION_H

#include "plugins/common/objects.h"

/* A function that fails writes the error. take and give are called without the
 * lock, for an allocation that no other call works on. */
struct mbr_allocation_port {
    uint32_t fresh_content; /* MBR_CONTENT_…; the flag ZEROED needs ZERO */
    /* What is taken to reach an alignment above the unit is memory, and counts as owned: then
     * outer_bytes are bytes + alignment - unit. Else it is unused addresses. */
    bool pads_with_memory;
    /* Adds to owned_bytes what is about to be taken, or refuses; NULL: the driver refuses. */
    mbr_status (*claim_locked)(mbr_instance *instance, uint64_t bytes, mbr_error *error);
    /* Sets address and outer_…; after a failure outer_bytes is 0 if nothing is
     * left. */
    mbr_status (*take)(mbr_instance *instance, struct mbr_object *allocation, uint64_t align_bytes,
        mbr_error *error);
    enum mbr_end (*give)(mbr_instance *instance, struct mbr_object *allocation, mbr_error *error);
};

mbr_status mbr_allocation_slot_allocate(mbr_instance *instance, const mbr_allocate_request *raw,
    mbr_outcome *outcome, mbr_error *error);
mbr_status mbr_allocation_slot_release(
    mbr_instance *instance, const mbr_release_request *raw, mbr_outcome *outcome, mbr_error *error);

#endif
