/* Responsible for every call into an EP's tables: requests, outcomes, and the pairs of status and
 * state that the contract allows. An answer outside the contract is MBR_CONTRACT_BROKEN and
 * counted. Never holds a lock around a call, and decides nothing from an answer. */
#include "abi/base/error.h"
#include "host/ep/internal.h"
#include "host/loader/call.h"

/* A slot, or the refusal that is due before it: the outcome then says that nothing happened. */
#define CALL(context, slot, request, outcome, error)                                               \
    (mbr_context_check_process(context, error) != MBR_OK                                           \
            ? MBR_STALE                                                                            \
            : (context)->slot((context)->instance, request, outcome, error))

mbr_status mbr_context_check_process(const mbr_context *context, mbr_error *error)
{
    if (__builtin_expect(context->is_fork_safe || !mbr_fork_guard_is_child(&context->fork), 1))
        return MBR_OK;
    return mbr_fail_argument(error, MBR_STALE, 0,
        "EP %s belongs to the parent of this process, and a forked child may not use its lines; "
        "make one after the fork, or start the child with exec",
        context->name);
}

/* What a slot gets to write into, never the caller's own. */
typedef struct mbr_said {
    mbr_outcome outcome;
    mbr_error error;
} mbr_said;

static mbr_said nothing_said(void)
{
    return (mbr_said){{MBR_SIZED(mbr_outcome)}, {MBR_SIZED(mbr_error)}};
}

static void count_violation(mbr_context *context)
{
    atomic_fetch_add(&context->violation_count, 1);
}

/* A mutating slot says DONE exactly with MBR_OK. A failure that claims otherwise stays that
 * failure: nothing is built on what it may have left. */
static mbr_status judge(
    mbr_context *context, const char *slot, mbr_status status, mbr_said *said, mbr_error *error)
{
    bool is_done = said->outcome.state == MBR_STATE_DONE;
    if (is_done != (status == MBR_OK) || said->outcome.state > MBR_STATE_QUARANTINED)
        count_violation(context);
    if (status == MBR_OK && !is_done)
        return mbr_fail(error, MBR_CONTRACT_BROKEN,
            "EP %s: %s answered MBR_OK with state %u, which is not DONE", context->name, slot,
            said->outcome.state);
    return mbr_answer_take(slot, status, &said->error, error);
}

mbr_status mbr_slot_line_open(
    mbr_context *context, uint64_t line_id, mbr_native native, mbr_error *error)
{
    mbr_line_open_request request = {
        MBR_SIZED(mbr_line_open_request), .line_id = line_id, .stream = native};
    mbr_said said = nothing_said();
    mbr_lock_assert_none_held();
    mbr_status status = CALL(context, order.line_open, &request, &said.outcome, &said.error);
    return judge(context, "order.line_open", status, &said, error);
}

mbr_status mbr_slot_line_close(mbr_context *context, uint64_t line_id)
{
    mbr_line_request request = {MBR_SIZED(mbr_line_request), .line_id = line_id};
    mbr_said said = nothing_said();
    mbr_lock_assert_none_held();
    mbr_status status = CALL(context, order.line_close, &request, &said.outcome, &said.error);
    return judge(context, "order.line_close", status, &said, NULL);
}

mbr_status mbr_slot_signal(
    mbr_context *context, uint64_t line_id, uint64_t *value, mbr_error *error)
{
    *value = 0;
    mbr_line_request request = {MBR_SIZED(mbr_line_request), .line_id = line_id};
    mbr_said said = nothing_said();
    mbr_lock_assert_none_held();
    mbr_status status = CALL(context, order.signal, &request, &said.outcome, &said.error);
    status = judge(context, "order.signal", status, &said, error);
    if (status == MBR_OK)
        *value = said.outcome.value;
    return status;
}

mbr_status mbr_slot_reached(mbr_context *context, uint64_t line_id, uint64_t *value)
{
    *value = 0;
    mbr_line_request request = {MBR_SIZED(mbr_line_request), .line_id = line_id};
    mbr_said said = nothing_said();
    mbr_lock_assert_none_held();
    mbr_status status = CALL(context, order.reached, &request, &said.outcome, NULL);
    if (status == MBR_OK)
        *value = said.outcome.value;
    return status;
}

