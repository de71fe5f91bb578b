// What lives when its arena is abandoned: quarantined, charged and counted, nobody's memory until
// it is freed after all, or until the end of its context is confirmed.
#include "tests/unit/alloc/world.h"

#include <thread>

namespace alloc_test
{
namespace
{

constexpr uint32_t kQuarantined = MBR_ALLOCATION_QUARANTINED, kQueued = MBR_ALLOCATION_QUEUED,
                   kReleased = MBR_ALLOCATION_RELEASED;

uint64_t Marked(World *world, mbr_holder *holder)
{
    return world->Books(holder).quarantined_bytes;
}

// Nobody gets memory of these any more.
void ExpectWithheld(World *world, const std::vector<mbr_alloc_result> &withheld, uint64_t bytes)
{
    for (int i = 0; i < 40; i++) {
        mbr_alloc_result other = world->Alloc(bytes);
        for (const mbr_alloc_result &one : withheld)
            EXPECT_NE(one.address, other.address);
        world->Keep(other.allocation);
    }
    world->FreeAll();
}

TEST(ArenaAbandon, EveryKindThatLives_IsQuarantinedChargedAndCounted)
{
    World world;
    mbr_holder *exact = world.Holder("exact", kGiB);
    world.context.hold(kStream);
    mbr_alloc_result queued = world.Alloc(Request{16 * kMiB, 0, kStream});
    EXPECT_EQ(world.FreeAfter(queued.allocation, {kStream}), MBR_OK);
    mbr_alloc_result again = world.Alloc(Request{16 * kMiB, 0, kStream});
    ASSERT_EQ(world.State(again.allocation), uint32_t{MBR_ALLOCATION_GIVEN_AGAIN});
    Request paid{4 * kKiB};
    paid.holder = exact;
    mbr_alloc_result small = world.Alloc(paid), large = world.Alloc(65 * kMiB);
    world.context.begin_capture(1);
    mbr_alloc_result captured = world.Alloc(4 * kKiB);
    world.context.end_capture();
    mbr_alloc_result waits = world.Alloc(Request{8 * kMiB, 0, kStream});
    EXPECT_EQ(world.FreeAfter(waits.allocation, {kStream}), MBR_OK);
    mbr_alloc_result gone = world.Alloc(4 * kKiB);
    EXPECT_EQ(world.Free(gone.allocation), MBR_OK);
    uint64_t charged = world.Charged(world.kv);
    std::vector<mbr_alloc_result> live = {again, small, large, captured};

    EXPECT_EQ(mbr_arena_abandon(world.arena), live.size());
    for (const mbr_alloc_result &one : live)
        EXPECT_EQ(world.State(one.allocation), kQuarantined);
    EXPECT_EQ(world.State(waits.allocation), kQueued) << "its release goes on";
    EXPECT_EQ(world.State(gone.allocation), kReleased);
    EXPECT_EQ(world.Charged(world.kv), charged);
    EXPECT_EQ(Marked(&world, exact), small.charged_bytes);
    EXPECT_EQ(Marked(&world, world.kv),
        again.charged_bytes + large.charged_bytes + captured.charged_bytes);
    EXPECT_EQ(world.Figures().quarantined_count, live.size());
    EXPECT_EQ(world.Figures().live_count, 0u);
    EXPECT_EQ(world.Figures().queued_count, 1u);
    EXPECT_TRUE(world.Agree());
    EXPECT_EQ(mbr_arena_abandon(world.arena), 0u) << "once is enough";
    mbr_error error = NewError();
    EXPECT_EQ(mbr_arena_destroy(world.arena, &error), MBR_IN_USE);
    EXPECT_NE(std::string(error.text).find("0 allocations live, 1 are queued, 4 are lost"),
        std::string::npos)
        << error.text;
    ExpectWithheld(&world, live, 4 * kKiB);
    ExpectWithheld(&world, live, 16 * kMiB);

    world.context.finish(kStream);
    world.context.retire(1);
    for (const mbr_alloc_result &one : live)
        EXPECT_EQ(world.Free(one.allocation), MBR_OK);
    world.context.reap();
    for (const mbr_alloc_result &one : live)
        EXPECT_EQ(world.State(one.allocation), kReleased);
    EXPECT_EQ(Marked(&world, world.kv) + Marked(&world, exact), 0u);
    EXPECT_EQ(world.Charged(world.kv) + world.Charged(exact), 0u);
    EXPECT_TRUE(world.Agree());
}

TEST(ArenaAbandon, FreedAfterAll_WaitsForItsOwnStreamToo)
{
    World world;
    world.context.hold(kStream);
    mbr_alloc_result now = world.Alloc(Request{16 * kMiB, 0, kStream});
    mbr_alloc_result named = world.Alloc(Request{16 * kMiB, 0, kStream});
    mbr_alloc_result own = world.Alloc(Request{16 * kMiB, 0, kStream});
    mbr_alloc_result host = world.Alloc(16 * kMiB);
    EXPECT_EQ(mbr_arena_abandon(world.arena), 4u);
    EXPECT_EQ(world.Free(now.allocation), MBR_OK);
    EXPECT_EQ(world.FreeAfter(named.allocation, {kOtherStream}), MBR_OK);
    EXPECT_EQ(world.FreeAfter(own.allocation, {}), MBR_OK);
    EXPECT_EQ(world.FreeAfter(host.allocation, {}), MBR_OK);
    world.context.reap();
    for (const mbr_alloc_result &one : {now, named, own}) {
        EXPECT_EQ(world.State(one.allocation), kQueued);
        EXPECT_EQ(world.Free(one.allocation), MBR_UNKNOWN_OBJECT) << "twice";
    }
    EXPECT_EQ(world.State(host.allocation), kReleased);
    EXPECT_EQ(world.Free(host.allocation), MBR_UNKNOWN_OBJECT);
    EXPECT_EQ(Marked(&world, world.kv), 0u);
    EXPECT_TRUE(world.Agree());
    world.context.finish(kStream);
    world.context.reap();
    EXPECT_EQ(world.Charged(world.kv), 0u);
}

TEST(ArenaAbandon, FreedBehindADetachedStream_OnTheCallersWordAlone)
{
    World world;
    mbr_alloc_result first = world.Alloc(Request{4 * kKiB, 0, kStream});
    mbr_alloc_result second = world.Alloc(Request{4 * kKiB, 0, kStream});
    EXPECT_EQ(mbr_arena_abandon(world.arena), 2u);
    world.context.detach(kStream);
    EXPECT_EQ(world.FreeAfter(first.allocation, {}), MBR_STALE);
    EXPECT_EQ(world.State(first.allocation), kQuarantined);
    EXPECT_EQ(Marked(&world, world.kv), 2 * first.charged_bytes);
    EXPECT_TRUE(world.Agree());
    world.context.hold(kOtherStream);
    EXPECT_EQ(world.FreeAfter(first.allocation, {kOtherStream}), MBR_OK);
    EXPECT_EQ(world.FreeAt(second.address), MBR_OK);
    EXPECT_EQ(world.State(first.allocation), kQueued);
    EXPECT_EQ(world.State(second.allocation), kReleased);
    world.context.finish(kOtherStream);
    world.context.reap();
    EXPECT_EQ(world.Charged(world.kv), 0u);
}

TEST(ArenaAbandon, FreeThatTheQueueRefuses_LeavesItQuarantined)
{
    World world;
    mbr_alloc_result made = world.Alloc(Request{4 * kKiB, 0, kStream});
    EXPECT_EQ(mbr_arena_abandon(world.arena), 1u);
    world.context.queue_limit_count = 0;
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(world.FreeAfter(made.allocation, {kOtherStream}), MBR_QUEUE_FULL);
        EXPECT_EQ(world.State(made.allocation), kQuarantined);
        EXPECT_EQ(Marked(&world, world.kv), made.charged_bytes);
        EXPECT_EQ(world.Figures().quarantined_count, 1u);
        EXPECT_TRUE(world.Agree());
    }
    world.context.queue_limit_count = UINT64_MAX;
    EXPECT_EQ(world.Free(made.allocation), MBR_OK);
    world.context.reap();
    EXPECT_EQ(world.State(made.allocation), kReleased);
    EXPECT_EQ(Marked(&world, world.kv), 0u);
}

// A graph may go on touching it, whoever abandoned it.
TEST(ArenaAbandon, OfACapture_WaitsForTheGraphAsWell)
{
    for (bool retired_first : {false, true}) {
        World world;
        world.context.begin_capture(1);
        mbr_alloc_result made = world.Alloc(4 * kKiB);
        EXPECT_EQ(mbr_arena_abandon(world.arena), 1u);
        world.context.end_capture();
        if (retired_first)
            world.context.retire(1);
        EXPECT_EQ(world.Free(made.allocation), MBR_OK);
        world.context.reap();
        EXPECT_EQ(world.State(made.allocation), retired_first ? kReleased : kQueued);
        if (!retired_first)
            world.context.retire(1);
        world.context.reap();
        EXPECT_EQ(world.State(made.allocation), kReleased);
        EXPECT_TRUE(world.Agree());
    }
}

TEST(ArenaAbandon, ConfirmedEnd_ReleasesEachOnce)
{
    for (bool confirmed_first : {false, true}) {
        World world;
        mbr_alloc_result small = world.Alloc(4 * kKiB), large = world.Alloc(65 * kMiB);
        mbr_alloc_result lost = world.Alloc(Request{4 * kKiB, 0, kStream});
        world.context.lose();
        EXPECT_EQ(world.FreeAfter(lost.allocation, {}), MBR_OK);
        EXPECT_EQ(world.State(lost.allocation), uint32_t{MBR_ALLOCATION_DEVICE_LOST});
        EXPECT_EQ(Marked(&world, world.kv), lost.charged_bytes);
        world.context.ended = confirmed_first;
        if (confirmed_first) {
            EXPECT_EQ(mbr_arena_confirm_lost(world.arena), lost.charged_bytes);
        }
        EXPECT_EQ(mbr_arena_abandon(world.arena), 2u);
        if (!confirmed_first) {
            EXPECT_EQ(world.State(small.allocation), kQuarantined);
            EXPECT_TRUE(world.Agree());
            EXPECT_EQ(mbr_arena_confirm_lost(world.arena),
                small.charged_bytes + large.charged_bytes + lost.charged_bytes);
        }
        EXPECT_EQ(mbr_arena_confirm_lost(world.arena), 0u);
        for (const mbr_alloc_result &one : {small, large, lost})
            EXPECT_EQ(world.Free(one.allocation), MBR_UNKNOWN_OBJECT);
        EXPECT_EQ(world.Charged(world.kv) + Marked(&world, world.kv), 0u);
        EXPECT_TRUE(world.Agree());
    }
}

TEST(ArenaAbandon, BesideFreesOfOtherThreads_EachIsReleasedOnce)
{
    constexpr int kThreads = 4, kEach = 500;
    World world;
    std::vector<mbr_alloc_result> made;
    for (int i = 0; i < kThreads * kEach; i++)
        made.push_back(
            world.Alloc(Request{i % 2 == 0 ? 4 * kKiB : 200 * kKiB, 0, i % 3 == 0 ? kStream : 0}));
    std::vector<std::thread> threads;
    for (int thread = 0; thread < kThreads; thread++)
        threads.emplace_back([&, thread] {
            for (int i = 0; i < kEach; i++)
                EXPECT_EQ(world.Free(made[thread * kEach + i].allocation), MBR_OK);
        });
    threads.emplace_back([&] { mbr_arena_abandon(world.arena); });
    for (std::thread &thread : threads)
        thread.join();
    world.context.reap();
    EXPECT_EQ(world.Charged(world.kv) + Marked(&world, world.kv), 0u);
    EXPECT_EQ(world.Figures().quarantined_count, 0u);
    for (const mbr_alloc_result &one : made)
        EXPECT_EQ(world.Free(one.allocation), MBR_UNKNOWN_OBJECT);
    EXPECT_TRUE(world.Agree());
}

} // namespace
} // namespace alloc_test
