/* Rows about graphs: what a capture records, how it is replayed, and over which memory. */
#include "tests/standin/contract.h"

#include <stdint.h>

static void begin(mbr_cuda_stream stream)
{
    NEED(cu.capture_begin(stream, MBR_CUDA_CAPTURE_MODE_THREAD_LOCAL));
}

/* The graph of the capture, made ready and launched as often as wished. */
static mbr_cuda_graph_exec finish(mbr_cuda_stream stream)
{
    mbr_cuda_graph graph = NULL;
    mbr_cuda_graph_exec exec = NULL;
    NEED(cu.capture_end(stream, &graph));
    NEED(cu.graph_instantiate(&exec, graph, 0));
    NEED(cu.graph_destroy(graph));
    return exec;
}

static void say_count(size_t count)
{
    static const char *const words[] = {"0 nodes", "1 node", "2 nodes", "3 nodes", "4 nodes"};
    say(count < 5 ? words[count] : "more nodes");
}

/* A fill, a copy and a kernel, in that order. */
static void replay(void)
{
    struct place place = take(1);
    mbr_cuda_graph graph = NULL;
    mbr_cuda_graph_exec exec = NULL;
    size_t count = 0;
    begin(world.stream);
    see(cu.fill_async(place.at, 3, 4, world.stream));
    see(cu.copy_on_device_async(place.at + 4, place.at, 4, world.stream));
    see(launch_store(place.at, 71, world.stream));
    see(cu.capture_end(world.stream, &graph));
    NEED(cu.graph_nodes(graph, NULL, &count));
    say_count(count);
    see(cu.graph_instantiate(&exec, graph, 0));
    see(cu.graph_launch(exec, world.stream));
    see(cu.stream_synchronize(world.stream));
    say_word(place.at, 71);
    say_word(place.at + 4, 0x03030303);
    see(cu.graph_exec_destroy(exec));
    see(cu.graph_destroy(graph));
    give(place, 1);
}

static void nothing_runs(void)
{
    struct place place = take(1);
    mbr_cuda_graph graph = NULL;
    NEED(launch_store(place.at, 72, world.stream));
    NEED(cu.stream_synchronize(world.stream));
    begin(world.stream);
    NEED(launch_store(place.at, 73, world.stream));
    see(cu.capture_end(world.stream, &graph));
    see(cu.stream_synchronize(world.stream));
    say_word(place.at, 72);
    NEED(cu.graph_destroy(graph));
    give(place, 1);
}

/* Growth between two replays: the address stays, the handle is another. */
static void replay_after_remap(void)
{
    struct place place = take(1);
    begin(world.stream);
    NEED(launch_store(place.at, 74, world.stream));
    NEED(cu.fill_async(place.at + 4, 6, 4, world.stream));
    mbr_cuda_graph_exec exec = finish(world.stream);
    NEED(cu.graph_launch(exec, world.stream));
    NEED(cu.stream_synchronize(world.stream));
    say_word(place.at, 74);
    NEED(cu.unmap(place.at, world.granule_bytes));
    mbr_cuda_handle other = create(1);
    map(place.at, 1, other);
    grant(place.at, 1);
    NEED(cu.fill(place.at, 0, 8));
    NEED(cu.context_synchronize());
    see(cu.graph_launch(exec, world.stream));
    see(cu.stream_synchronize(world.stream));
    say_word(place.at, 74);
    say_word(place.at + 4, 0x06060606);
    NEED(cu.graph_exec_destroy(exec));
    NEED(cu.handle_release(other));
    give(place, 1);
}