mbr_status mbr_slot_wait(
    mbr_context *context, uint64_t line_id, uint64_t value, uint64_t deadline_ns, mbr_error *error)
{
    mbr_line_wait_request request = {MBR_SIZED(mbr_line_wait_request), .line_id = line_id,
        .value = value, .deadline_ns = deadline_ns};
    mbr_said said = nothing_said();
    mbr_lock_assert_none_held();
    mbr_status status = CALL(context, order.wait, &request, &said.outcome, &said.error);
    bool is_past = status != MBR_OK && mbr_clock_now(context->clock) >= deadline_ns;
    /* A wait that gives up early would make its caller spin. */
    if (status == MBR_TIMED_OUT && !is_past) {
        count_violation(context);
        return mbr_fail(error, MBR_CONTRACT_BROKEN,
            "EP %s: order.wait answered MBR_TIMED_OUT before its deadline", context->name);
    }
    /* Past the deadline every "not now" says the same, also one that is unknown (rule 6). */
    if (MBR_STATUS_CLASS(status) == MBR_CLASS_RETRY && is_past)
        status = MBR_TIMED_OUT;
    return mbr_answer_take("order.wait", status, &said.error, error);
}

mbr_status mbr_slot_stream_wait(
    mbr_context *context, uint64_t line_id, uint64_t value, mbr_native native, mbr_error *error)
{
    mbr_stream_wait_request request = {
        MBR_SIZED(mbr_stream_wait_request), .line_id = line_id, .value = value, .stream = native};
    mbr_said said = nothing_said();
    mbr_lock_assert_none_held();
    mbr_status status = CALL(context, order.stream_wait, &request, &said.outcome, &said.error);
    return judge(context, "order.stream_wait", status, &said, error);
}

mbr_status mbr_slot_stream_create(mbr_context *context, mbr_native *native, mbr_error *error)
{
    *native = (mbr_native){0};
    mbr_stream_create_request request = {MBR_SIZED(mbr_stream_create_request)};
    mbr_stream_create_outcome outcome = {MBR_SIZED(mbr_stream_create_outcome)};
    mbr_error said = {MBR_SIZED(mbr_error)};
    mbr_lock_assert_none_held();
    mbr_status status = CALL(context, transfer.stream_create, &request, &outcome, &said);
    if (status == MBR_OK && outcome.stream.kind == MBR_NATIVE_STREAM_NONE) {
        count_violation(context);
        return mbr_fail(error, MBR_CONTRACT_BROKEN,
            "EP %s: transfer.stream_create answered MBR_OK without a stream", context->name);
    }
    if (status == MBR_OK)
        *native = outcome.stream;
    return mbr_answer_take("transfer.stream_create", status, &said, error);
}

mbr_status mbr_slot_stream_destroy(mbr_context *context, mbr_native native, mbr_error *error)
{
    mbr_stream_destroy_request request = {MBR_SIZED(mbr_stream_destroy_request), .stream = native};
    mbr_said said = nothing_said();
    mbr_lock_assert_none_held();
    mbr_status status =
        CALL(context, transfer.stream_destroy, &request, &said.outcome, &said.error);
    return judge(context, "transfer.stream_destroy", status, &said, error);
}

mbr_status mbr_slot_fill(mbr_context *context, mbr_native native, uint64_t address, uint8_t value,
    uint64_t bytes, mbr_error *error)
{
    mbr_fill_request request = {MBR_SIZED(mbr_fill_request), .pattern = value, .stream = native,
        .address = address, .bytes = bytes};
    mbr_said said = nothing_said();
    mbr_lock_assert_none_held();
    mbr_status status = CALL(context, transfer.fill, &request, &said.outcome, &said.error);
    return judge(context, "transfer.fill", status, &said, error);
}

mbr_status mbr_slot_copy(mbr_context *context, mbr_native native, uint64_t to_address,
    uint64_t from_address, uint64_t bytes, mbr_error *error)
{
    mbr_copy_request request = {MBR_SIZED(mbr_copy_request), .stream = native,
        .to_address = to_address, .from_address = from_address, .bytes = bytes};
    mbr_said said = nothing_said();
    mbr_lock_assert_none_held();
    mbr_status status = CALL(context, transfer.copy, &request, &said.outcome, &said.error);
    return judge(context, "transfer.copy", status, &said, error);
}
