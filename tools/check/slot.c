/* The table of slots. Knows sizes and names, calls nothing. */
#include "tools/check/slot.h"

#include <stddef.h>
#include <string.h>

#define KIND_mbr_plugin_vtable MBR_KIND_PLUGIN
#define KIND_mbr_allocator_vtable MBR_KIND_ALLOCATOR
#define KIND_mbr_virtual_vtable MBR_KIND_VIRTUAL
#define KIND_mbr_shared_vtable MBR_KIND_SHARED
#define KIND_mbr_order_vtable MBR_KIND_ORDER
#define KIND_mbr_transfer_vtable MBR_KIND_TRANSFER

/* Only slots that change something answer with an mbr_outcome. */
#define CHANGES(outcome_type) _Generic((outcome_type *)NULL, mbr_outcome * : true, default : false)

#define FACTS(table, slot, request_type, outcome_type, minor, serial)                              \
    [MBR_SLOT_##slot] = {#slot, KIND_##table, sizeof(request_type), sizeof(outcome_type),          \
        CHANGES(outcome_type), sizeof(serial) > 1, offsetof(table, slot)},

const mbr_slot_facts mbr_slots[MBR_SLOT_COUNT] = {MBR_SLOTS_EACH(FACTS)};

const char *mbr_slot_name(uint32_t slot)
{
    return slot < MBR_SLOT_COUNT ? mbr_slots[slot].name : "-";
}
