/* Lines: their values, their events, and who is inside. Never submits work of its own besides an
 * event, and never waits for the driver: a wait asks again and again. */
#include "plugins/common/lines.h"

#include "abi/base/assert.h"
#include "abi/base/checked.h"
#include "abi/base/error.h"

#include <inttypes.h>
#include <time.h>

#define FIRST_ROOM_COUNT 8u
#define SPIN_COUNT 64u /* looks of a wait before it sleeps in between */
#define PAUSE_FIRST_NS UINT64_C(2000)
#define PAUSE_LAST_NS UINT64_C(1000000)
#define PAUSE_SHARE 64 /* of the wait so far: so much of it is slept past its end at most */

struct mbr_line {
    struct mbr_object object; /* first; busy while it is opened or closed */
    uint64_t stream;
    uint32_t user_count; /* calls inside; guarded by the instance's lock */
    pthread_mutex_t lock;
    /* Guarded by `lock`. */
    uint64_t signalled, reached;
    uint64_t *events; /* of value v at v % room_count, which is a power of two */
    uint64_t room_count;
};

static const struct mbr_line_port *port_of(mbr_instance *instance)
{
    return mbr_objects_of(instance)->line_port;
}

static void lock_line(struct mbr_line *line)
{
    MBR_CHECK(pthread_mutex_lock(&line->lock) == 0);
}

static void unlock_line(struct mbr_line *line)
{
    MBR_CHECK(pthread_mutex_unlock(&line->lock) == 0);
}

static uint64_t *event_of_locked(const struct mbr_line *line, uint64_t value)
{
    return &line->events[value & (line->room_count - 1)];
}

/* ---- Who is inside -------------------------------------------------------------------------- */

static struct mbr_line *enter(
    mbr_instance *instance, uint64_t id, mbr_status *status, mbr_error *error)
{
    struct mbr_objects *objects = mbr_objects_of(instance);
    mbr_objects_lock(objects);
    struct mbr_line *line = mbr_object_enter_locked(&objects->lines, id, status, error);
    if (line) {
        line->object.busy = false; /* any number may be inside */
        line->user_count++;
    }
    mbr_objects_unlock(objects);
    if (line)
        lock_line(line);
    return line;
}

static mbr_status leave(mbr_instance *instance, struct mbr_line *line, mbr_status status)
{
    unlock_line(line);
    mbr_objects_lock(mbr_objects_of(instance));
    line->user_count--;
    mbr_objects_unlock(mbr_objects_of(instance));
    return status;
}

/* ---- Idle events ---------------------------------------------------------------------------- */

/* There is room for all events that were made, so that one can always be put back. */
static bool count_event_locked(struct mbr_objects *objects)
{
    struct mbr_idle_events *idle = &objects->idle_events;
    if (idle->made_count == idle->room_count) {
        uint64_t room_count = mbr_max(2 * idle->room_count, FIRST_ROOM_COUNT);
        uint64_t *events = mbr_heap_allocate(&objects->heap, room_count * sizeof(*events));
        if (!events)
            return false;
        for (uint64_t i = 0; i < idle->count; i++)
            events[i] = idle->events[i];
        mbr_heap_release(&objects->heap, idle->events);
        idle->events = events;
        idle->room_count = room_count;
    }
    idle->made_count++;
    return true;
}

static void put_event(struct mbr_objects *objects, uint64_t event)
{
    mbr_objects_lock(objects);
    objects->idle_events.events[objects->idle_events.count++] = event;
    mbr_objects_unlock(objects);
}

static void drop_event(mbr_instance *instance, uint64_t event)
{
    struct mbr_objects *objects = mbr_objects_of(instance);
    port_of(instance)->event_destroy(instance, event);
    mbr_objects_lock(objects);
    objects->idle_events.made_count--;
    mbr_objects_unlock(objects);
}

