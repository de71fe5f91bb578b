/* Responsible for recomputing a context's figures from its lists. Never changes anything. */
#include "host/ep/audit.h"

#include "host/ep/internal.h"

#include <utlist.h>

#define REQUIRE(expression)                                                                        \
    do {                                                                                           \
        if (!(expression))                                                                         \
            return #expression;                                                                    \
    } while (0)

typedef struct tally {
    uint64_t entry_count;
    uint64_t entry_bytes;
    uint64_t epoch_count;
    uint64_t mark_count;
    uint64_t attached_count;
} tally;

static void add_entries(tally *sum, const mbr_entry_list *list)
{
    for (const mbr_deferred *entry = list->first; entry != NULL; entry = entry->next) {
        if (entry->is_claimed)
            continue;
        sum->entry_count++;
        sum->entry_bytes += entry->bytes;
    }
}

static uint64_t length(const struct mbr_mark_list *list)
{
    uint64_t count = 0;
    const mbr_mark *mark;
    TAILQ_FOREACH (mark, list, link)
        count++;
    return count;
}

/* Marks stand in the order of their epochs. */
static bool is_ordered(const struct mbr_mark_list *list)
{
    uint64_t sequence = 0;
    const mbr_mark *mark;
    TAILQ_FOREACH (mark, list, link) {
        if (mark->epoch->sequence <= sequence)
            return false;
        sequence = mark->epoch->sequence;
    }
    return true;
}

static const char *check_line(const mbr_line *line, tally *sum)
{
    REQUIRE(line->is_dirty == !TAILQ_EMPTY(&line->unsignalled));
    REQUIRE(line->is_waiting == !TAILQ_EMPTY(&line->pending));
    REQUIRE(line->reached <= line->signalled);
    REQUIRE(is_ordered(&line->unsignalled) && is_ordered(&line->pending));
    uint64_t last = line->reached;
    const mbr_mark *mark;
    TAILQ_FOREACH (mark, &line->pending, link) {
        REQUIRE(mark->value > line->reached && mark->value >= last);
        last = mark->value;
    }
    REQUIRE(last <= line->signalled);
    REQUIRE(line->mark_count ==
        (line->open_mark != NULL) + length(&line->unsignalled) + length(&line->inflight) +
            length(&line->pending));
    REQUIRE(line->mark_count == 0 || atomic_load(&line->state) == MBR_LINE_ATTACHED ||
        atomic_load(&line->state) == MBR_LINE_DETACHED);
    sum->mark_count += line->mark_count;
    sum->attached_count += atomic_load(&line->state) == MBR_LINE_ATTACHED;
    return NULL;
}

static const char *check_epoch(const mbr_context *context, const mbr_epoch *epoch, tally *sum)
{
    REQUIRE(epoch->entries.first != NULL);
    REQUIRE(epoch->mark_count <= MBR_DEFER_STREAM_COUNT);
    REQUIRE(!TAILQ_EMPTY(&epoch->marks));
    REQUIRE(epoch != context->open || epoch->done == 0);
    uint64_t count = 0, bytes = 0;
    for (const mbr_deferred *entry = epoch->entries.first; entry != NULL; entry = entry->next) {
        REQUIRE(entry->epoch == epoch && (entry->epoch_streams & ~epoch->done) != 0);
        count++;
        bytes += entry->bytes;
    }
    REQUIRE(count == epoch->entry_count && bytes == epoch->bytes);
    sum->epoch_count++;
    add_entries(sum, &epoch->entries);
    return NULL;
}

static const char *check_graphs(const mbr_context *context, tally *sum)
{
    uint64_t serial = 0, captures = 0;
    const mbr_graph *graph;
    DL_FOREACH(context->graphs, graph)
    {
        REQUIRE(graph->serial > serial && graph->serial <= context->graph_serial);
        serial = graph->serial;
        captures += graph->state == MBR_GRAPH_CAPTURING;
        tally held = {0};
        mbr_entry_list list = {graph->held_first, graph->held_last};
        add_entries(&held, &list);
        REQUIRE(held.entry_count == graph->held_count && held.entry_bytes == graph->held_bytes);
        sum->entry_count += held.entry_count;
        sum->entry_bytes += held.entry_bytes;
    }
    REQUIRE(captures <= context->capture_count); /* others begin */
    return NULL;
}

static const char *audit_locked(mbr_context *context) MBR_REQUIRES(&context->lock)
{
    tally sum = {0};
    const char *broken = NULL;
    for (uint32_t place = 0; broken == NULL && place < context->place_count; place++)
        broken = check_line(context->lines[place], &sum);
    uint64_t sequence = 0;
    const mbr_epoch *epoch;
    TAILQ_FOREACH (epoch, &context->live, link) {
        REQUIRE(epoch->sequence > sequence);
        sequence = epoch->sequence;
        if (broken == NULL)
            broken = check_epoch(context, epoch, &sum);
    }
    if (broken != NULL)
        return broken;
    REQUIRE(context->open == NULL || context->open->sequence == context->epoch_sequence);
    add_entries(&sum, &context->ready);
    add_entries(&sum, &context->lost);
    broken = check_graphs(context, &sum);
    if (broken != NULL)
        return broken;
    REQUIRE(sum.entry_count == context->queued_count);
    REQUIRE(sum.entry_bytes == context->queued_bytes);
    REQUIRE(sum.epoch_count == context->epochs.out_count);
    REQUIRE(sum.mark_count == context->marks.out_count);
    REQUIRE(sum.attached_count == context->stream_count);
    REQUIRE(context->stream_count <= context->line_count);
    REQUIRE(context->settled_total == context->released_count + context->lost_count);
    REQUIRE(!mbr_context_is_lost(context) || sum.epoch_count == 0);
    return NULL;
}

const char *mbr_context_audit(mbr_context *context)
{
    mbr_lock_take(&context->lock);
    const char *broken = audit_locked(context);
    mbr_lock_drop(&context->lock);
    return broken;
}

const char *mbr_context_state_name(uint32_t state)
{
    return state < mbr_context_table.count ? mbr_context_table.names[state] : NULL;
}

bool mbr_context_may_move(uint32_t from, uint32_t to)
{
    return mbr_state_allows(&mbr_context_table, from, to);
}

const char *mbr_graph_state_name(uint32_t state)
{
    return state < mbr_graph_table.count ? mbr_graph_table.names[state] : NULL;
}

bool mbr_graph_may_move(uint32_t from, uint32_t to)
{
    return mbr_state_allows(&mbr_graph_table, from, to);
}

const char *mbr_line_state_name(uint32_t state)
{
    return state < mbr_line_table.count ? mbr_line_table.names[state] : NULL;
}

bool mbr_line_may_move(uint32_t from, uint32_t to)
{
    return mbr_state_allows(&mbr_line_table, from, to);
}

bool mbr_context_knows_stream(mbr_context *context, uint64_t stream_id)
{
    mbr_lock_take(&context->lock);
    bool known = mbr_context_find_line_locked(context, stream_id) != NULL;
    mbr_lock_drop(&context->lock);
    return known;
}
