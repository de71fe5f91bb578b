/* The CUDA front end: virtual, plain and host memory. Turns arguments and answers round; decides
 * nothing but what the layout of an argument may hold. */
#include "tests/standin/cuda.h"

#include <sys/mman.h>
#include <unistd.h>

#define VIRTUAL (SIM_NEEDS_START | SIM_IS_VIRTUAL)

/* ---- Virtual memory ---- */

mbr_cuda_result cuMemGetAllocationGranularity(
    size_t *bytes, const struct mbr_cuda_properties *properties, uint32_t which)
{
    return CUDA_CALL(
        cuMemGetAllocationGranularity, VIRTUAL, front_granularity(bytes, properties, which));
}

/* D7: where somebody wishes it to be is not looked at. */
mbr_cuda_result cuMemAddressReserve(mbr_cuda_address *address, size_t bytes, size_t align_bytes,
    mbr_cuda_address wish, unsigned long long flags)
{
    (void)wish;
    return CUDA_CALL(
        cuMemAddressReserve, VIRTUAL, front_reserve(address, bytes, align_bytes, flags));
}

mbr_cuda_result cuMemAddressFree(mbr_cuda_address address, size_t bytes)
{
    return CUDA_CALL(cuMemAddressFree, VIRTUAL, sim_unreserve(address, bytes));
}

mbr_cuda_result cuMemCreate(mbr_cuda_handle *handle, size_t bytes,
    const struct mbr_cuda_properties *properties, unsigned long long flags)
{
    return CUDA_CALL(cuMemCreate, VIRTUAL, front_create(handle, bytes, properties, flags));
}

mbr_cuda_result cuMemRelease(mbr_cuda_handle handle)
{
    return CUDA_CALL(cuMemRelease, VIRTUAL, sim_release_handle(handle));
}

static int properties_of(struct mbr_cuda_properties *properties, uint64_t handle)
{
    int device = 0;
    bool is_exportable = false;
    int status =
        properties ? sim_handle_device(handle, &device, &is_exportable) : (int)SIM_INVALID_VALUE;
    if (status == SIM_OK)
        *properties = (struct mbr_cuda_properties){.type = MBR_CUDA_ALLOCATION_PINNED,
            .handle_types = is_exportable ? MBR_CUDA_HANDLE_POSIX_FD : MBR_CUDA_HANDLE_NONE,
            .location = {MBR_CUDA_LOCATION_DEVICE, device}};
    return status;
}

mbr_cuda_result cuMemGetAllocationPropertiesFromHandle(
    struct mbr_cuda_properties *properties, mbr_cuda_handle handle)
{
    return CUDA_CALL(
        cuMemGetAllocationPropertiesFromHandle, VIRTUAL, properties_of(properties, handle));
}

static int handle_at(mbr_cuda_handle *handle, const void *address)
{
    uint64_t found;
    int status = handle ? sim_handle_at(&found, (uintptr_t)address) : (int)SIM_INVALID_VALUE;
    if (status == SIM_OK)
        *handle = found;
    return status;
}

mbr_cuda_result cuMemRetainAllocationHandle(mbr_cuda_handle *handle, void *address)
{
    return CUDA_CALL(cuMemRetainAllocationHandle, VIRTUAL, handle_at(handle, address));
}

/* What is exported is a file that names the handle, for this process: no memory leaves it. */
static int export_file(uint64_t handle, uint32_t type, int *file)
{
    int device;
    bool is_exportable;
    int status = sim_handle_device(handle, &device, &is_exportable);
    if (status != SIM_OK || !is_exportable || type != MBR_CUDA_HANDLE_POSIX_FD || !file)
        return SIM_INVALID_VALUE;
    int made = memfd_create("standin-export", MFD_CLOEXEC);
    if (made < 0 || pwrite(made, &handle, sizeof handle, 0) != sizeof handle) {
        if (made >= 0)
            close(made);
        return SIM_OPERATING_SYSTEM;
    }
    *file = made;
    return SIM_OK;
}

mbr_cuda_result cuMemExportToShareableHandle(
    void *shareable, mbr_cuda_handle handle, uint32_t type, unsigned long long flags)
{
    return CUDA_CALL(cuMemExportToShareableHandle, VIRTUAL,
        flags ? (int)SIM_INVALID_VALUE : export_file(handle, type, shareable));
}

