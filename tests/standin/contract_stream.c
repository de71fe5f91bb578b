/* Rows about streams and events: order, what waits, what does not, and what is refused. */
#include "tests/standin/contract.h"

/* D27 */
static void memory_while_busy(void)
{
    hold(world.stream);
    see_memory();
    see(cu.stream_query(world.stream));
    let_go();
    NEED(cu.stream_synchronize(world.stream));
}

/* D28 */
static void never_recorded(void)
{
    mbr_cuda_event event = event_new();
    see(cu.event_query(event));
    see(cu.event_synchronize(event));
    see(cu.stream_wait(world.stream, event, 0));
    see(cu.event_destroy(event));
    NEED(cu.stream_synchronize(world.stream));
}

/* D29 */
static void recorded_again(void)
{
    mbr_cuda_event event = event_new();
    hold(world.stream);
    see(cu.event_record(event, world.stream));
    see(cu.event_query(event));
    see(cu.event_record(event, world.other));
    NEED(cu.stream_synchronize(world.other));
    see(cu.event_query(event));
    see(cu.stream_query(world.stream));
    let_go();
    NEED(cu.stream_synchronize(world.stream));
    NEED(cu.event_destroy(event));
}

/* D30 */
static void event_destroyed_while_pending(void)
{
    mbr_cuda_event event = event_new();
    mbr_cuda_event behind = event_new();
    hold(world.stream);
    NEED(cu.event_record(event, world.stream));
    NEED(cu.stream_wait(world.other, event, 0));
    NEED(cu.event_record(behind, world.other));
    see(cu.event_destroy(event));
    see(cu.event_query(behind));
    let_go();
    see(cu.event_synchronize(behind));
    see(cu.stream_query(world.stream));
    NEED(cu.event_destroy(behind));
}

static void stream_destroyed_while_pending(void)
{
    struct place place = take(1);
    mbr_cuda_stream stream = stream_new();
    mbr_cuda_event behind = event_new();
    hold(stream);
    NEED(launch_store(place.at, 51, stream));
    NEED(cu.event_record(behind, stream));
    see(cu.stream_destroy(stream));
    see(cu.event_query(behind));
    let_go();
    see(cu.event_synchronize(behind));
    say_word(place.at, 51);
    NEED(cu.event_destroy(behind));
    give(place, 1);
}

static void queries(void)
{
    see(cu.stream_query(world.stream));
    hold(world.stream);
    see(cu.stream_query(world.stream));
    see(cu.stream_query(world.other));
    let_go();
    see(cu.stream_synchronize(world.stream));
    see(cu.stream_query(world.stream));
}

static void create_wrong(void)
{
    mbr_cuda_stream stream;
    mbr_cuda_event event;
    see(cu.stream_create(&stream, 0x80));
    see(cu.stream_create(NULL, 0));
    see(cu.event_create(&event, 0x80));
    see(cu.event_create(NULL, 0));
}

static void handles_wrong(void)
{
    see(cu.event_record(NULL, world.stream));
    see(cu.event_query(NULL));
    see(cu.event_synchronize(NULL));
    see(cu.event_destroy(NULL));
    see(cu.stream_wait(world.stream, NULL, 0));
    see(cu.stream_destroy(NULL));
}

static void priorities(void)
{
    int least = 0;
    int greatest = 0;
    mbr_cuda_stream stream;
    see(cu.priority_range(&least, &greatest));
    say_if(greatest <= least, "lower is greater", "higher is greater");
    see(cu.stream_create_priority(&stream, MBR_CUDA_STREAM_NON_BLOCKING, greatest));
    see(cu.stream_destroy(stream));
}

static void context_of(void)
{
    mbr_cuda_context context = NULL;
    see(cu.stream_context(world.stream, &context));
    say_if(context == world.context, "same", "another");
    see(cu.stream_context(NULL, &context));
    say_if(context == world.context, "same", "another");
}

