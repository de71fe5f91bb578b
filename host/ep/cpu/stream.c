/* Responsible for the streams of the CPU EP: places in a fixed array, each a ring of operations
 * with one worker thread. A native value names one stream for ever: serial * stream_limit + place.
 * Never allocates for an operation, never polls, and never lets a worker wait for room in a ring:
 * two workers that did so could wait for each other. */
#include "abi/base/checked.h"
#include "abi/base/error.h"
#include "host/ep/cpu/internal.h"

#include <inttypes.h>
#include <stdio.h>

static const char *const stream_names[MBR_CPU_STREAM_STATES] = {
    "free", "starting", "open", "closing"};

static const uint32_t stream_successors[MBR_CPU_STREAM_STATES] = {
    [MBR_CPU_STREAM_FREE] = MBR_STATE_BIT(MBR_CPU_STREAM_STARTING),
    [MBR_CPU_STREAM_STARTING] =
        MBR_STATE_BIT(MBR_CPU_STREAM_OPEN) | MBR_STATE_BIT(MBR_CPU_STREAM_FREE),
    [MBR_CPU_STREAM_OPEN] = MBR_STATE_BIT(MBR_CPU_STREAM_CLOSING),
    [MBR_CPU_STREAM_CLOSING] = MBR_STATE_BIT(MBR_CPU_STREAM_FREE),
};

const mbr_state_table mbr_cpu_stream_table = {
    "cpu stream", stream_names, stream_successors, MBR_CPU_STREAM_STATES};

/* The stream whose worker this thread is. */
static _Thread_local const mbr_cpu_stream *my_stream;

static void move(mbr_cpu_stream *stream, uint32_t from, uint32_t to)
{
    mbr_state_move(&mbr_cpu_stream_table, &stream->state, from, to);
}

void mbr_cpu_stream_init(mbr_cpu_stream *stream, mbr_cpu *cpu)
{
    stream->cpu = cpu;
    mbr_lock_init(&stream->lock, MBR_RANK_STREAM);
    mbr_condition_init(&stream->work);
    mbr_condition_init(&stream->progress);
    atomic_init(&stream->state, MBR_CPU_STREAM_FREE);
}

void mbr_cpu_stream_join(mbr_cpu_stream *stream)
{
    mbr_lock_take(&stream->lock);
    stream->stop = true;
    mbr_condition_signal_all(&stream->work);
    mbr_lock_drop(&stream->lock);
    if (stream->has_thread)
        mbr_threads_join(stream->thread);
}

void mbr_cpu_stream_finish(mbr_cpu_stream *stream)
{
    MBR_CHECK(stream->submitted_count == stream->finished_count);
    mbr_heap_release(stream->cpu->heap, stream->ring);
    mbr_condition_finish(&stream->progress);
    mbr_condition_finish(&stream->work);
    mbr_lock_finish(&stream->lock);
}

/* ---- The worker ---------------------------------------------------------------------------- */

/* Waits for an operation; false when the EP ends. Where a closing stream has run its last operation
 * its place becomes free. */
static bool await_work(mbr_cpu_stream *stream) MBR_REQUIRES(&stream->lock)
{
    while (stream->submitted_count == stream->finished_count) {
        if (atomic_load(&stream->state) == MBR_CPU_STREAM_CLOSING)
            move(stream, MBR_CPU_STREAM_CLOSING, MBR_CPU_STREAM_FREE);
        if (stream->stop)
            return false;
        mbr_condition_wait(&stream->work, &stream->lock, UINT64_MAX);
    }
    return true;
}

static void *work(void *argument)
{
    mbr_cpu_stream *stream = argument;
    my_stream = stream;
    mbr_lock_take(&stream->lock);
    while (await_work(stream)) {
        mbr_cpu_operation operation =
            stream->ring[stream->finished_count % stream->cpu->operation_limit];
        mbr_lock_drop(&stream->lock);
        mbr_cpu_operation_run(&operation);
        mbr_lock_take(&stream->lock);
        stream->finished_count++;
        if (stream->waiter_count != 0)
            mbr_condition_signal_all(&stream->progress);
    }
    mbr_lock_drop(&stream->lock);
    return NULL;
}

/* ---- Opening and closing ------------------------------------------------------------------- */

