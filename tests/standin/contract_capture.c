/* Rows about captures: which calls of which thread end one, and which leave it alone. */
#include "tests/standin/contract.h"

/* An idle event and a place, made before the capture begins. */
static mbr_cuda_event idle_event(void)
{
    mbr_cuda_event event = event_new();
    NEED(cu.event_record(event, world.other));
    NEED(cu.event_synchronize(event));
    return event;
}

static void begin(uint32_t mode)
{
    NEED(cu.capture_begin(world.stream, mode));
}

/* Ends the capture and says how it went and how many nodes it has. */
static void end(void)
{
    mbr_cuda_graph graph = NULL;
    size_t count = 0;
    if (see(cu.capture_end(world.stream, &graph)) != MBR_CUDA_SUCCESS) {
        say_if(graph == NULL, "no graph", "a graph");
        return;
    }
    NEED(cu.graph_nodes(graph, NULL, &count));
    say(count == 0 ? "empty" : count == 1 ? "1 node" : count == 2 ? "2 nodes" : "more nodes");
    NEED(cu.graph_destroy(graph));
}

/* A call in the middle of a capture, on this thread or on another. */
struct call {
    mbr_cuda_result (*make)(void);
    mbr_cuda_result code;
    bool exchanges;
};

static mbr_cuda_event call_event;
static mbr_cuda_address call_plain;

static mbr_cuda_result query_event(void)
{
    return cu.event_query(call_event);
}

static mbr_cuda_result synchronize_event(void)
{
    return cu.event_synchronize(call_event);
}

static mbr_cuda_result query_stream(void)
{
    return cu.stream_query(world.other);
}

static mbr_cuda_result synchronize_stream(void)
{
    return cu.stream_synchronize(world.other);
}

static mbr_cuda_result synchronize_context(void)
{
    return cu.context_synchronize();
}

static mbr_cuda_result allocate(void)
{
    return cu.device_allocate(&call_plain, 64);
}

static mbr_cuda_result free_plain(void)
{
    mbr_cuda_result code = cu.device_free(call_plain);
    if (code == MBR_CUDA_SUCCESS)
        call_plain = 0;
    return code;
}

static mbr_cuda_result allocate_host(void)
{
    void *host = NULL;
    mbr_cuda_result code = cu.host_allocate(&host, 64, 0);
    if (code == MBR_CUDA_SUCCESS)
        cu.host_free(host);
    return code;
}

static void make_call(void *argument)
{
    struct call *call = argument;
    cu.context_set(world.context);
    uint32_t mode = MBR_CUDA_CAPTURE_MODE_RELAXED;
    if (call->exchanges)
        cu.exchange_capture_mode(&mode);
    call->code = call->make();
}

static void in_capture(uint32_t mode, mbr_cuda_result (*make)(void), bool elsewhere, bool exchanges)
{
    struct place place = take(1);
    call_event = idle_event();
    NEED(cu.device_allocate(&call_plain, 64));
    mbr_cuda_address plain = call_plain;
    begin(mode);
    NEED(launch_store(place.at, 1, world.stream));
    struct call call = {make, MBR_CUDA_UNKNOWN, exchanges};
    if (elsewhere)
        on_thread(make_call, &call);
    else
        call.code = make();
    see(call.code);
    end();
    if (call_plain)
        NEED(cu.device_free(call_plain));
    if (call_plain && call_plain != plain)
        NEED(cu.device_free(plain));
    NEED(cu.event_destroy(call_event));
    give(place, 1);
}

#define GLOBAL MBR_CUDA_CAPTURE_MODE_GLOBAL
#define LOCAL MBR_CUDA_CAPTURE_MODE_THREAD_LOCAL
#define RELAXED MBR_CUDA_CAPTURE_MODE_RELAXED

/* CALL_ROW(name of the row's function, mode, call, on another thread, which relaxes itself) */
#define CALL_ROW(name, mode, make, elsewhere, exchanges)                                           \
    static void name(void)                                                                         \
    {                                                                                              \
        in_capture(mode, make, elsewhere, exchanges);                                              \
    }

