/* The primitives behind plugins/common/space.h and handles.h: extents as handles of the driver,
 * mapped whole. Keeps no books.
 *
 * Whether something is mapped at an address is what a question for its access tells. None of these
 * calls waits for the device, looks at the current context or disturbs a capture. */
#include "abi/base/checked.h"
#include "plugins/cuda/core.h"

#define RESERVATION_MAX_BYTES (UINT64_C(1) << 46)

static const struct mbr_cuda_functions *call_of(const mbr_instance *instance)
{
    return &instance->driver->call;
}

static mbr_status answer(const mbr_instance *instance, mbr_cuda_result result, const char *call,
    uint64_t bytes, mbr_error *error)
{
    return mbr_cuda_answer(instance->driver, result, call, bytes, error);
}

/* ---- Handles -------------------------------------------------------------------------------- */

static struct mbr_cuda_properties properties_of(const mbr_instance *instance)
{
    return (struct mbr_cuda_properties){.type = MBR_CUDA_ALLOCATION_PINNED,
        .location = {MBR_CUDA_LOCATION_DEVICE, instance->device}};
}

mbr_status mbr_cuda_read_granules(mbr_instance *instance, mbr_error *error)
{
    const struct mbr_cuda_functions *call = call_of(instance);
    const struct mbr_cuda_properties properties = properties_of(instance);
    struct mbr_objects *objects = &instance->objects;
    size_t minimum = 0, recommended = 0;
    mbr_cuda_result result = call->granularity(&minimum, &properties, MBR_CUDA_GRANULARITY_MINIMUM);
    if (result == MBR_CUDA_SUCCESS)
        result = call->granularity(&recommended, &properties, MBR_CUDA_GRANULARITY_RECOMMENDED);
    if (result != MBR_CUDA_SUCCESS)
        return answer(instance, result, "cuMemGetAllocationGranularity", 0, error);
    objects->granule_bytes = minimum;
    instance->granule_recommended_bytes = recommended;
    objects->extent_max_bytes =
        mbr_align_down(instance->driver->total_bytes[objects->device_index], minimum);
    return MBR_OK;
}

static mbr_status create(mbr_instance *instance, struct mbr_handle_extent *extent, mbr_error *error)
{
    const struct mbr_cuda_functions *call = call_of(instance);
    const struct mbr_cuda_properties properties = properties_of(instance);
    uint64_t bytes = extent->extent.object.bytes;
    mbr_cuda_handle handle = 0;
    mbr_cuda_result result = call->handle_create(&handle, bytes, &properties, 0);
    extent->handle = handle; /* also of a call that failed after its effect */
    return answer(instance, result, "cuMemCreate", bytes, error);
}

/* Nothing tells whether a handle is still there: the driver describes one that is released, too. A
 * second call might release what another thread was given since. */
static enum mbr_end destroy(
    mbr_instance *instance, const struct mbr_handle_extent *extent, mbr_error *error)
{
    mbr_cuda_result result = call_of(instance)->handle_release(extent->handle);
    if (result == MBR_CUDA_SUCCESS)
        return MBR_END_GONE;
    answer(instance, result, "cuMemRelease", extent->extent.object.bytes, error);
    return result == MBR_CUDA_INVALID_VALUE ? MBR_END_THERE : MBR_END_UNKNOWN;
}

/* ---- Reservations --------------------------------------------------------------------------- */

static mbr_status reserve(
    mbr_instance *instance, struct mbr_object *reservation, uint64_t align_bytes, mbr_error *error)
{
    const struct mbr_cuda_functions *call = call_of(instance);
    uint64_t bytes = reservation->bytes;
    mbr_cuda_address address = 0;
    mbr_cuda_result result = call->address_reserve(&address, bytes, align_bytes, 0, 0);
    if (result != MBR_CUDA_SUCCESS && address != 0) /* it failed after its effect */
        (void)call->address_free(address, bytes);
    reservation->address = reservation->outer_address = address;
    reservation->outer_bytes = bytes;
    mbr_status status = answer(instance, result, "cuMemAddressReserve", bytes, error);
    return status == MBR_OUT_OF_MEMORY ? mbr_cuda_rename(MBR_OUT_OF_ADDRESSES, error) : status;
}

/* Nothing tells whether a range without a mapping is reserved, and a second call might free what
 * another thread has reserved since. */
