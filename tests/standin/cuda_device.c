/* The CUDA front end: start, devices, contexts. Turns arguments and answers round; decides nothing.
 */
#include "tests/standin/cuda.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define VERSION 12040
#define ON_DEVICES SIM_NEEDS_START

mbr_cuda_result cuInit(unsigned flags)
{
    return CUDA_CALL(cuInit, SIM_IS_START, sim_start(flags));
}

static int version(int *told)
{
    if (!told)
        return SIM_INVALID_VALUE;
    *told = VERSION;
    return SIM_OK;
}

mbr_cuda_result cuDriverGetVersion(int *told)
{
    return CUDA_CALL(cuDriverGetVersion, SIM_NEEDS_NOTHING, version(told));
}

mbr_cuda_result cuDeviceGetCount(int *told)
{
    return CUDA_CALL(cuDeviceGetCount, ON_DEVICES, front_count(told));
}

mbr_cuda_result cuDeviceGet(mbr_cuda_device *device, int ordinal)
{
    return CUDA_CALL(cuDeviceGet, ON_DEVICES, front_get(device, ordinal));
}

/* ---- Attributes ---- */

static int attribute_value(uint32_t attribute, int device)
{
    switch (attribute) {
    case STANDIN_ATTRIBUTE_MAX_THREADS:
        return CUDA_BLOCK_MAX_THREADS;
    case STANDIN_ATTRIBUTE_WARP:
        return 32;
    case STANDIN_ATTRIBUTE_PROCESSORS:
        return 1;
    case STANDIN_ATTRIBUTE_PCI_BUS:
        return device + 1;
    case MBR_CUDA_CAPABILITY_MAJOR:
        return 9;
    case MBR_CUDA_HAS_UNIFIED_ADDRESSING:
    case STANDIN_ATTRIBUTE_MAP_HOST:
    case STANDIN_ATTRIBUTE_POOLS:
        return 1;
    case MBR_CUDA_HAS_VIRTUAL_MEMORY:
        return !sim.options.has_no_virtual_memory;
    case MBR_CUDA_HAS_MANAGED_MEMORY:
    case MBR_CUDA_HAS_CONCURRENT_MANAGED_ACCESS:
        return !sim.options.has_no_managed_memory;
    case MBR_CUDA_HAS_POSIX_EXPORT:
        return sim.options.can_export;
    default:
        return 0;
    }
}

#define ATTRIBUTE_LAST 148

static int attribute(int *value, uint32_t which, int device)
{
    int status = front_check(value, device);
    if (status != SIM_OK)
        return status;
    if (which == 0 || which > ATTRIBUTE_LAST)
        return SIM_INVALID_VALUE;
    *value = attribute_value(which, device);
    return SIM_OK;
}

mbr_cuda_result cuDeviceGetAttribute(int *value, uint32_t which, mbr_cuda_device device)
{
    return CUDA_CALL(cuDeviceGetAttribute, ON_DEVICES, attribute(value, which, device));
}

mbr_cuda_result cuDeviceGetName(char *text, int room, mbr_cuda_device device)
{
    return CUDA_CALL(cuDeviceGetName, ON_DEVICES, front_name(text, room, device));
}

mbr_cuda_result cuDeviceGetUuid_v2(struct mbr_cuda_uuid *told, mbr_cuda_device device)
{
    return CUDA_CALL(cuDeviceGetUuid_v2, ON_DEVICES, front_uuid(told, device));
}

mbr_cuda_result cuDeviceGetPCIBusId(char *text, int room, mbr_cuda_device device)
{
    return CUDA_CALL(cuDeviceGetPCIBusId, ON_DEVICES, front_pci(text, room, device));
}

static int by_pci(mbr_cuda_device *device, const char *text)
{
    if (!device || !text)
        return SIM_INVALID_VALUE;
    for (uint32_t i = 0; i < sim.options.device_count; i++) {
        char own[32];
        front_pci(own, sizeof own, (int)i);
        if (strcasecmp(own, text) != 0)
            continue;
        *device = (mbr_cuda_device)i;
        return SIM_OK;
    }
    return SIM_INVALID_DEVICE;
}

mbr_cuda_result cuDeviceGetByPCIBusId(mbr_cuda_device *device, const char *text)
{
    return CUDA_CALL(cuDeviceGetByPCIBusId, ON_DEVICES, by_pci(device, text));
}

