/* The driver's library: opening it, finding its functions, asking for its devices, and what its
 * results mean. Never makes a context, never closes the library: drivers do not bear it. */
#include "abi/base/assert.h"
#include "abi/base/error.h"
#include "plugins/cuda/core.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- Results -------------------------------------------------------------------------------- */

static mbr_status status_of(mbr_cuda_result result)
{
    switch (result) {
    case MBR_CUDA_SUCCESS:
        return MBR_OK;
    case MBR_CUDA_OUT_OF_MEMORY:
        return MBR_OUT_OF_MEMORY;
    case MBR_CUDA_INVALID_HANDLE: /* the caller's stream */
        return MBR_INVALID_ARGUMENT;
    case MBR_CUDA_STUB_LIBRARY:
    case MBR_CUDA_NO_DEVICE:
        return MBR_NO_DEVICE;
    case MBR_CUDA_INVALID_DEVICE: /* of a list of accesses: a peer that cannot reach the memory */
    case MBR_CUDA_NOT_SUPPORTED:
    case MBR_CUDA_SYSTEM_DRIVER_MISMATCH:
    case MBR_CUDA_COMPAT_NOT_SUPPORTED:
        return MBR_UNSUPPORTED;
    case MBR_CUDA_NOT_READY:
    case MBR_CUDA_SYSTEM_NOT_READY:
        return MBR_NOT_READY;
    case MBR_CUDA_DEVICE_UNAVAILABLE:
    case MBR_CUDA_CAPTURE_UNSUPPORTED:
    case MBR_CUDA_CAPTURE_INVALIDATED:
    case MBR_CUDA_CAPTURE_UNMATCHED:
    case MBR_CUDA_CAPTURE_ISOLATION:
    case MBR_CUDA_CAPTURE_IMPLICIT:
    case MBR_CUDA_CAPTURED_EVENT:
    case MBR_CUDA_CAPTURE_WRONG_THREAD:
        return MBR_BUSY;
    /* Sticky: every later call that looks at the context answers the same, until the process
     * ends. A context that is gone is the same to its user. */
    case MBR_CUDA_DEINITIALIZED:
    case MBR_CUDA_INVALID_CONTEXT:
    case MBR_CUDA_CONTEXT_IS_DESTROYED:
    case MBR_CUDA_ECC_UNCORRECTABLE:
    case MBR_CUDA_NVLINK_UNCORRECTABLE:
    case MBR_CUDA_CONTAINED:
    case MBR_CUDA_ILLEGAL_ADDRESS:
    case MBR_CUDA_LAUNCH_TIMEOUT:
    case MBR_CUDA_ASSERT_TRIGGERED:
    case MBR_CUDA_HARDWARE_STACK_ERROR:
    case MBR_CUDA_ILLEGAL_INSTRUCTION:
    case MBR_CUDA_MISALIGNED_ADDRESS:
    case MBR_CUDA_INVALID_ADDRESS_SPACE:
    case MBR_CUDA_INVALID_PC:
    case MBR_CUDA_LAUNCH_FAILED:
    case MBR_CUDA_TENSOR_MEMORY_LEAK:
    case MBR_CUDA_MPS_CLIENT_TERMINATED:
    case MBR_CUDA_EXTERNAL_DEVICE:
        return MBR_DEVICE_LOST;
    default:
        return MBR_SYSTEM;
    }
}

static mbr_status fail(const struct mbr_cuda_functions *call, mbr_cuda_result result,
    const char *name, uint64_t bytes, mbr_error *error)
{
    const char *code = NULL, *meaning = NULL;
    char size[32] = "";
    if (call->error_name(result, &code) != MBR_CUDA_SUCCESS || !code)
        code = "an unknown result";
    if (call->error_string(result, &meaning) != MBR_CUDA_SUCCESS || !meaning)
        meaning = "no text";
    if (bytes != 0)
        snprintf(size, sizeof size, " of %" PRIu64 " bytes", bytes);
    mbr_status status = status_of(result);
    mbr_fail_native(error, status, MBR_NATIVE_CUDA, result, "%s%s: %s (%u), %s", name, size, code,
        result, meaning);
    if (error && MBR_HAS(mbr_error, error, asked_bytes))
        error->asked_bytes = bytes;
    return status;
}

mbr_status mbr_cuda_answer(const struct mbr_cuda_driver *driver, mbr_cuda_result result,
    const char *call, uint64_t bytes, mbr_error *error)
{
    return result == MBR_CUDA_SUCCESS ? MBR_OK : fail(&driver->call, result, call, bytes, error);
}

mbr_status mbr_cuda_rename(mbr_status status, mbr_error *error)
{
    if (error && MBR_HAS(mbr_error, error, status))
        error->status = status;
    return status;
}

/* ---- Functions ------------------------------------------------------------------------------ */

