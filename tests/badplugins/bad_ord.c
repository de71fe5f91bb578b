/* Faults of lines (group ORD). */
#include "tests/badplugins/bad.h"
#include "tests/badplugins/good_order.h"

#include <pthread.h>
#include <time.h>

#define LINE_SLOT(name)                                                                            \
    static mbr_status name(mbr_instance *instance, const mbr_line_request *request,                \
        mbr_outcome *outcome, mbr_error *error)
#define WAIT(name)                                                                                 \
    static mbr_status name(mbr_instance *instance, const mbr_line_wait_request *request,           \
        mbr_outcome *outcome, mbr_error *error)
#define STREAM_WAIT(name)                                                                          \
    static mbr_status name(mbr_instance *instance, const mbr_stream_wait_request *request,         \
        mbr_outcome *outcome, mbr_error *error)
#define LINE_OPEN(name)                                                                            \
    static mbr_status name(mbr_instance *instance, const mbr_line_open_request *request,           \
        mbr_outcome *outcome, mbr_error *error)
#define GOOD(slot) bad_good->order.slot(instance, request, outcome, error)

static mbr_status say_ok(mbr_outcome *outcome, uint64_t value)
{
    *outcome =
        (mbr_outcome){.struct_size = outcome->struct_size, .state = MBR_STATE_DONE, .value = value};
    return MBR_OK;
}

static mbr_status refuse(mbr_outcome *outcome, mbr_error *error, mbr_status status)
{
    const mbr_outcome nothing = {.struct_size = outcome->struct_size};
    *outcome = nothing;
    if (error != NULL && MBR_HAS(mbr_error, error, text))
        *error = (mbr_error){
            .struct_size = error->struct_size, .status = status, .text = "refused by a fault"};
    return status;
}

static bool is_pending(mbr_instance *instance, uint64_t id, uint64_t value)
{
    struct good_line_view view;
    return good_line_look(instance, id, &view) && view.reached < value;
}

/* ---- Values ---------------------------------------------------------------------------------- */

LINE_SLOT(signal_refused)
{
    (void)instance, (void)request;
    return refuse(outcome, error, MBR_UNSUPPORTED);
}

/* Nothing new was submitted since: the same point. */
static uint64_t repeated_line, repeated_value, repeated_count;
LINE_SLOT(signal_repeats_value)
{
    repeated_count = repeated_line == request->line_id ? repeated_count + 1 : 0;
    repeated_line = request->line_id;
    if (repeated_count % 8 == 7)
        return say_ok(outcome, repeated_value);
    mbr_status status = GOOD(signal);
    repeated_value = outcome->value;
    return status;
}

LINE_SLOT(value_reached_early)
{
    struct good_line_view view;
    mbr_status status = GOOD(reached);
    if (status == MBR_OK && good_line_look(instance, request->line_id, &view))
        outcome->value = view.signalled;
    return status;
}

LINE_SLOT(value_goes_back)
{
    static uint64_t call_count;
    mbr_status status = GOOD(reached);
    if (status == MBR_OK && ++call_count % 64 == 0 && outcome->value > 1)
        outcome->value--;
    return status;
}

LINE_SLOT(line_begins_at_1)
{
    struct good_line_view view;
    mbr_status status = GOOD(reached);
    if (status == MBR_OK && good_line_look(instance, request->line_id, &view) &&
        view.signalled == 0 && view.stream_is_open)
        outcome->value = 1;
    return status;
}

/* Any progress since the wait began ends it. */
WAIT(wait_for_any_value)
{
    struct good_line_view view;
    mbr_line_wait_request lower = *request;
    bool is_known = good_line_look(instance, request->line_id, &view);
    if (is_known && request->value > view.reached && request->value <= view.signalled)
        lower.value = view.reached + 1;
    return bad_good->order.wait(instance, &lower, outcome, error);
}

/* ---- Deadlines ------------------------------------------------------------------------------- */

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

WAIT(wait_ignores_past_deadline)
{
    mbr_line_wait_request longer = *request;
    if (request->deadline_ns < now_ns())
        longer.deadline_ns = UINT64_MAX;
    return bad_good->order.wait(instance, &longer, outcome, error);
}

