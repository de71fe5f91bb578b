/* An execution provider of one's own: a device with two streams, the order table that tells
 * Membrane what is done on them, frees that wait for work, memory that is used again while its free
 * waits, a drain, and the end. docs/guide-ep-author.md goes through it. Build it with
 * //docs/examples:ep_author; run it with the plugins' folder in MEMBRANE_PLUGIN_PATH. */
#include "docs/examples/setup.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

/* ---- The device: streams that run what is submitted to them in order, each on a thread. A driver
 * is here where yours is. */
enum { COMPUTE, COPY, STREAM_COUNT };
#define RING_COUNT 1024 /* operations of one stream that are not done */
#define LINE_COUNT 16   /* open at once */

typedef struct operation {
    enum { MARK, WRITE, CHECK, WAIT } kind;
    uint8_t byte;    /* WRITE, CHECK */
    uint32_t stream; /* WAIT */
    uint64_t value;  /* WAIT: until so many operations of that stream are done */
    uint64_t address, bytes;
} operation;

typedef struct stream {
    pthread_t thread;
    operation ring[RING_COUNT];
    uint64_t submitted_count, done_count;
} stream;

/* What Membrane passes to every slot. */
struct mbr_instance {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    stream streams[STREAM_COUNT];
    struct {
        uint64_t id; /* Membrane's; 0: free */
        uint32_t stream;
    } lines[LINE_COUNT];
    uint64_t wrong_count; /* CHECKs that found other bytes */
    bool ends;
};

static bool holds(const operation *work)
{
    const uint8_t *bytes = (const uint8_t *)(uintptr_t)work->address;
    return bytes[0] == work->byte && memcmp(bytes, bytes + 1, work->bytes - 1) == 0;
}

/* The lock is held, and dropped while the work is done. */
static void perform(mbr_instance *device, const operation *work)
{
    while (work->kind == WAIT && device->streams[work->stream].done_count < work->value)
        pthread_cond_wait(&device->changed, &device->lock);
    pthread_mutex_unlock(&device->lock);
    if (work->kind == WRITE)
        memset((void *)(uintptr_t)work->address, work->byte, work->bytes);
    bool wrong = work->kind == CHECK && !holds(work);
    pthread_mutex_lock(&device->lock);
    device->wrong_count += wrong;
}

typedef struct worker {
    mbr_instance *device;
    stream *own;
} worker;

static void *work_on(void *argument)
{
    worker self = *(worker *)argument;
    free(argument);
    pthread_mutex_lock(&self.device->lock);
    for (;;) {
        while (self.own->done_count == self.own->submitted_count && !self.device->ends)
            pthread_cond_wait(&self.device->changed, &self.device->lock);
        if (self.own->done_count == self.own->submitted_count)
            break;
        operation work = self.own->ring[self.own->done_count % RING_COUNT];
        perform(self.device, &work);
        self.own->done_count++;
        pthread_cond_broadcast(&self.device->changed);
    }
    pthread_mutex_unlock(&self.device->lock);
    return NULL;
}

/* The lock is held. Never waits: a full ring is a refusal. */
static mbr_status submit(mbr_instance *device, uint32_t index, operation work)
{
    stream *to = &device->streams[index];
    if (to->submitted_count - to->done_count == RING_COUNT)
        return MBR_QUEUE_FULL;
    to->ring[to->submitted_count++ % RING_COUNT] = work;
    pthread_cond_broadcast(&device->changed);
    return MBR_OK;
}

/* ---- The order table. A line's values count the operations of its stream, so `reached` is a load.
 */
static mbr_status done(mbr_outcome *outcome, uint64_t value)
{
    outcome->state = MBR_STATE_DONE;
    outcome->value = value;
    return MBR_OK;
}

/* The place of a line; LINE_COUNT: there is none with this id. The lock is held. */
static uint32_t find(const mbr_instance *device, uint64_t id)
{
    uint32_t place = 0;
    while (place < LINE_COUNT && device->lines[place].id != id)
        place++;
    return place;
}

static mbr_status line_open(mbr_instance *device, const mbr_line_open_request *request,
    mbr_outcome *outcome, mbr_error *why)
{
    (void)why;
    if (request->stream.kind != MBR_NATIVE_STREAM_CPU || request->stream.value >= STREAM_COUNT)
        return MBR_INVALID_ARGUMENT;
    pthread_mutex_lock(&device->lock);
    uint32_t place = find(device, 0);
    if (place < LINE_COUNT) {
        device->lines[place].id = request->line_id;
        device->lines[place].stream = (uint32_t)request->stream.value;
    }
    pthread_mutex_unlock(&device->lock);
    return place < LINE_COUNT ? done(outcome, 0) : MBR_OUT_OF_DESCRIPTORS;
}

