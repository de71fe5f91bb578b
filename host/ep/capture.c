/* Responsible for graph captures of a context: the gates that they close, the graphs that come of
 * them, and which graph holds which release back. Calls no slot and settles no entry but a graph's
 * own retirement. Which calls are gated is said where they are made: settling (reap.c), waiting
 * (stream.c, reap.c), and the mechanisms' slots (host/backing/port.c). */
#include "abi/base/checked.h"
#include "abi/base/error.h"
#include "host/ep/internal.h"

#include <inttypes.h>
#include <utlist.h>

static const char *const state_names[] = {"capturing", "kept", "retiring", "lost", "gone"};

static const uint32_t state_successors[] = {
    [MBR_GRAPH_CAPTURING] = MBR_STATE_BIT(MBR_GRAPH_KEPT) | MBR_STATE_BIT(MBR_GRAPH_LOST),
    [MBR_GRAPH_KEPT] = MBR_STATE_BIT(MBR_GRAPH_RETIRING) | MBR_STATE_BIT(MBR_GRAPH_GONE),
    [MBR_GRAPH_RETIRING] = MBR_STATE_BIT(MBR_GRAPH_KEPT) | MBR_STATE_BIT(MBR_GRAPH_GONE),
    [MBR_GRAPH_LOST] = MBR_STATE_BIT(MBR_GRAPH_GONE),
    [MBR_GRAPH_GONE] = 0,
};

const mbr_state_table mbr_graph_table = {"graph", state_names, state_successors, MBR_GRAPH_STATES};

/* The one mover; under the context's lock, like every look at a state. */
static void move_locked(mbr_graph *graph, uint32_t to)
{
    MBR_CHECK(mbr_state_allows(&mbr_graph_table, graph->state, to));
    graph->state = to;
}

/* ---- Gates ----------------------------------------------------------------------------------- */

mbr_status mbr_context_join_gate(mbr_context *context, mbr_gate *gate, mbr_error *error)
{
    mbr_status status = MBR_OK;
    mbr_lock_take(&context->lock);
    uint32_t index = 0;
    while (index < context->gate_count && context->gates[index] != gate)
        index++;
    bool is_new = index == context->gate_count;
    if (is_new && atomic_load(&context->capture_count) != 0)
        status = mbr_fail_argument(error, MBR_BUSY, 0,
            "EP %s is capturing and cannot be bound to a further device; end the capture first",
            context->name);
    else if (is_new && index == MBR_CONTEXT_GATE_COUNT)
        status = mbr_fail_argument(error, MBR_OUT_OF_RANGE, 1,
            "EP %s is bound to mechanisms of %d devices already; make another EP", context->name,
            MBR_CONTEXT_GATE_COUNT - 1);
    else if (is_new)
        context->gates[context->gate_count++] = gate;
    mbr_lock_drop(&context->lock);
    return status;
}

bool mbr_context_is_gated_locked(const mbr_context *context)
{
    for (uint32_t i = 0; i < context->gate_count; i++)
        if (mbr_gate_is_closed(context->gates[i]))
            return true;
    return false;
}

void mbr_context_leave_gates_locked(mbr_context *context, uint32_t entered)
{
    while (entered-- > 0)
        mbr_gate_leave(context->gates[entered]);
}

uint32_t mbr_context_try_enter_gates_locked(mbr_context *context)
{
    uint32_t entered = 0;
    while (entered < context->gate_count && mbr_gate_try_enter(context->gates[entered]))
        entered++;
    if (entered == context->gate_count)
        return entered;
    mbr_context_leave_gates_locked(context, entered);
    return 0;
}

mbr_status mbr_context_refuse_gated(const mbr_context *context, mbr_error *error)
{
    return mbr_fail_argument(error, MBR_BUSY, 0,
        "a graph is being captured on the device of EP %s; end the capture first", context->name);
}

static void reopen_gates(mbr_context *context, uint32_t count)
{
    while (count-- > 0)
        mbr_gate_reopen(context->gates[count]);
}

/* Both clocks: the deadline is of the context's, the waiting of the machine's. */
static bool close_gate(mbr_context *context, mbr_gate *gate, uint64_t deadline_ns)
{
    bool closed = false, in_time = true;
    while (!closed && in_time) {
        in_time = mbr_clock_now(context->clock) < deadline_ns;
        closed = mbr_gate_close(gate, mbr_context_real_ns(context, deadline_ns));
    }
    return closed;
}

static bool close_gates(mbr_context *context, uint64_t deadline_ns)
{
    for (uint32_t i = 0; i < context->gate_count; i++) {
        if (close_gate(context, context->gates[i], deadline_ns))
            continue;
        reopen_gates(context, i);
        return false;
    }
    return true;
}

/* ---- Who owns what --------------------------------------------------------------------------- */

