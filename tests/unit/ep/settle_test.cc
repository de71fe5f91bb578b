// How entries come to their end: loss, drain, the end of the context, and threads that meet there.
#include "tests/unit/ep/world.h"

#include <thread>

using namespace ep_test;

namespace
{

// ---- loss ----

TEST(QueueLost, ByTheClient_EveryEntrySettledOnceBeforeItReturns)
{
    World world;
    uint64_t one = world.attach(1), two = world.attach(2);
    std::vector<Entry *> entries;
    for (int i = 0; i < 100; i++)
        entries.push_back(world.defer({i % 2 == 0 ? one : two}));
    Entry *ready = world.defer({});
    mbr_context_lose(world.context);
    for (Entry *entry : entries) {
        EXPECT_EQ(1, entry->settled);
        EXPECT_EQ(MBR_SETTLED_LOST, entry->how);
    }
    EXPECT_EQ(MBR_SETTLED_RELEASED, ready->how); // nothing had to be reached for it
    mbr_ep_figures figures = world.read();
    EXPECT_EQ(0u, figures.queued_count);
    EXPECT_EQ(0u, figures.queued_bytes);
    EXPECT_EQ(100u, figures.lost_count);
    EXPECT_EQ(1u, figures.released_count);
    world.audit();
}

TEST(QueueLost, ByAQuery_WhatWasSeenReachedStaysReleased)
{
    World world;
    uint64_t one = world.attach(1), two = world.attach(2);
    Entry *seen = world.defer({one});
    Entry *unseen = world.defer({two});
    Entry *both = world.defer({one, two});
    world.reap(); // signalled and asked: 2 + 2 calls
    world.fake.reach_all();
    // The first of the two questions is answered, the second finds the device gone.
    world.fake.lost_at = world.fake.calls() + 2;
    EXPECT_EQ(3 * 4096u, world.reap());
    EXPECT_EQ(uint32_t{MBR_CONTEXT_LOST}, world.state());
    EXPECT_EQ(1, seen->settled);
    EXPECT_EQ(MBR_SETTLED_RELEASED, seen->how);
    EXPECT_EQ(MBR_SETTLED_LOST, unseen->how);
    EXPECT_EQ(MBR_SETTLED_LOST, both->how);
    uint64_t calls = world.fake.calls();
    EXPECT_EQ(0u, world.reap());
    EXPECT_EQ(calls, world.fake.calls());
}

TEST(QueueLost, AtEachCallOfAScenario_EachEntryOnceAndNoCallAfterwards)
{
    uint64_t last = UINT64_MAX;
    uint64_t runs = 0;
    for (uint64_t lost_at = 1; lost_at <= last; lost_at++, runs++) {
        World world;
        world.fake.lost_at = lost_at;
        uint64_t ids[3] = {};
        for (uint64_t native = 1; native <= 3; native++)
            (void)mbr_context_attach_stream(
                world.context, {1, 0, native}, &ids[native - 1], nullptr);
        for (uint64_t native = 1; native <= 3; native++)
            world.natives[ids[native - 1]] = native;
        for (int i = 0; i < 70; i++) {
            std::vector<uint64_t> wanted = {ids[i % 3], ids[(i + 1) % 3]};
            bool possible = world.state() == MBR_CONTEXT_ACTIVE &&
                mbr_context_knows_stream(world.context, wanted[0]) &&
                mbr_context_knows_stream(world.context, wanted[1]);
            if (possible)
                world.defer(wanted);
        }
        world.reap();
        world.fake.reach_all();
        world.reap();
        (void)mbr_context_synchronize(world.context, ids[0], kForever, nullptr);
        (void)mbr_context_detach_stream(world.context, ids[1], nullptr);
        (void)mbr_context_drain(world.context, world.clock.now + 1000, nullptr);
        world.audit();
        if (world.state() != MBR_CONTEXT_LOST) {
            last = lost_at; // the whole scenario ran
            world.fake.lost_at = 0;
        }
    }
    EXPECT_GT(runs, 12u);
}

TEST(QueueLost, BySettleItself_TheRestIsLostByTheLoopAroundIt)
{
    World world;
    uint64_t one = world.attach(1), two = world.attach(2);
    Entry *first = world.defer({one});
    Entry *second = world.defer({one});
    Entry *third = world.defer({two});
    first->then = [&](Entry *) { mbr_context_lose(world.context); };
    world.reap();
    world.fake.reach_all({2});
    EXPECT_EQ(3 * 4096u, world.reap());
    EXPECT_EQ(MBR_SETTLED_RELEASED, second->how);
    EXPECT_EQ(MBR_SETTLED_LOST, third->how);
    EXPECT_EQ(1, third->settled);
}

TEST(QueueLost, MoreBytesThanOnePass_AllInOneCall)
{
    World world;
    uint64_t id = world.attach(1);
    for (int i = 0; i < 5; i++)
        world.defer({id}, MBR_REAP_PASS_BYTES);
    Entry *ready = world.defer({}, MBR_REAP_PASS_BYTES);
    ready->then = [&](Entry *) { mbr_context_lose(world.context); };
    EXPECT_EQ(6 * MBR_REAP_PASS_BYTES, world.reap(false)); // a loss is not left half settled
    EXPECT_EQ(5u, world.read().lost_count);
}

TEST(QueueLost, WhileTheLastEntryIsBeingSettled_WaitsForIt)
{
    World world;
    Entry *slow = world.defer({});
    Gate gate;
    slow->then = [&](Entry *) { gate.wait(); };
    std::thread reaper([&] { world.reap(false); });
    gate.await_arrival();
    EXPECT_EQ(0u, world.read().queued_count);
    world.clock.on_read = [&] { gate.open(); }; // whoever waits looks at the clock first
    mbr_context_lose(world.context);
    world.clock.on_read = nullptr;
    EXPECT_EQ(1u, world.read().released_count);
    reaper.join();
}

TEST(QueueLost, WhileAnotherThreadSettles_WaitsUntilItIsThrough)
{
    World world;
    uint64_t id = world.attach(1);
    Entry *slow = world.defer({});
    Entry *other = world.defer({id});
    Gate gate;
    slow->then = [&](Entry *) { gate.wait(); };
    std::thread reaper([&] { world.reap(false); });
    gate.await_arrival();
    EXPECT_EQ(0u, world.reap(false)); // a second reaper does not wait for the first
    std::atomic<bool> lost{false};
    std::thread loser([&] {
        mbr_context_lose(world.context);
        lost = true;
    });
    while (world.state() != MBR_CONTEXT_LOST)
        std::this_thread::yield();
    EXPECT_FALSE(lost);
    gate.open();
    loser.join();
    EXPECT_EQ(1, other->settled);
    EXPECT_EQ(MBR_SETTLED_LOST, other->how);
    EXPECT_EQ(MBR_SETTLED_RELEASED, slow->how);
    reaper.join();
}

TEST(QueueLost, WhileSlotsRun_TheirAnswersComeTooLate)
{
    // The client loses the context while each slot is inside: the answer changes nothing any more.
    for (Slot slot : {kSignal, kReached, kWait}) {
        World world;
        uint64_t id = world.attach(1);
        Entry *entry = world.defer({id});
        world.fake.reach_at_once = slot != kWait;
        world.fake.finish_in_wait = true;
        world.fake.before = [&](Slot now, uint64_t) {
            if (now == slot)
                mbr_context_lose(world.context);
        };
        if (slot == kWait)
            EXPECT_EQ(MBR_OK, mbr_context_drain(world.context, kForever, nullptr));
        else
            world.reap();
        world.fake.before = nullptr;
        EXPECT_EQ(1, entry->settled);
        EXPECT_EQ(MBR_SETTLED_LOST, entry->how);
        world.audit();
    }
}

// ---- drain ----

TEST(QueueDrain, EmptyQueue_AtOnce)
{
    World world;
    EXPECT_EQ(MBR_OK, mbr_context_drain(world.context, 0, nullptr));
    EXPECT_EQ(0u, world.fake.calls());
}

TEST(QueueDrain, ClosesTheEpochAndWaitsForEachLine)
{
    World world;
    uint64_t one = world.attach(1), two = world.attach(2);
    for (int i = 0; i < 100; i++)
        world.defer({i % 2 == 0 ? one : two});
    world.fake.finish_in_wait = true;
    EXPECT_EQ(MBR_OK, mbr_context_drain(world.context, kForever, nullptr));
    EXPECT_EQ(0u, world.read().queued_count);
    EXPECT_EQ(100u, world.read().released_count);
    EXPECT_GE(world.fake.count(kWait), 2u);
}

TEST(QueueDrain, PastItsDeadline_TimesOutWithTheEntriesStillQueued)
{
    World world;
    uint64_t stalled = world.attach(1), quick = world.attach(2);
    Entry *held = world.defer({stalled}, 10);
    Entry *free = world.defer({quick}, 20);
    world.reap();
    world.fake.reach_all({1});
    mbr_error error = sized<mbr_error>();
    uint64_t deadline = world.clock.now + 5 * MBR_REAPER_BACKOFF_MAX_NS;
    EXPECT_EQ(MBR_TIMED_OUT, mbr_context_drain(world.context, deadline, &error));
    EXPECT_STREQ("EP fake: 1 releases of 10 bytes are still queued", error.text);
    EXPECT_EQ(deadline, world.clock.now);
    EXPECT_EQ(5u, world.fake.count(kWait)); // in slices, so that others are not held back
    EXPECT_EQ(1, free->settled);
    EXPECT_EQ(0, held->settled);
    world.fake.reach_all();
    EXPECT_EQ(MBR_OK, mbr_context_drain(world.context, 0, nullptr)); // a late deadline is a poll
    EXPECT_EQ(1, held->settled);
}

TEST(QueueDrain, EntriesQueuedLater_AreNotWaitedFor)
{
    World world;
    uint64_t one = world.attach(1), two = world.attach(2);
    world.defer({one});
    world.fake.finish_in_wait = true;
    Entry *later = nullptr;
    world.fake.before = [&](Slot slot, uint64_t) {
        if (slot == kWait && later == nullptr) {
            later = world.defer({two});
            world.fake.captured.insert(2); // it could not be signalled anyway
        }
    };
    EXPECT_EQ(MBR_OK, mbr_context_drain(world.context, kForever, nullptr));
    world.fake.before = nullptr;
    ASSERT_NE(nullptr, later);
    EXPECT_EQ(0, later->settled);
    EXPECT_EQ(1u, world.read().queued_count);
}

TEST(QueueDrain, CapturedStream_TriedAgainUntilTheCaptureEnds)
{
    World world({.real_clock = true});
    uint64_t id = world.attach(1);
    Entry *entry = world.defer({id});
    world.fake.captured.insert(1);
    EXPECT_EQ(MBR_TIMED_OUT, mbr_context_drain(world.context, now_ns() + 2000000, nullptr));
    world.fake.answer[kSignal] = MBR_OUT_OF_HOST_MEMORY; // may pass as well
    EXPECT_EQ(MBR_TIMED_OUT, mbr_context_drain(world.context, now_ns() + 2000000, nullptr));
    world.fake.answer[kSignal] = MBR_OK;
    EXPECT_EQ(0, entry->settled);
    int tries = 0;
    world.fake.finish_in_wait = true;
    world.fake.before = [&](Slot slot, uint64_t) {
        if (slot == kSignal && ++tries == 5) {
            std::lock_guard<std::mutex> lock(world.fake.mutex);
            world.fake.captured.clear();
        }
    };
    EXPECT_EQ(MBR_OK, mbr_context_drain(world.context, kForever, nullptr));
    world.fake.before = nullptr;
    EXPECT_EQ(1, entry->settled);
}

TEST(QueueDrain, SignalThatCannotWork_IsReturnedInsteadOfWaitingForEver)
{
    World world;
    uint64_t id = world.attach(1);
    Entry *entry = world.defer({id});
    mbr_error error = sized<mbr_error>();
    for (mbr_status status : {MBR_INTERNAL, MBR_UNSUPPORTED, MBR_UNKNOWN_OBJECT}) {
        world.fake.answer[kSignal] = status;
        EXPECT_EQ(status, mbr_context_drain(world.context, kForever, &error));
        EXPECT_NE(nullptr, strstr(error.text, "stay queued")) << error.text;
    }
    EXPECT_EQ(0, entry->settled);
    EXPECT_EQ(1u, world.read().queued_count);
}

TEST(QueueDrain, WaitThatFails_IsReturned)
{
    World world;
    uint64_t id = world.attach(1);
    world.defer({id});
    world.fake.answer[kWait] = MBR_INTERNAL;
    EXPECT_EQ(MBR_INTERNAL, mbr_context_drain(world.context, kForever, nullptr));
    world.fake.answer[kWait] = MBR_TIMED_OUT; // long before its deadline
    EXPECT_EQ(MBR_CONTRACT_BROKEN, mbr_context_drain(world.context, kForever, nullptr));
    EXPECT_EQ(1u, world.read().queued_count);
    world.fake.answer[kWait] = MBR_DEVICE_LOST;
    EXPECT_EQ(MBR_OK, mbr_context_drain(world.context, kForever, nullptr));
    EXPECT_EQ(uint32_t{MBR_CONTEXT_LOST}, world.state());
    EXPECT_EQ(1u, world.read().lost_count);
}

TEST(QueueDrain, WhileAnotherThreadSettles_WaitsForItsEntriesToo)
{
    World world;
    Entry *slow = world.defer({});
    Gate gate;
    slow->then = [&](Entry *) { gate.wait(); };
    std::thread reaper([&] { world.reap(false); });
    gate.await_arrival();
    std::atomic<bool> drained{false};
    EXPECT_EQ(MBR_TIMED_OUT, mbr_context_drain(world.context, 0, nullptr));
    std::thread drainer([&] {
        EXPECT_EQ(MBR_OK, mbr_context_drain(world.context, kForever, nullptr));
        drained = true;
    });
    EXPECT_FALSE(drained);
    gate.open();
    drainer.join();
    reaper.join();
}

TEST(QueueDestroy, WhileACallIsInside_WaitsForIt)
{
    World world;
    uint64_t id = world.attach(1);
    Gate gate;
    world.fake.finish_in_wait = true;
    world.fake.before = [&](Slot slot, uint64_t) {
        if (slot == kWait)
            gate.wait();
    };
    std::thread inside(
        [&] { EXPECT_EQ(MBR_OK, mbr_context_synchronize(world.context, id, kForever, nullptr)); });
    gate.await_arrival();
    world.clock.on_read = [&] { gate.open(); }; // whoever waits looks at the clock first
    EXPECT_EQ(MBR_OK, mbr_context_destroy(world.context, nullptr));
    world.clock.on_read = nullptr;
    inside.join();
    world.context = nullptr;
    EXPECT_EQ(0u, world.fake.open_lines());
    EXPECT_EQ(0, world.heap.live);
}

TEST(QueueDestroy, PinnedWhileACallIsInside_InUseWithoutWaiting)
{
    World world;
    uint64_t id = world.attach(1);
    EXPECT_EQ(MBR_OK, mbr_context_pin(world.context, nullptr));
    Gate gate;
    world.fake.finish_in_wait = true;
    world.fake.before = [&](Slot slot, uint64_t) {
        if (slot == kWait)
            gate.wait();
    };
    std::thread inside(
        [&] { EXPECT_EQ(MBR_OK, mbr_context_synchronize(world.context, id, kForever, nullptr)); });
    gate.await_arrival();
    EXPECT_EQ(MBR_IN_USE, mbr_context_destroy(world.context, nullptr));
    gate.open();
    inside.join();
    world.fake.before = nullptr;
    mbr_context_unpin(world.context);
}

TEST(QueueDestroy, EntryQueuedAgainByTheLastSettle_InUseAfterTheWait)
{
    World world;
    Entry *entry = world.defer({});
    Gate gate;
    entry->then = [&](Entry *self) {
        gate.wait();
        self->then = nullptr;
        self->settled = 0;
        EXPECT_EQ(MBR_OK, mbr_context_defer(world.context, nullptr, 0, &self->deferred, nullptr));
        EXPECT_EQ(MBR_OK, mbr_context_pin(world.context, nullptr)); // keeps it after this pass
    };
    std::thread reaper([&] { world.reap(false); });
    gate.await_arrival();
    world.clock.on_read = [&] { gate.open(); };
    EXPECT_EQ(MBR_IN_USE, mbr_context_destroy(world.context, nullptr));
    reaper.join();
    world.clock.on_read = nullptr;
    mbr_context_unpin(world.context);
}

TEST(Queue, LastPinGivenBackByTheLastSettle_TerminatesWhenTheSettleHasReturned)
{
    World world;
    EXPECT_EQ(MBR_OK, mbr_context_pin(world.context, nullptr));
    Entry *entry = world.defer({});
    EXPECT_EQ(MBR_OK, mbr_context_retire(world.context, nullptr));
    entry->then = [&](Entry *) {
        mbr_context_unpin(world.context);
        EXPECT_EQ(uint32_t{MBR_CONTEXT_RETIRING}, world.state());
    };
    world.reap(false);
    EXPECT_EQ(uint32_t{MBR_CONTEXT_TERMINATED}, world.state());
}

// ---- one signaller at a time ----

TEST(QueueThreads, DeferWhileAnotherSignals_DoesNotWaitAndIsSignalledLater)
{
    World world;
    uint64_t id = world.attach(1);
    Gate gate;
    std::atomic<bool> first{true};
    world.fake.before = [&](Slot slot, uint64_t) {
        if (slot == kSignal && first.exchange(false))
            gate.wait();
    };
    world.defer({id});
    std::thread signaller([&] { world.reap(); });
    gate.await_arrival();
    uint64_t own = id;
    std::deque<Entry> mine;
    for (int i = 0; i < 200; i++) { // three epochs are full meanwhile
        Entry *entry = &mine.emplace_back();
        entry->deferred.bytes = 1;
        entry->deferred.settle = Entry::settle;
        entry->fake = &world.fake;
        EXPECT_EQ(MBR_OK, mbr_context_defer(world.context, &own, 1, &entry->deferred, nullptr));
    }
    EXPECT_EQ(0u, world.fake.signalled(1));
    world.audit();
    gate.open();
    signaller.join();
    world.reap();
    world.fake.reach_all();
    world.reap();
    for (Entry &entry : mine)
        EXPECT_EQ(1, entry.settled);
    world.fake.before = nullptr;
    EXPECT_LE(world.read().signal_count, 5u);
}

} // namespace
