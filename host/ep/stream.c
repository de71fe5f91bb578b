/* Responsible for what a caller does with a stream: attach, detach, synchronize, fill and copy.
 * Never settles an entry. */
#include "abi/base/error.h"
#include "host/ep/internal.h"

#include <inttypes.h>

static mbr_status unknown(const mbr_context *context, uint64_t stream_id, mbr_error *error)
{
    return mbr_fail_argument(error, MBR_UNKNOWN_OBJECT, 1,
        "EP %s has no attached stream with the id %" PRIu64, context->name, stream_id);
}

static mbr_status check_not_lost(const mbr_context *context, mbr_error *error)
{
    if (!mbr_context_is_lost(context))
        return MBR_OK;
    return mbr_fail_argument(
        error, MBR_DEVICE_LOST, 0, "the device of EP %s is lost", context->name);
}

/* Whether a call may go to the device at all. */
static mbr_status check_alive(const mbr_context *context, mbr_error *error)
{
    if (mbr_context_state_now(context) == MBR_CONTEXT_TERMINATED)
        return mbr_fail_argument(error, MBR_BUSY, 0, "EP %s is terminated", context->name);
    return check_not_lost(context, error);
}

/* ---- Attach and detach --------------------------------------------------------------------- */

static mbr_status check_active(const mbr_context *context, mbr_error *error)
{
    if (mbr_context_state_now(context) == MBR_CONTEXT_RETIRING)
        return mbr_fail_argument(
            error, MBR_BUSY, 0, "EP %s is retiring and takes no stream", context->name);
    return check_alive(context, error);
}

/* The line is open in the plugin: publishes it, or takes it back if the context ended meanwhile. */
static mbr_status publish_line_locked(mbr_context *context, mbr_line *line, mbr_error *error)
    MBR_REQUIRES(&context->lock)
{
    context->line_count++;
    mbr_status status = check_active(context, error);
    if (status == MBR_OK) {
        mbr_line_set_state(line, MBR_LINE_OPENING, MBR_LINE_ATTACHED);
        context->stream_count++;
    } else {
        mbr_line_set_state(line, MBR_LINE_OPENING, MBR_LINE_DETACHED);
        mbr_context_consider_closing_locked(context, line);
    }
    return status;
}

static mbr_status attach_locked(mbr_context *context, mbr_native native, uint64_t *stream_id,
    mbr_error *error) MBR_REQUIRES(&context->lock)
{
    mbr_line *line;
    mbr_status status = check_active(context, error);
    if (status == MBR_OK)
        status = mbr_context_claim_line_locked(context, native, &line, error);
    if (status != MBR_OK)
        return status;
    mbr_lock_drop(&context->lock);
    status = mbr_slot_line_open(context, line->id, native, error);
    mbr_lock_take(&context->lock);
    if (status != MBR_OK) {
        mbr_context_free_line_locked(context, line);
        if (MBR_STATUS_CLASS(status) == MBR_CLASS_LOST)
            mbr_context_mark_lost_locked(context);
        return status;
    }
    status = publish_line_locked(context, line, error);
    if (status == MBR_OK)
        *stream_id = line->id;
    return status;
}

mbr_status mbr_context_attach_stream(
    mbr_context *context, mbr_native native, uint64_t *stream_id, mbr_error *error)
{
    *stream_id = 0;
    mbr_lock_take(&context->lock);
    mbr_context_enter_locked(context);
    mbr_status status = attach_locked(context, native, stream_id, error);
    mbr_context_close_lines_locked(context);
    mbr_context_leave_locked(context);
    mbr_lock_drop(&context->lock);
    return status;
}

static bool wants_signal(const mbr_line *line)
{
    return line->open_mark != NULL || !TAILQ_EMPTY(&line->unsignalled) ||
        !TAILQ_EMPTY(&line->inflight);
}

/* Signals what is queued behind the stream, while there still is a stream to signal on. */
static mbr_status cover_locked(mbr_context *context, uint64_t stream_id, mbr_error *error)
    MBR_REQUIRES(&context->lock)
{
    for (;;) {
        mbr_line *line = mbr_context_find_line_locked(context, stream_id);
        if (line == NULL)
            return unknown(context, stream_id, error);
        if (line->capture != NULL)
            return mbr_fail_argument(error, MBR_BUSY, 1,
                "EP %s: stream %" PRIu64 " is being captured; end the capture first", context->name,
                stream_id);
        if (!wants_signal(line))
            return MBR_OK;
        if (context->signalling) {
            mbr_context_await_locked(context, UINT64_MAX);
            continue;
        }
        if (line->open_mark != NULL)
            mbr_context_seal_locked(context);
        line->failure = MBR_OK;
        context->signalling = true;
        mbr_context_signal_locked(context);
        if (!mbr_context_is_lost(context) && line->failure != MBR_OK)
            return mbr_fail_argument(error, line->failure, 1,
                "EP %s: stream %" PRIu64 " has releases queued and its signal failed with %" PRId32
                "; it stays attached",
                context->name, stream_id, line->failure);
    }
}

