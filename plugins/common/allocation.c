/* Makes and releases allocations over a plugin's primitives. Never maps one
 * itself. */
#include "plugins/common/allocation.h"

#include "abi/base/error.h"

#include <inttypes.h>

/* Books bytes behind addresses as owned and mapped; refund takes them off. */
static mbr_status claim(mbr_instance *instance, uint64_t bytes, mbr_error *error)
{
    struct mbr_objects *objects = mbr_objects_of(instance);
    mbr_objects_lock(objects);
    const struct mbr_allocation_port *port = objects->allocation_port;
    mbr_status status = port->claim_locked ? port->claim_locked(instance, bytes, error) : MBR_OK;
    if (status == MBR_OK && !port->claim_locked)
        objects->owned_bytes += bytes;
    if (status == MBR_OK)
        objects->mapped_bytes += bytes;
    mbr_objects_unlock(objects);
    return status;
}

static void refund(mbr_instance *instance, uint64_t bytes)
{
    struct mbr_objects *objects = mbr_objects_of(instance);
    mbr_objects_lock(objects);
    objects->owned_bytes -= bytes;
    objects->mapped_bytes -= bytes;
    mbr_objects_unlock(objects);
}

static uint64_t owned_of(const struct mbr_allocation_port *port, const struct mbr_object *it)
{
    return port->pads_with_memory ? it->outer_bytes : it->bytes;
}

static mbr_status allocate(mbr_instance *instance, const mbr_allocate_request *request,
    mbr_outcome *answer, mbr_error *error)
{
    struct mbr_objects *objects = mbr_objects_of(instance);
    const struct mbr_allocation_port *port = objects->allocation_port;
    struct mbr_answer_ask ask = {
        .flags = request->flags,
        .known_flags = port->fresh_content == MBR_CONTENT_ZERO ? MBR_ALLOCATE_ZEROED : 0,
        .id = request->allocation_id,
        .bytes = request->bytes,
        .unit_bytes = objects->allocation_unit_bytes,
        .may_round = true,
        .pads_with_memory = port->pads_with_memory,
        .align_bytes = request->align_bytes,
        .largest_bytes = UINT64_MAX,
        .max_owned_bytes = request->max_owned_bytes,
    };
    mbr_status status = mbr_answer_check(&ask, error);
    if (status != MBR_OK)
        return status;
    struct mbr_object *allocation = mbr_object_create(
        objects, &objects->allocations, ask.id, ask.bytes, sizeof(*allocation), &status, error);
    if (!allocation)
        return status;
    status = claim(instance, ask.owned_bytes, error);
    if (status != MBR_OK)
        goto end_allocation;
    status = port->take(instance, allocation, ask.align_bytes, error);
    if (status != MBR_OK) {
        mbr_error cause = {MBR_SIZED(mbr_error)};
        enum mbr_end end = MBR_END_GONE;
        if (allocation->outer_bytes != 0)
            end = port->give(instance, allocation, &cause);
        if (end == MBR_END_GONE)
            goto refund;
        /* It stays under its id and address, to be released like any other. */
        answer->state = end == MBR_END_THERE ? MBR_STATE_PARTIAL : MBR_STATE_QUARANTINED;
        answer->residual_mapped_bytes = answer->residual_owned_bytes = ask.owned_bytes;
        status = mbr_fail_native(error, MBR_RESIDUAL, cause.native_domain, cause.native_code,
            "allocate failed, and its undo too: %" PRIu64 " bytes stay owned at 0x%" PRIx64
            "; %.80s",
            ask.owned_bytes, allocation->address, cause.text);
    }
    answer->content = port->fresh_content;
    answer->granted_flags = request->flags & MBR_ALLOCATE_ZEROED;
    answer->address = allocation->address;
    answer->newly_mapped_bytes = answer->newly_owned_bytes = ask.owned_bytes;
    mbr_object_leave(objects, allocation);
    return status;

refund:
    refund(instance, ask.owned_bytes);
end_allocation:
    mbr_object_end(objects, &objects->allocations, allocation);
    return status;
}

static mbr_status release(mbr_instance *instance, const mbr_release_request *request,
    mbr_outcome *answer, mbr_error *error)
{
    struct mbr_objects *objects = mbr_objects_of(instance);
    mbr_status status = MBR_OK;
    mbr_objects_lock(objects);
    struct mbr_object *allocation =
        mbr_object_enter_locked(&objects->allocations, request->allocation_id, &status, error);
    if (allocation && allocation->address != request->address) {
        status = mbr_fail(error, MBR_UNKNOWN_OBJECT, "allocation %" PRIu64 " is not at 0x%" PRIx64,
            request->allocation_id, request->address);
        allocation->busy = false;
    }
    mbr_objects_unlock(objects);
    if (status != MBR_OK)
        return status;
    uint64_t owned_bytes = owned_of(objects->allocation_port, allocation);
    mbr_error cause = {MBR_SIZED(mbr_error)};
    enum mbr_end end = objects->allocation_port->give(instance, allocation, &cause);
    if (end != MBR_END_GONE) {
        answer->state = end == MBR_END_THERE ? MBR_STATE_UNCHANGED : MBR_STATE_QUARANTINED;
        mbr_error_copy(error, &cause);
        mbr_object_leave(objects, allocation);
        return cause.status;
    }
    answer->unmapped_bytes = answer->released_bytes = owned_bytes;
    refund(instance, owned_bytes);
    mbr_object_end(objects, &objects->allocations, allocation);
    return MBR_OK;
}

MBR_ANSWER_CHANGE(, mbr_allocation_slot_allocate, allocate, mbr_allocate_request)
MBR_ANSWER_CHANGE(, mbr_allocation_slot_release, release, mbr_release_request)
