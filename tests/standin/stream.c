/* Streams and events: who waits for whom, and what a caller may ask. Runs nothing (queue.c does).
 */
#include "tests/standin/queue.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

/* Objects that were destroyed are kept for a while, so that their use is seen. */
#define KEPT_MAX_COUNT 4096

static struct sim_event *events; /* alive */
static struct sim_event *kept;   /* destroyed */
static uint32_t kept_count;
static uint64_t hang_at; /* of the count of records; 0: none */
static uint64_t record_count;
static struct sim_point **hung_points;
static uint32_t hung_count;

struct sim_point *sim_point_hold(struct sim_point *point)
{
    if (point)
        point->reference_count++;
    return point;
}

void sim_point_drop(struct sim_point *point)
{
    if (point && --point->reference_count == 0)
        free(point);
}

struct sim_point *sim_point_new(void)
{
    struct sim_point *point = calloc(1, sizeof *point);
    if (!point)
        abort();
    point->reference_count = 1;
    return point;
}

/* ---- Streams ---- */

static struct sim_stream *stream_new(struct sim_context *context, bool is_blocking)
{
    struct sim_stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        abort();
    stream->magic = SIM_STREAM_ALIVE;
    stream->is_blocking = is_blocking;
    stream->context = context;
    DL_APPEND(context->streams, stream);
    return stream;
}

static struct sim_stream *legacy_of(struct sim_context *context)
{
    if (!context->legacy) {
        context->legacy = stream_new(context, false);
        context->legacy->is_internal = true;
    }
    return context->legacy;
}

static struct sim_stream *own_of(struct sim_context *context)
{
    uint64_t self = sim_thread_id();
    struct sim_stream *stream;
    DL_FOREACH(context->streams, stream)
    if (stream->owner == self)
        return stream;
    stream = stream_new(context, true);
    stream->is_internal = true;
    stream->owner = self;
    return stream;
}

int sim_stream_of(uintptr_t name, struct sim_stream **found)
{
    struct sim_context *context = sim_current();
    if (name > 2) {
        struct sim_stream *stream = (struct sim_stream *)name; // NOLINT: what the caller was given
        if (stream->magic != SIM_STREAM_ALIVE)
            sim_misuse("a stream is used after it was destroyed");
        *found = stream;
        return sim.devices[stream->context->device].lost;
    }
    if (!context)
        return SIM_INVALID_CONTEXT;
    if (!context->is_active)
        return SIM_CONTEXT_IS_DESTROYED;
    *found = name == 2 ? own_of(context) : legacy_of(context);
    return sim.devices[context->device].lost;
}

bool sim_is_stream(uintptr_t name)
{
    bool is_found = name <= 2;
    for (uint32_t i = 0; i < sim.options.device_count && !is_found; i++) {
        struct sim_stream *stream;
        DL_FOREACH(sim.devices[i].context.streams, stream)
        is_found = is_found || ((uintptr_t)stream == name && stream->magic == SIM_STREAM_ALIVE);
    }
    return is_found;
}

int sim_stream_create(struct sim_stream **stream, bool is_blocking, int priority)
{
    *stream = stream_new(sim_current(), is_blocking);
    (*stream)->priority = priority;
    sim.ledger.stream_count++;
    return SIM_OK;
}

/* D30: what is queued still runs. */
int sim_stream_destroy(uintptr_t name)
{
    if (name <= 2)
        return SIM_INVALID_HANDLE;
    struct sim_stream *stream;
    int status = sim_stream_of(name, &stream);
    if (stream->capture)
        sim_capture_break(stream->capture);
    stream->capture = NULL;
    stream->magic = SIM_DEAD;
    stream->is_destroyed = true;
    sim.ledger.stream_count--;
    sim_stream_end(stream);
    return status;
}

/* What a query answers. A lazy device does no more than it has to, but whoever asks gets on. */
static int is_done(const struct sim_point *point)
{
    if (!point || point->is_done)
        return SIM_OK;
    if (sim.options.mode == STANDIN_LAZY)
        sim_step(1);
    return SIM_NOT_READY;
}

int sim_stream_query(uintptr_t name)
{
    struct sim_stream *stream;
    int status = sim_stream_of(name, &stream);
    if (status != SIM_OK)
        return status;
    if (stream->capture) {
        sim_capture_break(stream->capture);
        return SIM_CAPTURE_UNSUPPORTED;
    }
    return is_done(stream->tail);
}

int sim_stream_synchronize(uintptr_t name)
{
    struct sim_stream *stream;
    int status = sim_stream_of(name, &stream);
    if (status != SIM_OK)
        return status;
    if (stream->capture) {
        sim_capture_break(stream->capture);
        return SIM_CAPTURE_UNSUPPORTED;
    }
    struct sim_context *context = stream->context;
    struct sim_point *tail = sim_point_hold(stream->tail);
    if (tail)
        sim_await(tail);
    sim_point_drop(tail);
    return sim.devices[context->device].lost;
}

void sim_stream_add_wait(struct sim_stream *stream, struct sim_point *point)
{
    if (!point || point->is_done)
        return;
    size_t bytes = (stream->wait_count + 1) * sizeof(struct sim_point *);
    struct sim_point **waits = realloc(stream->waits, bytes);
    if (!waits)
        abort();
    stream->waits = waits;
    waits[stream->wait_count++] = sim_point_hold(point);
}

