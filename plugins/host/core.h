/* The host-RAM mechanism behind its slots. Contract, in one paragraph: extents are parts of one
 * sparse memory file, reservations are address ranges without access, a mapping is a shared mapping
 * of the extent's part over the reservation's part. Nothing is cached, rounded or retried here.
 *
 * Equations, true whenever the lock is free and no slot is inside:
 *     owned_bytes      = file_owned_bytes + owned bytes of all allocations
 *     file_owned_bytes = owned bytes of all extents = st_blocks of the file (if populated)
 *     mapped_bytes     = bytes of all mappings + owned bytes of all allocations
 *     extent.mapping_count = mappings of it in all reservations; a hole is punched at 0 only
 * While a slot is inside, the figures hold what it is taking and still hold what it is giving: they
 * are never below what the system counts.
 *
 * Locking: one lock per instance guards tables, trees and figures. System calls that may take long
 * run without it; meanwhile the object they work on is marked busy. */
#ifndef MEMBRANE_PLUGINS_HOST_CORE_H
#define MEMBRANE_PLUGINS_HOST_CORE_H

#include "abi/base/seam.h"
#include "membrane/membrane_plugin.h"
#include "plugins/common/id_table.h"
#include "plugins/common/interval_tree.h"
#include "plugins/host/os.h"

#include <pthread.h>
#include <stdbool.h>

#define MBR_HOST_GRANULE_BYTES UINT64_C(65536)                 /* option granule, default */
#define MBR_HOST_GRANULE_MAX_BYTES (UINT64_C(1) << 30)         /* option granule, highest */
#define MBR_HOST_GRANULE_RECOMMENDED_BYTES (UINT64_C(2) << 20) /* 128 GiB in 65 530 mappings */
#define MBR_HOST_OBJECT_MAX_BYTES (UINT64_C(1) << 46)          /* reservation, extent */
#define MBR_HOST_FILE_MAX_BYTES (UINT64_C(1) << 62)            /* offsets of the file */

struct mbr_instance {
    uint64_t magic; /* MBR_HOST_MAGIC while open */
    /* Fixed from open to close. */
    struct mbr_host_os os;
    mbr_heap heap;
    uint64_t granule_bytes;
    uint64_t total_bytes; /* of the machine */
    bool populate, huge;
    int file;
    uint64_t inode;
    /* Guarded by the lock. */
    pthread_mutex_t lock;
    struct mbr_id_table allocations, reservations, extents;
    struct mbr_interval *free_parts; /* of the file below file_next_bytes; no two adjacent */
    uint64_t file_next_bytes;        /* the file's unused tail begins here */
    uint64_t file_bytes;             /* its size, as far as it is known */
    uint64_t ballast_address;        /* of vacate.c; 0: there is none now */
    uint64_t file_claims_in_flight;  /* slots that change the file's blocks right now */
    uint64_t file_owned_bytes, owned_bytes, mapped_bytes, reserved_bytes, mapping_count;
};

#define MBR_HOST_MAGIC UINT64_C(0x4D42522D686F7374)

/* A part of the file. After its end the struct itself becomes the record of the free part. */
struct mbr_host_extent {
    struct mbr_interval part; /* first: a free part is released through its address */
    uint64_t id;
    uint64_t owned_bytes; /* part.bytes; less once a give-back went half-way */
    uint32_t mapping_count;
    bool busy;    /* being created or destroyed */
    bool broken;  /* a give-back failed: only destroy is left */
    bool written; /* had a writable mapping: no longer zero */
};

struct mbr_host_reservation {
    uint64_t id;
    uint64_t address, bytes;
    uint64_t outer_address, outer_bytes; /* what was mapped to reach the alignment */
    struct mbr_interval *mappings;       /* by offset */
    bool busy;                           /* in a slot; serial: reservation */
};

struct mbr_host_mapping {
    struct mbr_interval place; /* offset in the reservation; first */
    struct mbr_host_extent *extent;
    uint32_t access; /* MBR_ACCESS_… */
    bool doubtful;   /* nobody knows what stands there: looked at before the next attempt */
};