/* More is mapped beside it: the replay does not care. */
static void replay_after_growth(void)
{
    const size_t granule = world.granule_bytes;
    mbr_cuda_address at = reserve(2);
    mbr_cuda_handle first = create(1);
    mbr_cuda_handle second = create(1);
    map(at, 1, first);
    grant(at, 1);
    begin(world.stream);
    NEED(launch_store(at, 75, world.stream));
    map(at + granule, 1, second);
    grant(at + granule, 1);
    NEED(launch_store(at + granule, 76, world.stream));
    mbr_cuda_graph_exec exec = finish(world.stream);
    see(cu.graph_launch(exec, world.stream));
    see(cu.stream_synchronize(world.stream));
    say_word(at, 75);
    say_word(at + granule, 76);
    NEED(cu.graph_exec_destroy(exec));
    drop(at, 2);
    NEED(cu.handle_release(first));
    NEED(cu.handle_release(second));
}

static void replay_after_unmap(void)
{
    struct place place = take(1);
    begin(world.stream);
    NEED(launch_store(place.at, 77, world.stream));
    mbr_cuda_graph_exec exec = finish(world.stream);
    NEED(cu.unmap(place.at, world.granule_bytes));
    see(cu.graph_launch(exec, world.stream));
    see(cu.stream_synchronize(world.stream));
}

static void replay_twice_in_flight(void)
{
    struct place place = take(1);
    begin(world.stream);
    NEED(launch_verify(place.at, 1, 78, world.stream));
    NEED(launch_store(place.at, 78, world.stream));
    mbr_cuda_graph_exec exec = finish(world.stream);
    NEED(launch_store(place.at, 1, world.stream));
    hold(world.stream);
    see(cu.graph_launch(exec, world.stream));
    see(cu.graph_launch(exec, world.stream));
    see(cu.stream_query(world.stream));
    let_go();
    see(cu.stream_synchronize(world.stream));
    say_if(*world.wrong == 0, "in turn", "at once");
    NEED(cu.graph_exec_destroy(exec));
    give(place, 1);
}

static void begin_twice(void)
{
    mbr_cuda_graph graph = NULL;
    begin(world.stream);
    see(cu.capture_begin(world.stream, MBR_CUDA_CAPTURE_MODE_THREAD_LOCAL));
    see(cu.capture_end(world.stream, &graph));
}

static void end_without_begin(void)
{
    mbr_cuda_graph graph = (mbr_cuda_graph)1;
    see(cu.capture_end(world.stream, &graph));
}

static void begin_wrong(void)
{
    see(cu.capture_begin(NULL, MBR_CUDA_CAPTURE_MODE_RELAXED));
    see(cu.capture_begin((mbr_cuda_stream)1, MBR_CUDA_CAPTURE_MODE_RELAXED));
    see(cu.capture_begin(world.stream, 7));
}

/* A fill that is refused at submission is not looked at in a capture, but when its graph is made
 * ready. */
static void unmapped_in_capture(void)
{
    struct place place = take(1);
    mbr_cuda_graph graph = NULL;
    NEED(cu.unmap(place.at, world.granule_bytes));
    begin(world.stream);
    see(cu.fill_async(place.at, 0, 4, world.stream));
    see(cu.capture_end(world.stream, &graph));
    if (graph)
        NEED(cu.graph_destroy(graph));
    NEED(cu.handle_release(place.handle));
    NEED(cu.address_free(place.at, world.granule_bytes));
}

static void unmapped_fill_launched(void)
{
    struct place place = take(1);
    mbr_cuda_graph graph = NULL;
    mbr_cuda_graph_exec exec = NULL;
    NEED(cu.unmap(place.at, world.granule_bytes));
    begin(world.stream);
    see(cu.fill_async(place.at, 0, 4, world.stream));
    see(cu.capture_end(world.stream, &graph));
    if (see(cu.graph_instantiate(&exec, graph, 0)) != MBR_CUDA_SUCCESS)
        return;
    see(cu.graph_launch(exec, world.stream));
    see(cu.stream_synchronize(world.stream));
}

