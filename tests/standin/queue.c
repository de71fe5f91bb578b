/* Queues: submits work, runs what is ready (a thread a stream, or step by step), and waits. Work
 * runs outside of the lock. Judges no address. */
#include "tests/standin/queue.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

static _Thread_local bool in_host_function;
static struct sim_stream *husks;

bool sim_is_in_host_function(void)
{
    return in_host_function;
}

uint64_t sim_thread_id(void)
{
    static _Thread_local uint64_t own;
    static uint64_t last = 0;
    if (!own)
        own = __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
    return own;
}

void sim_stream_keep(struct sim_stream *stream)
{
    stream->magic = SIM_DEAD;
    DL_APPEND(husks, stream);
}

/* ---- Running ---- */

static bool is_ready(const struct sim_stream *stream)
{
    const struct sim_op *op = stream->first;
    if (!op || stream->is_running)
        return false;
    for (uint32_t i = 0; i < op->wait_count; i++)
        if (!op->waits[i]->is_done)
            return false;
    return true;
}

static void op_free(struct sim_op *op)
{
    for (uint32_t i = 0; i < op->wait_count; i++)
        sim_point_drop(op->waits[i]);
    free(op->waits);
    sim_point_drop(op->point);
    free(op->work.staged);
    free(op);
}

static void finish_op(struct sim_stream *stream)
{
    struct sim_op *op = stream->first;
    stream->first = op->next;
    if (!stream->first)
        stream->last = NULL;
    op->point->done_ns = sim_now_ns();
    op->point->is_done = true;
    sim.ledger.pending_count--;
    op_free(op);
    pthread_cond_broadcast(&sim_changed);
}

/* What work does wrong ends the process's work on every device, as recorded in row two.lost. */
static void lose_process(int status)
{
    for (uint32_t i = 0; i < sim.options.device_count; i++)
        if (sim.devices[i].lost == SIM_OK)
            sim.devices[i].lost = status;
}

/* Runs the first op of the stream, which is ready. What comes after a loss does not run. */
static void run_first(struct sim_stream *stream)
{
    struct sim_device *device = &sim.devices[stream->context->device];
    struct sim_op *op = stream->first;
    if (op->work.kind == SIM_FREE) {
        sim_free_now(op->work.to);
    } else if (device->lost == SIM_OK && op->work.kind != SIM_NOTHING) {
        stream->is_running = true;
        pthread_mutex_unlock(&sim_lock);
        in_host_function = op->work.kind == SIM_HOST_FUNCTION;
        int status = sim_run(stream->context->device, &op->work);
        in_host_function = false;
        pthread_mutex_lock(&sim_lock);
        stream->is_running = false;
        if (status != SIM_OK)
            lose_process(status);
    }
    finish_op(stream);
}

static void *work_stream(void *argument)
{
    struct sim_stream *stream = argument;
    pthread_mutex_lock(&sim_lock);
    while (!stream->is_ended && (stream->first || !stream->is_destroyed)) {
        if (is_ready(stream))
            run_first(stream);
        else
            pthread_cond_wait(&sim_changed, &sim_lock);
    }
    stream->has_worker = false;
    if (!stream->is_ended && !stream->is_joined)
        sim_stream_free(stream);
    pthread_cond_broadcast(&sim_changed);
    pthread_mutex_unlock(&sim_lock);
    return NULL;
}

static void start_worker(struct sim_stream *stream)
{
    if (stream->has_worker || sim.options.mode != STANDIN_THREADED)
        return;
    if (pthread_create(&stream->worker, NULL, work_stream, stream) != 0)
        abort();
    stream->has_worker = true;
}

void sim_stream_free_if_done(struct sim_stream *stream)
{
    if (stream->is_destroyed && !stream->first && !stream->has_worker)
        sim_stream_free(stream);
}

/* The thread of a stream without work is gone when this returns; one with work ends behind it. */
void sim_stream_end(struct sim_stream *stream)
{
    pthread_cond_broadcast(&sim_changed);
    stream->is_joined = stream->has_worker && !stream->first;
    if (stream->is_joined) {
        pthread_mutex_unlock(&sim_lock);
        pthread_join(stream->worker, NULL);
        pthread_mutex_lock(&sim_lock);
    } else if (stream->has_worker) {
        pthread_detach(stream->worker);
    }
    if (!stream->is_ended)
        sim_stream_free_if_done(stream);
}

/* A kernel that would spin is no step: somebody else has to let it go. */
static bool would_end(struct sim_op *op)
{
    const struct sim_kernel *kernel = op->work.kind == SIM_KERNEL ? op->work.kernel : NULL;
    if (!kernel || !kernel->would_end || kernel->would_end(op->work.arguments))
        return true;
    if (!op->begun_ns)
        op->begun_ns = sim_now_ns();
    return sim_now_ns() - op->begun_ns > SIM_SPIN_LIMIT_NS;
}

