/* Between the host and the faults: a fault sees only calls whose structs are there and of their
 * full size, so that it breaks its own rule and does not crash on another check's NULL or short
 * struct. */
#include "tests/badplugins/bad.h"

#include "abi/derive/slots.h"

#include <string.h>

static struct bad_tables faulty;
static bool is_open;

void bad_see_parts(void)
{
    is_open = true;
}

#define MEMBER_mbr_plugin_vtable plugin
#define MEMBER_mbr_allocator_vtable allocator
#define MEMBER_mbr_virtual_vtable virtual_
#define MEMBER_mbr_shared_vtable shared
#define MEMBER_mbr_order_vtable order
#define MEMBER_mbr_transfer_vtable transfer

static bool has_instance(const char *slot)
{
    return strcmp(slot, "mechanisms") != 0 && strcmp(slot, "open") != 0;
}

#define GUARD(table, slot, request_type, outcome_type, minor, serial)                              \
    static mbr_status guard_##slot(mbr_instance *instance, const request_type *request,            \
        outcome_type *outcome, mbr_error *error)                                                   \
    {                                                                                              \
        bool is_whole = (instance != NULL || !has_instance(#slot)) && request != NULL &&           \
            outcome != NULL && request->struct_size == sizeof *request &&                          \
            outcome->struct_size == sizeof *outcome;                                               \
        const struct bad_tables *to = is_whole ? &faulty : bad_good;                               \
        return to->MEMBER_##table.slot(instance, request, outcome, error);                         \
    }

#define PUT(table, slot, request_type, outcome_type, minor, serial)                                \
    if (bad.MEMBER_##table.slot != bad_good->MEMBER_##table.slot)                                  \
        bad.MEMBER_##table.slot = guard_##slot;

#define EACH(X)                                                                                    \
    MBR_SLOTS_PLUGIN_VTABLE(X)                                                                     \
    MBR_SLOTS_ALLOCATOR_VTABLE(X)                                                                  \
    MBR_SLOTS_VIRTUAL_VTABLE(X)                                                                    \
    MBR_SLOTS_SHARED_VTABLE(X)                                                                     \
    MBR_SLOTS_ORDER_VTABLE(X)                                                                      \
    MBR_SLOTS_TRANSFER_VTABLE(X)

EACH(GUARD)

void bad_guard(void)
{
    faulty = bad;
    if (is_open)
        return;
    EACH(PUT)
}
