/* The primitives behind plugins/common/lines.h and transfers.h: events, streams, fills, copies.
 * Never waits for the device.
 *
 * A stream's value is the driver's handle. Value 0 is the legacy default stream, which waits for
 * the other streams of its context and makes them wait; 1 is the same by name. 2 is the calling
 * thread's own default stream: for work, not for a line. */
#include "abi/base/error.h"
#include "plugins/common/gpu.h"

#include <inttypes.h>

static mbr_gpu_stream stream_at(uint64_t value)
{
    return (mbr_gpu_stream)(uintptr_t)value;
}

static mbr_gpu_event event_at(uint64_t value)
{
    return (mbr_gpu_event)(uintptr_t)value;
}

/* ---- Lines ---------------------------------------------------------------------------------- */

/* An event that is recorded on a capturing stream becomes a part of the graph, and asking for it
 * would end the capture. */
static mbr_status refuse_captured(uint64_t stream, uint32_t capture, mbr_error *error)
{
    if (capture == MBR_GPU_CAPTURE_NONE)
        return MBR_OK;
    return mbr_fail(error, MBR_BUSY, "stream 0x%" PRIx64 " is being captured", stream);
}

/* A signal may come from any thread: a stream that is another one for each of them has no line. */
static mbr_status check_stream(mbr_instance *instance, uint64_t stream, mbr_error *error)
{
    if (stream == MBR_GPU_STREAM_PER_THREAD)
        return mbr_fail(error, MBR_INVALID_ARGUMENT,
            "stream 2 is every thread's own, and signals come from any thread; "
            "a stream of %s would work",
            instance->driver->name.stream_create);
    return MBR_OK;
}

static mbr_status event_create(mbr_instance *instance, uint64_t *event, mbr_error *error)
{
    const struct mbr_gpu_calls *call = &instance->driver->call;
    mbr_gpu_event made = NULL;
    struct mbr_gpu_scope scope;
    mbr_status status = mbr_gpu_enter(instance, &scope, error);
    if (status != MBR_OK)
        return status;
    mbr_gpu_result result = call->event_create(&made, MBR_GPU_EVENT_DISABLE_TIMING);
    if (result != MBR_GPU_SUCCESS && made) /* it failed after its effect */
        (void)call->event_destroy(made);
    *event = (uintptr_t)made;
    return mbr_gpu_leave(instance, &scope, result, instance->driver->name.event_create, 0, error);
}

static void event_destroy(mbr_instance *instance, uint64_t event)
{
    (void)instance->driver->call.event_destroy(
        event_at(event)); /* a lost device has none any more */
}

/* Asked before, so that no capture gets a node, and behind: a capture that began in between has
 * made the event its own. */
static mbr_status event_record(
    mbr_instance *instance, uint64_t event, uint64_t stream, mbr_error *error)
{
    const struct mbr_gpu_calls *call = &instance->driver->call;
    const char *name = instance->driver->name.stream_capturing;
    uint32_t capture = MBR_GPU_CAPTURE_NONE;
    struct mbr_gpu_scope scope;
    mbr_status status = mbr_gpu_enter(instance, &scope, error);
    if (status != MBR_OK)
        return status;
    mbr_gpu_result result = call->stream_capturing(stream_at(stream), &capture);
    if (result == MBR_GPU_SUCCESS && capture == MBR_GPU_CAPTURE_NONE) {
        result = call->event_record(event_at(event), stream_at(stream));
        if (result == MBR_GPU_SUCCESS)
            result = call->stream_capturing(stream_at(stream), &capture);
        else
            name = instance->driver->name.event_record;
    }
    status = mbr_gpu_leave(instance, &scope, result, name, 0, error);
    return status == MBR_OK ? refuse_captured(stream, capture, error) : status;
}

/* Asked often, and it needs no context. While any thread captures in the global mode the question
 * would destroy that capture, unless the asking thread is in the relaxed mode. */
static mbr_status event_query(mbr_instance *instance, uint64_t event, mbr_error *error)
{
    uint32_t mode;
    mbr_status status = mbr_gpu_relax(instance->driver, &mode, error);
    if (status != MBR_OK)
        return status;
    mbr_gpu_result result = instance->driver->call.event_query(event_at(event));
    mbr_gpu_unrelax(instance->driver, mode);
    if (result == MBR_GPU_NOT_READY)
        return MBR_NOT_READY;
    return mbr_gpu_answer(instance->driver, result, instance->driver->name.event_query, 0, error);
}

