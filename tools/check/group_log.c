/* Group LOG: how a plugin uses the host's one callback. A plugin that never logs passes. */
#include "tools/check/tour.h"

#include <stdio.h>
#include <string.h>

#define RECORDS_MAX 4096
#define LINE_MAX_BYTES 65536

/* What a sink was called with. Sinks only record: they may run on a thread of the plugin's. */
typedef struct record {
    const void *context;
    uint64_t text_bytes;
    uint32_t level;
    int sink; /* 0 or 1: the host gives each instance its own */
    bool has_text, is_line;
} record;

static record records[RECORDS_MAX];
static uint32_t record_count;

/* Printable UTF-8 without a line's end; every byte is read, as a host does that keeps it. */
static bool is_line(const char *text, uint64_t count)
{
    uint32_t more = 0;
    for (uint64_t i = 0; i < count; i++) {
        unsigned char c = (unsigned char)text[i];
        if (more > 0) {
            if ((c & 0xC0) != 0x80)
                return false;
            more--;
        } else if (c >= 0xC2 && c < 0xF5) {
            more = c < 0xE0 ? 1 : c < 0xF0 ? 2 : 3;
        } else if ((c < 0x20 && c != '\t') || c >= 0x7F) {
            return false;
        }
    }
    return more == 0;
}

static void note(int sink, const void *context, uint32_t level, const char *text, uint64_t count)
{
    uint32_t at = __atomic_fetch_add(&record_count, 1, __ATOMIC_ACQ_REL);
    if (at >= RECORDS_MAX)
        return;
    bool has_text = text != NULL && count > 0 && count <= LINE_MAX_BYTES;
    records[at] = (record){context, count, level, sink, has_text, has_text && is_line(text, count)};
}

static void first_sink(void *context, uint32_t level, const char *text, uint64_t text_bytes)
{
    note(0, context, level, text, text_bytes);
}

static void second_sink(void *context, uint32_t level, const char *text, uint64_t text_bytes)
{
    note(1, context, level, text, text_bytes);
}

static uint32_t count_records(void)
{
    uint32_t count = __atomic_load_n(&record_count, __ATOMIC_ACQUIRE);
    return count < RECORDS_MAX ? count : RECORDS_MAX;
}

/* What the contexts of the two sinks point to. */
static char marks[2];

static void open_with(mbr_trial *trial, int sink, mbr_subject *subject)
{
    const mbr_open_request request = {MBR_SIZED(mbr_open_request), .mechanism = trial->mechanism,
        .log = sink == 0 ? first_sink : second_sink, .log_context = &marks[sink]};
    mbr_status status = mbr_subject_open_as(trial, &request, subject, NULL);
    MBR_NEED(trial, status == MBR_OK, "open: %s", mbr_status_name(status));
    subject->offered |= trial->subject.offered;
}

/* Every slot in an instance that logs to a sink of the check's. */
static void tour_with_log(mbr_trial *trial, int sink)
{
    mbr_subject subject, own = trial->subject;
    open_with(trial, sink, &subject);
    trial->subject = subject;
    mbr_tour(trial, NULL);
    subject = trial->subject;
    trial->subject = own;
    mbr_need_ok(trial, mbr_subject_close(trial, &subject), "close");
}

static void run_levels(mbr_trial *trial)
{
    tour_with_log(trial, 0);
    for (uint32_t i = 0; i < count_records(); i++)
        MBR_EXPECT(trial, records[i].level >= MBR_LOG_DEBUG && records[i].level <= MBR_LOG_ERROR,
            "a line has one of the four levels", "level %u", records[i].level);
}

static void run_lines(mbr_trial *trial)
{
    tour_with_log(trial, 0);
    for (uint32_t i = 0; i < count_records(); i++) {
        MBR_EXPECT(trial, records[i].has_text, "a line has a text of 1 to 65536 bytes", "%lu bytes",
            records[i].text_bytes);
        MBR_EXPECT(trial, records[i].is_line,
            "the text is one line of UTF-8, and its bytes count no terminator", "%lu bytes",
            records[i].text_bytes);
    }
}

static void run_context(mbr_trial *trial)
{
    for (int round = 0; round < 2; round++)
        for (int sink = 0; sink < 2; sink++)
            tour_with_log(trial, sink);
    for (uint32_t i = 0; i < count_records(); i++)
        MBR_EXPECT(trial, records[i].context == &marks[records[i].sink],
            "a sink gets the context that was given with it", "%p, not %p", records[i].context,
            (void *)&marks[records[i].sink]);
}

static void run_after_close(mbr_trial *trial)
{
    tour_with_log(trial, 0);
    uint32_t closed_at = count_records();
    tour_with_log(trial, 1);
    mbr_tour(trial, NULL);
    for (uint32_t i = closed_at; i < count_records(); i++)
        MBR_EXPECT(trial, records[i].sink != 0, "a sink is not called when its instance is closed",
            "it was, %u calls behind the close", i - closed_at + 1);
}

#define LOG(number, title, why, run)                                                               \
    {                                                                                              \
        "LOG-" number, 4, MBR_STAGE_OPENED, 0, "C8", title, why, run, 0, 0                         \
    }

static const mbr_check checks[] = {
    LOG("001", "the log's levels are those of the contract",
        "A host filters by them; an unknown one is lost, or wakes somebody at night.", run_levels),
    LOG("002", "each call of the log is one bounded line of UTF-8",
        "Lines go into files that are read line by line; a forged second line is believed.",
        run_lines),
    LOG("003", "the log gets the context that came with it",
        "Sinks follow it without looking: it is the host's object.", run_context),
    LOG("004", "the log is not called when its instance is closed",
        "The context is gone with the instance.", run_after_close),
};

const mbr_group mbr_group_log = MBR_GROUP("LOG", "the log callback", checks);