/* As open, on another operating system and heap; both are copied. */
mbr_status mbr_host_open(const struct mbr_host_os *os, const mbr_heap *heap,
    const mbr_open_request *request, mbr_open_outcome *outcome, mbr_error *error);

extern const mbr_plugin_vtable mbr_host_plugin; /* its open uses Linux and the C library's heap */
extern const mbr_allocator_vtable mbr_host_allocator;
extern const mbr_virtual_vtable mbr_host_virtual;
extern const mbr_shared_vtable mbr_host_shared;

/* ---- What the slots share ------------------------------------------------------------------- */

/* mbr_answer_begin, after a look at the instance. */
mbr_status mbr_host_enter(const mbr_instance *instance, void *copy, uint32_t copy_bytes,
    const void *request, void *outcome, uint32_t outcome_bytes, mbr_error *error);
#define MBR_HOST_ENTER(instance, request, raw, outcome, error)                                     \
    mbr_host_enter(instance, &(request), sizeof(request), raw, outcome, sizeof(*(outcome)), error)

void mbr_host_lock(mbr_instance *instance);
void mbr_host_unlock(mbr_instance *instance);

/* The error of a failed system call, which `call` names. Of mbr_host_fail_mapping ENOMEM is
 * MBR_OUT_OF_MAPPINGS where the process is at its limit, else `no_memory`. */
mbr_status mbr_host_fail(mbr_error *error, int code, const char *call, uint64_t bytes);
mbr_status mbr_host_fail_mapping(const mbr_instance *instance, mbr_error *error, int code,
    mbr_status no_memory, const char *call, uint64_t bytes);

/* Puts page tables (and missing pages) behind a range: 0 or an errno. `protection` as given to the
 * mapping; `fresh` if nobody else can know the range yet. */
int mbr_host_populate(
    const mbr_instance *instance, uint64_t address, uint64_t bytes, int protection, bool fresh);

/* Keeps a range from children: shared memory loses copy-on-write at fork. 0 or an errno. */
int mbr_host_hide(const mbr_instance *instance, uint64_t address, uint64_t bytes);

/* What stands in a range; MBR_HOST_RANGE_OTHER where nobody can tell. */
enum mbr_host_range_kind mbr_host_look_at(
    const mbr_instance *instance, uint64_t address, uint64_t bytes);

/* Makes a range empty in one step: without access but kept from others, or given back. 0 or an
 * errno; the range may then be in any state. Takes the lock. */
int mbr_host_vacate(mbr_instance *instance, uint64_t address, uint64_t bytes, bool is_kept);

/* Mappings that can be dropped so that others can be given up; see vacate.c. */
void mbr_host_ballast_fill_locked(mbr_instance *instance);
int mbr_host_ballast_drop_locked(mbr_instance *instance); /* 0 or an errno: it is still there */

/* Refuses flags of the critical half that are not in `known`. */
mbr_status mbr_host_check_flags(uint32_t flags, uint32_t known, mbr_error *error);

/* Refuses a size that is 0 or no multiple of the granule. */
mbr_status mbr_host_check_size(const mbr_instance *instance, uint64_t bytes, mbr_error *error);

/* Adds an object under the lock: MBR_ALREADY_EXISTS or MBR_OUT_OF_HOST_MEMORY. */
mbr_status mbr_host_publish_locked(mbr_instance *instance, struct mbr_id_table *table, uint64_t id,
    void *object, const char *class_name, mbr_error *error);

/* Counts bytes as owned before they are taken: MBR_OUT_OF_MEMORY if all RAM of the machine would
 * not do, where going on would end in a killed process. */
mbr_status mbr_host_claim_locked(mbr_instance *instance, uint64_t bytes, mbr_error *error);

/* A budget that the caller set for one call. */
mbr_status mbr_host_check_budget(uint64_t bytes, uint64_t max_owned_bytes, mbr_error *error);

#endif
