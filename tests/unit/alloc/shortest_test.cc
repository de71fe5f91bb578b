// The shortest way of allocate and free: what it does, and that it does nothing where it says no.
#include "tests/unit/alloc/door.h"
#include "tests/unit/alloc/world.h"

#include <cstring>
#include <thread>

namespace alloc_test
{
namespace
{

class Shortest : public ::testing::Test
{
  protected:
    // The thread has a cache, which knows the holder and has blocks of the class.
    void Warm(mbr_holder *holder, uint64_t bytes)
    {
        mbr_arena_request request = {holder, 0, bytes, 0, 0, 0, nullptr};
        mbr_alloc_result result = {};
        result.struct_size = sizeof(result);
        ASSERT_EQ(mbr_arena_alloc(world.arena, &request, &result, nullptr), MBR_OK);
        ASSERT_EQ(
            mbr_alloc_free(world.table, result.allocation, 0, true, nullptr, 0, nullptr), MBR_OK);
    }

    bool Try(mbr_holder *holder, uint64_t bytes)
    {
        result.struct_size = sizeof(result);
        return mbr_arena_try_alloc(world.arena, holder, mbr_holder_id(holder), bytes, &result);
    }

    // False, and not a byte of the result was written.
    ::testing::AssertionResult IsRefused(mbr_holder *holder, uint64_t bytes)
    {
        std::memset(&result, 0x5A, sizeof(result));
        mbr_alloc_result before = result;
        if (mbr_arena_try_alloc(world.arena, holder, mbr_holder_id(holder), bytes, &result))
            return ::testing::AssertionFailure() << "it was given";
        if (std::memcmp(&before, &result, sizeof(result)) != 0)
            return ::testing::AssertionFailure() << "the result was written";
        return ::testing::AssertionSuccess();
    }

