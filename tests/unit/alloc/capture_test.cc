// Allocations that are made while a graph is being captured: they are the graph's, and nobody else
// gets their memory before it is retired, however they are freed.
#include "tests/unit/alloc/world.h"

#include <thread>

namespace alloc_test
{
namespace
{

TEST(ArenaCapture, MadeInIt_IsHeldUntilTheGraphIsRetired)
{
    World world;
    mbr_alloc_result before = world.Alloc(4 * kKiB);
    world.context.begin_capture(1);
    mbr_alloc_result made = world.Alloc(4 * kKiB);
    mbr_alloc_result large = world.Alloc(65 * kMiB);
    EXPECT_EQ(uint32_t{MBR_ALLOCATION_CAPTURED}, world.State(made.allocation));
    EXPECT_EQ(uint32_t{MBR_ALLOCATION_LIVE}, world.State(before.allocation));
    EXPECT_TRUE(world.Agree());
    EXPECT_EQ(MBR_OK, world.Free(made.allocation)); // now, in the capture
    EXPECT_EQ(MBR_UNKNOWN_OBJECT, world.Free(made.allocation));
    world.context.end_capture();
    EXPECT_EQ(MBR_OK, world.FreeAfter(large.allocation, {kStream})); // behind a stream, after it
    world.context.reap();
    EXPECT_EQ(uint32_t{MBR_ALLOCATION_QUEUED}, world.State(made.allocation));
    EXPECT_EQ(uint32_t{MBR_ALLOCATION_QUEUED}, world.State(large.allocation));
    EXPECT_EQ(2u, world.Figures().queued_count);
    uint64_t gives = world.backing->give_count;
    for (int i = 0; i < 100; i++) {
        mbr_alloc_result other = world.Alloc(4 * kKiB);
        EXPECT_NE(made.address, other.address);
        world.Keep(other.allocation);
    }
    EXPECT_EQ(gives, world.backing->give_count);
    EXPECT_TRUE(world.Agree());
    world.context.retire(1);
    world.context.reap();
    EXPECT_EQ(uint32_t{MBR_ALLOCATION_RELEASED}, world.State(made.allocation));
    EXPECT_EQ(uint32_t{MBR_ALLOCATION_RELEASED}, world.State(large.allocation));
    EXPECT_EQ(MBR_OK, world.Free(before.allocation));
    world.FreeAll();
    EXPECT_EQ(0u, world.Charged(world.kv));
    EXPECT_TRUE(world.Agree());
}

TEST(ArenaCapture, ShortestWays_AreNotTaken)
{
    World world;
    world.Free(world.Alloc(256).allocation); // the thread has a block
    world.context.begin_capture(1);
    mbr_alloc_result result = {};
    result.struct_size = sizeof(result);
    EXPECT_FALSE(mbr_arena_try_alloc(world.arena, world.kv, mbr_holder_id(world.kv), 256, &result));
    mbr_alloc_result made = world.Alloc(256);
    EXPECT_FALSE(mbr_alloc_try_free(world.table, made.allocation));
    world.context.end_capture();
    EXPECT_TRUE(mbr_arena_try_alloc(world.arena, world.kv, mbr_holder_id(world.kv), 256, &result));
    EXPECT_TRUE(mbr_alloc_try_free(world.table, result.allocation));
    EXPECT_FALSE(mbr_alloc_try_free(world.table, made.allocation)); // it stays the graph's
    world.context.retire(1);
    EXPECT_EQ(MBR_OK, world.Free(made.allocation));
}

TEST(ArenaCapture, FreedAfterTheRetirement_IsReleasedAtOnce)
{
    World world;
    world.context.begin_capture(1);
    mbr_alloc_result made = world.Alloc(4 * kKiB);
    world.context.end_capture();
    world.context.retire(1);
    EXPECT_EQ(MBR_OK, world.Free(made.allocation));
    EXPECT_EQ(uint32_t{MBR_ALLOCATION_RELEASED}, world.State(made.allocation));
    EXPECT_EQ(0u, world.context.queued_count());
    world.Keep(world.Alloc(4 * kKiB).allocation);
    EXPECT_TRUE(world.Agree());
    world.FreeAll();
}

TEST(ArenaCapture, FreeThatTheQueueRefuses_LeavesItCaptured)
{
    World world;
    world.context.begin_capture(1);
    mbr_alloc_result made = world.Alloc(4 * kKiB);
    world.context.end_capture();
    world.context.queue_limit_count = 0;
    EXPECT_EQ(MBR_QUEUE_FULL, world.Free(made.allocation)); // also one that says now
    EXPECT_EQ(uint32_t{MBR_ALLOCATION_CAPTURED}, world.State(made.allocation));
    EXPECT_TRUE(world.Agree());
    world.context.queue_limit_count = UINT64_MAX;
    EXPECT_EQ(MBR_OK, world.Free(made.allocation));
    world.context.reap();
    EXPECT_EQ(uint32_t{MBR_ALLOCATION_QUEUED}, world.State(made.allocation)); // still the graph's
    world.context.retire(1);
    world.context.reap();
}

TEST(ArenaCapture, FreedByRacingThreads_EndsOnce)
{
    World world;
    world.context.begin_capture(1);
    mbr_alloc_result made = world.Alloc(4 * kKiB);
    world.context.end_capture();
    std::atomic<int> ended{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++)
        threads.emplace_back([&] {
            ended += mbr_alloc_free(world.table, made.allocation, 0, true, nullptr, 0, nullptr) ==
                MBR_OK;
        });
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(1, ended);
    world.context.retire(1);
    world.context.reap();
    EXPECT_TRUE(world.Agree());
}

TEST(ArenaCapture, OfALostContext_IsLostAndThenRefunded)
{
    World world;
    world.context.begin_capture(1);
    mbr_alloc_result made = world.Alloc(4 * kKiB);
    world.context.end_capture();
    world.context.lose();
    EXPECT_EQ(MBR_OK, world.Free(made.allocation));
    EXPECT_EQ(uint32_t{MBR_ALLOCATION_DEVICE_LOST}, world.State(made.allocation));
    world.context.ended = true;
    mbr_arena_confirm_lost(world.arena);
    EXPECT_EQ(uint32_t{MBR_ALLOCATION_RELEASED}, world.State(made.allocation));
    EXPECT_EQ(0u, world.Charged(world.kv));
}

} // namespace
} // namespace alloc_test
