/* Responsible for wrong figures in a context, for audit tests. Never used elsewhere. */
#include "tests/unit/ep/tamper.h"

#include "host/ep/internal.h"

/* The first line with a list of that kind. */
static mbr_line *waiting(mbr_context *context)
{
    return TAILQ_FIRST(&context->waiting);
}

static mbr_line *dirty(mbr_context *context)
{
    return TAILQ_FIRST(&context->dirty);
}

static uint64_t *figure(mbr_context *context, uint32_t fault)
{
    switch (fault) {
    case 0:
        return (uint64_t *)&context->queued_count;
    case 1:
        return &context->queued_bytes;
    case 2:
        return &context->stream_count;
    case 3:
        return &context->settled_total;
    case 4:
        return &context->epochs.out_count;
    case 5:
        return &context->marks.out_count;
    case 6:
        return &context->epoch_sequence;
    case 7:
        return &waiting(context)->mark_count;
    case 8:
        return &waiting(context)->reached; /* above the pending value */
    case 9:
        return &TAILQ_FIRST(&waiting(context)->pending)->value; /* above what was signalled */
    case 10:
        return &context->open->done;
    case 11:
        return &context->open->entries.first->bytes;
    default:
        return &TAILQ_FIRST(&context->live)->sequence; /* out of order */
    }
}

enum { FIGURES = 13, FLAGS = 2 };

uint32_t tamper_count(void)
{
    return FIGURES + FLAGS;
}

void tamper(struct mbr_context *context, uint32_t fault, int64_t by)
{
    if (fault == FIGURES)
        dirty(context)->is_dirty = by < 0;
    else if (fault == FIGURES + 1)
        waiting(context)->is_waiting = by < 0;
    else
        *figure(context, fault) += (uint64_t)by;
}

uint32_t peek_captures(const mbr_context *context)
{
    return atomic_load(&context->capture_count);
}

bool peek_gated(const mbr_context *context)
{
    bool gated = false;
    for (uint32_t i = 0; i < context->gate_count; i++)
        gated = mbr_gate_is_closed(context->gates[i]) || gated;
    return gated;
}

bool peek_flag(const mbr_fork_flag *flag)
{
    return mbr_fork_flag_is_up(flag);
}