static enum mbr_end unreserve(
    mbr_instance *instance, struct mbr_object *reservation, mbr_error *error)
{
    mbr_cuda_result result =
        call_of(instance)->address_free(reservation->address, reservation->bytes);
    if (result == MBR_CUDA_SUCCESS)
        return MBR_END_GONE;
    answer(instance, result, "cuMemAddressFree", reservation->bytes, error);
    return result == MBR_CUDA_INVALID_VALUE ? MBR_END_THERE : MBR_END_UNKNOWN;
}

/* ---- Mappings ------------------------------------------------------------------------------- */

/* One call for all devices: the driver then works on them at the same time. */
static mbr_cuda_result set_access(const mbr_instance *instance, uint64_t address, uint64_t bytes,
    const struct mbr_answer_access *access)
{
    struct mbr_cuda_access list[MBR_CUDA_DEVICE_LIMIT];
    size_t count = 0;
    for (uint32_t device = 0; device < instance->driver->device_count; device++)
        if (access->named & (UINT64_C(1) << device))
            list[count++] = (struct mbr_cuda_access){
                .location = {MBR_CUDA_LOCATION_DEVICE, (int32_t)device},
                .flags = mbr_answer_access_of(access, device), /* the driver's values */
            };
    return call_of(instance)->set_access(address, bytes, list, count);
}

_Static_assert((int)MBR_CUDA_ACCESS_NONE == MBR_ACCESS_NONE, "set_access hands them on");
_Static_assert((int)MBR_CUDA_ACCESS_READ == MBR_ACCESS_READ, "set_access hands them on");
_Static_assert((int)MBR_CUDA_ACCESS_READ_WRITE == MBR_ACCESS_READ_WRITE, "set_access hands it on");

static mbr_status map(
    mbr_instance *instance, const struct mbr_mapping *mapping, uint64_t address, mbr_error *error)
{
    const struct mbr_handle_extent *extent = (const struct mbr_handle_extent *)mapping->extent;
    uint64_t bytes = mapping->place.bytes;
    mbr_status status = answer(instance,
        call_of(instance)->map(address, bytes, 0, extent->handle, 0), "cuMemMap", bytes, error);
    if (status == MBR_OK && mapping->access.named != 0)
        status = answer(instance, set_access(instance, address, bytes, &mapping->access),
            "cuMemSetAccess", bytes, error);
    return status;
}

static enum mbr_end look(const mbr_instance *instance, uint64_t address, uint64_t bytes)
{
    const struct mbr_cuda_location location = {MBR_CUDA_LOCATION_DEVICE, instance->device};
    uint64_t granule_bytes = instance->objects.granule_bytes;
    enum mbr_end all = MBR_END_UNKNOWN;
    for (uint64_t offset = 0; offset < bytes; offset += granule_bytes) {
        unsigned long long flags;
        enum mbr_end one = mbr_cuda_end_of_look(
            call_of(instance)->get_access(&flags, &location, address + offset));
        if (offset > 0 && one != all)
            return MBR_END_UNKNOWN;
        all = one;
    }
    return all;
}

static enum mbr_end unmap(
    mbr_instance *instance, uint64_t address, uint64_t bytes, mbr_error *error)
{
    mbr_cuda_result result = call_of(instance)->unmap(address, bytes);
    if (result == MBR_CUDA_SUCCESS)
        return MBR_END_GONE;
    enum mbr_end end = look(instance, address, bytes);
    if (end != MBR_END_GONE)
        answer(instance, result, "cuMemUnmap", bytes, error);
    return end;
}

static mbr_status protect(mbr_instance *instance, uint64_t address, uint64_t bytes,
    const struct mbr_answer_access *access, bool is_undo, mbr_error *error)
{
    (void)is_undo;
    return answer(
        instance, set_access(instance, address, bytes, access), "cuMemSetAccess", bytes, error);
}

const struct mbr_handle_port mbr_cuda_handle_port = {.create = create, .destroy = destroy};

const struct mbr_space_port mbr_cuda_space_port = {
    .reservation_max_bytes = RESERVATION_MAX_BYTES,
    .reserve = reserve,
    .unreserve = unreserve,
    .map = map,
    .unmap = unmap,
    .look = look,
    .protect = protect,
};

const mbr_virtual_vtable mbr_cuda_virtual = {
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

const mbr_shared_vtable mbr_cuda_shared = {
    MBR_SIZED(mbr_shared_vtable),
    .kind = MBR_KIND_SHARED,
    .minor = MBR_MINOR_0,
    .map_shared = mbr_space_slot_map_shared,
};
