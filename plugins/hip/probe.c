/* What differs from build to build of HIP's runtime and no version tells, found out when a device's
 * memory is opened, on two granules that are given back: whether one handle may be mapped twice
 * and is the same memory there, whether access for reading alone is granted, and whether a handle
 * takes a descriptor. Never writes where it may not: that could end the process. */
#include "plugins/hip/backend.h"

#include <stdlib.h>
#include <string.h>

#define PATTERN 0x5A
#define PATTERN_BYTES 64
#define ATTEMPT_COUNT 3

struct probe {
    mbr_instance *instance;
    const struct mbr_gpu_calls *call;
    uint64_t granule_bytes;
    mbr_gpu_handle handle;
    mbr_gpu_address address; /* of two granules */
    bool is_tried[2], is_mapped[2];
    bool is_at_work; /* something may still touch what is mapped, and `seen` */
    unsigned char *seen;
};

/* Another thread may take the one that was free, but hardly each time. */
static mbr_gpu_result find_descriptors(struct probe *it)
{
    const struct mbr_gpu_properties properties = mbr_gpu_properties_of(it->instance);
    it->instance->takes_descriptors = true;
    for (int i = 0; i < ATTEMPT_COUNT && it->instance->takes_descriptors; i++) {
        mbr_gpu_handle handle = 0;
        int before = mbr_gpu_lowest_descriptor();
        mbr_gpu_result result = it->call->handle_create(&handle, it->granule_bytes, &properties, 0);
        it->instance->takes_descriptors = mbr_gpu_lowest_descriptor() != before;
        if (handle != 0)
            (void)it->call->handle_release(handle);
        if (result != MBR_HIP_SUCCESS)
            return result;
    }
    return MBR_HIP_SUCCESS;
}

/* Access may be refused for no reason. */
static mbr_gpu_result grant(const struct probe *it, mbr_gpu_address address, uint32_t flags)
{
    const struct mbr_gpu_access access = {{MBR_GPU_LOCATION_DEVICE, it->instance->device}, flags};
    mbr_gpu_result result = MBR_HIP_UNKNOWN;
    for (int i = 0; i < ATTEMPT_COUNT && result != MBR_HIP_SUCCESS; i++)
        result = it->call->set_access(address, it->granule_bytes, &access, 1);
    return result;
}

static mbr_gpu_result map_at(struct probe *it, int place, uint32_t flags)
{
    mbr_gpu_address address = it->address + (uint64_t)place * it->granule_bytes;
    it->is_tried[place] = true;
    mbr_gpu_result result = it->call->map(address, it->granule_bytes, 0, it->handle, 0);
    it->is_mapped[place] = result == MBR_HIP_SUCCESS;
    return result == MBR_HIP_SUCCESS ? grant(it, address, flags) : result;
}

/* Where access comes late, it is there once the default stream is done, which mapping uses. That
 * stream is not waited for while others that wait for it are captured: it would end the capture. */
static bool is_usable(const struct probe *it)
{
    uint32_t capture = MBR_HIP_CAPTURE_NONE;
    return !it->instance->driver->quirks.is_usable_late ||
        (it->call->stream_capturing(NULL, &capture) == MBR_HIP_SUCCESS &&
            capture == MBR_HIP_CAPTURE_NONE &&
            mbr_hip()->stream_synchronize(NULL) == MBR_HIP_SUCCESS);
}

/* A refused call may have had its effect, too: what was begun is waited for whatever was said. */
static mbr_gpu_result pass_through(struct probe *it, mbr_gpu_stream stream, bool *is_same)
{
    unsigned char wanted[PATTERN_BYTES];
    memset(wanted, PATTERN, sizeof wanted);
    it->is_at_work = true;
    bool is_begun =
        it->call->fill_async(it->address, PATTERN, PATTERN_BYTES, stream) == MBR_HIP_SUCCESS &&
        it->call->copy_async((uintptr_t)it->seen, it->address + it->granule_bytes, PATTERN_BYTES,
            stream) == MBR_HIP_SUCCESS;
    mbr_gpu_result result = mbr_hip()->stream_synchronize(stream);
    if (result != MBR_HIP_SUCCESS)
        result = mbr_hip()->stream_synchronize(stream);
    it->is_at_work = result != MBR_HIP_SUCCESS;
    *is_same = is_begun && !it->is_at_work && memcmp(it->seen, wanted, PATTERN_BYTES) == 0;
    return result;
}

/* What is written at the first place is read at the second. On a stream of its own: the legacy one
 * waits for others' work, and a thread that has used its own, and forks, is one whose child crashes
 * at its exit (seen through CUDA's driver 580.159.04). Fails only if the stream does not end. */
