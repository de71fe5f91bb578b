/* The HIP front end: virtual, plain and host memory. What HIP's runtime does otherwise than CUDA's
 * driver is decided here: what it refuses in one version or another (control.h), and what it does
 * not bear, which ends the process. */
#include "tests/standin/hip.h"

#define VIRTUAL (SIM_NEEDS_START | SIM_IS_VIRTUAL)

/* ---- Virtual memory ---- */

static int granularity(size_t *bytes, const struct mbr_gpu_properties *properties, uint32_t which)
{
    int status = front_granularity(bytes, properties, which);
    if (status == SIM_OK && sim.options.granule_told_bytes != 0)
        *bytes = sim.options.granule_told_bytes;
    return status;
}

mbr_hip_result hipMemGetAllocationGranularity(
    size_t *bytes, const struct mbr_gpu_properties *properties, uint32_t which)
{
    return HIP_CALL(hipMemGetAllocationGranularity, VIRTUAL, granularity(bytes, properties, which));
}

/* An alignment is asked for in vain: some versions refuse it. */
mbr_hip_result hipMemAddressReserve(mbr_gpu_address *address, size_t bytes, size_t align_bytes,
    mbr_gpu_address wish, unsigned long long flags)
{
    (void)wish;
    return HIP_CALL(hipMemAddressReserve, VIRTUAL,
        align_bytes != 0 ? (int)SIM_INVALID_VALUE : front_reserve(address, bytes, 0, flags));
}

mbr_hip_result hipMemAddressFree(mbr_gpu_address address, size_t bytes)
{
    return HIP_CALL(hipMemAddressFree, VIRTUAL, sim_unreserve(address, bytes));
}

static int create(mbr_gpu_handle *handle, size_t bytes, const struct mbr_gpu_properties *properties,
    uint64_t flags)
{
    uint64_t largest = sim.options.handle_max_bytes;
    return largest != 0 && bytes > largest ? (int)SIM_OUT_OF_MEMORY
                                           : front_create(handle, bytes, properties, flags);
}

mbr_hip_result hipMemCreate(mbr_gpu_handle *handle, size_t bytes,
    const struct mbr_gpu_properties *properties, unsigned long long flags)
{
    return HIP_CALL(hipMemCreate, VIRTUAL, create(handle, bytes, properties, flags));
}

mbr_hip_result hipMemRelease(mbr_gpu_handle handle)
{
    return HIP_CALL(hipMemRelease, VIRTUAL, sim_release_handle(handle));
}

static int map(uint64_t address, size_t bytes, size_t offset_bytes, uint64_t handle, uint64_t flags)
{
    bool is_second = sim.options.has_no_aliasing && sim_is_mapped_somewhere(handle);
    return flags || is_second ? (int)SIM_INVALID_VALUE
                              : sim_map(address, bytes, offset_bytes, handle);
}

mbr_hip_result hipMemMap(mbr_gpu_address address, size_t bytes, size_t offset_bytes,
    mbr_gpu_handle handle, unsigned long long flags)
{
    return HIP_CALL(hipMemMap, VIRTUAL, map(address, bytes, offset_bytes, handle, flags));
}

static bool is_one_mapping(uint64_t address, uint64_t bytes, uint32_t *device)
{
    uint64_t length = 0;
    return sim_mapping_at(address, &length, device) && length == bytes;
}

static int unmap(uint64_t address, uint64_t bytes)
{
    uint32_t device;
    if (!is_one_mapping(address, bytes, &device))
        sim_misuse("an unmap of %llu bytes is of no one mapping", (unsigned long long)bytes);
    return sim_unmap(address, bytes);
}

mbr_hip_result hipMemUnmap(mbr_gpu_address address, size_t bytes)
{
    return HIP_CALL(hipMemUnmap, VIRTUAL, unmap(address, bytes));
}

static bool is_own_last(uint64_t address, const struct mbr_gpu_access *list, size_t count)
{
    uint64_t bytes;
    uint32_t device;
    bool is_known = list && count > 0 && sim_mapping_at(address, &bytes, &device);
    for (size_t i = 0; is_known && i + 1 < count; i++)
        if (list[i].location.id == (int32_t)device)
            return false;
    return true;
}

static int set_access(
    uint64_t address, size_t bytes, const struct mbr_gpu_access *list, size_t count)
{
    static _Thread_local uint64_t call_count; /* else many threads could use up one's attempts */
    const struct standin_options *options = &sim.options;
    uint32_t device;
    if (options->refuses_access_each != 0 && ++call_count % options->refuses_access_each == 0)
        return SIM_INVALID_VALUE;
    if (options->refuses_long_access && !is_one_mapping(address, bytes, &device))
        return SIM_INVALID_VALUE;
    if (options->wants_own_last && !is_own_last(address, list, count))
        return SIM_INVALID_VALUE;
    for (size_t i = 0; options->has_no_read_only && list && i < count; i++)
        if (list[i].flags == MBR_GPU_ACCESS_READ)
            return SIM_NOT_SUPPORTED;
    return front_set_access(address, bytes, list, count);
}

mbr_hip_result hipMemSetAccess(
    mbr_gpu_address address, size_t bytes, const struct mbr_gpu_access *list, size_t count)
{
    return HIP_CALL(hipMemSetAccess, VIRTUAL, set_access(address, bytes, list, count));
}

mbr_hip_result hipMemGetAccess(
    unsigned long long *flags, const struct mbr_gpu_location *location, mbr_gpu_address address)
{
    return HIP_CALL(hipMemGetAccess, VIRTUAL, front_get_access(flags, location, address));
}

/* ---- Plain and host memory ---- */

#define UNSAFE (SIM_NEEDS_LIVE_CONTEXT | SIM_IS_UNSAFE)

mbr_hip_result hipMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    return HIP_CALL(
        hipMemGetInfo, SIM_NEEDS_LIVE_CONTEXT, front_memory_info(free_bytes, total_bytes));
}

mbr_hip_result hipMalloc(mbr_gpu_address *address, size_t bytes)
{
    return HIP_CALL(hipMalloc, UNSAFE, front_allocate(address, bytes));
}

mbr_hip_result hipMallocManaged(mbr_gpu_address *address, size_t bytes, unsigned flags)
{
    return HIP_CALL(hipMallocManaged, UNSAFE, front_allocate_managed(address, bytes, flags));
}

mbr_hip_result hipFree(mbr_gpu_address address)
{
    return HIP_CALL(hipFree, UNSAFE, sim_free(address));
}

mbr_hip_result hipMemGetAddressRange(mbr_gpu_address *start, size_t *bytes, mbr_gpu_address address)
{
    return HIP_CALL(
        hipMemGetAddressRange, SIM_NEEDS_LIVE_CONTEXT, front_address_range(start, bytes, address));
}

mbr_hip_result hipHostMalloc(void **address, size_t bytes, unsigned flags)
{
    return HIP_CALL(hipHostMalloc, UNSAFE,
        !address ? (int)SIM_INVALID_VALUE : sim_host_allocate(address, bytes, flags, SIM_PINNED));
}

mbr_hip_result hipHostFree(void *address)
{
    return HIP_CALL(hipHostFree, UNSAFE, sim_host_free(address));
}
