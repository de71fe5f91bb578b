/* Capability `membrane.virtual`: addresses apart from the memory behind them.
 *
 * An extent is one physical handle of a whole number of granules. It gets its final properties when
 * it is created and is mapped whole; it may be unmapped and mapped again, in any reservation of the
 * same instance, and keeps its contents. No slot caches, rounds or retries: that is the host's.
 *
 *   created by       released by       thread
 *   reserve          unreserve         any; holds no mapping when released
 *   extent_create    extent_destroy    any; not mapped when released
 *   map, map_shared  unmap             one call at a time for a reservation
 */
#ifndef MEMBRANE_VIRTUAL_H
#define MEMBRANE_VIRTUAL_H

#include "membrane/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mbr_reserve_request {
    uint32_t struct_size;
    uint32_t flags;          /* none defined */
    uint64_t reservation_id; /* the host's */
    uint64_t bytes;          /* whole granules, at most MBR_FACT_RESERVATION_MAX_BYTES */
    uint64_t align_bytes;    /* a power of two; 0, or one below the granule: the granule */
} mbr_reserve_request;

typedef struct mbr_unreserve_request {
    uint32_t struct_size;
    uint32_t reserved_0;
    uint64_t reservation_id;
} mbr_unreserve_request;

/* What drivers fix when a handle is made (rule 15). Granted is what holds of all of the extent's
 * memory, not what was tried. */
#define MBR_EXTENT_ZEROED 1            /* critical: contents are zero */
#define MBR_EXTENT_EXPORTABLE 2        /* critical: can be exported as a descriptor */
#define MBR_EXTENT_HUGE_PAGES 65536    /* optional: pages above the system's smallest */
#define MBR_EXTENT_ON_NUMA_NODE 131072 /* optional: on numa_node, which the system has */

typedef struct mbr_extent_create_request {
    uint32_t struct_size;
    uint32_t flags;           /* MBR_EXTENT_…; outcome.granted_flags says which hold */
    uint64_t extent_id;       /* the host's */
    uint64_t bytes;           /* whole granules, at most MBR_FACT_EXTENT_MAX_BYTES */
    uint64_t max_owned_bytes; /* refuse with MBR_OVER_BUDGET rather than own more for this call */
    uint32_t numa_node;
    uint32_t reserved_0;
} mbr_extent_create_request;

typedef struct mbr_extent_destroy_request {
    uint32_t struct_size;
    uint32_t reserved_0;
    uint64_t extent_id;
} mbr_extent_destroy_request;

typedef struct mbr_map_request {
    uint32_t struct_size;
    uint32_t flags; /* none defined */
    uint64_t reservation_id;
    uint64_t offset_bytes; /* in the reservation; a multiple of the granule */
    uint64_t extent_id;    /* mapped whole: [offset, offset + its bytes) must be free */
} mbr_map_request;

typedef struct mbr_protect_request {
    uint32_t struct_size;
    uint32_t access_count;
    uint64_t reservation_id;
    uint64_t offset_bytes;
    uint64_t bytes; /* exactly covers whole mappings, with no hole */
    const mbr_access *access;
} mbr_protect_request;

typedef struct mbr_unmap_request {
    uint32_t struct_size;
    uint32_t flags; /* none defined */
    uint64_t reservation_id;
    uint64_t offset_bytes;
    uint64_t bytes; /* exactly covers whole mappings, with no hole; one if
                     * MBR_FACT_UNMAP_SPANS_MAPPINGS is 0 */
} mbr_unmap_request;

typedef struct mbr_query_request {
    uint32_t struct_size;
    uint32_t reserved_0;
    uint64_t reservation_id;
    uint64_t offset_bytes; /* any byte of the reservation, no multiple of anything */
} mbr_query_request;

typedef struct mbr_query_outcome {
    uint32_t struct_size;
    uint32_t access;       /* MBR_ACCESS_… of the mechanism's own device */
    uint64_t extent_id;    /* 0: nothing is mapped there */
    uint64_t offset_bytes; /* where the mapping starts, or the hole */
    uint64_t bytes;        /* length of the mapping, or of the hole */
} mbr_query_outcome;

typedef struct mbr_virtual_vtable {
    uint32_t struct_size;
    uint16_t kind;  /* MBR_KIND_VIRTUAL */
    uint16_t minor; /* MBR_MINOR_0 */

    /* An address range without memory, at outcome.address, which the outcome must hold. Errors:
     * MBR_OUT_OF_ADDRESSES, MBR_MISALIGNED, MBR_ALREADY_EXISTS. [any-thread] */
    mbr_status (*reserve)(mbr_instance *instance, const mbr_reserve_request *request,
        mbr_outcome *outcome, mbr_error *error);

    /* Gives the addresses back. MBR_BUSY while anything is mapped there. [serial: reservation] */
    mbr_status (*unreserve)(mbr_instance *instance, const mbr_unreserve_request *request,
        mbr_outcome *outcome, mbr_error *error);

    /* Physical memory without an address; newly_owned_bytes says what it took. Errors:
     * MBR_OUT_OF_MEMORY, MBR_OUT_OF_DESCRIPTORS, MBR_OVER_BUDGET, MBR_MISALIGNED. [any-thread] */
    mbr_status (*extent_create)(mbr_instance *instance, const mbr_extent_create_request *request,
        mbr_outcome *outcome, mbr_error *error);

    /* Gives the memory back. MBR_BUSY while it is mapped anywhere. [serial: extent] */
    mbr_status (*extent_destroy)(mbr_instance *instance, const mbr_extent_destroy_request *request,
        mbr_outcome *outcome, mbr_error *error);

    /* Puts a whole extent behind a free range. It has no access until protect. An extent that is
     * mapped already is MBR_BUSY: further mappings are map_shared's. Errors: MBR_OUT_OF_MAPPINGS,
     * MBR_ALREADY_EXISTS (range in use), MBR_OUT_OF_RANGE. [serial: reservation] */
    mbr_status (*map)(mbr_instance *instance, const mbr_map_request *request, mbr_outcome *outcome,
        mbr_error *error);

    /* Sets the access of whole mappings, one entry a device; all or nothing. A device that the
     * list does not name keeps its access. Contents stay, also through MBR_ACCESS_NONE and back;
     * no byte counts as newly mapped. [serial: reservation] */
    mbr_status (*protect)(mbr_instance *instance, const mbr_protect_request *request,
        mbr_outcome *outcome, mbr_error *error);

    /* Takes whole mappings away; extents and their contents stay. It does not wait for the device
     * unless MBR_FACT_UNMAP_WAITS_FOR_DEVICE. [serial: reservation] */
    mbr_status (*unmap)(mbr_instance *instance, const mbr_unmap_request *request,
        mbr_outcome *outcome, mbr_error *error);

    /* The mapping or the hole that an offset lies in, whole. MBR_OUT_OF_RANGE from the
     * reservation's end on. [serial: reservation] */
    mbr_status (*query)(mbr_instance *instance, const mbr_query_request *request,
        mbr_query_outcome *outcome, mbr_error *error);
} mbr_virtual_vtable;

#ifdef __cplusplus
}
#endif

#endif
