// Graph captures of a context over the fake table: what an open capture holds back, and that every
// way through begin, end and loss settles each entry once.
#include "tests/unit/ep/capture_world.h"
#include "tests/unit/ep/tamper.h"

#include <thread>

using namespace ep_test;

namespace
{

// ---- The gate ----

TEST(Gate, CallsInside_ACaptureWaitsForThemAndWhatTheyCallGetsIn)
{
    mbr_gate gate;
    mbr_gate_init(&gate);
    ASSERT_TRUE(mbr_gate_try_enter(&gate));
    std::atomic<bool> closed{false};
    std::thread capture([&] {
        EXPECT_TRUE(mbr_gate_close(&gate, soon()));
        closed = true;
    });
    EXPECT_FALSE(mbr_gate_close(&gate, 0)); // its deadline has passed
    EXPECT_TRUE(mbr_gate_try_enter(&gate)); // while another one waits
    mbr_gate_leave(&gate);
    EXPECT_FALSE(closed);
    mbr_gate_leave(&gate);
    capture.join();
    EXPECT_FALSE(mbr_gate_try_enter(&gate));
    EXPECT_TRUE(mbr_gate_close(&gate, 0)); // one more capture
    mbr_gate_reopen(&gate);
    EXPECT_TRUE(mbr_gate_is_closed(&gate));
    mbr_gate_reopen(&gate);
    EXPECT_TRUE(mbr_gate_try_enter(&gate));
    mbr_gate_leave(&gate);
    mbr_gate_finish(&gate);
}

// ---- An open capture ----

TEST(Capture, Open_ReleasesStayQueuedAndNoLineIsWaitedFor)
{
    CaptureWorld world;
    uint64_t work = world.attach(1), captured = world.attach(2);
    Graph graph;
    Entry *before = world.defer({work});
    ASSERT_EQ(MBR_OK, world.begin(captured, &graph));
    Entry *during = world.defer({work});
    Entry *nowhere = world.defer({});
    world.reap();
    world.fake.reach_all();
    EXPECT_EQ(0u, world.reap());
    EXPECT_EQ(0, before->settled + during->settled + nowhere->settled);
    EXPECT_EQ(3u, world.read().queued_count);
    EXPECT_EQ(1u, world.read().capture_count);
    EXPECT_LT(0u, world.fake.count(kSignal)); // of the other stream
    EXPECT_LT(0u, world.fake.count(kReached));
    mbr_error error = sized<mbr_error>();
    EXPECT_EQ(MBR_BUSY, mbr_context_drain(world.context, kForever, &error));
    EXPECT_NE(nullptr, strstr(error.text, "captur")) << error.text;
    EXPECT_EQ(MBR_BUSY, mbr_context_synchronize(world.context, work, kForever, &error));
    EXPECT_EQ(0u, world.fake.count(kWait));
    world.audit();
    ASSERT_EQ(MBR_OK, world.end_capture(captured));
    EXPECT_EQ(3u * 4096, world.reap());
    EXPECT_EQ(MBR_OK, mbr_context_drain(world.context, kForever, nullptr));
    EXPECT_EQ(MBR_OK, world.retire(&graph, {}));
}

TEST(Capture, EmptyQueue_DrainIsDone)
{
    CaptureWorld world;
    uint64_t id = world.attach(1);
    Graph graph;
    ASSERT_EQ(MBR_OK, world.begin(id, &graph));
    EXPECT_EQ(MBR_OK, mbr_context_drain(world.context, kForever, nullptr));
    ASSERT_EQ(MBR_OK, world.end_capture(id));
    EXPECT_EQ(MBR_OK, world.retire(&graph, {}));
}

TEST(Capture, OfAStream_ItIsNotSignalledNorDetached)
{
    CaptureWorld world;
    uint64_t id = world.attach(1);
    Graph graph;
    Entry *entry = world.defer({id});
    ASSERT_EQ(MBR_OK, world.begin(id, &graph));
    world.reap();
    world.reap();
    EXPECT_EQ(0u, world.fake.count(kSignal));
    mbr_error error = sized<mbr_error>();
    EXPECT_EQ(MBR_BUSY, mbr_context_detach_stream(world.context, id, &error));
    EXPECT_NE(nullptr, strstr(error.text, "end the capture")) << error.text;
    ASSERT_EQ(MBR_OK, world.end_capture(id));
    world.reap_all();
    EXPECT_EQ(1, entry->settled);
    EXPECT_EQ(MBR_OK, world.retire(&graph, {}));
    EXPECT_EQ(MBR_OK, mbr_context_detach_stream(world.context, id, nullptr));
}

TEST(Capture, FillAndCopyOnItsStream_AreRefusedAndElsewhereDone)
{
    CaptureWorld world;
    uint64_t captured = world.attach(1), other = world.attach(2);
    Graph graph;
    ASSERT_EQ(MBR_OK, world.begin(captured, &graph));
    mbr_error error = sized<mbr_error>();
    EXPECT_EQ(MBR_BUSY, mbr_context_fill(world.context, captured, 1, 0, 1, &error));
    EXPECT_NE(nullptr, strstr(error.text, "another stream")) << error.text;
    for (uint64_t bytes : {0, 1}) {
        EXPECT_EQ(MBR_BUSY, mbr_context_copy(world.context, captured, 2, 1, bytes, &error));
        EXPECT_EQ(MBR_OK, mbr_context_copy(world.context, other, 2, 1, bytes, nullptr));
    }
    EXPECT_NE(nullptr, strstr(error.text, "end the capture")) << error.text;
    EXPECT_EQ(MBR_OK, mbr_context_fill(world.context, other, 1, 0, 1, nullptr));
    EXPECT_EQ(1u, world.fake.count(kFill));
    EXPECT_EQ(1u, world.fake.count(kCopy));
    ASSERT_EQ(MBR_OK, world.end_capture(captured));
    EXPECT_EQ(MBR_OK, mbr_context_fill(world.context, captured, 1, 0, 1, nullptr));
    EXPECT_EQ(MBR_OK, mbr_context_copy(world.context, captured, 2, 1, 1, nullptr));
    EXPECT_EQ(MBR_OK, world.retire(&graph, {}));
}

TEST(Capture, NestedOnOneStream_IsRefusedAndTheFirstGoesOn)
{
    CaptureWorld world;
    uint64_t id = world.attach(1);
    Graph first, second;
    ASSERT_EQ(MBR_OK, world.begin(id, &first));
    EXPECT_EQ(MBR_ALREADY_EXISTS, world.begin(id, &second));
    EXPECT_EQ(1u, world.read().capture_count);
    EXPECT_EQ(MBR_OK, world.end_capture(id));
    EXPECT_EQ(MBR_UNKNOWN_OBJECT, world.end_capture(id)); // none is open any more
    EXPECT_EQ(MBR_UNKNOWN_OBJECT, world.begin(id + 1, &second));
    EXPECT_EQ(MBR_OK, world.retire(&first, {}));
}

TEST(Capture, OfSeveralStreams_TheLastEndLetsReleasesGoOn)
{
    CaptureWorld world;
    uint64_t one = world.attach(1), two = world.attach(2), three = world.attach(3);
    Graph first, second;
    ASSERT_EQ(MBR_OK, world.begin(one, &first));
    ASSERT_EQ(MBR_OK, world.begin(two, &second));
    EXPECT_LT(first.serial, second.serial);
    Entry *entry = world.defer({three});
    world.reap_all();
    ASSERT_EQ(MBR_OK, world.end_capture(one)); // not in the order of their begins
    world.reap_all();
    EXPECT_EQ(0, entry->settled);
    ASSERT_EQ(MBR_OK, world.end_capture(two));
    world.reap_all();
    EXPECT_EQ(1, entry->settled);
    EXPECT_EQ(2u, world.read().graph_count);
    EXPECT_EQ(MBR_OK, world.retire(&first, {}));
    EXPECT_EQ(MBR_OK, world.retire(&second, {}));
}

TEST(Capture, EndedByAnotherThread_IsEnded)
{
    CaptureWorld world;
    uint64_t id = world.attach(1);
    Graph graph;
    ASSERT_EQ(MBR_OK, world.begin(id, &graph));
    std::thread([&] { EXPECT_EQ(MBR_OK, world.end_capture(id)); }).join();
    EXPECT_FALSE(peek_gated(world.context));
    std::thread([&] { EXPECT_EQ(MBR_OK, world.retire(&graph, {})); }).join();
    world.reap();
    EXPECT_EQ(1, graph.gone_count);
}

TEST(Capture, WhileReleasesAreSettled_WaitsForThemUntilItsDeadline)
{
    CaptureWorld world;
    uint64_t id = world.attach(1);
    Graph late, graph;
    Entry *entry = world.defer({});
    entry->then = [&](Entry *) { // inside: another thread may not begin now
        std::thread([&] {
            EXPECT_EQ(
                MBR_TIMED_OUT, mbr_context_begin_capture(world.context, id, 0, &late, nullptr));
        }).join();
    };
    world.reap();
    EXPECT_EQ(1, entry->settled);
    EXPECT_EQ(0u, world.read().capture_count);
    EXPECT_EQ(0u, world.read().pin_count);
    ASSERT_EQ(MBR_OK, world.begin(id, &graph)); // nothing is left of the first attempt
    ASSERT_EQ(MBR_OK, world.end_capture(id));
    EXPECT_EQ(MBR_OK, world.retire(&graph, {}));
}

TEST(Capture, OfAnotherContextOnTheDevice_HoldsThisOneBackToo)
{
    mbr_gate device;
    mbr_gate_init(&device);
    {
        CaptureWorld world, other;
        for (mbr_context *context : {world.context, other.context, world.context})
            ASSERT_EQ(MBR_OK, mbr_context_join_gate(context, &device, nullptr));
        uint64_t id = world.attach(1), there = other.attach(1);
        Graph graph;
        Entry *entry = world.defer({id});
        world.reap();
        world.fake.reach_all();
        ASSERT_EQ(MBR_OK, other.begin(there, &graph));
        EXPECT_EQ(0u, world.reap());
        EXPECT_EQ(MBR_BUSY, mbr_context_drain(world.context, kForever, nullptr));
        EXPECT_EQ(0u, world.read().capture_count); // it is the other one's
        ASSERT_EQ(MBR_OK, other.end_capture(there));
        EXPECT_EQ(4096u, world.reap());
        EXPECT_EQ(1, entry->settled);
        EXPECT_EQ(MBR_OK, other.retire(&graph, {}));
    }
    mbr_gate_finish(&device);
}

TEST(Capture, WhileItIsOpen_NoFurtherDeviceIsJoined)
{
    mbr_gate device, further;
    mbr_gate_init(&device);
    mbr_gate_init(&further);
    {
        CaptureWorld world;
        uint64_t id = world.attach(1);
        ASSERT_EQ(MBR_OK, mbr_context_join_gate(world.context, &device, nullptr));
        Graph graph;
        ASSERT_EQ(MBR_OK, world.begin(id, &graph));
        EXPECT_EQ(MBR_BUSY, mbr_context_join_gate(world.context, &further, nullptr));
        EXPECT_EQ(MBR_OK, mbr_context_join_gate(world.context, &device, nullptr)); // it is one
        ASSERT_EQ(MBR_OK, world.end_capture(id));
        EXPECT_EQ(MBR_OK, mbr_context_join_gate(world.context, &further, nullptr));
        EXPECT_EQ(MBR_OK, world.retire(&graph, {}));
    }
    mbr_gate_finish(&further);
    mbr_gate_finish(&device);
}

TEST(Capture, Gates_AreBounded)
{
    std::vector<mbr_gate> gates(MBR_CONTEXT_GATE_COUNT);
    for (mbr_gate &gate : gates)
        mbr_gate_init(&gate);
    {
        CaptureWorld world;
        for (size_t i = 0; i + 1 < gates.size(); i++) // its own is one
            EXPECT_EQ(MBR_OK, mbr_context_join_gate(world.context, &gates[i], nullptr));
        EXPECT_EQ(MBR_OUT_OF_RANGE, mbr_context_join_gate(world.context, &gates.back(), nullptr));
    }
    for (mbr_gate &gate : gates)
        mbr_gate_finish(&gate);
}

TEST(Capture, OfARetiringContext_IsRefused)
{
    CaptureWorld world;
    uint64_t id = world.attach(1);
    Entry *entry = world.defer({id}); // keeps it retiring
    ASSERT_EQ(MBR_OK, mbr_context_retire(world.context, nullptr));
    Graph graph;
    EXPECT_EQ(MBR_BUSY, world.begin(id, &graph));
    world.reap_all();
    EXPECT_EQ(1, entry->settled);
}

TEST(Capture, ShortestWayOfAllocations_IsClosedMeanwhile)
{
    CaptureWorld world;
    uint64_t one = world.attach(1), two = world.attach(2);
    const mbr_fork_flag *serves = mbr_context_serves(world.context);
    if (!peek_flag(serves))
        GTEST_SKIP() << "this system has no page that is wiped at a fork";
    Graph first, second, last;
    ASSERT_EQ(MBR_OK, world.begin(one, &first));
    EXPECT_FALSE(peek_flag(serves));
    ASSERT_EQ(MBR_OK, world.begin(two, &second));
    ASSERT_EQ(MBR_OK, world.end_capture(one));
    EXPECT_FALSE(peek_flag(serves));
    ASSERT_EQ(MBR_OK, world.end_capture(two));
    EXPECT_TRUE(peek_flag(serves));
    ASSERT_EQ(MBR_OK, world.begin(one, &last));
    ASSERT_EQ(MBR_OK, mbr_context_retire(world.context, nullptr));
    ASSERT_EQ(MBR_OK, world.end_capture(one));
    EXPECT_FALSE(peek_flag(serves)); // it takes nothing new
    for (Graph *graph : {&first, &second, &last})
        EXPECT_EQ(MBR_OK, world.retire(graph, {}));
}

// ---- Loss ----

// It would be part of the graph, and its caller relies on it.
TEST(Capture, UnderAFillOrCopyOnItsStream_DoesNotBegin)
{
    CaptureWorld world;
    uint64_t id = world.attach(1), other = world.attach(2);
    Graph graph, besides[2];
    int met = 0;
    world.fake.before = [&](Slot slot, uint64_t) {
        if (slot != kFill && slot != kCopy)
            return;
        Graph &beside = besides[met++];
        EXPECT_EQ(MBR_TIMED_OUT,
            mbr_context_begin_capture(world.context, id, world.clock.now, &graph, nullptr));
        EXPECT_EQ(MBR_OK,
            mbr_context_begin_capture(world.context, other, world.clock.now, &beside, nullptr))
            << "another stream's";
        mbr_graph *ended = nullptr;
        EXPECT_EQ(MBR_OK, mbr_context_end_capture(world.context, other, &ended, nullptr));
        EXPECT_EQ(MBR_OK, world.retire(&beside, {}));
        world.reap();
    };
    EXPECT_EQ(MBR_OK, mbr_context_fill(world.context, id, 4096, 1, 64, nullptr));
    EXPECT_EQ(MBR_OK, mbr_context_copy(world.context, id, 8192, 4096, 64, nullptr));
    EXPECT_EQ(2, met);
    world.fake.before = nullptr;
    world.capture(id, &graph);
    EXPECT_EQ(MBR_OK, world.retire(&graph, {}));
    world.reap_all();
}

TEST(Capture, LossWhileItIsOpen_EndsItForAllAndLosesWhatItHeld)
{
    mbr_gate device;
    mbr_gate_init(&device);
    {
        CaptureWorld world, other;
        ASSERT_EQ(MBR_OK, mbr_context_join_gate(world.context, &device, nullptr));
        ASSERT_EQ(MBR_OK, mbr_context_join_gate(other.context, &device, nullptr));
        uint64_t one = world.attach(1), two = world.attach(2), three = world.attach(3);
        Graph open, kept, retiring;
        world.capture(two, &kept);
        world.capture(three, &retiring);
        ASSERT_EQ(MBR_OK, world.retire(&retiring, {three}));
        ASSERT_EQ(MBR_OK, world.begin(one, &open));
        Entry *of_open = world.defer_owned({}, {open.serial, open.serial});
        Entry *of_kept = world.defer_owned({two}, {kept.serial, kept.serial});
        Entry *there = other.defer({});
        EXPECT_EQ(0u, other.reap());
        mbr_context_lose(world.context);
        EXPECT_EQ(MBR_SETTLED_LOST, of_open->how);
        EXPECT_EQ(MBR_SETTLED_LOST, of_kept->how);
        EXPECT_EQ(1, retiring.gone_count);
        EXPECT_FALSE(mbr_gate_is_closed(&device)); // a capture of a lost device bars nobody
        EXPECT_EQ(4096u, other.reap());
        EXPECT_EQ(1, there->settled);
        world.audit();
        mbr_error error = sized<mbr_error>();
        EXPECT_EQ(MBR_DEVICE_LOST, world.end_capture(one, &error));
        EXPECT_NE(nullptr, strstr(error.text, "no graph")) << error.text;
        EXPECT_EQ(1, open.gone_count);
        EXPECT_EQ(MBR_UNKNOWN_OBJECT, world.end_capture(one));
        EXPECT_EQ(0, kept.gone_count);
        mbr_context_forget_graphs(world.context);
        EXPECT_EQ(1, kept.gone_count);
        EXPECT_EQ(0u, world.read().pin_count);
        Graph never;
        EXPECT_EQ(MBR_DEVICE_LOST, world.begin(two, &never));
    }
    mbr_gate_finish(&device);
}

TEST(Capture, LossWhileItWaitsToBegin_IsNoCapture)
{
    CaptureWorld world;
    uint64_t id = world.attach(1);
    Graph graph;
    Entry *entry = world.defer({});
    std::thread beginner;
    entry->then = [&](Entry *) {
        beginner = std::thread([&] {
            EXPECT_EQ(MBR_DEVICE_LOST,
                mbr_context_begin_capture(world.context, id, kForever, &graph, nullptr));
        });
        while (peek_captures(world.context) == 0)
            std::this_thread::yield();
        mbr_context_lose(world.context);
    };
    world.reap();
    beginner.join();
    EXPECT_EQ(0, graph.gone_count); // it never was the context's
    EXPECT_EQ(0u, world.read().pin_count);
    EXPECT_FALSE(peek_gated(world.context));
}

// ---- The reaper ----

TEST(Capture, UnderAReaper_ReleasesGoOnByThemselvesOnceItHasEnded)
{
    CaptureWorld world({.reaper = true, .real_clock = true});
    uint64_t id = world.attach(1), captured = world.attach(2);
    world.fake.reach_at_once = true;
    Graph graph;
    ASSERT_EQ(MBR_OK, mbr_context_begin_capture(world.context, captured, soon(), &graph, nullptr));
    Entry *entry = world.defer({id});
    while (world.fake.count(kReached) == 0 || world.read().wake_count < 4)
        std::this_thread::yield();
    EXPECT_EQ(0, entry->settled);
    ASSERT_EQ(MBR_OK, world.end_capture(captured));
    while (entry->settled == 0)
        std::this_thread::yield();
    EXPECT_EQ(0u, world.fake.count(kWait));
    EXPECT_EQ(MBR_OK, world.retire(&graph, {id}));
    while (graph.gone_count == 0)
        std::this_thread::yield();
}

// What is settled looks whether a capture is open that has told its caller so.
struct Watched {
    mbr_deferred deferred = {}; // first: settle gets its address
    std::atomic<int> *open = nullptr;
    std::atomic<int> settled{0};

