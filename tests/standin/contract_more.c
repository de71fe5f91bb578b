/* Rows about what is waited for, what may be asked from where, and arguments that are none. */
#include "tests/standin/contract.h"

/* ---- What is waited for ---- */

/* A copy from ordinary memory behind a busy stream: the caller's memory is its own again at once.
 */
static void copy_takes_along(void)
{
    struct place place = take(1);
    uint32_t word = 95;
    hold(world.stream);
    see(cu.copy_to_device_async(place.at, &word, sizeof word, world.stream));
    word = 96;
    see(cu.stream_query(world.stream));
    let_go();
    see(cu.stream_synchronize(world.stream));
    say_word(place.at, 95);
    give(place, 1);
}

/* Fills and copies on the device return before they are done. */
static void fill_is_not_awaited(void)
{
    struct place place = take(1);
    hold(NULL);
    see(cu.fill(place.at, 1, 4));
    see(cu.stream_query(NULL));
    see(cu.copy_on_device(place.at + 64, place.at, 4));
    see(cu.stream_query(NULL));
    let_go();
    see(cu.stream_synchronize(NULL));
    say_word(place.at + 64, 0x01010101);
    give(place, 1);
}

static void allocate_while_busy(void)
{
    mbr_cuda_address plain = 0;
    void *host = NULL;
    hold(world.stream);
    see(cu.device_allocate(&plain, 64));
    see(cu.stream_query(world.stream));
    see(cu.host_allocate(&host, 64, 0));
    see(cu.stream_query(world.stream));
    let_go();
    NEED(cu.stream_synchronize(world.stream));
    NEED(cu.device_free(plain));
    NEED(cu.host_free(host));
}

static void create_while_busy(void)
{
    mbr_cuda_event event = NULL;
    mbr_cuda_stream stream = NULL;
    hold(world.stream);
    see(cu.event_create(&event, 0));
    see(cu.stream_create(&stream, MBR_CUDA_STREAM_NON_BLOCKING));
    see(cu.event_destroy(event));
    see(cu.stream_destroy(stream));
    see(cu.stream_query(world.stream));
    let_go();
    NEED(cu.stream_synchronize(world.stream));
}

/* ---- What may be asked from where ---- */

struct inside {
    mbr_cuda_result codes[3];
    mbr_cuda_event event;
};

static void call_inside(void *argument)
{
    struct inside *inside = argument;
    mbr_cuda_address at = 0;
    size_t bytes;
    inside->codes[0] = cu.event_query(inside->event);
    inside->codes[1] = cu.memory_info(&bytes, &bytes);
    inside->codes[2] = cu.address_reserve(&at, world.granule_bytes, 0, 0, 0);
}

static void calls_of_a_host_function(void)
{
    struct inside inside = {{MBR_CUDA_UNKNOWN, MBR_CUDA_UNKNOWN, MBR_CUDA_UNKNOWN}, event_new()};
    NEED(cu.launch_host(world.stream, call_inside, &inside));
    see(cu.stream_synchronize(world.stream));
    for (int i = 0; i < 3; i++)
        see(inside.codes[i]);
}

static void questions_without(void)
{
    struct place place = take(1);
    struct mbr_cuda_properties properties = properties_of(0);
    struct mbr_cuda_location location = {MBR_CUDA_LOCATION_DEVICE, 0};
    unsigned long long access = 0;
    mbr_cuda_address start = 0;
    uint32_t type = 0;
    size_t bytes = 0;
    NEED(cu.context_set(NULL));
    see(cu.granularity(&bytes, &properties, MBR_CUDA_GRANULARITY_MINIMUM));
    see(cu.get_access(&access, &location, place.at));
    see(cu.handle_properties(&properties, place.handle));
    see(cu.address_range(&start, &bytes, place.at));
    see(cu.pointer_attribute(&type, STANDIN_POINTER_MEMORY_TYPE, place.at));
    NEED(cu.context_set(world.context));
    give(place, 1);
}

/* None as the current context takes the top away, not all. */
static void set_none_under_pushed(void)
{
    mbr_cuda_context current = NULL;
    NEED(cu.context_push(world.context));
    see(cu.context_set(NULL));
    see(cu.context_current(&current));
    say_if(current == world.context, "the one below", "none");
    NEED(cu.context_set(world.context));
}

/* Asking the default stream is no work of it. */
static void legacy_asked_in_capture(void)
{
    mbr_cuda_stream blocking;
    mbr_cuda_graph graph = NULL;
    uint32_t state = 77;
    NEED(cu.stream_create(&blocking, 0));
    NEED(cu.capture_begin(blocking, MBR_CUDA_CAPTURE_MODE_RELAXED));
    see(cu.stream_capturing(NULL, &state));
    see(cu.capture_end(blocking, &graph));
    if (graph)
        NEED(cu.graph_destroy(graph));
    NEED(cu.stream_destroy(blocking));
}

/* ---- Arguments that are none ---- */

