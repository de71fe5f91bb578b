/* Rows about contexts: which is current, primary contexts and their life, and what works without.
 */
#include "tests/standin/contract.h"

#include <unistd.h>

static void none_at_first(void)
{
    mbr_cuda_context context = (mbr_cuda_context)1;
    unsigned flags = 0;
    int is_active = 7;
    NEED(cu.init(0));
    see(cu.context_current(&context));
    say_if(context == NULL, "none", "one");
    see(cu.primary_state(0, &flags, &is_active));
    say_if(is_active == 0, "inactive", "active");
    see(cu.context_synchronize());
    see(cu.context_pop(&context));
    see(cu.context_set(NULL));
}

static void retain(void)
{
    mbr_cuda_context context = NULL;
    mbr_cuda_context again = NULL;
    mbr_cuda_context current = (mbr_cuda_context)1;
    unsigned flags = 0;
    int is_active = 7;
    NEED(cu.init(0));
    see(cu.primary_retain(&context, 0));
    see(cu.primary_retain(&again, 0));
    say_if(context && context == again, "same", "another");
    see(cu.context_current(&current));
    say_if(current == NULL, "not current", "current");
    see(cu.primary_state(0, &flags, &is_active));
    say_if(is_active == 1, "active", "inactive");
    see(cu.primary_retain(&context, 1000));
}

static void release_too_often(void)
{
    mbr_cuda_context context;
    NEED(cu.init(0));
    see(cu.primary_release(0));
    NEED(cu.primary_retain(&context, 0));
    see(cu.primary_release(0));
    see(cu.primary_release(0));
}

static void set_and_get(void)
{
    mbr_cuda_context current = NULL;
    mbr_cuda_device device = 77;
    see(cu.context_set(world.context));
    see(cu.context_current(&current));
    say_if(current == world.context, "same", "another");
    see(cu.context_device(&device));
    say_if(device == 0, "device 0", "another device");
    see(cu.context_set(NULL));
    see(cu.context_device(&device));
    NEED(cu.context_set(world.context));
}

static void push_and_pop(void)
{
    mbr_cuda_context popped = NULL;
    mbr_cuda_context current = NULL;
    see(cu.context_push(world.context));
    see(cu.context_pop(&popped));
    say_if(popped == world.context, "same", "another");
    see(cu.context_current(&current));
    say_if(current == world.context, "still current", "not current");
    see(cu.context_pop(&popped));
    see(cu.context_current(&current));
    say_if(current == NULL, "none", "one");
    see(cu.context_pop(&popped));
    see(cu.context_push(NULL));
    NEED(cu.context_set(world.context));
}

static void look_for_current(void *argument)
{
    mbr_cuda_context *current = argument;
    cu.context_current(current);
}

static void of_another_thread(void)
{
    mbr_cuda_context current = (mbr_cuda_context)1;
    on_thread(look_for_current, &current);
    say_if(current == NULL, "none", "one");
    NEED(cu.context_current(&current));
    say_if(current == world.context, "same here", "another here");
}

/* D2 */
static void memory_without(void)
{
    NEED(cu.context_set(NULL));
    see_memory();
    NEED(cu.context_set(world.context));
}

static void others_without(void)
{
    struct place place = take(1);
    uint32_t word = 0;
    size_t bytes;
    void *host;
    mbr_cuda_event event;
    mbr_cuda_stream stream;
    mbr_cuda_address plain;
    NEED(cu.context_set(NULL));
    see(cu.copy_to_host(&word, place.at, sizeof word));
    see(cu.copy_to_device(place.at, &word, sizeof word));
    see(cu.event_create(&event, 0));
    see(cu.stream_create(&stream, 0));
    see(cu.memory_info(&bytes, &bytes));
    see(cu.device_allocate(&plain, 64));
    see(cu.host_allocate(&host, 64, 0));
    see(cu.fill(place.at, 0, 64));
    NEED(cu.context_set(world.context));
    give(place, 1);
}

/* D3 */
static void streams_without(void)
{
    struct place place = take(1);
    mbr_cuda_stream stream = stream_new();
    mbr_cuda_event event = event_new();
    NEED(cu.context_set(NULL));
    see(cu.event_record(event, stream));
    see(cu.event_synchronize(event));
    see(cu.event_query(event));
    see(cu.stream_wait(stream, event, 0));
    see(cu.stream_synchronize(stream));
    see(cu.fill_async(place.at, 1, 64, stream));
    see(cu.event_destroy(event));
    see(cu.stream_destroy(stream));
    NEED(cu.context_set(world.context));
    NEED(cu.context_synchronize());
    give(place, 1);
}

