/* The mechanisms as a whole: which there are, opening and closing one, and a thread's way into its
 * context and back. Never touches memory. */
#include "abi/base/error.h"
#include "plugins/cuda/core.h"

#include <inttypes.h>

/* ---- A thread inside ------------------------------------------------------------------------ */

/* Makes the context current; false where it is already. */
static mbr_cuda_result push(const mbr_instance *instance, bool *is_pushed)
{
    const struct mbr_cuda_functions *call = &instance->driver->call;
    mbr_cuda_context current = NULL, popped;
    *is_pushed = false;
    mbr_cuda_result result = call->context_current(&current);
    if (result != MBR_CUDA_SUCCESS || current == instance->context)
        return result;
    result = call->context_push(instance->context);
    *is_pushed = result == MBR_CUDA_SUCCESS;
    if (!*is_pushed && call->context_current(&current) == MBR_CUDA_SUCCESS &&
        current == instance->context) /* it failed after its effect */
        (void)call->context_pop(&popped);
    return result;
}

/* Below what was pushed is another context: while the instance's is current, nothing was popped. */
static void pop(const mbr_instance *instance, bool is_pushed)
{
    const struct mbr_cuda_functions *call = &instance->driver->call;
    mbr_cuda_context current = NULL, popped;
    if (is_pushed && call->context_pop(&popped) != MBR_CUDA_SUCCESS &&
        call->context_current(&current) == MBR_CUDA_SUCCESS && current == instance->context)
        (void)call->context_pop(&popped);
}

mbr_status mbr_cuda_relax(const struct mbr_cuda_driver *driver, uint32_t *mode, mbr_error *error)
{
    *mode = MBR_CUDA_CAPTURE_MODE_RELAXED;
    mbr_cuda_result result = driver->call.exchange_capture_mode(mode);
    if (result != MBR_CUDA_SUCCESS && *mode != MBR_CUDA_CAPTURE_MODE_RELAXED)
        mbr_cuda_unrelax(driver, *mode); /* it failed after its effect */
    return mbr_cuda_answer(driver, result, "cuThreadExchangeStreamCaptureMode", 0, error);
}

/* A second attempt is right whether the first had its effect or not. */
void mbr_cuda_unrelax(const struct mbr_cuda_driver *driver, uint32_t mode)
{
    uint32_t given = mode;
    if (driver->call.exchange_capture_mode(&given) == MBR_CUDA_SUCCESS)
        return;
    given = mode;
    (void)driver->call.exchange_capture_mode(&given);
}

mbr_status mbr_cuda_enter(
    const mbr_instance *instance, struct mbr_cuda_scope *scope, mbr_error *error)
{
    const struct mbr_cuda_driver *driver = instance->driver;
    mbr_status status =
        mbr_cuda_answer(driver, push(instance, &scope->is_pushed), "cuCtxPushCurrent_v2", 0, error);
    if (status != MBR_OK)
        return status;
    status = mbr_cuda_relax(driver, &scope->capture_mode, error);
    if (status != MBR_OK)
        pop(instance, scope->is_pushed);
    return status;
}

mbr_status mbr_cuda_leave(const mbr_instance *instance, const struct mbr_cuda_scope *scope,
    mbr_cuda_result result, const char *call, uint64_t bytes, mbr_error *error)
{
    mbr_cuda_unrelax(instance->driver, scope->capture_mode);
    pop(instance, scope->is_pushed);
    return mbr_cuda_answer(instance->driver, result, call, bytes, error);
}

/* ---- open ----------------------------------------------------------------------------------- */

static mbr_status slot_mechanisms(mbr_instance *none, const mbr_mechanisms_request *request,
    mbr_mechanism_description *outcome, mbr_error *error)
{
    const struct mbr_cuda_driver *driver;
    mbr_error cause = {MBR_SIZED(mbr_error)};
    (void)none;
    mbr_status missing = mbr_cuda_driver_get(&driver, &cause);
    mbr_status status = mbr_answer_mechanisms(driver ? driver->described : NULL,
        driver ? driver->described_count : 0, request, outcome, error);
    if (status != MBR_OUT_OF_RANGE || missing == MBR_OK)
        return status;
    mbr_error_copy(error, &cause);
    return missing;
}

/* The context that the caller named, which must be of this device, or the device's primary one. */
static mbr_status take_context(mbr_instance *instance, mbr_native native, mbr_error *error)
{
    const struct mbr_cuda_driver *driver = instance->driver;
    mbr_cuda_device device = -1;
    bool is_pushed;
    if (native.kind == MBR_NATIVE_STREAM_NONE) {
        mbr_status status = mbr_cuda_answer(driver,
            driver->call.primary_retain(&instance->context, instance->device),
            "cuDevicePrimaryCtxRetain", 0, error);
        instance->is_retained = instance->context != NULL; /* also where it failed after that */
        return status;
    }
    instance->context = (mbr_cuda_context)(uintptr_t)native.value;
    if (instance->context && push(instance, &is_pushed) == MBR_CUDA_SUCCESS) {
        if (driver->call.context_device(&device) != MBR_CUDA_SUCCESS)
            device = -1;
        pop(instance, is_pushed);
    }
    if (device == instance->device)
        return MBR_OK;
    return mbr_fail(error, MBR_INVALID_ARGUMENT,
        "native context 0x%" PRIx64 " is none of device %d; kind 0 takes the primary one",
        native.value, instance->device);
}