static void bounds_of_plain(void)
{
    mbr_cuda_address at = 0;
    NEED(cu.device_allocate(&at, 100));
    see(cu.fill(at, 0, 100));
    see(cu.fill(at, 0, 101));
    see(cu.fill(at + 100, 0, 1));
    see(cu.context_synchronize());
    NEED(cu.device_free(at));
}

static void unmap_past_the_end(void)
{
    const size_t granule = world.granule_bytes;
    mbr_cuda_address at = reserve(2);
    mbr_cuda_handle handle = create(1);
    map(at + granule, 1, handle);
    see(cu.unmap(at + granule, 2 * granule));
    see(cu.address_free(at, 2 * granule));
    NEED(cu.handle_release(handle));
}

static void foreign_host_memory(void)
{
    static uint32_t own[4096];
    mbr_cuda_address at = 0;
    unsigned flags = 0;
    see(cu.host_device_address(&at, own, 0));
    see(cu.host_flags(&flags, own));
    see(cu.host_register(own, sizeof own, MBR_CUDA_HOST_DEVICE_MAP));
    see(cu.host_unregister(own + 16));
    see(cu.host_unregister(own));
}

static void modules(void)
{
    static const char text[] = ".version 7.0\n.target sm_75\n.address_size 64\n"
                               ".visible .entry store(.param .u64 at)\n{\n    ret;\n}\n";
    mbr_cuda_module module = NULL;
    mbr_cuda_function function = NULL;
    see(cu.module_load(&module, text));
    see(cu.module_function(&function, module, "store"));
    see(cu.module_function(&function, module, "no_such_kernel"));
    see(cu.module_unload(module));
}

static void launches_wrong(void)
{
    uint64_t at = 0;
    uint32_t value = 0;
    void *arguments[] = {&at, &value};
    see(cu.launch(world.store, 0, 1, 1, 1, 1, 1, 0, world.stream, arguments, NULL));
    see(cu.launch(world.store, 1, 1, 1, 0, 1, 1, 0, world.stream, arguments, NULL));
    see(cu.launch(world.store, 1, 1, 1, 4096, 1, 1, 0, world.stream, arguments, NULL));
    see(cu.context_synchronize());
}

/* ---- What was destroyed ---- */

static void event_after_its_end(void)
{
    mbr_cuda_event event = event_new();
    NEED(cu.event_destroy(event));
    see(cu.event_query(event));
}

static void stream_after_its_end(void)
{
    mbr_cuda_stream stream = stream_new();
    NEED(cu.stream_destroy(stream));
    see(cu.stream_query(stream));
}

const struct row contract_more_rows[] = {
    {"copy.staged copy-from-ordinary-memory-takes-it-along", copy_takes_along,
        "OK, NOT_READY, OK, same", ROW_SHARED},
    {"fill.unawaited fill-and-copy-on-the-device-return-at-once", fill_is_not_awaited,
        "OK, NOT_READY, OK, NOT_READY, OK, same", ROW_SHARED},
    {"plain.busy allocate-plain-and-pinned-while-busy", allocate_while_busy,
        "OK, NOT_READY, OK, NOT_READY", ROW_SHARED},
    {"stream.busy events-and-streams-while-busy", create_while_busy, "OK, OK, OK, OK, NOT_READY",
        ROW_SHARED},
    {"stream.host.calls calls-of-a-host-function", calls_of_a_host_function,
        "OK, OK, NOT_PERMITTED, NOT_PERMITTED", ROW_ALONE},
    {"D2.questions questions-without-a-context", questions_without,
        "OK, OK, OK, INVALID_CONTEXT, OK", ROW_SHARED},
    {"context.set.none none-is-set-under-a-pushed-one", set_none_under_pushed,
        "OK, OK, the one below", ROW_SHARED},
    {"capture.legacy.asked legacy-stream-asked-beside-a-capturing-one", legacy_asked_in_capture,
        "STREAM_CAPTURE_IMPLICIT, OK", ROW_SHARED},
    {"plain.bounds fill-past-what-was-allocated", bounds_of_plain,
        "OK, INVALID_VALUE, INVALID_VALUE, OK", ROW_SHARED},
    {"D22.end unmap-past-the-end-of-a-reservation", unmap_past_the_end, "OK, OK", ROW_SHARED},
    {"pinned.foreign questions-about-foreign-memory", foreign_host_memory,
        "INVALID_VALUE, INVALID_VALUE, OK, INVALID_VALUE, OK", ROW_SHARED},
    {"module.names module-loaded-known-and-unknown-kernel", modules, "OK, OK, NOT_FOUND, OK",
        ROW_SHARED},
    {"launch.wrong launch-of-no-threads-or-too-many", launches_wrong,
        "INVALID_VALUE, INVALID_VALUE, INVALID_VALUE, OK", ROW_SHARED},
    {"event.ended query-of-a-destroyed-event", event_after_its_end, "ended by SIGSEGV", ROW_CRASH},
    {"stream.ended query-of-a-destroyed-stream", stream_after_its_end, "ended by SIGSEGV",
        ROW_CRASH},
    {0},
};
