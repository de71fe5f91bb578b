/* Group ORD: lines. Whether work is still pending can be seen and not be forced: where a check
 * needs pending work it tries several times, and a mechanism whose work is always done at once
 * passes. What only a driver's own calls bring about, an open capture and a lost device, no slot
 * can: it is the matter of tests with a driver. Which status a refusal carries is looked at where
 * the contract names it for one field. */
#include "tools/check/flow.h"

#include <pthread.h>
#include <string.h>

#define ATTEMPTS 15u   /* a pattern of its own each: 0x11 to 0xFF */
#define SEEN_ENOUGH 5u /* attempts that had work pending */
#define PAGE_BYTES UINT64_C(4096)
#define NEEDS (MBR_NEEDS_ORDER | MBR_NEEDS_TRANSFER)

/* A stream, a line on it, and memory for a load. */
typedef struct scene {
    mbr_native stream;
    uint64_t line;
    uint64_t address;
} scene;

static scene set_scene(mbr_trial *trial)
{
    scene made = {.stream = mbr_step_stream(trial)};
    made.line = mbr_step_line(trial, made.stream);
    made.address = mbr_alc_take(trial, MBR_LOAD_BYTES).address;
    return made;
}

/* ---- Values ---------------------------------------------------------------------------------- */

static void run_plain(mbr_trial *trial)
{
    mbr_subject *self = &trial->subject;
    mbr_native stream = mbr_step_stream(trial);
    uint64_t id = mbr_trial_id(trial), value;
    uint64_t address = mbr_alc_take(trial, PAGE_BYTES).address;
    mbr_expect_status(trial, mbr_try_line(trial, self, id, stream, 0), MBR_OK, "line_open");
    mbr_step_fill(trial, stream, address, PAGE_BYTES, 0x5A);
    mbr_expect_status(trial, mbr_try_signal(trial, self, id, &value), MBR_OK, "signal");
    mbr_expect_status(trial,
        mbr_try_wait(trial, self, id, value, mbr_now_ns() + MBR_FLOW_PATIENCE_NS), MBR_OK, "wait");
    uint64_t reached;
    mbr_expect_status(trial, mbr_try_reached(trial, self, id, &reached), MBR_OK, "reached");
    mbr_expect_status(trial, mbr_try_stream_wait(trial, self, id, value, stream), MBR_OK,
        "stream_wait of a value that is reached");
    mbr_expect_status(trial, mbr_try_line_close(trial, self, id), MBR_OK, "line_close");
}

static void run_rising(mbr_trial *trial)
{
    mbr_native stream = mbr_step_stream(trial);
    uint64_t line = mbr_step_line(trial, stream), before = 0;
    for (uint32_t i = 0; i < 64; i++) {
        uint64_t value = mbr_step_signal(trial, line);
        MBR_EXPECT(trial, value > before, "each signal returns a new value above the last, from 1",
            "signal %u returned %lu after %lu", i + 1, value, before);
        before = value;
    }
}

static void run_early(mbr_trial *trial)
{
    scene it = set_scene(trial);
    for (uint32_t attempt = 0, seen = 0; attempt < ATTEMPTS && seen < SEEN_ENOUGH; attempt++) {
        uint32_t pattern = 0x11 * (attempt + 1);
        uint64_t value = mbr_step_load_signal(trial, it.stream, it.line, it.address, pattern);
        uint64_t end_ns = mbr_now_ns() + MBR_FLOW_PATIENCE_NS;
        seen += mbr_step_is_pending(trial, it.line, value);
        while (mbr_step_is_pending(trial, it.line, value))
            MBR_NEED(trial, mbr_now_ns() < end_ns, "value %lu was never reached", value);
        uint32_t mark = mbr_step_load_mark(trial, it.address);
        MBR_EXPECT(trial, mark == pattern,
            "a value is reached after all work that was submitted before its signal",
            "reached tells %lu, and the last byte of the fill is 0x%02x, not 0x%02x", value, mark,
            pattern);
        mbr_step_drain(trial, it.stream);
    }
}

