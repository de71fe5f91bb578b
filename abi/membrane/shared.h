/* Capability `membrane.shared`: one extent at several addresses. Needs `membrane.virtual`; offered
 * without it, the mechanism is refused at open. A further mapping counts as mapped, never as owned;
 * it ends by unmap like any other, in any order, and the extent lives until the last one is gone.
 */
#ifndef MEMBRANE_SHARED_H
#define MEMBRANE_SHARED_H

#include "membrane/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mbr_map_shared_request {
    uint32_t struct_size;
    uint32_t access_count;
    uint64_t reservation_id;
    uint64_t offset_bytes;    /* a multiple of the granule; the range must be free */
    uint64_t extent_id;       /* mapped at least once already, else MBR_INVALID_ARGUMENT */
    const mbr_access *access; /* of this mapping alone, any that protect would give: sharers of a
                               * prefix get MBR_ACCESS_READ, writers to one memory READ_WRITE */
} mbr_map_shared_request;

typedef struct mbr_shared_vtable {
    uint32_t struct_size;
    uint16_t kind;  /* MBR_KIND_SHARED */
    uint16_t minor; /* MBR_MINOR_0 */

    /* Maps the whole extent once more and gives it its access in the same step: on failure nothing
     * is mapped, or the outcome is PARTIAL. [serial: reservation] */
    mbr_status (*map_shared)(mbr_instance *instance, const mbr_map_shared_request *request,
        mbr_outcome *outcome, mbr_error *error);
} mbr_shared_vtable;

#ifdef __cplusplus
}
#endif

#endif
