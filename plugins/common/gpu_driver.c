/* A GPU's driver as the process sees it: opened once, its devices described, its results given a
 * status. Never makes a context, never closes the library: drivers do not bear it. */
#include "abi/base/assert.h"
#include "abi/base/error.h"
#include "plugins/common/gpu.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- Results -------------------------------------------------------------------------------- */

static mbr_status status_of(const struct mbr_gpu_class *classes, mbr_gpu_result result)
{
    for (; classes->result != MBR_GPU_SUCCESS; classes++)
        if (classes->result == result)
            return classes->status;
    return MBR_SYSTEM;
}

mbr_status mbr_gpu_answer(const struct mbr_gpu_driver *driver, mbr_gpu_result result,
    const char *call, uint64_t bytes, mbr_error *error)
{
    const char *code = NULL, *meaning = NULL;
    char size[32] = "";
    if (result == MBR_GPU_SUCCESS)
        return MBR_OK;
    driver->backend->tell(result, &code, &meaning);
    if (bytes != 0)
        snprintf(size, sizeof size, " of %" PRIu64 " bytes", bytes);
    mbr_status status = status_of(driver->backend->classes, result);
    mbr_fail_native(error, status, driver->backend->native_domain, result, "%s%s: %s (%u), %s",
        call, size, code ? code : "an unknown result", result, meaning ? meaning : "no text");
    if (error && MBR_HAS(mbr_error, error, asked_bytes))
        error->asked_bytes = bytes;
    return status;
}

mbr_status mbr_gpu_rename(mbr_status status, mbr_error *error)
{
    if (error && MBR_HAS(mbr_error, error, status))
        error->status = status;
    return status;
}

/* ---- Devices -------------------------------------------------------------------------------- */

static void describe_as(struct mbr_gpu_driver *driver, const mbr_mechanism_description *device,
    const char *prefix, const char *words, uint32_t domain, uint32_t tier)
{
    mbr_mechanism_description *it = &driver->described[driver->described_count++];
    *it = *device;
    it->domain = domain;
    it->tier = tier;
    snprintf(it->name, sizeof it->name, "%s%u", prefix, device->device_index);
    snprintf(it->description, sizeof it->description, "%.60s, %s", device->description, words);
}

static mbr_gpu_result has_attribute(
    const struct mbr_gpu_driver *driver, uint32_t attribute, mbr_gpu_device device, bool *has)
{
    int value = 0;
    mbr_gpu_result result = driver->call.device_attribute(&value, attribute, device);
    *has = value == 1;
    return result;
}

/* Asks for one device without making a context on it. */
static mbr_gpu_result describe(struct mbr_gpu_driver *driver, uint32_t index)
{
    const struct mbr_gpu_calls *call = &driver->call;
    const struct mbr_gpu_backend *backend = driver->backend;
    mbr_mechanism_description device = {.device_index = index};
    struct mbr_gpu_uuid uuid;
    mbr_gpu_device ordinal;
    size_t total_bytes;
    bool has_virtual = false, has_unified = false;
    mbr_gpu_result result = call->device_get(&ordinal, (int)index);
    if (result == MBR_GPU_SUCCESS)
        result = call->device_name(device.description, sizeof device.description, ordinal);
    if (result == MBR_GPU_SUCCESS)
        result = call->device_pci(device.pci, sizeof device.pci, ordinal);
    if (result == MBR_GPU_SUCCESS)
        result = call->device_uuid(&uuid, ordinal);
    if (result == MBR_GPU_SUCCESS)
        result = call->device_total(&total_bytes, ordinal);
    if (result == MBR_GPU_SUCCESS && !driver->has_no_virtual)
        result = has_attribute(driver, backend->virtual_attribute, ordinal, &has_virtual);
    if (result == MBR_GPU_SUCCESS)
        result = has_attribute(driver, backend->unified_attribute, ordinal, &has_unified);
    if (result != MBR_GPU_SUCCESS)
        return result;
    memcpy(device.uuid, uuid.bytes, sizeof device.uuid);
    driver->total_bytes[index] = total_bytes;
    driver->has_virtual[index] = has_virtual;
    describe_as(driver, &device, "device", "its own memory", MBR_DOMAIN_DEVICE, MBR_TIER_DEVICE);
    describe_as(
        driver, &device, "pinned", "host memory that it reaches", MBR_DOMAIN_PINNED, MBR_TIER_HOST);
    if (has_unified)
        describe_as(driver, &device, "unified", "memory that moves between it and the host",
            MBR_DOMAIN_UNIFIED, MBR_TIER_DEVICE);
    return MBR_GPU_SUCCESS;
}

static mbr_status find_devices(struct mbr_gpu_driver *driver, mbr_error *error)
{
    int count = 0;
    char name[64];
    mbr_status status = mbr_gpu_answer(
        driver, driver->call.device_count(&count), driver->name.device_count, 0, error);
    if (status == MBR_OK && count <= 0)
        status =
            mbr_fail(error, MBR_NO_DEVICE, "the %s driver sees no device", driver->backend->vendor);
    snprintf(name, sizeof name, "%s or a like call", driver->name.device_attribute);
    for (int i = 0; i < count && i < MBR_GPU_DEVICE_LIMIT && status == MBR_OK; i++) {
        driver->device_count++;
        status = mbr_gpu_answer(driver, describe(driver, (uint32_t)i), name, 0, error);
    }
    return status;
}

/* ---- Once ----------------------------------------------------------------------------------- */

static struct {
    pthread_mutex_t lock;
    bool is_made;
    struct mbr_gpu_driver driver;
} once = {.lock = PTHREAD_MUTEX_INITIALIZER};

mbr_status mbr_gpu_driver_get(
    const struct mbr_gpu_backend *backend, const struct mbr_gpu_driver **driver, mbr_error *error)
{
    mbr_status status = MBR_OK;
    *driver = NULL;
    MBR_CHECK(pthread_mutex_lock(&once.lock) == 0);
    if (!once.is_made) {
        memset(&once.driver, 0, sizeof once.driver);
        once.driver.backend = backend;
        status = backend->load(&once.driver, error);
        if (status == MBR_OK)
            status = find_devices(&once.driver, error);
        once.is_made = status == MBR_OK;
    }
    MBR_CHECK(pthread_mutex_unlock(&once.lock) == 0);
    if (status == MBR_OK)
        *driver = &once.driver;
    return status;
}
