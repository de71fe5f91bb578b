/* The primitives behind plugins/common/space.h and handles.h: extents as handles of the driver,
 * mapped whole. Keeps no books.
 *
 * Whether something is mapped at an address is what a question for its access tells. None of these
 * calls waits for the device, looks at the current context or disturbs a capture. */
#include "abi/base/checked.h"
#include "abi/base/error.h"
#include "plugins/common/gpu.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#define RESERVATION_MAX_BYTES (UINT64_C(1) << 46)
#define UNDO_ATTEMPT_COUNT 4

static const struct mbr_gpu_calls *call_of(const mbr_instance *instance)
{
    return &instance->driver->call;
}

static mbr_status answer(const mbr_instance *instance, mbr_gpu_result result, const char *call,
    uint64_t bytes, mbr_error *error)
{
    return mbr_gpu_answer(instance->driver, result, call, bytes, error);
}

/* ---- Handles -------------------------------------------------------------------------------- */

struct mbr_gpu_properties mbr_gpu_properties_of(const mbr_instance *instance)
{
    return (struct mbr_gpu_properties){
        .type = MBR_GPU_ALLOCATION_PINNED, .location = {MBR_GPU_LOCATION_DEVICE, instance->device}};
}

mbr_status mbr_gpu_read_granules(mbr_instance *instance, mbr_error *error)
{
    const struct mbr_gpu_calls *call = call_of(instance);
    const struct mbr_gpu_properties properties = mbr_gpu_properties_of(instance);
    struct mbr_objects *objects = &instance->objects;
    size_t minimum = 0, recommended = 0;
    mbr_gpu_result result = call->granularity(&minimum, &properties, MBR_GPU_GRANULARITY_MINIMUM);
    if (result == MBR_GPU_SUCCESS)
        result = call->granularity(&recommended, &properties, MBR_GPU_GRANULARITY_RECOMMENDED);
    if (result != MBR_GPU_SUCCESS)
        return answer(instance, result, instance->driver->name.granularity, 0, error);
    const struct mbr_gpu_quirks *quirks = &instance->driver->quirks;
    uint64_t largest = instance->driver->total_bytes[objects->device_index];
    if (quirks->extent_max_bytes != 0)
        largest = mbr_min(largest, quirks->extent_max_bytes);
    objects->granule_bytes = mbr_max(minimum, instance->granule_least_bytes);
    instance->granule_recommended_bytes = mbr_max(recommended, objects->granule_bytes);
    objects->extent_max_bytes = mbr_align_down(largest, objects->granule_bytes);
    if (objects->extent_max_bytes == 0)
        return mbr_fail(error, MBR_INVALID_ARGUMENT,
            "a granule of %" PRIu64 " bytes is above the largest extent, which has %" PRIu64
            "; a smaller 'granule' would work",
            objects->granule_bytes, largest);
    return MBR_OK;
}

int mbr_gpu_lowest_descriptor(void)
{
    int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (file >= 0)
        close(file);
    return file;
}

static bool has_descriptor_left(void)
{
    return mbr_gpu_lowest_descriptor() >= 0 || (errno != EMFILE && errno != ENFILE);
}

static mbr_status create(mbr_instance *instance, struct mbr_handle_extent *extent, mbr_error *error)
{
    const struct mbr_gpu_calls *call = call_of(instance);
    const struct mbr_gpu_properties properties = mbr_gpu_properties_of(instance);
    uint64_t bytes = extent->extent.object.bytes;
    mbr_gpu_handle handle = 0;
    mbr_gpu_result result = call->handle_create(&handle, bytes, &properties, 0);
    extent->handle = handle; /* also of a call that failed after its effect */
    mbr_status status =
        answer(instance, result, instance->driver->name.handle_create, bytes, error);
    if (status == MBR_OUT_OF_MEMORY && instance->takes_descriptors && !has_descriptor_left())
        return mbr_gpu_rename(MBR_OUT_OF_DESCRIPTORS, error);
    return status;
}