/* A copy is looked at in a capture, too, which goes on without it. */
static void unmapped_copy_launched(void)
{
    struct place place = take(1);
    struct place other = take(1);
    mbr_cuda_graph graph = NULL;
    mbr_cuda_graph_exec exec = NULL;
    NEED(cu.unmap(place.at, world.granule_bytes));
    begin(world.stream);
    see(cu.copy_on_device_async(other.at, place.at, 4, world.stream));
    see(cu.capture_end(world.stream, &graph));
    if (!graph || see(cu.graph_instantiate(&exec, graph, 0)) != MBR_CUDA_SUCCESS)
        return;
    see(cu.graph_launch(exec, world.stream));
    see(cu.stream_synchronize(world.stream));
}

/* Another stream that joins by an event, and comes back. */
static void fork_and_join(void)
{
    struct place place = take(1);
    mbr_cuda_event out = event_new();
    mbr_cuda_event back = event_new();
    uint32_t state = 0;
    begin(world.stream);
    NEED(launch_store(place.at, 81, world.stream));
    see(cu.event_record(out, world.stream));
    see(cu.stream_wait(world.other, out, 0));
    NEED(cu.stream_capturing(world.other, &state));
    say_if(state == MBR_CUDA_CAPTURE_ACTIVE, "joins", "stays out");
    see(launch_verify(place.at, 1, 81, world.other));
    see(cu.event_record(back, world.other));
    see(cu.stream_wait(world.stream, back, 0));
    mbr_cuda_graph_exec exec = finish(world.stream);
    *world.wrong = 7;
    see(cu.graph_launch(exec, world.stream));
    see(cu.stream_synchronize(world.stream));
    say_if(*world.wrong == 0, "same", "other");
    NEED(cu.graph_exec_destroy(exec));
    NEED(cu.event_destroy(out));
    NEED(cu.event_destroy(back));
    give(place, 1);
}

static void fork_unjoined(void)
{
    struct place place = take(1);
    mbr_cuda_event out = event_new();
    mbr_cuda_graph graph = NULL;
    begin(world.stream);
    NEED(cu.event_record(out, world.stream));
    NEED(cu.stream_wait(world.other, out, 0));
    NEED(launch_store(place.at, 82, world.other));
    see(cu.capture_end(world.stream, &graph));
    see(cu.stream_query(world.other));
    NEED(cu.event_destroy(out));
    give(place, 1);
}

/* An event of work that ran before the capture is no part of it. */
static void waits_for_the_outside(void)
{
    mbr_cuda_event event = event_new();
    mbr_cuda_graph graph = NULL;
    NEED(cu.event_record(event, world.other));
    begin(world.stream);
    see(cu.stream_wait(world.stream, event, 0));
    see(cu.capture_end(world.stream, &graph));
    NEED(cu.event_destroy(event));
}

struct ending {
    mbr_cuda_result code;
};

static void end_here(void *argument)
{
    struct ending *ending = argument;
    mbr_cuda_graph graph = NULL;
    cu.context_set(world.context);
    ending->code = cu.capture_end(world.stream, &graph);
}

static void end_elsewhere(void)
{
    struct ending ending = {0};
    mbr_cuda_graph graph = NULL;
    begin(world.stream);
    on_thread(end_here, &ending);
    see(ending.code);
    see(cu.capture_end(world.stream, &graph));
    if (graph)
        NEED(cu.graph_destroy(graph));
}

static void count_up(void *argument)
{
    *(volatile uint32_t *)argument += 1;
}

static void host_function(void)
{
    volatile uint32_t calls = 0;
    begin(world.stream);
    see(cu.launch_host(world.stream, count_up, (void *)&calls));
    mbr_cuda_graph_exec exec = finish(world.stream);
    NEED(cu.graph_launch(exec, world.stream));
    NEED(cu.graph_launch(exec, world.stream));
    see(cu.stream_synchronize(world.stream));
    say_if(calls == 2, "twice", "otherwise");
    NEED(cu.graph_exec_destroy(exec));
}

