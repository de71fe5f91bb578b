/* What bad plugins remember of allocations, so that a fault can be narrow: this one, the second
 * one, the one that was released. */
#ifndef MEMBRANE_TESTS_BADPLUGINS_BAD_ALC_H
#define MEMBRANE_TESTS_BADPLUGINS_BAD_ALC_H

#include "tests/badplugins/bad.h"

#include <pthread.h>

struct bad_allocation {
    uint64_t id, bytes;
    uint64_t address, real_address; /* as the host was told; as the good plugin knows it */
    uint64_t owned_bytes, real_owned_bytes;
    mbr_instance *instance;
    pthread_t thread;
    bool is_live;
};

/* The last of that id, or NULL; and a live one of an instance at an address or around it. */
struct bad_allocation *bad_allocation_find(uint64_t id);
struct bad_allocation *bad_allocation_at(const mbr_instance *instance, uint64_t address);
struct bad_allocation *bad_allocation_around(const mbr_instance *instance, uint64_t address);
uint32_t bad_allocation_live_count(void);
uint32_t bad_allocation_released_count(void);

/* For each live one. */
void bad_allocation_each(void (*visit)(struct bad_allocation *allocation));

/* Whether all of a call's structs are there and of full size; faults let others pass. */
bool bad_is_whole(const void *request, uint32_t request_bytes, const void *outcome);

/* The good slots, which remember. `request` is a copy that the fault may have changed. NULL where
 * it was refused. */
struct bad_allocation *bad_grant(mbr_instance *instance, const mbr_allocate_request *request,
    mbr_outcome *outcome, mbr_error *error, mbr_status *status);
mbr_status bad_give(mbr_instance *instance, const mbr_release_request *request,
    mbr_outcome *outcome, mbr_error *error);

/* Gives another one back than the one that was named. */
mbr_status bad_give_instead(
    struct bad_allocation *allocation, mbr_outcome *outcome, mbr_error *error);

/* Says other bytes than those that it owns, in the outcomes and in stats alike. */
void bad_say_owned(struct bad_allocation *allocation, uint64_t bytes, mbr_outcome *outcome);

/* Puts bytes into stats that are in no outcome. */
void bad_skew(uint64_t bytes);

/* Replaces allocate, release and stats, where nobody did, by slots that remember; a fault is put
 * over them. */
void bad_remember(void);

#endif