static int import_file(mbr_cuda_handle *handle, int file, uint32_t type)
{
    uint64_t named;
    if (!handle || type != MBR_CUDA_HANDLE_POSIX_FD)
        return SIM_INVALID_VALUE;
    if (pread(file, &named, sizeof named, 0) != sizeof named || sim_handle_retain(named) != SIM_OK)
        return SIM_INVALID_VALUE;
    *handle = named;
    return SIM_OK;
}

/* The file itself travels in the pointer. */
mbr_cuda_result cuMemImportFromShareableHandle(
    mbr_cuda_handle *handle, void *shareable, uint32_t type)
{
    return CUDA_CALL(cuMemImportFromShareableHandle, VIRTUAL,
        import_file(handle, (int)(intptr_t)shareable, type));
}

mbr_cuda_result cuMemMap(mbr_cuda_address address, size_t bytes, size_t offset_bytes,
    mbr_cuda_handle handle, unsigned long long flags)
{
    return CUDA_CALL(cuMemMap, VIRTUAL,
        flags ? (int)SIM_INVALID_VALUE : sim_map(address, bytes, offset_bytes, handle));
}

mbr_cuda_result cuMemUnmap(mbr_cuda_address address, size_t bytes)
{
    return CUDA_CALL(cuMemUnmap, VIRTUAL, sim_unmap(address, bytes));
}

mbr_cuda_result cuMemSetAccess(
    mbr_cuda_address address, size_t bytes, const struct mbr_cuda_access *list, size_t count)
{
    return CUDA_CALL(cuMemSetAccess, VIRTUAL, front_set_access(address, bytes, list, count));
}

mbr_cuda_result cuMemGetAccess(
    unsigned long long *flags, const struct mbr_cuda_location *location, mbr_cuda_address address)
{
    return CUDA_CALL(cuMemGetAccess, VIRTUAL, front_get_access(flags, location, address));
}

/* ---- Plain memory ---- */

mbr_cuda_result cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
    return CUDA_CALL(
        cuMemGetInfo_v2, SIM_NEEDS_LIVE_CONTEXT, front_memory_info(free_bytes, total_bytes));
}

mbr_cuda_result cuMemAlloc_v2(mbr_cuda_address *address, size_t bytes)
{
    return CUDA_CALL(
        cuMemAlloc_v2, SIM_NEEDS_LIVE_CONTEXT | SIM_IS_UNSAFE, front_allocate(address, bytes));
}

mbr_cuda_result cuMemAllocManaged(mbr_cuda_address *address, size_t bytes, unsigned flags)
{
    return CUDA_CALL(cuMemAllocManaged, SIM_NEEDS_LIVE_CONTEXT | SIM_IS_UNSAFE,
        front_allocate_managed(address, bytes, flags));
}

mbr_cuda_result cuMemFree_v2(mbr_cuda_address address)
{
    return CUDA_CALL(cuMemFree_v2, SIM_NEEDS_LIVE_CONTEXT | SIM_IS_UNSAFE, sim_free(address));
}

mbr_cuda_result cuMemGetAddressRange_v2(
    mbr_cuda_address *start, size_t *bytes, mbr_cuda_address address)
{
    return CUDA_CALL(cuMemGetAddressRange_v2, SIM_NEEDS_LIVE_CONTEXT,
        front_address_range(start, bytes, address));
}

static int pointer_attribute(void *value, uint32_t attribute, uint64_t address)
{
    uint64_t start;
    uint64_t bytes;
    uint32_t device;
    const struct sim_host_block *block = sim_host_find(address);
    if (!value)
        return SIM_INVALID_VALUE;
    if (block)
        device = block->device;
    else if (sim_piece(address, &start, &bytes, &device) != SIM_OK)
        return SIM_INVALID_VALUE;
    bool is_host = block && block->kind != SIM_MANAGED;
    switch (attribute) {
    case STANDIN_POINTER_MEMORY_TYPE:
        *(uint32_t *)value = is_host ? STANDIN_MEMORY_HOST : STANDIN_MEMORY_DEVICE;
        return SIM_OK;
    case STANDIN_POINTER_ORDINAL:
        *(int *)value = (int)device;
        return SIM_OK;
    default:
        return SIM_NOT_SUPPORTED;
    }
}

mbr_cuda_result cuPointerGetAttribute(void *value, uint32_t attribute, mbr_cuda_address address)
{
    return CUDA_CALL(cuPointerGetAttribute, SIM_NEEDS_START | SIM_TELLS_LOSS,
        pointer_attribute(value, attribute, address));
}

