/* The way to the client's sink. Responsible for what a sink may rely on: one printable line of
 * bounded length, no lock of ours held, no call after the end. Whoever writes is believed nothing.
 * A sink that waits delays its own thread alone. */
#include "host/bind/log.h"

#include "abi/base/checked.h"
#include "abi/base/error.h"
#include "abi/base/lock.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define SECOND_NS UINT64_C(1000000000)

struct mbr_log {
    mbr_heap heap;
    mbr_clock clock;
    mbr_log_function sink;
    void *context;
    _Atomic uint32_t reference_count;
    mbr_log *next_kept;

    mbr_lock lock; /* guards what follows; never held while the sink runs */
    mbr_condition quiet;
    bool is_ended, is_kept;
    uint64_t inside_count; /* threads in the sink */
    uint64_t second_ns;    /* when the present second began */
    uint64_t line_count;   /* in it */
    uint64_t dropped_count;
};

/* A sink that logs, through whatever it calls, would call itself. */
static _Thread_local bool is_inside;

/* Logs that stay for good are in reach of a leak checker, as their plugins are. */
static _Atomic(mbr_log *) kept;

mbr_status mbr_log_create(const mbr_heap *heap, const mbr_clock *clock, mbr_log_function sink,
    void *context, mbr_log **log, mbr_error *error)
{
    *log = NULL;
    mbr_log *own = mbr_heap_allocate(heap, sizeof *own);
    if (own == NULL)
        return mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no host memory for a log");
    own->heap = *heap;
    own->clock = *clock;
    own->sink = sink;
    own->context = context;
    own->second_ns = mbr_clock_now(clock);
    atomic_init(&own->reference_count, 1);
    mbr_lock_init(&own->lock, MBR_RANK_JOURNAL);
    mbr_condition_init(&own->quiet);
    *log = own;
    return MBR_OK;
}

void mbr_log_retain(mbr_log *log)
{
    if (log != NULL)
        atomic_fetch_add(&log->reference_count, 1);
}

void mbr_log_release(mbr_log *log)
{
    if (log == NULL || atomic_fetch_sub(&log->reference_count, 1) != 1)
        return;
    mbr_condition_finish(&log->quiet);
    mbr_lock_finish(&log->lock);
    mbr_heap heap = log->heap;
    mbr_heap_release(&heap, log);
}

void mbr_log_keep(mbr_log *log)
{
    if (log == NULL)
        return;
    mbr_lock_take(&log->lock);
    bool is_new = !log->is_kept;
    log->is_kept = true;
    mbr_lock_drop(&log->lock);
    if (!is_new)
        return;
    log->next_kept = atomic_load(&kept);
    while (!atomic_compare_exchange_weak(&kept, &log->next_kept, log))
        continue;
}

void mbr_log_end(mbr_log *log)
{
    if (log == NULL)
        return;
    mbr_lock_take(&log->lock);
    log->is_ended = true;
    while (log->inside_count != 0 && !is_inside)
        mbr_condition_wait(&log->quiet, &log->lock, UINT64_MAX);
    mbr_lock_drop(&log->lock);
    mbr_log_release(log);
}

/* ---- Writing --------------------------------------------------------------------------------- */

/* Whether the line may go on; *dropped is what is to be said first. */
static bool enter(mbr_log *log, uint64_t *dropped)
{
    uint64_t now = mbr_clock_now(&log->clock);
    *dropped = 0;
    mbr_lock_take(&log->lock);
    if (now - log->second_ns >= SECOND_NS) {
        log->second_ns = now;
        log->line_count = 0;
    }
    bool may = !log->is_ended && !is_inside && log->line_count < MBR_LOG_LINES_PER_SECOND;
    if (may) {
        log->line_count++;
        log->inside_count++;
        *dropped = log->dropped_count;
        log->dropped_count = 0;
    } else {
        log->dropped_count++;
    }
    mbr_lock_drop(&log->lock);
    return may;
}

static void leave(mbr_log *log)
{
    mbr_lock_take(&log->lock);
    if (--log->inside_count == 0 && log->is_ended)
        mbr_condition_signal_all(&log->quiet);
    mbr_lock_drop(&log->lock);
}

static void call_sink(mbr_log *log, uint32_t level, const char *text, uint64_t bytes)
{
    mbr_lock_assert_none_held();
    is_inside = true;
    log->sink(log->context, level, text, bytes);
    is_inside = false;
}

static void say_dropped(mbr_log *log, uint64_t dropped)
{
    char line[MBR_LOG_LINE_BYTES];
    int bytes = snprintf(line, sizeof line,
        "%" PRIu64 " lines were dropped: more than %d in a second, or written by the sink", dropped,
        MBR_LOG_LINES_PER_SECOND);
    call_sink(log, MBR_LOG_WARNING, line, (uint64_t)bytes);
}

/* One line of whole characters; a zero byte is a control character like others. */
static uint64_t take_text(char *line, const char *text, uint64_t text_bytes)
{
    uint64_t bytes = mbr_min(text_bytes, MBR_LOG_LINE_BYTES - 1);
    memcpy(line, text, bytes);
    if (bytes < text_bytes)
        bytes = mbr_utf8_whole_bytes(line, bytes);
    for (uint64_t i = 0; i < bytes; i++)
        line[i] = line[i] == '\0' ? ' ' : line[i];
    line[bytes] = '\0';
    mbr_text_one_line(line);
    return bytes;
}

void mbr_log_write(void *log, uint32_t level, const char *text, uint64_t text_bytes)
{
    mbr_log *to = log;
    uint64_t dropped;
    if (text == NULL || text_bytes == 0 || !enter(to, &dropped))
        return;
    char line[MBR_LOG_LINE_BYTES];
    uint64_t bytes = take_text(line, text, text_bytes);
    if (dropped != 0)
        say_dropped(to, dropped);
    call_sink(to, (uint32_t)mbr_max(MBR_LOG_DEBUG, mbr_min(level, MBR_LOG_ERROR)), line, bytes);
    leave(to);
}
