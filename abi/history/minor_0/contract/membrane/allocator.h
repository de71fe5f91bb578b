/* Capability `membrane.allocator` (required): contiguous memory, also for backends without virtual
 * memory; the mechanism's facts and moving numbers.
 *
 *   created by      released by     thread
 *   allocate        release         any, also another than the creator's
 */
#ifndef MEMBRANE_ALLOCATOR_H
#define MEMBRANE_ALLOCATOR_H

#include "membrane/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Facts (rule 4) -----------------------------------------------------------------------------
 * They never change while a mechanism is open. An unknown one is MBR_UNSUPPORTED, and the host uses
 * the default in brackets. Numbers from 0x10000 on belong to third parties. */
#define MBR_FACT_GRANULE_MIN_BYTES 1            /* smallest mappable unit [required with virtual] */
#define MBR_FACT_GRANULE_RECOMMENDED_BYTES 2    /* [the minimum] */
#define MBR_FACT_EXTENT_MAX_BYTES 3             /* largest extent [no limit] */
#define MBR_FACT_RESERVATION_MAX_BYTES 4        /* largest reservation [no limit] */
#define MBR_FACT_ALLOCATION_ALIGN_BYTES 5       /* of allocate without a wish [1] */
#define MBR_FACT_ALLOCATION_ROUND_BYTES 6       /* allocate owns whole multiples of it [1] */
#define MBR_FACT_FRESH_CONTENT 7                /* MBR_CONTENT_… of fresh memory [undefined] */
#define MBR_FACT_USABLE_AFTER_PROTECT 8         /* 1: as soon as protect returns [0] */
#define MBR_FACT_UNMAP_SPANS_MAPPINGS 9         /* 1: one unmap may cover several mappings [0] */
#define MBR_FACT_PROTECT_MAY_FAIL_SPURIOUSLY 10 /* 1: retry a bounded number of times [0] */
#define MBR_FACT_ALIASING 11                    /* 1: one extent at several addresses [0] */
#define MBR_FACT_READ_ONLY_ENFORCED 12     /* 1: a write through a read-only mapping fails [0] */
#define MBR_FACT_UNMAP_WAITS_FOR_DEVICE 13 /* 1: unmap synchronizes [0] */
#define MBR_FACT_PAST_PHYSICAL_SIZE 14     /* MBR_PAST_… [kill] */
#define MBR_FACT_RELEASABLE_AFTER_LOSS 15  /* 1: unmap, destroy, unreserve work [0] */
#define MBR_FACT_HOST_ACCESSIBLE 16        /* 1: the CPU can load and store there [0] */
#define MBR_FACT_FORK_SAFE 17              /* 1: usable in a forked child [0] */
#define MBR_FACT_DESCRIPTORS_PER_EXTENT 18 /* file descriptors held by each extent [0] */
#define MBR_FACT_POPULATED 19              /* 1: pages are there when create and map return [0] */
#define MBR_FACT_QUIRKS 20                 /* bit set, MBR_QUIRK_… [0] */
#define MBR_FACT_FIRST_THIRD_PARTY 65536

#define MBR_PAST_REFUSE 0         /* asking for more than there is fails with a status */
#define MBR_PAST_PAGES_SILENTLY 1 /* the driver pages out (WDDM) */
#define MBR_PAST_KILL 2           /* the process is killed: only the ledger can refuse */

#define MBR_QUIRK_LOCAL_DEVICE_LAST 1 /* grant access to peers first, to the local device last */

typedef struct mbr_fact_request {
    uint32_t struct_size;
    uint32_t fact; /* MBR_FACT_… */
} mbr_fact_request;

typedef struct mbr_fact_outcome {
    uint32_t struct_size;
    uint32_t reserved_0;
    uint64_t value;
} mbr_fact_outcome;

/* ---- allocate, release
 * ---------------------------------------------------------------------------- */
typedef struct mbr_allocate_request {
    uint32_t struct_size;
    uint32_t flags;           /* MBR_ALLOCATE_… */
    uint64_t allocation_id;   /* the host's */
    uint64_t bytes;           /* above 0 */
    uint64_t align_bytes;     /* a power of two, or 0 for the mechanism's own */
    uint64_t max_owned_bytes; /* refuse with MBR_OVER_BUDGET rather than own more for this call */
} mbr_allocate_request;

#define MBR_ALLOCATE_ZEROED 1 /* critical: content must be MBR_CONTENT_ZERO */

typedef struct mbr_release_request {
    uint32_t struct_size;
    uint32_t reserved_0;
    uint64_t allocation_id;
    uint64_t address; /* as allocate gave it; another one is MBR_UNKNOWN_OBJECT */
} mbr_release_request;

/* ---- stats, trim
 * ------------------------------------------------------------------------------------ */
typedef struct mbr_stats_request {
    uint32_t struct_size;
    uint32_t reserved_0;
} mbr_stats_request;

#define MBR_UNKNOWN_BYTES                                                                          \
    UINT64_MAX /* a figure that the mechanism cannot tell; never 0 instead                         \
                */

typedef struct mbr_mechanism_stats {
    uint32_t struct_size;
    uint32_t reserved_0;
    uint64_t total_bytes;    /* of the device or machine */
    uint64_t free_bytes;     /* that a new request could get now */
    uint64_t owned_bytes;    /* physical bytes that this instance holds, cached ones included */
    uint64_t mapped_bytes;   /* bytes behind addresses, each alias counted */
    uint64_t reserved_bytes; /* address ranges of live reservations */
} mbr_mechanism_stats;

typedef struct mbr_trim_request {
    uint32_t struct_size;
    uint32_t reserved_0;
    uint64_t keep_bytes; /* give back caches of the plugin's own down to this many bytes */
} mbr_trim_request;

typedef struct mbr_allocator_vtable {
    uint32_t struct_size;
    uint16_t kind;  /* MBR_KIND_ALLOCATOR */
    uint16_t minor; /* MBR_MINOR_0 */

    /* One fact. Errors: MBR_UNSUPPORTED. [any-thread] */
    mbr_status (*fact)(mbr_instance *instance, const mbr_fact_request *request,
        mbr_fact_outcome *outcome, mbr_error *error);

    /* Contiguous memory at outcome.address, usable at once. newly_owned_bytes and
     * newly_mapped_bytes say what it took. Errors: MBR_OUT_OF_…, MBR_OVER_BUDGET,
     * MBR_ALREADY_EXISTS. [any-thread] */
    mbr_status (*allocate)(mbr_instance *instance, const mbr_allocate_request *request,
        mbr_outcome *outcome, mbr_error *error);

    /* Gives it back at once. released_bytes equals what allocate owned. [any-thread] */
    mbr_status (*release)(mbr_instance *instance, const mbr_release_request *request,
        mbr_outcome *outcome, mbr_error *error);

    /* Moving numbers; unknown ones are MBR_UNKNOWN_BYTES. [any-thread] */
    mbr_status (*stats)(mbr_instance *instance, const mbr_stats_request *request,
        mbr_mechanism_stats *outcome, mbr_error *error);

    /* Gives caches of the plugin's own back to the system; released_bytes says how much. A plugin
     * without caches answers MBR_OK and 0. [any-thread] */
    mbr_status (*trim)(mbr_instance *instance, const mbr_trim_request *request,
        mbr_outcome *outcome, mbr_error *error);
} mbr_allocator_vtable;

#ifdef __cplusplus
}
#endif

#endif
