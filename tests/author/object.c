/* The beginning and the end of objects: what may be made, in which order it is made known, and what
 * is told when the system refuses. Keeps no memory that no object has. */
#include "tests/author/anon.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

mbr_status anon_check_id(const anon_spans *objects, uint64_t id, mbr_error *error)
{
    mbr_error what = {.status = MBR_INVALID_ARGUMENT, .argument_index = 2};
    if (id == 0)
        return anon_refuse(error, what, "id 0 names nothing; ids begin with 1");
    what.status = MBR_ALREADY_EXISTS;
    if (anon_spans_find(objects, id, id))
        return anon_refuse(error, what, "id %" PRIu64 " is in use", id);
    return MBR_OK;
}

mbr_status anon_check_size(uint64_t bytes, uint64_t align_bytes, mbr_error *error)
{
    mbr_error what = {.status = MBR_INVALID_ARGUMENT, .argument_index = 3, .asked_bytes = bytes};
    uint64_t page_bytes = anon_page_bytes();
    if (bytes == 0)
        return anon_refuse(error, what, "0 bytes hold nothing; ask for more");
    what.argument_index = 4;
    if (align_bytes & (align_bytes - 1))
        return anon_refuse(error, what, "alignment %" PRIu64 " is no power of two", align_bytes);
    what.status = MBR_MISALIGNED;
    what.argument_index = 3;
    if (bytes % page_bytes)
        return anon_refuse(
            error, what, "%" PRIu64 " bytes are not whole pages of %" PRIu64, bytes, page_bytes);
    what.status = MBR_OVERFLOW;
    if (bytes > UINT64_MAX - align_bytes)
        return anon_refuse(
            error, what, "%" PRIu64 " bytes at %" PRIu64 " pass 2^64", bytes, align_bytes);
    return MBR_OK;
}

uint64_t anon_free_bytes(const mbr_instance *instance)
{
    uint64_t available_bytes = anon_available_bytes();
    uint64_t left_bytes = instance->capacity_bytes - instance->owned_bytes;
    return left_bytes < available_bytes ? left_bytes : available_bytes;
}

/* Asks before taking, because the system kills where it cannot serve a touch. */
mbr_status anon_admit(
    const mbr_instance *instance, uint64_t bytes, uint64_t max_owned_bytes, mbr_error *error)
{
    mbr_error what = {.status = MBR_OVER_BUDGET, .asked_bytes = bytes};
    if (bytes > max_owned_bytes)
        return anon_refuse(error, what, "would own %" PRIu64 " bytes where %" PRIu64 " may be",
            bytes, max_owned_bytes);
    what.status = MBR_OUT_OF_MEMORY;
    what.free_bytes = anon_free_bytes(instance);
    if (bytes > what.free_bytes)
        return anon_refuse(error, what, "%" PRIu64 " bytes asked where %" PRIu64 " are free", bytes,
            what.free_bytes);
    return MBR_OK;
}

void *anon_object_create(anon_spans *objects, size_t object_bytes, uint64_t id, uint64_t bytes)
{
    anon_object *object = calloc(1, object_bytes);
    if (!object)
        return NULL;
    object->id = (anon_span){id, id};
    object->bytes = bytes;
    if (anon_spans_add(objects, &object->id))
        return object;
    free(object);
    return NULL;
}

void anon_object_destroy(anon_spans *objects, anon_object *object)
{
    anon_spans_remove(objects, &object->id);
    free(object);
}

/* Where the undo fails as well, the object lives on with what it has. */
static void keep_residual(mbr_instance *instance, const anon_object *object, mbr_outcome *done)
{
    static const char text[] = "a failed take could not be undone; its bytes stay owned";
    instance->log(instance->log_context, MBR_LOG_WARNING, text, sizeof text - 1);
    instance->owned_bytes += object->bytes;
    done->state = MBR_STATE_PARTIAL;
    done->residual_owned_bytes = object->bytes;
}

mbr_status anon_object_fill(mbr_instance *instance, anon_spans *objects, anon_object *object,
    uint64_t align_bytes, uint32_t access, mbr_outcome *done, mbr_error *error)
{
    mbr_status status;
    if (!anon_area_take(&object->area, object->bytes, align_bytes)) {
        status = anon_system_refused(MBR_OUT_OF_MEMORY, "mmap", object->bytes, error);
        goto no_area;
    }
    if (!anon_memory_take(&object->area, object->bytes) ||
        !anon_memory_access(object->area.start, object->bytes, access)) {
        status = anon_system_refused(MBR_OUT_OF_MEMORY, "mprotect", object->bytes, error);
        goto no_memory;
    }
    instance->owned_bytes += object->bytes;
    done->content = MBR_CONTENT_ZERO;
    done->newly_owned_bytes = object->bytes;
    return MBR_OK;
no_memory:
    if (!anon_area_give(&object->area)) {
        keep_residual(instance, object, done);
        return status;
    }
no_area:
    anon_object_destroy(objects, object);
    return status;
}

mbr_status anon_object_end(anon_spans *objects, anon_object *object, mbr_error *error)
{
    if (!anon_area_give(&object->area))
        return anon_system_refused(MBR_OUT_OF_MAPPINGS, "munmap", 0, error);
    anon_object_destroy(objects, object);
    return MBR_OK;
}

mbr_status anon_unknown(uint64_t id, uint32_t argument, mbr_error *error)
{
    return anon_refuse(error, (mbr_error){.status = MBR_UNKNOWN_OBJECT, .argument_index = argument},
        "nothing of this instance has the id %" PRIu64, id);
}

mbr_status anon_no_heap(uint64_t asked_bytes, mbr_error *error)
{
    return anon_refuse(error,
        (mbr_error){.status = MBR_OUT_OF_HOST_MEMORY, .asked_bytes = asked_bytes},
        "no heap for the plugin's own books");
}

mbr_status anon_system_refused(
    mbr_status exhausted, const char *call, uint64_t asked_bytes, mbr_error *error)
{
    int reason = errno;
    return anon_refuse(error,
        (mbr_error){.status = reason == ENOMEM ? exhausted : MBR_SYSTEM,
            .native_domain = MBR_NATIVE_ERRNO,
            .native_code = reason,
            .asked_bytes = asked_bytes},
        "%s failed with errno %d", call, reason);
}