static mbr_cpu_stream *claim(mbr_cpu *cpu)
{
    for (uint32_t index = 0; index < cpu->stream_limit; index++) {
        mbr_cpu_stream *stream = &cpu->streams[index];
        if (mbr_state_try_move(&mbr_cpu_stream_table, &stream->state, MBR_CPU_STREAM_FREE,
                MBR_CPU_STREAM_STARTING))
            return stream;
    }
    return NULL;
}

/* Gives the claimed place a ring and a worker; both stay with it. */
static mbr_status equip(mbr_cpu_stream *stream, mbr_error *error)
{
    mbr_cpu *cpu = stream->cpu;
    if (stream->ring == NULL)
        stream->ring = mbr_heap_allocate(cpu->heap, cpu->operation_limit * sizeof *stream->ring);
    if (stream->ring == NULL)
        return mbr_fail_argument(error, MBR_OUT_OF_HOST_MEMORY, 0,
            "no memory for a stream of %" PRIu32 " operations", cpu->operation_limit);
    if (stream->has_thread)
        return MBR_OK;
    char name[16];
    snprintf(name, sizeof name, "mbr-cpu-%u", (unsigned)((stream - cpu->streams) % 10000));
    int answer = mbr_threads_start(cpu->threads, &stream->thread, name, work, stream);
    if (answer != 0)
        return mbr_fail_native(error, MBR_SYSTEM, MBR_NATIVE_ERRNO, answer,
            "no thread for a stream: errno %d", answer);
    stream->has_thread = true;
    return MBR_OK;
}

mbr_status mbr_cpu_stream_create(mbr_cpu *cpu, mbr_native *native, mbr_error *error)
{
    *native = (mbr_native){0};
    mbr_cpu_stream *stream = claim(cpu);
    if (stream == NULL)
        return mbr_fail_argument(error, MBR_OUT_OF_DESCRIPTORS, 0,
            "all %" PRIu32 " streams are open or finish their work (stream_limit)",
            cpu->stream_limit);
    mbr_status status = equip(stream, error);
    if (status != MBR_OK) {
        move(stream, MBR_CPU_STREAM_STARTING, MBR_CPU_STREAM_FREE);
        return status;
    }
    uint64_t serial = atomic_fetch_add(&cpu->stream_serial, 1) + 1;
    uint64_t value = serial * cpu->stream_limit + (uint64_t)(stream - cpu->streams);
    mbr_lock_take(&stream->lock);
    stream->value = value;
    move(stream, MBR_CPU_STREAM_STARTING, MBR_CPU_STREAM_OPEN);
    mbr_lock_drop(&stream->lock);
    *native = (mbr_native){.kind = MBR_NATIVE_STREAM_CPU, .value = value};
    return MBR_OK;
}

static mbr_status unknown_stream(mbr_native native, mbr_error *error)
{
    return mbr_fail_argument(error, MBR_UNKNOWN_OBJECT, 0,
        "no open CPU stream has the value %" PRIu64 "; values are never used again", native.value);
}

/* The stream, locked, or NULL with the refusal in *status. */
static mbr_cpu_stream *lock_stream(mbr_cpu *cpu, mbr_native native, mbr_status *status,
    mbr_error *error) MBR_THREAD_ANNOTATION(no_thread_safety_analysis)
{
    *status = MBR_OK;
    if (native.kind != MBR_NATIVE_STREAM_CPU) {
        *status = mbr_fail_argument(error, MBR_INVALID_ARGUMENT, 0,
            "a stream of kind %" PRIu32 "; this EP's streams are of kind %d", native.kind,
            MBR_NATIVE_STREAM_CPU);
        return NULL;
    }
    mbr_cpu_stream *stream = &cpu->streams[native.value % cpu->stream_limit];
    mbr_lock_take(&stream->lock);
    if (native.value != 0 && stream->value == native.value)
        return stream;
    mbr_lock_drop(&stream->lock);
    *status = unknown_stream(native, error);
    return NULL;
}

mbr_status mbr_cpu_stream_check(mbr_cpu *cpu, mbr_native native, mbr_error *error)
    MBR_THREAD_ANNOTATION(no_thread_safety_analysis)
{
    mbr_status status;
    mbr_cpu_stream *stream = lock_stream(cpu, native, &status, error);
    if (stream != NULL)
        mbr_lock_drop(&stream->lock);
    return status;
}

