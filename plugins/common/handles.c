/* Makes and ends extents that are handles of a driver. Never maps one. */
#include "plugins/common/handles.h"

#include "abi/base/error.h"

#include <inttypes.h>

static void charge(struct mbr_objects *objects, uint64_t bytes)
{
    mbr_objects_lock(objects);
    objects->owned_bytes += bytes;
    mbr_objects_unlock(objects);
}

static void refund(struct mbr_objects *objects, uint64_t bytes)
{
    mbr_objects_lock(objects);
    objects->owned_bytes -= bytes;
    mbr_objects_unlock(objects);
}

/* After a failure to create; the error says why and stays unless the undo fails as well. */
static mbr_status undo_create(mbr_instance *instance, struct mbr_handle_extent *made,
    mbr_status status, mbr_outcome *answer, mbr_error *error)
{
    struct mbr_objects *objects = mbr_objects_of(instance);
    struct mbr_object *object = &made->extent.object;
    uint64_t bytes = object->bytes;
    mbr_error cause = {MBR_SIZED(mbr_error)};
    enum mbr_end end = MBR_END_GONE;
    if (made->handle != 0)
        end = objects->handle_port->destroy(instance, made, &cause);
    if (end == MBR_END_GONE) {
        refund(objects, bytes);
        mbr_object_end(objects, &objects->extents, object);
        return status;
    }
    /* It stays under its id, to be destroyed like any other, and is never mapped. */
    answer->state = end == MBR_END_THERE ? MBR_STATE_PARTIAL : MBR_STATE_QUARANTINED;
    answer->newly_owned_bytes = answer->residual_owned_bytes = bytes;
    made->extent.broken = true;
    status = mbr_fail_native(error, MBR_RESIDUAL, cause.native_domain, cause.native_code,
        "extent_create failed, and its undo too: %" PRIu64 " bytes stay owned by extent %" PRIu64
        "; %.80s",
        bytes, object->id, cause.text);
    mbr_object_leave(objects, object);
    return status;
}

static mbr_status extent_create(mbr_instance *instance, const mbr_extent_create_request *request,
    mbr_outcome *answer, mbr_error *error)
{
    struct mbr_objects *objects = mbr_objects_of(instance);
    struct mbr_answer_ask ask = {
        .flags = request->flags,
        .id = request->extent_id,
        .bytes = request->bytes,
        .unit_bytes = objects->granule_bytes,
        .largest_bytes = objects->extent_max_bytes,
        .max_owned_bytes = request->max_owned_bytes,
    };
    mbr_status status = mbr_answer_check(&ask, error);
    if (status != MBR_OK)
        return status;
    struct mbr_handle_extent *made = mbr_object_create(
        objects, &objects->extents, ask.id, ask.bytes, sizeof(*made), &status, error);
    if (!made)
        return status;
    struct mbr_object *object = &made->extent.object;
    made->extent.content = MBR_CONTENT_UNDEFINED;
    charge(objects, ask.bytes); /* before it is taken: never below what the driver counts */
    status = objects->handle_port->create(instance, made, error);
    if (status != MBR_OK)
        return undo_create(instance, made, status, answer, error);
    answer->newly_owned_bytes = ask.bytes;
    mbr_object_leave(objects, object);
    return MBR_OK;
}

static mbr_status extent_destroy(mbr_instance *instance, const mbr_extent_destroy_request *request,
    mbr_outcome *answer, mbr_error *error)
{
    struct mbr_objects *objects = mbr_objects_of(instance);
    mbr_error cause = {MBR_SIZED(mbr_error)};
    mbr_status status = MBR_OK;
    struct mbr_handle_extent *extent =
        mbr_space_enter_extent(objects, request->extent_id, &status, error);
    if (!extent)
        return status;
    struct mbr_object *object = &extent->extent.object;
    enum mbr_end end = objects->handle_port->destroy(instance, extent, &cause);
    if (end == MBR_END_GONE) {
        answer->released_bytes = object->bytes;
        refund(objects, object->bytes);
        mbr_object_end(objects, &objects->extents, object);
        return MBR_OK;
    }
    mbr_error_copy(error, &cause);
    if (end == MBR_END_UNKNOWN) {
        answer->state = MBR_STATE_QUARANTINED;
        answer->residual_owned_bytes = object->bytes;
        extent->extent.broken = true; /* never mapped again: its handle may be another's by now */
    }
    mbr_object_leave(objects, object);
    return cause.status;
}

MBR_ANSWER_CHANGE(, mbr_handle_slot_extent_create, extent_create, mbr_extent_create_request)
MBR_ANSWER_CHANGE(, mbr_handle_slot_extent_destroy, extent_destroy, mbr_extent_destroy_request)