CALL_ROW(global_event_query, GLOBAL, query_event, true, false)
CALL_ROW(global_event_synchronize, GLOBAL, synchronize_event, true, false)
CALL_ROW(global_stream_query, GLOBAL, query_stream, true, false)
CALL_ROW(global_stream_synchronize, GLOBAL, synchronize_stream, true, false)
CALL_ROW(global_context_synchronize, GLOBAL, synchronize_context, true, false)
CALL_ROW(global_allocate, GLOBAL, allocate, true, false)
CALL_ROW(global_free, GLOBAL, free_plain, true, false)
CALL_ROW(global_allocate_host, GLOBAL, allocate_host, true, false)
CALL_ROW(global_own_query, GLOBAL, query_event, false, false)
CALL_ROW(local_other_query, LOCAL, query_event, true, false)
CALL_ROW(local_other_allocate, LOCAL, allocate, true, false)
CALL_ROW(local_own_query, LOCAL, query_event, false, false)
CALL_ROW(local_own_allocate, LOCAL, allocate, false, false)
CALL_ROW(relaxed_own_query, RELAXED, query_event, false, false)
CALL_ROW(relaxed_own_allocate, RELAXED, allocate, false, false)
CALL_ROW(global_exchanged_query, GLOBAL, query_event, true, true)
CALL_ROW(global_exchanged_free, GLOBAL, free_plain, true, true)

/* C3: the mode that the exchange hands back, and a mode that is none. */
static void exchange(void)
{
    uint32_t mode = RELAXED;
    see(cu.exchange_capture_mode(&mode));
    say_if(mode == GLOBAL, "was global", "was another");
    see(cu.exchange_capture_mode(&mode));
    say_if(mode == RELAXED, "was relaxed", "was another");
    mode = 7;
    see(cu.exchange_capture_mode(&mode));
    mode = GLOBAL;
    NEED(cu.exchange_capture_mode(&mode));
}

/* The capturing thread relaxes itself around a query, under its own thread-local capture. */
static void own_exchange(void)
{
    mbr_cuda_event event = idle_event();
    uint32_t mode = RELAXED;
    begin(LOCAL);
    NEED(cu.exchange_capture_mode(&mode));
    see(cu.event_query(event));
    NEED(cu.exchange_capture_mode(&mode));
    end();
    NEED(cu.event_destroy(event));
}

/* C4 */
static void memory_in_capture(void)
{
    struct place place = take(1);
    size_t bytes;
    begin(GLOBAL);
    NEED(launch_store(place.at, 1, world.stream));
    see_memory();
    see(cu.memory_info(&bytes, &bytes));
    end();
    give(place, 1);
}

static void record_elsewhere(void)
{
    mbr_cuda_event event = event_new();
    begin(GLOBAL);
    see(cu.event_record(event, world.other));
    end();
    see(cu.event_synchronize(event));
    NEED(cu.event_destroy(event));
}

static void create_in_capture(void)
{
    mbr_cuda_event event = NULL;
    mbr_cuda_stream stream = NULL;
    begin(GLOBAL);
    see(cu.event_create(&event, 0));
    see(cu.stream_create(&stream, MBR_CUDA_STREAM_NON_BLOCKING));
    see(cu.event_destroy(event));
    see(cu.stream_destroy(stream));
    end();
}

/* Copies and fills that are no stream's work. */
static void copy_in_capture(void)
{
    struct place place = take(1);
    uint32_t word = 0;
    begin(GLOBAL);
    see(cu.copy_to_host(&word, place.at, sizeof word));
    end();
    give(place, 1);
}

/* Work for another stream during a capture runs as ever. */
static void work_elsewhere(void)
{
    struct place place = take(1);
    begin(GLOBAL);
    see(launch_store(place.at, 61, world.other));
    end();
    see(cu.stream_synchronize(world.other));
    say_word(place.at, 61);
    give(place, 1);
}

/* Of the stream itself. */
static void query_captured_stream(void)
{
    begin(RELAXED);
    see(cu.stream_query(world.stream));
    end();
}

static void synchronize_captured_stream(void)
{
    begin(RELAXED);
    see(cu.stream_synchronize(world.stream));
    end();
}

static void query_captured_event(void)
{
    mbr_cuda_event event = event_new();
    begin(RELAXED);
    see(cu.event_record(event, world.stream));
    see(cu.event_query(event));
    end();
    NEED(cu.event_destroy(event));
}

static void say_state(mbr_cuda_stream stream)
{
    uint32_t state = 77;
    see(cu.stream_capturing(stream, &state));
    say(state == MBR_CUDA_CAPTURE_NONE                    ? "none"
            : state == MBR_CUDA_CAPTURE_ACTIVE            ? "active"
            : state == STANDIN_CAPTURE_STATUS_INVALIDATED ? "invalidated"
                                                          : "another");
}

static void state(void)
{
    mbr_cuda_event event = idle_event();
    say_state(world.stream);
    begin(GLOBAL);
    say_state(world.stream);
    say_state(world.other);
    see(cu.event_query(event));
    say_state(world.stream);
    see(launch_store(0, 0, world.stream));
    end();
    say_state(world.stream);
    NEED(cu.event_destroy(event));
}