/* The ready graph is its own: destroyed while it waits to run. */
static void exec_destroyed_in_flight(void)
{
    struct place place = take(1);
    begin(world.stream);
    NEED(launch_store(place.at, 83, world.stream));
    mbr_cuda_graph_exec exec = finish(world.stream);
    hold(world.stream);
    see(cu.graph_launch(exec, world.stream));
    see(cu.graph_exec_destroy(exec));
    let_go();
    see(cu.stream_synchronize(world.stream));
    say_word(place.at, 83);
    give(place, 1);
}

static void graph_wrong(void)
{
    mbr_cuda_graph_exec exec = NULL;
    see(cu.graph_instantiate(&exec, NULL, 0));
    see(cu.graph_launch(NULL, world.stream));
    see(cu.graph_exec_destroy(NULL));
    see(cu.graph_destroy(NULL));
}

const struct row contract_graph_rows[] = {
    {"graph.replay fill-copy-kernel-captured-and-launched", replay,
        "OK, OK, OK, OK, 3 nodes, OK, OK, OK, same, same, OK, OK", ROW_SHARED},
    {"graph.still nothing-runs-while-it-is-captured", nothing_runs, "OK, OK, same", ROW_SHARED},
    {"graph.remap replay-after-the-handle-was-exchanged", replay_after_remap,
        "same, OK, OK, same, same", ROW_SHARED},
    {"graph.growth more-is-mapped-inside-the-capture", replay_after_growth, "OK, OK, same, same",
        ROW_SHARED},
    {"graph.unmapped replay-after-unmap", replay_after_unmap, "OK, ILLEGAL_ADDRESS", ROW_ALONE},
    {"graph.twice two-launches-in-flight", replay_twice_in_flight, "OK, OK, NOT_READY, OK, in turn",
        ROW_SHARED},
    {"graph.begin-twice capture-begun-twice", begin_twice, "ILLEGAL_STATE, OK", ROW_SHARED},
    {"graph.end capture-ended-without-begin", end_without_begin, "ILLEGAL_STATE", ROW_SHARED},
    {"graph.begin capture-of-the-legacy-stream-or-no-mode", begin_wrong,
        "STREAM_CAPTURE_UNSUPPORTED, STREAM_CAPTURE_UNSUPPORTED, INVALID_VALUE", ROW_SHARED},
    {"graph.refused fill-of-unmapped-memory-in-a-capture", unmapped_in_capture, "OK, OK",
        ROW_SHARED},
    {"graph.refused.fill fill-of-unmapped-memory-captured-and-launched", unmapped_fill_launched,
        "OK, OK, INVALID_VALUE", ROW_ALONE},
    {"graph.refused.copy copy-of-unmapped-memory-captured-and-launched", unmapped_copy_launched,
        "INVALID_VALUE, OK, OK, OK, OK", ROW_ALONE},
    {"graph.fork another-stream-joins-and-comes-back", fork_and_join,
        "OK, OK, joins, OK, OK, OK, OK, OK, same", ROW_SHARED},
    {"graph.unjoined another-stream-joins-and-stays", fork_unjoined, "STREAM_CAPTURE_UNJOINED, OK",
        ROW_SHARED},
    {"graph.outside waits-for-an-event-from-outside", waits_for_the_outside,
        "STREAM_CAPTURE_ISOLATION, STREAM_CAPTURE_INVALIDATED", ROW_SHARED},
    {"graph.thread capture-ended-by-another-thread", end_elsewhere,
        "STREAM_CAPTURE_WRONG_THREAD, ILLEGAL_STATE", ROW_SHARED},
    {"graph.host host-function-captured-and-launched-twice", host_function, "OK, OK, twice",
        ROW_SHARED},
    {"graph.exec ready-graph-destroyed-in-flight", exec_destroyed_in_flight, "OK, OK, OK, same",
        ROW_SHARED},
    {"graph.wrong calls-with-no-graph", graph_wrong,
        "INVALID_VALUE, INVALID_VALUE, INVALID_VALUE, INVALID_VALUE", ROW_SHARED},
    {0},
};
