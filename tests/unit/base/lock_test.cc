// Ranked locks: the one order, the per-thread set of held ranks, conditions on the monotonic clock.
// The rules are broken here on purpose; a build without assertions cannot see that, so each breach
// is expected to end the process only where assertions are compiled in.
extern "C" {
#include "abi/base/lock.h"
#include "abi/base/seam.h"
}

#include <gtest/gtest.h>

#include <array>
#include <thread>
#include <vector>

namespace
{

constexpr uint64_t kForever = UINT64_MAX;
constexpr uint64_t kMillisecond = 1000000;

class Lock : public ::testing::Test
{
  protected:
    Lock()
    {
        for (int rank = 0; rank < MBR_RANK_COUNT; rank++)
            mbr_lock_init(&locks_[static_cast<size_t>(rank)], static_cast<mbr_lock_rank>(rank));
    }

    ~Lock() override
    {
        mbr_lock_assert_none_held();
        for (mbr_lock &lock : locks_)
            mbr_lock_finish(&lock);
    }

    mbr_lock *Of(int rank) { return &locks_[static_cast<size_t>(rank)]; }

  private:
    std::array<mbr_lock, MBR_RANK_COUNT> locks_;
};

using LockDeathTest = Lock;

TEST_F(Lock, AllRanksInRisingOrder_AreTaken)
{
    for (int rank = 0; rank < MBR_RANK_COUNT; rank++)
        mbr_lock_take(Of(rank));
    for (int rank = MBR_RANK_COUNT - 1; rank >= 0; rank--)
        mbr_lock_drop(Of(rank));
    mbr_lock_assert_none_held();
}

TEST_F(Lock, EveryRisingPair_IsTakenAndDroppedInEitherOrder)
{
    for (int low = 0; low < MBR_RANK_COUNT; low++) {
        for (int high = low + 1; high < MBR_RANK_COUNT; high++) {
            for (int first_dropped : {low, high}) {
                mbr_lock_take(Of(low));
                mbr_lock_take(Of(high));
                mbr_lock_drop(Of(first_dropped));
                mbr_lock_drop(Of(low + high - first_dropped));
                mbr_lock_assert_none_held();
            }
        }
    }
}

TEST_F(Lock, RanksHeld_BelongToTheThread)
{
    mbr_lock_take(Of(MBR_RANK_JOURNAL));
    std::thread other([this] {
        mbr_lock_assert_none_held();
        mbr_lock_take(Of(MBR_RANK_MANAGER));
        mbr_lock_drop(Of(MBR_RANK_MANAGER));
    });
    other.join();
    mbr_lock_drop(Of(MBR_RANK_JOURNAL));
}

TEST_F(Lock, ManyThreads_ExcludeEachOther)
{
    constexpr int kThreads = 4;
    constexpr int kRounds = 5000;
    int counter = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; i++) {
        threads.emplace_back([&] {
            for (int round = 0; round < kRounds; round++) {
                mbr_lock_take(Of(MBR_RANK_AUTHORITY));
                counter++;
                mbr_lock_drop(Of(MBR_RANK_AUTHORITY));
            }
        });
    }
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(counter, kThreads * kRounds);
}

TEST_F(LockDeathTest, RankNotAboveTheHeldOne_EndsTheProcess)
{
    for (int held = 0; held < MBR_RANK_COUNT; held++) {
        for (int wanted = 0; wanted < held; wanted++) {
            EXPECT_DEBUG_DEATH(
                {
                    mbr_lock_take(Of(held));
                    mbr_lock_take(Of(wanted));
                    mbr_lock_drop(Of(wanted));
                    mbr_lock_drop(Of(held));
                },
                "assertion failed: \\(held_ranks")
                << "rank " << wanted << " after " << held;
        }
    }
}

#ifndef NDEBUG // without the check, this is the deadlock that the check is for
TEST_F(LockDeathTest, SameRankTwice_EndsTheProcess)
{
    for (int rank = 0; rank < MBR_RANK_COUNT; rank++) {
        mbr_lock second;
        mbr_lock_init(&second, static_cast<mbr_lock_rank>(rank));
        EXPECT_DEATH(
            {
                mbr_lock_take(Of(rank));
                mbr_lock_take(&second);
            },
            "assertion failed: \\(held_ranks");
        EXPECT_DEATH(
            {
                mbr_lock_take(Of(rank));
                mbr_lock_take(Of(rank));
            },
            "assertion failed: \\(held_ranks");
        mbr_lock_finish(&second);
    }
}