static void run_backwards(mbr_trial *trial)
{
    scene it = set_scene(trial);
    uint64_t before = 0, last = 0, end_ns = mbr_now_ns() + MBR_FLOW_PATIENCE_NS;
    for (uint32_t i = 0; i < 24; i++) {
        mbr_step_fill(trial, it.stream, it.address, MBR_LOAD_BYTES / 32, i);
        last = mbr_step_signal(trial, it.line);
    }
    for (uint32_t after = 0; after < 200; after += before >= last) {
        uint64_t now = mbr_step_reached(trial, it.line);
        MBR_EXPECT(trial, now >= before, "what reached tells never goes back",
            "%lu after %lu of %lu", now, before, last);
        before = now;
        MBR_NEED(trial, mbr_now_ns() < end_ns, "value %lu was never reached", last);
    }
}

static void run_exact(mbr_trial *trial)
{
    mbr_native stream = mbr_step_stream(trial);
    uint64_t address = mbr_alc_take(trial, PAGE_BYTES).address, value = 0;
    mbr_step_fill(trial, stream, address, PAGE_BYTES, 1);
    mbr_step_drain(trial, stream); /* the stream has a past, the line has none */
    uint64_t line = mbr_step_line(trial, stream);
    uint64_t fresh = mbr_step_reached(trial, line);
    MBR_EXPECT(trial, fresh == 0, "a line without a signal has reached 0", "%lu", fresh);
    for (uint32_t i = 0; i < 3; i++) {
        mbr_step_fill(trial, stream, address, PAGE_BYTES, i);
        value = mbr_step_signal(trial, line);
        mbr_step_wait(trial, line, value);
        uint64_t reached = mbr_step_reached(trial, line);
        MBR_EXPECT(trial, reached == value, "reached tells the value that was waited for",
            "waited for %lu, reached %lu", value, reached);
    }
}

#define LOADS 6u /* so many that the last is far from done when the first is */

/* The value behind all of them, whose last one is of that pattern; `first` may be NULL. */
static uint64_t signal_far_ahead(
    mbr_trial *trial, const scene *it, uint32_t pattern, uint64_t *first)
{
    uint64_t value = 0;
    for (uint32_t left = LOADS; left-- > 0;) {
        value = mbr_step_load_signal(trial, it->stream, it->line, it->address, pattern ^ left);
        if (left == LOADS - 1 && first != NULL)
            *first = value;
    }
    return value;
}

/* Not the first value of a line: one whose predecessors are pending too. */
static void run_wait_for_its_value(mbr_trial *trial)
{
    scene it = set_scene(trial);
    for (uint32_t attempt = 0, seen = 0; attempt < ATTEMPTS && seen < SEEN_ENOUGH; attempt++) {
        uint32_t pattern = 0x11 * (attempt + 1);
        uint64_t first = 0, value = signal_far_ahead(trial, &it, pattern, &first);
        seen += mbr_step_is_pending(trial, it.line, first);
        mbr_step_wait(trial, it.line, value);
        uint32_t mark = mbr_step_load_mark(trial, it.address);
        MBR_EXPECT(trial, mark == pattern, "wait returns when its own value is reached",
            "after the wait for %lu the last byte of the fill is 0x%02x, not 0x%02x", value, mark,
            pattern);
        mbr_step_drain(trial, it.stream);
    }
}

/* ---- Deadlines ------------------------------------------------------------------------------- */

/* Of a check that a call does not last as long as pending work: whether it has to be tried again.
 * `over_count` counts the calls that began with work pending and ended without. */
#define OVER_TOO_OFTEN 8u
static bool tries_on(uint32_t attempt, uint32_t over_count)
{
    return attempt < 2 * OVER_TOO_OFTEN && over_count < OVER_TOO_OFTEN &&
        (attempt < OVER_TOO_OFTEN || over_count > 0);
}

