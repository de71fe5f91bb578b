/* The port inside, for port.c, port_books.c and groups.c alone: its counts and the one way to a
 * slot. */
#ifndef MEMBRANE_HOST_BACKING_PORT_INTERNAL_H
#define MEMBRANE_HOST_BACKING_PORT_INTERNAL_H

#include "abi/base/error.h"
#include "abi/base/lock.h"
#include "host/backing/groups.h"
#include "host/backing/port.h"
#include "host/loader/call.h"

#include <stdatomic.h>

struct mbr_port {
    mbr_mechanism mechanism;
    mbr_addresses *addresses;
    const mbr_heap *heap;
    mbr_gate *gate; /* NULL: none */
    mbr_access peers[MBR_PEER_LIMIT_COUNT];
    uint32_t peer_count;
    mbr_groups own_groups, *groups; /* the device's, or its own */
    _Atomic uint64_t next_id;
    _Atomic uint64_t owned_bytes, mapped_bytes, reserved_bytes;
    _Atomic uint64_t given_back_bytes; /* over its life */
    _Atomic uint64_t reservation_count, extent_count, mapping_count, allocation_count;
    _Atomic uint64_t call_count, violation_count;
    /* What a plugin kept after an answer that cannot be trusted: the audit leaves it out. */
    _Atomic uint64_t withheld_count;
    _Atomic uint64_t leak_count;      /* backings that could not give back what they had */
    _Atomic uint64_t forgotten_count; /* of it and of lines: what a lost device took along */
};

/* A slot, or the refusal that is due before it: the outcome then says that nothing happened. */
#define CALL_WITH(port, slot, request, outcome, error)                                             \
    (mbr_mechanism_check_process(&(port)->mechanism, error) != MBR_OK                              \
            ? MBR_STALE                                                                            \
            : (port)->mechanism.slot((port)->mechanism.instance, request, outcome, error))
#define CALL(port, slot, request, said)                                                            \
    CALL_WITH(port, slot, request, &(said)->outcome, &(said)->error)

static inline uint64_t read_count(const _Atomic uint64_t *count)
{
    return atomic_load_explicit(count, memory_order_relaxed);
}

static inline void add_count(_Atomic uint64_t *count, uint64_t amount)
{
    atomic_fetch_add_explicit(count, amount, memory_order_relaxed);
}

static inline void sub_count(_Atomic uint64_t *count, uint64_t amount)
{
    atomic_fetch_sub_explicit(count, amount, memory_order_relaxed);
}

/* MBR_BUSY, with the slot that may not be called while a capture is open. */
mbr_status mbr_port_refuse_gated(const mbr_port *port, const char *slot, mbr_error *error);

#endif
