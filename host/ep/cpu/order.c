/* Responsible for the `order` capability of the CPU EP: reading requests by the rules of the
 * contract and answering in outcomes. Never keeps state of its own. */
#include "host/ep/cpu/answer.h"
#include "host/ep/cpu/internal.h"

#include <inttypes.h>

static mbr_status line_open(mbr_instance *instance, const mbr_line_open_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    mbr_status status = mbr_cpu_answer_begin(request, outcome, error);
    if (status != MBR_OK)
        return status;
    mbr_line_open_request asked = {0};
    MBR_CPU_TAKE(mbr_line_open_request, asked, request, flags);
    MBR_CPU_TAKE(mbr_line_open_request, asked, request, line_id);
    MBR_CPU_TAKE(mbr_line_open_request, asked, request, stream);
    if ((asked.flags & MBR_CPU_CRITICAL_FLAGS) != 0)
        return mbr_fail_argument(error, MBR_UNSUPPORTED, 1,
            "flags %#" PRIx32 ": no critical flag is defined for line_open", asked.flags);
    status = mbr_cpu_line_open(mbr_cpu_of(instance), asked.line_id, asked.stream, error);
    return mbr_cpu_answer_end(outcome, status, 0);
}

static uint64_t line_id_of(const mbr_line_request *request)
{
    return MBR_HAS(mbr_line_request, request, line_id) ? request->line_id : 0;
}

static mbr_status signal(
    mbr_instance *instance, const mbr_line_request *request, mbr_outcome *outcome, mbr_error *error)
{
    mbr_status status = mbr_cpu_answer_begin(request, outcome, error);
    if (status != MBR_OK)
        return status;
    mbr_cpu *cpu = mbr_cpu_of(instance);
    mbr_cpu_line *line = mbr_cpu_line_find(cpu, line_id_of(request), error);
    if (line == NULL)
        return MBR_UNKNOWN_OBJECT;
    /* The reference goes to the operation. */
    mbr_cpu_operation operation = {.kind = MBR_CPU_SIGNAL, .point = {line, 0}};
    status = mbr_cpu_submit(cpu, line->stream, &operation, MBR_CPU_ROOM_WAIT, error);
    if (status != MBR_OK)
        mbr_cpu_line_drop(line);
    return mbr_cpu_answer_end(outcome, status, operation.point.value);
}

static mbr_status reached(
    mbr_instance *instance, const mbr_line_request *request, mbr_outcome *outcome, mbr_error *error)
{
    mbr_status status = mbr_cpu_answer_begin(request, outcome, error);
    if (status != MBR_OK)
        return status;
    mbr_cpu_line *line = mbr_cpu_line_find(mbr_cpu_of(instance), line_id_of(request), error);
    if (line == NULL)
        return MBR_UNKNOWN_OBJECT;
    uint64_t value = atomic_load(&line->reached);
    mbr_cpu_line_drop(line);
    return mbr_cpu_answer_end(outcome, MBR_OK, value);
}

/* Only values that signal has returned can be waited for: they are sure to be reached. */
static mbr_status check_value(const mbr_cpu_line *line, uint64_t value, mbr_error *error)
{
    uint64_t signalled = atomic_load(&line->signalled);
    if (value == 0 || value > signalled)
        return mbr_fail_argument(error, MBR_INVALID_ARGUMENT, 3,
            "value %" PRIu64 " of line %" PRIu64 "; signal has returned 1 to %" PRIu64, value,
            line->id, signalled);
    return MBR_OK;
}

static mbr_status wait_for(
    mbr_cpu *cpu, mbr_cpu_line *line, const mbr_line_wait_request *asked, mbr_error *error)
{
    mbr_status status = check_value(line, asked->value, error);
    if (status != MBR_OK)
        return status;
    bool is_mine = mbr_cpu_stream_is_mine(cpu, line->stream);
    if (mbr_cpu_line_wait(line, asked->value, is_mine ? 0 : asked->deadline_ns))
        return MBR_OK;
    if (is_mine)
        return mbr_fail_argument(error, MBR_INVALID_ARGUMENT, 2,
            "a host function cannot wait for line %" PRIu64 " of its own stream", line->id);
    return mbr_fail_argument(error, MBR_TIMED_OUT, 4,
        "value %" PRIu64 " of line %" PRIu64 " was not reached by %" PRIu64 " ns", asked->value,
        line->id, asked->deadline_ns);
}

static mbr_status wait(mbr_instance *instance, const mbr_line_wait_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    mbr_status status = mbr_cpu_answer_begin(request, outcome, error);
    if (status != MBR_OK)
        return status;
    mbr_line_wait_request asked = {0};
    MBR_CPU_TAKE(mbr_line_wait_request, asked, request, line_id);
    MBR_CPU_TAKE(mbr_line_wait_request, asked, request, value);
    MBR_CPU_TAKE(mbr_line_wait_request, asked, request, deadline_ns);
    mbr_cpu *cpu = mbr_cpu_of(instance);
    mbr_cpu_line *line = mbr_cpu_line_find(cpu, asked.line_id, error);
    if (line == NULL)
        return MBR_UNKNOWN_OBJECT;
    status = wait_for(cpu, line, &asked, error);
    mbr_cpu_line_drop(line);
    return mbr_cpu_answer_end(outcome, status, asked.value);
}

static mbr_status enqueue_wait(
    mbr_cpu *cpu, mbr_cpu_line *line, const mbr_stream_wait_request *asked, mbr_error *error)
{
    mbr_status status = check_value(line, asked->value, error);
    if (status != MBR_OK)
        return status;
    mbr_cpu_operation operation = {.kind = MBR_CPU_WAIT, .point = {line, asked->value}};
    mbr_cpu_line_hold(line);
    status = mbr_cpu_submit(cpu, asked->stream, &operation, MBR_CPU_ROOM_NOW, error);
    if (status != MBR_OK)
        mbr_cpu_line_drop(line);
    return status;
}

static mbr_status stream_wait(mbr_instance *instance, const mbr_stream_wait_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    mbr_status status = mbr_cpu_answer_begin(request, outcome, error);
    if (status != MBR_OK)
        return status;
    mbr_stream_wait_request asked = {0};
    MBR_CPU_TAKE(mbr_stream_wait_request, asked, request, line_id);
    MBR_CPU_TAKE(mbr_stream_wait_request, asked, request, value);
    MBR_CPU_TAKE(mbr_stream_wait_request, asked, request, stream);
    mbr_cpu *cpu = mbr_cpu_of(instance);
    mbr_cpu_line *line = mbr_cpu_line_find(cpu, asked.line_id, error);
    if (line == NULL)
        return MBR_UNKNOWN_OBJECT;
    status = enqueue_wait(cpu, line, &asked, error);
    mbr_cpu_line_drop(line);
    return mbr_cpu_answer_end(outcome, status, asked.value);
}

static mbr_status line_close(
    mbr_instance *instance, const mbr_line_request *request, mbr_outcome *outcome, mbr_error *error)
{
    mbr_status status = mbr_cpu_answer_begin(request, outcome, error);
    if (status != MBR_OK)
        return status;
    status = mbr_cpu_line_close(mbr_cpu_of(instance), line_id_of(request), error);
    return mbr_cpu_answer_end(outcome, status, 0);
}

const mbr_order_vtable mbr_cpu_order_vtable = {
    MBR_SIZED(mbr_order_vtable),
    .kind = MBR_KIND_ORDER,
    .minor = MBR_MINOR_0,
    .line_open = line_open,
    .signal = signal,
    .reached = reached,
    .wait = wait,
    .stream_wait = stream_wait,
    .line_close = line_close,
};