static void run_deadline(mbr_trial *trial)
{
    scene it = set_scene(trial);
    uint32_t over_count = 0;
    for (uint32_t attempt = 0; tries_on(attempt, over_count); attempt++) {
        uint64_t value = signal_far_ahead(trial, &it, 0x31, NULL);
        bool was_pending = mbr_step_is_pending(trial, it.line, value);
        mbr_status status = mbr_try_wait(trial, &trial->subject, it.line, value, mbr_now_ns() - 1);
        MBR_EXPECT(trial, status == MBR_OK || status == MBR_TIMED_OUT,
            "a wait that comes too late answers MBR_TIMED_OUT", "%s", mbr_status_name(status));
        if (status == MBR_TIMED_OUT)
            return;
        over_count += was_pending;
        mbr_step_drain(trial, it.stream);
    }
    MBR_EXPECT(trial, over_count < OVER_TOO_OFTEN, "a wait does not last beyond its deadline",
        "the deadline had passed and the value was pending, %u times, and wait returned when it "
        "was reached",
        over_count);
}

static void run_nothing_changed(mbr_trial *trial)
{
    mbr_subject *self = &trial->subject;
    scene it = set_scene(trial);
    for (uint32_t attempt = 0, seen = 0; attempt < ATTEMPTS && seen < SEEN_ENOUGH; attempt++) {
        uint32_t pattern = 0x40 + attempt;
        uint64_t next, value = mbr_step_load_signal(trial, it.stream, it.line, it.address, pattern);
        seen += mbr_try_wait(trial, self, it.line, value, mbr_now_ns() - 1) == MBR_TIMED_OUT;
        mbr_expect_status(trial,
            mbr_try_wait(trial, self, it.line, value, mbr_now_ns() + MBR_FLOW_PATIENCE_NS), MBR_OK,
            "a second wait, after one that timed out,");
        uint32_t mark = mbr_step_load_mark(trial, it.address);
        MBR_EXPECT(trial, mark == pattern, "the work goes on after a wait that timed out",
            "the last byte is 0x%02x, not 0x%02x", mark, pattern);
        mbr_expect_status(trial, mbr_try_signal(trial, self, it.line, &next), MBR_OK,
            "a signal after a wait that timed out");
        mbr_step_drain(trial, it.stream);
    }
}

static void run_no_such_value(mbr_trial *trial)
{
    mbr_native stream = mbr_step_stream(trial);
    uint64_t line = mbr_step_line(trial, stream);
    mbr_expect_status(trial, mbr_try_wait(trial, &trial->subject, line, 1, mbr_now_ns()),
        MBR_INVALID_ARGUMENT, "a wait on a line without a signal");
    uint64_t last = mbr_step_signal(trial, line);
    mbr_step_wait(trial, line, last);
    const uint64_t values[] = {0, last + 1, last + 1000, UINT64_MAX};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        mbr_expect_status(trial,
            mbr_try_wait(trial, &trial->subject, line, values[i], mbr_now_ns()),
            MBR_INVALID_ARGUMENT, "a wait for a value that no signal returned");
}

/* ---- Ends ------------------------------------------------------------------------------------ */

static void run_close_pending(mbr_trial *trial)
{
    scene it = set_scene(trial);
    for (uint32_t attempt = 0, seen = 0; attempt < ATTEMPTS && seen < SEEN_ENOUGH; attempt++) {
        uint64_t line = mbr_step_line(trial, it.stream);
        uint32_t pattern = 0x50 + attempt;
        uint64_t value = mbr_step_load_signal(trial, it.stream, line, it.address, pattern);
        seen += mbr_step_is_pending(trial, line, value);
        mbr_expect_status(trial, mbr_try_line_close(trial, &trial->subject, line), MBR_OK,
            "line_close of a line with a pending value");
        mbr_step_drain(trial, it.stream);
        MBR_EXPECT(trial, mbr_step_load_mark(trial, it.address) == pattern,
            "the work of a stream goes on when a line is closed", "the last byte is 0x%02x",
            mbr_step_load_mark(trial, it.address));
    }
}