static mbr_status stream_wait(
    mbr_instance *instance, uint64_t stream, uint64_t event, mbr_error *error)
{
    const struct mbr_gpu_calls *call = &instance->driver->call;
    const char *name = instance->driver->name.stream_capturing;
    uint32_t capture = MBR_GPU_CAPTURE_NONE;
    struct mbr_gpu_scope scope;
    mbr_status status = mbr_gpu_enter(instance, &scope, error);
    if (status != MBR_OK)
        return status;
    mbr_gpu_result result = call->stream_capturing(stream_at(stream), &capture);
    if (result == MBR_GPU_SUCCESS && capture == MBR_GPU_CAPTURE_NONE) {
        name = instance->driver->name.stream_wait;
        result = call->stream_wait(stream_at(stream), event_at(event), 0);
    }
    status = mbr_gpu_leave(instance, &scope, result, name, 0, error);
    return status == MBR_OK ? refuse_captured(stream, capture, error) : status;
}

/* ---- Streams and work ----------------------------------------------------------------------- */

/* Beside the legacy default stream, which would otherwise wait for it. */
static mbr_status stream_create(mbr_instance *instance, uint64_t *stream, mbr_error *error)
{
    const struct mbr_gpu_calls *call = &instance->driver->call;
    mbr_gpu_stream made = NULL;
    struct mbr_gpu_scope scope;
    mbr_status status = mbr_gpu_enter(instance, &scope, error);
    if (status != MBR_OK)
        return status;
    mbr_gpu_result result = call->stream_create(&made, MBR_GPU_STREAM_NON_BLOCKING);
    if (result != MBR_GPU_SUCCESS && made) /* it failed after its effect */
        (void)call->stream_destroy(made);
    *stream = (uintptr_t)made;
    return mbr_gpu_leave(instance, &scope, result, instance->driver->name.stream_create, 0, error);
}

/* Nothing tells whether a stream is still there; the driver does not bear a second call. */
static enum mbr_end stream_destroy(mbr_instance *instance, uint64_t stream, mbr_error *error)
{
    struct mbr_gpu_scope scope;
    if (mbr_gpu_enter(instance, &scope, error) != MBR_OK)
        return MBR_END_THERE;
    mbr_gpu_result result = instance->driver->call.stream_destroy(stream_at(stream));
    return mbr_gpu_leave(
               instance, &scope, result, instance->driver->name.stream_destroy, 0, error) == MBR_OK
        ? MBR_END_GONE
        : MBR_END_UNKNOWN;
}

/* The driver refuses at submission what is no memory, or none that may be written. */
static mbr_status answer_for_places(mbr_status status, mbr_gpu_result result, mbr_error *error)
{
    return result == MBR_GPU_INVALID_VALUE ? mbr_gpu_rename(MBR_INVALID_ARGUMENT, error) : status;
}

static mbr_status fill(mbr_instance *instance, uint64_t stream, uint64_t address, uint64_t bytes,
    uint8_t pattern, mbr_error *error)
{
    struct mbr_gpu_scope scope;
    mbr_status status = mbr_gpu_enter(instance, &scope, error);
    if (status != MBR_OK)
        return status;
    mbr_gpu_result result =
        instance->driver->call.fill_async(address, pattern, bytes, stream_at(stream));
    status =
        mbr_gpu_leave(instance, &scope, result, instance->driver->name.fill_async, bytes, error);
    return answer_for_places(status, result, error);
}

/* Addresses are one space for host and device, and the driver finds the direction. */
static mbr_status copy(mbr_instance *instance, uint64_t stream, uint64_t to_address,
    uint64_t from_address, uint64_t bytes, mbr_error *error)
{
    struct mbr_gpu_scope scope;
    mbr_status status = mbr_gpu_enter(instance, &scope, error);
    if (status != MBR_OK)
        return status;
    mbr_gpu_result result =
        instance->driver->call.copy_async(to_address, from_address, bytes, stream_at(stream));
    status =
        mbr_gpu_leave(instance, &scope, result, instance->driver->name.copy_async, bytes, error);
    return answer_for_places(status, result, error);
}

const struct mbr_line_port mbr_gpu_line_port = {
    .check_stream = check_stream,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_query = event_query,
    .stream_wait = stream_wait,
};

const struct mbr_transfer_port mbr_gpu_transfer_port = {
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .fill = fill,
    .copy = copy,
};

const mbr_order_vtable mbr_gpu_order = {
    MBR_SIZED(mbr_order_vtable),
    .kind = MBR_KIND_ORDER,
    .minor = MBR_MINOR_0,
    .line_open = mbr_line_slot_open,
    .signal = mbr_line_slot_signal,
    .reached = mbr_line_slot_reached,
    .wait = mbr_line_slot_wait,
    .stream_wait = mbr_line_slot_stream_wait,
    .line_close = mbr_line_slot_close,
};

const mbr_transfer_vtable mbr_gpu_transfer = {
    MBR_SIZED(mbr_transfer_vtable),
    .kind = MBR_KIND_TRANSFER,
    .minor = MBR_MINOR_0,
    .stream_create = mbr_transfer_slot_stream_create,
    .stream_destroy = mbr_transfer_slot_stream_destroy,
    .fill = mbr_transfer_slot_fill,
    .copy = mbr_transfer_slot_copy,
};
