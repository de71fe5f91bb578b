// Chores: run by the reaper or by who polls, when they are due or woken, one at a time, with no
// lock held; a context is pinned as long as it has one.
#include "tests/unit/ep/world.h"

#include <atomic>
#include <functional>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

extern "C" {
#include "host/ep/chore.h"
}

using namespace ep_test;

namespace
{

struct Chore {
    mbr_chore chore = {};
    std::atomic<uint64_t> runs{0};
    std::atomic<uint64_t> answer{UINT64_MAX};
    std::function<void()> work;

    Chore()
    {
        chore.run = [](mbr_chore *called, uint64_t) -> uint64_t {
            auto *self = reinterpret_cast<Chore *>(called);
            mbr_lock_assert_none_held();
            if (self->work)
                self->work();
            self->runs++;
            return self->answer;
        };
    }
};

template <typename Condition> void await(Condition condition)
{
    while (!condition())
        std::this_thread::yield();
}

TEST(Chore, WithoutAReaper_RunsWhenPolledAndDue)
{
    World world;
    Chore one;
    ASSERT_EQ(MBR_OK, mbr_chore_begin(&one.chore, world.context, nullptr));
    mbr_context_do_chores(world.context);
    EXPECT_EQ(0u, one.runs); // asleep
    one.answer = 1000;
    mbr_chore_wake(&one.chore);
    mbr_context_do_chores(world.context);
    EXPECT_EQ(1u, one.runs);
    world.clock.now += 999;
    mbr_context_do_chores(world.context);
    EXPECT_EQ(1u, one.runs);
    world.clock.now += 1;
    one.answer = UINT64_MAX;
    mbr_context_do_chores(world.context);
    EXPECT_EQ(2u, one.runs);
    world.clock.now += UINT64_C(1000000000000);
    mbr_context_do_chores(world.context);
    EXPECT_EQ(2u, one.runs);
    mbr_chore_end(&one.chore);
}

TEST(Chore, WokenWhileItRuns_RunsOnceMore)
{
    World world;
    Chore one;
    ASSERT_EQ(MBR_OK, mbr_chore_begin(&one.chore, world.context, nullptr));
    one.work = [&] {
        if (one.runs == 0)
            mbr_chore_wake(&one.chore);
    };
    mbr_chore_wake(&one.chore);
    mbr_context_do_chores(world.context);
    EXPECT_EQ(2u, one.runs);
    mbr_chore_end(&one.chore);
}

TEST(Chore, UnderAReaper_RunsThereAndThenItSleeps)
{
    World world({.reaper = true, .real_clock = true});
    Chore one, other;
    std::thread::id thread;
    one.answer = 100000;
    one.work = [&] {
        thread = std::this_thread::get_id();
        if (one.runs == 3) // a time that another thread chose would race with a run
            one.answer = UINT64_MAX;
    };
    ASSERT_EQ(MBR_OK, mbr_chore_begin(&one.chore, world.context, nullptr));
    ASSERT_EQ(MBR_OK, mbr_chore_begin(&other.chore, world.context, nullptr));
    mbr_chore_wake(&one.chore);
    await([&] { return one.runs >= 4; });
    mbr_context_do_chores(world.context); // the reaper's business
    EXPECT_EQ(0u, other.runs);
    uint64_t wakes = world.read().wake_count, until = now_ns() + 20 * UINT64_C(1000000);
    await([&] { return now_ns() >= until; });
    EXPECT_EQ(4u, one.runs);
    EXPECT_EQ(wakes, world.read().wake_count);
    mbr_chore_end(&one.chore);
    mbr_chore_end(&other.chore);
    EXPECT_NE(std::this_thread::get_id(), thread);
}

TEST(Chore, ReleasesGoOnBesideIt)
{
    World world({.reaper = true, .real_clock = true});
    uint64_t id = world.attach(1);
    world.fake.reach_at_once = true;
    Chore one;
    one.answer = 1000000;
    ASSERT_EQ(MBR_OK, mbr_chore_begin(&one.chore, world.context, nullptr));
    mbr_chore_wake(&one.chore);
    Entry *entry = world.defer({id});
    await([&] { return entry->settled == 1 && one.runs >= 2; });
    mbr_chore_end(&one.chore);
}

TEST(Chore, End_WaitsUntilItDoesNotRun)
{
    World world({.reaper = true, .real_clock = true});
    std::atomic<bool> inside{false}, go{false}, ended{false};
    Chore one;
    one.work = [&] {
        inside = true;
        await([&] { return go.load(); });
        EXPECT_FALSE(ended);
    };
    ASSERT_EQ(MBR_OK, mbr_chore_begin(&one.chore, world.context, nullptr));
    mbr_chore_wake(&one.chore);
    await([&] { return inside.load(); });
    std::thread ender([&] {
        mbr_chore_end(&one.chore);
        ended = true;
    });
    go = true;
    ender.join();
    EXPECT_EQ(1u, one.runs);
}

// The child has no thread that could finish it.
TEST(Chore, End_InAForkedChild_WaitsForNobody)
{
    World world({.reaper = true, .real_clock = true});
    std::atomic<bool> inside{false}, go{false};
    Chore one;
    one.work = [&] {
        inside = true;
        await([&] { return go.load(); });
    };
    ASSERT_EQ(MBR_OK, mbr_chore_begin(&one.chore, world.context, nullptr));
    mbr_chore_wake(&one.chore);
    await([&] { return inside.load(); });
    pid_t child = fork();
    if (child == 0) {
        alarm(60); // where it waits all the same
        mbr_chore_end(&one.chore);
        _exit(0);
    }
    int status = -1;
    EXPECT_EQ(child, waitpid(child, &status, 0));
    EXPECT_EQ(0, status);
    go = true;
    mbr_chore_end(&one.chore);
}

TEST(Chore, Begin_PinsItsContextAndIsRefusedByOneThatRetires)
{
    World world;
    Chore one, late;
    ASSERT_EQ(MBR_OK, mbr_chore_begin(&one.chore, world.context, nullptr));
    EXPECT_EQ(1u, world.read().pin_count);
    EXPECT_EQ(MBR_OK, mbr_context_retire(world.context, nullptr));
    EXPECT_EQ(MBR_BUSY, mbr_chore_begin(&late.chore, world.context, nullptr));
    EXPECT_EQ(1u, world.read().pin_count);
    mbr_chore_end(&one.chore);
    EXPECT_EQ(0u, world.read().pin_count);
}

} // namespace