WAIT(timed_out_closes_line)
{
    mbr_status status = GOOD(wait);
    if (status == MBR_TIMED_OUT) {
        const mbr_line_request line = {MBR_SIZED(mbr_line_request), .line_id = request->line_id};
        mbr_outcome ignored = {MBR_SIZED(mbr_outcome)};
        bad_good->order.line_close(instance, &line, &ignored, NULL);
    }
    return status;
}

WAIT(wait_for_future_value)
{
    struct good_line_view view;
    if (good_line_look(instance, request->line_id, &view) && request->value > view.signalled)
        return refuse(outcome, error, MBR_TIMED_OUT);
    return GOOD(wait);
}

/* ---- Ends ------------------------------------------------------------------------------------ */

LINE_SLOT(close_refused_while_pending)
{
    struct good_line_view view;
    if (good_line_look(instance, request->line_id, &view) && view.reached < view.signalled)
        return refuse(outcome, error, MBR_BUSY);
    return GOOD(line_close);
}

LINE_SLOT(line_dies_with_stream)
{
    struct good_line_view view;
    if (good_line_look(instance, request->line_id, &view) && !view.stream_is_open &&
        view.signalled == 1)
        return refuse(outcome, error, MBR_UNKNOWN_OBJECT);
    return GOOD(reached);
}

/* Lines by their stream's value: a new one finds what an old one left. */
static struct {
    uint64_t line, value;
    bool was_destroyed;
} former[64];

static void remember_former(mbr_instance *instance)
{
    for (unsigned i = 0; i < 64; i++) {
        struct good_line_view view;
        if (former[i].line != 0 && good_line_look(instance, former[i].line, &view)) {
            former[i].value = view.reached;
            former[i].was_destroyed = !view.stream_is_open;
        }
    }
}

static uint64_t inheriting_line, inherited_value;
LINE_OPEN(open_by_stream_value)
{
    unsigned at = (unsigned)(request->stream.value % 64);
    remember_former(instance);
    if (former[at].was_destroyed) {
        inheriting_line = request->line_id;
        inherited_value = former[at].value;
    }
    former[at].line = request->line_id;
    former[at].was_destroyed = false;
    return GOOD(line_open);
}

LINE_SLOT(reached_by_stream_value)
{
    struct good_line_view view;
    mbr_status status = GOOD(reached);
    if (status == MBR_OK && request->line_id == inheriting_line &&
        good_line_look(instance, request->line_id, &view) && view.signalled == 0)
        outcome->value = inherited_value;
    return status;
}

/* ---- Streams that wait ----------------------------------------------------------------------- */

STREAM_WAIT(stream_wait_is_noop)
{
    if (!is_pending(instance, request->line_id, request->value))
        return GOOD(stream_wait);
    struct good_line_view view;
    if (good_line_look(instance, request->line_id, &view) && request->value <= view.signalled &&
        request->stream.kind == MBR_NATIVE_STREAM_CPU)
        return say_ok(outcome, 0);
    return GOOD(stream_wait);
}

STREAM_WAIT(stream_wait_blocks)
{
    const mbr_line_wait_request wait = {MBR_SIZED(mbr_line_wait_request),
        .line_id = request->line_id, .value = request->value, .deadline_ns = UINT64_MAX};
    mbr_outcome ignored = {MBR_SIZED(mbr_outcome)};
    bad_good->order.wait(instance, &wait, &ignored, NULL);
    return GOOD(stream_wait);
}

STREAM_WAIT(stream_wait_any_kind)
{
    mbr_stream_wait_request other = *request;
    other.stream.kind = MBR_NATIVE_STREAM_CPU;
    return bad_good->order.stream_wait(instance, &other, outcome, error);
}

/* ---- Ids and arguments ----------------------------------------------------------------------- */

static uint64_t closed_lines[256], closed_count;
static bool was_closed(uint64_t id)
{
    for (uint64_t i = 0; i < closed_count && i < 256; i++)
        if (closed_lines[i] == id)
            return true;
    return false;
}

LINE_SLOT(close_and_remember)
{
    mbr_status status = GOOD(line_close);
    if (status == MBR_OK)
        closed_lines[closed_count++ % 256] = request->line_id;
    return status;
}

