// Entries that new work takes out of the queue again: on their own stream at once, on another one
// behind a wait of the device's; each is settled or taken, and exactly once.
#include "tests/unit/ep/capture_world.h"

using namespace ep_test;

namespace
{

TEST(Reactivate, OnItsOwnStream_AtOnceAndNoSlotIsCalled)
{
    World world;
    uint64_t id = world.attach(1);
    uint64_t calls = world.fake.calls();
    for (int i = 0; i < 200; i++) {
        world.fake.submit(1);
        Entry *entry = world.defer({id});
        EXPECT_EQ(entry, world.take(id));
        EXPECT_EQ(0u, world.read().queued_count + world.read().queued_bytes);
        world.audit();
    }
    EXPECT_EQ(0u, world.reap());
    EXPECT_EQ(calls, world.fake.calls()) << "an epoch without entries wants no signal";
    EXPECT_EQ(200u, world.read().reactivated_count);
    EXPECT_EQ(0u, world.read().stream_wait_count);
    EXPECT_EQ(0u, world.read().released_count);
}

TEST(Reactivate, OfSeveral_TheNewestThatFits)
{
    World world;
    uint64_t id = world.attach(1);
    Entry *small = world.defer({id}, 100);
    Entry *first = world.defer({id}, 4096);
    Entry *second = world.defer({id}, 4096);
    world.defer({id}, 100);
    EXPECT_EQ(nullptr, world.take(id, true, 8192));
    EXPECT_EQ(second, world.take(id, false, 4096));
    EXPECT_EQ(first, world.take(id, false, 4096));
    EXPECT_EQ(nullptr, world.take(id, false, 4096));
    world.audit();
    EXPECT_EQ(200u, world.read().queued_bytes);
    world.reap();
    world.fake.reach_all();
    world.reap();
    EXPECT_EQ(1, small->settled);
}

TEST(Reactivate, TakenAndQueuedAgain_IsSettledOnce)
{
    World world;
    uint64_t id = world.attach(1);
    Entry *entry = world.defer({id});
    for (int i = 0; i < 100; i++) {
        EXPECT_EQ(entry, world.take(id));
        entry->taken = 0;
        EXPECT_EQ(MBR_OK, mbr_context_defer(world.context, &id, 1, &entry->deferred, nullptr));
        if (i % 3 == 0)
            world.reap(); // its epoch is sealed and signalled
        world.audit();
    }
    world.fake.reach_all();
    world.reap();
    EXPECT_EQ(1, entry->settled);
}

TEST(Reactivate, OnAnotherStream_OnlyWhereTheDeviceMayWaitAndKnowsForWhat)
{
    World world;
    uint64_t compute = world.attach(1), other = world.attach(2);
    world.fake.submit(1);
    Entry *entry = world.defer({compute});
    EXPECT_EQ(nullptr, world.take(other, true)) << "no signal stands behind its work yet";
    world.reap();
    EXPECT_EQ(nullptr, world.take(other));
    EXPECT_EQ(entry, world.take(other, true));
    ASSERT_EQ(1u, world.fake.device_waits.size());
    EXPECT_EQ(2u, world.fake.device_waits[0].on);
    EXPECT_EQ(1u, world.fake.device_waits[0].behind);
    EXPECT_EQ(1u, world.fake.device_waits[0].work);
    EXPECT_EQ(1u, world.read().stream_wait_count);
    world.audit();
    EXPECT_EQ(0u, world.read().queued_count);
}

TEST(Reactivate, OfAComputeAndACopyStream_WaitsForTheOneThatIsNotDone)
{
    World world;
    uint64_t compute = world.attach(1), copy = world.attach(2);
    Entry *first = world.defer({compute, copy}, 100);
    world.reap();
    Entry *second = world.defer({compute, copy}, 200);
    world.reap();
    EXPECT_EQ(nullptr, world.take(compute)) << "the copy is not done";
    world.fake.reach(2, 1);
    world.reap();
    EXPECT_EQ(first, world.take(compute)) << "its copy is";
    EXPECT_EQ(second, world.take(compute, true));
    ASSERT_EQ(1u, world.fake.device_waits.size());
    EXPECT_EQ(2u, world.fake.device_waits[0].behind) << "never for the stream of the work itself";
    world.audit();
}

TEST(Reactivate, OfStreamsThatAreAllForeign_WaitsForEach)
{
    World world;
    uint64_t ids[] = {world.attach(1), world.attach(2), world.attach(3), world.attach(4)};
    Entry *entry = world.defer({ids[0], ids[1], ids[2]});
    world.reap();
    EXPECT_EQ(entry, world.take(ids[3], true));
    EXPECT_EQ(3u, world.fake.device_waits.size());
    EXPECT_EQ(3u, world.read().stream_wait_count);
}

TEST(Reactivate, EpochsThatEmpty_LeaveNoMarkAndNoLineBehind)
{
    World world;
    uint64_t id = world.attach(1), gone = world.attach(2), last = world.attach(3);
    std::vector<Entry *> entries;
    for (int i = 0; i < 10; i++) { // unreached, unsignalled (captured), and in the open epoch
        entries.push_back(world.defer({id, gone}));
        if (i == 5) {
            EXPECT_EQ(MBR_OK, mbr_context_detach_stream(world.context, gone, nullptr));
            gone = last;
        }
        if (i == 6)
            world.fake.captured = {1};
        world.reap(i != 9);
        world.audit();
    }
    EXPECT_EQ(3u, world.read().line_count);
    for (int i = 0; i < 10; i++) {
        world.fake.reach(2, 3); // some of the detached line, whose others are taken
        EXPECT_NE(nullptr, world.take(id, true)) << i;
        world.audit();
        if (i == 2)
            world.fake.captured.clear();
        world.reap(i == 8); // the last one's further stream is signalled, too
    }
    EXPECT_EQ(0u, world.read().queued_count);
    EXPECT_EQ(2u, world.read().line_count) << "nobody waits for the detached one any more";
    uint64_t calls = world.fake.calls();
    world.reap();
    EXPECT_EQ(calls, world.fake.calls());
}

// The signal of an epoch is under way when its entries are taken: its value is nobody's.
TEST(Reactivate, WhileItsSignalRuns_TheSignalIsForNobody)
{
    for (bool refused : {false, true}) {
        World world;
        uint64_t id = world.attach(1);
        Entry *entry = world.defer({id});
        Entry *other = nullptr;
        bool once = true;
        world.fake.before = [&](Slot slot, uint64_t) {
            if (slot != kSignal || !once)
                return;
            once = false;
            EXPECT_EQ(entry, world.take(id));
            other = world.defer({id}); // joins the next epoch
        };
        world.fake.answer[kSignal] = refused ? MBR_BUSY : MBR_OK;
        world.reap();
        world.audit();
        EXPECT_EQ(1u, world.read().queued_count);
        world.fake.answer[kSignal] = MBR_OK;
        world.fake.before = nullptr;
        world.reap();
        world.fake.reach_all();
        world.reap();
        EXPECT_EQ(1, other->settled);
        EXPECT_EQ(0, entry->settled);
    }
}

enum Meanwhile { kNothing, kReachedMeanwhile, kLostMeanwhile, kRetired, kMeanwhiles };

// Whatever happens while the device is told to wait, and whatever it answers.
TEST(Reactivate, WhileTheWaitIsEnqueued_EveryEndIsSettledOrTakenOnce)
{
    for (int meanwhile = 0; meanwhile < kMeanwhiles; meanwhile++)
        for (mbr_status answer : {MBR_OK, MBR_BUSY, MBR_QUEUE_FULL, MBR_DEVICE_LOST}) {
            SCOPED_TRACE(testing::Message() << meanwhile << " " << answer);
            World world;
            uint64_t compute = world.attach(1), other = world.attach(2);
            Entry *entry = world.defer({compute});
            Entry *beside = world.defer({compute}, 100);
            world.reap();
            world.fake.answer[kStreamWait] = answer;
            bool once = true;
            world.fake.before = [&](Slot slot, uint64_t) {
                if (slot != kStreamWait || !once)
                    return;
                once = false;
                EXPECT_EQ(nullptr, world.take(compute, true, 4096)) << "it is claimed";
                world.audit();
                if (meanwhile == kReachedMeanwhile) {
                    world.fake.reach_all();
                    world.reap();
                    EXPECT_EQ(1, beside->settled);
                } else if (meanwhile == kLostMeanwhile) {
                    world.fake.answer[kReached] = MBR_DEVICE_LOST;
                    world.reap();
                    EXPECT_EQ(uint32_t{MBR_CONTEXT_LOST}, world.state());
                } else if (meanwhile == kRetired) {
                    EXPECT_EQ(MBR_OK, mbr_context_retire(world.context, nullptr));
                }
                EXPECT_EQ(0, entry->settled);
            };
            bool is_lost = meanwhile == kLostMeanwhile || answer == MBR_DEVICE_LOST;
            Entry *taken = world.take(other, true, 4096);
            EXPECT_EQ(answer == MBR_OK && !is_lost ? entry : nullptr, taken);
            EXPECT_EQ(is_lost, world.state() == MBR_CONTEXT_LOST);
            world.audit();
            world.reap();
            if (!is_lost) {
                world.fake.reach_all();
                world.reap();
            }
            EXPECT_EQ(taken == nullptr, entry->settled == 1);
            EXPECT_EQ(1, beside->settled);
            world.fake.lost_answers = 0; // both slots that were told are the test's
        }
}

TEST(Reactivate, WithoutAStreamOrALivingContext_NothingIsTaken)
{
    World world;
    uint64_t id = world.attach(1), gone = world.attach(2);
    EXPECT_EQ(MBR_OK, mbr_context_detach_stream(world.context, gone, nullptr));
    world.defer({id});
    EXPECT_EQ(nullptr, world.take(0, true)) << "the host alone cannot be behind a stream";
    EXPECT_EQ(nullptr, world.take(gone, true));
    EXPECT_EQ(nullptr, world.take(999, true));
    EXPECT_EQ(MBR_OK, mbr_context_retire(world.context, nullptr));
    EXPECT_EQ(nullptr, world.take(id, true)) << "it takes no new work";
    mbr_context_lose(world.context);
    EXPECT_EQ(nullptr, world.take(id, true));
}

// None begins while the device is being told to wait.
TEST(Reactivate, WhileTheWaitIsEnqueued_NoCaptureBeginsOnTheDevice)
{
    mbr_gate device;
    mbr_gate_init(&device);
    {
        World world;
        CaptureWorld other;
        for (mbr_context *context : {world.context, other.context})
            ASSERT_EQ(MBR_OK, mbr_context_join_gate(context, &device, nullptr));
        uint64_t compute = world.attach(1), copy = world.attach(2), there = other.attach(1);
        Graph graph;
        Entry *entry = world.defer({compute});
        world.reap();
        uint64_t waits = 0;
        world.fake.before = [&](Slot slot, uint64_t) {
            if (slot != kStreamWait)
                return;
            waits++;
            EXPECT_EQ(
                MBR_TIMED_OUT, mbr_context_begin_capture(other.context, there, 0, &graph, nullptr));
        };
        EXPECT_EQ(entry, world.take(copy, true));
        EXPECT_EQ(1u, waits);
    }
    mbr_gate_finish(&device);
}

// A launch comes in no order with what stands on the stream now.
TEST(Reactivate, DuringACaptureOrOwnedByAGraph_NothingIsTaken)
{
    CaptureWorld world;
    uint64_t id = world.attach(1), other = world.attach(2);
    Entry *entry = world.defer({other});
    Graph graph;
    ASSERT_EQ(MBR_OK, world.begin(id, &graph));
    EXPECT_EQ(nullptr, world.take(other, true));
    ASSERT_EQ(MBR_OK, world.end_capture(id));
    EXPECT_EQ(entry, world.take(other));
    entry->taken = 0;
    entry->deferred.graphs = {graph.serial, graph.serial};
    EXPECT_EQ(MBR_OK, mbr_context_defer(world.context, &other, 1, &entry->deferred, nullptr));
    EXPECT_EQ(nullptr, world.take(other, true));
    world.audit();
    ASSERT_EQ(MBR_OK, world.retire(&graph, {}));
    world.reap_all();
    EXPECT_EQ(1, entry->settled);
}

// A search is bounded: a client that frees on thousands of streams pays for no more than this.
TEST(Reactivate, AmongManyOfOtherStreams_LooksAtTheNewestOnly)
{
    World world;
    uint64_t id = world.attach(1), other = world.attach(2);
    Entry *deep = world.defer({id});
    for (int i = 0; i < MBR_REACTIVATE_SEEN_COUNT - 1; i++)
        world.defer({other});
    EXPECT_EQ(deep, world.take(id));
    deep->taken = 0;
    EXPECT_EQ(MBR_OK, mbr_context_defer(world.context, &id, 1, &deep->deferred, nullptr));
    for (int i = 0; i < MBR_REACTIVATE_SEEN_COUNT; i++)
        world.defer({other});
    EXPECT_EQ(nullptr, world.take(id));
}

// A drain waits for a claimed entry, too: it may come back.
TEST(Reactivate, DrainMeanwhile_WaitsForTheClaimed)
{
    World world;
    uint64_t compute = world.attach(1), other = world.attach(2);
    Entry *entry = world.defer({compute});
    world.reap();
    world.fake.answer[kStreamWait] = MBR_BUSY;
    bool once = true;
    world.fake.before = [&](Slot slot, uint64_t) {
        if (slot != kStreamWait || !once)
            return;
        once = false;
        world.fake.reach_all();
        EXPECT_EQ(MBR_TIMED_OUT, mbr_context_drain(world.context, world.clock.now, nullptr));
    };
    EXPECT_EQ(nullptr, world.take(other, true));
    EXPECT_EQ(MBR_OK, mbr_context_drain(world.context, kForever, nullptr));
    EXPECT_EQ(1, entry->settled);
}

} // namespace