static mbr_status take_event(mbr_instance *instance, uint64_t *event, mbr_error *error)
{
    struct mbr_objects *objects = mbr_objects_of(instance);
    struct mbr_idle_events *idle = &objects->idle_events;
    mbr_objects_lock(objects);
    bool is_idle = idle->count > 0;
    if (is_idle)
        *event = idle->events[--idle->count];
    bool is_counted = is_idle || count_event_locked(objects);
    mbr_objects_unlock(objects);
    if (!is_counted)
        return mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no heap for the table of events");
    mbr_status status = is_idle ? MBR_OK : port_of(instance)->event_create(instance, event, error);
    if (status != MBR_OK) {
        mbr_objects_lock(objects);
        idle->made_count--;
        mbr_objects_unlock(objects);
    }
    return status;
}

/* A stream of another context or device takes none of our events: told when the line is opened, and
 * not when a free waits behind it already. */
static mbr_status try_stream(mbr_instance *instance, uint64_t stream, mbr_error *error)
{
    uint64_t event = 0;
    mbr_status status = take_event(instance, &event, error);
    if (status != MBR_OK)
        return status;
    status = port_of(instance)->event_record(instance, event, stream, error);
    if (status == MBR_OK)
        put_event(mbr_objects_of(instance), event); /* recorded anew before it is asked for */
    else
        drop_event(instance, event);
    return status;
}

void mbr_lines_finish(mbr_instance *instance)
{
    struct mbr_objects *objects = mbr_objects_of(instance);
    struct mbr_idle_events *idle = &objects->idle_events;
    MBR_CHECK(idle->count == idle->made_count);
    while (idle->count > 0)
        port_of(instance)->event_destroy(instance, idle->events[--idle->count]);
    mbr_heap_release(&objects->heap, idle->events);
    *idle = (struct mbr_idle_events){0};
}

/* ---- Values --------------------------------------------------------------------------------- */

/* Makes room for one more pending value. */
static bool reserve_locked(const mbr_heap *heap, struct mbr_line *line)
{
    uint64_t pending_count = line->signalled - line->reached;
    if (pending_count < line->room_count)
        return true;
    uint64_t room_count = mbr_max(2 * line->room_count, FIRST_ROOM_COUNT);
    uint64_t *events = mbr_heap_allocate(heap, room_count * sizeof(*events));
    if (!events)
        return false;
    for (uint64_t value = line->reached + 1; value <= line->signalled; value++)
        events[value & (room_count - 1)] = *event_of_locked(line, value);
    mbr_heap_release(heap, line->events);
    line->events = events;
    line->room_count = room_count;
    return true;
}

/* Asks for the pending values, the oldest first, up to one that is not done. */
static mbr_status look_locked(mbr_instance *instance, struct mbr_line *line, mbr_error *error)
{
    mbr_status status = MBR_OK;
    while (line->reached < line->signalled) {
        uint64_t event = *event_of_locked(line, line->reached + 1);
        status = port_of(instance)->event_query(instance, event, error);
        if (status != MBR_OK)
            break;
        line->reached++;
        put_event(mbr_objects_of(instance), event);
    }
    return status == MBR_NOT_READY ? MBR_OK : status;
}

static mbr_status check_value_locked(const struct mbr_line *line, uint64_t value, mbr_error *error)
{
    if (value != 0 && value <= line->signalled)
        return MBR_OK;
    return mbr_fail(error, MBR_INVALID_ARGUMENT,
        "value %" PRIu64 " of line %" PRIu64 "; signal has returned 1 to %" PRIu64, value,
        line->object.id, line->signalled);
}

/* ---- Slots ---------------------------------------------------------------------------------- */

static mbr_status line_open(mbr_instance *instance, const mbr_line_open_request *request,
    mbr_outcome *answer, mbr_error *error)
{
    struct mbr_objects *objects = mbr_objects_of(instance);
    (void)answer;
    mbr_status status = mbr_answer_check_flags(request->flags, 0, error);
    if (status == MBR_OK)
        status = mbr_answer_check_stream(request->stream, objects->stream_kind, error);
    if (status == MBR_OK && request->line_id == 0)
        status = mbr_fail(error, MBR_INVALID_ARGUMENT, "the id is 0");
    if (status == MBR_OK)
        status = port_of(instance)->check_stream(instance, request->stream.value, error);
    if (status == MBR_OK)
        status = try_stream(instance, request->stream.value, error);
    if (status != MBR_OK && status != MBR_BUSY) /* a capture ends */
        return status;
    struct mbr_line *line = mbr_object_create(
        objects, &objects->lines, request->line_id, 0, sizeof(*line), &status, error);
    if (!line)
        return status;
    line->stream = request->stream.value;
    MBR_CHECK(pthread_mutex_init(&line->lock, NULL) == 0);
    mbr_object_leave(objects, &line->object);
    return MBR_OK;
}