static void run_outlives(mbr_trial *trial)
{
    mbr_subject *self = &trial->subject;
    scene it = set_scene(trial);
    mbr_step_load(trial, it.stream, it.address, 0x61);
    uint64_t value = mbr_step_signal(trial, it.line), reached;
    mbr_step_stream_end(trial, it.stream);
    mbr_expect_status(trial,
        mbr_try_wait(trial, self, it.line, value, mbr_now_ns() + MBR_FLOW_PATIENCE_NS), MBR_OK,
        "a wait on the line of a stream that was destroyed");
    mbr_expect_status(trial, mbr_try_reached(trial, self, it.line, &reached), MBR_OK,
        "reached of the line of a stream that was destroyed");
    MBR_EXPECT(trial, reached == value, "a line keeps its values when its stream is destroyed",
        "reached tells %lu, %lu was waited for", reached, value);
    mbr_expect_status(
        trial, mbr_try_line_close(trial, self, it.line), MBR_OK, "line_close after stream_destroy");
}

/* Until a stream has the value again; where that never happens there is nothing to see. */
static bool find_reused(mbr_trial *trial, mbr_native old, mbr_native *again)
{
    for (uint32_t i = 0; i < 32; i++) {
        *again = mbr_step_stream(trial);
        if (again->value == old.value)
            return true;
        if (i % 2 != 0)
            mbr_step_stream_end(trial, *again);
    }
    return false;
}

static void run_reused(mbr_trial *trial)
{
    mbr_native old = mbr_step_stream(trial), again;
    uint64_t old_line = mbr_step_line(trial, old), last = 0;
    for (uint32_t i = 0; i < 5; i++) {
        last = mbr_step_signal(trial, old_line);
        mbr_step_wait(trial, old_line, last);
    }
    mbr_step_stream_end(trial, old);
    if (!find_reused(trial, old, &again))
        return;
    uint64_t line = mbr_step_line(trial, again);
    uint64_t reached = mbr_step_reached(trial, line);
    MBR_EXPECT(trial, reached == 0, "a stream's value that is used again is a new line",
        "the new line has reached %lu before its first signal, the old one %lu", reached, last);
    mbr_step_wait(trial, line, mbr_step_signal(trial, line));
    reached = mbr_step_reached(trial, old_line);
    MBR_EXPECT(trial, reached == last, "the line of a stream that is gone stays as it was",
        "reached was %lu and is %lu", last, reached);
}

/* ---- Streams that wait ----------------------------------------------------------------------- */

static void run_two_streams(mbr_trial *trial)
{
    mbr_subject *self = &trial->subject;
    scene it = set_scene(trial);
    mbr_native second = mbr_step_stream(trial);
    uint64_t copy = mbr_alc_take(trial, PAGE_BYTES).address;
    for (uint32_t attempt = 0, seen = 0; attempt < ATTEMPTS && seen < SEEN_ENOUGH; attempt++) {
        uint32_t pattern = 0x71 + attempt;
        unsigned char last;
        uint64_t value = signal_far_ahead(trial, &it, pattern, NULL);
        mbr_need_ok(trial, mbr_try_stream_wait(trial, self, it.line, value, second), "stream_wait");
        mbr_step_copy(trial, second, copy, it.address + MBR_LOAD_BYTES - PAGE_BYTES, PAGE_BYTES);
        seen += mbr_step_is_pending(trial, it.line, value); /* the copy could come too early */
        mbr_step_drain(trial, second);
        mbr_step_read(trial, copy + PAGE_BYTES - 1, &last, 1);
        MBR_EXPECT(trial, last == pattern,
            "work behind a stream_wait runs after the value is reached",
            "the copy holds 0x%02x, the fill wrote 0x%02x", last, pattern);
        mbr_step_drain(trial, it.stream);
    }
}

static void run_never_waits(mbr_trial *trial)
{
    mbr_subject *self = &trial->subject;
    scene it = set_scene(trial);
    mbr_native second = mbr_step_stream(trial);
    uint32_t over_count = 0;
    for (uint32_t attempt = 0; tries_on(attempt, over_count); attempt++) {
        uint64_t value = signal_far_ahead(trial, &it, 0x79, NULL);
        bool was_pending = mbr_step_is_pending(trial, it.line, value);
        mbr_need_ok(trial, mbr_try_stream_wait(trial, self, it.line, value, second), "stream_wait");
        if (mbr_step_is_pending(trial, it.line, value))
            return;
        over_count += was_pending;
        mbr_step_drain(trial, second);
    }
    MBR_EXPECT(trial, over_count < OVER_TOO_OFTEN, "stream_wait never waits itself",
        "%u times the value was pending before it and reached behind it", over_count);
}