static mbr_status detach_locked(mbr_context *context, uint64_t stream_id, mbr_error *error)
    MBR_REQUIRES(&context->lock)
{
    mbr_status status = cover_locked(context, stream_id, error);
    if (status != MBR_OK)
        return status;
    mbr_line *line = mbr_context_find_line_locked(context, stream_id);
    mbr_line_set_state(line, MBR_LINE_ATTACHED, MBR_LINE_DETACHED);
    context->stream_count--;
    mbr_context_consider_closing_locked(context, line);
    mbr_context_close_lines_locked(context);
    return MBR_OK;
}

mbr_status mbr_context_detach_stream(mbr_context *context, uint64_t stream_id, mbr_error *error)
{
    mbr_lock_take(&context->lock);
    mbr_context_enter_locked(context);
    mbr_status status = detach_locked(context, stream_id, error);
    mbr_context_leave_locked(context);
    mbr_lock_drop(&context->lock);
    return status;
}

/* ---- Synchronize --------------------------------------------------------------------------- */

/* A signal of its own behind everything submitted so far. The line is held with MBR_OK. */
static mbr_status signal_now_locked(mbr_context *context, uint64_t stream_id, uint64_t deadline_ns,
    mbr_line **held, uint64_t *value, mbr_error *error) MBR_REQUIRES(&context->lock)
{
    *held = NULL;
    *value = 0;
    if (!mbr_context_claim_signalling_locked(context, deadline_ns))
        return mbr_fail_argument(error, MBR_TIMED_OUT, 2,
            "EP %s: another thread signalled until %" PRIu64 " ns", context->name, deadline_ns);
    mbr_status status = check_alive(context, error);
    mbr_line *line = mbr_context_find_line_locked(context, stream_id);
    if (status == MBR_OK && line == NULL)
        status = unknown(context, stream_id, error);
    if (status == MBR_OK) {
        mbr_context_hold_line_locked(context, line);
        mbr_lock_drop(&context->lock);
        status = mbr_slot_signal(context, line->id, value, error);
        mbr_lock_take(&context->lock);
        bool is_said = status == MBR_OK;
        status = mbr_context_judge_value_locked(context, line, status, *value);
        if (is_said && status != MBR_OK)
            mbr_fail_argument(error, status, 0,
                "EP %s: order.signal answered a value that does not rise: %" PRIu64, context->name,
                *value);
        if (status == MBR_OK)
            status = check_not_lost(context, error); /* no call after a loss, also not the wait */
        if (status == MBR_OK)
            *held = line;
        else
            mbr_context_drop_line_locked(context, line);
    }
    context->signalling = false;
    mbr_context_notify_locked(context);
    return status;
}

/* The wait on a held line; lets go of it. */
static mbr_status wait_locked(mbr_context *context, mbr_line *line, uint64_t value,
    uint64_t deadline_ns, mbr_error *error) MBR_REQUIRES(&context->lock)
{
    mbr_lock_drop(&context->lock);
    mbr_status status = mbr_slot_wait(context, line->id, value, deadline_ns, error);
    mbr_lock_take(&context->lock);
    if (status == MBR_OK)
        status = check_not_lost(context, error);
    if (status == MBR_OK)
        mbr_context_reach_locked(context, line, value);
    mbr_context_drop_line_locked(context, line);
    return status;
}

static mbr_status synchronize_locked(mbr_context *context, uint64_t stream_id, uint64_t deadline_ns,
    mbr_error *error) MBR_REQUIRES(&context->lock)
{
    mbr_line *line;
    uint64_t value;
    uint32_t entered = mbr_context_try_enter_gates_locked(context);
    if (entered == 0)
        return mbr_context_refuse_gated(context, error);
    mbr_status status = signal_now_locked(context, stream_id, deadline_ns, &line, &value, error);
    if (status == MBR_OK)
        status = wait_locked(context, line, value, deadline_ns, error);
    mbr_context_leave_gates_locked(context, entered);
    if (MBR_STATUS_CLASS(status) == MBR_CLASS_LOST)
        mbr_context_mark_lost_locked(context);
    return status;
}

