/* The addresses that mechanisms have handed out and that are not given back: reservations and
 * allocations of a granule and more, over all mechanisms of one manager, which has one map of
 * addresses too. Two that overlap would show one user's bytes to another, so the second is refused
 * (rule 24).
 *
 * An entry is made before the slot is called and its storage is the caller's. It is taken out
 * before the slot that gives the addresses back, because another thread may be handed the same ones
 * as soon as that slot has done its work, and put back if it failed. */
#ifndef MEMBRANE_HOST_BACKING_ADDRESSES_H
#define MEMBRANE_HOST_BACKING_ADDRESSES_H

#include "abi/base/interval_tree.h"
#include "abi/base/lock.h"

typedef struct mbr_addresses {
    mbr_lock lock;
    struct mbr_interval *root;
} mbr_addresses;

typedef struct mbr_addresses_entry {
    struct mbr_interval interval;
    const void *owner;
} mbr_addresses_entry;

void mbr_addresses_init(mbr_addresses *addresses);
/* Nothing is out any more. */
void mbr_addresses_finish(mbr_addresses *addresses);

/* [address, address + bytes) is out; bytes is not 0 and the end fits 64 bits. False if it overlaps
 * what is out already: *taken is then where that starts, and nothing changed. */
bool mbr_addresses_enter(mbr_addresses *addresses, mbr_addresses_entry *entry, const void *owner,
    uint64_t address, uint64_t bytes, uint64_t *taken);
/* Takes out what the owner has at exactly this start; NULL if nothing. */
mbr_addresses_entry *mbr_addresses_leave(
    mbr_addresses *addresses, const void *owner, uint64_t address);
/* Takes out the owner's lowest; NULL if it has none. */
mbr_addresses_entry *mbr_addresses_leave_first(mbr_addresses *addresses, const void *owner);

#endif
