/* What the front ends share: turns the arguments and answers of functions that the drivers have in
 * common (plugins/common/gpu_calls.h) round; decides nothing but what the layout of an argument may
 * hold. Each is called between sim_enter and sim_leave. */
#include "tests/standin/front.h"

#include <stdio.h>

#define EVENT_FLAGS 7u

int front_count(int *told)
{
    if (!told)
        return SIM_INVALID_VALUE;
    *told = (int)sim.options.device_count;
    return SIM_OK;
}

/* What has a device and a place for the answer. */
int front_check(const void *answer, int device)
{
    return !sim_device(device) ? SIM_INVALID_DEVICE : answer ? SIM_OK : SIM_INVALID_VALUE;
}

int front_get(mbr_gpu_device *device, int ordinal)
{
    int status = front_check(device, ordinal);
    if (status == SIM_OK)
        *device = ordinal;
    return status;
}

int front_name(char *text, int room, int device)
{
    int status = front_check(text, device);
    if (status == SIM_OK && room > 0)
        snprintf(text, (size_t)room, "Membrane stand-in %d", device);
    return status;
}

int front_uuid(struct mbr_gpu_uuid *told, int device)
{
    int status = front_check(told, device);
    if (status != SIM_OK)
        return status;
    *told = (struct mbr_gpu_uuid){"stand-in-device"};
    told->bytes[15] = (uint8_t)(device + 1);
    return SIM_OK;
}

int front_pci(char *text, int room, int device)
{
    int status = front_check(text, device);
    if (status == SIM_OK && room > 0)
        snprintf(text, (size_t)room, "0000:%02X:00.0", (unsigned)device + 1);
    return status;
}

int front_total(size_t *bytes, int device)
{
    int status = front_check(bytes, device);
    if (status == SIM_OK)
        *bytes = sim.options.capacity_bytes;
    return status;
}

/* Whether what is wished for can be made at all. */
static int check_properties(const struct mbr_gpu_properties *properties)
{
    if (!properties || properties->type != MBR_GPU_ALLOCATION_PINNED ||
        properties->location.type != MBR_GPU_LOCATION_DEVICE)
        return SIM_INVALID_VALUE;
    return sim_device(properties->location.id) ? SIM_OK : SIM_INVALID_DEVICE;
}

/* Of whatever is asked: the driver does not look whether it could be made. */
int front_granularity(size_t *bytes, const struct mbr_gpu_properties *properties, uint32_t which)
{
    if (!bytes || !properties || which > MBR_GPU_GRANULARITY_RECOMMENDED)
        return SIM_INVALID_VALUE;
    *bytes = which == MBR_GPU_GRANULARITY_MINIMUM ? sim.options.granule_min_bytes
                                                  : sim.options.granule_recommended_bytes;
    return SIM_OK;
}

int front_reserve(mbr_gpu_address *address, size_t bytes, size_t align_bytes, uint64_t flags)
{
    uint64_t found;
    int status = address ? sim_reserve(&found, bytes, align_bytes, flags) : (int)SIM_INVALID_VALUE;
    if (status == SIM_OK)
        *address = found;
    return status;
}

int front_create(mbr_gpu_handle *handle, size_t bytes, const struct mbr_gpu_properties *properties,
    uint64_t flags)
{
    int status = check_properties(properties);
    if (status != SIM_OK)
        return status;
    bool is_exportable = properties->handle_types != 0;
    if (!handle || flags)
        return SIM_INVALID_VALUE;
    if (is_exportable && !sim.options.can_export)
        return SIM_NOT_SUPPORTED;
    uint64_t made;
    status = sim_create(&made, bytes, properties->location.id, is_exportable);
    if (status == SIM_OK)
        *handle = made;
    return status;
}

static bool is_access(uint32_t flags)
{
    return flags == MBR_GPU_ACCESS_NONE || flags == MBR_GPU_ACCESS_READ ||
        flags == MBR_GPU_ACCESS_READ_WRITE;
}

static enum sim_access access_of(uint32_t flags)
{
    return flags == MBR_GPU_ACCESS_NONE ? SIM_ACCESS_NONE
        : flags == MBR_GPU_ACCESS_READ  ? SIM_ACCESS_READ
                                        : SIM_ACCESS_READ_WRITE;
}

