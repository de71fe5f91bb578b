/* Responsible for lines over the streams of good_stream.c, and for the plugin's own slots, which
 * know both. No fault is here. */
#include "tests/badplugins/good_parts.h"

#include "abi/base/error.h"
#include "plugins/common/answer.h"
#include "plugins/host/core.h"

#include <inttypes.h>
#include <stdlib.h>

/* ---- Lines ----------------------------------------------------------------------------------- */

static struct line **find_line(struct order *order, uint64_t id)
{
    struct line **link = &order->lines;
    while (*link != NULL && (*link)->id != id)
        link = &(*link)->next;
    return link;
}

static mbr_status unknown_line(mbr_error *error, uint64_t id)
{
    return mbr_fail(error, MBR_UNKNOWN_OBJECT, "no open line has the id %" PRIu64, id);
}

/* ---- The slots of order ---------------------------------------------------------------------- */

static mbr_status line_open(mbr_instance *instance, const mbr_line_open_request *request,
    mbr_outcome *answer, mbr_error *error)
{
    (void)answer;
    mbr_status status = mbr_answer_check_flags(request->flags, 0, error);
    if (status != MBR_OK)
        return status;
    if (request->line_id == 0)
        return mbr_fail(error, MBR_INVALID_ARGUMENT, "the id is 0");
    struct order *order = good_enter(instance, true);
    struct line *line = order == NULL ? NULL : calloc(1, sizeof *line);
    struct stream *stream = NULL;
    if (order == NULL)
        return mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no memory for lines");
    if (line == NULL)
        status = mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no memory for a line");
    else if (*find_line(order, request->line_id) != NULL)
        status = mbr_fail(error, MBR_ALREADY_EXISTS, "line %" PRIu64 " is open", request->line_id);
    else
        stream = good_stream_find(order, request->stream, &status, error);
    if (stream == NULL) {
        free(line);
        return good_leave(order, status);
    }
    *line = (struct line){
        .id = request->line_id, .stream = stream, .reference_count = 1, .next = order->lines};
    stream->line_count++;
    order->lines = line;
    return good_leave(order, MBR_OK);
}

/* The order, locked, and the line; NULL with the error where there is none. */
static struct order *enter_line(
    mbr_instance *instance, uint64_t id, struct line **line, mbr_error *error)
{
    struct order *order = good_enter(instance, false);
    *line = order == NULL ? NULL : *find_line(order, id);
    if (*line != NULL)
        return order;
    if (order != NULL)
        good_leave(order, MBR_OK);
    unknown_line(error, id);
    return NULL;
}

static mbr_status signal_line(
    mbr_instance *instance, const mbr_line_request *request, mbr_outcome *answer, mbr_error *error)
{
    struct line *line;
    struct order *order = enter_line(instance, request->line_id, &line, error);
    if (order == NULL)
        return MBR_UNKNOWN_OBJECT;
    if (!line->stream->is_open)
        return good_leave(order,
            mbr_fail(error, MBR_UNKNOWN_OBJECT, "the stream of line %" PRIu64 " is gone",
                request->line_id));
    const struct operation operation = {.kind = SIGNAL, .line = line, .value = line->signalled + 1};
    mbr_status status = good_submit(line->stream, &operation, error);
    if (status == MBR_OK)
        answer->value = ++line->signalled;
    return good_leave(order, status);
}

static mbr_status reached(
    mbr_instance *instance, const mbr_line_request *request, mbr_outcome *answer, mbr_error *error)
{
    struct line *line;
    struct order *order = enter_line(instance, request->line_id, &line, error);
    if (order == NULL)
        return MBR_UNKNOWN_OBJECT;
    answer->value = line->reached;
    return good_leave(order, MBR_OK);
}

static mbr_status check_value(const struct line *line, uint64_t value, mbr_error *error)
{
    if (value != 0 && value <= line->signalled)
        return MBR_OK;
    return mbr_fail(error, MBR_INVALID_ARGUMENT,
        "value %" PRIu64 " of line %" PRIu64 "; signal has returned 1 to %" PRIu64, value, line->id,
        line->signalled);
}

static mbr_status wait_for_line(mbr_instance *instance, const mbr_line_wait_request *request,
    mbr_outcome *answer, mbr_error *error)
{
    (void)answer;
    struct line *line;
    struct order *order = enter_line(instance, request->line_id, &line, error);
    if (order == NULL)
        return MBR_UNKNOWN_OBJECT;
    mbr_status status = check_value(line, request->value, error);
    if (status != MBR_OK)
        return good_leave(order, status);
    bool is_in_time = true;
    line->reference_count++;
    while (line->reached < request->value && is_in_time)
        is_in_time = good_await(order, request->deadline_ns);
    if (line->reached < request->value)
        status = mbr_fail(error, MBR_TIMED_OUT, "value %" PRIu64 " of line %" PRIu64 " in time",
            request->value, line->id);
    good_line_drop(line);
    good_reap(order);
    return good_leave(order, status);
}

static mbr_status stream_wait(mbr_instance *instance, const mbr_stream_wait_request *request,
    mbr_outcome *answer, mbr_error *error)
{
    (void)answer;
    struct line *line;
    struct order *order = enter_line(instance, request->line_id, &line, error);
    if (order == NULL)
        return MBR_UNKNOWN_OBJECT;
    mbr_status status = check_value(line, request->value, error);
    struct stream *stream = NULL;
    if (status == MBR_OK)
        stream = good_stream_find(order, request->stream, &status, error);
    const struct operation operation = {.kind = WAIT, .line = line, .value = request->value};
    if (stream != NULL)
        status = good_submit(stream, &operation, error);
    return good_leave(order, status);
}

