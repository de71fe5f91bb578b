/* Group LIF, third part: the life of an instance with streams and lines. */
#include "tools/check/flow.h"

#define QUIESCE_ROUNDS 12

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
};

const mbr_group mbr_group_lif_flow = MBR_GROUP("LIF", "life: streams and lines", checks);
