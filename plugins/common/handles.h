/* The slots `extent_create` and `extent_destroy` for drivers where an extent is one handle: the
 * checks, the books, and what is left after a call failed half-way. */
#ifndef MEMBRANE_PLUGINS_COMMON_HANDLES_H
#define MEMBRANE_PLUGINS_COMMON_HANDLES_H

#include "plugins/common/space.h"

struct mbr_handle_extent {
    struct mbr_extent extent; /* first */
    uint64_t handle;          /* the driver's */
};

/* Called without the lock, for an extent that no other call works on. A function that fails writes
 * the error. */
struct mbr_handle_port {
    /* Sets the handle. One that is not 0 after a failure is there all the same, and is destroyed.
     */
    mbr_status (*create)(
        mbr_instance *instance, struct mbr_handle_extent *extent, mbr_error *error);
    enum mbr_end (*destroy)(
        mbr_instance *instance, const struct mbr_handle_extent *extent, mbr_error *error);
};

mbr_status mbr_handle_slot_extent_create(mbr_instance *instance,
    const mbr_extent_create_request *raw, mbr_outcome *outcome, mbr_error *error);
mbr_status mbr_handle_slot_extent_destroy(mbr_instance *instance,
    const mbr_extent_destroy_request *raw, mbr_outcome *outcome, mbr_error *error);

#endif