/* ---- Ids and arguments ----------------------------------------------------------------------- */

static void expect_line_refused(mbr_trial *trial, mbr_subject *self, uint64_t id, uint64_t value,
    mbr_native stream, const char *expected)
{
    uint64_t ignored;
    const struct {
        const char *slot;
        mbr_status status;
    } answers[] = {
        {"reached", mbr_try_reached(trial, self, id, &ignored)},
        {"signal", mbr_try_signal(trial, self, id, &ignored)},
        {"wait", mbr_try_wait(trial, self, id, value, mbr_now_ns())},
        {"stream_wait", mbr_try_stream_wait(trial, self, id, value, stream)},
        {"line_close", mbr_try_line_close(trial, self, id)},
    };
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++)
        MBR_EXPECT(trial, answers[i].status != MBR_OK && answers[i].status != MBR_TIMED_OUT,
            expected, "%s of line %lu: %s", answers[i].slot, id,
            mbr_status_name(answers[i].status));
}

static void run_unknown(mbr_trial *trial)
{
    mbr_native stream = mbr_step_stream(trial);
    uint64_t live = mbr_step_line(trial, stream), value = mbr_step_signal(trial, live);
    const uint64_t ids[] = {live + 1, live - 1, live + (UINT64_C(1) << 32), 1, UINT64_MAX};
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++)
        expect_line_refused(trial, &trial->subject, ids[i], value, stream,
            "a line id that never was is refused by every slot");
}

static void run_closed(mbr_trial *trial)
{
    mbr_native stream = mbr_step_stream(trial);
    uint64_t line = mbr_step_line(trial, stream), value = mbr_step_signal(trial, line);
    mbr_step_wait(trial, line, value);
    mbr_step_line_close(trial, line);
    expect_line_refused(trial, &trial->subject, line, value, stream,
        "the id of a line that was closed is refused by every slot");
}

static void run_foreign(mbr_trial *trial)
{
    mbr_subject other;
    mbr_need_ok(trial, mbr_subject_open(trial, NULL, 0, &other, NULL), "a second open");
    mbr_native own = mbr_step_stream(trial), foreign;
    uint64_t line = mbr_step_line(trial, own), value = mbr_step_signal(trial, line);
    mbr_step_wait(trial, line, value);
    mbr_need_ok(trial, mbr_try_stream(trial, &other, 0, &foreign), "stream_create");
    expect_line_refused(
        trial, &other, line, value, foreign, "the line of one instance is unknown to another");
    uint64_t reached = mbr_step_reached(trial, line);
    MBR_EXPECT(trial, reached == value, "refused calls of another instance change nothing",
        "reached was %lu and is %lu", value, reached);
}

static void run_doubled(mbr_trial *trial)
{
    mbr_subject *self = &trial->subject;
    mbr_native one = mbr_step_stream(trial), two = mbr_step_stream(trial);
    uint64_t line = mbr_step_line(trial, one), value = mbr_step_signal(trial, line);
    mbr_step_wait(trial, line, value);
    const mbr_native streams[] = {one, two};
    for (size_t i = 0; i < 2; i++) {
        mbr_status status = mbr_try_line(trial, self, line, streams[i], 0);
        MBR_EXPECT(trial, status != MBR_OK, "the id of an open line is refused to a second one",
            "line %lu was opened twice", line);
    }
    uint64_t reached = mbr_step_reached(trial, line);
    MBR_EXPECT(trial, reached == value, "the refused second open leaves the line as it was",
        "reached was %lu and is %lu", value, reached);
}

