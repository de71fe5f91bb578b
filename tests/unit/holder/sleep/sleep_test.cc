// Sleep and wake of ranges by tags: contents, addresses, bytes on both tiers, and every refusal
// with everything as it was.
#include "tests/unit/holder/sleep/world.h"

#include <atomic>
#include <thread>

namespace membrane
{
namespace
{

constexpr uint64_t kWeights = 1, kCaches = 2;

TEST(Sleep, LevelOne_GivesBytesBackAndWakesAtTheSameAddressWithTheSameContents)
{
    SleepWorld world;
    auto a = world.make(kWeights, 3 * kMiB, 1), b = world.make(kWeights, 2 * kMiB, 2);
    uint64_t charged = world.paid(world.holder).charged_bytes;
    ASSERT_EQ(MBR_OK, world.sleep(kWeights)) << world.error.text;
    EXPECT_EQ(5 * kMiB, world.slept.slept_bytes);
    EXPECT_EQ(5 * kMiB, world.slept.copied_bytes);
    EXPECT_EQ(5 * kMiB, world.slept.released_bytes);
    EXPECT_EQ(0u, world.slept.deferred_bytes);
    EXPECT_EQ(0u, world.paid(world.holder).charged_bytes);
    EXPECT_EQ(0u, world.books().charged_bytes) << "nor has the cache anything of it";
    EXPECT_EQ(5 * kMiB, world.paid(world.arena_holder).charged_bytes);
    EXPECT_EQ(5 * kMiB, world.read().asleep_bytes);
    EXPECT_TRUE(world.clean());
    ASSERT_EQ(MBR_OK, world.wake(kWeights)) << world.error.text;
    EXPECT_EQ(5 * kMiB, world.woken.woken_bytes);
    EXPECT_EQ(charged, world.paid(world.holder).charged_bytes);
    EXPECT_EQ(a.address, world.read(a.range).address);
    EXPECT_TRUE(world.holds(a.address, 3 * kMiB, 1) && world.holds(b.address, 2 * kMiB, 2));
    EXPECT_EQ(5 * kMiB, world.read().free_bytes) << "warm for the next time";
    world.end(a.range);
    world.end(b.range);
}

TEST(Sleep, LevelTwo_DropsContentsAndWakesToZeroWhereAsked)
{
    SleepWorld world;
    auto range = world.make(kCaches, 2 * kMiB, 1);
    ASSERT_EQ(MBR_OK, world.sleep(kCaches, MBR_SLEEP_DROP)) << world.error.text;
    EXPECT_EQ(2 * kMiB, world.slept.released_bytes);
    EXPECT_EQ(0u, world.slept.copied_bytes);
    EXPECT_EQ(0u, world.figures().owned_bytes);
    EXPECT_EQ(0u, world.paid(world.arena_holder).charged_bytes);
    EXPECT_EQ(MBR_INVALID_ARGUMENT, world.sleep(kCaches)) << "there are no contents to keep";
    ASSERT_EQ(MBR_OK, world.wake(kCaches, MBR_WAKE_ZEROED)) << world.error.text;
    EXPECT_EQ(MBR_CONTENT_ZERO, world.woken.content);
    EXPECT_EQ(std::vector<uint8_t>(2 * kMiB), world.get(range.address, 2 * kMiB));
    world.end(range.range);
}

TEST(Sleep, TagsSleepApart_TheOtherIsUndisturbed)
{
    SleepWorld world;
    auto a = world.make(kWeights, 2 * kMiB, 1), b = world.make(kCaches, kMiB, 2);
    ASSERT_EQ(MBR_OK, world.sleep(kWeights));
    EXPECT_TRUE(world.holds(b.address, kMiB, 2));
    ASSERT_EQ(MBR_OK, world.grow(b.range, kMiB, 0));
    ASSERT_EQ(MBR_OK, world.sleep(kCaches, MBR_SLEEP_DROP));
    ASSERT_EQ(MBR_OK, world.wake(kWeights));
    EXPECT_TRUE(world.holds(a.address, 2 * kMiB, 1));
    EXPECT_EQ(0u, world.read(b.range).committed_bytes);
    ASSERT_EQ(MBR_OK, world.wake(kCaches));
    world.end(a.range);
    world.end(b.range);
}

TEST(Sleep, RangeWithHoles_WakesWithTheSameHoles)
{
    SleepWorld world;
    auto range = world.make(kCaches, kMiB, 1, 512 * 1024);
    ASSERT_EQ(MBR_OK, world.grow(range.range, 0, 64 * 1024));
    world.put(range.address, SleepWorld::pattern(64 * 1024, 9));
    auto before = world.read(range.range);
    ASSERT_EQ(MBR_OK, world.sleep(kCaches));
    ASSERT_EQ(MBR_OK, world.wake(kCaches));
    EXPECT_EQ(before.committed_bytes, world.read(range.range).committed_bytes);
    EXPECT_TRUE(world.holds(range.address, 64 * 1024, 9));
    EXPECT_TRUE(world.holds(range.address + 512 * 1024, kMiB, 1));
    auto run = sized<mbr_range_run>();
    ASSERT_EQ(MBR_OK, mbr_range_next_run(world.manager, range.range, 0, &run, &world.error));
    EXPECT_EQ(64 * 1024u, run.bytes);
    world.end(range.range);
}

// vllm#21336
TEST(Sleep, HundredCycles_ReturnToBaseWithoutOverlapOfLiveRanges)
{
    constexpr uint64_t kSmall = 512 * 1024;
    SleepWorld world;
    auto a = world.make(kWeights, kSmall, 1), b = world.make(kCaches, kSmall, 2);
    uint64_t base = world.books().charged_bytes;
    uint64_t charged = world.paid(world.holder).charged_bytes;
    for (int cycle = 0; cycle < 100; cycle++) {
        ASSERT_EQ(MBR_OK, world.sleep(kWeights)) << world.error.text;
        ASSERT_EQ(MBR_OK, world.sleep(kCaches, MBR_SLEEP_DROP)) << world.error.text;
        ASSERT_EQ(0u, world.paid(world.holder).charged_bytes);
        auto between = world.reserve(kSmall, 64 * 1024); // whoever comes meanwhile
        ASSERT_EQ(MBR_OK, world.grow(between.range, 0, kSmall));
        for (const auto &live : {a, b})
            ASSERT_TRUE(between.address + between.bytes <= live.address ||
                live.address + live.bytes <= between.address);
        world.put(between.address, std::vector<uint8_t>(kSmall, 0xEE));
        ASSERT_EQ(MBR_OK, world.release(between.range));
        ASSERT_EQ(MBR_OK, world.wake(kCaches)) << world.error.text;
        ASSERT_EQ(MBR_OK, world.wake(kWeights)) << world.error.text;
        ASSERT_TRUE(world.holds(a.address, kSmall, 1)) << cycle;
        ASSERT_EQ(charged, world.paid(world.holder).charged_bytes);
        ASSERT_TRUE(world.clean());
    }
    EXPECT_EQ(MBR_OK, mbr_manager_trim(world.manager, world.mechanism, 0, nullptr, &world.error));
    EXPECT_EQ(base, world.books().charged_bytes);
    EXPECT_EQ(kChunk, world.read().arena_bytes) << "one tag's contents, whatever the cycles";
    world.end(a.range);
    world.end(b.range);
}

// torch_memory_saver#95, while asleep
TEST(Sleep, WhateverIsDoneToASleepingRange_IsRefusedAndChangesNothing)
{
    SleepWorld world;
    auto range = world.make(kWeights, 2 * kMiB, 1);
    mbr_range_view view;
    ASSERT_EQ(MBR_OK, mbr_range_view_take(world.manager, range.range, &view, &world.error));
    ASSERT_EQ(MBR_OK, world.sleep(kWeights));
    auto before = world.read(range.range);
    auto books = world.books();
    EXPECT_EQ(MBR_BUSY, world.grow(range.range, 0, 64 * 1024));
    EXPECT_TRUE(world.said("asleep")) << world.error.text;
    EXPECT_EQ(MBR_BUSY, world.release(range.range));
    EXPECT_EQ(MBR_BUSY, world.release(range.range, false));
    auto part = sized<mbr_range_release_request>();
    part.flags = MBR_FREE_NOW;
    part.piece = {range.range, 0, kMiB};
    auto gone = sized<mbr_range_decommit_result>();
    EXPECT_EQ(MBR_BUSY, mbr_range_decommit(world.manager, &part, &gone, &world.error));
    EXPECT_EQ(MBR_BUSY, mbr_range_pin(world.manager, range.range, &world.error));
    auto prefix = sized<mbr_prefix_request>();
    prefix.piece_count = 1;
    prefix.holder = world.holder;
    prefix.pieces = &part.piece;
    auto made = sized<mbr_prefix_result>();
    EXPECT_EQ(MBR_BUSY, mbr_prefix_create(world.manager, &prefix, &made, &world.error));
    auto interior = sized<mbr_free_request>();
    interior.flags = MBR_FREE_NOW;
    interior.address = range.address + kMiB;
    EXPECT_EQ(MBR_UNKNOWN_OBJECT, mbr_free(world.manager, &interior, &world.error));
    EXPECT_EQ(MBR_STALE, mbr_range_view_check(world.manager, view, &world.error));
    EXPECT_EQ(MBR_BUSY, mbr_sleeper_remove(world.sleeper, range.range, &world.error));
    EXPECT_EQ(MBR_IN_USE, mbr_sleeper_destroy(world.sleeper, kNever, &world.error));
    auto after = world.read(range.range);
    EXPECT_EQ(0, std::memcmp(&before, &after, sizeof(before)));
    EXPECT_EQ(books.charged_bytes, world.books().charged_bytes);
    ASSERT_EQ(MBR_OK, world.wake(kWeights));
    EXPECT_TRUE(world.holds(range.address, 2 * kMiB, 1));
    world.end(range.range);
    EXPECT_EQ(MBR_STALE, world.release(range.range)) << "a double one";
}

TEST(Sleep, RangeBelongsToOneTag_AndATagToOneHolderAndMechanism)
{
    SleepWorld world;
    auto range = world.make(kWeights, kMiB, 1);
    EXPECT_EQ(MBR_ALREADY_EXISTS, world.add(range.range, kWeights));
    EXPECT_EQ(MBR_ALREADY_EXISTS, world.add(range.range, kCaches));
    auto other = world.reserve(kMiB, 64 * 1024);
    EXPECT_EQ(MBR_INVALID_ARGUMENT,
        mbr_sleeper_add(world.sleeper, other.range, world.arena_holder, kWeights, &world.error));
    EXPECT_EQ(MBR_INVALID_ARGUMENT,
        mbr_sleeper_add(world.sleeper, other.range, world.arena_holder, 7, &world.error))
        << "of another authority than the range";
    auto authority_request = sized<mbr_authority_request>();
    authority_request.tier = world.tier();
    authority_request.name = "another";
    authority_request.limit_bytes = kMiB;
    auto bind = world.bind_request();
    ASSERT_EQ(MBR_OK,
        mbr_manager_create_authority(
            world.manager, &authority_request, &bind.authority, &world.error));
    auto request = sized<mbr_range_reserve_request>();
    ASSERT_EQ(MBR_OK, mbr_manager_bind(world.manager, &bind, &request.binding, &world.error));
    request.bytes = kMiB;
    auto foreign = sized<mbr_range_reserve_result>();
    ASSERT_EQ(MBR_OK, mbr_range_reserve(world.manager, &request, &foreign, &world.error));
    EXPECT_EQ(MBR_INVALID_ARGUMENT, world.add(foreign.range, kWeights));
    EXPECT_EQ(MBR_UNKNOWN_OBJECT, mbr_sleeper_remove(world.sleeper, other.range, &world.error));
    EXPECT_EQ(MBR_UNKNOWN_OBJECT, world.sleep(7));
    EXPECT_EQ(MBR_UNKNOWN_OBJECT, world.wake(kWeights)) << "it is awake";
    EXPECT_EQ(1u, world.read().tag_count);
    EXPECT_EQ(MBR_OK, world.release(other.range));
    EXPECT_EQ(MBR_OK, world.release(foreign.range));
    EXPECT_EQ(MBR_OK, mbr_manager_unbind(world.manager, request.binding, &world.error));
    EXPECT_EQ(MBR_OK, mbr_manager_destroy_authority(world.manager, bind.authority, &world.error));
    EXPECT_EQ(MBR_STALE, world.add(other.range, kWeights));
    world.end(range.range);
    EXPECT_EQ(0u, world.read().tag_count);
}

TEST(Sleep, Pinned_IsRefusedAndStaysAwake)
{
    SleepWorld world;
    auto range = world.make(kWeights, 2 * kMiB, 1), other = world.make(kWeights, kMiB, 2);
    ASSERT_EQ(MBR_OK, mbr_range_pin(world.manager, other.range, &world.error));
    EXPECT_EQ(MBR_BUSY, world.sleep(kWeights));
    EXPECT_TRUE(world.said("pin")) << world.error.text;
    ASSERT_EQ(MBR_OK, mbr_range_unpin(world.manager, other.range, &world.error));
    EXPECT_EQ(3 * kMiB, world.paid(world.holder).charged_bytes);
    ASSERT_EQ(MBR_OK, world.grow(range.range, 0, 2 * kMiB)) << "nobody keeps them any more";
    ASSERT_EQ(MBR_OK, world.sleep(kWeights)) << world.error.text;
    ASSERT_EQ(MBR_OK, world.wake(kWeights));
    EXPECT_TRUE(world.holds(range.address, 2 * kMiB, 1));
    world.end(range.range);
    world.end(other.range);
}

TEST(Sleep, CaptureOpenOrGraphThatOwnsAPart_IsRefusedUntilItIsRetired)
{
    SleepWorld world;
    auto range = world.make(kWeights, kMiB, 1);
    ASSERT_EQ(MBR_OK, mbr_ep_capture_begin(world.manager, world.stream, kNever, &world.error));
    EXPECT_EQ(MBR_BUSY, world.sleep(kWeights));
    EXPECT_EQ(MBR_BUSY, world.sleep(kWeights, MBR_SLEEP_DROP));
    auto grown = world.reserve(kMiB, 64 * 1024);
    ASSERT_EQ(MBR_OK, world.grow(grown.range, 0, kMiB));
    ASSERT_EQ(MBR_OK, world.add(grown.range, kCaches));
    mbr_graph_handle graph;
    ASSERT_EQ(MBR_OK, mbr_ep_capture_end(world.manager, world.stream, &graph, &world.error));
    EXPECT_EQ(MBR_BUSY, world.sleep(kCaches));
    EXPECT_TRUE(world.said("retire the graph")) << world.error.text;
    EXPECT_EQ(MBR_OK, world.sleep(kWeights)) << "which it does not own";
    EXPECT_EQ(MBR_OK, world.wake(kWeights));
    ASSERT_EQ(MBR_OK, mbr_ep_graph_retire(world.manager, graph, nullptr, 0, &world.error));
    ASSERT_EQ(MBR_OK, mbr_ep_drain(world.manager, world.ep, kNever, &world.error));
    EXPECT_EQ(MBR_OK, world.sleep(kCaches)) << world.error.text;
    EXPECT_EQ(MBR_OK, world.wake(kCaches));
    EXPECT_TRUE(world.holds(range.address, kMiB, 1));
    world.end(range.range);
    world.end(grown.range);
}

TEST(Sleep, WakeWithoutBytes_StaysAsleepWithItsContents)
{
    SleepWorld world(4 * kMiB);
    auto a = world.make(kWeights, 2 * kMiB, 1), b = world.make(kWeights, kMiB, 2);
    ASSERT_EQ(MBR_OK, world.sleep(kWeights));
    auto thief = world.reserve(2 * kMiB, 64 * 1024);
    ASSERT_EQ(MBR_OK, world.grow(thief.range, 0, 2 * kMiB));
    auto refusal = sized<mbr_refusal>();
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(MBR_OVER_BUDGET, world.wake(kWeights, 0, kNever, &refusal));
        EXPECT_EQ(3 * kMiB, refusal.asked_bytes);
        EXPECT_EQ(2 * kMiB, world.paid(world.holder).charged_bytes) << "the thief's alone";
        EXPECT_EQ(0u, world.read(a.range).committed_bytes + world.read(b.range).committed_bytes);
        EXPECT_TRUE(world.clean());
    }
    ASSERT_EQ(MBR_OK, world.release(thief.range));
    ASSERT_EQ(MBR_OK, world.wake(kWeights)) << world.error.text;
    EXPECT_TRUE(world.holds(a.address, 2 * kMiB, 1) && world.holds(b.address, kMiB, 2));
    world.end(a.range);
    world.end(b.range);
}

TEST(Sleep, ArenaWithoutRoom_StaysAwake)
{
    SleepWorld world(64 * kMiB, 2 * kMiB);
    auto range = world.make(kWeights, 3 * kMiB, 1);
    EXPECT_EQ(MBR_OVER_BUDGET, world.sleep(kWeights));
    EXPECT_EQ(0u, world.slept.slept_bytes);
    EXPECT_TRUE(world.holds(range.address, 3 * kMiB, 1));
    EXPECT_EQ(world.read().arena_bytes, world.read().free_bytes);
    EXPECT_EQ(MBR_OK, world.grow(range.range, 0, 3 * kMiB));
    EXPECT_EQ(MBR_OK, world.sleep(kWeights, MBR_SLEEP_DROP));
    EXPECT_EQ(MBR_OK, mbr_sleeper_drop(world.sleeper, kWeights, kNever, &world.error));
    world.end(range.range);
}

TEST(Sleep, Watermark_KeepsNoMoreFreeChunks)
{
    SleepWorld world(64 * kMiB, 64 * kMiB, nullptr, nullptr, {}, 2 * kMiB);
    auto range = world.make(kWeights, 4 * kMiB, 1);
    for (int i = 0; i < 3; i++) {
        ASSERT_EQ(MBR_OK, world.sleep(kWeights));
        EXPECT_EQ(4 * kMiB, world.paid(world.arena_holder).charged_bytes);
        ASSERT_EQ(MBR_OK, world.wake(kWeights));
        EXPECT_EQ(2 * kMiB, world.paid(world.arena_holder).charged_bytes);
    }
    world.end(range.range);
}

TEST(Sleep, AskedForBytes_GivesFreeChunksAndNoneWithContents)
{
    SleepWorld world;
    auto a = world.make(kWeights, 3 * kMiB, 1), b = world.make(kCaches, 2 * kMiB, 2);
    ASSERT_EQ(MBR_OK, world.sleep(kWeights));
    ASSERT_EQ(MBR_OK, world.sleep(kCaches));
    EXPECT_EQ(0u, mbr_sleeper_could_give(world.sleeper, 8 * kMiB)) << "all of it is contents";
    EXPECT_EQ(0u, mbr_sleeper_give(world.sleeper, 8 * kMiB));
    ASSERT_EQ(MBR_OK, world.wake(kCaches));
    EXPECT_EQ(kMiB, mbr_sleeper_could_give(world.sleeper, kMiB));
    EXPECT_EQ(2 * kMiB, mbr_sleeper_could_give(world.sleeper, 8 * kMiB));
    EXPECT_EQ(2 * kMiB, mbr_sleeper_give(world.sleeper, kMiB + 1)) << "whole chunks";
    EXPECT_EQ(3 * kMiB, world.paid(world.arena_holder).charged_bytes);
    EXPECT_TRUE(world.clean());
    ASSERT_EQ(MBR_OK, world.wake(kWeights));
    EXPECT_TRUE(world.holds(a.address, 3 * kMiB, 1));
    world.end(a.range);
    world.end(b.range);
}

TEST(Sleep, StreamsThatStillWork_AreWaitedForOrTheDeadlineLeavesItAwake)
{
    SleepWorld world;
    mbr_native native = world.make_stream();
    mbr_stream_handle other = {0};
    ASSERT_EQ(MBR_OK, mbr_ep_attach_stream(world.manager, world.ep, native, &other, &world.error));
    auto range = world.make(kWeights, 2 * kMiB, 1);
    {
        Gate stalled(world, native);
        EXPECT_EQ(MBR_TIMED_OUT, world.sleep(kWeights, MBR_SLEEP_KEEP, 1, {other}));
        EXPECT_EQ(MBR_TIMED_OUT, world.sleep(kWeights, MBR_SLEEP_DROP, 1, {other}));
        EXPECT_EQ(2 * kMiB, world.paid(world.holder).charged_bytes);
        EXPECT_EQ(MBR_OK, world.grow(range.range, 0, 2 * kMiB));
        ASSERT_EQ(
            MBR_OK, mbr_ep_fill(world.manager, other, range.address, 0x5A, 2 * kMiB, &world.error));
        std::thread later([&] { stalled.open(); });
        EXPECT_EQ(MBR_OK, world.sleep(kWeights, MBR_SLEEP_KEEP, kNever, {other}));
        later.join();
    }
    ASSERT_EQ(MBR_OK, world.wake(kWeights));
    EXPECT_EQ(std::vector<uint8_t>(2 * kMiB, 0x5A), world.get(range.address, 2 * kMiB))
        << "what the stream wrote last slept, too";
    ASSERT_EQ(MBR_OK, mbr_ep_detach_stream(world.manager, other, &world.error));
    world.end_stream(native);
    world.end(range.range);
}

TEST(Sleep, CopiesPastTheDeadline_KeepTheirMemoryUntilTheyAreDone)
{
    SleepWorld world;
    auto range = world.make(kWeights, 2 * kMiB, 1);
    {
        Gate stalled(world);
        EXPECT_EQ(MBR_TIMED_OUT, world.sleep(kWeights, MBR_SLEEP_KEEP, 1));
        EXPECT_EQ(2 * kMiB, world.paid(world.holder).charged_bytes);
        EXPECT_EQ(0u, mbr_sleeper_could_give(world.sleeper, 8 * kMiB)) << "still written";
        EXPECT_EQ(MBR_TIMED_OUT, world.sleep(kWeights, MBR_SLEEP_KEEP, 1));
        EXPECT_EQ(MBR_TIMED_OUT, mbr_sleeper_destroy(world.sleeper, 1, &world.error));
    }
    ASSERT_EQ(MBR_OK, world.sleep(kWeights)) << world.error.text;
    EXPECT_EQ(2 * kMiB, world.read().arena_bytes);
    {
        Gate stalled(world);
        EXPECT_EQ(MBR_TIMED_OUT, world.wake(kWeights, 0, 1));
        EXPECT_EQ(1u, world.read().asleep_count);
        EXPECT_EQ(MBR_TIMED_OUT, mbr_sleeper_drop(world.sleeper, kWeights, 1, &world.error));
        EXPECT_EQ(2 * kMiB, world.paid(world.holder).charged_bytes) << "still written";
    }
    ASSERT_EQ(MBR_OK, world.wake(kWeights)) << world.error.text;
    EXPECT_TRUE(world.holds(range.address, 2 * kMiB, 1));
    EXPECT_TRUE(world.clean());
    world.end(range.range);
}

/* Such a tag lives on without ranges, and belongs to nobody. */
TEST(Sleep, CopiesPastTheDeadlineOutliveTheRanges_AnotherHolderMayHaveTheTag)
{
    SleepWorld world;
    auto request = world.holder_request(MBR_ROLE_WEIGHTS, "another");
    mbr_holder_handle another;
    ASSERT_EQ(MBR_OK, mbr_manager_create_holder(world.manager, &request, &another, &world.error));
    auto range = world.make(kWeights, 4 * kMiB, 1), next = world.reserve(4 * kMiB, 64 * 1024);
    {
        Gate stalled(world);
        ASSERT_EQ(MBR_TIMED_OUT, world.sleep(kWeights, MBR_SLEEP_KEEP, 1));
        ASSERT_EQ(MBR_OK, mbr_sleeper_remove(world.sleeper, range.range, &world.error));
        EXPECT_EQ(MBR_UNKNOWN_OBJECT, world.sleep(kWeights));
        ASSERT_EQ(
            MBR_OK, mbr_sleeper_add(world.sleeper, next.range, another, kWeights, &world.error))
            << world.error.text;
        EXPECT_EQ(MBR_INVALID_ARGUMENT, world.add(range.range, kWeights)) << "it has a range now";
    }
    ASSERT_EQ(MBR_OK, world.sleep(kWeights)) << world.error.text;
    EXPECT_EQ(0u, world.slept.slept_bytes);
    ASSERT_EQ(MBR_OK, world.wake(kWeights)) << world.error.text;
    EXPECT_EQ(world.read().arena_bytes, world.read().free_bytes);
    world.end(next.range);
    EXPECT_EQ(MBR_OK, world.release(range.range));
    EXPECT_EQ(MBR_OK, mbr_manager_destroy_holder(world.manager, another, &world.error));
}

TEST(Sleep, DeviceLostAsleep_WakeIsRefusedAndDropIsTheWayOut)
{
    SleepWorld world;
    SKIP_WITHOUT_CPU_EP(world); /* whose end is a matter of course */
    world.lost = true;
    auto range = world.make(kWeights, 2 * kMiB, 1);
    ASSERT_EQ(MBR_OK, world.sleep(kWeights));
    ASSERT_EQ(MBR_OK, mbr_ep_lost(world.manager, world.ep, &world.error));
    EXPECT_EQ(MBR_DEVICE_LOST, world.wake(kWeights));
    EXPECT_EQ(2 * kMiB, world.read().asleep_bytes) << "its contents are kept";
    EXPECT_EQ(MBR_BUSY, world.release(range.range));
    EXPECT_EQ(MBR_OK, mbr_sleeper_drop(world.sleeper, kWeights, kNever, &world.error));
    world.end(range.range);
}

TEST(Sleep, WithoutAnArena_LevelTwoAlone)
{
    HostWorld world;
    mbr_sleeper *sleeper;
    auto request = sized<mbr_sleeper_request>();
    ASSERT_EQ(MBR_OK, mbr_sleeper_create(world.manager, &request, &sleeper, &world.error));
    auto range = world.reserve(kMiB, 64 * 1024);
    ASSERT_EQ(MBR_OK, world.grow(range.range, 0, kMiB));
    ASSERT_EQ(MBR_OK, mbr_sleeper_add(sleeper, range.range, world.holder, 1, &world.error));
    auto sleep = sized<mbr_sleep_request>();
    auto slept = sized<mbr_sleep_result>();
    sleep.tag = 1;
    sleep.deadline_ns = kNever;
    for (uint32_t level : {0u, 3u}) {
        sleep.level = level;
        EXPECT_EQ(MBR_INVALID_ARGUMENT, mbr_sleeper_sleep(sleeper, &sleep, &slept, &world.error));
    }
    sleep.level = MBR_SLEEP_KEEP;
    EXPECT_EQ(MBR_UNSUPPORTED, mbr_sleeper_sleep(sleeper, &sleep, &slept, &world.error));
    sleep.level = MBR_SLEEP_DROP;
    EXPECT_EQ(MBR_OK, mbr_sleeper_sleep(sleeper, &sleep, &slept, &world.error));
    EXPECT_EQ(kMiB, slept.slept_bytes);
    EXPECT_EQ(MBR_OK, mbr_sleeper_drop(sleeper, 1, kNever, &world.error));
    EXPECT_EQ(MBR_OK, mbr_sleeper_destroy(sleeper, kNever, &world.error));
    EXPECT_EQ(MBR_OK, world.release(range.range)) << "which lives on without it";
}

TEST(Sleep, RacingCallsOnOneTag_OneWorksAndTheOthersAreBusy)
{
    SleepWorld world;
    auto range = world.make(kWeights, kMiB, 1);
    std::atomic<int> moved{0}, other{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; t++) {
        threads.emplace_back([&, t] {
            auto sleep = sized<mbr_sleep_request>();
            sleep.level = MBR_SLEEP_KEEP;
            sleep.tag = kWeights;
            sleep.stream = world.stream;
            sleep.deadline_ns = kNever;
            auto wake = sized<mbr_wake_request>();
            wake.tag = kWeights;
            wake.stream = world.stream;
            wake.deadline_ns = kNever;
            auto slept = sized<mbr_sleep_result>();
            auto woken = sized<mbr_wake_result>();
            for (int i = 0; i < 100; i++) {
                mbr_status status = (i + t) % 2 == 0
                    ? mbr_sleeper_sleep(world.sleeper, &sleep, &slept, nullptr)
                    : mbr_sleeper_wake(world.sleeper, &wake, &woken, nullptr);
                bool fits = status == MBR_BUSY || status == MBR_UNKNOWN_OBJECT;
                (status == MBR_OK ? moved : other) += status == MBR_OK || !fits;
            }
        });
    }
    for (auto &thread : threads)
        thread.join();
    EXPECT_LT(0, moved.load());
    EXPECT_EQ(0, other.load());
    if (world.read().asleep_count != 0) {
        ASSERT_EQ(MBR_OK, world.wake(kWeights));
    }
    EXPECT_TRUE(world.holds(range.address, kMiB, 1));
    EXPECT_TRUE(world.clean());
    world.end(range.range);
}

// Whoever pins, grows or looks meanwhile comes before or is refused, and nothing of it is lost.
TEST(Sleep, RangeInUseByOtherThreads_IsRefusedToOneOfThem)
{
    SleepWorld world;
    auto range = world.make(kWeights, kMiB, 1);
    std::atomic<bool> done{false};
    std::atomic<int> other{0};
    auto repeat = [&](auto call) {
        return std::thread([&done, &other, call] {
            while (!done.load()) {
                mbr_status status = call();
                other += status != MBR_OK && status != MBR_BUSY;
            }
        });
    };
    std::thread threads[] = {
        repeat([&] {
            mbr_status status = mbr_range_pin(world.manager, range.range, nullptr);
            return status == MBR_OK ? mbr_range_unpin(world.manager, range.range, nullptr) : status;
        }),
        repeat([&] {
            mbr_piece piece = {range.range, 0, kMiB};
            auto request = sized<mbr_range_grow_request>();
            request.holder = world.holder;
            request.stream = world.stream;
            request.pieces = &piece;
            request.piece_count = 1;
            auto result = sized<mbr_range_grow_result>();
            return mbr_range_grow(world.manager, &request, &result, nullptr);
        }),
        repeat([&] {
            auto run = sized<mbr_range_run>();
            return mbr_range_next_run(world.manager, range.range, 0, &run, nullptr);
        })};
    for (int slept = 0; slept < 40; slept++) {
        mbr_status status;
        while ((status = world.sleep(kWeights)) == MBR_BUSY)
            std::this_thread::yield(); // who has pinned it may not run for long
        EXPECT_EQ(MBR_OK, status) << world.error.text;
        EXPECT_EQ(kMiB, world.slept.slept_bytes);
        EXPECT_EQ(MBR_OK, world.wake(kWeights)) << world.error.text;
    }
    done = true;
    for (auto &thread : threads)
        thread.join();
    EXPECT_EQ(0, other.load());
    EXPECT_TRUE(world.holds(range.address, kMiB, 1));
    EXPECT_EQ(kMiB, world.paid(world.holder).charged_bytes);
    EXPECT_TRUE(world.clean());
    world.end(range.range);
}

} // namespace
} // namespace membrane