/* Work of one stream in its order. */
static void in_order(void)
{
    struct place place = take(1);
    hold(world.stream);
    see(launch_store(place.at, 1, world.stream));
    see(cu.fill_async(place.at, 9, 4, world.stream));
    see(launch_verify(place.at, 1, 0x09090909, world.stream));
    see(launch_store(place.at, 52, world.stream));
    let_go();
    see(cu.stream_synchronize(world.stream));
    say_if(*world.wrong == 0, "same", "other");
    say_word(place.at, 52);
    give(place, 1);
}

/* A stream that waits for another's event. */
static void waits_for_event(void)
{
    struct place place = take(1);
    mbr_cuda_event event = event_new();
    hold(world.stream);
    NEED(launch_store(place.at, 53, world.stream));
    see(cu.event_record(event, world.stream));
    see(cu.stream_wait(world.other, event, 0));
    see(launch_verify(place.at, 1, 53, world.other));
    see(cu.stream_query(world.other));
    let_go();
    see(cu.stream_synchronize(world.other));
    say_if(*world.wrong == 0, "same", "other");
    NEED(cu.event_destroy(event));
    give(place, 1);
}

/* A wait is for what was recorded when it was asked, not for what comes after. */
static void wait_is_a_snapshot(void)
{
    mbr_cuda_event event = event_new();
    NEED(cu.event_record(event, world.other));
    NEED(cu.event_synchronize(event));
    see(cu.stream_wait(world.other, event, 0));
    hold(world.stream);
    NEED(cu.event_record(event, world.stream));
    see(cu.stream_synchronize(world.other));
    see(cu.event_query(event));
    let_go();
    see(cu.event_synchronize(event));
    NEED(cu.event_destroy(event));
}

/* The legacy stream and one that blocks it. */
static void legacy_waits(void)
{
    mbr_cuda_stream blocking;
    mbr_cuda_event event = event_new();
    NEED(cu.stream_create(&blocking, 0));
    hold(blocking);
    see(cu.event_record(event, NULL));
    see(cu.event_query(event));
    let_go();
    see(cu.event_synchronize(event));
    see(cu.stream_query(blocking));
    NEED(cu.stream_destroy(blocking));
    NEED(cu.event_destroy(event));
}

static void legacy_is_awaited(void)
{
    mbr_cuda_stream blocking;
    mbr_cuda_event event = event_new();
    NEED(cu.stream_create(&blocking, 0));
    hold(NULL);
    see(cu.event_record(event, blocking));
    see(cu.event_query(event));
    let_go();
    see(cu.event_synchronize(event));
    NEED(cu.stream_destroy(blocking));
    NEED(cu.event_destroy(event));
}

static void legacy_passes_non_blocking(void)
{
    mbr_cuda_event event = event_new();
    hold(world.stream);
    see(cu.event_record(event, NULL));
    see(cu.event_synchronize(event));
    see(cu.stream_query(NULL));
    see(cu.stream_query(world.stream));
    let_go();
    NEED(cu.stream_synchronize(world.stream));
    NEED(cu.event_destroy(event));
}

static void legacy_by_name(void)
{
    mbr_cuda_stream legacy = (mbr_cuda_stream)1;
    mbr_cuda_stream own = (mbr_cuda_stream)2;
    struct place place = take(1);
    see(cu.fill_async(place.at, 1, 4, legacy));
    see(cu.stream_synchronize(legacy));
    see(cu.fill_async(place.at, 2, 4, own));
    see(cu.stream_synchronize(own));
    say_word(place.at, 0x02020202);
    give(place, 1);
}

static void raise_flag(void *argument)
{
    *(volatile uint32_t *)argument = 5;
}

static void host_function(void)
{
    volatile uint32_t mark = 0;
    hold(world.stream);
    see(cu.launch_host(world.stream, raise_flag, (void *)&mark));
    say_if(mark == 0, "not yet", "too early");
    let_go();
    see(cu.stream_synchronize(world.stream));
    say_if(mark == 5, "run", "not run");
}

