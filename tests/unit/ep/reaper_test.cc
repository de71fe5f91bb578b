// The reaper thread: it sleeps while the queue is empty, wakes when there is work, backs off while
// the work is stalled, and ends with its context. Real time only where a time-out is the subject.
#include "tests/unit/ep/world.h"

#include <thread>

using namespace ep_test;

namespace
{

// Waits until the condition holds; a hang is the test's own time-out.
template <typename Condition> void await(Condition condition)
{
    while (!condition())
        std::this_thread::yield();
}

TEST(Reaper, EmptyQueue_NeverWakes)
{
    World world({.reaper = true, .real_clock = true});
    uint64_t id = world.attach(1);
    world.fake.reach_at_once = true;
    uint64_t until = now_ns() + 20 * UINT64_C(1000000);
    await([&] { return now_ns() >= until; });
    EXPECT_EQ(0u, world.read().wake_count);
    EXPECT_EQ(MBR_OK, mbr_context_detach_stream(world.context, id, nullptr));
    EXPECT_EQ(0u, world.read().wake_count);
}

TEST(Reaper, OneEntry_SettledWithoutAnybodysHelpAndAsleepAgain)
{
    World world({.reaper = true, .real_clock = true});
    uint64_t id = world.attach(1);
    world.fake.reach_at_once = true;
    Entry *entry = world.defer({id});
    await([&] { return entry->settled == 1; });
    EXPECT_EQ(MBR_SETTLED_RELEASED, entry->how);
    await([&] { return world.read().queued_count == 0; });
    // It wakes once to see the entry and once to close the epoch; with a value reached at once
    // the same pass settles it. Then the queue is empty and it sleeps.
    uint64_t wakes = world.read().wake_count;
    EXPECT_LE(wakes, 4u);
    uint64_t until = now_ns() + 20 * UINT64_C(1000000);
    await([&] { return now_ns() >= until; });
    EXPECT_EQ(wakes, world.read().wake_count);
}

TEST(Reaper, EpochsAge_IsReadFromTheContextsClock)
{
    World world({.reaper = true}); // the fake clock stands still
    uint64_t id = world.attach(1);
    world.fake.reach_at_once = true;
    Entry *entry = world.defer({id});
    await([&] { return world.read().wake_count >= 3; }); // it looked, and it was too early
    EXPECT_EQ(0, entry->settled);
    EXPECT_EQ(0u, world.fake.count(kSignal));
    world.clock.now += MBR_EPOCH_AGE_NS;
    await([&] { return entry->settled == 1; });
}

TEST(Reaper, StalledWork_WakesLessAndLess)
{
    World world({.reaper = true, .real_clock = true});
    uint64_t id = world.attach(1);
    uint64_t start = now_ns();
    Entry *entry = world.defer({id});
    await([&] { return world.fake.count(kReached) >= 2; });
    // From 0.1 ms doubling to 100 ms: eleven questions, then ten a second; a fixed 0.1 ms would ask
    // some 600 times. All from before the first one on, and the time is read last: whatever comes
    // in between only widens the bound.
    uint64_t until = now_ns() + 60 * UINT64_C(1000000);
    await([&] { return now_ns() >= until; });
    uint64_t asked = world.fake.count(kReached);
    EXPECT_LE(asked, 13 + (now_ns() - start) / MBR_REAPER_BACKOFF_MAX_NS);
    EXPECT_EQ(0, entry->settled);
    world.fake.reach_all();
    await([&] { return entry->settled == 1; }); // at the latest 100 ms later
}

TEST(Reaper, EpochClosedByAnother_WakesItOutOfItsBackOff)
{
    World world({.reaper = true, .real_clock = true});
    uint64_t stalled = world.attach(1), quick = world.attach(2);
    world.defer({stalled});
    // Without a wake no round could be so short, and this would not end; a loaded machine only
    // makes some rounds longer.
    uint64_t took_ns = UINT64_MAX;
    while (took_ns >= 20 * UINT64_C(1000000)) {
        // Deep in its back-off: the sleep now is 50 ms and more.
        uint64_t asked = world.fake.count(kReached);
        await([&] { return world.fake.count(kReached) >= asked + 11; });
        uint64_t start = now_ns();
        std::vector<Entry *> entries;
        for (int i = 0; i < 64; i++)
            entries.push_back(world.defer({quick}));
        // Again and again: a slow machine's epoch is split by its age, and signalled later.
        await([&] {
            world.fake.reach_all({1});
            return entries.back()->settled == 1;
        });
        took_ns = now_ns() - start;
    }
}

TEST(Reaper, EntryWithoutStreamsWhileStalled_SettledAtOnce)
{
    World world({.reaper = true}); // no time passes: only a wake can do it
    uint64_t id = world.attach(1);
    world.defer({id});
    world.reap();
    Entry *entry = world.defer({});
    await([&] { return entry->settled == 1; });
}

TEST(Reaper, WorkBeyondOnePass_IsSettledWithoutSleepingInBetween)
{
    World world({.reaper = true});
    std::vector<Entry *> entries;
    for (int i = 0; i < 20; i++)
        entries.push_back(world.defer({}, MBR_REAP_PASS_BYTES));
    for (Entry *entry : entries)
        await([&] { return entry->settled == 1; });
    EXPECT_EQ(0u, world.fake.calls());
}

TEST(Reaper, LostDevice_ItSettlesEverythingAsLostAndSleeps)
{
    World world({.reaper = true, .real_clock = true});
    uint64_t id = world.attach(1);
    std::vector<Entry *> entries;
    for (int i = 0; i < 100; i++)
        entries.push_back(world.defer({id}));
    {
        std::lock_guard<std::mutex> lock(world.fake.mutex);
        world.fake.lost_at = 1;
    }
    for (Entry *entry : entries) {
        await([&] { return entry->settled == 1; });
        EXPECT_EQ(MBR_SETTLED_LOST, entry->how);
    }
    EXPECT_EQ(uint32_t{MBR_CONTEXT_LOST}, world.state());
    await([&] { return world.read().queued_count == 0; });
    uint64_t calls = world.fake.calls();
    world.finish();
    EXPECT_EQ(calls, world.fake.calls());
}

TEST(Reaper, LossFoundByADefer_ItSettlesWhatTheCallerMayNot)
{
    World world({.reaper = true}); // no time passes: only a wake can do it
    uint64_t id = world.attach(1);
    world.fake.answer[kSignal] = MBR_DEVICE_LOST;
    std::vector<Entry *> entries;
    for (int i = 0; i < 64; i++)
        entries.push_back(world.defer({id}));
    EXPECT_EQ(uint32_t{MBR_CONTEXT_LOST}, world.state());
    for (Entry *entry : entries)
        await([&] { return entry->settled == 1; });
}

TEST(Reaper, DestroyWhileItSleepsOrWorks_JoinsIt)
{
    for (int round = 0; round < 50; round++) {
        World world({.reaper = true, .real_clock = true});
        uint64_t id = world.attach(1);
        world.fake.reach_at_once = true;
        for (int i = 0; i < round; i++)
            world.defer({id});
        world.finish();
    }
}

} // namespace