    World world;
    mbr_alloc_result result = {};
};

TEST_F(Shortest, Alloc_WithABlockInTheThread_IsTheSameAsTheLongWay)
{
    Warm(world.kv, 4 * kKiB);
    ASSERT_TRUE(Try(world.kv, 4000));
    EXPECT_EQ(result.struct_size, sizeof(result));
    EXPECT_NE(result.address, 0u);
    EXPECT_EQ(result.usable_bytes, 4 * kKiB);
    EXPECT_EQ(result.charged_bytes, 4 * kKiB);
    EXPECT_EQ(result.content, uint32_t{MBR_CONTENT_STALE});
    EXPECT_EQ(world.Charged(world.kv), 4 * kKiB);
    mbr_allocation_figures figures = {};
    figures.struct_size = sizeof(figures);
    EXPECT_EQ(mbr_alloc_table_read(world.table, result.allocation, 0, &figures, nullptr), MBR_OK);
    EXPECT_EQ(figures.bytes, 4000u);
    EXPECT_EQ(figures.tag, 0u);
    EXPECT_TRUE(world.Agree());
    EXPECT_TRUE(mbr_alloc_try_free(world.table, result.allocation));
    EXPECT_EQ(world.Charged(world.kv), 0u);
    EXPECT_TRUE(world.Agree());
}

TEST_F(Shortest, Alloc_OnBehalfOfTheCache_MovesNothing)
{
    Warm(world.backing->cache, 512);
    ASSERT_TRUE(Try(world.backing->cache, 512));
    EXPECT_TRUE(world.Agree());
    EXPECT_TRUE(mbr_alloc_try_free(world.table, result.allocation));
    EXPECT_TRUE(world.Agree());
}

TEST_F(Shortest, Alloc_WithoutACacheOfTheThread_IsRefused)
{
    EXPECT_TRUE(IsRefused(world.kv, 512));
    Warm(world.kv, 512);
    std::thread([&] { EXPECT_TRUE(IsRefused(world.kv, 512)); }).join();
    EXPECT_TRUE(Try(world.kv, 512));
    EXPECT_TRUE(mbr_alloc_try_free(world.table, result.allocation));
}

TEST_F(Shortest, Alloc_ForAHolderThatTheThreadDoesNotKnow_IsRefused)
{
    Warm(world.kv, 512);
    EXPECT_TRUE(IsRefused(world.weights, 512));
}

TEST_F(Shortest, Alloc_ForAHolderAtAnotherOnesAddress_IsRefused)
{
    Warm(world.kv, 512);
    std::memset(&result, 0, sizeof(result));
    EXPECT_FALSE(mbr_arena_try_alloc(
        world.arena, world.kv, mbr_holder_id(world.kv) + 16, 512, &result)); // the same memo
}

TEST_F(Shortest, Alloc_ForAHolderWithAnAllowance_IsRefused)
{
    mbr_holder *bounded = world.Holder("bounded", kMiB);
    Warm(bounded, 512);
    EXPECT_TRUE(IsRefused(bounded, 512));
}

TEST_F(Shortest, Alloc_OfAnEmptyMagazine_IsRefused)
{
    Warm(world.kv, 512);
    EXPECT_TRUE(IsRefused(world.kv, 8 * kKiB));
}

TEST_F(Shortest, Alloc_AboveTheLargestClass_IsRefused)
{
    Warm(world.kv, 512);
    EXPECT_TRUE(IsRefused(world.kv, MBR_CLASS_MAX_BYTES + 1));
}

TEST_F(Shortest, Alloc_InAContextThatIsNotActive_IsRefused)
{
    Warm(world.kv, 512);
    for (uint32_t state : {MBR_CONTEXT_RETIRING, MBR_CONTEXT_TERMINATED, MBR_CONTEXT_LOST}) {
        world.context.move_to(state);
        EXPECT_TRUE(IsRefused(world.kv, 512)) << state;
    }
    world.context.move_to(MBR_CONTEXT_ACTIVE);
    EXPECT_TRUE(Try(world.kv, 512));
    EXPECT_TRUE(mbr_alloc_try_free(world.table, result.allocation));
}

TEST_F(Shortest, Free_OfWhatIsNotLive_IsRefusedAndChangesNothing)
{
    mbr_alloc_result block = world.Alloc(Request{4 * kKiB, 0, kStream});
    world.context.hold(kStream);
    EXPECT_FALSE(mbr_alloc_try_free(world.table, {0}));
    EXPECT_FALSE(mbr_alloc_try_free(world.table, {block.allocation.value + 1}));       // no such
    EXPECT_FALSE(mbr_alloc_try_free(world.table, {block.allocation.value | 1 << 25})); // no chunk
    EXPECT_FALSE(
        mbr_alloc_try_free(world.table, {block.allocation.value + (UINT64_C(1) << 26)})); // later
    ASSERT_EQ(world.FreeAfter(block.allocation, {kStream}), MBR_OK);
    EXPECT_FALSE(mbr_alloc_try_free(world.table, block.allocation)); // queued
    EXPECT_EQ(world.Charged(world.kv), 4 * kKiB);
    world.context.finish(kStream);
    world.context.reap();
    EXPECT_FALSE(mbr_alloc_try_free(world.table, block.allocation)); // released
    EXPECT_EQ(world.Charged(world.kv), 0u);
    EXPECT_TRUE(world.Agree());
}

TEST_F(Shortest, Free_WhereTheThreadHasNoTallyOrNoRoom_StillSucceeds)
{
    // By a thread without a cache; of a holder with an allowance; of a span of its own; of the
    // magazine's last place and beyond.
    mbr_holder *bounded = world.Holder("bounded", 256 * kMiB);
    Request by_bounded{512};
    by_bounded.holder = bounded;
    mbr_alloc_result of_bounded = world.Alloc(by_bounded);
    mbr_alloc_result of_thread = world.Alloc(512), own = world.Alloc(MBR_CLASS_MAX_BYTES + kMiB);
    std::vector<mbr_allocation_handle> many;
    for (int i = 0; i < 200; i++)
        many.push_back(world.Alloc(2 * kKiB).allocation);
    std::thread([&] { EXPECT_TRUE(mbr_alloc_try_free(world.table, of_thread.allocation)); }).join();
    EXPECT_TRUE(mbr_alloc_try_free(world.table, of_bounded.allocation));
    EXPECT_TRUE(mbr_alloc_try_free(world.table, own.allocation));
    for (mbr_allocation_handle handle : many)
        EXPECT_TRUE(mbr_alloc_try_free(world.table, handle));
    EXPECT_EQ(world.Charged(world.kv), 0u);
    EXPECT_EQ(world.Charged(bounded), 0u);
    EXPECT_EQ(world.Figures().live_count, 0u);
    EXPECT_TRUE(world.Agree());
}

TEST_F(Shortest, Free_ByRacingThreads_SucceedsOnce)
{
    for (int round = 0; round < 2000; round++) {
        mbr_alloc_result block = world.Alloc(512);
        std::atomic<int> won{0};
        std::atomic<int> ready{0};
        auto race = [&] {
            for (ready++; ready != 2;)
                std::this_thread::yield();
            won += mbr_alloc_try_free(world.table, block.allocation);
        };
        std::thread other(race);
        race();
        other.join();
        ASSERT_EQ(won, 1);
    }
    EXPECT_EQ(world.Charged(world.kv), 0u);
    EXPECT_TRUE(world.Agree());
}

} // namespace
} // namespace alloc_test
