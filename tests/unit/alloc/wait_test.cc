// Frees that wait: for the streams that are given or the allocation's own, through full queues and
// lost devices. The states themselves are walked exhaustively in state_test.cc.
#include "tests/unit/alloc/world.h"

#include <cstring>
#include <thread>
#include <vector>

namespace alloc_test
{
namespace
{

TEST(ArenaWait, Free_AfterAStream_KeepsTheBlockAndItsChargeUntilItIsDone)
{
    World world;
    mbr_alloc_result block = world.Alloc(Request{4096, 0, kStream});
    world.context.hold(kStream);
    EXPECT_EQ(world.FreeAfter(block.allocation, {kStream}), MBR_OK);
    EXPECT_EQ(world.State(block.allocation), uint32_t{MBR_ALLOCATION_QUEUED});
    EXPECT_EQ(world.context.queued_bytes(), 4096u);
    EXPECT_EQ(world.Figures().queued_count, 1u);
    EXPECT_EQ(world.Figures().queued_bytes, 4096u);
    EXPECT_EQ(world.Figures().live_count, 0u);
    EXPECT_EQ(world.Charged(world.kv), 4096u);
    EXPECT_TRUE(world.Agree());
    EXPECT_EQ(world.Free(block.allocation), MBR_UNKNOWN_OBJECT) << "also at once";
    EXPECT_EQ(world.FreeAfter(block.allocation, {kStream}), MBR_UNKNOWN_OBJECT);
    for (int i = 0; i < 600; i++) {
        mbr_alloc_result other = world.Alloc(4096);
        EXPECT_NE(other.address, block.address) << "I10";
        world.Keep(other.allocation);
    }
    world.FreeAll();
    world.context.finish(kStream);
    world.context.reap();
    EXPECT_EQ(world.Figures().queued_count, 0u);
    EXPECT_EQ(world.Charged(world.kv), 0u);
    EXPECT_EQ(world.State(block.allocation), uint32_t{MBR_ALLOCATION_RELEASED});
    EXPECT_TRUE(world.Agree());
}

TEST(ArenaWait, Free_AfterSeveralStreams_WaitsForEach)
{
    World world;
    mbr_alloc_result block = world.Alloc(4096);
    world.context.hold(kStream);
    world.context.hold(kOtherStream);
    EXPECT_EQ(world.FreeAfter(block.allocation, {kStream, kOtherStream}), MBR_OK);
    world.context.finish(kStream);
    world.context.reap();
    EXPECT_EQ(world.State(block.allocation), uint32_t{MBR_ALLOCATION_QUEUED});
    world.context.finish(kOtherStream);
    world.context.reap();
    EXPECT_EQ(world.State(block.allocation), uint32_t{MBR_ALLOCATION_RELEASED});
}

TEST(ArenaWait, Free_WithoutStreams_WaitsForItsOwnOrForNone)
{
    World world;
    mbr_alloc_result of_stream = world.Alloc(Request{4096, 0, kStream});
    mbr_alloc_result of_host = world.Alloc(Request{4096, 0, 0, 0, 99});
    world.context.hold(kStream);
    EXPECT_EQ(world.FreeAfter(of_stream.allocation, {}), MBR_OK);
    EXPECT_EQ(world.FreeAfter(of_host.allocation, {}), MBR_OK);
    EXPECT_EQ(world.State(of_stream.allocation), uint32_t{MBR_ALLOCATION_QUEUED});
    EXPECT_EQ(world.State(of_host.allocation), uint32_t{MBR_ALLOCATION_RELEASED});
    EXPECT_EQ(world.context.queued_count(), 1u);
    world.context.finish(kStream);
    world.context.reap();
}

TEST(ArenaWait, Free_ByAddress_WaitsLikeByHandle)
{
    World world;
    mbr_alloc_result block = world.Alloc(Request{65 * kMiB, 0, kStream});
    world.context.hold(kStream);
    EXPECT_EQ(mbr_alloc_free(world.table, {0}, block.address, false, nullptr, 0, nullptr), MBR_OK);
    EXPECT_EQ(world.Figures().queued_bytes, block.charged_bytes);
    EXPECT_EQ(world.backing->span_count(), 1u);
    world.context.finish(kStream);
    world.context.reap();
    EXPECT_EQ(world.backing->span_count(), 0u);
}

TEST(ArenaWait, Free_RefusedByTheQueue_LeavesItLiveAndUnchanged)
{
    World world;
    mbr_alloc_result block = world.Alloc(Request{4096, 0, kStream, 0, 5});
    memset(reinterpret_cast<void *>(block.address), 0x77, 4096);
    mbr_error error = NewError();
    world.context.queue_limit_count = 0;
    EXPECT_EQ(world.FreeAfter(block.allocation, {kStream}, &error), MBR_QUEUE_FULL);
    EXPECT_EQ(error.status, MBR_QUEUE_FULL);
    world.context.queue_limit_count = UINT64_MAX;
    for (mbr_status status : {MBR_BUSY, MBR_OUT_OF_RANGE, MBR_OUT_OF_HOST_MEMORY}) {
        world.context.defer_status = status;
        EXPECT_EQ(world.FreeAfter(block.allocation, {kStream}, &error), status);
    }
    world.context.defer_status = MBR_OK;
    EXPECT_EQ(world.FreeAfter(block.allocation, {12345}, &error), MBR_UNKNOWN_OBJECT);
    EXPECT_EQ(world.State(block.allocation), uint32_t{MBR_ALLOCATION_LIVE});
    EXPECT_EQ(world.Figures().queued_count, 0u);
    EXPECT_EQ(world.Charged(world.kv), 4096u);
    EXPECT_EQ(*reinterpret_cast<char *>(block.address + 4095), 0x77);
    EXPECT_TRUE(world.Agree());
    EXPECT_EQ(world.Free(block.allocation), MBR_OK);
}

TEST(ArenaWait, DeviceLost_QueuedAndLaterFrees_StayChargedUntilTheEndIsConfirmed)
{
    World world;
    mbr_holder *exact = world.Holder("exact", kMiB);
    Request exact_request{1000, 0, kStream};
    exact_request.holder = exact;
    mbr_alloc_result queued = world.Alloc(Request{4096, 0, kStream});
    mbr_alloc_result late = world.Alloc(Request{65 * kMiB, 0, kStream});
    mbr_alloc_result of_exact = world.Alloc(exact_request);
    mbr_alloc_result proven = world.Alloc(Request{4096, 0, kStream});
    world.context.hold(kStream);
    EXPECT_EQ(world.FreeAfter(queued.allocation, {}), MBR_OK);
    EXPECT_EQ(world.FreeAfter(of_exact.allocation, {}), MBR_OK);
    world.context.lose();
    EXPECT_EQ(world.State(queued.allocation), uint32_t{MBR_ALLOCATION_DEVICE_LOST});
    EXPECT_EQ(world.FreeAfter(late.allocation, {}), MBR_OK) << "accepted, and lost like the queued";
    EXPECT_EQ(world.State(late.allocation), uint32_t{MBR_ALLOCATION_DEVICE_LOST});
    EXPECT_EQ(world.Free(proven.allocation), MBR_OK) << "the caller proves quiescence";
    EXPECT_EQ(world.Free(queued.allocation), MBR_UNKNOWN_OBJECT);
    mbr_arena_figures figures = world.Figures();
    EXPECT_EQ(figures.quarantined_count, 3u);
    EXPECT_EQ(figures.queued_count + figures.live_count, 0u);
    EXPECT_EQ(world.Charged(world.kv), 4096 + late.charged_bytes);
    EXPECT_EQ(world.Books(exact).charged_bytes, 1024u);
    EXPECT_TRUE(world.Agree());
    mbr_error error = NewError();
    EXPECT_EQ(mbr_arena_destroy(world.arena, &error), MBR_IN_USE);
    EXPECT_NE(std::string(error.text).find("3 are lost"), std::string::npos) << error.text;

    EXPECT_EQ(mbr_arena_confirm_lost(world.arena), 4096 + late.charged_bytes + 1024);
    EXPECT_EQ(mbr_arena_confirm_lost(world.arena), 0u) << "once";
    EXPECT_EQ(world.Charged(world.kv), 0u);
    EXPECT_EQ(world.Books(exact).charged_bytes, 0u);
    EXPECT_EQ(world.Figures().quarantined_count, 0u);
    EXPECT_EQ(world.State(queued.allocation), uint32_t{MBR_ALLOCATION_RELEASED});
    EXPECT_TRUE(world.Agree());
}

TEST(ArenaWait, Settle_ThatMakesSlabsIdle_GivesThemBackAboveTheWatermark)
{
    World world(64 * kGiB, 0);
    std::vector<mbr_allocation_handle> handles;
    for (int i = 0; i < 8; i++)
        handles.push_back(world.Alloc(Request{16 * kMiB, 0, kStream}).allocation);
    world.context.hold(kStream);
    for (mbr_allocation_handle handle : handles)
        EXPECT_EQ(world.FreeAfter(handle, {}), MBR_OK);
    EXPECT_EQ(world.backing->span_count(), 8u);
    world.context.finish(kStream);
    world.context.reap();
    EXPECT_EQ(world.backing->span_count(), 0u);
}

TEST(ArenaWait, Alloc_WithoutFreeBlocks_ReapsBeforeItTakesASpan)
{
    World world;
    uint64_t taken = 0;
    for (int step = 0; step < 50; step++) { // free, then allocate the same size each step
        mbr_alloc_result block = world.Alloc(Request{16 * kMiB, 0, kStream});
        EXPECT_EQ(world.FreeAfter(block.allocation, {}), MBR_OK);
        if (step == 0)
            taken = world.backing->take_count;
    }
    EXPECT_EQ(world.backing->take_count, taken);
    world.context.reap();
}

// A reaper settles on a thread of its own while others allocate and queue; then the arena ends as
// soon as it may.
TEST(ArenaWait, Settle_OnAnotherThread_NeverMeetsAnEndedArena)
{
    for (int round = 0; round < 20; round++) {
        World world(64 * kGiB, 0);
        std::atomic<bool> stop{false};
        std::thread reaper([&] {
            while (!stop)
                world.context.reap();
        });
        for (int i = 0; i < 200; i++) {
            mbr_alloc_result block =
                world.Alloc(Request{static_cast<uint64_t>(i) * 40000, 0, kStream});
            EXPECT_EQ(world.FreeAfter(block.allocation, {}), MBR_OK);
        }
        while (mbr_arena_destroy(world.arena, nullptr) != MBR_OK)
            std::this_thread::yield();
        world.arena = nullptr;
        stop = true;
        reaper.join();
    }
}

} // namespace
} // namespace alloc_test