/* The name of the first function that the library lacks, or NULL. */
static const char *find_functions(void *library, struct mbr_cuda_functions *call)
{
    const char *missing = NULL;
    void *found;
#define FIND(member, exported, parameters)                                                         \
    found = dlsym(library, #exported);                                                             \
    memcpy(&call->member, &found, sizeof found);                                                   \
    if (!found && !missing)                                                                        \
        missing = #exported;
    MBR_CUDA_FUNCTIONS(FIND)
#undef FIND
    return missing;
}

/* A driver that is too old lacks functions: its version says more than the first one's name. */
static mbr_status check_functions(
    const struct mbr_cuda_functions *call, const char *missing, mbr_error *error)
{
    int version = 0;
    if (!call->driver_version || call->driver_version(&version) != MBR_CUDA_SUCCESS)
        version = 0;
    if (version != 0 && version < MBR_CUDA_VERSION_MIN)
        return mbr_fail(error, MBR_UNSUPPORTED,
            "the driver behind " MBR_CUDA_LIBRARY " is for CUDA %d.%d; %d.%d or later is needed",
            version / 1000, version % 1000 / 10, MBR_CUDA_VERSION_MIN / 1000,
            MBR_CUDA_VERSION_MIN % 1000 / 10);
    if (missing)
        return mbr_fail(error, MBR_UNSUPPORTED,
            MBR_CUDA_LIBRARY " lacks %s; a driver for CUDA %d.%d or later has it", missing,
            MBR_CUDA_VERSION_MIN / 1000, MBR_CUDA_VERSION_MIN % 1000 / 10);
    return MBR_OK;
}

static mbr_status open_library(struct mbr_cuda_functions *call, mbr_error *error)
{
    void *library = dlopen(MBR_CUDA_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        const char *reason = dlerror();
        return mbr_fail(error, MBR_NO_DEVICE, "no CUDA driver is installed: %s",
            reason ? reason : MBR_CUDA_LIBRARY " does not open");
    }
    return check_functions(call, find_functions(library, call), error);
}

/* ---- Devices -------------------------------------------------------------------------------- */

static void describe_as(struct mbr_cuda_driver *driver, const mbr_mechanism_description *device,
    const char *prefix, const char *words, uint32_t domain, uint32_t tier)
{
    mbr_mechanism_description *it = &driver->described[driver->described_count++];
    *it = *device;
    it->domain = domain;
    it->tier = tier;
    snprintf(it->name, sizeof it->name, "%s%u", prefix, device->device_index);
    snprintf(it->description, sizeof it->description, "%.60s, %s", device->description, words);
}

static mbr_cuda_result has_attribute(
    const struct mbr_cuda_driver *driver, uint32_t attribute, mbr_cuda_device device, bool *has)
{
    int value = 0;
    mbr_cuda_result result = driver->call.device_attribute(&value, attribute, device);
    *has = value == 1;
    return result;
}

/* Asks for one device without making a context on it. */
static mbr_cuda_result describe(struct mbr_cuda_driver *driver, uint32_t index)
{
    const struct mbr_cuda_functions *call = &driver->call;
    mbr_mechanism_description device = {.device_index = index};
    struct mbr_cuda_uuid uuid;
    mbr_cuda_device ordinal;
    size_t total_bytes;
    bool has_unified = false;
    mbr_cuda_result result = call->device_get(&ordinal, (int)index);
    if (result == MBR_CUDA_SUCCESS)
        result = call->device_name(device.description, sizeof device.description, ordinal);
    if (result == MBR_CUDA_SUCCESS)
        result = call->device_pci(device.pci, sizeof device.pci, ordinal);
    if (result == MBR_CUDA_SUCCESS)
        result = call->device_uuid(&uuid, ordinal);
    if (result == MBR_CUDA_SUCCESS)
        result = call->device_total(&total_bytes, ordinal);
    if (result == MBR_CUDA_SUCCESS)
        result = has_attribute(
            driver, MBR_CUDA_HAS_VIRTUAL_MEMORY, ordinal, &driver->has_virtual[index]);
    if (result == MBR_CUDA_SUCCESS)
        result =
            has_attribute(driver, MBR_CUDA_HAS_CONCURRENT_MANAGED_ACCESS, ordinal, &has_unified);
    if (result != MBR_CUDA_SUCCESS)
        return result;
    memcpy(device.uuid, uuid.bytes, sizeof device.uuid);
    driver->total_bytes[index] = total_bytes;
    describe_as(driver, &device, "device", "its own memory", MBR_DOMAIN_DEVICE, MBR_TIER_DEVICE);
    describe_as(
        driver, &device, "pinned", "host memory that it reaches", MBR_DOMAIN_PINNED, MBR_TIER_HOST);
    if (has_unified)
        describe_as(driver, &device, "unified", "memory that moves between it and the host",
            MBR_DOMAIN_UNIFIED, MBR_TIER_DEVICE);
    return MBR_CUDA_SUCCESS;
}

static mbr_status find_devices(struct mbr_cuda_driver *driver, mbr_error *error)
{
    int count = 0;
    mbr_status status = mbr_cuda_answer(driver, driver->call.init(0), "cuInit", 0, error);
    if (status == MBR_OK)
        status = mbr_cuda_answer(
            driver, driver->call.device_count(&count), "cuDeviceGetCount", 0, error);
    if (status == MBR_OK && count <= 0)
        status = mbr_fail(error, MBR_NO_DEVICE, "the CUDA driver sees no device");
    for (int i = 0; i < count && i < MBR_CUDA_DEVICE_LIMIT && status == MBR_OK; i++) {
        driver->device_count++;
        status = mbr_cuda_answer(
            driver, describe(driver, (uint32_t)i), "cuDeviceGetAttribute or a like call", 0, error);
    }
    return status;
}

/* ---- Once ----------------------------------------------------------------------------------- */

static struct {
    pthread_mutex_t lock;
    bool is_made;
    struct mbr_cuda_driver driver;
} once = {.lock = PTHREAD_MUTEX_INITIALIZER};

mbr_status mbr_cuda_driver_get(const struct mbr_cuda_driver **driver, mbr_error *error)
{
    mbr_status status = MBR_OK;
    *driver = NULL;
    MBR_CHECK(pthread_mutex_lock(&once.lock) == 0);
    if (!once.is_made) {
        memset(&once.driver, 0, sizeof once.driver);
        status = open_library(&once.driver.call, error);
        if (status == MBR_OK)
            status = find_devices(&once.driver, error);
        once.is_made = status == MBR_OK;
    }
    MBR_CHECK(pthread_mutex_unlock(&once.lock) == 0);
    if (status == MBR_OK)
        *driver = &once.driver;
    return status;
}