int sim_stream_wait(uintptr_t name, struct sim_event *event)
{
    struct sim_stream *stream;
    int status = sim_stream_of(name, &stream);
    if (!event)
        return SIM_INVALID_HANDLE;
    sim_event_check(event);
    if (status != SIM_OK)
        return status;
    if (stream->capture || sim_is_captured(event))
        return sim_capture_wait(stream, event);
    sim_stream_add_wait(stream, event->point);
    return SIM_OK;
}

void sim_stream_free(struct sim_stream *stream)
{
    DL_DELETE(stream->context->streams, stream);
    if (stream->context->legacy == stream)
        stream->context->legacy = NULL;
    for (uint32_t i = 0; i < stream->wait_count; i++)
        sim_point_drop(stream->waits[i]);
    free(stream->waits);
    sim_point_drop(stream->tail);
    sim_stream_keep(stream);
}

/* ---- Events ---- */

void sim_event_check(const struct sim_event *event)
{
    if (event->magic != SIM_EVENT_ALIVE)
        sim_misuse("an event is used after it was destroyed");
}

static int loss_of(const struct sim_event *event)
{
    return sim.devices[event->context->device].lost;
}

int sim_event_create(struct sim_event **made, bool has_time)
{
    struct sim_event *event = calloc(1, sizeof *event);
    if (!event)
        return SIM_OUT_OF_MEMORY;
    *event = (struct sim_event){
        .magic = SIM_EVENT_ALIVE, .has_time = has_time, .context = sim_current()};
    DL_APPEND(events, event);
    sim.ledger.event_count++;
    *made = event;
    return SIM_OK;
}

static void keep(struct sim_event *event)
{
    DL_DELETE(events, event);
    DL_APPEND(kept, event);
    if (++kept_count <= KEPT_MAX_COUNT)
        return;
    struct sim_event *oldest = kept;
    DL_DELETE(kept, oldest);
    kept_count--;
    free(oldest);
}

/* D30: who waits for it waits for its point. */
int sim_event_destroy(struct sim_event *event)
{
    if (!event)
        return SIM_INVALID_HANDLE;
    sim_event_check(event);
    int status = loss_of(event);
    sim_point_drop(event->point);
    event->point = NULL;
    event->magic = SIM_DEAD;
    sim.ledger.event_count--;
    keep(event);
    return status;
}

/* A point that only sim_release_events ends. */
static struct sim_point *hung_point(void)
{
    struct sim_point **points = realloc(hung_points, (hung_count + 1) * sizeof(struct sim_point *));
    if (!points)
        abort();
    hung_points = points;
    points[hung_count] = sim_point_new();
    return sim_point_hold(points[hung_count++]);
}

/* D29: a record forgets the one before. */
int sim_event_record(struct sim_event *event, uintptr_t name)
{
    if (!event)
        return SIM_INVALID_HANDLE;
    sim_event_check(event);
    struct sim_stream *stream;
    int status = sim_stream_of(name, &stream);
    if (status != SIM_OK)
        return status;
    if (stream->context != event->context)
        return SIM_INVALID_HANDLE;
    if (stream->capture) {
        sim_capture_record(stream, event);
        return SIM_OK;
    }
    struct sim_work work = {.kind = SIM_NOTHING};
    struct sim_point *point;
    status = sim_submit(stream, &work, &point);
    if (status != SIM_OK)
        return status;
    if (++record_count == hang_at) {
        sim_point_drop(point);
        point = hung_point();
    }
    sim_point_drop(event->point);
    event->point = point;
    event->capture = NULL;
    return SIM_OK;
}

int sim_event_query(struct sim_event *event)
{
    if (!event)
        return SIM_INVALID_HANDLE;
    sim_event_check(event);
    if (loss_of(event) != SIM_OK)
        return loss_of(event);
    if (sim_is_captured(event)) {
        sim_capture_break(event->capture);
        return SIM_CAPTURED_EVENT;
    }
    return is_done(event->point);
}

int sim_event_synchronize(struct sim_event *event)
{
    int status = sim_event_query(event);
    if (status != SIM_NOT_READY)
        return status;
    const struct sim_context *context = event->context;
    struct sim_point *point = sim_point_hold(event->point);
    sim_await(point);
    sim_point_drop(point);
    return sim.devices[context->device].lost;
}

int sim_event_elapsed(float *milliseconds, struct sim_event *start, struct sim_event *end)
{
    if (!start || !end)
        return SIM_INVALID_HANDLE;
    sim_event_check(start);
    sim_event_check(end);
    if (!start->has_time || !end->has_time || !start->point || !end->point)
        return SIM_INVALID_HANDLE;
    if (loss_of(start) != SIM_OK)
        return loss_of(start);
    if (!start->point->is_done || !end->point->is_done)
        return SIM_NOT_READY;
    *milliseconds = (float)((double)(end->point->done_ns - start->point->done_ns) / 1e6);
    return SIM_OK;
}

void sim_hang_event(uint64_t record_index)
{
    hang_at = record_index ? record_count + record_index : 0;
}

void sim_release_events(void)
{
    for (uint32_t i = 0; i < hung_count; i++) {
        hung_points[i]->is_done = true;
        sim_point_drop(hung_points[i]);
    }
    free(hung_points);
    hung_points = NULL;
    hung_count = 0;
    pthread_cond_broadcast(&sim_changed);
}

static void events_free(struct sim_event **list)
{
    while (*list) {
        struct sim_event *event = *list;
        DL_DELETE(*list, event);
        sim_point_drop(event->point);
        free(event);
    }
}

void sim_events_finish(void)
{
    sim_release_events();
    hang_at = 0;
    events_free(&events);
    events_free(&kept);
    kept_count = 0;
}