static bool reaches(const struct mbr_gpu_access *access, uint64_t address)
{
    uint64_t bytes;
    uint32_t owner;
    return !sim.options.has_no_peers || !sim_mapping_at(address, &bytes, &owner) ||
        access->location.id == (int32_t)owner;
}

/* One pass that looks, one that does: the whole list or nothing. */
int front_set_access(
    uint64_t address, size_t bytes, const struct mbr_gpu_access *list, size_t count)
{
    if (!list || count == 0)
        return SIM_INVALID_VALUE;
    for (int is_dry = 1; is_dry >= 0; is_dry--)
        for (size_t i = 0; i < count; i++) {
            if (list[i].location.type != MBR_GPU_LOCATION_DEVICE || !is_access(list[i].flags))
                return SIM_INVALID_VALUE;
            if (!reaches(&list[i], address))
                return SIM_INVALID_DEVICE;
            int status = sim_set_access(
                address, bytes, list[i].location.id, access_of(list[i].flags), is_dry);
            if (status != SIM_OK)
                return status;
        }
    return SIM_OK;
}

int front_get_access(
    unsigned long long *flags, const struct mbr_gpu_location *location, uint64_t address)
{
    static const uint32_t words[] = {
        MBR_GPU_ACCESS_NONE, MBR_GPU_ACCESS_READ, MBR_GPU_ACCESS_READ_WRITE};
    enum sim_access access;
    if (!flags || !location || location->type != MBR_GPU_LOCATION_DEVICE)
        return SIM_INVALID_VALUE;
    int status = sim_get_access(address, location->id, &access);
    if (status == SIM_OK)
        *flags = words[access];
    return status;
}

int front_memory_info(size_t *free_bytes, size_t *total_bytes)
{
    uint64_t unused;
    uint64_t total;
    int status = sim_free_bytes(&unused, &total);
    if (free_bytes)
        *free_bytes = unused;
    if (total_bytes)
        *total_bytes = total;
    return status;
}

int front_allocate(mbr_gpu_address *address, size_t bytes)
{
    uint64_t found;
    int status = address ? sim_allocate(&found, bytes) : (int)SIM_INVALID_VALUE;
    if (status == SIM_OK)
        *address = found;
    return status;
}

int front_allocate_managed(mbr_gpu_address *address, size_t bytes, unsigned flags)
{
    void *start;
    if (!address || flags == 0 || flags > 2)
        return SIM_INVALID_VALUE;
    if (sim.options.has_no_managed_memory)
        return SIM_NOT_SUPPORTED;
    int status = sim_host_allocate(&start, bytes, flags, SIM_MANAGED);
    if (status == SIM_OK)
        *address = (uintptr_t)start;
    return status;
}

int front_address_range(mbr_gpu_address *start, size_t *bytes, uint64_t address)
{
    uint64_t found = 0;
    uint64_t length = 0;
    uint32_t device;
    int status = sim_piece(address, &found, &length, &device);
    const struct sim_host_block *block = status == SIM_OK ? NULL : sim_host_find(address);
    if (block) {
        found = block->address;
        length = block->bytes;
        status = SIM_OK;
    }
    if (start && status == SIM_OK)
        *start = found;
    if (bytes && status == SIM_OK)
        *bytes = length;
    return status;
}

int front_stream_create(mbr_gpu_stream *stream, unsigned flags, int priority)
{
    struct sim_stream *made;
    if (!stream || flags & ~(unsigned)MBR_GPU_STREAM_NON_BLOCKING)
        return SIM_INVALID_VALUE;
    int status = sim_stream_create(&made, !(flags & MBR_GPU_STREAM_NON_BLOCKING), priority);
    *stream = (mbr_gpu_stream)made;
    return status;
}

int front_event_create(mbr_gpu_event *event, unsigned flags)
{
    return !event || flags & ~EVENT_FLAGS
        ? (int)SIM_INVALID_VALUE
        : sim_event_create((struct sim_event **)event, !(flags & MBR_GPU_EVENT_DISABLE_TIMING));
}

int front_capture_end(uintptr_t stream, struct sim_graph **graph)
{
    struct sim_graph *made = NULL;
    if (!graph)
        return SIM_INVALID_VALUE;
    int status = sim_capture_end(stream, &made);
    *graph = made;
    return status;
}
