/* The HIP front end: start, devices, the current one. Turns arguments and answers round; decides
 * nothing. */
#include "tests/standin/hip.h"

#define ON_DEVICES SIM_NEEDS_START

/* ---- The current device --------------------------------------------------------------------- */

static int use(int ordinal)
{
    struct sim_device *device = sim_device(ordinal);
    if (!device)
        return SIM_INVALID_DEVICE;
    device->context.is_active = true;
    return sim_set_current(&device->context);
}

void hip_begin(void)
{
    if (__atomic_load_n(&sim.owner, __ATOMIC_RELAXED) != SIM_THIS_PROCESS)
        return; /* not started, or a forked child, which may not even take the lock */
    pthread_mutex_lock(&sim_lock);
    if (sim.is_started && !sim_current())
        (void)use(0);
    pthread_mutex_unlock(&sim_lock);
}

mbr_hip_result hipSetDevice(mbr_gpu_device device)
{
    return HIP_CALL(hipSetDevice, ON_DEVICES, use(device));
}

static int current(mbr_gpu_device *device)
{
    if (!device)
        return SIM_INVALID_VALUE;
    *device = (mbr_gpu_device)sim_current()->device;
    return SIM_OK;
}

mbr_hip_result hipGetDevice(mbr_gpu_device *device)
{
    return HIP_CALL(hipGetDevice, ON_DEVICES, current(device));
}

/* ---- Start and devices ---------------------------------------------------------------------- */

mbr_hip_result hipInit(unsigned flags)
{
    return HIP_CALL(hipInit, SIM_IS_START, sim_start(flags));
}

static int version(int *told)
{
    if (!told)
        return SIM_INVALID_VALUE;
    *told = sim.options.hip_version;
    return SIM_OK;
}

mbr_hip_result hipRuntimeGetVersion(int *told)
{
    return HIP_CALL(hipRuntimeGetVersion, SIM_NEEDS_NOTHING, version(told));
}

/* It says "no device" where others say "invalid device". */
static int count(int *told)
{
    int status = front_count(told);
    return status == SIM_OK && *told == 0 ? SIM_RAW + MBR_HIP_NO_DEVICE : status;
}

mbr_hip_result hipGetDeviceCount(int *told)
{
    return HIP_CALL(hipGetDeviceCount, SIM_NEEDS_NOTHING, count(told));
}

mbr_hip_result hipDeviceGet(mbr_gpu_device *device, int ordinal)
{
    return HIP_CALL(hipDeviceGet, ON_DEVICES, front_get(device, ordinal));
}

static int attribute(int *value, uint32_t which, int device)
{
    int status = front_check(value, device);
    if (status != SIM_OK)
        return status;
    switch (which) {
    case MBR_HIP_HAS_VIRTUAL_MEMORY:
        *value = !sim.options.has_no_virtual_memory;
        return SIM_OK;
    case MBR_HIP_HAS_MANAGED_MEMORY:
    case MBR_HIP_HAS_CONCURRENT_MANAGED_ACCESS:
        *value = !sim.options.has_no_managed_memory;
        return SIM_OK;
    case MBR_HIP_PROCESSORS:
    case MBR_HIP_HAS_UNIFIED_ADDRESSING:
    case MBR_HIP_HAS_POOLS:
        *value = 1;
        return SIM_OK;
    default:
        return SIM_INVALID_VALUE;
    }
}

mbr_hip_result hipDeviceGetAttribute(int *value, uint32_t which, mbr_gpu_device device)
{
    return HIP_CALL(hipDeviceGetAttribute, ON_DEVICES, attribute(value, which, device));
}

mbr_hip_result hipDeviceGetName(char *name, int room, mbr_gpu_device device)
{
    return HIP_CALL(hipDeviceGetName, ON_DEVICES, front_name(name, room, device));
}

mbr_hip_result hipDeviceGetUuid(struct mbr_gpu_uuid *uuid, mbr_gpu_device device)
{
    return HIP_CALL(hipDeviceGetUuid, ON_DEVICES, front_uuid(uuid, device));
}

mbr_hip_result hipDeviceGetPCIBusId(char *text, int room, mbr_gpu_device device)
{
    return HIP_CALL(hipDeviceGetPCIBusId, ON_DEVICES, front_pci(text, room, device));
}

mbr_hip_result hipDeviceTotalMem(size_t *bytes, mbr_gpu_device device)
{
    return HIP_CALL(hipDeviceTotalMem, ON_DEVICES, front_total(bytes, device));
}