static mbr_gpu_result find_aliasing(struct probe *it, bool *is_same)
{
    mbr_gpu_stream stream = NULL;
    mbr_gpu_result result = MBR_HIP_SUCCESS;
    *is_same = false;
    it->seen = calloc(1, PATTERN_BYTES);
    bool is_made = it->call->stream_create(&stream, MBR_HIP_STREAM_NON_BLOCKING) == MBR_HIP_SUCCESS;
    if (is_made && it->seen && is_usable(it))
        result = pass_through(it, stream, is_same);
    if (stream && !it->is_at_work && it->call->stream_destroy(stream) != MBR_HIP_SUCCESS)
        *is_same = false;
    return result;
}

static bool is_read_only(const struct probe *it)
{
    const struct mbr_gpu_location location = {MBR_GPU_LOCATION_DEVICE, it->instance->device};
    mbr_gpu_address address = it->address + it->granule_bytes;
    unsigned long long flags = MBR_GPU_ACCESS_READ_WRITE;
    return grant(it, address, MBR_GPU_ACCESS_READ) == MBR_HIP_SUCCESS &&
        it->call->get_access(&flags, &location, address) == MBR_HIP_SUCCESS &&
        flags == MBR_GPU_ACCESS_READ;
}

/* A look may fail, too: then what was mapped is there, and is unmapped once. */
static bool is_there(const struct probe *it, uint64_t place, bool is_first)
{
    const struct mbr_gpu_location location = {MBR_GPU_LOCATION_DEVICE, it->instance->device};
    unsigned long long flags;
    enum mbr_end end = mbr_gpu_end_of_look(
        it->call->get_access(&flags, &location, it->address + place * it->granule_bytes));
    return end == MBR_END_THERE || (end == MBR_END_UNKNOWN && is_first && it->is_mapped[place]);
}

/* A call may have failed after its effect, or an unmap before it. What is still at work keeps all
 * that it may touch, for good: unmapped below it, the device would be lost. */
static void give_back(struct probe *it)
{
    static unsigned char *kept; /* the last one is found by who looks for leaks */
    if (it->is_at_work) {
        __atomic_store_n(&kept, it->seen, __ATOMIC_RELAXED);
        return;
    }
    free(it->seen);
    for (uint64_t place = 0; place < 2; place++)
        for (int i = 0; i < 2 && it->is_tried[place] && is_there(it, place, i == 0); i++)
            (void)it->call->unmap(it->address + place * it->granule_bytes, it->granule_bytes);
    if (it->address != 0)
        (void)it->call->address_free(it->address, 2 * it->granule_bytes);
    if (it->handle != 0)
        (void)it->call->handle_release(it->handle);
}

/* The name of what failed, or NULL. */
static const char *find_mappings(struct probe *it, mbr_gpu_result *result)
{
    const struct mbr_gpu_names *name = &it->instance->driver->name;
    const struct mbr_gpu_properties properties = mbr_gpu_properties_of(it->instance);
    *result = it->call->handle_create(&it->handle, it->granule_bytes, &properties, 0);
    if (*result != MBR_HIP_SUCCESS)
        return name->handle_create;
    *result = it->call->address_reserve(&it->address, 2 * it->granule_bytes, 0, 0, 0);
    if (*result != MBR_HIP_SUCCESS)
        return name->address_reserve;
    *result = map_at(it, 0, MBR_GPU_ACCESS_READ_WRITE);
    if (*result != MBR_HIP_SUCCESS)
        return it->is_mapped[0] ? name->set_access : name->map;
    bool is_same = false, is_second = map_at(it, 1, MBR_GPU_ACCESS_READ_WRITE) == MBR_HIP_SUCCESS;
    if (is_second)
        *result = find_aliasing(it, &is_same);
    it->instance->has_no_aliasing = !is_same;
    it->instance->has_no_read_only = !is_second || it->is_at_work || !is_read_only(it);
    return *result == MBR_HIP_SUCCESS ? NULL : "hipStreamSynchronize";
}

mbr_status mbr_hip_probe(mbr_instance *instance, mbr_error *error)
{
    struct probe it = {.instance = instance,
        .call = &instance->driver->call,
        .granule_bytes = instance->objects.granule_bytes};
    struct mbr_gpu_scope scope;
    mbr_status status = mbr_gpu_enter(instance, &scope, error);
    if (status != MBR_OK)
        return status;
    const char *failed = instance->driver->name.handle_create;
    mbr_gpu_result result = find_descriptors(&it);
    if (result == MBR_HIP_SUCCESS)
        failed = find_mappings(&it, &result);
    give_back(&it);
    return mbr_gpu_leave(instance, &scope, result, failed, it.granule_bytes, error);
}