LINE_SLOT(closed_line_accepted)
{
    return was_closed(request->line_id) ? say_ok(outcome, 1) : GOOD(reached);
}

static uint64_t highest_line;
static mbr_instance *first_instance;
LINE_OPEN(open_and_remember)
{
    if (first_instance == NULL)
        first_instance = instance;
    if (request->line_id > highest_line)
        highest_line = request->line_id;
    return GOOD(line_open);
}

LINE_SLOT(unknown_line_has_0)
{
    mbr_status status = bad_good->order.reached(instance, request, outcome, NULL);
    if (status == MBR_UNKNOWN_OBJECT && request->line_id > highest_line)
        return say_ok(outcome, 0);
    return GOOD(reached);
}

LINE_SLOT(foreign_line_accepted)
{
    struct good_line_view view;
    bool is_foreign = first_instance != NULL && instance != first_instance &&
        good_line_look(first_instance, request->line_id, &view);
    return bad_good->order.reached(is_foreign ? first_instance : instance, request, outcome, error);
}

LINE_OPEN(doubled_line_accepted)
{
    mbr_status status = bad_good->order.line_open(instance, request, outcome, NULL);
    if (status == MBR_ALREADY_EXISTS)
        return say_ok(outcome, 0);
    return status == MBR_OK ? status : GOOD(line_open);
}

LINE_OPEN(line_zero_accepted)
{
    mbr_line_open_request other = *request;
    if (other.line_id == 0)
        other.line_id = UINT64_C(1) << 60;
    return bad_good->order.line_open(instance, &other, outcome, error);
}

LINE_OPEN(line_of_any_kind)
{
    mbr_line_open_request other = *request;
    other.stream.kind = MBR_NATIVE_STREAM_CPU;
    return bad_good->order.line_open(instance, &other, outcome, error);
}

LINE_OPEN(line_flags_ignored)
{
    mbr_line_open_request other = *request;
    other.flags = 0;
    return bad_good->order.line_open(instance, &other, outcome, error);
}

static mbr_status report_forgets_lines(mbr_instance *instance, const mbr_report_request *request,
    mbr_report *outcome, mbr_error *error)
{
    mbr_status status = bad_good->plugin.report(instance, request, outcome, error);
    if (status == MBR_OK && outcome->stream_count == 0)
        outcome->line_count = 0;
    return status;
}

#define PUT_AS(fault, slot, function)                                                              \
    if (bad_is(fault))                                                                             \
    bad.order.slot = function
#define PUT(slot, fault) PUT_AS(#fault, slot, fault)

void bad_install_ord(void)
{
    PUT(signal, signal_refused);
    PUT(signal, signal_repeats_value);
    PUT(reached, value_reached_early);
    PUT(reached, value_goes_back);
    PUT(reached, line_begins_at_1);
    PUT(wait, wait_for_any_value);
    PUT(wait, wait_ignores_past_deadline);
    PUT(wait, timed_out_closes_line);
    PUT(wait, wait_for_future_value);
    PUT(line_close, close_refused_while_pending);
    PUT(reached, line_dies_with_stream);
    PUT_AS("line_by_stream_value", line_open, open_by_stream_value);
    PUT_AS("line_by_stream_value", reached, reached_by_stream_value);
    PUT(stream_wait, stream_wait_is_noop);
    PUT(stream_wait, stream_wait_blocks);
    PUT(stream_wait, stream_wait_any_kind);
    PUT_AS("closed_line_accepted", line_close, close_and_remember);
    PUT(reached, closed_line_accepted);
    PUT_AS("unknown_line_has_0", line_open, open_and_remember);
    PUT(reached, unknown_line_has_0);
    PUT_AS("foreign_line_accepted", line_open, open_and_remember);
    PUT(reached, foreign_line_accepted);
    PUT(line_open, doubled_line_accepted);
    PUT(line_open, line_zero_accepted);
    PUT(line_open, line_of_any_kind);
    PUT(line_open, line_flags_ignored);
    if (bad_is("report_forgets_lines"))
        bad.plugin.report = report_forgets_lines;
}
