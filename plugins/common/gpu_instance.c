/* The mechanisms as a whole: which there are, opening and closing one, and a thread's way to its
 * device and back. Never touches memory. */
#include "abi/base/error.h"
#include "plugins/common/gpu.h"

#define GRANULE_LEAST_BYTES UINT64_C(4096)    /* option granule, lowest */
#define GRANULE_MAX_BYTES (UINT64_C(1) << 30) /* option granule, highest */

/* ---- A thread inside ------------------------------------------------------------------------ */

mbr_status mbr_gpu_relax(const struct mbr_gpu_driver *driver, uint32_t *mode, mbr_error *error)
{
    *mode = MBR_GPU_CAPTURE_MODE_RELAXED;
    mbr_gpu_result result = driver->call.exchange_capture_mode(mode);
    if (result != MBR_GPU_SUCCESS && *mode != MBR_GPU_CAPTURE_MODE_RELAXED)
        mbr_gpu_unrelax(driver, *mode); /* it failed after its effect */
    return mbr_gpu_answer(driver, result, driver->name.exchange_capture_mode, 0, error);
}

/* A second attempt is right whether the first had its effect or not. */
void mbr_gpu_unrelax(const struct mbr_gpu_driver *driver, uint32_t mode)
{
    uint32_t given = mode;
    if (driver->call.exchange_capture_mode(&given) == MBR_GPU_SUCCESS)
        return;
    given = mode;
    (void)driver->call.exchange_capture_mode(&given);
}

mbr_status mbr_gpu_enter(
    const mbr_instance *instance, struct mbr_gpu_scope *scope, mbr_error *error)
{
    const struct mbr_gpu_driver *driver = instance->driver;
    const struct mbr_gpu_backend *backend = driver->backend;
    mbr_status status =
        mbr_gpu_answer(driver, backend->push(instance, scope), backend->push_name, 0, error);
    if (status != MBR_OK)
        return status;
    status = mbr_gpu_relax(driver, &scope->capture_mode, error);
    if (status != MBR_OK)
        backend->pop(instance, scope);
    return status;
}

mbr_status mbr_gpu_leave(const mbr_instance *instance, const struct mbr_gpu_scope *scope,
    mbr_gpu_result result, const char *call, uint64_t bytes, mbr_error *error)
{
    mbr_gpu_unrelax(instance->driver, scope->capture_mode);
    instance->driver->backend->pop(instance, scope);
    return mbr_gpu_answer(instance->driver, result, call, bytes, error);
}

/* ---- open ----------------------------------------------------------------------------------- */

mbr_status mbr_gpu_mechanisms(const struct mbr_gpu_backend *backend,
    const mbr_mechanisms_request *request, mbr_mechanism_description *outcome, mbr_error *error)
{
    const struct mbr_gpu_driver *driver;
    mbr_error cause = {MBR_SIZED(mbr_error)};
    mbr_status missing = mbr_gpu_driver_get(backend, &driver, &cause);
    mbr_status status = mbr_answer_mechanisms(driver ? driver->described : NULL,
        driver ? driver->described_count : 0, request, outcome, error);
    if (status != MBR_OUT_OF_RANGE || missing == MBR_OK)
        return status;
    mbr_error_copy(error, &cause);
    return missing;
}

static void prepare(mbr_instance *instance, const struct mbr_gpu_driver *driver, uint32_t index)
{
    const mbr_mechanism_description *described = &driver->described[index];
    struct mbr_objects *objects = &instance->objects;
    instance->driver = driver;
    instance->domain = described->domain;
    objects->allocation_unit_bytes = 256; /* what drivers promise of an address */
    objects->allocation_port = &mbr_gpu_allocation_port;
    objects->line_port = &mbr_gpu_line_port;
    objects->transfer_port = &mbr_gpu_transfer_port;
    objects->stream_kind = driver->backend->stream_kind;
    objects->unmaps_single_mappings = driver->quirks.unmaps_single_mappings;
    objects->device_count = driver->device_count;
    objects->device_index = described->device_index;
    if (described->domain == MBR_DOMAIN_DEVICE && driver->has_virtual[described->device_index]) {
        objects->port = &mbr_gpu_space_port;
        objects->handle_port = &mbr_gpu_handle_port;
    }
}