static void run_id_zero(mbr_trial *trial)
{
    mbr_native stream = mbr_step_stream(trial);
    mbr_status status = mbr_try_line(trial, &trial->subject, 0, stream, 0);
    MBR_EXPECT(trial, status != MBR_OK, "id 0 names no object: line_open refuses it", "MBR_OK");
}

static void run_kinds(mbr_trial *trial)
{
    mbr_native stream = mbr_step_stream(trial);
    const uint32_t kinds[] = {MBR_NATIVE_STREAM_NONE, MBR_NATIVE_STREAM_CPU, MBR_NATIVE_STREAM_CUDA,
        MBR_NATIVE_STREAM_HIP, 4, 77, UINT32_MAX};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        mbr_native other = {.kind = kinds[i], .value = stream.value};
        if (other.kind != stream.kind)
            mbr_expect_status(trial,
                mbr_try_line(trial, &trial->subject, mbr_trial_id(trial), other, 0),
                MBR_INVALID_ARGUMENT, "line_open on a stream of another kind");
    }
}

static void run_stream_wait_kinds(mbr_trial *trial)
{
    mbr_native stream = mbr_step_stream(trial);
    uint64_t line = mbr_step_line(trial, stream), value = mbr_step_signal(trial, line);
    const uint32_t kinds[] = {MBR_NATIVE_STREAM_NONE, MBR_NATIVE_STREAM_CPU, MBR_NATIVE_STREAM_CUDA,
        MBR_NATIVE_STREAM_HIP, 4, 77, UINT32_MAX};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        mbr_native other = {.kind = kinds[i], .value = stream.value};
        mbr_status status = other.kind == stream.kind
            ? MBR_INVALID_ARGUMENT
            : mbr_try_stream_wait(trial, &trial->subject, line, value, other);
        MBR_EXPECT(trial, status != MBR_OK, "stream_wait refuses a stream of another kind",
            "kind %u: MBR_OK", other.kind);
    }
}

static void run_flags(mbr_trial *trial)
{
    mbr_native stream = mbr_step_stream(trial);
    for (uint32_t bit = 0; bit < 16; bit++) {
        mbr_status status =
            mbr_try_line(trial, &trial->subject, mbr_trial_id(trial), stream, 1u << bit);
        MBR_EXPECT(trial, status != MBR_OK, "line_open refuses an unknown critical flag",
            "flag 0x%x: MBR_OK", 1u << bit);
    }
}

static void run_report(mbr_trial *trial)
{
    mbr_native stream = mbr_step_stream(trial);
    uint64_t lines[3];
    for (uint64_t i = 0; i < 3; i++) {
        lines[i] = mbr_step_line(trial, stream);
        uint64_t count = mbr_subject_report(trial, &trial->subject).line_count;
        MBR_EXPECT(
            trial, count == i + 1, "report counts the open lines", "%lu of %lu", count, i + 1);
    }
    mbr_step_stream_end(trial, stream);
    for (uint64_t i = 0; i < 3; i++) {
        mbr_step_line_close(trial, lines[i]);
        uint64_t count = mbr_subject_report(trial, &trial->subject).line_count;
        MBR_EXPECT(
            trial, count == 2 - i, "report counts the open lines", "%lu of %lu", count, 2 - i);
    }
}

