/* Capability `membrane.allocator`: facts, figures, and allocations, which are the driver's own.
 * Never maps anything. */
#include "abi/base/checked.h"
#include "abi/base/error.h"
#include "abi/base/system_text.h"
#include "plugins/common/gpu.h"

static mbr_status fact(mbr_instance *instance, const mbr_fact_request *request,
    mbr_fact_outcome *answer, mbr_error *error)
{
    const struct mbr_objects *objects = &instance->objects;
    bool is_device = instance->domain == MBR_DOMAIN_DEVICE;
    bool is_unified = instance->domain == MBR_DOMAIN_UNIFIED;
    bool is_virtual = objects->port != NULL;
    const struct mbr_gpu_quirks *quirks = &instance->driver->quirks;
    /* What is not named is 0. Fresh memory is seen to be zero, and nobody promises it. */
    const uint64_t facts[MBR_FACT_QUIRKS + 1] = {
        [MBR_FACT_GRANULE_MIN_BYTES] = objects->granule_bytes,
        [MBR_FACT_GRANULE_RECOMMENDED_BYTES] = instance->granule_recommended_bytes,
        [MBR_FACT_EXTENT_MAX_BYTES] = objects->extent_max_bytes,
        [MBR_FACT_RESERVATION_MAX_BYTES] = mbr_gpu_space_port.reservation_max_bytes,
        [MBR_FACT_ALLOCATION_ALIGN_BYTES] = objects->allocation_unit_bytes,
        [MBR_FACT_ALLOCATION_ROUND_BYTES] = objects->allocation_unit_bytes,
        [MBR_FACT_FRESH_CONTENT] = MBR_CONTENT_UNDEFINED,
        [MBR_FACT_USABLE_AFTER_PROTECT] = is_virtual && !quirks->is_usable_late,
        [MBR_FACT_UNMAP_SPANS_MAPPINGS] = is_virtual && !quirks->unmaps_single_mappings,
        [MBR_FACT_PROTECT_MAY_FAIL_SPURIOUSLY] = is_virtual && quirks->refuses_access_spuriously,
        [MBR_FACT_ALIASING] = is_virtual && !instance->has_no_aliasing,
        [MBR_FACT_READ_ONLY_ENFORCED] = is_virtual && !instance->has_no_read_only,
        [MBR_FACT_PAST_PHYSICAL_SIZE] = is_device ? MBR_PAST_REFUSE
            : is_unified                          ? MBR_PAST_PAGES_SILENTLY
                                                  : MBR_PAST_KILL,
        /* Handles and addresses go back also after a loss; what the driver allocated does not. */
        [MBR_FACT_RELEASABLE_AFTER_LOSS] = is_virtual && !quirks->is_stuck_after_loss,
        [MBR_FACT_HOST_ACCESSIBLE] = !is_device,
        [MBR_FACT_DESCRIPTORS_PER_EXTENT] = is_virtual && instance->takes_descriptors,
        [MBR_FACT_POPULATED] = !is_unified,
        [MBR_FACT_QUIRKS] =
            is_virtual && quirks->wants_own_device_last ? MBR_QUIRK_LOCAL_DEVICE_LAST : 0,
    };
    if (!is_virtual && request->fact <= MBR_FACT_RESERVATION_MAX_BYTES)
        return mbr_fail(
            error, MBR_UNSUPPORTED, "no virtual memory here has fact %u", request->fact);
    return mbr_answer_fact(facts, MBR_FACT_QUIRKS + 1, request, answer, error);
}

/* After a loss the driver tells no figures; then they are unknown, and the books still told. */
static mbr_status stats(mbr_instance *instance, const mbr_stats_request *request,
    mbr_mechanism_stats *answer, mbr_error *error)
{
    size_t free_bytes = 0, total_bytes = 0;
    struct mbr_gpu_scope scope;
    (void)request, (void)error;
    answer->free_bytes = answer->total_bytes = MBR_UNKNOWN_BYTES;
    if (instance->domain == MBR_DOMAIN_PINNED) {
        (void)mbr_system_memory("", &answer->total_bytes, &answer->free_bytes);
    } else if (mbr_gpu_enter(instance, &scope, NULL) == MBR_OK &&
        mbr_gpu_leave(instance, &scope,
            instance->driver->call.memory_info(&free_bytes, &total_bytes),
            instance->driver->name.memory_info, 0, NULL) == MBR_OK) {
        answer->free_bytes = free_bytes;
        answer->total_bytes = total_bytes;
    }
    mbr_objects_tell(&instance->objects, answer);
    return MBR_OK;
}