static mbr_status start(mbr_instance *instance, mbr_native native, mbr_error *error)
{
    const struct mbr_gpu_driver *driver = instance->driver;
    const struct mbr_gpu_backend *backend = driver->backend;
    mbr_status status = mbr_gpu_answer(driver,
        driver->call.device_get(&instance->device, (int)instance->objects.device_index),
        driver->name.device_get, 0, error);
    if (status != MBR_OK)
        return status;
    status = backend->take(instance, native, error);
    if (status == MBR_OK && instance->objects.port)
        status = mbr_gpu_read_granules(instance, error);
    if (status == MBR_OK && instance->objects.port && backend->probe)
        status = backend->probe(instance, error);
    if (status != MBR_OK)
        backend->give(instance);
    return status;
}

mbr_status mbr_gpu_open(const struct mbr_gpu_backend *backend, const mbr_heap *heap,
    const mbr_open_request *raw, mbr_open_outcome *outcome, mbr_error *error)
{
    const struct mbr_gpu_driver *driver;
    mbr_open_request request;
    uint32_t index;
    mbr_status status = mbr_gpu_driver_get(backend, &driver, error);
    if (status != MBR_OK) {
        if (outcome && MBR_HAS(mbr_open_outcome, outcome, instance))
            outcome->instance = NULL;
        return status;
    }
    /* Where a driver tells too little; somebody who knows its version may know better. */
    uint64_t granule_least_bytes = driver->quirks.granule_least_bytes;
    const struct mbr_answer_option granule = {
        "granule", {NULL, NULL}, GRANULE_LEAST_BYTES, GRANULE_MAX_BYTES, &granule_least_bytes};
    const struct mbr_answer_opening opening = {driver->described, &granule, driver->described_count,
        granule_least_bytes != 0, backend->context_kind};
    status = mbr_answer_open(&opening, raw, outcome, &index, error);
    if (status != MBR_OK)
        return status;
    (void)mbr_answer_read(&request, sizeof request, raw);
    mbr_instance *instance = mbr_heap_allocate(heap, sizeof(*instance));
    if (!instance)
        return mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no heap for an instance");
    prepare(instance, driver, index);
    instance->granule_least_bytes = granule_least_bytes;
    status = start(instance, request.native_context, error);
    if (status != MBR_OK) {
        mbr_heap_release(heap, instance);
        return status;
    }
    mbr_objects_init(&instance->objects, heap);
    outcome->instance = instance;
    return MBR_OK;
}

/* ---- The rest of a plugin's table ----------------------------------------------------------- */

static mbr_status capability(mbr_instance *instance, const mbr_capability_request *request,
    mbr_capability_outcome *answer, mbr_error *error)
{
    const struct mbr_answer_table tables[] = {
        {MBR_ID_ALLOCATOR, &mbr_gpu_allocator},
        {MBR_ID_ORDER, &mbr_gpu_order},
        {MBR_ID_TRANSFER, &mbr_gpu_transfer},
        {MBR_ID_VIRTUAL, &mbr_gpu_virtual},
        {MBR_ID_SHARED, &mbr_gpu_shared},
    };
    bool is_virtual = instance->objects.port != NULL;
    bool is_shared = is_virtual && !instance->has_no_aliasing;
    uint32_t count = 3 + (uint32_t)is_virtual + (uint32_t)is_shared;
    return mbr_answer_capability(tables, count, request, answer, error);
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
    instance->driver->backend->give(instance);
    const mbr_heap heap = instance->objects.heap;
    mbr_heap_release(&heap, instance);
    return MBR_OK;
}

MBR_ANSWER_TELL(
    , mbr_gpu_slot_capability, capability, mbr_capability_request, mbr_capability_outcome)
MBR_ANSWER_CHANGE(, mbr_gpu_slot_close, close_instance, mbr_close_request)
