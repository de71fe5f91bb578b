// What a deferred free may cost its caller, in calls and wake-ups: counts that hold on any machine.
// Times are rows D of `membrane bench`.
#include "tests/unit/ep/world.h"

#include <thread>

using namespace ep_test;

namespace
{

constexpr uint64_t kMillisecond = 1000000;

// P10: with work queued for a long time, a free asks nothing and waits for nothing.
TEST(QueueCost, TenThousandFreesBehindABusyStream_OneSignalForSixtyFourAndNoOtherSlot)
{
    World world;
    uint64_t id = world.attach(1);
    uint64_t calls = world.fake.calls(), blocks = world.heap.calls;
    for (int i = 0; i < 10000; i++)
        world.defer({id});
    EXPECT_EQ(10000u / MBR_EPOCH_ENTRY_COUNT, world.fake.count(kSignal));
    EXPECT_EQ(calls + world.fake.count(kSignal), world.fake.calls());
    EXPECT_EQ(0u, world.fake.count(kWait) + world.fake.count(kReached));
    // The pools of epochs and marks grow to what was never open at once before, by chunks.
    EXPECT_LE(world.heap.calls - blocks, 2 * (1 + 10000u / MBR_EPOCH_ENTRY_COUNT / 16));
}

// What was taken out again waits for no signal, and closes no epoch.
TEST(QueueCost, TakenAgainOnItsStream_ClosesNoEpochForThoseThatStay)
{
    World world;
    uint64_t id = world.attach(1);
    Entry *stays = world.defer({id}, 1);
    for (int i = 0; i < 10 * MBR_EPOCH_ENTRY_COUNT; i++) {
        world.defer({id}, MBR_EPOCH_BYTES / 2);
        ASSERT_NE(nullptr, world.take(id, false, MBR_EPOCH_BYTES / 2));
    }
    EXPECT_EQ(0u, world.fake.count(kSignal));
    world.defer({id}, MBR_EPOCH_BYTES - 1);
    EXPECT_EQ(1u, world.fake.count(kSignal)) << "with the first one, the epoch's bytes";
    EXPECT_EQ(0, stays->settled);
}

// A pass asks each line once, however much waits behind it.
TEST(QueueCost, HundredThousandEntriesQueued_APassMakesAsManyCallsAsWithAHundred)
{
    uint64_t calls[2];
    for (int deep = 0; deep < 2; deep++) {
        World world({.queue_entries = 200000});
        uint64_t stalled = world.attach(1), quick = world.attach(2);
        for (int i = 0; i < (deep ? 100000 : 100); i++)
            world.defer({stalled});
        world.reap();
        uint64_t before = world.fake.calls(), blocks = world.heap.calls;
        for (int i = 0; i < 1000; i++) {
            world.defer({quick});
            world.reap();
            world.fake.reach(2, world.fake.signalled(2));
        }
        EXPECT_EQ(blocks, world.heap.calls);
        calls[deep] = world.fake.calls() - before;
    }
    EXPECT_EQ(calls[0], calls[1]);
    EXPECT_EQ(3000u, calls[0]) << "a signal, and a question to each of two lines";
}

TEST(QueueCost, TenEntriesOnAStalledStream_WakeTheReaperTenTimesASecond)
{
    World world({.reaper = true, .real_clock = true});
    uint64_t id = world.attach(1);
    std::vector<Entry *> entries;
    for (int i = 0; i < 10; i++)
        entries.push_back(world.defer({id}));
    // The pauses double from 0.1 ms: eleven of them are 0.2 s, and then each is 0.1 s.
    while (world.fake.count(kReached) < 12)
        std::this_thread::yield();
    // The time around the counts: a preemption between the two only widens the bound.
    uint64_t start = now_ns(), wakes = world.read().wake_count;
    while (now_ns() < start + 500 * kMillisecond)
        std::this_thread::sleep_until(
            std::chrono::steady_clock::now() + std::chrono::milliseconds(50));
    wakes = world.read().wake_count - wakes;
    EXPECT_LE(wakes, 1 + (now_ns() - start) / MBR_REAPER_BACKOFF_MAX_NS);
    EXPECT_EQ(0, entries[0]->settled);
}

// Freed and taken again all the time: the reaper looks once an age, and nobody wakes it in between.
// Where this thread was slower than an age, the entry's epoch is signalled, and the reaper asks for
// it at pauses that double, eleven times until they are 0.1 s.
TEST(QueueCost, FreedAndTakenAgainAllTheTime_WakesTheReaperTwiceAnAgeAtMost)
{
    World world({.reaper = true, .real_clock = true});
    uint64_t id = world.attach(1);
    uint64_t start = now_ns();
    Entry *entry = world.defer({id});
    for (int i = 0; i < 20000; i++) {
        ASSERT_EQ(entry, world.take(id));
        entry->taken = 0;
        EXPECT_EQ(MBR_OK, mbr_context_defer(world.context, &id, 1, &entry->deferred, nullptr));
    }
    // The time is read last: whatever comes between the two only widens the bound.
    uint64_t wakes = world.read().wake_count, signals = world.fake.count(kSignal);
    uint64_t ages = 1 + (now_ns() - start) / MBR_EPOCH_AGE_NS;
    EXPECT_LE(wakes, 2 * ages + 11 * signals);
    EXPECT_LE(signals, ages);
}

} // namespace
