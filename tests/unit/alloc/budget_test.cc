// Budgets: limits to the byte, holders with an allowance, and what an arena gives back before it
// refuses.
#include "tests/unit/alloc/world.h"

#include <thread>
#include <vector>

namespace alloc_test
{
namespace
{

mbr_refusal NewRefusal()
{
    mbr_refusal refusal = {};
    refusal.struct_size = sizeof(refusal);
    return refusal;
}

// ---- The authority's limit
TEST(ArenaBudget, Limit_EveryBlockOfIt_IsGivenAndOneMoreIsRefused)
{
    for (uint64_t bytes : {4 * kKiB, 64 * kKiB, 2 * kMiB, 5 * kMiB, 64 * kMiB, 80 * kMiB}) {
        uint64_t count = 3;
        World world(count * bytes);
        for (uint64_t i = 0; i < count; i++)
            world.Keep(world.Alloc(bytes).allocation);
        mbr_alloc_result result = {};
        mbr_refusal refusal = NewRefusal();
        mbr_error error = NewError();
        Request request{bytes};
        request.refusal = &refusal;
        EXPECT_EQ(world.TryAlloc(request, &result, &error), MBR_OVER_BUDGET) << bytes;
        EXPECT_EQ(result.address, 0u);
        EXPECT_EQ(refusal.struct_size, sizeof(refusal));
        EXPECT_EQ(refusal.reason, uint32_t{MBR_REFUSED_LIMIT});
        EXPECT_EQ(refusal.limit_bytes, count * bytes);
        EXPECT_EQ(refusal.deferred_bytes, 0u);
        EXPECT_TRUE(world.Agree());
        world.FreeAll();
        world.Keep(world.Alloc(bytes).allocation);
        world.FreeAll();
    }
}

TEST(ArenaBudget, Limit_LessThanTheUsualSlab_IsUsedToTheLastBlock)
{
    World world(100 * kKiB); // a slab of 4 KiB blocks would like 2 MiB
    for (int i = 0; i < 25; i++)
        world.Keep(world.Alloc(4 * kKiB).allocation);
    mbr_alloc_result result = {};
    EXPECT_EQ(world.TryAlloc(Request{4 * kKiB}, &result), MBR_OVER_BUDGET);
    EXPECT_TRUE(world.Agree());
    world.FreeAll();
}

TEST(ArenaBudget, Limit_WhereTheClassWouldRoundPastIt_FitsTheRequest)
{
    World world(36 * kMiB); // the class of 33 MiB is 40 MiB
    mbr_alloc_result block = world.Alloc(33 * kMiB);
    EXPECT_EQ(block.charged_bytes, 33 * kMiB);
    EXPECT_TRUE(world.Agree());
    EXPECT_EQ(world.FreeAt(block.address), MBR_OK);
    world.Keep(world.Alloc(36 * kMiB).allocation);
    mbr_alloc_result result = {};
    EXPECT_EQ(world.TryAlloc(Request{1}, &result), MBR_OVER_BUDGET);
    world.FreeAll();
}

TEST(ArenaBudget, Limit_LessThanOneRequest_IsRefusedWithoutGivingAnythingUp)
{
    World world(32 * kMiB);
    world.backing->hoard(4 * kMiB);
    EXPECT_EQ(world.Free(world.Alloc(4 * kMiB).allocation), MBR_OK);
    mbr_alloc_result result = {};
    mbr_refusal refusal = NewRefusal();
    Request request{33 * kMiB};
    request.refusal = &refusal;
    EXPECT_EQ(world.TryAlloc(request, &result), MBR_OVER_BUDGET);
    EXPECT_EQ(refusal.reason, uint32_t{MBR_REFUSED_CAPACITY});
    EXPECT_EQ(world.backing->evict_count, 0u);
    EXPECT_GT(world.Figures().slab_bytes, 0u);
}

TEST(ArenaBudget, Refusal_AShorterStruct_IsFilledToItsEnd)
{
    World world(kMiB);
    struct {
        mbr_refusal refusal;
    } short_one = {};
    memset(&short_one, 0x5A, sizeof(short_one));
    short_one.refusal.struct_size = offsetof(mbr_refusal, limit_bytes);
    Request request{2 * kMiB};
    request.refusal = &short_one.refusal;
    mbr_alloc_result result = {};
    EXPECT_EQ(world.TryAlloc(request, &result), MBR_OVER_BUDGET);
    EXPECT_EQ(short_one.refusal.struct_size, offsetof(mbr_refusal, limit_bytes));
    EXPECT_EQ(short_one.refusal.reason, uint32_t{MBR_REFUSED_CAPACITY});
    EXPECT_EQ(short_one.refusal.limit_bytes, UINT64_C(0x5A5A5A5A5A5A5A5A));
}

TEST(ArenaBudget, Refusal_AfterWhichItIsGivenAllTheSame_IsNotReported)
{
    World world(kMiB);
    mbr_refusal refusal = NewRefusal();
    Request request{4096}; // the usual slab is refused, a smaller one is given
    request.refusal = &refusal;
    world.Keep(world.Alloc(request).allocation);
    EXPECT_EQ(refusal.reason, 0u);
    world.FreeAll();
}

// ---- What goes back before a refusal
TEST(ArenaBudget, Reclaim_CompletedReleases_AreReapedBeforeARefusal)
{
    World world(10 * kMiB);
    mbr_alloc_result first = world.Alloc(Request{10 * kMiB, 0, kStream}), result = {};
    world.context.hold(kStream);
    EXPECT_EQ(world.FreeAfter(first.allocation, {}), MBR_OK);
    mbr_refusal refusal = NewRefusal();
    Request request{10 * kMiB};
    request.refusal = &refusal;
    EXPECT_EQ(world.TryAlloc(request, &result), MBR_OVER_BUDGET);
    EXPECT_EQ(refusal.deferred_bytes, 10 * kMiB);
    world.context.finish(kStream);
    world.Keep(world.Alloc(10 * kMiB).allocation);
    EXPECT_EQ(world.backing->evict_count, 1u) << "by the refused one alone";
    world.FreeAll();
}

/* A caller that spins until a stream is done is refused again and again (P11): each time the queue
 * is looked at once, and the backing asked once. */
TEST(ArenaBudget, Refusal_WhereNothingCouldBeGivenBack_AsksEverybodyOnce)
{
    World world(160 * kMiB);
    mbr_alloc_result first = world.Alloc(Request{100 * kMiB, 0, kStream}), result = {};
    world.context.hold(kStream);
    EXPECT_EQ(world.FreeAfter(first.allocation, {}), MBR_OK);
    for (int i = 0; i < 3; i++) {
        uint64_t takes = world.backing->take_count, evicts = world.backing->evict_count;
        uint64_t reaps = world.context.reap_count;
        mbr_refusal refusal = NewRefusal();
        mbr_error error = NewError();
        Request request{100 * kMiB};
        request.refusal = &refusal;
        EXPECT_EQ(world.TryAlloc(request, &result, &error), MBR_OVER_BUDGET);
        EXPECT_EQ(takes + 1, world.backing->take_count);
        EXPECT_EQ(evicts + 1, world.backing->evict_count);
        EXPECT_EQ(reaps + 1, world.context.reap_count);
        EXPECT_EQ(refusal.deferred_bytes, 100 * kMiB);
        EXPECT_EQ(error.status, MBR_OVER_BUDGET);
    }
    world.context.finish(kStream);
    world.Keep(world.Alloc(100 * kMiB).allocation);
    world.FreeAll();
}

TEST(ArenaBudget, Refusal_AfterSomethingWasGivenBack_AsksOnceMore)
{
    World world(160 * kMiB);
    world.Keep(world.Alloc(100 * kMiB).allocation);
    world.backing->hoard(50 * kMiB);
    mbr_alloc_result result = {};
    uint64_t takes = world.backing->take_count;
    EXPECT_EQ(world.TryAlloc(Request{100 * kMiB}, &result), MBR_OVER_BUDGET);
    EXPECT_EQ(takes + 2, world.backing->take_count);
    world.FreeAll();
}

TEST(ArenaBudget, Reclaim_CompletedReleasesOfASpanOfItsOwn_MakeRoomForAnother)
{
    World world(70 * kMiB);
    mbr_alloc_result first = world.Alloc(Request{70 * kMiB, 0, kStream});
    EXPECT_EQ(world.FreeAfter(first.allocation, {}), MBR_OK);
    world.Keep(world.Alloc(69 * kMiB).allocation);
    world.FreeAll();
}

TEST(ArenaBudget, Reclaim_IdleSlabsOfOtherClasses_GoBackBeforeARefusal)
{
    World world(16 * kMiB);
    world.Keep(world.Alloc(16 * kMiB).allocation);
    world.FreeAll();
    EXPECT_EQ(world.Figures().slab_bytes, 16 * kMiB);
    world.Keep(world.Alloc(1000).allocation);
    EXPECT_TRUE(world.Agree());
    world.FreeAll();
}

TEST(ArenaBudget, Reclaim_BlocksThatOtherThreadsKeep_GoBackBeforeARefusal)
{
    World world(16 * kMiB);
    std::vector<mbr_allocation_handle> handles;
    for (int i = 0; i < 4; i++)
        handles.push_back(world.Alloc(4 * kMiB).allocation);
    for (mbr_allocation_handle handle : handles)
        EXPECT_EQ(world.Free(handle), MBR_OK);
    std::thread([&] {
        world.Keep(world.Alloc(16 * kMiB).allocation); // this thread's magazine held all of it
        world.FreeAll();
        for (int i = 0; i < 4; i++)
            world.Keep(world.Alloc(4 * kMiB).allocation);
        EXPECT_TRUE(world.Agree());
        world.FreeAll();
    }).join();
    world.Keep(world.Alloc(4 * kMiB).allocation);
    world.FreeAll();
}

TEST(ArenaBudget, Reclaim_WhatTheBackingCaches_IsEvictedBeforeARefusal)
{
    World world(16 * kMiB);
    world.backing->hoard(16 * kMiB);
    world.Keep(world.Alloc(4 * kMiB).allocation);
    EXPECT_EQ(world.backing->evict_count, 1u);
    EXPECT_EQ(world.backing->evictable_bytes, 12 * kMiB) << "no more than was missing";
    EXPECT_TRUE(world.Agree());
    world.FreeAll();
}

TEST(ArenaBudget, Reclaim_ADeviceThatIsOutOfMemory_IsTriedAgainAfterGivingBack)
{
    World world;
    world.Keep(world.Alloc(16 * kMiB).allocation);
    world.FreeAll();
    mbr_arena_trim(world.arena, UINT64_MAX);
    world.backing->fail_at = 1;
    world.backing->fail_count = 2; // the usual slab, and the least one
    uint64_t given = world.backing->give_count;
    world.Keep(world.Alloc(4096).allocation);
    EXPECT_EQ(world.backing->give_count, given + 1) << "the idle slab";
    EXPECT_EQ(world.backing->evict_count, 1u);
    world.FreeAll();
}

// ---- Allowances
TEST(ArenaBudget, Allowance_ToTheByte_IsGivenAndOneMoreIsRefused)
{
    World world;
    mbr_holder *holder = world.Holder("small", 10 * 4096);
    Request request{4096};
    request.holder = holder;
    for (int i = 0; i < 10; i++)
        world.Keep(world.Alloc(request).allocation);
    EXPECT_EQ(world.Books(holder).charged_bytes, 10u * 4096) << "at once, without a fold";
    EXPECT_EQ(world.Books(holder).mapped_bytes, 10u * 4096);
    mbr_alloc_result result = {};
    mbr_refusal refusal = NewRefusal();
    mbr_error error = NewError();
    request.refusal = &refusal;
    EXPECT_EQ(world.TryAlloc(request, &result, &error), MBR_OVER_BUDGET);
    EXPECT_EQ(refusal.reason, uint32_t{MBR_REFUSED_ALLOWANCE});
    EXPECT_EQ(error.asked_bytes, 4096u);
    request.bytes = 65 * kMiB;
    EXPECT_EQ(world.TryAlloc(request, &result, &error), MBR_OVER_BUDGET);
    EXPECT_EQ(world.backing->span_count(), 1u) << "the large span went back";
    EXPECT_EQ(world.Books(holder).charged_bytes, 10u * 4096);
    EXPECT_TRUE(world.Agree());
    world.FreeAll();
    EXPECT_EQ(world.Books(holder).charged_bytes, 0u) << "at once";
}

TEST(ArenaBudget, Allowance_UsedUpByReleasesThatWait_IsReapedBeforeARefusal)
{
    World world;
    mbr_holder *holder = world.Holder("small", 8192);
    Request request{8192, 0, kStream};
    request.holder = holder;
    mbr_alloc_result block = world.Alloc(request), result = {};
    world.context.hold(kStream);
    EXPECT_EQ(world.FreeAfter(block.allocation, {}), MBR_OK);
    EXPECT_EQ(world.Books(holder).charged_bytes, 8192u) << "until it is settled";
    EXPECT_EQ(world.TryAlloc(request, &result), MBR_OVER_BUDGET);
    world.context.finish(kStream);
    world.Keep(world.Alloc(request).allocation);
    EXPECT_TRUE(world.Agree());
    world.FreeAll();
}

TEST(ArenaBudget, Allowance_EightThreadsAtTheEdge_NeverPassIt)
{
    World world;
    constexpr uint64_t kBlocks = 64;
    mbr_holder *holder = world.Holder("small", kBlocks * 4096);
    std::atomic<uint64_t> live{0}, highest{0}, refused{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; t++)
        threads.emplace_back([&] {
            std::vector<mbr_allocation_handle> mine;
            for (int i = 0; i < 3000; i++) {
                Request request{4096};
                request.holder = holder;
                mbr_alloc_result result = {};
                mbr_status status = world.TryAlloc(request, &result);
                if (status == MBR_OK) {
                    uint64_t now = ++live, before = highest;
                    while (now > before && !highest.compare_exchange_weak(before, now))
                        ;
                    mine.push_back(result.allocation);
                } else {
                    refused++;
                    EXPECT_EQ(status, MBR_OVER_BUDGET);
                }
                if (mine.size() == 12 || status != MBR_OK)
                    while (!mine.empty()) {
                        live--;
                        EXPECT_EQ(world.Free(mine.back()), MBR_OK);
                        mine.pop_back();
                    }
            }
            for (mbr_allocation_handle handle : mine) {
                live--;
                EXPECT_EQ(world.Free(handle), MBR_OK);
            }
        });
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_LE(highest, kBlocks);
    EXPECT_EQ(world.Books(holder).charged_bytes, 0u);
    EXPECT_TRUE(world.Agree());
}

// ---- Idle
TEST(ArenaBudget, Trim_AnIdleEngine_OwnsLittleMoreThanItUses)
{
    World world(64 * kGiB, 4 * kMiB);
    std::vector<mbr_allocation_handle> handles;
    for (int i = 0; i < 4000; i++)
        handles.push_back(world.Alloc(16 * kKiB).allocation);
    for (size_t i = 0; i < handles.size(); i++)
        if (i >= 1000) {
            EXPECT_EQ(world.Free(handles[i]), MBR_OK);
        }
    mbr_arena_trim(world.arena, 0);
    EXPECT_LE(world.backing->span_bytes(), world.Figures().live_bytes * 11 / 10 + 4 * kMiB);
    for (size_t i = 0; i < 1000; i++)
        EXPECT_EQ(world.Free(handles[i]), MBR_OK);
}

} // namespace
} // namespace alloc_test