TEST_F(LockDeathTest, DropOfALockThatIsNotHeld_EndsTheProcess)
{
    EXPECT_DEATH(mbr_lock_drop(Of(MBR_RANK_EP)), "assertion failed: \\(held_ranks &");
}
#endif

TEST_F(LockDeathTest, LowerRankAfterAnOutOfOrderDrop_EndsTheProcess)
{
    EXPECT_DEBUG_DEATH(
        {
            mbr_lock_take(Of(MBR_RANK_EP));
            mbr_lock_take(Of(MBR_RANK_SLAB));
            mbr_lock_drop(Of(MBR_RANK_EP));
            mbr_lock_take(Of(MBR_RANK_EP));
            mbr_lock_drop(Of(MBR_RANK_EP));
            mbr_lock_drop(Of(MBR_RANK_SLAB));
        },
        "assertion failed: \\(held_ranks");
}

TEST_F(LockDeathTest, LockHeldBeforeACallOut_EndsTheProcess)
{
    for (int rank = 0; rank < MBR_RANK_COUNT; rank++) {
        EXPECT_DEBUG_DEATH(
            {
                mbr_lock_take(Of(rank));
                mbr_lock_assert_none_held();
                mbr_lock_drop(Of(rank));
            },
            "assertion failed: held_ranks == 0")
            << "rank " << rank;
    }
}

class Condition : public Lock
{
  protected:
    Condition() { mbr_condition_init(&condition_); }

    ~Condition() override { mbr_condition_finish(&condition_); }

    // Waits until `flag`, or until the deadline; the answer is the flag.
    bool WaitFor(const bool &flag, uint64_t deadline_ns)
    {
        while (!flag && mbr_condition_wait(&condition_, Of(MBR_RANK_QUEUE), deadline_ns)) {
        }
        return flag;
    }

    mbr_condition condition_;
};

TEST_F(Condition, DeadlineOnTheMonotonicClock_FalseNotBeforeIt)
{
    mbr_lock_take(Of(MBR_RANK_QUEUE));
    uint64_t deadline = mbr_clock_now(&mbr_clock_monotonic) + 20 * kMillisecond;
    EXPECT_FALSE(WaitFor(false, deadline));
    EXPECT_GE(mbr_clock_now(&mbr_clock_monotonic), deadline);
    mbr_lock_drop(Of(MBR_RANK_QUEUE)); // the lock came back with the refusal
}

TEST_F(Condition, DeadlineInThePast_FalseAtOnceWithTheLockHeld)
{
    mbr_lock_take(Of(MBR_RANK_QUEUE));
    EXPECT_FALSE(mbr_condition_wait(&condition_, Of(MBR_RANK_QUEUE), 0));
    EXPECT_FALSE(mbr_condition_wait(&condition_, Of(MBR_RANK_QUEUE), 1));
    mbr_lock_drop(Of(MBR_RANK_QUEUE));
}

TEST_F(Condition, Signal_WakesEveryWaiter)
{
    for (uint64_t deadline : {kForever, kForever - 1}) {
        constexpr int kWaiters = 3;
        bool flag = false;
        int waiting = 0;
        int woken = 0;
        std::vector<std::thread> waiters;
        for (int i = 0; i < kWaiters; i++) {
            waiters.emplace_back([&] {
                mbr_lock_take(Of(MBR_RANK_QUEUE));
                waiting++;
                woken += WaitFor(flag, deadline);
                mbr_lock_drop(Of(MBR_RANK_QUEUE));
            });
        }
        // A waiter that counted itself has the lock until it waits: after this all three wait.
        for (bool all = false; !all;) {
            mbr_lock_take(Of(MBR_RANK_QUEUE));
            all = waiting == kWaiters;
            if (all) {
                flag = true;
                mbr_condition_signal_all(&condition_);
            }
            mbr_lock_drop(Of(MBR_RANK_QUEUE));
            std::this_thread::yield();
        }
        for (std::thread &waiter : waiters)
            waiter.join();
        EXPECT_EQ(woken, kWaiters);
    }
}

} // namespace
