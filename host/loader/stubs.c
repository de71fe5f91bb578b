/* One stub for each slot of the contract, made from the derived list: a typed refusal in the place
 * of a NULL, so that the host never tests a slot (rule 3) and unsupported never looks like success
 * (I19). */
#include "host/loader/stubs.h"

#include "abi/base/error.h"
#include "abi/derive/slots.h"

#include <string.h>

/* Zero is "nothing happened" in every outcome; struct_size stays the caller's. */
static mbr_status refuse(void *outcome, uint32_t own_bytes, const char *slot, mbr_error *error)
{
    uint32_t stated;
    memcpy(&stated, outcome, sizeof stated);
    uint32_t bytes = stated < own_bytes ? stated : own_bytes;
    if (bytes > sizeof stated)
        memset((char *)outcome + sizeof stated, 0, bytes - sizeof stated);
    return mbr_fail(error, MBR_UNSUPPORTED, "this mechanism does not offer %s", slot);
}

#define STUB(table, slot, request_type, outcome_type, minor, serial)                               \
    static mbr_status absent_##table##_##slot(mbr_instance *instance, const request_type *request, \
        outcome_type *outcome, mbr_error *error)                                                   \
    {                                                                                              \
        (void)instance;                                                                            \
        (void)request;                                                                             \
        return refuse(outcome, (uint32_t)sizeof *outcome, #table "." #slot, error);                \
    }

#define MEMBER(table, slot, request_type, outcome_type, minor, serial)                             \
    .slot = absent_##table##_##slot,

#define STUB_TABLE(table, kind_number, slots, ...)                                                 \
    slots(STUB) const table mbr_stub_##table = {                                                   \
        MBR_SIZED(table), .kind = (kind_number), .minor = MBR_MINOR_0, slots(MEMBER) __VA_ARGS__}

STUB_TABLE(mbr_plugin_vtable, MBR_KIND_PLUGIN, MBR_SLOTS_PLUGIN_VTABLE, .name = "", .version = "");
STUB_TABLE(mbr_allocator_vtable, MBR_KIND_ALLOCATOR, MBR_SLOTS_ALLOCATOR_VTABLE, );
STUB_TABLE(mbr_virtual_vtable, MBR_KIND_VIRTUAL, MBR_SLOTS_VIRTUAL_VTABLE, );
STUB_TABLE(mbr_shared_vtable, MBR_KIND_SHARED, MBR_SLOTS_SHARED_VTABLE, );
STUB_TABLE(mbr_order_vtable, MBR_KIND_ORDER, MBR_SLOTS_ORDER_VTABLE, );
STUB_TABLE(mbr_transfer_vtable, MBR_KIND_TRANSFER, MBR_SLOTS_TRANSFER_VTABLE, );