/* Nothing tells whether a handle is still there: the driver describes one that is released, too. A
 * second call might release what another thread was given since. */
static enum mbr_end destroy(
    mbr_instance *instance, const struct mbr_handle_extent *extent, mbr_error *error)
{
    mbr_gpu_result result = call_of(instance)->handle_release(extent->handle);
    if (result == MBR_GPU_SUCCESS)
        return MBR_END_GONE;
    answer(instance, result, instance->driver->name.handle_release, extent->extent.object.bytes,
        error);
    return result == MBR_GPU_INVALID_VALUE ? MBR_END_THERE : MBR_END_UNKNOWN;
}

/* ---- Reservations --------------------------------------------------------------------------- */

static mbr_gpu_result take_addresses(const struct mbr_gpu_calls *call,
    struct mbr_object *reservation, uint64_t bytes, uint64_t align_bytes)
{
    mbr_gpu_address address = 0;
    mbr_gpu_result result = call->address_reserve(&address, bytes, align_bytes, 0, 0);
    if (result != MBR_GPU_SUCCESS && address != 0) /* it failed after its effect */
        (void)call->address_free(address, bytes);
    reservation->outer_address = address;
    reservation->outer_bytes = bytes;
    return result;
}

/* A driver that is not to be asked for an alignment may give it all the same; else there is room
 * for it in a longer range. */
static mbr_status reserve(
    mbr_instance *instance, struct mbr_object *reservation, uint64_t align_bytes, mbr_error *error)
{
    const struct mbr_gpu_calls *call = call_of(instance);
    uint64_t bytes = reservation->bytes;
    uint64_t wish = instance->driver->quirks.aligns_by_itself ? 0 : align_bytes;
    mbr_gpu_result result = take_addresses(call, reservation, bytes, wish);
    if (result == MBR_GPU_SUCCESS && reservation->outer_address % align_bytes != 0) {
        result = call->address_free(reservation->outer_address, bytes);
        if (result != MBR_GPU_SUCCESS)
            return answer(instance, result, instance->driver->name.address_free, bytes, error);
        result = take_addresses(call, reservation, bytes + align_bytes, wish);
    }
    reservation->address =
        reservation->outer_address + (-reservation->outer_address & (align_bytes - 1));
    mbr_status status =
        answer(instance, result, instance->driver->name.address_reserve, bytes, error);
    return status == MBR_OUT_OF_MEMORY ? mbr_gpu_rename(MBR_OUT_OF_ADDRESSES, error) : status;
}

/* Nothing tells whether a range without a mapping is reserved, and a second call might free what
 * another thread has reserved since. */
static enum mbr_end unreserve(
    mbr_instance *instance, struct mbr_object *reservation, mbr_error *error)
{
    mbr_gpu_result result =
        call_of(instance)->address_free(reservation->outer_address, reservation->outer_bytes);
    if (result == MBR_GPU_SUCCESS)
        return MBR_END_GONE;
    answer(instance, result, instance->driver->name.address_free, reservation->bytes, error);
    return result == MBR_GPU_INVALID_VALUE ? MBR_END_THERE : MBR_END_UNKNOWN;
}

/* ---- Mappings ------------------------------------------------------------------------------- */

/* Where the driver has no access for reading alone, who may read may write: a fact tells that
 * nothing is enforced. */
static uint32_t flags_of(
    const mbr_instance *instance, const struct mbr_answer_access *access, uint32_t device)
{
    uint32_t flags = mbr_answer_access_of(access, device); /* the driver's values */
    return flags == MBR_GPU_ACCESS_READ && instance->has_no_read_only ? MBR_GPU_ACCESS_READ_WRITE
                                                                      : flags;
}

/* One call for all devices: the driver then works on them at the same time. The instance's own is
 * the last one: some drivers want that, and no one minds. */