/* ---- Host memory ---- */

#define HOST_FLAGS 7u

mbr_cuda_result cuMemHostAlloc(void **address, size_t bytes, unsigned flags)
{
    return CUDA_CALL(cuMemHostAlloc, SIM_NEEDS_LIVE_CONTEXT | SIM_IS_UNSAFE,
        !address || flags & ~HOST_FLAGS
            ? (int)SIM_INVALID_VALUE
            : sim_host_allocate(address, bytes, flags | MBR_CUDA_HOST_DEVICE_MAP, SIM_PINNED));
}

mbr_cuda_result cuMemFreeHost(void *address)
{
    return CUDA_CALL(cuMemFreeHost, SIM_NEEDS_LIVE_CONTEXT | SIM_IS_UNSAFE, sim_host_free(address));
}

mbr_cuda_result cuMemHostRegister_v2(void *address, size_t bytes, unsigned flags)
{
    return CUDA_CALL(cuMemHostRegister_v2, SIM_NEEDS_LIVE_CONTEXT | SIM_IS_UNSAFE,
        sim_host_register(address, bytes, flags));
}

mbr_cuda_result cuMemHostUnregister(void *address)
{
    return CUDA_CALL(
        cuMemHostUnregister, SIM_NEEDS_LIVE_CONTEXT | SIM_IS_UNSAFE, sim_host_unregister(address));
}

static int device_address(mbr_cuda_address *told, void *address, unsigned flags)
{
    if (!told || flags || !sim_host_find((uintptr_t)address))
        return SIM_INVALID_VALUE;
    *told = (uintptr_t)address;
    return SIM_OK;
}

mbr_cuda_result cuMemHostGetDevicePointer_v2(mbr_cuda_address *told, void *address, unsigned flags)
{
    return CUDA_CALL(
        cuMemHostGetDevicePointer_v2, SIM_NEEDS_LIVE_CONTEXT, device_address(told, address, flags));
}

static int host_flags(unsigned *flags, void *address)
{
    const struct sim_host_block *block = sim_host_find((uintptr_t)address);
    if (!flags || !block)
        return SIM_INVALID_VALUE;
    *flags = block->flags;
    return SIM_OK;
}

mbr_cuda_result cuMemHostGetFlags(unsigned *flags, void *address)
{
    return CUDA_CALL(cuMemHostGetFlags, SIM_NEEDS_LIVE_CONTEXT, host_flags(flags, address));
}

/* ---- The driver's own pool: plain memory, given back in a stream's order ---- */

mbr_cuda_result cuMemAllocAsync(mbr_cuda_address *address, size_t bytes, mbr_cuda_stream stream)
{
    (void)stream;
    return CUDA_CALL(cuMemAllocAsync, SIM_NEEDS_LIVE_CONTEXT, front_allocate(address, bytes));
}

mbr_cuda_result cuMemFreeAsync(mbr_cuda_address address, mbr_cuda_stream stream)
{
    return CUDA_CALL(
        cuMemFreeAsync, SIM_NEEDS_LIVE_CONTEXT, sim_submit_free((uintptr_t)stream, address));
}

static struct mbr_cuda_pool_record *const only_pool = (struct mbr_cuda_pool_record *)1;

static int default_pool(mbr_cuda_pool *pool, int device)
{
    if (!sim_device(device))
        return SIM_INVALID_DEVICE;
    *pool = only_pool;
    return SIM_OK;
}

mbr_cuda_result cuDeviceGetDefaultMemPool(mbr_cuda_pool *pool, mbr_cuda_device device)
{
    return CUDA_CALL(cuDeviceGetDefaultMemPool, SIM_NEEDS_START, default_pool(pool, device));
}

/* It keeps nothing, so there is nothing to set or to trim. */
mbr_cuda_result cuMemPoolSetAttribute(mbr_cuda_pool pool, uint32_t attribute, void *value)
{
    (void)attribute;
    (void)value;
    return CUDA_CALL(
        cuMemPoolSetAttribute, SIM_NEEDS_START, pool == only_pool ? SIM_OK : SIM_INVALID_VALUE);
}

mbr_cuda_result cuMemPoolTrimTo(mbr_cuda_pool pool, size_t keep_bytes)
{
    (void)keep_bytes;
    return CUDA_CALL(
        cuMemPoolTrimTo, SIM_NEEDS_START, pool == only_pool ? SIM_OK : SIM_INVALID_VALUE);
}
