/* Helpers of the checks of streams and lines. Never judges. */
#include "tools/check/flow.h"

#include <string.h>

#define LOAD_ROUNDS 6

/* ---- Tries ----------------------------------------------------------------------------------- */

mbr_status mbr_try_stream(mbr_trial *trial, mbr_subject *self, uint32_t flags, mbr_native *stream)
{
    const mbr_stream_create_request request = {
        MBR_SIZED(mbr_stream_create_request), .flags = flags};
    mbr_stream_create_outcome outcome = {MBR_SIZED(mbr_stream_create_outcome)};
    mbr_status status = mbr_drive_stream_create(trial, self, &request, &outcome);
    *stream = outcome.stream;
    return status;
}

mbr_status mbr_try_stream_end(mbr_trial *trial, mbr_subject *self, mbr_native stream)
{
    const mbr_stream_destroy_request request = {
        MBR_SIZED(mbr_stream_destroy_request), .stream = stream};
    mbr_outcome outcome = {MBR_SIZED(mbr_outcome)};
    return mbr_drive_stream_destroy(trial, self, &request, &outcome);
}

mbr_status mbr_try_fill(mbr_trial *trial, mbr_subject *self, mbr_native stream, uint64_t address,
    uint64_t bytes, uint32_t pattern)
{
    const mbr_fill_request request = {MBR_SIZED(mbr_fill_request), .pattern = pattern,
        .stream = stream, .address = address, .bytes = bytes};
    mbr_outcome outcome = {MBR_SIZED(mbr_outcome)};
    return mbr_drive_fill(trial, self, &request, &outcome);
}

mbr_status mbr_try_copy(mbr_trial *trial, mbr_subject *self, mbr_native stream, uint64_t to,
    uint64_t from, uint64_t bytes)
{
    const mbr_copy_request request = {MBR_SIZED(mbr_copy_request), .stream = stream,
        .to_address = to, .from_address = from, .bytes = bytes};
    mbr_outcome outcome = {MBR_SIZED(mbr_outcome)};
    return mbr_drive_copy(trial, self, &request, &outcome);
}

mbr_status mbr_try_line(
    mbr_trial *trial, mbr_subject *self, uint64_t id, mbr_native stream, uint32_t flags)
{
    const mbr_line_open_request request = {
        MBR_SIZED(mbr_line_open_request), .flags = flags, .line_id = id, .stream = stream};
    mbr_outcome outcome = {MBR_SIZED(mbr_outcome)};
    return mbr_drive_line_open(trial, self, &request, &outcome);
}

mbr_status mbr_try_signal(mbr_trial *trial, mbr_subject *self, uint64_t id, uint64_t *value)
{
    const mbr_line_request request = {MBR_SIZED(mbr_line_request), .line_id = id};
    mbr_outcome outcome = {MBR_SIZED(mbr_outcome)};
    mbr_status status = mbr_drive_signal(trial, self, &request, &outcome);
    *value = outcome.value;
    return status;
}

mbr_status mbr_try_reached(mbr_trial *trial, mbr_subject *self, uint64_t id, uint64_t *value)
{
    const mbr_line_request request = {MBR_SIZED(mbr_line_request), .line_id = id};
    mbr_outcome outcome = {MBR_SIZED(mbr_outcome)};
    mbr_status status = mbr_drive_reached(trial, self, &request, &outcome);
    *value = outcome.value;
    return status;
}

mbr_status mbr_try_wait(
    mbr_trial *trial, mbr_subject *self, uint64_t id, uint64_t value, uint64_t deadline_ns)
{
    const mbr_line_wait_request request = {MBR_SIZED(mbr_line_wait_request), .line_id = id,
        .value = value, .deadline_ns = deadline_ns};
    mbr_outcome outcome = {MBR_SIZED(mbr_outcome)};
    return mbr_drive_wait(trial, self, &request, &outcome);
}

mbr_status mbr_try_stream_wait(
    mbr_trial *trial, mbr_subject *self, uint64_t id, uint64_t value, mbr_native stream)
{
    const mbr_stream_wait_request request = {
        MBR_SIZED(mbr_stream_wait_request), .line_id = id, .value = value, .stream = stream};
    mbr_outcome outcome = {MBR_SIZED(mbr_outcome)};
    return mbr_drive_stream_wait(trial, self, &request, &outcome);
}

mbr_status mbr_try_line_close(mbr_trial *trial, mbr_subject *self, uint64_t id)
{
    const mbr_line_request request = {MBR_SIZED(mbr_line_request), .line_id = id};
    mbr_outcome outcome = {MBR_SIZED(mbr_outcome)};
    return mbr_drive_line_close(trial, self, &request, &outcome);
}