mbr_status mbr_context_synchronize(
    mbr_context *context, uint64_t stream_id, uint64_t deadline_ns, mbr_error *error)
{
    mbr_lock_take(&context->lock);
    mbr_context_enter_locked(context);
    mbr_status status = synchronize_locked(context, stream_id, deadline_ns, error);
    mbr_context_close_lines_locked(context);
    mbr_context_leave_locked(context);
    mbr_lock_drop(&context->lock);
    return status;
}

/* ---- Transfer ------------------------------------------------------------------------------ */

/* In a capture it would be done at each launch, and not now, when somebody relies on it. */
static mbr_status refuse_captured(const mbr_context *context, uint64_t stream_id, mbr_error *error)
{
    return mbr_fail_argument(error, MBR_BUSY, 1,
        "EP %s: stream %" PRIu64 " is being captured, and a fill or copy there would become "
        "part of the graph; name another stream, or end the capture first",
        context->name, stream_id);
}

/* The line of a transfer (stream_id NULL: none), held, with the call counted as inside; or a
 * refusal. */
static mbr_status begin_transfer(
    mbr_context *context, const uint64_t *stream_id, mbr_line **used, mbr_error *error)
{
    *used = NULL;
    if (!context->has_transfer)
        return mbr_fail_argument(error, MBR_UNSUPPORTED, 0,
            "EP %s has no transfer table: it makes no streams, fills nothing and copies nothing",
            context->name);
    mbr_lock_take(&context->lock);
    mbr_status status = check_alive(context, error);
    mbr_line *line = stream_id == NULL ? NULL : mbr_context_find_line_locked(context, *stream_id);
    if (status == MBR_OK && stream_id != NULL && line == NULL)
        status = unknown(context, *stream_id, error);
    if (status == MBR_OK && line != NULL && line->capture != NULL)
        status = refuse_captured(context, *stream_id, error);
    if (status == MBR_OK) {
        if (line != NULL) {
            mbr_context_hold_line_locked(context, line);
            line->transfer_count++;
        }
        *used = line;
        mbr_context_enter_locked(context);
    }
    mbr_lock_drop(&context->lock);
    return status;
}

static mbr_status end_transfer(mbr_context *context, mbr_line *used, mbr_status status)
{
    mbr_lock_take(&context->lock);
    if (MBR_STATUS_CLASS(status) == MBR_CLASS_LOST)
        mbr_context_mark_lost_locked(context);
    if (used != NULL) {
        if (--used->transfer_count == 0)
            mbr_context_notify_locked(context); /* a capture may wait to begin */
        mbr_context_drop_line_locked(context, used);
    }
    mbr_context_leave_locked(context);
    mbr_lock_drop(&context->lock);
    return status;
}

mbr_status mbr_context_create_stream(mbr_context *context, mbr_native *native, mbr_error *error)
{
    mbr_line *none;
    *native = (mbr_native){0};
    mbr_status status = begin_transfer(context, NULL, &none, error);
    if (status != MBR_OK)
        return status;
    return end_transfer(context, none, mbr_slot_stream_create(context, native, error));
}

mbr_status mbr_context_destroy_stream(mbr_context *context, mbr_native native, mbr_error *error)
{
    mbr_line *none;
    mbr_status status = begin_transfer(context, NULL, &none, error);
    if (status != MBR_OK)
        return status;
    return end_transfer(context, none, mbr_slot_stream_destroy(context, native, error));
}

static mbr_status check_not_captured(mbr_context *context, uint64_t stream_id, mbr_error *error)
{
    mbr_lock_take(&context->lock);
    const mbr_line *line = mbr_context_find_line_locked(context, stream_id);
    bool captured = line != NULL && line->capture != NULL;
    mbr_lock_drop(&context->lock);
    return captured ? refuse_captured(context, stream_id, error) : MBR_OK;
}

mbr_status mbr_context_fill(mbr_context *context, uint64_t stream_id, uint64_t address,
    uint8_t value, uint64_t bytes, mbr_error *error)
{
    mbr_line *line;
    mbr_status status = begin_transfer(context, &stream_id, &line, error);
    if (status != MBR_OK)
        return status;
    return end_transfer(
        context, line, mbr_slot_fill(context, line->native, address, value, bytes, error));
}

mbr_status mbr_context_copy(mbr_context *context, uint64_t stream_id, uint64_t to_address,
    uint64_t from_address, uint64_t bytes, mbr_error *error)
{
    mbr_line *line;
    if (bytes == 0)
        return check_not_captured(context, stream_id, error);
    mbr_status status = begin_transfer(context, &stream_id, &line, error);
    if (status != MBR_OK)
        return status;
    return end_transfer(context, line,
        mbr_slot_copy(context, line->native, to_address, from_address, bytes, error));
}
