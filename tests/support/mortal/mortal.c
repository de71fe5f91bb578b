/* libmembrane-mortal.so: the host-RAM mechanism as a device that may be lost, and then takes its
 * memory along: the facts say so, and what lived is gone when the instance is closed. It notes
 * what lives in one list, so that it can. One mechanism at a time, and one thread. */
#include "abi/base/error.h"
#include "plugins/common/answer.h"
#include "plugins/host/core.h"
#include "tests/support/mortal/device.h"

#include <stdlib.h>
#include <string.h>

MBR_PLUGIN_NOTE("mortal", "membrane tests", MBR_NOTE_UNLOADABLE);

#define OBJECT_LIMIT_COUNT 4096

/* In the order in which a context's end undoes them. */
enum { MAPPING, EXTENT, RESERVATION, ALLOCATION, KIND_COUNT };

struct object {
    int kind;
    uint64_t id;    /* of a mapping: its reservation's */
    uint64_t place; /* of a mapping: its offset; of an allocation: its address */
    uint64_t bytes;
};

static struct mortal_device *device;
static struct object objects[OBJECT_LIMIT_COUNT];
static uint32_t object_count;

static void note(int kind, uint64_t id, uint64_t place, uint64_t bytes)
{
    if (object_count == OBJECT_LIMIT_COUNT)
        abort();
    objects[object_count++] = (struct object){kind, id, place, bytes};
}

static struct object *find(int kind, uint64_t id, uint64_t place)
{
    for (uint32_t i = 0; i < object_count; i++)
        if (objects[i].kind == kind && objects[i].id == id && objects[i].place == place)
            return &objects[i];
    abort();
}

static void strike(int kind, uint64_t id, uint64_t place)
{
    *find(kind, id, place) = objects[--object_count];
}

static bool is_gone(mbr_outcome *outcome, mbr_status *status, mbr_error *error)
{
    if (!device->lost)
        return false;
    device->late_calls++;
    mbr_answer_write(outcome, &(mbr_outcome){.state = MBR_STATE_UNCHANGED}, sizeof(mbr_outcome));
    *status = mbr_fail(error, MBR_DEVICE_LOST, "the device is lost");
    return true;
}

#define MORTAL(name, table, request_type, on_success)                                              \
    static mbr_status name(mbr_instance *instance, const request_type *request,                    \
        mbr_outcome *outcome, mbr_error *error)                                                    \
    {                                                                                              \
        mbr_status status;                                                                         \
        if (is_gone(outcome, &status, error))                                                      \
            return status;                                                                         \
        status = table.name(instance, request, outcome, error);                                    \
        if (status == MBR_OK)                                                                      \
            on_success;                                                                            \
        return status;                                                                             \
    }

MORTAL(reserve, mbr_host_virtual, mbr_reserve_request,
    note(RESERVATION, request->reservation_id, 0, 0))
MORTAL(unreserve, mbr_host_virtual, mbr_unreserve_request,
    strike(RESERVATION, request->reservation_id, 0))
MORTAL(extent_create, mbr_host_virtual, mbr_extent_create_request,
    note(EXTENT, request->extent_id, 0, request->bytes))
MORTAL(extent_destroy, mbr_host_virtual, mbr_extent_destroy_request,
    strike(EXTENT, request->extent_id, 0))
MORTAL(map, mbr_host_virtual, mbr_map_request,
    note(MAPPING, request->reservation_id, request->offset_bytes,
        find(EXTENT, request->extent_id, 0)->bytes))
MORTAL(unmap, mbr_host_virtual, mbr_unmap_request,
    strike(MAPPING, request->reservation_id, request->offset_bytes))
MORTAL(protect, mbr_host_virtual, mbr_protect_request, (void)0)
MORTAL(map_shared, mbr_host_shared, mbr_map_shared_request,
    note(MAPPING, request->reservation_id, request->offset_bytes,
        find(EXTENT, request->extent_id, 0)->bytes))
MORTAL(allocate, mbr_host_allocator, mbr_allocate_request,
    note(ALLOCATION, request->allocation_id, outcome->address, 0))
MORTAL(release, mbr_host_allocator, mbr_release_request,
    strike(ALLOCATION, request->allocation_id, request->address))

