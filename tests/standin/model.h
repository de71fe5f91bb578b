/* The device model that the stand-in drivers' front ends stand over. It knows no vendor: a front
 * end turns its names, structs and codes into these. Which answers it gives, and why, are the rows
 * of the contract table (D1 to D32, C1 to C6).
 *
 * One lock guards all of it: sim_enter takes it and sim_leave gives it back, and every other
 * function of this file is called between the two. Work runs outside of it.
 *
 * Addresses: one range without access is reserved for all devices. Its first part is what callers
 * are told, and stays without access, so that a processor that follows a device's address dies as
 * it would with a driver. Each device has a part of its own behind it, its page tables, where a
 * mapping appears once access is granted: told address + (1 + device) * address_bytes. */
#ifndef MEMBRANE_TESTS_STANDIN_MODEL_H
#define MEMBRANE_TESTS_STANDIN_MODEL_H

#include "tests/standin/control.h"

#include <pthread.h>

/* A kernel that waits for a word goes on after this: no test hangs a device for ever. */
#define SIM_SPIN_LIMIT_NS ((uint64_t)10000000000)

/* An address of this process as it is used in C. */
static inline void *sim_pointer(uint64_t address)
{
    return (void *)(uintptr_t)address;
}

/* ---- Answers ---- */

enum sim_status {
    SIM_OK,
    SIM_INVALID_VALUE,
    SIM_OUT_OF_MEMORY,
    SIM_NOT_INITIALIZED,
    SIM_NO_DEVICE,
    SIM_INVALID_DEVICE,
    SIM_INVALID_IMAGE,
    SIM_INVALID_CONTEXT,
    SIM_INVALID_HANDLE,
    SIM_ILLEGAL_STATE,
    SIM_NOT_FOUND,
    SIM_NOT_READY,
    SIM_ILLEGAL_ADDRESS,
    SIM_CONTEXT_IS_DESTROYED,
    SIM_HOST_ALREADY_REGISTERED,
    SIM_HOST_NOT_REGISTERED,
    SIM_OPERATING_SYSTEM,
    SIM_NOT_PERMITTED,
    SIM_NOT_SUPPORTED,
    SIM_CAPTURE_UNSUPPORTED,
    SIM_CAPTURE_INVALIDATED,
    SIM_CAPTURE_MERGE,
    SIM_CAPTURE_UNJOINED,
    SIM_CAPTURE_ISOLATION,
    SIM_CAPTURE_IMPLICIT,
    SIM_CAPTURED_EVENT,
    SIM_CAPTURE_WRONG_THREAD,
    SIM_STATUS_COUNT,
    SIM_RAW = 1 << 20, /* above it: a front end's own code, which a plan asked for */
};

/* ---- A call ---- */

enum sim_need {
    SIM_NEEDS_NOTHING = 0,
    SIM_NEEDS_START = 1,   /* D1 */
    SIM_NEEDS_CONTEXT = 2, /* D2: one is current */
    SIM_TELLS_LOSS = 4,    /* D25: answers what the current context was lost by */
    SIM_IS_UNSAFE = 8,     /* C1: ends captures */
    SIM_IS_START = 64,
    SIM_IS_VIRTUAL = 16,     /* D26: goes on after a loss, unless the device is gone as a whole */
    SIM_SERVES_INSIDE = 128, /* a host function may call it */
    SIM_NEEDS_LIVE_CONTEXT = 32 | SIM_NEEDS_CONTEXT | SIM_NEEDS_START | SIM_TELLS_LOSS,
};

struct sim_site { /* one a function of the front end */
    const char *name;
    uint32_t needs;
    uint64_t call_count;
    uint64_t latency_ns;
    bool is_listed;
    struct sim_site *next;
};

struct sim_call {
    struct sim_site *site;
    int status;
    bool is_open;     /* the function itself is to be run */
    bool is_stranger; /* of a forked process, which has nothing of the parent */
    int planned;      /* what it answers after its effect, or SIM_OK */
};

/* The front end's own code for an answer: each defines it. */
int sim_front_code(int status);

void sim_enter(struct sim_call *call, struct sim_site *site);
int sim_leave(struct sim_call *call);