/* D31 */
static void release_to_zero(void)
{
    struct place place = take(1);
    mbr_cuda_context again = NULL;
    NEED(launch_store(place.at, 4711, world.stream));
    NEED(cu.stream_synchronize(world.stream));
    see(cu.primary_release(0));
    see(cu.primary_retain(&again, 0));
    NEED(cu.context_set(again));
    say_word(place.at, 4711);
    see(cu.unmap(place.at, world.granule_bytes));
    see(cu.handle_release(place.handle));
    see(cu.address_free(place.at, world.granule_bytes));
}

static void reset(void)
{
    struct place place = take(1);
    mbr_cuda_context again = NULL;
    unsigned flags = 0;
    int is_active = 7;
    NEED(launch_store(place.at, 4711, world.stream));
    NEED(cu.stream_synchronize(world.stream));
    see(cu.primary_reset(0));
    NEED(cu.primary_state(0, &flags, &is_active));
    say_if(is_active == 0, "inactive", "active");
    see(cu.primary_retain(&again, 0));
    NEED(cu.context_set(again));
    say_word(place.at, 4711);
    see(cu.unmap(place.at, world.granule_bytes));
    see(cu.handle_release(place.handle));
}

/* The current context of a thread whose primary context is gone. */
static void current_after_release(void)
{
    mbr_cuda_event event;
    mbr_cuda_context current = NULL;
    NEED(cu.primary_release(0));
    see(cu.event_create(&event, 0));
    see(cu.context_synchronize());
    see(cu.context_current(&current));
    say_if(current == world.context, "same", "another");
}

/* What a forked child gets of all this. Its answers come by a pipe; an alarm ends it if it hangs.
 */
static void forked_child(void)
{
    struct mbr_cuda_properties properties = properties_of(0);
    mbr_cuda_result codes[4] = {0};
    mbr_cuda_context context;
    mbr_cuda_address at;
    size_t bytes;
    int ends[2];
    if (pipe(ends) != 0)
        return;
    if (fork() == 0) {
        alarm(10);
        codes[0] = cu.init(0);
        codes[1] = cu.context_current(&context);
        codes[2] = cu.granularity(&bytes, &properties, MBR_CUDA_GRANULARITY_MINIMUM);
        codes[3] = cu.address_reserve(&at, world.granule_bytes, 0, 0, 0);
        _exit(write(ends[1], codes, sizeof codes) != sizeof codes);
    }
    close(ends[1]);
    if (read(ends[0], codes, sizeof codes) != sizeof codes)
        say("no answer");
    else
        for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
            see(codes[i]);
    close(ends[0]);
    see(cu.context_synchronize());
}

const struct row contract_context_rows[] = {
    {"context.none nothing-is-current-at-first", none_at_first,
        "OK, none, OK, inactive, INVALID_CONTEXT, INVALID_CONTEXT, OK", ROW_BARE},
    {"context.retain primary-retained-twice", retain,
        "OK, OK, same, OK, not current, OK, active, INVALID_DEVICE", ROW_BARE},
    {"context.release primary-released-too-often", release_too_often,
        "INVALID_CONTEXT, OK, INVALID_CONTEXT", ROW_BARE},
    {"context.set set-get-device-and-none", set_and_get,
        "OK, OK, same, OK, device 0, OK, INVALID_CONTEXT", ROW_SHARED},
    {"context.stack push-pop-down-to-nothing", push_and_pop,
        "OK, OK, same, OK, still current, OK, OK, none, INVALID_CONTEXT, INVALID_VALUE",
        ROW_SHARED},
    {"context.thread current-is-each-threads-own", of_another_thread, "none, same here",
        ROW_SHARED},
    {"D2 virtual-memory-without-a-context", memory_without, "OK, OK, OK, OK, OK, OK, OK",
        ROW_SHARED},
    {"D2.others other-calls-without-a-context", others_without,
        "INVALID_CONTEXT, INVALID_CONTEXT, INVALID_CONTEXT, INVALID_CONTEXT, INVALID_CONTEXT, "
        "INVALID_CONTEXT, INVALID_CONTEXT, INVALID_CONTEXT",
        ROW_SHARED},
    {"D3 streams-and-events-without-a-context", streams_without, "OK, OK, OK, OK, OK, OK, OK, OK",
        ROW_SHARED},
    {"D31 primary-released-to-zero-and-retained", release_to_zero, "OK, OK, same, OK, OK, OK",
        ROW_ALONE},
    {"D31.reset primary-reset-and-retained", reset, "OK, inactive, OK, same, OK, OK", ROW_ALONE},
    {"context.gone current-primary-released-to-zero", current_after_release,
        "CONTEXT_IS_DESTROYED, CONTEXT_IS_DESTROYED, OK, same", ROW_ALONE},
    {"context.fork calls-of-a-forked-child", forked_child,
        "NOT_INITIALIZED, NOT_INITIALIZED, NOT_INITIALIZED, NOT_INITIALIZED, OK", ROW_ALONE},
    {0},
};