static void end_object(mbr_instance *instance, const struct object *object)
{
    mbr_outcome outcome = {MBR_SIZED(mbr_outcome)};
    mbr_status status;
    if (object->kind == MAPPING)
        status = mbr_host_virtual.unmap(instance,
            &(mbr_unmap_request){MBR_SIZED(mbr_unmap_request), .reservation_id = object->id,
                .offset_bytes = object->place, .bytes = object->bytes},
            &outcome, NULL);
    else if (object->kind == EXTENT)
        status = mbr_host_virtual.extent_destroy(instance,
            &(mbr_extent_destroy_request){
                MBR_SIZED(mbr_extent_destroy_request), .extent_id = object->id},
            &outcome, NULL);
    else if (object->kind == RESERVATION)
        status = mbr_host_virtual.unreserve(instance,
            &(mbr_unreserve_request){
                MBR_SIZED(mbr_unreserve_request), .reservation_id = object->id},
            &outcome, NULL);
    else
        status = mbr_host_allocator.release(instance,
            &(mbr_release_request){MBR_SIZED(mbr_release_request), .allocation_id = object->id,
                .address = object->place},
            &outcome, NULL);
    if (status != MBR_OK)
        abort();
}

static mbr_status close_mortal(mbr_instance *instance, const mbr_close_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    if (device->lost) {
        for (int kind = 0; kind < KIND_COUNT; kind++)
            for (uint32_t i = 0; i < object_count; i++)
                if (objects[i].kind == kind)
                    end_object(instance, &objects[i]);
        object_count = 0;
    }
    mbr_status status = mbr_host_plugin.close(instance, request, outcome, error);
    if (status != MBR_OK || !device->close_is_unknown)
        return status;
    outcome->state = MBR_STATE_QUARANTINED;
    return mbr_fail(error, MBR_DEVICE_LOST, "the device was lost on the way");
}

static mbr_status report(mbr_instance *instance, const mbr_report_request *request,
    mbr_report *outcome, mbr_error *error)
{
    if (device->clings)
        device->clinging = instance;
    if (!device->lost || device->clings)
        return mbr_host_plugin.report(instance, request, outcome, error);
    mbr_answer_write(outcome, &(mbr_report){0}, sizeof(mbr_report));
    return MBR_OK;
}

static mbr_status fact(mbr_instance *instance, const mbr_fact_request *request,
    mbr_fact_outcome *outcome, mbr_error *error)
{
    mbr_status status = mbr_host_allocator.fact(instance, request, outcome, error);
    if (status == MBR_OK && request->fact == MBR_FACT_RELEASABLE_AFTER_LOSS)
        outcome->value = 0;
    return status;
}

static mbr_virtual_vtable virtual_;
static mbr_shared_vtable shared;
static mbr_allocator_vtable allocator;
static mbr_plugin_vtable plugin;

static mbr_status open_mortal(mbr_instance *none, const mbr_open_request *request,
    mbr_open_outcome *outcome, mbr_error *error)
{
    if (request->option_count != 1 || strcmp(request->options[0].key, "device") != 0)
        return mbr_fail(error, MBR_INVALID_ARGUMENT, "the one option is device");
    device = (struct mortal_device *)(uintptr_t)strtoull(request->options[0].value, NULL, 16);
    mbr_open_request passed = *request;
    passed.option_count = 0;
    object_count = 0; /* of an instance that was given up */
    return mbr_host_plugin.open(none, &passed, outcome, error);
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

static void fill_tables(void)
{
    virtual_ = mbr_host_virtual;
    virtual_.reserve = reserve;
    virtual_.unreserve = unreserve;
    virtual_.extent_create = extent_create;
    virtual_.extent_destroy = extent_destroy;
    virtual_.map = map;
    virtual_.unmap = unmap;
    virtual_.protect = protect;
    shared = mbr_host_shared;
    shared.map_shared = map_shared;
    allocator = mbr_host_allocator;
    allocator.allocate = allocate;
    allocator.release = release;
    allocator.fact = fact;
    plugin = mbr_host_plugin;
    plugin.name = "mortal";
    plugin.open = open_mortal;
    plugin.close = close_mortal;
    plugin.report = report;
    plugin.capability = capability;
}

MBR_EXPORT mbr_status membrane_plugin_v1(const mbr_hello *hello, mbr_reply *reply, mbr_error *error)
{
    fill_tables();
    return mbr_answer_hello(&plugin, hello, reply, error);
}