mbr_status mbr_cpu_stream_destroy(mbr_cpu *cpu, mbr_native native, mbr_error *error)
    MBR_THREAD_ANNOTATION(no_thread_safety_analysis)
{
    mbr_status status;
    mbr_cpu_stream *stream = lock_stream(cpu, native, &status, error);
    if (stream == NULL)
        return status;
    stream->value = 0;
    move(stream, MBR_CPU_STREAM_OPEN, MBR_CPU_STREAM_CLOSING);
    if (stream->submitted_count == stream->finished_count)
        move(stream, MBR_CPU_STREAM_CLOSING, MBR_CPU_STREAM_FREE); /* idle: free at once */
    mbr_condition_signal_all(&stream->progress); /* whoever waits for room is refused */
    mbr_lock_drop(&stream->lock);
    return MBR_OK;
}

bool mbr_cpu_stream_is_mine(const mbr_cpu *cpu, mbr_native native)
{
    return my_stream != NULL && my_stream == &cpu->streams[native.value % cpu->stream_limit];
}

/* ---- Submitting and waiting ---------------------------------------------------------------- */

static bool is_full(const mbr_cpu_stream *stream)
{
    return stream->submitted_count - stream->finished_count == stream->cpu->operation_limit;
}

/* Waits for room on a stream that was open. */
static mbr_status await_room(mbr_cpu_stream *stream, mbr_native native, mbr_cpu_room room,
    mbr_error *error) MBR_REQUIRES(&stream->lock)
{
    if (is_full(stream) && (room == MBR_CPU_ROOM_NOW || my_stream != NULL))
        return mbr_fail_argument(error, MBR_QUEUE_FULL, 0,
            "stream %" PRIu64 " has %" PRIu32 " operations queued, and %s must not wait for room",
            native.value, stream->cpu->operation_limit,
            room == MBR_CPU_ROOM_NOW ? "this call" : "a host function");
    stream->waiter_count++;
    while (is_full(stream) && stream->value == native.value)
        mbr_condition_wait(&stream->progress, &stream->lock, UINT64_MAX);
    stream->waiter_count--;
    return stream->value == native.value ? MBR_OK : unknown_stream(native, error);
}

static void push(mbr_cpu_stream *stream, mbr_cpu_operation *operation) MBR_REQUIRES(&stream->lock)
{
    if (operation->kind == MBR_CPU_SIGNAL)
        operation->point.value = atomic_fetch_add(&operation->point.line->signalled, 1) + 1;
    stream->ring[stream->submitted_count % stream->cpu->operation_limit] = *operation;
    stream->submitted_count++;
    if (stream->submitted_count - stream->finished_count == 1)
        mbr_condition_signal_all(&stream->work);
}

mbr_status mbr_cpu_submit(mbr_cpu *cpu, mbr_native native, mbr_cpu_operation *operation,
    mbr_cpu_room room, mbr_error *error) MBR_THREAD_ANNOTATION(no_thread_safety_analysis)
{
    mbr_status status;
    mbr_cpu_stream *stream = lock_stream(cpu, native, &status, error);
    if (stream == NULL)
        return status;
    status = await_room(stream, native, room, error);
    if (status == MBR_OK)
        push(stream, operation);
    mbr_lock_drop(&stream->lock);
    return status;
}

/* False when the deadline passed first. The counts of a place never go back, so that this also
 * holds if the stream is destroyed meanwhile. */
static bool await_finished(mbr_cpu_stream *stream, uint64_t deadline_ns) MBR_REQUIRES(&stream->lock)
{
    uint64_t target = stream->submitted_count;
    bool in_time = true;
    stream->waiter_count++;
    while (in_time && stream->finished_count < target)
        in_time = mbr_condition_wait(&stream->progress, &stream->lock, deadline_ns);
    stream->waiter_count--;
    return stream->finished_count >= target;
}

mbr_status mbr_cpu_synchronize(mbr_cpu *cpu, mbr_native native, uint64_t deadline_ns,
    mbr_error *error) MBR_THREAD_ANNOTATION(no_thread_safety_analysis)
{
    mbr_status status;
    mbr_cpu_stream *stream = lock_stream(cpu, native, &status, error);
    if (stream == NULL)
        return status;
    if (stream == my_stream)
        status = mbr_fail_argument(error, MBR_INVALID_ARGUMENT, 1,
            "a host function of stream %" PRIu64 " cannot wait for its own stream", native.value);
    else if (!await_finished(stream, deadline_ns))
        status = mbr_fail_argument(error, MBR_TIMED_OUT, 2,
            "stream %" PRIu64 " was not done by %" PRIu64 " ns", native.value, deadline_ns);
    mbr_lock_drop(&stream->lock);
    return status;
}