static bool step_once(bool *spins)
{
    for (uint32_t i = 0; i < sim.options.device_count; i++) {
        struct sim_stream *stream;
        DL_FOREACH(sim.devices[i].context.streams, stream)
        {
            *spins = *spins || stream->is_running; /* by another thread, which ends it */
            if (!is_ready(stream))
                continue;
            if (sim.devices[i].lost == SIM_OK && !would_end(stream->first)) {
                *spins = true;
                continue;
            }
            run_first(stream);
            sim_stream_free_if_done(stream);
            return true;
        }
    }
    return false;
}

uint32_t sim_step(uint32_t count)
{
    uint32_t done = 0;
    bool spins = false;
    while (done < count && step_once(&spins))
        done++;
    return done;
}

/* ---- Waiting ---- */

void sim_await(struct sim_point *point)
{
    while (!point->is_done) {
        bool spins = false;
        if (sim.options.mode == STANDIN_THREADED)
            pthread_cond_wait(&sim_changed, &sim_lock);
        else if (!step_once(&spins)) {
            if (!spins)
                sim_misuse("a call waits for work that can never be done");
            pthread_mutex_unlock(&sim_lock);
            sched_yield();
            pthread_mutex_lock(&sim_lock);
        }
    }
}

static struct sim_point *undone_tail(const struct sim_context *context)
{
    struct sim_stream *stream;
    DL_FOREACH(context->streams, stream)
    if (stream->tail && !stream->tail->is_done)
        return sim_point_hold(stream->tail);
    return NULL;
}

void sim_await_context(struct sim_context *context)
{
    struct sim_point *tail;
    while ((tail = undone_tail(context))) {
        sim_await(tail);
        sim_point_drop(tail);
    }
}

/* ---- Submitting ---- */

/* What the default stream has to do with the others: it waits for the blocking ones, and they for
 * it. */
static void add_default_waits(struct sim_stream *stream)
{
    struct sim_context *context = stream->context;
    if (stream->is_blocking && context->legacy)
        sim_stream_add_wait(stream, context->legacy->tail);
    if (stream != context->legacy)
        return;
    struct sim_stream *other;
    DL_FOREACH(context->streams, other)
    if (other->is_blocking)
        sim_stream_add_wait(stream, other->tail);
}

static struct sim_op *op_new(struct sim_stream *stream, const struct sim_work *work)
{
    struct sim_op *op = calloc(1, sizeof *op);
    if (!op)
        abort();
    op->work = *work;
    op->point = sim_point_new();
    op->waits = stream->waits;
    op->wait_count = stream->wait_count;
    stream->waits = NULL;
    stream->wait_count = 0;
    return op;
}

int sim_submit(struct sim_stream *stream, struct sim_work *work, struct sim_point **point)
{
    if (stream->capture)
        return sim_capture_add(stream, work);
    int status = sim_capture_implicit(stream);
    if (status != SIM_OK) {
        free(work->staged);
        return status;
    }
    add_default_waits(stream);
    struct sim_op *op = op_new(stream, work);
    *(stream->last ? &stream->last->next : &stream->first) = op;
    stream->last = op;
    sim_point_drop(stream->tail);
    stream->tail = sim_point_hold(op->point);
    if (point)
        *point = sim_point_hold(op->point);
    sim.ledger.pending_count++;
    start_worker(stream);
    pthread_cond_broadcast(&sim_changed);
    return SIM_OK;
}

/* ---- The end ---- */

static void drop_ops(struct sim_stream *stream)
{
    while (stream->first) {
        struct sim_op *op = stream->first;
        stream->first = op->next;
        sim.ledger.pending_count--;
        op_free(op);
    }
    stream->last = NULL;
}

static bool has_worker(const struct sim_context *context)
{
    struct sim_stream *stream;
    DL_FOREACH(context->streams, stream)
    if (stream->has_worker)
        return true;
    return false;
}

void sim_streams_finish(struct sim_context *context)
{
    struct sim_stream *stream;
    DL_FOREACH(context->streams, stream)
    {
        stream->is_ended = true;
        if (stream->has_worker && !stream->is_destroyed)
            pthread_detach(stream->worker);
    }
    pthread_cond_broadcast(&sim_changed);
    while (has_worker(context))
        pthread_cond_wait(&sim_changed, &sim_lock);
    while (context->streams) {
        stream = context->streams;
        if (!stream->is_internal && !stream->is_destroyed)
            sim.ledger.stream_count--;
        drop_ops(stream);
        sim_stream_free(stream);
    }
}

void sim_husks_finish(void)
{
    while (husks) {
        struct sim_stream *husk = husks;
        DL_DELETE(husks, husk);
        free(husk);
    }
}
