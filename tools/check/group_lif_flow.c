/* Group LIF, third part: the life of an instance with streams and lines. */
#include "tools/check/flow.h"
#include "tools/check/process.h"

#include <sched.h>

#define QUIESCE_ROUNDS 12
#define THREAD_ATTEMPTS 40 /* to see work in flight */
#define SEEN_ENOUGH 4
#define SETTLE_NS UINT64_C(500000000)

static void expect_in_use(mbr_trial *trial, const char *what)
{
    mbr_status status = mbr_subject_close(trial, &trial->subject);
    MBR_EXPECT(trial, status == MBR_IN_USE, "close answers MBR_IN_USE while an object lives",
        "%s with %s", mbr_status_name(status), what);
}

/* A line outlives its stream, so each stands alone once. */
static void run_close(mbr_trial *trial)
{
    mbr_native stream = mbr_step_stream(trial);
    expect_in_use(trial, "a stream");
    uint64_t line = mbr_step_line(trial, stream);
    mbr_step_stream_end(trial, stream);
    expect_in_use(trial, "a line whose stream is gone");
    mbr_step_line_close(trial, line);
    mbr_status status = mbr_subject_close(trial, &trial->subject);
    MBR_EXPECT(trial, status == MBR_OK, "close works when the last object is gone", "%s",
        mbr_status_name(status));
}

/* Work that may still be under way when quiesce is called; behind it all of it is done. */
static void quiesce_once(mbr_trial *trial)
{
    const mbr_quiesce_request request = {
        MBR_SIZED(mbr_quiesce_request), .deadline_ns = mbr_now_ns() + MBR_FLOW_PATIENCE_NS};
    mbr_outcome outcome = {0};
    mbr_alc memory = mbr_alc_take(trial, MBR_LOAD_BYTES);
    mbr_native stream = mbr_step_stream(trial);
    uint64_t line = mbr_step_line(trial, stream);
    uint64_t value = mbr_step_load_signal(trial, stream, line, memory.address, 7);
    mbr_status status = mbr_drive_quiesce(trial, &trial->subject, &request, &outcome);
    MBR_NEED(trial, status == MBR_OK, "quiesce: %s", mbr_status_name(status));
    uint64_t reached = mbr_step_reached(trial, line);
    MBR_EXPECT(trial, reached == value, "quiesce ends work in flight",
        "behind it value %lu is reached, and %lu was signalled", reached, value);
    uint32_t thread_count = mbr_subject_report(trial, &trial->subject).thread_count;
    MBR_EXPECT(trial, thread_count == 0, "behind quiesce an instance runs no thread",
        "the report says %u", thread_count);
    mbr_step_line_close(trial, line);
    mbr_step_stream_end(trial, stream);
    mbr_alc_give(trial, &memory);
}

static void run_quiesce(mbr_trial *trial)
{
    mbr_subject own = trial->subject;
    for (int i = 0; i < QUIESCE_ROUNDS; i++) {
        mbr_subject next;
        mbr_need_ok(trial, mbr_subject_open(trial, NULL, 0, &next, NULL), "open");
        next.offered |= own.offered;
        trial->subject = next;
        quiesce_once(trial);
        mbr_need_ok(trial, mbr_subject_close(trial, &trial->subject), "close");
    }
    trial->subject = own;
}

/* ---- Threads: what the report says and what the system counts -------------------------------- */

static uint64_t count_threads(void)
{
    return mbr_process_count_entries("/proc/self/task");
}

static uint64_t count_told(mbr_trial *trial)
{
    return mbr_subject_report(trial, &trial->subject).thread_count;
}

/* An instance of its own, so that what it starts when it is opened counts. Returns the threads that
 * were there before. */
static uint64_t open_own(mbr_trial *trial, mbr_subject *before)
{
    uint64_t others = count_threads();
    mbr_subject own;
    mbr_need_ok(trial, mbr_subject_open(trial, NULL, 0, &own, NULL), "open");
    own.offered |= trial->subject.offered;
    *before = trial->subject;
    trial->subject = own;
    return others;
}

