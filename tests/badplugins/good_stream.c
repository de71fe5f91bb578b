/* Responsible for streams over host memory, for tests: their queues, workers, fills and copies. One
 * lock and one condition an instance; work runs without the lock. Never judges an address: a wrong
 * one ends the process like any wrong pointer. No fault is here. */
#include "tests/badplugins/good_parts.h"

#include "abi/base/checked.h"
#include "abi/base/error.h"
#include "plugins/common/answer.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t orders_lock = PTHREAD_MUTEX_INITIALIZER;
static struct order *orders;

/* ---- The order of an instance ---------------------------------------------------------------- */

static struct order *create_order(mbr_instance *instance)
{
    struct order *order = calloc(1, sizeof *order);
    pthread_condattr_t attributes;
    if (order == NULL)
        return NULL;
    order->instance = instance;
    pthread_mutex_init(&order->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&order->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    order->next = orders;
    orders = order;
    return order;
}

/* Locked; NULL where the instance has none, or for want of memory. */
struct order *good_enter(mbr_instance *instance, bool may_create)
{
    pthread_mutex_lock(&orders_lock);
    struct order *order = orders;
    while (order != NULL && order->instance != instance)
        order = order->next;
    if (order == NULL && may_create)
        order = create_order(instance);
    if (order != NULL)
        pthread_mutex_lock(&order->lock);
    pthread_mutex_unlock(&orders_lock);
    return order;
}

mbr_status good_leave(struct order *order, mbr_status status)
{
    pthread_mutex_unlock(&order->lock);
    return status;
}

void good_attach(struct order *order, bool is_attached)
{
    pthread_mutex_lock(&orders_lock);
    struct order **link = &orders;
    while (*link != NULL && *link != order)
        link = &(*link)->next;
    if (is_attached) {
        order->next = orders;
        orders = order;
    } else if (*link != NULL) {
        *link = order->next;
    }
    pthread_mutex_unlock(&orders_lock);
}

/* False when the deadline has passed. */
bool good_await(struct order *order, uint64_t deadline_ns)
{
    const struct timespec until = {
        (time_t)(deadline_ns / 1000000000u), (long)(deadline_ns % 1000000000u)};
    if (deadline_ns > INT64_MAX)
        return pthread_cond_wait(&order->changed, &order->lock) == 0;
    return pthread_cond_timedwait(&order->changed, &order->lock, &until) == 0;
}

void good_line_drop(struct line *line)
{
    if (--line->reference_count != 0)
        return;
    line->stream->line_count--;
    free(line);
}

/* ---- Workers --------------------------------------------------------------------------------- */

static void run(struct order *order, const struct operation *operation)
{
    struct line *line = operation->line;
    if (operation->kind == FILL || operation->kind == COPY) {
        void *to = (void *)(uintptr_t)operation->to;
        pthread_mutex_unlock(&order->lock);
        if (operation->kind == FILL)
            memset(to, (int)(operation->value & 0xFF), operation->bytes);
        else
            memcpy(to, (const void *)(uintptr_t)operation->from, operation->bytes);
        pthread_mutex_lock(&order->lock);
        return;
    }
    if (operation->kind == SIGNAL)
        line->reached = operation->value;
    while (line->reached < operation->value)
        pthread_cond_wait(&order->changed, &order->lock);
    pthread_cond_broadcast(&order->changed);
    good_line_drop(line);
}

static void *work(void *argument)
{
    struct stream *stream = argument;
    struct order *order = stream->order;
    pthread_mutex_lock(&order->lock);
    while (stream->first != NULL || (stream->is_open && !order->is_ending)) {
        struct operation *operation = stream->first;
        if (operation == NULL) {
            pthread_cond_wait(&order->changed, &order->lock);
            continue;
        }
        stream->first = operation->next;
        if (stream->first == NULL)
            stream->end = &stream->first;
        run(order, operation);
        free(operation);
    }
    stream->is_done = true;
    pthread_cond_broadcast(&order->changed);
    pthread_mutex_unlock(&order->lock);
    return NULL;
}

/* Joins workers that are done, and frees what nobody refers to. */
void good_reap(struct order *order)
{
    for (struct stream **link = &order->streams, *stream; (stream = *link) != NULL;) {
        if (stream->has_worker && stream->is_done) {
            pthread_join(stream->worker, NULL);
            stream->has_worker = false;
        }
        if (stream->is_open || stream->has_worker || stream->line_count != 0) {
            link = &stream->next;
            continue;
        }
        *link = stream->next;
        free(stream);
    }
}

/* The host's signals are not for the worker. */
static mbr_status start(struct stream *stream, mbr_error *error)
{
    good_reap(stream->order);
    if (stream->has_worker)
        return MBR_OK;
    sigset_t all, before;
    sigfillset(&all);
    stream->is_done = false;
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int code = pthread_create(&stream->worker, NULL, work, stream);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    stream->has_worker = code == 0;
    return mbr_answer_errno(error, code, MBR_OUT_OF_HOST_MEMORY, "pthread_create", 0);
}

/* ---- Streams --------------------------------------------------------------------------------- */

struct stream *good_stream_find_value(struct order *order, uint64_t value)
{
    struct stream *stream = order->streams;
    while (stream != NULL && !(stream->is_open && stream->value == value))
        stream = stream->next;
    return stream;
}

struct stream *good_stream_find(
    struct order *order, mbr_native native, mbr_status *status, mbr_error *error)
{
    if (native.kind != MBR_NATIVE_STREAM_CPU) {
        *status = mbr_fail(error, MBR_INVALID_ARGUMENT, "a stream of kind %u; here they are of %d",
            native.kind, MBR_NATIVE_STREAM_CPU);
        return NULL;
    }
    struct stream *stream = good_stream_find_value(order, native.value);
    *status = stream != NULL ? MBR_OK
                             : mbr_fail(error, MBR_UNKNOWN_OBJECT,
                                   "no open stream has the value %" PRIu64, native.value);
    return stream;
}

static mbr_status stream_create(mbr_instance *instance, const mbr_stream_create_request *raw,
    mbr_stream_create_outcome *outcome, mbr_error *error)
{
    mbr_stream_create_request request;
    mbr_status status =
        mbr_answer_enter(instance, &request, sizeof request, raw, outcome, sizeof *outcome, error);
    if (status == MBR_OK)
        status = mbr_answer_check_flags(request.flags, 0, error);
    if (status != MBR_OK)
        return status;
    if (!MBR_HAS(mbr_stream_create_outcome, outcome, stream))
        return mbr_fail(error, MBR_INVALID_ARGUMENT, "the outcome has no room for the stream");
    struct order *order = good_enter(instance, true);
    struct stream *stream = order == NULL ? NULL : calloc(1, sizeof *stream);
    if (stream == NULL) {
        if (order != NULL)
            good_leave(order, MBR_OK);
        return mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no memory for a stream");
    }
    *stream = (struct stream){.order = order, .value = 1, .end = &stream->first};
    status = start(stream, error);
    if (status != MBR_OK) {
        free(stream);
        return good_leave(order, status);
    }
    while (good_stream_find_value(order, stream->value) != NULL)
        stream->value++;
    stream->is_open = true; /* the worker waits for the lock until here */
    stream->next = order->streams;
    order->streams = stream;
    outcome->stream = (mbr_native){.kind = MBR_NATIVE_STREAM_CPU, .value = stream->value};
    return good_leave(order, MBR_OK);
}

static mbr_status stream_destroy(mbr_instance *instance, const mbr_stream_destroy_request *request,
    mbr_outcome *answer, mbr_error *error)
{
    (void)answer;
    mbr_status status;
    struct order *order = good_enter(instance, true);
    if (order == NULL)
        return mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no memory for streams");
    struct stream *stream = good_stream_find(order, request->stream, &status, error);
    if (stream != NULL)
        stream->is_open = false;
    pthread_cond_broadcast(&order->changed);
    good_reap(order);
    return good_leave(order, status);
}

/* Enqueues a copy of `operation`; where it is refused nothing has happened. */
mbr_status good_submit(struct stream *stream, const struct operation *operation, mbr_error *error)
{
    mbr_status status = start(stream, error);
    if (status != MBR_OK)
        return status;
    struct operation *queued = malloc(sizeof *queued);
    if (queued == NULL)
        return mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no memory for an operation");
    *queued = *operation;
    queued->next = NULL;
    if (queued->line != NULL)
        queued->line->reference_count++;
    *stream->end = queued;
    stream->end = &queued->next;
    pthread_cond_broadcast(&stream->order->changed);
    return MBR_OK;
}

static mbr_status submit_to(
    mbr_instance *instance, mbr_native native, const struct operation *operation, mbr_error *error)
{
    uint64_t to_end, from_end;
    if (operation->bytes == 0 || operation->to == 0 ||
        (operation->kind == COPY && operation->from == 0))
        return mbr_fail(error, MBR_INVALID_ARGUMENT, "a size or an address is 0");
    if (!mbr_add(operation->to, operation->bytes, &to_end) ||
        !mbr_add(operation->from, operation->bytes, &from_end))
        return mbr_fail(error, MBR_OVERFLOW, "a range ends beyond 64 bits");
    if (operation->kind == COPY && operation->to < from_end && operation->from < to_end)
        return mbr_fail(error, MBR_INVALID_ARGUMENT, "the ranges overlap");
    mbr_status status;
    struct order *order = good_enter(instance, true);
    if (order == NULL)
        return mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no memory for streams");
    struct stream *stream = good_stream_find(order, native, &status, error);
    if (stream != NULL)
        status = good_submit(stream, operation, error);
    return good_leave(order, status);
}

static mbr_status fill(
    mbr_instance *instance, const mbr_fill_request *request, mbr_outcome *answer, mbr_error *error)
{
    (void)answer;
    const struct operation operation = {
        .kind = FILL, .to = request->address, .bytes = request->bytes, .value = request->pattern};
    return submit_to(instance, request->stream, &operation, error);
}

static mbr_status copy(
    mbr_instance *instance, const mbr_copy_request *request, mbr_outcome *answer, mbr_error *error)
{
    (void)answer;
    const struct operation operation = {.kind = COPY,
        .to = request->to_address,
        .from = request->from_address,
        .bytes = request->bytes};
    return submit_to(instance, request->stream, &operation, error);
}

MBR_ANSWER_CHANGE(static, slot_stream_destroy, stream_destroy, mbr_stream_destroy_request)
MBR_ANSWER_CHANGE(static, slot_fill, fill, mbr_fill_request)
MBR_ANSWER_CHANGE(static, slot_copy, copy, mbr_copy_request)

const mbr_transfer_vtable good_transfer = {MBR_SIZED(mbr_transfer_vtable),
    .kind = MBR_KIND_TRANSFER, .minor = MBR_MINOR_0, .stream_create = stream_create,
    .stream_destroy = slot_stream_destroy, .fill = slot_fill, .copy = slot_copy};