mbr_graph *mbr_context_find_owner_locked(const mbr_context *context, mbr_graphs graphs)
{
    mbr_graph *graph;
    DL_FOREACH(context->graphs, graph)
    if (graph->serial >= graphs.first && graph->serial <= graphs.last)
        return graph;
    return NULL;
}

bool mbr_context_owns(mbr_context *context, mbr_graphs graphs)
{
    if (graphs.first == 0)
        return false;
    mbr_lock_take(&context->lock);
    bool owns =
        !mbr_context_is_lost(context) && mbr_context_find_owner_locked(context, graphs) != NULL;
    mbr_lock_drop(&context->lock);
    return owns;
}

static mbr_graphs graphs_now_locked(mbr_context *context, uint64_t stream_id)
    MBR_REQUIRES(&context->lock)
{
    mbr_graphs now = {0, 0};
    mbr_graph *graph;
    DL_FOREACH(context->graphs, graph)
    {
        if (graph->state != MBR_GRAPH_CAPTURING)
            continue;
        mbr_graphs one = {graph->serial, graph->serial};
        if (graph->stream_id == stream_id)
            return one;
        now = mbr_graphs_join(now, one);
    }
    return now;
}

bool mbr_context_is_capturing(const mbr_context *context)
{
    return atomic_load(&context->capture_count) != 0;
}

mbr_graphs mbr_context_graphs_now(mbr_context *context, uint64_t stream_id)
{
    if (atomic_load(&context->capture_count) == 0)
        return (mbr_graphs){0, 0};
    mbr_lock_take(&context->lock);
    mbr_graphs now = graphs_now_locked(context, stream_id);
    mbr_lock_drop(&context->lock);
    return now;
}

static mbr_entry_list take_held_locked(mbr_graph *graph)
{
    mbr_entry_list held = {graph->held_first, graph->held_last};
    graph->held_first = graph->held_last = NULL;
    graph->held_count = graph->held_bytes = 0;
    return held;
}

void mbr_context_make_ready_locked(mbr_context *context, mbr_deferred *entry)
{
    mbr_graph *owner =
        entry->graphs.first == 0 ? NULL : mbr_context_find_owner_locked(context, entry->graphs);
    if (owner == NULL) {
        mbr_entry_list_append(&context->ready, entry);
        context->ready_total++;
        return;
    }
    mbr_entry_list held = {owner->held_first, owner->held_last};
    mbr_entry_list_append(&held, entry);
    owner->held_first = held.first;
    owner->held_last = held.last;
    owner->held_count++;
    owner->held_bytes += entry->bytes; /* part of queued_bytes, which does not overflow */
}

/* ---- Begin and end --------------------------------------------------------------------------- */

/* Down while a capture begins or is open: the shortest way of an allocation knows no graph. */
static void count_capture_locked(mbr_context *context, int32_t by) MBR_REQUIRES(&context->lock)
{
    uint32_t count = atomic_fetch_add(&context->capture_count, (uint32_t)by) + (uint32_t)by;
    bool serves = count == 0 && mbr_context_state_now(context) == MBR_CONTEXT_ACTIVE;
    if (context->serves != &context->never)
        mbr_fork_flag_set(context->serves, serves);
}

static mbr_status claim_line_locked(mbr_context *context, uint64_t stream_id, mbr_graph *graph,
    mbr_line **line, mbr_error *error) MBR_REQUIRES(&context->lock)
{
    *line = mbr_context_find_line_locked(context, stream_id);
    if (*line == NULL)
        return mbr_fail_argument(error, MBR_UNKNOWN_OBJECT, 1,
            "EP %s has no attached stream with the id %" PRIu64, context->name, stream_id);
    if ((*line)->capture != NULL)
        return mbr_fail_argument(error, MBR_ALREADY_EXISTS, 1,
            "EP %s: stream %" PRIu64 " is being captured already; captures of one stream do not "
            "nest",
            context->name, stream_id);
    (*line)->capture = graph;
    mbr_context_hold_line_locked(context, *line);
    count_capture_locked(context, 1);
    return MBR_OK;
}

/* The gates are closed, or not: publishes the capture, or lets everything go. */
static mbr_status publish_locked(mbr_context *context, mbr_line *line, mbr_graph *graph,
    bool closed, mbr_error *error) MBR_REQUIRES(&context->lock)
{
    mbr_status status = MBR_OK;
    if (!closed)
        status = mbr_fail_argument(error, MBR_TIMED_OUT, 2,
            "EP %s: calls that a capture would not survive are still inside; nothing was changed",
            context->name);
    else if (mbr_context_is_lost(context))
        status = mbr_fail_argument(
            error, MBR_DEVICE_LOST, 0, "the device of EP %s is lost", context->name);
    if (status == MBR_OK) {
        graph->serial = ++context->graph_serial;
        DL_APPEND(context->graphs, graph);
    } else {
        if (closed)
            reopen_gates(context, context->gate_count);
        line->capture = NULL;
        count_capture_locked(context, -1);
        mbr_context_poke_reaper_locked(context, 0); /* it may have met a gate that was closed */
    }
    mbr_context_drop_line_locked(context, line);
    return status;
}

