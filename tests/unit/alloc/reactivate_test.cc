// Blocks whose free still waits in the queue, taken again by new allocations: who may have them,
// who pays, what their handles say. The queue itself is tests/unit/ep/reactivate_test.cc.
#include "tests/unit/alloc/world.h"

namespace alloc_test
{
namespace
{

// Queues blocks of the size until the thread has none left that is not queued.
mbr_alloc_result QueueAll(World *world, uint64_t bytes, mbr_holder *holder = nullptr)
{
    world->context.hold(kStream);
    Request request{bytes, 0, kStream};
    request.holder = holder;
    mbr_alloc_result block = world->Alloc(request);
    EXPECT_EQ(world->FreeAfter(block.allocation, {kStream}), MBR_OK);
    return block;
}

void Finish(World *world)
{
    world->context.finish(kStream);
    world->context.reap();
}

TEST(ArenaReactivate, OnTheSameStream_TheBlockIsAnotherAllocationAtOnce)
{
    for (uint64_t bytes : {16 * kMiB, 65 * kMiB}) {
        World world;
        mbr_alloc_result first = QueueAll(&world, bytes);
        uint64_t takes = world.backing->take_count;
        mbr_alloc_result second = world.Alloc(Request{bytes - 1000, 0, kStream});
        EXPECT_EQ(second.address, first.address);
        EXPECT_NE(second.allocation.value, first.allocation.value);
        EXPECT_EQ(second.content, uint32_t{MBR_CONTENT_STALE});
        EXPECT_EQ(world.backing->take_count, takes);
        EXPECT_EQ(world.context.queued_count(), 0u);
        EXPECT_EQ(world.State(first.allocation), uint32_t{MBR_ALLOCATION_RELEASED});
        EXPECT_EQ(world.Free(first.allocation), MBR_UNKNOWN_OBJECT) << "an old view is refused";
        mbr_allocation_figures figures = {};
        figures.struct_size = sizeof(figures);
        EXPECT_EQ(
            mbr_alloc_table_read(world.table, second.allocation, 0, &figures, nullptr), MBR_OK);
        EXPECT_EQ(figures.bytes, bytes - 1000);
        EXPECT_EQ(world.Charged(world.kv), second.charged_bytes);
        EXPECT_TRUE(world.Agree());
        EXPECT_EQ(world.Free(second.allocation), MBR_OK);
        Finish(&world);
        EXPECT_EQ(world.Charged(world.kv), 0u);
    }
}

// Who frees it proves that its own work is done; what the memory was taken from still runs.
TEST(ArenaReactivate, FreedNowBeforeTheOldWorkIsDone_GoesToNobody)
{
    for (uint64_t bytes : {16 * kMiB, 65 * kMiB}) {
        World world;
        QueueAll(&world, bytes);
        mbr_alloc_result again = world.Alloc(Request{bytes, 0, kStream});
        EXPECT_EQ(world.context.reactivated_count, 1u);
        EXPECT_EQ(world.State(again.allocation), uint32_t{MBR_ALLOCATION_GIVEN_AGAIN});
        EXPECT_TRUE(world.Agree());
        EXPECT_FALSE(mbr_alloc_try_free(world.table, again.allocation));
        EXPECT_EQ(world.Free(again.allocation), MBR_OK);
        EXPECT_EQ(world.Free(again.allocation), MBR_UNKNOWN_OBJECT);
        world.context.reap();
        EXPECT_EQ(world.State(again.allocation), uint32_t{MBR_ALLOCATION_QUEUED});
        mbr_alloc_result host = world.Alloc(Request{bytes});
        mbr_alloc_result other = world.Alloc(Request{bytes, 0, kOtherStream});
        EXPECT_NE(host.address, again.address);
        EXPECT_NE(other.address, again.address);
        EXPECT_EQ(world.context.stream_wait_count, 0u);
        mbr_alloc_result same = world.Alloc(Request{bytes, 0, kStream});
        EXPECT_EQ(same.address, again.address) << "new work of the stream comes after it";
        for (mbr_alloc_result block : {host, other, same})
            EXPECT_EQ(world.Free(block.allocation), MBR_OK);
        EXPECT_EQ(world.context.queued_count(), 1u);
        Finish(&world);
        EXPECT_EQ(world.State(same.allocation), uint32_t{MBR_ALLOCATION_RELEASED});
        EXPECT_TRUE(world.Agree());
    }
}

TEST(ArenaReactivate, FreedBehindAnotherStream_WaitsForItsOwnToo)
{
    World world;
    QueueAll(&world, 16 * kMiB);
    mbr_alloc_result again = world.Alloc(Request{16 * kMiB, 0, kStream});
    EXPECT_EQ(world.FreeAfter(again.allocation, {kOtherStream}), MBR_OK);
    world.context.reap();
    EXPECT_EQ(world.State(again.allocation), uint32_t{MBR_ALLOCATION_QUEUED});
    Finish(&world);
    EXPECT_EQ(world.State(again.allocation), uint32_t{MBR_ALLOCATION_RELEASED});
}

TEST(ArenaReactivate, FreeThatTheQueueRefuses_LeavesItGivenAgain)
{
    World world;
    QueueAll(&world, 16 * kMiB);
    mbr_alloc_result again = world.Alloc(Request{16 * kMiB, 0, kStream});
    world.context.queue_limit_count = 0;
    EXPECT_EQ(world.Free(again.allocation), MBR_QUEUE_FULL);
    EXPECT_EQ(world.FreeAfter(again.allocation, {kStream}), MBR_QUEUE_FULL);
    EXPECT_EQ(world.State(again.allocation), uint32_t{MBR_ALLOCATION_GIVEN_AGAIN});
    EXPECT_TRUE(world.Agree());
    world.context.queue_limit_count = UINT64_MAX;
    EXPECT_EQ(world.Free(again.allocation), MBR_OK);
    Finish(&world);
}

// Nobody can wait for a detached stream any more: what the caller says is all there is.
TEST(ArenaReactivate, OfADetachedStream_IsFreedByTheCallersWord)
{
    World world;
    for (bool now : {false, true}) {
        QueueAll(&world, 16 * kMiB);
        mbr_alloc_result again = world.Alloc(Request{16 * kMiB, 0, kStream});
        world.context.detach(kStream);
        EXPECT_EQ(world.FreeAfter(again.allocation, {}), MBR_STALE);
        EXPECT_EQ(world.State(again.allocation), uint32_t{MBR_ALLOCATION_GIVEN_AGAIN});
        EXPECT_EQ(
            now ? world.Free(again.allocation) : world.FreeAfter(again.allocation, {kOtherStream}),
            MBR_OK);
        world.context.reap();
        EXPECT_EQ(world.State(again.allocation), uint32_t{MBR_ALLOCATION_RELEASED});
        world.context.attach(kStream);
        mbr_arena_trim(world.arena, 0);
    }
    EXPECT_EQ(world.context.reactivated_count, 2u);
    EXPECT_TRUE(world.Agree());
}

TEST(ArenaReactivate, ForAnotherHolder_TheBillMovesWithIt)
{
    World world;
    QueueAll(&world, 16 * kMiB);
    Request request{16 * kMiB, 0, kStream};
    request.holder = world.weights;
    mbr_alloc_result block = world.Alloc(request);
    EXPECT_EQ(world.context.reactivated_count, 1u);
    EXPECT_EQ(world.Charged(world.kv), 0u);
    EXPECT_EQ(world.Charged(world.weights), block.charged_bytes);
    EXPECT_TRUE(world.Agree());
    EXPECT_EQ(world.Free(block.allocation), MBR_OK);
    Finish(&world);
}

// Its allowance could refuse it a block that already left the queue; what it pays for it may have.
TEST(ArenaReactivate, ForAHolderWithAnAllowance_OnlyWhatItPaysFor)
{
    World world;
    mbr_holder *exact = world.Holder("exact", 16 * kMiB);
    QueueAll(&world, 16 * kMiB);
    Request request{16 * kMiB, 0, kStream};
    request.holder = exact;
    mbr_alloc_result fresh = world.Alloc(request);
    EXPECT_EQ(world.context.reactivated_count, 0u);
    EXPECT_EQ(world.FreeAfter(fresh.allocation, {kStream}), MBR_OK);
    mbr_alloc_result again = world.Alloc(request);
    EXPECT_EQ(again.address, fresh.address) << "its allowance is full, and it is its own";
    EXPECT_EQ(world.Charged(exact), 16 * kMiB);
    EXPECT_TRUE(world.Agree());
    EXPECT_EQ(world.Free(again.allocation), MBR_OK);
    Finish(&world);
}

TEST(ArenaReactivate, WithoutTheStreamOrForZeros_TakesOtherMemory)
{
    World world;
    mbr_alloc_result queued = QueueAll(&world, 16 * kMiB);
    for (Request request : {Request{16 * kMiB}, Request{16 * kMiB, 0, kOtherStream},
             Request{16 * kMiB, 0, kStream, MBR_ALLOC_ZEROED}}) {
        mbr_alloc_result block = world.Alloc(request);
        EXPECT_NE(block.address, queued.address);
        EXPECT_EQ(world.Free(block.allocation), MBR_OK);
        mbr_arena_trim(world.arena, 0);
    }
    EXPECT_EQ(world.context.reactivated_count, 0u);
    Finish(&world);
}

// The budget has no room, and what is queued waits for another stream: the new work waits for it on
// the device, instead of a refusal and of nothing else.
TEST(ArenaReactivate, InsteadOfARefusal_BehindAnotherStream)
{
    World world(48 * kMiB);
    mbr_alloc_result queued = QueueAll(&world, 16 * kMiB);
    mbr_alloc_result other = world.Alloc(Request{16 * kMiB, 0, kOtherStream});
    mbr_alloc_result third = world.Alloc(Request{16 * kMiB, 0, kOtherStream});
    EXPECT_NE(other.address, queued.address);
    EXPECT_NE(third.address, queued.address);
    EXPECT_EQ(world.context.stream_wait_count, 0u) << "there is room beside it";
    mbr_alloc_result last = world.Alloc(Request{16 * kMiB, 0, kOtherStream});
    EXPECT_EQ(last.address, queued.address);
    EXPECT_EQ(world.context.stream_wait_count, 1u);
    mbr_alloc_result refused = {};
    EXPECT_EQ(world.TryAlloc(Request{16 * kMiB, 0, kOtherStream}, &refused), MBR_OVER_BUDGET);
    EXPECT_TRUE(world.Agree());
    for (mbr_alloc_result block : {other, third, last})
        EXPECT_EQ(world.Free(block.allocation), MBR_OK);
    Finish(&world);
}

// What the device is done with goes first: a reap is cheaper than a wait.
TEST(ArenaReactivate, CompletedReleases_AreReapedBeforeARefusalAndBeforeAWait)
{
    World world(32 * kMiB);
    world.context.hold(kStream);
    mbr_alloc_result held = world.Alloc(Request{16 * kMiB, 0, kStream});
    mbr_alloc_result done = world.Alloc(Request{16 * kMiB, 0, kOtherStream});
    EXPECT_EQ(world.FreeAfter(held.allocation, {}), MBR_OK);
    EXPECT_EQ(world.FreeAfter(done.allocation, {}), MBR_OK);
    mbr_alloc_result block = world.Alloc(Request{16 * kMiB}); // by the host
    EXPECT_EQ(block.address, done.address);
    EXPECT_EQ(world.context.reactivated_count, 0u);
    EXPECT_EQ(world.Free(block.allocation), MBR_OK);
    Finish(&world);
}

} // namespace
} // namespace alloc_test
