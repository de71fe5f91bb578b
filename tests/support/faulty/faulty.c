/* libmembrane-faulty.so: the host-RAM mechanism with a fault plan before its slots. A planned fault
 * refuses and has no effect; every other call is the host plugin's own. One mechanism at a time. */
#include "abi/base/error.h"
#include "plugins/common/answer.h"
#include "plugins/host/core.h"
#include "tests/support/faulty/faults.h"

#include <stdlib.h>
#include <string.h>

MBR_PLUGIN_NOTE("faulty", "membrane tests", MBR_NOTE_UNLOADABLE);

#define OPTION_LIMIT_COUNT 8

static struct faulty_plan *plan;
/* In reach of a leak checker, where it is given up. */
static mbr_instance *volatile last_instance;

static bool meets_fault(uint32_t slot, mbr_status *status, mbr_error *error)
{
    uint64_t call = __atomic_add_fetch(&plan->calls[slot], 1, __ATOMIC_RELAXED);
    if (call < plan->fail_from[slot] || call - plan->fail_from[slot] >= plan->fail_count[slot])
        return false;
    __atomic_add_fetch(&plan->met, 1, __ATOMIC_RELAXED);
    *status = mbr_fail(error, plan->status, "planned fault");
    return true;
}

#define FAULTY(name, slot, table, request_type)                                                    \
    static mbr_status name(mbr_instance *instance, const request_type *request,                    \
        mbr_outcome *outcome, mbr_error *error)                                                    \
    {                                                                                              \
        mbr_status status;                                                                         \
        if (!meets_fault(slot, &status, error))                                                    \
            return table.name(instance, request, outcome, error);                                  \
        mbr_answer_write(                                                                          \
            outcome, &(mbr_outcome){.state = MBR_STATE_UNCHANGED}, sizeof(mbr_outcome));           \
        return status;                                                                             \
    }

FAULTY(reserve, FAULTY_RESERVE, mbr_host_virtual, mbr_reserve_request)
FAULTY(extent_create, FAULTY_EXTENT_CREATE, mbr_host_virtual, mbr_extent_create_request)
FAULTY(map, FAULTY_MAP, mbr_host_virtual, mbr_map_request)
FAULTY(protect, FAULTY_PROTECT, mbr_host_virtual, mbr_protect_request)
FAULTY(unmap, FAULTY_UNMAP, mbr_host_virtual, mbr_unmap_request)
FAULTY(map_shared, FAULTY_MAP_SHARED, mbr_host_shared, mbr_map_shared_request)
FAULTY(allocate, FAULTY_ALLOCATE, mbr_host_allocator, mbr_allocate_request)

static mbr_virtual_vtable virtual_;
static mbr_shared_vtable shared;
static mbr_allocator_vtable allocator;
static mbr_plugin_vtable plugin;

static mbr_status open_faulty(mbr_instance *none, const mbr_open_request *request,
    mbr_open_outcome *outcome, mbr_error *error)
{
    mbr_open_request passed = *request;
    mbr_option options[OPTION_LIMIT_COUNT];
    passed.option_count = 0;
    passed.options = options;
    plan = NULL;
    for (uint32_t i = 0; i < request->option_count && i < OPTION_LIMIT_COUNT; i++) {
        if (strcmp(request->options[i].key, "faults") == 0)
            plan = (struct faulty_plan *)(uintptr_t)strtoull(request->options[i].value, NULL, 16);
        else
            options[passed.option_count++] = request->options[i];
    }
    if (plan == NULL)
        return mbr_fail(error, MBR_INVALID_ARGUMENT, "the option faults is missing");
    mbr_status status = mbr_host_plugin.open(none, &passed, outcome, error);
    last_instance = status == MBR_OK ? outcome->instance : NULL;
    return status;
}

static mbr_status capability(mbr_instance *instance, const mbr_capability_request *request,
    mbr_capability_outcome *outcome, mbr_error *error)
{
    mbr_status status = mbr_host_plugin.capability(instance, request, outcome, error);
    if (status != MBR_OK)
        return status;
    if (outcome->table->kind == MBR_KIND_VIRTUAL)
        outcome->table = (const mbr_vtable_head *)&virtual_;
    else if (outcome->table->kind == MBR_KIND_SHARED)
        outcome->table = (const mbr_vtable_head *)&shared;
    else if (outcome->table->kind == MBR_KIND_ALLOCATOR)
        outcome->table = (const mbr_vtable_head *)&allocator;
    return MBR_OK;
}

static mbr_status close_faulty(mbr_instance *instance, const mbr_close_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    mbr_status status = mbr_host_plugin.close(instance, request, outcome, error);
    mbr_status unused;
    if (status == MBR_OK && meets_fault(FAULTY_CLOSE, &unused, NULL))
        outcome->state = MBR_STATE_UNCHANGED;
    return status;
}

static void fill_tables(void)
{
    virtual_ = mbr_host_virtual;
    virtual_.reserve = reserve;
    virtual_.extent_create = extent_create;
    virtual_.map = map;
    virtual_.protect = protect;
    virtual_.unmap = unmap;
    shared = mbr_host_shared;
    shared.map_shared = map_shared;
    allocator = mbr_host_allocator;
    allocator.allocate = allocate;
    plugin = mbr_host_plugin;
    plugin.name = "faulty";
    plugin.open = open_faulty;
    plugin.capability = capability;
    plugin.close = close_faulty;
}

MBR_EXPORT mbr_status membrane_plugin_v1(const mbr_hello *hello, mbr_reply *reply, mbr_error *error)
{
    fill_tables();
    return mbr_answer_hello(&plugin, hello, reply, error);
}