    static void settle(mbr_deferred *deferred, mbr_settled how)
    {
        Watched *watched = reinterpret_cast<Watched *>(deferred);
        EXPECT_EQ(MBR_SETTLED_RELEASED, how);
        EXPECT_EQ(0, *watched->open);
        watched->settled++;
    }
};

TEST(Capture, BesideReleasesOfOtherThreads_NothingIsSettledWhileOneIsOpen)
{
    CaptureWorld world({.reaper = true, .real_clock = true});
    world.fake.reach_at_once = true;
    uint64_t work = world.attach(1);
    std::atomic<int> open{0}, capturing{2};
    std::deque<Watched> watched;
    std::vector<std::thread> captures;
    for (uint64_t native : {2, 3}) {
        uint64_t id = world.attach(native);
        captures.emplace_back([&, id] {
            for (int round = 0; round < 100; round++) {
                Graph graph;
                EXPECT_EQ(
                    MBR_OK, mbr_context_begin_capture(world.context, id, soon(), &graph, nullptr));
                open++;
                std::this_thread::yield();
                open--;
                mbr_graph *made = nullptr;
                EXPECT_EQ(MBR_OK, mbr_context_end_capture(world.context, id, &made, nullptr));
                EXPECT_EQ(
                    MBR_OK, mbr_context_retire_graph(world.context, made, nullptr, 0, nullptr));
                while (graph.gone_count == 0)
                    world.reap();
            }
            capturing--;
        });
    }
    while (capturing != 0) {
        Watched *one = &watched.emplace_back();
        one->open = &open;
        one->deferred.settle = Watched::settle;
        EXPECT_EQ(MBR_OK, mbr_context_defer(world.context, &work, 1, &one->deferred, nullptr));
        while (one->settled == 0 && capturing != 0)
            world.reap();
    }
    for (std::thread &capture : captures)
        capture.join();
    world.audit();
    world.finish();
    for (Watched &one : watched)
        EXPECT_EQ(1, one.settled);
}

} // namespace
