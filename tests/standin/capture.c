/* Captures of streams and the graphs that come of them. A graph is its pieces of work in the order
 * in which they were captured, which respects every wait; it is replayed in that order. */
#include "tests/standin/queue.h"

#include <stdlib.h>
#include <utlist.h>

struct sim_capture {
    uint64_t id;
    enum sim_capture_mode mode;
    uint64_t owner; /* the thread that began it */
    struct sim_stream *origin;
    bool is_broken;
    struct sim_graph *graph;
    struct sim_capture *prev;
    struct sim_capture *next;
};

static struct sim_capture *captures;
static uint64_t last_id;
static struct sim_graph *graphs_kept;
static _Thread_local uint32_t own_mode; /* SIM_CAPTURE_GLOBAL at first */

/* ---- Which calls may be made ---- */

int sim_capture_forbids(void)
{
    struct sim_capture *capture;
    bool conflicts = false;
    if (own_mode == SIM_CAPTURE_RELAXED)
        return SIM_OK;
    DL_FOREACH(captures, capture)
    {
        bool is_own = capture->owner == sim_thread_id() && capture->mode != SIM_CAPTURE_RELAXED;
        bool is_everybodys = capture->mode == SIM_CAPTURE_GLOBAL && own_mode == SIM_CAPTURE_GLOBAL;
        if (!is_own && !is_everybodys)
            continue;
        capture->is_broken = true;
        conflicts = true;
    }
    return conflicts ? SIM_CAPTURE_UNSUPPORTED : SIM_OK;
}

int sim_capture_exchange(uint32_t *mode)
{
    if (!mode)
        return SIM_INVALID_VALUE;
    uint32_t old = own_mode;
    /* Nothing is said about a mode that is none: it protects from the most. */
    own_mode = *mode > SIM_CAPTURE_RELAXED ? SIM_CAPTURE_GLOBAL : *mode;
    sim.ledger.lenient_mode_count += own_mode != *mode;
    *mode = old;
    return SIM_OK;
}

void sim_capture_break(struct sim_capture *capture)
{
    capture->is_broken = true;
}

/* The default stream would wait for a blocking stream, and that is capturing. */
static bool is_beside_a_capture(const struct sim_stream *stream)
{
    struct sim_stream *other;
    if (stream == stream->context->legacy)
        DL_FOREACH(stream->context->streams, other)
    if (other->capture && other->is_blocking)
        return true;
    return false;
}

int sim_capture_implicit(struct sim_stream *stream)
{
    struct sim_stream *other;
    if (!is_beside_a_capture(stream))
        return SIM_OK;
    DL_FOREACH(stream->context->streams, other)
    if (other->capture && other->is_blocking)
        other->capture->is_broken = true;
    return SIM_CAPTURE_IMPLICIT;
}

/* ---- A capture's life ---- */

static struct sim_graph *graph_new(void)
{
    struct sim_graph *graph = calloc(1, sizeof *graph);
    if (!graph)
        abort();
    graph->magic = SIM_GRAPH_ALIVE;
    return graph;
}

int sim_capture_begin(uintptr_t name, enum sim_capture_mode mode)
{
    struct sim_stream *stream;
    int status = sim_stream_of(name, &stream);
    if (status != SIM_OK)
        return status;
    if (mode > SIM_CAPTURE_RELAXED)
        return SIM_INVALID_VALUE;
    if (stream->is_internal && !stream->owner)
        return SIM_CAPTURE_UNSUPPORTED;
    if (stream->capture)
        return SIM_ILLEGAL_STATE;
    struct sim_capture *capture = calloc(1, sizeof *capture);
    if (!capture)
        abort();
    *capture = (struct sim_capture){.id = ++last_id,
        .mode = mode,
        .owner = sim_thread_id(),
        .origin = stream,
        .graph = graph_new()};
    DL_APPEND(captures, capture);
    stream->capture = capture;
    return SIM_OK;
}

static void works_free(struct sim_graph *graph)
{
    free(graph->works);
    free(graph);
}

/* Lets its streams go, and says whether all came back to the origin. */
static bool leave_streams(const struct sim_capture *capture)
{
    bool is_joined = true;
    for (uint32_t i = 0; i < sim.options.device_count; i++) {
        struct sim_stream *stream;
        DL_FOREACH(sim.devices[i].context.streams, stream)
        {
            if (stream->capture != capture)
                continue;
            is_joined =
                is_joined && (stream == capture->origin || stream->joined == stream->captured);
            stream->capture = NULL;
            stream->captured = stream->joined = 0;
        }
    }
    return is_joined;
}

int sim_capture_end(uintptr_t name, struct sim_graph **graph)
{
    struct sim_stream *stream;
    int status = sim_stream_of(name, &stream);
    if (status != SIM_OK)
        return status;
    struct sim_capture *capture = stream->capture;
    if (!capture)
        return SIM_ILLEGAL_STATE;
    bool is_stranger = capture->owner != sim_thread_id() && capture->mode != SIM_CAPTURE_RELAXED;
    bool is_joined = leave_streams(capture);
    status = is_stranger            ? SIM_CAPTURE_WRONG_THREAD
        : capture->is_broken        ? SIM_CAPTURE_INVALIDATED
        : stream != capture->origin ? SIM_CAPTURE_UNJOINED
        : is_joined                 ? SIM_OK
                                    : SIM_CAPTURE_UNJOINED;
    if (status == SIM_OK) {
        *graph = capture->graph;
        sim.ledger.graph_count++;
    } else {
        works_free(capture->graph);
    }
    DL_DELETE(captures, capture);
    free(capture);
    return status;
}

