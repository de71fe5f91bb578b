/* Responsible for the table of a context's lines: places, ids, states, and when a line is closed:
 * once it is detached, no epoch refers to it and no call uses it. Never signals or asks one. */
#include "abi/base/error.h"
#include "host/ep/internal.h"

static const char *const line_names[MBR_LINE_STATES] = {
    "free", "opening", "attached", "detached", "closing"};

static const uint32_t line_successors[MBR_LINE_STATES] = {
    [MBR_LINE_FREE] = MBR_STATE_BIT(MBR_LINE_OPENING),
    [MBR_LINE_OPENING] = MBR_STATE_BIT(MBR_LINE_ATTACHED) | MBR_STATE_BIT(MBR_LINE_DETACHED) |
        MBR_STATE_BIT(MBR_LINE_CLOSING) | MBR_STATE_BIT(MBR_LINE_FREE),
    [MBR_LINE_ATTACHED] = MBR_STATE_BIT(MBR_LINE_DETACHED),
    [MBR_LINE_DETACHED] = MBR_STATE_BIT(MBR_LINE_CLOSING),
    [MBR_LINE_CLOSING] = MBR_STATE_BIT(MBR_LINE_FREE),
};

const mbr_state_table mbr_line_table = {"line", line_names, line_successors, MBR_LINE_STATES};

void mbr_line_set_state(mbr_line *line, uint32_t from, uint32_t to)
{
    mbr_state_move(&mbr_line_table, &line->state, from, to);
}

mbr_line *mbr_context_find_line_locked(mbr_context *context, uint64_t stream_id)
{
    uint64_t place = (stream_id - context->first_stream_id) % MBR_CONTEXT_STREAM_COUNT;
    mbr_line *line = context->lines[place];
    if (line == NULL || line->id != stream_id ||
        atomic_load_explicit(&line->state, memory_order_relaxed) != MBR_LINE_ATTACHED)
        return NULL;
    return line;
}

/* A free place: one that was used before, or the next new one. */
static mbr_line *take_place_locked(mbr_context *context) MBR_REQUIRES(&context->lock)
{
    mbr_line *line = TAILQ_FIRST(&context->free_lines);
    if (line != NULL) {
        TAILQ_REMOVE(&context->free_lines, line, home_link);
        return line;
    }
    line = mbr_heap_allocate(context->heap, sizeof *line);
    if (line == NULL)
        return NULL;
    atomic_init(&line->state, MBR_LINE_FREE);
    TAILQ_INIT(&line->unsignalled);
    TAILQ_INIT(&line->inflight);
    TAILQ_INIT(&line->pending);
    line->id = context->first_stream_id + context->place_count; /* holds the place */
    context->lines[context->place_count] = line;
    context->place_count++;
    return line;
}

mbr_status mbr_context_claim_line_locked(
    mbr_context *context, mbr_native native, mbr_line **line, mbr_error *error)
{
    *line = NULL;
    if (TAILQ_EMPTY(&context->free_lines) && context->place_count == MBR_CONTEXT_STREAM_COUNT)
        return mbr_fail_argument(error, MBR_OUT_OF_DESCRIPTORS, 0,
            "EP %s has %d open lines; detach streams and let their releases settle", context->name,
            MBR_CONTEXT_STREAM_COUNT);
    mbr_line *claimed = take_place_locked(context);
    if (claimed == NULL)
        return mbr_fail_argument(error, MBR_OUT_OF_HOST_MEMORY, 0, "no memory for a stream's line");
    uint64_t first = context->first_stream_id;
    uint64_t place = (claimed->id - first) % MBR_CONTEXT_STREAM_COUNT;
    claimed->id = first + context->stream_serial * MBR_CONTEXT_STREAM_COUNT + place;
    context->stream_serial++;
    claimed->native = native;
    claimed->signalled = 0;
    claimed->reached = 0;
    claimed->failure = MBR_OK;
    mbr_line_set_state(claimed, MBR_LINE_FREE, MBR_LINE_OPENING);
    *line = claimed;
    return MBR_OK;
}

void mbr_context_free_line_locked(mbr_context *context, mbr_line *line)
{
    MBR_ASSERT(line->mark_count == 0 && line->user_count == 0);
    mbr_line_set_state(line, atomic_load(&line->state), MBR_LINE_FREE);
    TAILQ_INSERT_TAIL(&context->free_lines, line, home_link);
}

void mbr_context_hold_line_locked(mbr_context *context, mbr_line *line)
{
    (void)context;
    line->user_count++;
}

void mbr_context_drop_line_locked(mbr_context *context, mbr_line *line)
{
    MBR_ASSERT(line->user_count != 0);
    line->user_count--;
    mbr_context_consider_closing_locked(context, line);
}

void mbr_context_consider_closing_locked(mbr_context *context, mbr_line *line)
{
    if (atomic_load(&line->state) != MBR_LINE_DETACHED || line->mark_count != 0 ||
        line->user_count != 0 || mbr_context_is_lost(context))
        return;
    mbr_line_set_state(line, MBR_LINE_DETACHED, MBR_LINE_CLOSING);
    TAILQ_INSERT_TAIL(&context->closing, line, home_link);
}

/* A line whose close fails is left open in the plugin and counted: its id is never used again. */
static void close_one_locked(mbr_context *context, mbr_line *line) MBR_REQUIRES(&context->lock)
{
    mbr_lock_drop(&context->lock);
    mbr_status status = mbr_slot_line_close(context, line->id);
    mbr_lock_take(&context->lock);
    if (status == MBR_OK)
        context->line_count--;
    if (MBR_STATUS_CLASS(status) == MBR_CLASS_LOST)
        mbr_context_mark_lost_locked(context);
    mbr_context_free_line_locked(context, line);
}

void mbr_context_close_lines_locked(mbr_context *context)
{
    mbr_line *line;
    while ((line = TAILQ_FIRST(&context->closing)) != NULL && !mbr_context_is_lost(context)) {
        TAILQ_REMOVE(&context->closing, line, home_link);
        close_one_locked(context, line);
    }
}

void mbr_context_finish_lines(mbr_context *context)
{
    mbr_lock_take(&context->lock);
    for (uint32_t place = 0; place < context->place_count; place++) {
        mbr_line *line = context->lines[place];
        if (atomic_load(&line->state) == MBR_LINE_ATTACHED) {
            mbr_line_set_state(line, MBR_LINE_ATTACHED, MBR_LINE_DETACHED);
            mbr_context_consider_closing_locked(context, line);
        }
    }
    mbr_context_close_lines_locked(context);
    mbr_lock_drop(&context->lock);
    for (uint32_t place = 0; place < context->place_count; place++)
        mbr_heap_release(context->heap, context->lines[place]);
}