static void give_context(mbr_instance *instance)
{
    if (instance->is_retained)
        (void)instance->driver->call.primary_release(instance->device);
}

static void prepare(mbr_instance *instance, const struct mbr_cuda_driver *driver, uint32_t index)
{
    const mbr_mechanism_description *described = &driver->described[index];
    struct mbr_objects *objects = &instance->objects;
    instance->driver = driver;
    instance->domain = described->domain;
    objects->allocation_unit_bytes = 256; /* what the driver promises of an address */
    objects->allocation_port = &mbr_cuda_allocation_port;
    objects->line_port = &mbr_cuda_line_port;
    objects->transfer_port = &mbr_cuda_transfer_port;
    objects->device_count = driver->device_count;
    objects->device_index = described->device_index;
    if (described->domain == MBR_DOMAIN_DEVICE && driver->has_virtual[described->device_index]) {
        objects->port = &mbr_cuda_space_port;
        objects->handle_port = &mbr_cuda_handle_port;
    }
}

static mbr_status start(mbr_instance *instance, mbr_native native, mbr_error *error)
{
    const struct mbr_cuda_driver *driver = instance->driver;
    mbr_status status = mbr_cuda_answer(driver,
        driver->call.device_get(&instance->device, (int)instance->objects.device_index),
        "cuDeviceGet", 0, error);
    if (status == MBR_OK)
        status = take_context(instance, native, error);
    if (status == MBR_OK && instance->objects.port)
        status = mbr_cuda_read_granules(instance, error);
    if (status != MBR_OK)
        give_context(instance);
    return status;
}

static mbr_status slot_open(
    mbr_instance *none, const mbr_open_request *raw, mbr_open_outcome *outcome, mbr_error *error)
{
    const struct mbr_cuda_driver *driver;
    mbr_open_request request;
    uint32_t index;
    (void)none;
    mbr_status status = mbr_cuda_driver_get(&driver, error);
    if (status != MBR_OK) {
        if (outcome && MBR_HAS(mbr_open_outcome, outcome, instance))
            outcome->instance = NULL;
        return status;
    }
    const struct mbr_answer_opening opening = {
        driver->described, NULL, driver->described_count, 0, MBR_NATIVE_STREAM_CUDA};
    status = mbr_answer_open(&opening, raw, outcome, &index, error);
    if (status != MBR_OK)
        return status;
    (void)mbr_answer_read(&request, sizeof request, raw);
    mbr_instance *instance = mbr_heap_allocate(&mbr_heap_libc, sizeof(*instance));
    if (!instance)
        return mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no heap for an instance");
    prepare(instance, driver, index);
    status = start(instance, request.native_context, error);
    if (status != MBR_OK) {
        mbr_heap_release(&mbr_heap_libc, instance);
        return status;
    }
    mbr_objects_init(&instance->objects, &mbr_heap_libc);
    outcome->instance = instance;
    return MBR_OK;
}

/* ---- The plugin's table --------------------------------------------------------------------- */

static mbr_status capability(mbr_instance *instance, const mbr_capability_request *request,
    mbr_capability_outcome *answer, mbr_error *error)
{
    const struct mbr_answer_table tables[] = {
        {MBR_ID_ALLOCATOR, &mbr_cuda_allocator},
        {MBR_ID_ORDER, &mbr_cuda_order},
        {MBR_ID_TRANSFER, &mbr_cuda_transfer},
        {MBR_ID_VIRTUAL, &mbr_cuda_virtual},
        {MBR_ID_SHARED, &mbr_cuda_shared},
    };
    return mbr_answer_capability(tables, instance->objects.port ? 5 : 3, request, answer, error);
}

static mbr_status close_instance(
    mbr_instance *instance, const mbr_close_request *request, mbr_outcome *answer, mbr_error *error)
{
    (void)answer;
    mbr_status status = mbr_objects_check_close(&instance->objects, request, error);
    if (status != MBR_OK)
        return status;
    mbr_lines_finish(instance);
    mbr_objects_finish(&instance->objects);
    give_context(instance);
    mbr_heap_release(&mbr_heap_libc, instance);
    return MBR_OK;
}

MBR_ANSWER_TELL(static, slot_capability, capability, mbr_capability_request, mbr_capability_outcome)
MBR_ANSWER_CHANGE(static, slot_close, close_instance, mbr_close_request)

const mbr_plugin_vtable mbr_cuda_plugin = {
    MBR_SIZED(mbr_plugin_vtable),
    .kind = MBR_KIND_PLUGIN,
    .minor = MBR_MINOR_0,
    .name = "cuda",
    .version = "1.0",
    .mechanisms = slot_mechanisms,
    .open = slot_open,
    .capability = slot_capability,
    .close = slot_close,
    .report = mbr_objects_slot_report,
    .quiesce = mbr_line_slot_quiesce,
};