static void elapsed(void)
{
    mbr_cuda_event timed;
    mbr_cuda_event also;
    mbr_cuda_event untimed = event_new();
    float milliseconds = -1;
    NEED(cu.event_create(&timed, 0));
    NEED(cu.event_create(&also, 0));
    see(cu.event_elapsed(&milliseconds, timed, also));
    NEED(cu.event_record(timed, world.stream));
    hold(world.stream);
    NEED(cu.event_record(also, world.stream));
    see(cu.event_elapsed(&milliseconds, timed, also));
    let_go();
    NEED(cu.event_synchronize(also));
    see(cu.event_elapsed(&milliseconds, timed, also));
    say_if(milliseconds >= 0, "not negative", "negative");
    NEED(cu.event_record(untimed, world.stream));
    NEED(cu.event_synchronize(untimed));
    see(cu.event_elapsed(&milliseconds, timed, untimed));
    NEED(cu.event_destroy(timed));
    NEED(cu.event_destroy(also));
    NEED(cu.event_destroy(untimed));
}

const struct row contract_stream_rows[] = {
    {"D27 virtual-memory-while-a-stream-is-busy", memory_while_busy,
        "OK, OK, OK, OK, OK, OK, OK, NOT_READY", ROW_SHARED},
    {"D28 event-never-recorded", never_recorded, "OK, OK, OK, OK", ROW_SHARED},
    {"D29 recorded-on-a-busy-then-on-an-idle-stream", recorded_again,
        "OK, NOT_READY, OK, OK, NOT_READY", ROW_SHARED},
    {"D30 event-destroyed-while-pending", event_destroyed_while_pending, "OK, NOT_READY, OK, OK",
        ROW_SHARED},
    {"D30.stream stream-destroyed-while-pending", stream_destroyed_while_pending,
        "OK, NOT_READY, OK, same", ROW_SHARED},
    {"stream.query idle-busy-and-a-neighbour", queries, "OK, NOT_READY, OK, OK, OK", ROW_SHARED},
    {"stream.create create-with-wrong-flags-or-nowhere", create_wrong,
        "INVALID_VALUE, INVALID_VALUE, INVALID_VALUE, INVALID_VALUE", ROW_SHARED},
    {"stream.handles calls-with-no-event-or-no-stream", handles_wrong,
        "INVALID_HANDLE, INVALID_HANDLE, INVALID_HANDLE, INVALID_HANDLE, INVALID_HANDLE, "
        "INVALID_HANDLE",
        ROW_SHARED},
    {"stream.priority priority-range-and-a-stream-of-it", priorities,
        "OK, lower is greater, OK, OK", ROW_SHARED},
    {"stream.context context-of-a-stream", context_of, "OK, same, OK, same", ROW_SHARED},
    {"stream.order work-in-its-order", in_order, "OK, OK, OK, OK, OK, same, same", ROW_SHARED},
    {"stream.wait a-stream-waits-for-another", waits_for_event, "OK, OK, OK, NOT_READY, OK, same",
        ROW_SHARED},
    {"stream.snapshot wait-then-recorded-again", wait_is_a_snapshot, "OK, OK, NOT_READY, OK",
        ROW_SHARED},
    {"stream.legacy legacy-waits-for-a-blocking-stream", legacy_waits, "OK, NOT_READY, OK, OK",
        ROW_SHARED},
    {"stream.legacy.first blocking-stream-waits-for-legacy", legacy_is_awaited, "OK, NOT_READY, OK",
        ROW_SHARED},
    {"stream.legacy.apart legacy-passes-a-non-blocking-stream", legacy_passes_non_blocking,
        "OK, OK, OK, NOT_READY", ROW_SHARED},
    {"stream.names legacy-and-own-stream-by-name", legacy_by_name, "OK, OK, OK, OK, same",
        ROW_SHARED},
    {"stream.host host-function-in-its-order", host_function, "OK, not yet, OK, run", ROW_SHARED},
    {"event.elapsed unrecorded-pending-done-untimed", elapsed,
        "INVALID_HANDLE, NOT_READY, OK, not negative, INVALID_HANDLE", ROW_SHARED},
    {0},
};