static mbr_status signal_locked(mbr_instance *instance, struct mbr_line *line, mbr_error *error)
{
    struct mbr_objects *objects = mbr_objects_of(instance);
    uint64_t event = 0;
    if (!reserve_locked(&objects->heap, line))
        return mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no heap for %" PRIu64 " pending values",
            line->signalled - line->reached + 1);
    mbr_status status = take_event(instance, &event, error);
    if (status != MBR_OK)
        return status;
    status = port_of(instance)->event_record(instance, event, line->stream, error);
    if (status != MBR_OK) { /* nobody knows what it stands for now */
        drop_event(instance, event);
        return status;
    }
    *event_of_locked(line, ++line->signalled) = event;
    return MBR_OK;
}

static mbr_status signal_line(
    mbr_instance *instance, const mbr_line_request *request, mbr_outcome *answer, mbr_error *error)
{
    mbr_status status = MBR_OK;
    struct mbr_line *line = enter(instance, request->line_id, &status, error);
    if (!line)
        return status;
    status = signal_locked(instance, line, error);
    if (status == MBR_OK)
        answer->value = line->signalled;
    return leave(instance, line, status);
}

static mbr_status reached(
    mbr_instance *instance, const mbr_line_request *request, mbr_outcome *answer, mbr_error *error)
{
    mbr_status status = MBR_OK;
    struct mbr_line *line = enter(instance, request->line_id, &status, error);
    if (!line)
        return status;
    status = look_locked(instance, line, error);
    if (status == MBR_OK)
        answer->value = line->reached;
    return leave(instance, line, status);
}

/* Between two looks of a wait that takes `waited_ns` already. */
static void pause_between(uint64_t waited_ns, uint64_t most_ns)
{
    uint64_t pause_ns = mbr_max(waited_ns / PAUSE_SHARE, PAUSE_FIRST_NS);
    pause_ns = mbr_min(mbr_min(pause_ns, PAUSE_LAST_NS), most_ns);
    const struct timespec pause = {.tv_nsec = (long)pause_ns};
    (void)nanosleep(&pause, NULL); /* a signal only means one more look */
}

/* Looks again and again; the line's lock is not held in between. */
static mbr_status await_locked(mbr_instance *instance, struct mbr_line *line, uint64_t value,
    uint64_t deadline_ns, mbr_error *error)
{
    uint64_t begin_ns = mbr_clock_now(&mbr_clock_monotonic);
    for (uint32_t look_count = 0;; look_count++) {
        mbr_status status = look_locked(instance, line, error);
        if (status != MBR_OK || line->reached >= value)
            return status;
        uint64_t now_ns = mbr_clock_now(&mbr_clock_monotonic);
        if (now_ns >= deadline_ns)
            return mbr_fail(error, MBR_TIMED_OUT,
                "line %" PRIu64 " has reached %" PRIu64 ", not %" PRIu64, line->object.id,
                line->reached, value);
        unlock_line(line);
        if (look_count >= SPIN_COUNT)
            pause_between(now_ns - begin_ns, deadline_ns - now_ns);
        lock_line(line);
    }
}

static mbr_status wait_for_line(mbr_instance *instance, const mbr_line_wait_request *request,
    mbr_outcome *answer, mbr_error *error)
{
    mbr_status status = MBR_OK;
    (void)answer;
    struct mbr_line *line = enter(instance, request->line_id, &status, error);
    if (!line)
        return status;
    status = check_value_locked(line, request->value, error);
    if (status == MBR_OK && line->reached < request->value)
        status = await_locked(instance, line, request->value, request->deadline_ns, error);
    return leave(instance, line, status);
}