/* ---- Steps ----------------------------------------------------------------------------------- */

mbr_native mbr_step_stream(mbr_trial *trial)
{
    mbr_native stream;
    mbr_need_ok(trial, mbr_try_stream(trial, &trial->subject, 0, &stream), "stream_create");
    return stream;
}

void mbr_step_stream_end(mbr_trial *trial, mbr_native stream)
{
    mbr_need_ok(trial, mbr_try_stream_end(trial, &trial->subject, stream), "stream_destroy");
}

uint64_t mbr_step_line(mbr_trial *trial, mbr_native stream)
{
    uint64_t id = mbr_trial_id(trial);
    mbr_need_ok(trial, mbr_try_line(trial, &trial->subject, id, stream, 0), "line_open");
    return id;
}

uint64_t mbr_step_signal(mbr_trial *trial, uint64_t line)
{
    uint64_t value;
    mbr_need_ok(trial, mbr_try_signal(trial, &trial->subject, line, &value), "signal");
    return value;
}

uint64_t mbr_step_reached(mbr_trial *trial, uint64_t line)
{
    uint64_t value;
    mbr_need_ok(trial, mbr_try_reached(trial, &trial->subject, line, &value), "reached");
    return value;
}

void mbr_step_wait(mbr_trial *trial, uint64_t line, uint64_t value)
{
    mbr_need_ok(trial,
        mbr_try_wait(trial, &trial->subject, line, value, mbr_now_ns() + MBR_FLOW_PATIENCE_NS),
        "wait");
}

void mbr_step_line_close(mbr_trial *trial, uint64_t line)
{
    mbr_need_ok(trial, mbr_try_line_close(trial, &trial->subject, line), "line_close");
}

void mbr_step_fill(
    mbr_trial *trial, mbr_native stream, uint64_t address, uint64_t bytes, uint32_t pattern)
{
    mbr_need_ok(
        trial, mbr_try_fill(trial, &trial->subject, stream, address, bytes, pattern), "fill");
}

void mbr_step_copy(mbr_trial *trial, mbr_native stream, uint64_t to, uint64_t from, uint64_t bytes)
{
    mbr_need_ok(trial, mbr_try_copy(trial, &trial->subject, stream, to, from, bytes), "copy");
}

void mbr_step_drain(mbr_trial *trial, mbr_native stream)
{
    uint64_t line = mbr_step_line(trial, stream);
    mbr_step_wait(trial, line, mbr_step_signal(trial, line));
    mbr_step_line_close(trial, line);
}

static void move(mbr_trial *trial, uint64_t to, uint64_t from, uint64_t bytes)
{
    if ((trial->subject.offered & MBR_NEEDS_HOST_ACCESS) != 0) {
        memcpy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
        return;
    }
    mbr_native stream = mbr_step_stream(trial);
    mbr_step_copy(trial, stream, to, from, bytes);
    mbr_step_drain(trial, stream);
    mbr_step_stream_end(trial, stream);
}

void mbr_step_read(mbr_trial *trial, uint64_t address, void *to, uint64_t bytes)
{
    move(trial, (uint64_t)(uintptr_t)to, address, bytes);
}

void mbr_step_put(mbr_trial *trial, uint64_t address, const void *from, uint64_t bytes)
{
    move(trial, address, (uint64_t)(uintptr_t)from, bytes);
}

void mbr_step_load(mbr_trial *trial, mbr_native stream, uint64_t address, uint32_t pattern)
{
    for (uint32_t round = 0; round < LOAD_ROUNDS; round++)
        mbr_step_fill(trial, stream, address, MBR_LOAD_BYTES,
            round + 1 == LOAD_ROUNDS ? pattern : (pattern ^ 0x80u) + round);
}

uint64_t mbr_step_load_signal(
    mbr_trial *trial, mbr_native stream, uint64_t line, uint64_t address, uint32_t pattern)
{
    mbr_step_load(trial, stream, address, pattern);
    return mbr_step_signal(trial, line);
}

bool mbr_step_is_pending(mbr_trial *trial, uint64_t line, uint64_t value)
{
    return mbr_step_reached(trial, line) < value;
}

uint32_t mbr_step_load_mark(mbr_trial *trial, uint64_t address)
{
    unsigned char last;
    mbr_step_read(trial, address + MBR_LOAD_BYTES - 1, &last, 1);
    return last;
}