mbr_cuda_result cuDeviceTotalMem_v2(size_t *bytes, mbr_cuda_device device)
{
    return CUDA_CALL(cuDeviceTotalMem_v2, ON_DEVICES, front_total(bytes, device));
}

static int peer(int *can, int device, int other)
{
    int status = front_check(can, device);
    if (status != SIM_OK || front_check(can, other) != SIM_OK)
        return status != SIM_OK ? status : SIM_INVALID_DEVICE;
    *can = device != other && !sim.options.has_no_peers;
    return SIM_OK;
}

mbr_cuda_result cuDeviceCanAccessPeer(int *can, mbr_cuda_device device, mbr_cuda_device other)
{
    return CUDA_CALL(cuDeviceCanAccessPeer, ON_DEVICES, peer(can, device, other));
}

/* ---- Contexts ---- */

static struct sim_context *context_of(mbr_cuda_context context)
{
    return (struct sim_context *)context;
}

static int retain(mbr_cuda_context *context, int device)
{
    return context ? sim_retain((struct sim_context **)context, device) : SIM_INVALID_VALUE;
}

mbr_cuda_result cuDevicePrimaryCtxRetain(mbr_cuda_context *context, mbr_cuda_device device)
{
    return CUDA_CALL(cuDevicePrimaryCtxRetain, ON_DEVICES, retain(context, device));
}

mbr_cuda_result cuDevicePrimaryCtxRelease_v2(mbr_cuda_device device)
{
    return CUDA_CALL(cuDevicePrimaryCtxRelease_v2, ON_DEVICES, sim_release(device));
}

mbr_cuda_result cuDevicePrimaryCtxReset_v2(mbr_cuda_device device)
{
    return CUDA_CALL(cuDevicePrimaryCtxReset_v2, ON_DEVICES, sim_reset(device));
}

static int primary_state(int device, unsigned *flags, int *is_active)
{
    int status = front_check(flags, device);
    if (status != SIM_OK || !is_active)
        return status != SIM_OK ? status : SIM_INVALID_VALUE;
    *flags = 0;
    *is_active = sim_device(device)->context.is_active;
    return SIM_OK;
}

mbr_cuda_result cuDevicePrimaryCtxGetState(mbr_cuda_device device, unsigned *flags, int *is_active)
{
    return CUDA_CALL(
        cuDevicePrimaryCtxGetState, ON_DEVICES, primary_state(device, flags, is_active));
}

static int current(mbr_cuda_context *context)
{
    if (!context)
        return SIM_INVALID_VALUE;
    *context = (mbr_cuda_context)sim_current();
    return SIM_OK;
}

mbr_cuda_result cuCtxGetCurrent(mbr_cuda_context *context)
{
    return CUDA_CALL(cuCtxGetCurrent, ON_DEVICES, current(context));
}

mbr_cuda_result cuCtxSetCurrent(mbr_cuda_context context)
{
    return CUDA_CALL(cuCtxSetCurrent, ON_DEVICES, sim_set_current(context_of(context)));
}

mbr_cuda_result cuCtxPushCurrent_v2(mbr_cuda_context context)
{
    return CUDA_CALL(cuCtxPushCurrent_v2, ON_DEVICES, sim_push(context_of(context)));
}

mbr_cuda_result cuCtxPopCurrent_v2(mbr_cuda_context *context)
{
    return CUDA_CALL(cuCtxPopCurrent_v2, ON_DEVICES, sim_pop((struct sim_context **)context));
}

static int current_device(mbr_cuda_device *device)
{
    if (!device)
        return SIM_INVALID_VALUE;
    *device = (mbr_cuda_device)sim_current()->device;
    return SIM_OK;
}

mbr_cuda_result cuCtxGetDevice(mbr_cuda_device *device)
{
    return CUDA_CALL(cuCtxGetDevice, ON_DEVICES | SIM_NEEDS_CONTEXT, current_device(device));
}

mbr_cuda_result cuCtxSynchronize(void)
{
    return CUDA_CALL(cuCtxSynchronize, SIM_NEEDS_LIVE_CONTEXT | SIM_IS_UNSAFE, sim_synchronize());
}

static int priorities(int *least, int *greatest)
{
    if (least)
        *least = 0;
    if (greatest)
        *greatest = -5;
    return SIM_OK;
}

mbr_cuda_result cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    return CUDA_CALL(
        cuCtxGetStreamPriorityRange, SIM_NEEDS_LIVE_CONTEXT, priorities(least, greatest));
}