static const mbr_check checks[] = {
    {"ORD-001", 2, MBR_STAGE_OPENED, NEEDS, "C2", "a line can be opened, signalled, waited for",
        "Every release of memory that a stream used waits for a line.", run_plain, 0, 0},
    {"ORD-002", 2, MBR_STAGE_OPENED, NEEDS, "C2", "signal returns rising values",
        "Two points with one value cannot be told apart: the later one would pass for reached.",
        run_rising, 0, 0},
    {"ORD-003", 2, MBR_STAGE_OPENED, NEEDS, "C2", "reached tells a value only after its work",
        "The host unmaps what the work uses as soon as the value is reached.", run_early, 0, 0},
    {"ORD-004", 3, MBR_STAGE_OPENED, NEEDS, "C2", "reached never goes back",
        "The host has given memory back at the higher value already.", run_backwards, 0, 0},
    {"ORD-005", 2, MBR_STAGE_OPENED, NEEDS, "C2", "reached is exact",
        "A line that begins above 0 has reached its first signals before they are made; one that "
        "stays behind keeps memory for ever.",
        run_exact, 0, 0},
    {"ORD-006", 2, MBR_STAGE_OPENED, NEEDS, "C2", "wait returns when its own value is reached",
        "A wait that any progress ends lets memory go under running work.", run_wait_for_its_value,
        0, 0},
    {"ORD-007", 3, MBR_STAGE_OPENED, NEEDS, "C2", "wait keeps its deadline",
        "A host that must answer cannot be held by a kernel that never ends.", run_deadline, 0, 0},
    {"ORD-008", 3, MBR_STAGE_OPENED, NEEDS, "C2", "a wait that timed out has changed nothing",
        "The host asks again later, and the memory is still in use until then.",
        run_nothing_changed, 0, 0},
    {"ORD-009", 3, MBR_STAGE_OPENED, NEEDS, "C2", "wait refuses a value that no signal returned",
        "It might never come; and 0 would pass for a point that is done.", run_no_such_value, 0, 0},
    {"ORD-010", 3, MBR_STAGE_OPENED, NEEDS, "C2", "a line is closed also with values pending",
        "A host that leaves must not wait for work that others submitted.", run_close_pending, 0,
        0},
    {"ORD-011", 3, MBR_STAGE_OPENED, NEEDS, "C9", "a line outlives its stream",
        "A framework destroys its streams while the host's memory still waits for them.",
        run_outlives, 0, 0},
    {"ORD-012", 3, MBR_STAGE_OPENED, NEEDS, "C9", "a stream value that is used again is new",
        "Drivers give a new stream the address of an old one; its line must not inherit values.",
        run_reused, 0, 0},
    {"ORD-013", 2, MBR_STAGE_OPENED, NEEDS, "C2", "stream_wait orders two streams",
        "Memory goes from one stream to another behind it.", run_two_streams, 0, 0},
    {"ORD-014", 3, MBR_STAGE_OPENED, NEEDS, "C2", "stream_wait never waits itself",
        "It is called where a framework launches its work.", run_never_waits, 0, 0},
    {"ORD-015", 3, MBR_STAGE_OPENED, NEEDS, "C22", "an unknown line is refused",
        "A value of 0 for a line that does not exist looks like work that never ends.", run_unknown,
        0, 0},
    {"ORD-016", 3, MBR_STAGE_OPENED, NEEDS, "C22", "a closed line is refused",
        "The host's own mistake would be hidden.", run_closed, 0, 0},
    {"ORD-017", 3, MBR_STAGE_OPENED, NEEDS, "C22", "a line of another instance is refused",
        "Instances know nothing of each other.", run_foreign, 0, 0},
    {"ORD-018", 3, MBR_STAGE_OPENED, NEEDS, "C22", "the id of an open line is refused",
        "One of the two could never be closed.", run_doubled, 0, 0},
    {"ORD-019", 3, MBR_STAGE_OPENED, NEEDS, "C22", "line id 0 is refused",
        "It means no object wherever the contract answers an id.", run_id_zero, 0, 0},
    {"ORD-020", 3, MBR_STAGE_OPENED, NEEDS, "C9", "line_open refuses streams of another kind",
        "The value of one driver's stream is an address to crash on in another.", run_kinds, 0, 0},
    {"ORD-021", 3, MBR_STAGE_OPENED, NEEDS, "C9", "stream_wait refuses streams of another kind",
        "The value of one driver's stream is an address to crash on in another.",
        run_stream_wait_kinds, 0, 0},
    {"ORD-022", 3, MBR_STAGE_OPENED, NEEDS, "C15", "line_open refuses unknown critical flags",
        "The host asks for something that it relies on.", run_flags, 0, 0},
    {"ORD-023", 3, MBR_STAGE_OPENED, NEEDS, "C2", "report counts lines",
        "Unloading under an open line would crash later.", run_report, 0, 0},
};

const mbr_group mbr_group_ord = MBR_GROUP("ORD", "lines: signal, reached, wait", checks);
