/* The host-RAM mechanism behind its slots. Contract, in one paragraph: extents are parts of one
 * sparse memory file, reservations are address ranges without access, a mapping is a shared mapping
 * of the extent's part over the reservation's part. Nothing is cached, rounded or retried here. The
 * books of what is mapped where are plugins/common/space.h's.
 *
 * Equations, true whenever the lock is free and no slot is inside:
 *     owned_bytes      = file_owned_bytes + bytes of all allocations
 *     file_owned_bytes = owned bytes of all extents = st_blocks of the file (if populated)
 *     mapped_bytes     = bytes of all mappings + bytes of all allocations
 * While a slot is inside, the figures hold what it is taking and still hold what it is giving: they
 * are never below what the system counts. A hole is punched only when no mapping is left.
 *
 * Locking: one lock per instance guards tables, trees and figures. System calls that may take long
 * run without it; meanwhile the object they work on is marked busy. */
#ifndef MEMBRANE_PLUGINS_HOST_CORE_H
#define MEMBRANE_PLUGINS_HOST_CORE_H

#include "plugins/common/allocation.h"
#include "plugins/common/space.h"
#include "plugins/host/os.h"

#define MBR_HOST_OBJECT_MAX_BYTES (UINT64_C(1) << 46) /* reservation, extent */
#define MBR_HOST_FILE_MAX_BYTES (UINT64_C(1) << 62)   /* offsets of the file */

struct mbr_instance {
    struct mbr_objects objects; /* first */
    /* Fixed from open to close. */
    struct mbr_host_os os;
    uint64_t total_bytes; /* of the machine */
    bool populate, huge;
    int file;
    uint64_t inode;
    /* Guarded by the lock of `objects`. */
    struct mbr_interval *free_parts; /* of the file below file_next_bytes; no two adjacent */
    uint64_t file_next_bytes;        /* the file's unused tail begins here */
    uint64_t file_bytes;             /* its size, as far as it is known */
    uint64_t ballast_address;        /* of range.c; 0: there is none now */
    uint64_t file_claims_in_flight;  /* slots that change the file's blocks right now */
    uint64_t file_owned_bytes;
};

/* After its end the record itself becomes that of the free part. */
struct mbr_host_extent {
    struct mbr_extent extent; /* first */
    struct mbr_interval part; /* of the file */
    uint64_t owned_bytes;     /* part.bytes; less once a give-back went half-way */
};

/* As open, on another operating system and heap; both are copied. */
mbr_status mbr_host_open(const struct mbr_host_os *os, const mbr_heap *heap,
    const mbr_open_request *request, mbr_open_outcome *outcome, mbr_error *error);

extern const mbr_plugin_vtable mbr_host_plugin; /* its open uses Linux and the C library's heap */
extern const mbr_allocator_vtable mbr_host_allocator;
extern const mbr_virtual_vtable mbr_host_virtual;
extern const mbr_shared_vtable mbr_host_shared;
extern const struct mbr_allocation_port mbr_host_allocation_port;
extern const struct mbr_space_port mbr_host_port;

mbr_status mbr_host_slot_extent_create(mbr_instance *instance, const mbr_extent_create_request *raw,
    mbr_outcome *outcome, mbr_error *error);
mbr_status mbr_host_slot_extent_destroy(mbr_instance *instance,
    const mbr_extent_destroy_request *raw, mbr_outcome *outcome, mbr_error *error);

/* mbr_answer_errno for a call that maps: ENOMEM is MBR_OUT_OF_MAPPINGS where the process is at its
 * limit. */
mbr_status mbr_host_fail(const mbr_instance *instance, mbr_error *error, int code,
    mbr_status no_memory, const char *call, uint64_t bytes);

/* Counts bytes as owned before they are taken: MBR_OUT_OF_MEMORY if all RAM of the machine would
 * not do, where going on would end in a killed process. */
mbr_status mbr_host_claim_locked(mbr_instance *instance, uint64_t bytes, mbr_error *error);

/* ---- Ranges (range.c); each 0 or an errno ---------------------------------------------------- */

/* Takes addresses for an object, more than asked for where the alignment needs it: what is around
 * stays without access, unused addresses cost nothing. */
int mbr_host_range_take(const mbr_instance *instance, struct mbr_object *object,
    uint64_t align_bytes, int protection, int flags);

/* Gives them back: an errno if they are still there as far as anybody can tell. Takes the lock. */
int mbr_host_range_give(mbr_instance *instance, struct mbr_object *object);

/* Makes a part of a reservation empty in one step, so that at no moment another thread could be
 * given its addresses; after an errno it may be in any state. Takes the lock. */
int mbr_host_range_empty(mbr_instance *instance, uint64_t address, uint64_t bytes);

/* Puts page tables (and missing pages) behind a range. `protection` as given to the mapping;
 * `fresh` if nobody else can know the range yet. */
int mbr_host_range_populate(
    const mbr_instance *instance, uint64_t address, uint64_t bytes, int protection, bool fresh);

/* Keeps a range from children: shared memory loses copy-on-write at fork. */
int mbr_host_range_hide(const mbr_instance *instance, uint64_t address, uint64_t bytes);

/* What stands in a range; MBR_HOST_RANGE_OTHER where nobody can tell. */
enum mbr_host_range_kind mbr_host_range_look(
    const mbr_instance *instance, uint64_t address, uint64_t bytes);

/* Mappings that can be dropped so that others can be given up. */
void mbr_host_ballast_fill_locked(mbr_instance *instance);
int mbr_host_ballast_drop_locked(mbr_instance *instance);

#endif