static size_t list_access(const mbr_instance *instance, const struct mbr_answer_access *access,
    struct mbr_gpu_access list[MBR_GPU_DEVICE_LIMIT])
{
    uint32_t device_count = instance->driver->device_count;
    size_t count = 0;
    for (uint32_t i = 1; i <= device_count; i++) {
        uint32_t device = (instance->objects.device_index + i) % device_count;
        if (access->named & (UINT64_C(1) << device))
            list[count++] = (struct mbr_gpu_access){
                .location = {MBR_GPU_LOCATION_DEVICE, (int32_t)device},
                .flags = flags_of(instance, access, device),
            };
    }
    return count;
}

/* The driver does not say whose access it refused. Asked for each alone it does; what it gives
 * meanwhile its caller undoes with the rest. A lost device refuses everybody's. */
static mbr_status tell_refused(const mbr_instance *instance, mbr_gpu_result result,
    uint64_t address, uint64_t bytes, const struct mbr_gpu_access *list, size_t count,
    mbr_error *error)
{
    const char *name = instance->driver->name.set_access;
    mbr_status status = answer(instance, result, name, bytes, error);
    char call[64];
    if (MBR_STATUS_CLASS(status) == MBR_CLASS_LOST || error == NULL)
        return status;
    for (size_t i = 0; i < count && count > 1; i++) {
        if (call_of(instance)->set_access(address, bytes, &list[i], 1) != result)
            continue;
        snprintf(call, sizeof call, "%s for device %d", name, list[i].location.id);
        return answer(instance, result, call, bytes, error);
    }
    return status;
}

static mbr_status give_access(const mbr_instance *instance, uint64_t address, uint64_t bytes,
    const struct mbr_answer_access *access, mbr_error *error)
{
    struct mbr_gpu_access list[MBR_GPU_DEVICE_LIMIT];
    size_t count = list_access(instance, access, list);
    mbr_gpu_result result = call_of(instance)->set_access(address, bytes, list, count);
    return result == MBR_GPU_SUCCESS
        ? MBR_OK
        : tell_refused(instance, result, address, bytes, list, count, error);
}

/* Of one mapping. */
static bool has_access(
    const mbr_instance *instance, uint64_t address, const struct mbr_gpu_access *access)
{
    unsigned long long flags;
    return call_of(instance)->get_access(&flags, &access->location, address) == MBR_GPU_SUCCESS &&
        flags == (unsigned long long)access->flags;
}

/* What is refused for no reason the host asks for again; an undo nobody else can. */
static mbr_gpu_result insist(const mbr_instance *instance, uint64_t address, uint64_t bytes,
    const struct mbr_gpu_access *list, size_t count)
{
    uint32_t left = instance->driver->quirks.refuses_access_spuriously ? UNDO_ATTEMPT_COUNT : 1;
    mbr_gpu_result result;
    do
        result = call_of(instance)->set_access(address, bytes, list, count);
    while (result != MBR_GPU_SUCCESS && --left > 0);
    return result;
}

/* Of one mapping. A device that cannot reach the memory may be refused even no access, which it
 * has. */
static mbr_status take_back_access(const mbr_instance *instance, uint64_t address, uint64_t bytes,
    const struct mbr_answer_access *access, mbr_error *error)
{
    struct mbr_gpu_access list[MBR_GPU_DEVICE_LIMIT];
    size_t count = list_access(instance, access, list);
    mbr_gpu_result result = insist(instance, address, bytes, list, count);
    bool is_done = result == MBR_GPU_SUCCESS || count > 1;
    for (size_t i = 0; i < count && count > 1 && result != MBR_GPU_SUCCESS; i++) {
        bool is_back = has_access(instance, address, &list[i]) ||
            insist(instance, address, bytes, &list[i], 1) == MBR_GPU_SUCCESS;
        is_done = is_done && is_back; /* whoever resists, the others get theirs */
    }
    return is_done ? MBR_OK
                   : answer(instance, result, instance->driver->name.set_access, bytes, error);
}