/* The legacy stream while another blocking stream captures. */
static void legacy_in_capture(void)
{
    mbr_cuda_stream blocking;
    mbr_cuda_event event = event_new();
    mbr_cuda_graph graph = NULL;
    NEED(cu.stream_create(&blocking, 0));
    NEED(cu.capture_begin(blocking, GLOBAL));
    see(cu.event_record(event, NULL));
    see(cu.capture_end(blocking, &graph));
    NEED(cu.stream_destroy(blocking));
    NEED(cu.event_destroy(event));
}

#define ENDED "STREAM_CAPTURE_INVALIDATED, no graph"
#define BROKEN "STREAM_CAPTURE_UNSUPPORTED, " ENDED
#define INTACT "OK, OK, 1 node"

const struct row contract_capture_rows[] = {
    {"C1 global-other-thread-event-query", global_event_query, BROKEN, ROW_SHARED},
    {"C1.event-wait global-other-thread-event-synchronize", global_event_synchronize, BROKEN,
        ROW_SHARED},
    {"C1.stream global-other-thread-stream-query", global_stream_query, BROKEN, ROW_SHARED},
    {"C1.stream-wait global-other-thread-stream-synchronize", global_stream_synchronize, BROKEN,
        ROW_SHARED},
    {"C1.context global-other-thread-context-synchronize", global_context_synchronize, BROKEN,
        ROW_SHARED},
    {"C1.allocate global-other-thread-plain-allocate", global_allocate, BROKEN, ROW_SHARED},
    {"C1.free global-other-thread-plain-free", global_free, BROKEN, ROW_SHARED},
    {"C1.pinned global-other-thread-pinned-allocate", global_allocate_host, BROKEN, ROW_SHARED},
    {"C1.own global-own-thread-event-query", global_own_query, BROKEN, ROW_SHARED},
    {"C2 thread-local-other-thread-event-query", local_other_query, INTACT, ROW_SHARED},
    {"C2.allocate thread-local-other-thread-plain-allocate", local_other_allocate, INTACT,
        ROW_SHARED},
    {"C2.own thread-local-own-thread-event-query", local_own_query, BROKEN, ROW_SHARED},
    {"C2.own-allocate thread-local-own-thread-plain-allocate", local_own_allocate, BROKEN,
        ROW_SHARED},
    {"C2.relaxed relaxed-own-thread-event-query", relaxed_own_query, INTACT, ROW_SHARED},
    {"C2.relaxed-allocate relaxed-own-thread-plain-allocate", relaxed_own_allocate, INTACT,
        ROW_SHARED},
    {"C3 global-other-thread-relaxed-event-query", global_exchanged_query, INTACT, ROW_SHARED},
    {"C3.free global-other-thread-relaxed-plain-free", global_exchanged_free, INTACT, ROW_SHARED},
    {"C3.exchanged mode-handed-back-and-a-wrong-one", exchange,
        "OK, was global, OK, was relaxed, OK", ROW_SHARED},
    {"C3.own thread-local-own-thread-relaxed-event-query", own_exchange, "OK, OK, empty",
        ROW_SHARED},
    {"C4 virtual-memory-and-free-figure-in-a-capture", memory_in_capture,
        "OK, OK, OK, OK, OK, OK, OK, OK, OK, 1 node", ROW_SHARED},
    {"C4.record event-recorded-elsewhere-in-a-capture", record_elsewhere, "OK, OK, empty, OK",
        ROW_SHARED},
    {"C4.create events-and-streams-made-in-a-capture", create_in_capture,
        "OK, OK, OK, OK, OK, empty", ROW_SHARED},
    {"C4.work work-elsewhere-in-a-capture", work_elsewhere, "OK, OK, empty, OK, same", ROW_SHARED},
    {"capture.copy waiting-copy-in-a-capture", copy_in_capture, "OK, OK, empty", ROW_SHARED},
    {"capture.query query-of-the-capturing-stream", query_captured_stream, BROKEN, ROW_SHARED},
    {"capture.wait synchronize-of-the-capturing-stream", synchronize_captured_stream, BROKEN,
        ROW_SHARED},
    {"capture.event query-of-an-event-recorded-in-it", query_captured_event,
        "OK, CAPTURED_EVENT, " ENDED, ROW_SHARED},
    {"capture.state state-before-in-broken-after", state,
        "OK, none, OK, active, OK, none, STREAM_CAPTURE_UNSUPPORTED, OK, invalidated, "
        "STREAM_CAPTURE_INVALIDATED, " ENDED ", OK, none",
        ROW_SHARED},
    {"capture.legacy legacy-stream-beside-a-capturing-one", legacy_in_capture,
        "STREAM_CAPTURE_IMPLICIT, STREAM_CAPTURE_INVALIDATED", ROW_SHARED},
    {0},
};
