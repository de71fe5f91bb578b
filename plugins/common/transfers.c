/* Checks fills and copies and keeps the streams that were made here. Never looks at memory. */
#include "plugins/common/transfers.h"

#include "abi/base/checked.h"
#include "abi/base/error.h"
#include "plugins/common/space.h"

#include <inttypes.h>

static const struct mbr_transfer_port *port_of(mbr_instance *instance)
{
    return mbr_objects_of(instance)->transfer_port;
}

static mbr_status check_range(uint64_t address, uint64_t bytes, mbr_error *error)
{
    uint64_t end;
    if (bytes == 0)
        return mbr_fail(error, MBR_INVALID_ARGUMENT, "the size is 0");
    if (!mbr_add(address, bytes, &end))
        return mbr_fail(
            error, MBR_OVERFLOW, "%" PRIu64 " bytes at 0x%" PRIx64 " overflow", bytes, address);
    return MBR_OK;
}

/* ---- Streams -------------------------------------------------------------------------------- */

/* A driver may give a stream's value again before the call that ended it is back here: then the
 * record has a further life, and outlives as many ends. No lock is held over a driver's call; one
 * that ends a stream may wait for its work. */
struct stream {
    struct mbr_object object;
    uint32_t further_lives; /* guarded by the lock, as is what follows */
    bool is_withheld;       /* in its call until the driver gives the value again */
};

/* A record that is there already is of a stream whose end is not in the books yet. */
static struct stream *take_over(struct mbr_objects *objects, uint64_t value)
{
    mbr_objects_lock(objects);
    struct stream *stream = mbr_id_table_find(&objects->streams.ids, value);
    if (stream && stream->is_withheld)
        stream->is_withheld = false; /* the driver, which gives its value again, has told its end */
    else if (stream)
        stream->further_lives++;
    mbr_objects_unlock(objects);
    return stream;
}

static struct stream *make_record(
    struct mbr_objects *objects, uint64_t value, mbr_status *status, mbr_error *error)
{
    struct stream *stream =
        mbr_object_create(objects, &objects->streams, value, 0, sizeof(*stream), status, error);
    if (stream) {
        stream->further_lives = 0;
        stream->is_withheld = false;
    }
    return stream;
}

static mbr_status stream_create(mbr_instance *instance, const mbr_stream_create_request *request,
    mbr_stream_create_outcome *answer, mbr_error *error)
{
    struct mbr_objects *objects = mbr_objects_of(instance);
    uint64_t value = 0;
    mbr_status status = mbr_answer_check_flags(request->flags, 0, error);
    if (status == MBR_OK)
        status = port_of(instance)->stream_create(instance, &value, error);
    if (status != MBR_OK)
        return status;
    struct stream *stream = take_over(objects, value);
    if (!stream)
        stream = make_record(objects, value, &status, error);
    if (!stream) {
        (void)port_of(instance)->stream_destroy(instance, value, NULL);
        return status;
    }
    mbr_object_leave(objects, &stream->object);
    answer->stream = (mbr_native){.kind = objects->stream_kind, .value = value};
    return MBR_OK;
}

/* Whether it is gone: also where nobody could tell, and the driver has given the value again. */
static bool end_life(struct mbr_objects *objects, struct stream *stream, enum mbr_end end)
{
    mbr_objects_lock(objects);
    bool is_again = stream->further_lives != 0;
    bool is_gone = end == MBR_END_GONE || is_again;
    if (is_again)
        stream->further_lives--;
    else if (is_gone)
        mbr_id_table_remove(&objects->streams.ids, stream->object.id);
    else
        stream->is_withheld = true;
    mbr_objects_unlock(objects);
    if (is_gone && !is_again)
        mbr_heap_release(&objects->heap, stream);
    return is_gone;
}

static mbr_status stream_destroy(mbr_instance *instance, const mbr_stream_destroy_request *request,
    mbr_outcome *answer, mbr_error *error)
{
    struct mbr_objects *objects = mbr_objects_of(instance);
    mbr_error cause = {MBR_SIZED(mbr_error)};
    mbr_status status = mbr_answer_check_stream(request->stream, objects->stream_kind, error);
    if (status != MBR_OK)
        return status;
    uint64_t value = request->stream.value;
    struct stream *stream = mbr_object_enter(objects, &objects->streams, value, &status, error);
    if (!stream)
        return status;
    enum mbr_end end = port_of(instance)->stream_destroy(instance, value, &cause);
    if (end == MBR_END_THERE)
        mbr_object_leave(objects, &stream->object);
    else if (end_life(objects, stream, end))
        return MBR_OK;
    else
        answer->state = MBR_STATE_QUARANTINED;
    mbr_error_copy(error, &cause);
    return cause.status;
}

/* ---- Work ----------------------------------------------------------------------------------- */

static mbr_status fill(
    mbr_instance *instance, const mbr_fill_request *request, mbr_outcome *answer, mbr_error *error)
{
    mbr_status status =
        mbr_answer_check_stream(request->stream, mbr_objects_of(instance)->stream_kind, error);
    (void)answer;
    if (status == MBR_OK)
        status = check_range(request->address, request->bytes, error);
    if (status != MBR_OK)
        return status;
    return port_of(instance)->fill(instance, request->stream.value, request->address,
        request->bytes, (uint8_t)request->pattern, error);
}

static mbr_status copy(
    mbr_instance *instance, const mbr_copy_request *request, mbr_outcome *answer, mbr_error *error)
{
    uint64_t to = request->to_address, from = request->from_address, bytes = request->bytes;
    mbr_status status =
        mbr_answer_check_stream(request->stream, mbr_objects_of(instance)->stream_kind, error);
    (void)answer;
    if (status == MBR_OK)
        status = check_range(to, bytes, error);
    if (status == MBR_OK)
        status = check_range(from, bytes, error);
    if (status == MBR_OK && mbr_max(to, from) - mbr_min(to, from) < bytes)
        status = mbr_fail(error, MBR_INVALID_ARGUMENT,
            "%" PRIu64 " bytes from 0x%" PRIx64 " to 0x%" PRIx64 " overlap", bytes, from, to);
    /* Drivers take an address that they do not know for the host's, and read it themselves. */
    if (status == MBR_OK)
        status = mbr_space_check_mapped(mbr_objects_of(instance), to, bytes, error);
    if (status == MBR_OK)
        status = mbr_space_check_mapped(mbr_objects_of(instance), from, bytes, error);
    if (status != MBR_OK)
        return status;
    return port_of(instance)->copy(instance, request->stream.value, to, from, bytes, error);
}

MBR_ANSWER_TELL(, mbr_transfer_slot_stream_create, stream_create, mbr_stream_create_request,
    mbr_stream_create_outcome)
MBR_ANSWER_CHANGE(, mbr_transfer_slot_stream_destroy, stream_destroy, mbr_stream_destroy_request)
MBR_ANSWER_CHANGE(, mbr_transfer_slot_fill, fill, mbr_fill_request)
MBR_ANSWER_CHANGE(, mbr_transfer_slot_copy, copy, mbr_copy_request)