/* The line is marked as captured: no further fill or copy comes to it. */
static bool await_transfers_locked(mbr_context *context, const mbr_line *line, uint64_t deadline_ns)
    MBR_REQUIRES(&context->lock)
{
    while (line->transfer_count != 0) {
        if (mbr_clock_now(context->clock) >= deadline_ns)
            return false;
        mbr_context_await_locked(context, deadline_ns);
    }
    return true;
}

mbr_status mbr_context_begin_capture(mbr_context *context, uint64_t stream_id, uint64_t deadline_ns,
    mbr_graph *graph, mbr_error *error)
{
    mbr_lock_assert_none_held();
    mbr_status status = mbr_context_check_process(context, error);
    if (status == MBR_OK)
        status = mbr_context_check_active(context, error);
    if (status == MBR_OK)
        status = mbr_context_pin(context, error);
    if (status != MBR_OK)
        return status;
    void (*gone)(mbr_graph *) = graph->gone;
    *graph = (mbr_graph){.context = context, .stream_id = stream_id, .gone = gone};
    mbr_line *line;
    mbr_lock_take(&context->lock);
    mbr_context_enter_locked(context);
    status = claim_line_locked(context, stream_id, graph, &line, error);
    if (status == MBR_OK) {
        bool closed = await_transfers_locked(context, line, deadline_ns);
        mbr_lock_drop(&context->lock);
        closed = closed && close_gates(context, deadline_ns);
        mbr_lock_take(&context->lock);
        status = publish_locked(context, line, graph, closed, error);
    }
    mbr_context_leave_locked(context);
    mbr_lock_drop(&context->lock);
    if (status != MBR_OK)
        mbr_context_unpin(context);
    return status;
}

/* The capture is over; what waited for the gates goes on. */
static void release_stream_locked(mbr_context *context, mbr_graph *graph)
    MBR_REQUIRES(&context->lock)
{
    mbr_line *line = mbr_context_find_line_locked(context, graph->stream_id);
    if (line != NULL)
        line->capture = NULL;
    reopen_gates(context, context->gate_count);
    count_capture_locked(context, -1);
    mbr_context_poke_reaper_locked(context, 0);
    mbr_context_notify_locked(context);
}

static mbr_graph *find_capture_locked(const mbr_context *context, uint64_t stream_id)
{
    mbr_graph *graph;
    DL_FOREACH(context->graphs, graph)
    if (graph->stream_id == stream_id &&
        (graph->state == MBR_GRAPH_CAPTURING || graph->state == MBR_GRAPH_LOST))
        return graph;
    return NULL;
}

/* Its caller has taken it out of the list. */
static void let_go(mbr_context *context, mbr_graph *graph)
{
    graph->gone(graph);
    mbr_context_unpin(context);
}

mbr_status mbr_context_end_capture(
    mbr_context *context, uint64_t stream_id, mbr_graph **graph, mbr_error *error)
{
    *graph = NULL;
    mbr_status status = mbr_context_check_process(context, error);
    if (status != MBR_OK)
        return status;
    mbr_lock_take(&context->lock);
    mbr_graph *found = find_capture_locked(context, stream_id);
    bool lost = found != NULL && found->state == MBR_GRAPH_LOST;
    if (lost) {
        DL_DELETE(context->graphs, found);
        move_locked(found, MBR_GRAPH_GONE);
    } else if (found != NULL) {
        move_locked(found, MBR_GRAPH_KEPT);
        release_stream_locked(context, found);
    }
    mbr_lock_drop(&context->lock);
    if (found == NULL)
        return mbr_fail_argument(error, MBR_UNKNOWN_OBJECT, 1,
            "EP %s: stream %" PRIu64 " is not being captured", context->name, stream_id);
    if (lost) {
        let_go(context, found);
        return mbr_fail_argument(error, MBR_DEVICE_LOST, 0,
            "the device of EP %s was lost during the capture; there is no graph", context->name);
    }
    *graph = found;
    return MBR_OK;
}

/* ---- Retirement ------------------------------------------------------------------------------ */

