/* Work as callers ask for it: what the driver checks when it is submitted (D14 to D17), and what a
 * copy takes with it. Queues it (queue.c); runs nothing. */
#include "tests/standin/model.h"

#include <stdlib.h>
#include <string.h>

/* Whose view serves, or a refusal; an address of the host is taken as it is. */
static int check(
    uint32_t device, uint64_t address, uint64_t bytes, enum sim_access access, uint32_t *viewer)
{
    if (!sim_is_device_address(address)) {
        *viewer = 0;
        return address < 65536 ? SIM_INVALID_VALUE : SIM_OK;
    }
    int found = sim_viewer(device, address, bytes, access);
    if (found < 0)
        return SIM_INVALID_VALUE;
    *viewer = (uint32_t)found;
    return SIM_OK;
}

static int submit(struct sim_stream *stream, struct sim_work *work, bool is_waited)
{
    struct sim_point *point = NULL;
    if (is_waited && stream->capture) {
        sim_capture_break(stream->capture);
        return SIM_CAPTURE_UNSUPPORTED;
    }
    const struct sim_context *context = stream->context;
    int status = sim_submit(stream, work, is_waited ? &point : NULL);
    if (!point)
        return status;
    sim_await(point);
    sim_point_drop(point);
    return sim.devices[context->device].lost;
}

int sim_submit_fill(uintptr_t name, uint64_t to, uint32_t value, uint32_t value_bytes,
    uint64_t count, bool is_waited)
{
    struct sim_stream *stream;
    int status = sim_stream_of(name, &stream);
    if (status != SIM_OK)
        return status;
    struct sim_work work = {.kind = SIM_FILL,
        .to = to,
        .bytes = count * value_bytes,
        .value = value,
        .value_bytes = value_bytes};
    if (to % value_bytes != 0)
        return SIM_INVALID_VALUE;
    if (count == 0)
        return SIM_OK;
    bool is_reachable = sim_is_device_address(to) || sim_host_find(to);
    status = check(stream->context->device, to, work.bytes, SIM_ACCESS_READ_WRITE, &work.to_device);
    if (status != SIM_OK && stream->capture && sim_is_device_address(to)) {
        work.to_device = stream->context->device; /* is looked at when the graph is made ready */
        status = SIM_OK;
    }
    if (status != SIM_OK || !is_reachable)
        return SIM_INVALID_VALUE;
    return submit(stream, &work, is_waited);
}

/* A copy from memory that no device reaches takes it with it, and one to it is waited for: so the
 * driver has it, which leaves the caller's memory alone when it returns. */
static bool is_ordinary(uint64_t address)
{
    return !sim_is_device_address(address) && !sim_host_find(address);
}

static uint8_t *stage(const struct sim_stream *stream, const struct sim_work *work)
{
    if (!is_ordinary(work->from) || stream->capture)
        return NULL;
    uint8_t *staged = malloc(work->bytes);
    if (!staged)
        abort();
    memcpy(staged, sim_pointer(work->from), work->bytes);
    return staged;
}

/* Both places of a copy are looked at from the current context, not from its stream's, from which a
 * fill's is: recorded in row two.stream. */
static uint32_t copier(const struct sim_stream *stream)
{
    const struct sim_context *context = sim_current();
    return context ? context->device : stream->context->device;
}

int sim_submit_copy(uintptr_t name, uint64_t to, uint64_t from, uint64_t bytes, bool is_waited)
{
    struct sim_stream *stream;
    int status = sim_stream_of(name, &stream);
    if (status != SIM_OK)
        return status;
    if (bytes == 0)
        return SIM_OK;
    struct sim_work work = {.kind = SIM_COPY, .to = to, .from = from, .bytes = bytes};
    uint32_t device = copier(stream);
    status = check(device, to, bytes, SIM_ACCESS_READ_WRITE, &work.to_device);
    if (status == SIM_OK)
        status = check(device, from, bytes, SIM_ACCESS_READ, &work.from_device);
    if (status != SIM_OK)
        return status;
    work.staged = stage(stream, &work);
    return submit(stream, &work, is_waited || (is_ordinary(to) && !stream->capture));
}

int sim_submit_kernel(uintptr_t name, const struct sim_kernel *kernel, void **arguments)
{
    struct sim_stream *stream;
    int status = sim_stream_of(name, &stream);
    if (status != SIM_OK)
        return status;
    if (!arguments)
        return SIM_INVALID_VALUE;
    struct sim_work work = {.kind = SIM_KERNEL, .kernel = kernel};
    for (uint32_t i = 0; i < kernel->argument_count; i++)
        memcpy(&work.arguments[i], arguments[i], kernel->argument_bytes[i]);
    return submit(stream, &work, false);
}

int sim_submit_host_function(uintptr_t name, void (*function)(void *), void *argument)
{
    struct sim_stream *stream;
    int status = sim_stream_of(name, &stream);
    if (status != SIM_OK)
        return status;
    if (!function)
        return SIM_INVALID_VALUE;
    struct sim_work work = {.kind = SIM_HOST_FUNCTION, .function = function, .argument = argument};
    return submit(stream, &work, false);
}

int sim_submit_free(uintptr_t name, uint64_t address)
{
    struct sim_stream *stream;
    int status = sim_stream_of(name, &stream);
    if (status != SIM_OK)
        return status;
    if (stream->capture)
        return SIM_NOT_SUPPORTED;
    struct sim_work work = {.kind = SIM_FREE, .to = address};
    return sim_is_plain(address) ? submit(stream, &work, false) : (int)SIM_INVALID_VALUE;
}
