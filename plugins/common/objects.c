/* Keeps what exists in one instance, what is in a call, and the figures. Never calls a driver. */
#include "plugins/common/objects.h"

#include "abi/base/assert.h"
#include "abi/base/error.h"

#include <inttypes.h>

void mbr_objects_init(struct mbr_objects *objects, const mbr_heap *heap)
{
    objects->heap = *heap;
    /* Of two that race for one release the second finds it gone. */
    objects->allocations =
        (struct mbr_object_table){"allocation", MBR_UNKNOWN_OBJECT, {NULL, 0, 0}};
    objects->reservations = (struct mbr_object_table){"reservation", MBR_BUSY, {NULL, 0, 0}};
    objects->extents = (struct mbr_object_table){"extent", MBR_BUSY, {NULL, 0, 0}};
    objects->lines = (struct mbr_object_table){"line", MBR_BUSY, {NULL, 0, 0}};
    objects->streams = (struct mbr_object_table){"stream", MBR_BUSY, {NULL, 0, 0}};
    MBR_CHECK(pthread_mutex_init(&objects->lock, NULL) == 0);
    objects->mark = &mbr_answer_mark;
}

void mbr_objects_finish(struct mbr_objects *objects)
{
    objects->mark = NULL;
    mbr_id_table_finish(&objects->allocations.ids, &objects->heap);
    mbr_id_table_finish(&objects->reservations.ids, &objects->heap);
    mbr_id_table_finish(&objects->extents.ids, &objects->heap);
    mbr_id_table_finish(&objects->lines.ids, &objects->heap);
    mbr_id_table_finish(&objects->streams.ids, &objects->heap);
    MBR_CHECK(pthread_mutex_destroy(&objects->lock) == 0);
}

/* A plain mutex, without ranks: those are kept in thread-local storage, which a plugin that can be
 * unloaded must not have. No slot calls out under it. */
void mbr_objects_lock(struct mbr_objects *objects)
{
    MBR_CHECK(pthread_mutex_lock(&objects->lock) == 0);
}

void mbr_objects_unlock(struct mbr_objects *objects)
{
    MBR_CHECK(pthread_mutex_unlock(&objects->lock) == 0);
}

static mbr_status report(
    mbr_instance *instance, const mbr_report_request *request, mbr_report *answer, mbr_error *error)
{
    struct mbr_objects *objects = mbr_objects_of(instance);
    (void)request, (void)error;
    mbr_objects_lock(objects);
    answer->allocation_count = objects->allocations.ids.id_count;
    answer->reservation_count = objects->reservations.ids.id_count;
    answer->extent_count = objects->extents.ids.id_count;
    answer->mapping_count = objects->mapping_count;
    answer->line_count = objects->lines.ids.id_count;
    answer->stream_count = objects->streams.ids.id_count;
    mbr_objects_unlock(objects);
    return MBR_OK;
}

MBR_ANSWER_TELL(, mbr_objects_slot_report, report, mbr_report_request, mbr_report)

mbr_status mbr_objects_check_close(
    struct mbr_objects *objects, const mbr_close_request *request, mbr_error *error)
{
    mbr_report live = {0};
    mbr_status status = mbr_answer_check_flags(request->flags, 0, error);
    if (status != MBR_OK)
        return status;
    (void)report((mbr_instance *)objects, NULL, &live, NULL);
    if (live.allocation_count + live.reservation_count + live.extent_count + live.line_count +
            live.stream_count ==
        0)
        return MBR_OK;
    return mbr_fail(error, MBR_IN_USE,
        "alive: %" PRIu64 " allocations, %" PRIu64 " reservations, %" PRIu64 " extents, %" PRIu64
        " mappings, %" PRIu64 " lines, %" PRIu64 " streams",
        live.allocation_count, live.reservation_count, live.extent_count, live.mapping_count,
        live.line_count, live.stream_count);
}

void mbr_objects_tell(struct mbr_objects *objects, mbr_mechanism_stats *stats)
{
    mbr_objects_lock(objects);
    stats->owned_bytes = objects->owned_bytes;
    stats->mapped_bytes = objects->mapped_bytes;
    stats->reserved_bytes = objects->reserved_bytes;
    mbr_objects_unlock(objects);
}

static mbr_status publish_locked(struct mbr_objects *objects, struct mbr_object_table *table,
    struct mbr_object *object, mbr_error *error)
{
    if (mbr_id_table_find(&table->ids, object->id))
        return mbr_fail(
            error, MBR_ALREADY_EXISTS, "%s %" PRIu64 " exists", table->name, object->id);
    if (!mbr_id_table_reserve(&table->ids, &objects->heap))
        return mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no heap for the table of %ss", table->name);
    mbr_id_table_insert(&table->ids, object->id, object);
    return MBR_OK;
}

void *mbr_object_create(struct mbr_objects *objects, struct mbr_object_table *table, uint64_t id,
    uint64_t bytes, size_t record_bytes, mbr_status *status, mbr_error *error)
{
    struct mbr_object *object = mbr_heap_allocate(&objects->heap, record_bytes);
    if (!object) {
        *status = mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no heap for one %s", table->name);
        return NULL;
    }
    *object = (struct mbr_object){.id = id, .bytes = bytes, .busy = true};
    mbr_objects_lock(objects);
    *status = publish_locked(objects, table, object, error);
    mbr_objects_unlock(objects);
    if (*status == MBR_OK)
        return object;
    mbr_heap_release(&objects->heap, object);
    return NULL;
}

void *mbr_object_enter_locked(
    struct mbr_object_table *table, uint64_t id, mbr_status *status, mbr_error *error)
{
    struct mbr_object *object = mbr_id_table_find(&table->ids, id);
    if (object && !object->busy) {
        object->busy = true;
        return object;
    }
    *status = object ? table->busy_status : MBR_UNKNOWN_OBJECT;
    mbr_fail(error, *status, object ? "%s %" PRIu64 " is in another call" : "no %s %" PRIu64,
        table->name, id);
    return NULL;
}

void *mbr_object_enter(struct mbr_objects *objects, struct mbr_object_table *table, uint64_t id,
    mbr_status *status, mbr_error *error)
{
    mbr_objects_lock(objects);
    void *object = mbr_object_enter_locked(table, id, status, error);
    mbr_objects_unlock(objects);
    return object;
}

void mbr_object_leave(struct mbr_objects *objects, struct mbr_object *object)
{
    mbr_objects_lock(objects);
    object->busy = false;
    mbr_objects_unlock(objects);
}

void mbr_object_end(
    struct mbr_objects *objects, struct mbr_object_table *table, struct mbr_object *object)
{
    mbr_objects_lock(objects);
    mbr_id_table_remove(&table->ids, object->id);
    mbr_objects_unlock(objects);
    mbr_heap_release(&objects->heap, object);
}