/* A front end's function: `expression` is evaluated under the lock. */
#define SIM_CALL(function, needs, expression)                                                      \
    ({                                                                                             \
        static struct sim_site sim_site_here = {#function, (needs), 0, 0, false, NULL};            \
        struct sim_call sim_call_here;                                                             \
        sim_enter(&sim_call_here, &sim_site_here);                                                 \
        if (sim_call_here.is_open)                                                                 \
            sim_call_here.status = (int)(expression);                                              \
        sim_leave(&sim_call_here);                                                                 \
    })

/* What the driver is silent about and no caller may do: says it, and ends the process. */
_Noreturn void sim_misuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- Devices and contexts ---- */

struct sim_stream;

struct sim_context { /* a device's primary one */
    uint32_t device;
    uint32_t retain_count;
    bool is_active;
    struct sim_stream *streams; /* all of it, also destroyed ones with work left */
    struct sim_stream *legacy;  /* the default stream */
};

struct sim_device {
    int file; /* its memory */
    uint64_t used_bytes;
    uint64_t file_end_bytes; /* offsets are never used twice */
    int lost;                /* sticky: what everything answers, or SIM_OK */
    bool is_gone;            /* and virtual memory, too */
    struct sim_context context;
};

/* Whose start it was: a forked child has nothing of it. */
enum sim_owner { SIM_NOBODY = 0, SIM_THIS_PROCESS, SIM_ITS_PARENT };

struct sim_state {
    struct standin_options options;
    bool is_started;
    int owner;     /* enum sim_owner, read without the lock */
    uint64_t base; /* of the range of addresses; 0 before the first need of it */
    struct sim_device devices[STANDIN_DEVICE_MAX_COUNT];
    struct standin_ledger ledger;
};

extern struct sim_state sim;
extern pthread_mutex_t sim_lock;
extern pthread_cond_t sim_changed; /* work was queued or done, or a stream ended */

int sim_start(uint32_t flags);
/* Of a device's ordinal; NULL where there is none. */
struct sim_device *sim_device(int ordinal);
struct sim_context *sim_current(void);
int sim_set_current(struct sim_context *context);
int sim_push(struct sim_context *context);
int sim_pop(struct sim_context **context);
int sim_retain(struct sim_context **context, int ordinal);
int sim_release(int ordinal);
int sim_reset(int ordinal);
int sim_synchronize(void);
/* What the current context's device was lost by. */
int sim_current_loss(void);
void sim_contexts_finish(void);

/* ---- Device memory ---- */

enum sim_access { SIM_ACCESS_NONE, SIM_ACCESS_READ, SIM_ACCESS_READ_WRITE };

int sim_reserve(uint64_t *address, uint64_t bytes, uint64_t align_bytes, uint64_t flags);
int sim_unreserve(uint64_t address, uint64_t bytes);
int sim_create(uint64_t *handle, uint64_t bytes, int device, bool is_exportable);
int sim_release_handle(uint64_t handle);
int sim_handle_device(uint64_t handle, int *device, bool *is_exportable);
/* One reference more, as by an import. */
int sim_handle_retain(uint64_t handle);
int sim_handle_at(uint64_t *handle, uint64_t address);
int sim_map(uint64_t address, uint64_t bytes, uint64_t offset_bytes, uint64_t handle);
int sim_unmap(uint64_t address, uint64_t bytes);
/* One device's access to all mappings of the range; is_dry only says whether it could be set. */
int sim_set_access(
    uint64_t address, uint64_t bytes, int device, enum sim_access access, bool is_dry);
int sim_get_access(uint64_t address, int device, enum sim_access *access);
/* The mapping that starts there: its length, and whose memory it is. */
bool sim_mapping_at(uint64_t address, uint64_t *bytes, uint32_t *device);
bool sim_is_mapped_somewhere(uint64_t handle);
int sim_free_bytes(uint64_t *free_bytes, uint64_t *total_bytes);

/* Plain memory: a reservation, a handle and a mapping that belong together. */
int sim_allocate(uint64_t *address, uint64_t bytes);
int sim_free(uint64_t address);
/* Without waiting for anybody. */
int sim_free_now(uint64_t address);
bool sim_is_plain(uint64_t address);

/* Whether an address is the devices'. */
bool sim_is_device_address(uint64_t address);
/* Where a device finds it; for an address of the host it is itself. */
uint64_t sim_view(uint32_t device, uint64_t address);
/* Whether the device may do this to the whole range, which D14 and D16 ask at submission. */
bool sim_may(uint32_t device, uint64_t address, uint64_t bytes, enum sim_access access);
/* The device whose view serves for the range: `device`, or of plain memory the one whose it is; -1
 * for none. Virtual memory is used by whom a list names, and by nobody else. */
int sim_viewer(uint32_t device, uint64_t address, uint64_t bytes, enum sim_access access);
/* One physical piece (not the reservation). */
int sim_piece(uint64_t address, uint64_t *start, uint64_t *bytes, uint32_t *device);
bool sim_is_fault(uint64_t address);
void sim_memory_finish(void);
/* What a context that ends takes with it. */
void sim_plain_finish(uint32_t device);

/* ---- Host memory that devices reach ---- */

enum sim_host_kind { SIM_PINNED, SIM_REGISTERED, SIM_MANAGED };

int sim_host_allocate(void **address, uint64_t bytes, uint32_t flags, enum sim_host_kind kind);
int sim_host_free(void *address);
int sim_managed_free(uint64_t address);
int sim_host_register(void *address, uint64_t bytes, uint32_t flags);
int sim_host_unregister(void *address);

struct sim_host_block {
    uint64_t address;
    uint64_t bytes;
    uint32_t flags;
    uint32_t device;
    enum sim_host_kind kind;
    struct sim_host_block *prev;
    struct sim_host_block *next;
};

/* The block that the address lies in, or NULL. */
struct sim_host_block *sim_host_find(uint64_t address);
void sim_host_finish(void);

/* ---- Work ---- */

/* When a piece of work is done. Counted: a stream's tail, an event and a waiter may all outlive the
 * stream (D30). */
struct sim_point {
    uint32_t reference_count;
    bool is_done;
    uint64_t done_ns;
};

enum sim_work_kind { SIM_FILL, SIM_COPY, SIM_KERNEL, SIM_HOST_FUNCTION, SIM_FREE, SIM_NOTHING };

#define SIM_ARGUMENT_MAX_COUNT 4

struct sim_work {
    enum sim_work_kind kind;
    uint32_t to_device; /* whose view; the host's where the address is one of the host */
    uint32_t from_device;
    uint64_t to;
    uint64_t from;
    uint64_t bytes;
    uint32_t value;
    uint32_t value_bytes;
    uint8_t *staged; /* what a copy from ordinary host memory took with it */
    const struct sim_kernel *kernel;
    uint64_t arguments[SIM_ARGUMENT_MAX_COUNT];
    void (*function)(void *argument);
    void *argument;
};

struct sim_op { /* a piece of work in a stream's queue */
    struct sim_op *next;
    struct sim_work work;
    struct sim_point *point;
    struct sim_point **waits; /* what must be done before */
    uint32_t wait_count;
    uint64_t begun_ns; /* a kernel that spins */
};

struct sim_capture;

#define SIM_STREAM_ALIVE 0x5354524Du
#define SIM_EVENT_ALIVE 0x4556454Eu
#define SIM_DEAD 0xDEADDEADu

struct sim_stream {
    uint32_t magic;
    bool is_blocking; /* waits for the default stream, which waits for it */
    bool is_internal; /* a default stream */
    bool is_destroyed;
    bool is_ended; /* with its context: nothing more runs */
    bool has_worker;
    bool is_joined; /* who destroys it waits for its worker, and frees it */
    pthread_t worker;
    bool is_running; /* its first op, outside of the lock */
    struct sim_context *context;
    struct sim_op *first;
    struct sim_op *last;
    struct sim_point *tail;   /* of what was submitted last, or NULL */
    struct sim_point **waits; /* for what is submitted next */
    uint32_t wait_count;
    uint64_t owner; /* the thread whose default stream it is */
    struct sim_capture *capture;
    uint64_t captured; /* nodes and joins so far */
    uint64_t joined;   /* how much of that the origin waits for */
    int priority;
    struct sim_stream *prev;
    struct sim_stream *next;
};

struct sim_event {
    uint32_t magic;
    bool has_time;
    struct sim_context *context;
    struct sim_point *point; /* NULL: never recorded (D28) */
    struct sim_capture *capture;
    uint64_t capture_id;
    struct sim_stream *captured_from;
    uint64_t captured;
    struct sim_event *prev;
    struct sim_event *next;
};

/* A stream by what a caller names it by: 0 and 1 the default one, 2 the thread's own. */
int sim_stream_of(uintptr_t name, struct sim_stream **stream);
bool sim_is_stream(uintptr_t name); /* alive, of any device; whatever the name is */
int sim_stream_create(struct sim_stream **stream, bool is_blocking, int priority);
int sim_stream_destroy(uintptr_t name);
int sim_stream_query(uintptr_t name);
int sim_stream_synchronize(uintptr_t name);
int sim_stream_wait(uintptr_t name, struct sim_event *event);
int sim_event_create(struct sim_event **event, bool has_time);
int sim_event_destroy(struct sim_event *event);
int sim_event_record(struct sim_event *event, uintptr_t name);
int sim_event_query(struct sim_event *event);
int sim_event_synchronize(struct sim_event *event);
int sim_event_elapsed(float *milliseconds, struct sim_event *start, struct sim_event *end);

/* Checks and queues; a copy or fill that names host memory is what it says. */
int sim_submit_fill(uintptr_t stream, uint64_t to, uint32_t value, uint32_t value_bytes,
    uint64_t count, bool is_waited);
int sim_submit_copy(uintptr_t stream, uint64_t to, uint64_t from, uint64_t bytes, bool is_waited);
int sim_submit_kernel(uintptr_t stream, const struct sim_kernel *kernel, void **arguments);
int sim_submit_host_function(uintptr_t stream, void (*function)(void *), void *argument);
/* Plain memory that is given back when the stream comes to it. */
int sim_submit_free(uintptr_t stream, uint64_t address);
/* Captures or queues. Takes what is staged. */
int sim_submit(struct sim_stream *stream, struct sim_work *work, struct sim_point **point);

struct sim_point *sim_point_hold(struct sim_point *point);
void sim_point_drop(struct sim_point *point);
/* Waits for it, with the lock given back; in manual mode by running what it needs. */
void sim_await(struct sim_point *point);
void sim_await_context(struct sim_context *context);
/* Runs up to `count` ops that are ready. */
uint32_t sim_step(uint32_t count);
void sim_streams_finish(struct sim_context *context);
void sim_events_finish(void);
void sim_husks_finish(void);
void sim_hang_event(uint64_t record_index);
void sim_release_events(void);
bool sim_is_in_host_function(void);

/* ---- What runs ---- */

struct sim_kernel {
    const char *name;
    uint32_t argument_count;
    uint8_t argument_bytes[SIM_ARGUMENT_MAX_COUNT];
    int (*run)(uint32_t device, const uint64_t *arguments);
    /* In manual mode: whether it would end now. NULL: always. */
    bool (*would_end)(const uint64_t *arguments);
};

const struct sim_kernel *sim_kernel_find(const char *name);
/* Two of them, in attend.c. */
int sim_run_attend(uint32_t device, const uint64_t *arguments);
int sim_run_write_floats(uint32_t device, const uint64_t *arguments);
/* Outside of the lock. Touches memory; a fault at a device's address is its answer. */
int sim_run(uint32_t device, const struct sim_work *work);
/* Copies with the device's eyes; false on a fault. */
bool sim_look(void *to, uint64_t view, uint64_t bytes);
bool sim_put(uint64_t view, const void *from, uint64_t bytes);
void sim_catch_faults(void);
uint64_t sim_now_ns(void);

/* ---- Captures and graphs ---- */

enum sim_capture_mode { SIM_CAPTURE_GLOBAL, SIM_CAPTURE_THREAD_LOCAL, SIM_CAPTURE_RELAXED };

struct sim_graph {
    uint32_t magic;
    uint32_t work_count;
    uint32_t work_room;
    struct sim_work *works;
    struct sim_graph *next; /* among those that were destroyed */
};

#define SIM_GRAPH_ALIVE 0x47524146u
#define SIM_EXEC_ALIVE 0x45584543u

int sim_capture_begin(uintptr_t name, enum sim_capture_mode mode);
int sim_capture_end(uintptr_t name, struct sim_graph **graph);
/* 0 none, 1 active, 2 broken */
int sim_capture_status(uintptr_t name, uint32_t *state);
int sim_capture_exchange(uint32_t *mode);
/* C1 to C3: whether the thread may make an unsafe call; ends the captures that it may not beside.
 */
int sim_capture_forbids(void);
/* Ends the capture of a stream that was asked what it cannot answer. */
void sim_capture_break(struct sim_capture *capture);
/* The default stream's work beside a capturing stream that it would wait for. */
int sim_capture_implicit(struct sim_stream *stream);
int sim_capture_add(struct sim_stream *stream, struct sim_work *work);
int sim_capture_wait(struct sim_stream *stream, struct sim_event *event);
void sim_capture_record(struct sim_stream *stream, struct sim_event *event);
bool sim_is_captured(const struct sim_event *event);
int sim_graph_instantiate(struct sim_graph **exec, const struct sim_graph *graph);
int sim_graph_launch(struct sim_graph *exec, uintptr_t name);
int sim_graph_destroy(struct sim_graph *graph, uint32_t magic);
int sim_graph_count(const struct sim_graph *graph, uint64_t *count);
void sim_captures_finish(void);

/* ---- Modules ---- */

struct sim_module;

int sim_module_load(struct sim_module **module, const char *text);
int sim_module_unload(struct sim_module *module);
int sim_module_function(
    const struct sim_kernel **kernel, const struct sim_module *module, const char *name);

/* ---- Steering, which control.c exports ---- */

void sim_options_read(struct standin_options *options);
void sim_plan_read(void);
void sim_plan_fault(const struct standin_fault *fault);
void sim_ask(standin_judge *judge);
void sim_plan_forget(void);
void sim_plan_loss(uint32_t device, uint64_t call_index, int code, bool is_whole);
void sim_set_latency(const char *function, uint64_t nanoseconds);
uint64_t sim_calls(const char *function);
bool sim_journal(const char *path);
/* Makes the dynamic symbol unfindable. */
bool sim_hide_symbol(const char *name);

#endif