static mbr_status stream_wait(mbr_instance *instance, const mbr_stream_wait_request *request,
    mbr_outcome *answer, mbr_error *error)
{
    mbr_status status =
        mbr_answer_check_stream(request->stream, mbr_objects_of(instance)->stream_kind, error);
    (void)answer;
    if (status != MBR_OK)
        return status;
    struct mbr_line *line = enter(instance, request->line_id, &status, error);
    if (!line)
        return status;
    status = check_value_locked(line, request->value, error);
    if (status == MBR_OK)
        status = look_locked(instance, line, error);
    if (status == MBR_OK && line->reached < request->value)
        status = port_of(instance)->stream_wait(
            instance, request->stream.value, *event_of_locked(line, request->value), error);
    return leave(instance, line, status);
}

static mbr_status line_close(
    mbr_instance *instance, const mbr_line_request *request, mbr_outcome *answer, mbr_error *error)
{
    struct mbr_objects *objects = mbr_objects_of(instance);
    mbr_status status = MBR_OK;
    (void)answer;
    mbr_objects_lock(objects);
    struct mbr_line *line =
        mbr_object_enter_locked(&objects->lines, request->line_id, &status, error);
    if (line && line->user_count > 0) {
        status = mbr_fail(error, MBR_BUSY, "line %" PRIu64 " is in another call", request->line_id);
        line->object.busy = false;
    }
    mbr_objects_unlock(objects);
    if (status != MBR_OK)
        return status;
    /* Also pending ones: whoever waits on one goes on waiting for the point that it stood for. */
    for (uint64_t value = line->reached + 1; value <= line->signalled; value++)
        put_event(objects, *event_of_locked(line, value));
    mbr_heap_release(&objects->heap, line->events);
    MBR_CHECK(pthread_mutex_destroy(&line->lock) == 0);
    mbr_object_end(objects, &objects->lines, &line->object);
    return MBR_OK;
}

/* The lowest id of a line above `id`, or 0: an order that stands while lines are opened and closed,
 * which moves what is in the table. */
static uint64_t next_line(struct mbr_objects *objects, uint64_t id)
{
    const struct mbr_id_table *ids = &objects->lines.ids;
    uint64_t next = 0;
    mbr_objects_lock(objects);
    for (uint64_t i = 0; i < ids->slot_count; i++)
        if (ids->slots[i].id > id && (next == 0 || ids->slots[i].id < next))
            next = ids->slots[i].id;
    mbr_objects_unlock(objects);
    return next;
}

/* Work in flight is over when every line has reached what was signalled, or never will. */
static mbr_status quiesce(mbr_instance *instance, const mbr_quiesce_request *request,
    mbr_outcome *answer, mbr_error *error)
{
    mbr_error cause = {MBR_SIZED(mbr_error)};
    uint64_t id = 0;
    (void)answer;
    while ((id = next_line(mbr_objects_of(instance), id)) != 0) {
        mbr_status status = MBR_OK;
        struct mbr_line *line = enter(instance, id, &status, NULL);
        if (!line)
            continue;
        status = await_locked(instance, line, line->signalled, request->deadline_ns, &cause);
        if (leave(instance, line, status) == MBR_TIMED_OUT) {
            mbr_error_copy(error, &cause);
            return MBR_TIMED_OUT;
        }
    }
    return MBR_OK;
}

MBR_ANSWER_CHANGE(, mbr_line_slot_quiesce, quiesce, mbr_quiesce_request)
MBR_ANSWER_CHANGE(, mbr_line_slot_open, line_open, mbr_line_open_request)
MBR_ANSWER_CHANGE(, mbr_line_slot_signal, signal_line, mbr_line_request)
MBR_ANSWER_CHANGE(, mbr_line_slot_reached, reached, mbr_line_request)
MBR_ANSWER_CHANGE(, mbr_line_slot_wait, wait_for_line, mbr_line_wait_request)
MBR_ANSWER_CHANGE(, mbr_line_slot_stream_wait, stream_wait, mbr_stream_wait_request)
MBR_ANSWER_CHANGE(, mbr_line_slot_close, line_close, mbr_line_request)