int sim_capture_status(uintptr_t name, uint32_t *state)
{
    struct sim_stream *stream;
    int status = sim_stream_of(name, &stream);
    if (status != SIM_OK)
        return status;
    if (is_beside_a_capture(stream))
        return SIM_CAPTURE_IMPLICIT;
    *state = !stream->capture ? 0 : stream->capture->is_broken ? 2 : 1;
    return status;
}

/* ---- What is captured ---- */

static void work_add(struct sim_graph *graph, const struct sim_work *work)
{
    if (graph->work_count == graph->work_room) {
        uint32_t room = graph->work_room ? 2 * graph->work_room : 8;
        struct sim_work *works = realloc(graph->works, room * sizeof *works);
        if (!works)
            abort();
        graph->works = works;
        graph->work_room = room;
    }
    graph->works[graph->work_count++] = *work;
}

int sim_capture_add(struct sim_stream *stream, struct sim_work *work)
{
    struct sim_capture *capture = stream->capture;
    if (capture->is_broken)
        return SIM_CAPTURE_INVALIDATED;
    work_add(capture->graph, work);
    stream->captured++;
    return SIM_OK;
}

static struct sim_capture *capture_of(const struct sim_event *event)
{
    struct sim_capture *capture;
    DL_FOREACH(captures, capture)
    if (capture == event->capture && capture->id == event->capture_id)
        return capture;
    return NULL;
}

bool sim_is_captured(const struct sim_event *event)
{
    return event->capture && capture_of(event);
}

void sim_capture_record(struct sim_stream *stream, struct sim_event *event)
{
    event->capture = stream->capture;
    event->capture_id = stream->capture->id;
    event->captured_from = stream;
    event->captured = stream->captured;
}

/* A stream outside that waits for a captured event joins the capture; one inside may wait for
 * nothing that is outside. */
int sim_capture_wait(struct sim_stream *stream, struct sim_event *event)
{
    struct sim_capture *capture = capture_of(event);
    if (stream->capture && stream->capture->is_broken)
        return SIM_CAPTURE_INVALIDATED;
    if (stream->capture && !capture) {
        if (!event->point)
            return SIM_OK;
        stream->capture->is_broken = true;
        return SIM_CAPTURE_ISOLATION;
    }
    if (stream->capture && stream->capture != capture) {
        stream->capture->is_broken = capture->is_broken = true;
        return SIM_CAPTURE_MERGE;
    }
    if (capture->is_broken)
        return SIM_CAPTURE_INVALIDATED;
    if (!stream->capture) {
        stream->capture = capture;
        stream->captured = 1;
        stream->joined = 0;
    }
    struct sim_stream *from = event->captured_from;
    if (from->capture == capture && from->joined < event->captured)
        from->joined = event->captured;
    return SIM_OK;
}

/* ---- Graphs ---- */

static void check_graph(const struct sim_graph *graph, uint32_t magic)
{
    if (graph->magic != magic)
        sim_misuse("a graph is used after it was destroyed, or as another kind of it");
}

int sim_graph_count(const struct sim_graph *graph, uint64_t *count)
{
    if (!graph)
        return SIM_INVALID_VALUE;
    check_graph(graph, SIM_GRAPH_ALIVE);
    *count = 0;
    for (uint32_t i = 0; i < graph->work_count; i++)
        *count += graph->works[i].kind != SIM_NOTHING;
    return SIM_OK;
}

/* A fill is looked at here and not when it was captured; a copy was looked at then. */
static bool may_be_ready(const struct sim_graph *graph)
{
    for (uint32_t i = 0; i < graph->work_count; i++) {
        const struct sim_work *work = &graph->works[i];
        if (work->kind == SIM_FILL && sim_is_device_address(work->to) &&
            !sim_may(work->to_device, work->to, work->bytes, SIM_ACCESS_READ_WRITE))
            return false;
    }
    return true;
}

int sim_graph_instantiate(struct sim_graph **exec, const struct sim_graph *graph)
{
    if (!graph)
        return SIM_INVALID_VALUE;
    check_graph(graph, SIM_GRAPH_ALIVE);
    if (!may_be_ready(graph))
        return SIM_INVALID_VALUE;
    struct sim_graph *made = graph_new();
    made->magic = SIM_EXEC_ALIVE;
    for (uint32_t i = 0; i < graph->work_count; i++)
        work_add(made, &graph->works[i]);
    sim.ledger.graph_count++;
    *exec = made;
    return SIM_OK;
}

/* Nothing is looked at again: what was unmapped meanwhile faults when it runs. */
int sim_graph_launch(struct sim_graph *exec, uintptr_t name)
{
    struct sim_stream *stream;
    if (!exec)
        return SIM_INVALID_VALUE;
    check_graph(exec, SIM_EXEC_ALIVE);
    int status = sim_stream_of(name, &stream);
    for (uint32_t i = 0; status == SIM_OK && i < exec->work_count; i++) {
        struct sim_work work = exec->works[i];
        status = sim_submit(stream, &work, NULL);
    }
    return status;
}

int sim_graph_destroy(struct sim_graph *graph, uint32_t magic)
{
    if (!graph)
        return SIM_INVALID_VALUE;
    check_graph(graph, magic);
    sim.ledger.graph_count--;
    graph->magic = SIM_DEAD;
    free(graph->works);
    graph->works = NULL;
    /* The husk stays, so that a later use is seen. */
    LL_PREPEND(graphs_kept, graph);
    return SIM_OK;
}

void sim_captures_finish(void)
{
    while (captures) {
        struct sim_capture *capture = captures;
        DL_DELETE(captures, capture);
        works_free(capture->graph);
        free(capture);
    }
    while (graphs_kept) {
        struct sim_graph *next = graphs_kept->next;
        free(graphs_kept);
        graphs_kept = next;
    }
}
