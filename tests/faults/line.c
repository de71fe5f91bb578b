/* Responsible for lines and streams that a test moves by hand. No thread, no heap, no fault. */
#include "tests/faults/line.h"

#include "abi/base/error.h"
#include "plugins/common/answer.h"

#include <string.h>

static struct fault_line *find(mbr_instance *instance, uint64_t id)
{
    struct fault_device *device = (struct fault_device *)(void *)instance;
    for (uint32_t i = 0; i < FAULT_LINE_COUNT; i++)
        if (device->lines[i].id == id)
            return &device->lines[i];
    return NULL;
}

static mbr_status answer(mbr_outcome *outcome, mbr_status status, uint64_t value)
{
    const mbr_outcome whole = {.state = status == MBR_OK ? MBR_STATE_DONE : MBR_STATE_UNCHANGED,
        .value = status == MBR_OK ? value : 0};
    mbr_answer_write(outcome, &whole, sizeof whole);
    return status;
}

static mbr_status line_open(mbr_instance *instance, const mbr_line_open_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    struct fault_line *line = find(instance, 0);
    if (line == NULL)
        return answer(outcome, mbr_fail(error, MBR_OUT_OF_DESCRIPTORS, "no line is left"), 0);
    *line = (struct fault_line){.id = request->line_id};
    return answer(outcome, MBR_OK, 0);
}

/* NULL with the answer given. */
static struct fault_line *known(
    mbr_instance *instance, uint64_t id, mbr_outcome *outcome, mbr_status *status, mbr_error *error)
{
    struct fault_line *line = find(instance, id);
    *status = MBR_OK;
    if (line == NULL)
        *status = answer(outcome, mbr_fail(error, MBR_UNKNOWN_OBJECT, "no such line"), 0);
    return line;
}

static mbr_status signal_line(
    mbr_instance *instance, const mbr_line_request *request, mbr_outcome *outcome, mbr_error *error)
{
    mbr_status status;
    struct fault_line *line = known(instance, request->line_id, outcome, &status, error);
    return line == NULL ? status : answer(outcome, MBR_OK, ++line->signalled);
}

static mbr_status reached(
    mbr_instance *instance, const mbr_line_request *request, mbr_outcome *outcome, mbr_error *error)
{
    mbr_status status;
    struct fault_line *line = known(instance, request->line_id, outcome, &status, error);
    return line == NULL ? status : answer(outcome, MBR_OK, line->reached);
}

static mbr_status wait_for(mbr_instance *instance, const mbr_line_wait_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    mbr_status status;
    struct fault_line *line = known(instance, request->line_id, outcome, &status, error);
    if (line == NULL)
        return status;
    line->reached = line->signalled;
    return answer(outcome, MBR_OK, line->reached);
}

static mbr_status stream_wait(mbr_instance *instance, const mbr_stream_wait_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    mbr_status status;
    struct fault_line *line = known(instance, request->line_id, outcome, &status, error);
    return line == NULL ? status : answer(outcome, MBR_OK, 0);
}

static mbr_status line_close(
    mbr_instance *instance, const mbr_line_request *request, mbr_outcome *outcome, mbr_error *error)
{
    mbr_status status;
    struct fault_line *line = known(instance, request->line_id, outcome, &status, error);
    if (line == NULL)
        return status;
    *line = (struct fault_line){0};
    return answer(outcome, MBR_OK, 0);
}

const mbr_order_vtable fault_order = {MBR_SIZED(mbr_order_vtable), .kind = MBR_KIND_ORDER,
    .minor = MBR_MINOR_0, .line_open = line_open, .signal = signal_line, .reached = reached,
    .wait = wait_for, .stream_wait = stream_wait, .line_close = line_close};

static mbr_status stream_create(mbr_instance *instance, const mbr_stream_create_request *request,
    mbr_stream_create_outcome *outcome, mbr_error *error)
{
    (void)request;
    (void)error;
    struct fault_device *device = (struct fault_device *)(void *)instance;
    outcome->stream = (mbr_native){MBR_NATIVE_STREAM_CPU, 0, ++device->stream_count};
    return MBR_OK;
}

static mbr_status stream_destroy(mbr_instance *instance, const mbr_stream_destroy_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    (void)instance;
    (void)request;
    (void)error;
    return answer(outcome, MBR_OK, 0);
}

static mbr_status fill(
    mbr_instance *instance, const mbr_fill_request *request, mbr_outcome *outcome, mbr_error *error)
{
    (void)instance;
    (void)error;
    memset((void *)(uintptr_t)request->address, (int)(request->pattern & 0xFF), request->bytes);
    return answer(outcome, MBR_OK, 0);
}

static mbr_status copy(
    mbr_instance *instance, const mbr_copy_request *request, mbr_outcome *outcome, mbr_error *error)
{
    (void)instance;
    (void)error;
    memcpy((void *)(uintptr_t)request->to_address, (const void *)(uintptr_t)request->from_address,
        request->bytes);
    return answer(outcome, MBR_OK, 0);
}

const mbr_transfer_vtable fault_transfer = {MBR_SIZED(mbr_transfer_vtable),
    .kind = MBR_KIND_TRANSFER, .minor = MBR_MINOR_0, .stream_create = stream_create,
    .stream_destroy = stream_destroy, .fill = fill, .copy = copy};

void fault_device_run(struct fault_device *device)
{
    for (uint32_t i = 0; i < FAULT_LINE_COUNT; i++)
        device->lines[i].reached = device->lines[i].signalled;
}

uint64_t fault_device_line_count(const struct fault_device *device)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < FAULT_LINE_COUNT; i++)
        count += device->lines[i].id != 0;
    return count;
}