/* One that was joined may be listed for a moment still. */
static void expect_told_soon(mbr_trial *trial, uint64_t others)
{
    uint64_t end_ns = mbr_now_ns() + SETTLE_NS;
    while (count_threads() > others + count_told(trial) && mbr_now_ns() < end_ns)
        sched_yield();
    uint64_t told = count_told(trial), seen = count_threads() - others;
    MBR_EXPECT(trial, seen <= told, "the report counts the threads that an instance runs",
        "at rest: %lu, and %lu more run since before open", told, seen);
}

/* What is told too low while work is in flight, each time that this was seen, is told wrong; once
 * it may be a thread that was joined. */
static void run_threads_told(mbr_trial *trial)
{
    mbr_subject before;
    uint64_t others = open_own(trial, &before), told = 0, running = 0;
    mbr_alc memory = mbr_alc_take(trial, MBR_LOAD_BYTES);
    mbr_native stream = mbr_step_stream(trial);
    uint64_t line = mbr_step_line(trial, stream);
    uint32_t seen = 0, low = 0;
    for (uint32_t attempt = 0; attempt < THREAD_ATTEMPTS && seen < SEEN_ENOUGH; attempt++) {
        expect_told_soon(trial, others);
        uint64_t value = mbr_step_load_signal(trial, stream, line, memory.address, 7);
        told = count_told(trial);
        running = count_threads() - others;
        bool is_seen = mbr_step_is_pending(trial, line, value);
        seen += is_seen;
        low += is_seen && told < running;
        mbr_step_wait(trial, line, value);
    }
    MBR_EXPECT(trial, seen < SEEN_ENOUGH || low < seen,
        "the report counts the threads that an instance runs",
        "with work in flight: %lu, and %lu more run since before open", told, running);
    trial->subject = before;
}

static void run_threads_joined(mbr_trial *trial)
{
    mbr_subject before;
    uint64_t others = open_own(trial, &before), end_ns;
    mbr_alc memory = mbr_alc_take(trial, MBR_LOAD_BYTES);
    mbr_native stream = mbr_step_stream(trial);
    mbr_step_load(trial, stream, memory.address, 7);
    mbr_step_drain(trial, stream);
    mbr_step_stream_end(trial, stream);
    mbr_alc_give(trial, &memory);
    const mbr_quiesce_request request = {
        MBR_SIZED(mbr_quiesce_request), .deadline_ns = mbr_now_ns() + MBR_FLOW_PATIENCE_NS};
    mbr_outcome outcome = {0};
    mbr_need_ok(trial, mbr_drive_quiesce(trial, &trial->subject, &request, &outcome), "quiesce");
    for (end_ns = mbr_now_ns() + SETTLE_NS; count_threads() > others && mbr_now_ns() < end_ns;)
        sched_yield();
    uint64_t seen = count_threads();
    MBR_EXPECT(trial, seen <= others, "behind quiesce no thread of the instance runs",
        "%lu run, %lu before it was opened", seen, others);
    mbr_need_ok(trial, mbr_subject_close(trial, &trial->subject), "close");
    trial->subject = before;
}

#define LIF(number, needs, title, why, run)                                                        \
    {                                                                                              \
        "LIF-" number, 4, MBR_STAGE_OPENED, needs, "C23, C32", title, why, run, 0, 0               \
    }

static const mbr_check checks[] = {
    LIF("019", MBR_NEEDS_TRANSFER | MBR_NEEDS_ORDER,
        "close answers MBR_IN_USE while a stream or a line lives",
        "A release that waits for a line would wait for an instance that is gone.", run_close),
    LIF("020", MBR_NEEDS_TRANSFER | MBR_NEEDS_ORDER, "quiesce ends work in flight",
        "Behind it the host takes memory away and unloads the code.", run_quiesce),
    LIF("022", MBR_NEEDS_TRANSFER | MBR_NEEDS_ORDER | MBR_NEEDS_HOST_ORACLE,
        "the report counts the threads that an instance runs",
        "Code is unmapped when it says that none runs there.", run_threads_told),
    LIF("023", MBR_NEEDS_TRANSFER | MBR_NEEDS_ORDER | MBR_NEEDS_HOST_ORACLE,
        "behind quiesce no thread of the instance runs, by the system's count",
        "It may say so and leave one asleep, which wakes in unmapped code.", run_threads_joined),
};

const mbr_group mbr_group_lif_flow = MBR_GROUP("LIF", "life: streams and lines", checks);