/* ---- Allocations ---------------------------------------------------------------------------- */

static mbr_status take(
    mbr_instance *instance, struct mbr_object *allocation, uint64_t align_bytes, mbr_error *error)
{
    const struct mbr_gpu_calls *call = &instance->driver->call;
    uint64_t bytes = allocation->bytes + (align_bytes - instance->objects.allocation_unit_bytes);
    mbr_gpu_address address = 0;
    void *host_address = NULL;
    struct mbr_gpu_scope scope;
    mbr_status status = mbr_gpu_enter(instance, &scope, error);
    if (status != MBR_OK)
        return status;
    if (instance->domain == MBR_DOMAIN_DEVICE) {
        status = mbr_gpu_leave(instance, &scope, call->device_allocate(&address, bytes),
            instance->driver->name.device_allocate, bytes, error);
    } else if (instance->domain == MBR_DOMAIN_UNIFIED) {
        status = mbr_gpu_leave(instance, &scope,
            call->managed_allocate(&address, bytes, MBR_GPU_ATTACH_GLOBAL),
            instance->driver->name.managed_allocate, bytes, error);
    } else {
        status = mbr_gpu_leave(instance, &scope,
            call->host_allocate(
                &host_address, bytes, MBR_GPU_HOST_PORTABLE | MBR_GPU_HOST_DEVICE_MAP),
            instance->driver->name.host_allocate, bytes, error);
        address = (uintptr_t)host_address;
    }
    if (address == 0)
        return status;
    /* Also where the call failed after its effect: then the caller gives it back. */
    allocation->outer_address = address;
    allocation->outer_bytes = bytes;
    allocation->address = address + (-address & (align_bytes - 1));
    return status;
}

/* It waits for the device. */
static enum mbr_end give(mbr_instance *instance, struct mbr_object *allocation, mbr_error *error)
{
    const struct mbr_gpu_calls *call = &instance->driver->call;
    uint64_t bytes = allocation->outer_bytes;
    bool is_host = instance->domain == MBR_DOMAIN_PINNED;
    mbr_gpu_address start;
    size_t length;
    struct mbr_gpu_scope scope;
    mbr_status status = mbr_gpu_enter(instance, &scope, error);
    if (status != MBR_OK)
        return MBR_END_THERE;
    mbr_gpu_result result = is_host ? call->host_free((void *)(uintptr_t)allocation->outer_address)
                                    : call->device_free(allocation->outer_address);
    enum mbr_end end = result == MBR_GPU_SUCCESS ? MBR_END_GONE
        : result == MBR_GPU_INVALID_VALUE
        ? MBR_END_THERE
        : mbr_gpu_end_of_look(call->address_range(&start, &length, allocation->outer_address));
    (void)mbr_gpu_leave(instance, &scope, result,
        is_host ? instance->driver->name.host_free : instance->driver->name.device_free, bytes,
        end == MBR_END_GONE ? NULL : error);
    return end;
}

const struct mbr_allocation_port mbr_gpu_allocation_port = {
    .fresh_content = MBR_CONTENT_UNDEFINED,
    .pads_with_memory = true,
    .take = take,
    .give = give,
};

MBR_ANSWER_TELL(static, slot_fact, fact, mbr_fact_request, mbr_fact_outcome)
MBR_ANSWER_TELL(static, slot_stats, stats, mbr_stats_request, mbr_mechanism_stats)
MBR_ANSWER_CHANGE(static, slot_trim, mbr_answer_nothing, mbr_trim_request) /* no cache here */

const mbr_allocator_vtable mbr_gpu_allocator = {
    MBR_SIZED(mbr_allocator_vtable),
    .kind = MBR_KIND_ALLOCATOR,
    .minor = MBR_MINOR_0,
    .fact = slot_fact,
    .allocate = mbr_allocation_slot_allocate,
    .release = mbr_allocation_slot_release,
    .stats = slot_stats,
    .trim = slot_trim,
};