static mbr_status line_close(
    mbr_instance *instance, const mbr_line_request *request, mbr_outcome *answer, mbr_error *error)
{
    (void)answer;
    struct line *line;
    struct order *order = enter_line(instance, request->line_id, &line, error);
    if (order == NULL)
        return MBR_UNKNOWN_OBJECT;
    *find_line(order, line->id) = line->next;
    good_line_drop(line);
    good_reap(order);
    return good_leave(order, MBR_OK);
}

/* ---- The plugin's own slots ------------------------------------------------------------------ */

static bool has_workers(const struct order *order)
{
    for (const struct stream *stream = order->streams; stream != NULL; stream = stream->next)
        if (stream->has_worker && !stream->is_done)
            return true;
    return false;
}

static bool end_workers(struct order *order, uint64_t deadline_ns)
{
    bool is_in_time = true;
    order->is_ending = true;
    pthread_cond_broadcast(&order->changed);
    while (has_workers(order) && is_in_time)
        is_in_time = good_await(order, deadline_ns);
    bool is_done = !has_workers(order);
    order->is_ending = false;
    good_reap(order);
    return is_done;
}

static mbr_status quiesce(mbr_instance *instance, const mbr_quiesce_request *request,
    mbr_outcome *answer, mbr_error *error)
{
    (void)answer;
    struct order *order = good_enter(instance, false);
    if (order == NULL || end_workers(order, request->deadline_ns))
        return order == NULL ? MBR_OK : good_leave(order, MBR_OK);
    return good_leave(order, mbr_fail(error, MBR_TIMED_OUT, "streams still have work"));
}

static mbr_status report(
    mbr_instance *instance, const mbr_report_request *request, mbr_report *answer, mbr_error *error)
{
    answer->struct_size = sizeof *answer;
    mbr_status status = mbr_host_plugin.report(instance, request, answer, error);
    struct order *order = status == MBR_OK ? good_enter(instance, false) : NULL;
    if (order == NULL)
        return status;
    good_reap(order);
    for (const struct stream *stream = order->streams; stream != NULL; stream = stream->next) {
        answer->stream_count += stream->is_open;
        answer->thread_count += stream->has_worker;
    }
    for (const struct line *line = order->lines; line != NULL; line = line->next)
        answer->line_count++;
    return good_leave(order, MBR_OK);
}

static bool is_in_use(const struct order *order)
{
    for (const struct stream *stream = order->streams; stream != NULL; stream = stream->next)
        if (stream->is_open)
            return true;
    return order->lines != NULL;
}

static mbr_status close_instance(
    mbr_instance *instance, const mbr_close_request *request, mbr_outcome *answer, mbr_error *error)
{
    answer->struct_size = sizeof *answer;
    struct order *order = good_enter(instance, false);
    if (order == NULL)
        return mbr_host_plugin.close(instance, request, answer, error);
    if (is_in_use(order))
        return good_leave(order, mbr_fail(error, MBR_IN_USE, "lines or streams are open"));
    end_workers(order, UINT64_MAX);
    good_leave(order, MBR_OK);
    good_attach(order, false); /* before the instance's address may be another one's */
    mbr_status status = mbr_host_plugin.close(instance, request, answer, error);
    if (status != MBR_OK) {
        good_attach(order, true);
        return status;
    }
    pthread_cond_destroy(&order->changed);
    pthread_mutex_destroy(&order->lock);
    free(order);
    return MBR_OK;
}

MBR_ANSWER_CHANGE(, good_close, close_instance, mbr_close_request)
MBR_ANSWER_TELL(, good_report, report, mbr_report_request, mbr_report)
MBR_ANSWER_CHANGE(, good_quiesce, quiesce, mbr_quiesce_request)

/* ---- For faults ------------------------------------------------------------------------------ */

bool good_line_look(mbr_instance *instance, uint64_t id, struct good_line_view *view)
{
    struct line *line;
    struct order *order = enter_line(instance, id, &line, NULL);
    if (order == NULL)
        return false;
    *view = (struct good_line_view){line->signalled, line->reached,
        {.kind = MBR_NATIVE_STREAM_CPU, .value = line->stream->value}, line->stream->is_open};
    good_leave(order, MBR_OK);
    return true;
}

void good_stream_drop_work(mbr_instance *instance, mbr_native native)
{
    struct order *order = good_enter(instance, false);
    struct stream *stream = order == NULL ? NULL : good_stream_find_value(order, native.value);
    for (struct operation *one = stream == NULL ? NULL : stream->first; one != NULL;
         one = one->next)
        if (one->kind == FILL || one->kind == COPY)
            *one = (struct operation){.next = one->next, .kind = FILL};
    if (order != NULL)
        good_leave(order, MBR_OK);
}

/* ---- The table ------------------------------------------------------------------------------- */

MBR_ANSWER_CHANGE(static, slot_line_open, line_open, mbr_line_open_request)
MBR_ANSWER_CHANGE(static, slot_signal, signal_line, mbr_line_request)
MBR_ANSWER_CHANGE(static, slot_reached, reached, mbr_line_request)
MBR_ANSWER_CHANGE(static, slot_wait, wait_for_line, mbr_line_wait_request)
MBR_ANSWER_CHANGE(static, slot_stream_wait, stream_wait, mbr_stream_wait_request)
MBR_ANSWER_CHANGE(static, slot_line_close, line_close, mbr_line_request)

const mbr_order_vtable good_order = {MBR_SIZED(mbr_order_vtable), .kind = MBR_KIND_ORDER,
    .minor = MBR_MINOR_0, .line_open = slot_line_open, .signal = slot_signal,
    .reached = slot_reached, .wait = slot_wait, .stream_wait = slot_stream_wait,
    .line_close = slot_line_close};