_Static_assert((int)MBR_GPU_ACCESS_NONE == MBR_ACCESS_NONE, "set_access hands them on");
_Static_assert((int)MBR_GPU_ACCESS_READ == MBR_ACCESS_READ, "set_access hands them on");
_Static_assert((int)MBR_GPU_ACCESS_READ_WRITE == MBR_ACCESS_READ_WRITE, "set_access hands it on");

static mbr_status map(
    mbr_instance *instance, const struct mbr_mapping *mapping, uint64_t address, mbr_error *error)
{
    const struct mbr_handle_extent *extent = (const struct mbr_handle_extent *)mapping->extent;
    uint64_t bytes = mapping->place.bytes;
    mbr_status status =
        answer(instance, call_of(instance)->map(address, bytes, 0, extent->handle, 0),
            instance->driver->name.map, bytes, error);
    if (status == MBR_OK && mapping->access.named != 0)
        status = give_access(instance, address, bytes, &mapping->access, error);
    return status;
}

static enum mbr_end look(const mbr_instance *instance, uint64_t address, uint64_t bytes)
{
    const struct mbr_gpu_location location = {MBR_GPU_LOCATION_DEVICE, instance->device};
    uint64_t granule_bytes = instance->objects.granule_bytes;
    enum mbr_end all = MBR_END_UNKNOWN;
    for (uint64_t offset = 0; offset < bytes; offset += granule_bytes) {
        unsigned long long flags;
        enum mbr_end one =
            mbr_gpu_end_of_look(call_of(instance)->get_access(&flags, &location, address + offset));
        if (offset > 0 && one != all)
            return MBR_END_UNKNOWN;
        all = one;
    }
    return all;
}

static enum mbr_end unmap(
    mbr_instance *instance, uint64_t address, uint64_t bytes, mbr_error *error)
{
    mbr_gpu_result result = call_of(instance)->unmap(address, bytes);
    if (result == MBR_GPU_SUCCESS)
        return MBR_END_GONE;
    enum mbr_end end = look(instance, address, bytes);
    if (end != MBR_END_GONE)
        answer(instance, result, instance->driver->name.unmap, bytes, error);
    return end;
}

static mbr_status protect(mbr_instance *instance, uint64_t address, uint64_t bytes,
    const struct mbr_answer_access *access, bool is_undo, mbr_error *error)
{
    return is_undo ? take_back_access(instance, address, bytes, access, error)
                   : give_access(instance, address, bytes, access, error);
}

const struct mbr_handle_port mbr_gpu_handle_port = {.create = create, .destroy = destroy};

const struct mbr_space_port mbr_gpu_space_port = {
    .reservation_max_bytes = RESERVATION_MAX_BYTES,
    .reserve = reserve,
    .unreserve = unreserve,
    .map = map,
    .unmap = unmap,
    .look = look,
    .protect = protect,
};

const mbr_virtual_vtable mbr_gpu_virtual = {
    MBR_SIZED(mbr_virtual_vtable),
    .kind = MBR_KIND_VIRTUAL,
    .minor = MBR_MINOR_0,
    .reserve = mbr_space_slot_reserve,
    .unreserve = mbr_space_slot_unreserve,
    .extent_create = mbr_handle_slot_extent_create,
    .extent_destroy = mbr_handle_slot_extent_destroy,
    .map = mbr_space_slot_map,
    .protect = mbr_space_slot_protect,
    .unmap = mbr_space_slot_unmap,
    .query = mbr_space_slot_query,
};

const mbr_shared_vtable mbr_gpu_shared = {
    MBR_SIZED(mbr_shared_vtable),
    .kind = MBR_KIND_SHARED,
    .minor = MBR_MINOR_0,
    .map_shared = mbr_space_slot_map_shared,
};