/* The launches are done, or nobody will ever know. */
static void settle_retirement(mbr_deferred *entry, mbr_settled how)
{
    (void)how;
    mbr_graph *graph = (mbr_graph *)((char *)entry - offsetof(mbr_graph, end));
    mbr_context *context = graph->context;
    mbr_lock_take(&context->lock);
    DL_DELETE(context->graphs, graph);
    move_locked(graph, MBR_GRAPH_GONE);
    mbr_entry_list held = take_held_locked(graph);
    mbr_deferred *next;
    while ((next = mbr_entry_list_pop(&held)) != NULL)
        mbr_context_make_ready_locked(context, next); /* another graph may own it, too */
    mbr_context_poke_reaper_locked(context, 0);
    mbr_lock_drop(&context->lock);
    let_go(context, graph);
}

/* A lost one goes at once: nothing is held for it any more. */
static mbr_status begin_retirement_locked(mbr_context *context, mbr_graph *graph, bool *lost,
    mbr_error *error) MBR_REQUIRES(&context->lock)
{
    if (graph->state == MBR_GRAPH_RETIRING) /* it is as it was if that queue is full */
        return mbr_fail_argument(
            error, MBR_BUSY, 1, "EP %s: another thread is retiring the graph", context->name);
    if (graph->state != MBR_GRAPH_KEPT)
        return mbr_fail_argument(
            error, MBR_STALE, 1, "EP %s: the graph is retired already", context->name);
    *lost = mbr_context_is_lost(context);
    if (*lost)
        DL_DELETE(context->graphs, graph);
    move_locked(graph, *lost ? MBR_GRAPH_GONE : MBR_GRAPH_RETIRING);
    return MBR_OK;
}

mbr_status mbr_context_retire_graph(mbr_context *context, mbr_graph *graph,
    const uint64_t *stream_ids, uint32_t stream_count, mbr_error *error)
{
    bool lost = false;
    mbr_lock_take(&context->lock);
    mbr_status status = begin_retirement_locked(context, graph, &lost, error);
    mbr_lock_drop(&context->lock);
    if (status != MBR_OK)
        return status;
    if (lost) {
        let_go(context, graph);
        return MBR_OK;
    }
    graph->end = (mbr_deferred){.settle = settle_retirement};
    status = mbr_context_defer(context, stream_ids, stream_count, &graph->end, error);
    if (status == MBR_OK)
        return MBR_OK;
    if (MBR_STATUS_CLASS(status) == MBR_CLASS_LOST) {
        settle_retirement(&graph->end, MBR_SETTLED_LOST);
        return MBR_OK;
    }
    mbr_lock_take(&context->lock);
    move_locked(graph, MBR_GRAPH_KEPT);
    mbr_lock_drop(&context->lock);
    return status;
}

/* ---- Loss ------------------------------------------------------------------------------------ */

/* A graph that is being retired goes with its own entry, which is lost, too. */
void mbr_context_lose_graphs_locked(mbr_context *context)
{
    mbr_graph *graph;
    DL_FOREACH(context->graphs, graph)
    {
        mbr_entry_list held = take_held_locked(graph);
        mbr_deferred *entry;
        while ((entry = mbr_entry_list_pop(&held)) != NULL) {
            mbr_entry_list_append(&context->lost, entry);
            context->ready_total++;
        }
        if (graph->state != MBR_GRAPH_CAPTURING)
            continue;
        release_stream_locked(context, graph);
        move_locked(graph, MBR_GRAPH_LOST);
    }
}

/* One that is being retired is its retirement's, which has not noticed the loss yet. */
static mbr_graph *take_lost(mbr_context *context)
{
    mbr_lock_take(&context->lock);
    mbr_graph *graph = context->graphs;
    while (graph != NULL && graph->state == MBR_GRAPH_RETIRING)
        graph = graph->next;
    if (graph != NULL) {
        DL_DELETE(context->graphs, graph);
        move_locked(graph, MBR_GRAPH_GONE);
    }
    mbr_lock_drop(&context->lock);
    return graph;
}

void mbr_context_forget_graphs(mbr_context *context)
{
    MBR_CHECK(mbr_context_is_lost(context));
    mbr_graph *graph;
    while ((graph = take_lost(context)) != NULL)
        let_go(context, graph);
}

/* ---- Figures --------------------------------------------------------------------------------- */

void mbr_context_read_graph(
    mbr_context *context, const mbr_graph *graph, uint64_t *held_count, uint64_t *held_bytes)
{
    mbr_lock_take(&context->lock);
    *held_count = graph->held_count;
    *held_bytes = graph->held_bytes;
    mbr_lock_drop(&context->lock);
}

void mbr_context_count_graphs_locked(const mbr_context *context, mbr_ep_figures *figures)
{
    const mbr_graph *graph;
    DL_FOREACH(context->graphs, graph)
    {
        figures->capture_count += graph->state == MBR_GRAPH_CAPTURING;
        figures->graph_count += graph->state == MBR_GRAPH_KEPT;
        figures->held_count += graph->held_count;
        figures->held_bytes += graph->held_bytes;
    }
}