static mbr_status signal_line(
    mbr_instance *device, const mbr_line_request *request, mbr_outcome *outcome, mbr_error *why)
{
    (void)why;
    pthread_mutex_lock(&device->lock);
    uint32_t place = find(device, request->line_id);
    mbr_status status = place == LINE_COUNT
        ? MBR_UNKNOWN_OBJECT
        : submit(device, device->lines[place].stream, (operation){.kind = MARK});
    if (status == MBR_OK)
        done(outcome, device->streams[device->lines[place].stream].submitted_count);
    pthread_mutex_unlock(&device->lock);
    return status;
}

static mbr_status reached(
    mbr_instance *device, const mbr_line_request *request, mbr_outcome *outcome, mbr_error *why)
{
    (void)why;
    pthread_mutex_lock(&device->lock);
    uint32_t place = find(device, request->line_id);
    if (place < LINE_COUNT)
        done(outcome, device->streams[device->lines[place].stream].done_count);
    pthread_mutex_unlock(&device->lock);
    return place < LINE_COUNT ? MBR_OK : MBR_UNKNOWN_OBJECT;
}

static mbr_status wait_for(mbr_instance *device, const mbr_line_wait_request *request,
    mbr_outcome *outcome, mbr_error *why)
{
    (void)why;
    struct timespec until = {.tv_sec = (time_t)(request->deadline_ns / 1000000000),
        .tv_nsec = (long)(request->deadline_ns % 1000000000)};
    mbr_status status = MBR_UNKNOWN_OBJECT;
    pthread_mutex_lock(&device->lock);
    uint32_t place = find(device, request->line_id);
    if (place < LINE_COUNT) {
        const stream *own = &device->streams[device->lines[place].stream];
        int late = 0;
        while (own->done_count < request->value && late == 0)
            late = pthread_cond_timedwait(&device->changed, &device->lock, &until);
        status = own->done_count < request->value ? MBR_TIMED_OUT : done(outcome, own->done_count);
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}

static mbr_status stream_wait(mbr_instance *device, const mbr_stream_wait_request *request,
    mbr_outcome *outcome, mbr_error *why)
{
    (void)why;
    if (request->stream.kind != MBR_NATIVE_STREAM_CPU || request->stream.value >= STREAM_COUNT)
        return MBR_INVALID_ARGUMENT;
    mbr_status status = MBR_UNKNOWN_OBJECT;
    pthread_mutex_lock(&device->lock);
    uint32_t place = find(device, request->line_id);
    if (place < LINE_COUNT)
        status = submit(device, (uint32_t)request->stream.value,
            (operation){
                .kind = WAIT, .stream = device->lines[place].stream, .value = request->value});
    pthread_mutex_unlock(&device->lock);
    return status == MBR_OK ? done(outcome, 0) : status;
}

static mbr_status line_close(
    mbr_instance *device, const mbr_line_request *request, mbr_outcome *outcome, mbr_error *why)
{
    (void)why;
    pthread_mutex_lock(&device->lock);
    uint32_t place = find(device, request->line_id);
    if (place < LINE_COUNT)
        device->lines[place].id = 0; /* marks of it that are not done are nobody's */
    pthread_mutex_unlock(&device->lock);
    return place < LINE_COUNT ? done(outcome, 0) : MBR_UNKNOWN_OBJECT;
}

static const mbr_order_vtable order = {MBR_SIZED(mbr_order_vtable), .kind = MBR_KIND_ORDER,
    .minor = MBR_MINOR_0, .line_open = line_open, .signal = signal_line, .reached = reached,
    .wait = wait_for, .stream_wait = stream_wait, .line_close = line_close};

/* ---- The runtime above: it launches work, and frees what the work still uses. */
#define STEP_COUNT 1000
#define BLOCK_BYTES (UINT64_C(256) << 10)

typedef struct runtime {
    setup base;
    mbr_instance device;
    mbr_ep_handle ep;
    mbr_stream_handle streams[STREAM_COUNT];
    mbr_binding_handle binding;
} runtime;

static void launch(mbr_instance *device, uint32_t stream, operation work)
{
    pthread_mutex_lock(&device->lock);
    while (submit(device, stream, work) == MBR_QUEUE_FULL) /* a launch may wait; a slot may not */
        pthread_cond_wait(&device->changed, &device->lock);
    pthread_mutex_unlock(&device->lock);
}

/* Copying begins when what was computed so far is done. */
static void fork_to_copy(mbr_instance *device)
{
    pthread_mutex_lock(&device->lock);
    uint64_t value = device->streams[COMPUTE].submitted_count;
    pthread_mutex_unlock(&device->lock);
    launch(device, COPY, (operation){.kind = WAIT, .stream = COMPUTE, .value = value});
}

static void run_step(runtime *r, uint64_t number)
{
    mbr_alloc_request ask = {MBR_SIZED(mbr_alloc_request), .binding = r->binding,
        .holder = r->base.holder, .stream = r->streams[COMPUTE], .bytes = BLOCK_BYTES};
    mbr_alloc_result block = {MBR_SIZED(mbr_alloc_result)};
    TRY(mbr_alloc(r->base.manager, &ask, &block, &error));
    operation work = {
        .kind = WRITE, .byte = (uint8_t)number, .address = block.address, .bytes = BLOCK_BYTES};
    launch(&r->device, COMPUTE, work);
    work.kind = CHECK;
    launch(&r->device, COMPUTE, work);
    bool is_copied = number % 4 == 0;
    if (is_copied) {
        fork_to_copy(&r->device);
        launch(&r->device, COPY, work);
    }
    /* Nothing of this is done yet. Every stream that may still touch the block is named. */
    mbr_free_request give = {MBR_SIZED(mbr_free_request), .allocation = block.allocation,
        .streams = r->streams, .stream_count = is_copied ? STREAM_COUNT : 1};
    TRY(mbr_free(r->base.manager, &give, &error));
}

static void open_device(mbr_instance *device)
{
    pthread_condattr_t monotonic; /* the clock of Membrane's deadlines */
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&device->lock, NULL);
    pthread_cond_init(&device->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    for (uint32_t i = 0; i < STREAM_COUNT; i++) {
        worker *argument = malloc(sizeof *argument);
        if (argument == NULL)
            exit(1);
        *argument = (worker){device, &device->streams[i]};
        if (pthread_create(&device->streams[i].thread, NULL, work_on, argument) != 0)
            exit(1);
    }
}

static void close_device(mbr_instance *device)
{
    pthread_mutex_lock(&device->lock);
    device->ends = true;
    pthread_cond_broadcast(&device->changed);
    pthread_mutex_unlock(&device->lock);
    for (uint32_t i = 0; i < STREAM_COUNT; i++)
        pthread_join(device->streams[i].thread, NULL);
    pthread_cond_destroy(&device->changed);
    pthread_mutex_destroy(&device->lock);
}

static void open_ep(runtime *r)
{
    mbr_manager *manager = r->base.manager;
    mbr_ep_request ep = {
        MBR_SIZED(mbr_ep_request), .name = "two streams", .order = &order, .instance = &r->device};
    TRY(mbr_ep_create(manager, &ep, &r->ep, &error));
    for (uint32_t i = 0; i < STREAM_COUNT; i++) {
        mbr_native native = {.kind = MBR_NATIVE_STREAM_CPU, .value = i};
        TRY(mbr_ep_attach_stream(manager, r->ep, native, &r->streams[i], &error));
    }
    mbr_bind_request bind = {MBR_SIZED(mbr_bind_request), .mechanism = r->base.mechanism,
        .ep = r->ep, .authority = r->base.authority};
    TRY(mbr_manager_bind(manager, &bind, &r->binding, &error));
}

/* In this order: nothing new, what waits, the streams, the binding, the EP; the device last. */
static void close_ep(runtime *r)
{
    mbr_manager *manager = r->base.manager;
    TRY(mbr_ep_retire(manager, r->ep, &error));
    TRY(mbr_ep_drain(manager, r->ep, UINT64_MAX, &error));
    for (uint32_t i = 0; i < STREAM_COUNT; i++)
        TRY(mbr_ep_detach_stream(manager, r->streams[i], &error));
    TRY(mbr_manager_unbind(manager, r->binding, &error));
    TRY(mbr_ep_destroy(manager, r->ep, UINT64_MAX, &error));
}

int main(void)
{
    static runtime r;
    setup_open(&r.base, "host", UINT64_C(64) << 20);
    open_device(&r.device);
    open_ep(&r);
    for (uint64_t number = 0; number < STEP_COUNT; number++)
        run_step(&r, number);

    mbr_ep_figures figures = {MBR_SIZED(mbr_ep_figures)};
    TRY(mbr_ep_drain(r.base.manager, r.ep, UINT64_MAX, &error));
    TRY(mbr_ep_read(r.base.manager, r.ep, &figures, &error));
    printf("%d steps, %lu checks found other bytes\n", STEP_COUNT, r.device.wrong_count);
    printf("frees: %lu, of them queued now: %lu\n",
        figures.released_count + figures.reactivated_count, figures.queued_count);
    printf("memory used again while its free waited: %s\n",
        figures.reactivated_count != 0 ? "yes" : "no");
    close_ep(&r);
    close_device(&r.device);
    setup_close(&r.base);
    return r.device.wrong_count == 0 ? 0 : 1;
}
