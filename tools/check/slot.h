/* Every slot of the contract by number, from the derived list. */
#ifndef MEMBRANE_TOOLS_CHECK_SLOT_H
#define MEMBRANE_TOOLS_CHECK_SLOT_H

#include "abi/derive/slots.h"

#include <stdbool.h>

#define MBR_SLOTS_EACH(X)                                                                          \
    MBR_SLOTS_PLUGIN_VTABLE(X)                                                                     \
    MBR_SLOTS_ALLOCATOR_VTABLE(X)                                                                  \
    MBR_SLOTS_VIRTUAL_VTABLE(X)                                                                    \
    MBR_SLOTS_SHARED_VTABLE(X)                                                                     \
    MBR_SLOTS_ORDER_VTABLE(X)                                                                      \
    MBR_SLOTS_TRANSFER_VTABLE(X)

#define MBR_SLOT_NUMBER_(table, slot, request, outcome, minor, serial) MBR_SLOT_##slot,
typedef enum mbr_slot {
    MBR_SLOTS_EACH(MBR_SLOT_NUMBER_) MBR_SLOT_COUNT,
} mbr_slot;

typedef struct mbr_slot_facts {
    const char *name; /* "extent_create" */
    uint32_t table;   /* MBR_KIND_… */
    uint32_t request_bytes;
    uint32_t outcome_bytes;
    bool changes;             /* its outcome is an mbr_outcome */
    bool is_serial;           /* not [any-thread] */
    uint32_t offset_in_table; /* of the function pointer */
} mbr_slot_facts;

extern const mbr_slot_facts mbr_slots[MBR_SLOT_COUNT];

/* "-" for MBR_SLOT_COUNT. */
const char *mbr_slot_name(uint32_t slot);

#endif
