// Giving back: nothing is unmapped before its line (I11), refunds per axis (I7), addresses are
// handed out again only when everything in them is settled (I10), loss retains.
#include "tests/unit/backing/world.h"

namespace membrane
{
namespace
{

TEST(Release, BehindAStream_UnmapsNothingBeforeItsValue)
{
    World world;
    world.line.automatic = false;
    mbr_range *range = world.reserve(64 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(range, 0, 4 * kGranule));
    uint64_t unmaps = world.fake.calls(Slot::kUnmap);
    ASSERT_EQ(MBR_OK, world.end(range, false));
    mbr_context_reap(world.context, true);
    EXPECT_EQ(4 * kGranule, world.charged(world.kv)); /* not reached: as it was */
    mbr_range *next = world.reserve(64 * kGranule);
    EXPECT_NE(mbr_range_address(range), mbr_range_address(next));
    EXPECT_EQ(unmaps, world.fake.calls(Slot::kUnmap));
    world.line.reached = world.line.signalled.load();
    mbr_context_reap(world.context, true);
    EXPECT_EQ(0u, world.charged(world.kv));
    EXPECT_EQ(4 * kGranule, world.cached());
    EXPECT_TRUE(world.agree());
    world.end(next);
}

TEST(Release, NothingMapped_WaitsForNoLine)
{
    World world;
    world.line.automatic = false;
    mbr_range *range = world.reserve(64 * kGranule);
    const uint64_t signalled = world.line.signalled;
    EXPECT_EQ(MBR_OK, world.end(range, false));
    EXPECT_EQ(signalled, world.line.signalled);
    EXPECT_EQ(1u, world.kept().cached_range_count) << "its addresses are free at once";
}

TEST(Release, Twice_IsStale)
{
    World world;
    mbr_range *range = world.reserve(64 * kGranule);
    EXPECT_EQ(MBR_OK, world.end(range));
    EXPECT_EQ(MBR_STALE, world.end(range));
}

TEST(Decommit, InTheMiddle_GivesBackWholeExtentsInside)
{
    World world;
    mbr_range *range = world.reserve(64 * kGranule, {4 * kGranule, 4 * kGranule, 0});
    ASSERT_EQ(MBR_OK, world.grow(range, 0, 32 * kGranule));
    mbr_range_decommit_result result = {};
    result.struct_size = sizeof(result);
    /* [6, 19) granules: whole extents are [8, 16); 2 + 3 granules of the part stay. */
    ASSERT_EQ(MBR_OK,
        mbr_range_give_back(
            range, 6 * kGranule, 13 * kGranule, true, nullptr, 0, &result, nullptr));
    EXPECT_EQ(8 * kGranule, result.decommitted_bytes);
    EXPECT_EQ(5 * kGranule, result.kept_bytes);
    EXPECT_EQ(24 * kGranule, world.charged(world.kv));
    EXPECT_TRUE(mbr_range_is_committed_to(range, 8 * kGranule));
    EXPECT_FALSE(mbr_range_is_committed_to(range, 8 * kGranule + 1));
    EXPECT_TRUE(world.agree());
    ASSERT_EQ(MBR_OK, world.grow(range, 0, 32 * kGranule));
    EXPECT_TRUE(mbr_range_is_committed_to(range, 32 * kGranule));
    EXPECT_TRUE(world.agree());
    world.end(range);
}

TEST(Decommit, Pending_GrowThereIsBusyAndTheEndWaits)
{
    World world;
    world.line.automatic = false;
    mbr_range *range = world.reserve(64 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(range, 0, 8 * kGranule));
    mbr_range_decommit_result result = {};
    result.struct_size = sizeof(result);
    ASSERT_EQ(MBR_OK,
        mbr_range_give_back(
            range, 4 * kGranule, 4 * kGranule, false, &world.stream, 1, &result, nullptr));
    EXPECT_EQ(MBR_BUSY, world.grow(range, 0, 8 * kGranule));
    EXPECT_EQ(MBR_OK, world.grow(range, 0, 4 * kGranule));
    EXPECT_EQ(
        MBR_OK, world.end(range, true)); /* the caller's word covers not the decommit's stream */
    EXPECT_EQ(8u, world.fake.mappings());
    EXPECT_EQ(8 * kGranule, world.charged(world.kv));
    mbr_context_reap(world.context, true);
    world.line.reached = world.line.signalled.load();
    mbr_context_reap(world.context, true);
    EXPECT_EQ(0u, world.charged(world.kv));
    EXPECT_TRUE(world.agree());
}

TEST(Decommit, QueueFull_ChangesNothing)
{
    World world;
    world.line.automatic = false;
    mbr_range *range = world.reserve(2048 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(range, 0, 1100 * kGranule));
    mbr_range_decommit_result result = {};
    result.struct_size = sizeof(result);
    mbr_status status = MBR_OK;
    uint64_t queued = 0;
    while (status == MBR_OK && queued < 1100) {
        status = mbr_range_give_back(
            range, queued * kGranule, kGranule, false, &world.stream, 1, &result, nullptr);
        queued += status == MBR_OK;
    }
    EXPECT_EQ(MBR_QUEUE_FULL, status);
    EXPECT_EQ(1024u, queued); /* the bound of the world's context */
    EXPECT_EQ(0u, result.decommitted_bytes);
    EXPECT_EQ(76 * kGranule, world.figures(range).committed_bytes);
    world.line.reached = UINT64_MAX;
    while (mbr_context_reap(world.context, true) != 0)
        ;
    EXPECT_EQ(MBR_OK,
        mbr_range_give_back(
            range, queued * kGranule, kGranule, true, nullptr, 0, &result, nullptr));
    EXPECT_TRUE(world.agree());
    world.end(range);
}

TEST(Watermark, BytesAboveIt_GoBackToTheSystem)
{
    World world(UINT64_C(64) << 20, 4 * kGranule);
    mbr_range *range = world.reserve(64 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(range, 0, 16 * kGranule));
    world.end(range);
    EXPECT_EQ(4 * kGranule, world.cached());
    EXPECT_EQ(4 * kGranule, world.fake.owned());
    mbr_backing_set_keep(world.backing, 3 * kGranule);
    EXPECT_EQ(3 * kGranule, world.cached());
    for (uint64_t idle : {1, 2, 5}) { /* granules of slabs above */
        mbr_backing_count_idle(world.backing, static_cast<int64_t>(idle * kGranule));
        mbr_backing_keep_watermark(world.backing);
        EXPECT_EQ(idle < 3 ? (3 - idle) * kGranule : 0, world.cached());
        mbr_backing_count_idle(world.backing, -static_cast<int64_t>(idle * kGranule));
    }
    ASSERT_EQ(MBR_OK, world.grow(range = world.reserve(64 * kGranule), 0, 4 * kGranule));
    world.end(range);
    EXPECT_EQ(3 * kGranule, mbr_backing_trim(world.backing, 0));
    EXPECT_EQ(0u, world.fake.owned());
    EXPECT_TRUE(world.agree());
}

TEST(Loss, QueuedMemory_StaysChargedUntilTheEndIsConfirmed)
{
    World world;
    world.line.automatic = false;
    mbr_range *range = world.reserve(64 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(range, 0, 4 * kGranule));
    ASSERT_EQ(MBR_OK, world.end(range, false));
    uint64_t calls = world.fake.all_calls();
    mbr_context_lose(world.context);
    EXPECT_EQ(calls, world.fake.all_calls()); /* I12 */
    EXPECT_EQ(4 * kGranule, world.charged(world.kv));
    EXPECT_EQ(4 * kGranule, world.books().retained_bytes);
    EXPECT_EQ(4 * kGranule, world.kept().retained_bytes);
    mbr_backing_confirm_lost(world.backing, world.context);
    EXPECT_EQ(calls, world.fake.all_calls());
    EXPECT_EQ(0u, world.charged(world.kv));
    EXPECT_EQ(0u, world.books().retained_bytes);
    mbr_backing_confirm_lost(world.backing, world.context); /* once */
    EXPECT_EQ(0u, world.charged(world.kv));
    EXPECT_EQ(4u, world.fake.extents()); /* its device took them along, and nobody asks for them */
    world.fake.forget_all();
}

TEST(Loss, GrowthAndDecommitOnIt_CallNothingAndNothingIsForgotten)
{
    World world;
    mbr_range *range = world.reserve(64 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(range, 0, 4 * kGranule));
    uint64_t calls = world.fake.all_calls();
    mbr_context_lose(world.context);
    EXPECT_EQ(MBR_DEVICE_LOST, world.grow(range, 4 * kGranule, kGranule));
    auto result = mbr_range_decommit_result{};
    result.struct_size = sizeof(result);
    EXPECT_EQ(
        MBR_OK, mbr_range_give_back(range, 0, 2 * kGranule, true, nullptr, 0, &result, nullptr));
    EXPECT_EQ(calls, world.fake.all_calls()); /* I12 */
    EXPECT_EQ(4 * kGranule, world.charged(world.kv)) << "until the end is confirmed";
    EXPECT_EQ(MBR_OK, world.end(range, false));
    EXPECT_EQ(calls, world.fake.all_calls());
    mbr_backing_confirm_lost(world.backing, world.context);
    EXPECT_EQ(0u, world.charged(world.kv));
    EXPECT_EQ(calls, world.fake.all_calls());
    world.fake.forget_all();
}

TEST(Loss, OfAContextThatRetires_TakesNothingNew)
{
    World world;
    mbr_range *range = world.reserve(64 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(range, 0, 4 * kGranule));
    ASSERT_EQ(MBR_OK, mbr_context_retire(world.context, nullptr));
    EXPECT_EQ(MBR_BUSY, world.grow(range, 4 * kGranule, kGranule));
    EXPECT_EQ(MBR_OK, world.end(range, true));
    EXPECT_TRUE(world.agree());
}

TEST(Loss, NothingMapped_NeedsNoDevice)
{
    World world;
    mbr_range *range = world.reserve(64 * kGranule);
    mbr_context_lose(world.context);
    EXPECT_EQ(MBR_OK, world.end(range, false));
    EXPECT_EQ(0u, world.kept().retained_bytes);
    EXPECT_TRUE(world.agree());
}

TEST(Loss, GivenBackAtOnce_IsNotUnmapped)
{
    World world;
    mbr_range *source = world.reserve(8 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(source, 0, 2 * kGranule));
    mbr_range_decommit_result result = {};
    result.struct_size = sizeof(result);
    mbr_context_lose(world.context);
    uint64_t calls = world.fake.all_calls();
    EXPECT_EQ(MBR_OK, mbr_range_give_back(source, 0, kGranule, true, nullptr, 0, &result, nullptr));
    EXPECT_EQ(MBR_OK, world.end(source));
    EXPECT_EQ(calls, world.fake.all_calls()); /* I12 */
    EXPECT_EQ(2 * kGranule, world.kept().retained_bytes);
    mbr_backing_confirm_lost(world.backing, world.context);
    EXPECT_EQ(0u, world.books().charged_bytes);
    world.fake.forget_all();
}

/* I21: memory that a loss leaves may still hold what a fill, which went along, was to end. */
void loss_takes_a_fill_along(bool at_once_a_part)
{
    World world;
    world.mechanism()->releasable_after_loss = true;
    mbr_range_decommit_result left = {};
    left.struct_size = sizeof(left);
    auto fill = [&](mbr_range *range, uint64_t stream) {
        uint64_t before = world.line.fill_count;
        mbr_grow_options options = {};
        options.stream_id = stream;
        EXPECT_EQ(MBR_OK, world.grow_with(options, {range, 0, 0, 2 * kGranule}));
        return world.line.fill_count - before;
    };
    mbr_range *foreign = world.reserve(8 * kGranule, {kGranule, kGranule, 0}, 0, 1);
    EXPECT_EQ(0u, fill(foreign, world.stream));
    EXPECT_EQ(
        MBR_OK, mbr_range_give_back(foreign, 0, 2 * kGranule, true, nullptr, 0, &left, nullptr));
    EXPECT_EQ(MBR_OK, world.end(foreign));
    world.line.automatic = false;
    mbr_range *range = world.reserve(8 * kGranule, {kGranule, kGranule, 0}, 0, 2);
    EXPECT_EQ(2u, fill(range, world.stream)); // of what the first group had
    mbr_context_lose(world.context);
    if (at_once_a_part) {
        EXPECT_EQ(
            MBR_OK, mbr_range_give_back(range, 0, 2 * kGranule, true, nullptr, 0, &left, nullptr));
    }
    EXPECT_EQ(MBR_OK, world.end(range));
    EXPECT_EQ(2 * kGranule, world.cached());

    SecondContext another(world, &world.line);
    std::swap(world.context, another.context);
    range = world.reserve(8 * kGranule, {kGranule, kGranule, 0}, 0, 2);
    EXPECT_EQ(2u, fill(range, another.stream));
    EXPECT_EQ(2u, world.fake.calls(Slot::kCreate)); // it is that memory
    EXPECT_TRUE(world.agree());
    world.line.reach_all();
    EXPECT_EQ(MBR_OK, world.end(range));
    std::swap(world.context, another.context);
}

TEST(Loss, FillThatItTookAlong_IsDoneAgainInWhatARangeLeaves)
{
    loss_takes_a_fill_along(false);
}

TEST(Loss, FillThatItTookAlong_IsDoneAgainInWhatADecommitLeaves)
{
    loss_takes_a_fill_along(true);
}

TEST(Loss, OfTheOnlyUser_TheCacheIsLeftAloneThenRefundedWithoutACall)
{
    Used world;
    mbr_range *parked = world.reserve(64 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(parked, 0, 8 * kGranule));
    ASSERT_EQ(MBR_OK, world.end(parked));
    mbr_range *pooled = world.reserve(32 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(pooled, 0, 4 * kGranule)); /* of what was parked */
    mbr_range_decommit_result result = {};
    result.struct_size = sizeof(result);
    ASSERT_EQ(
        MBR_OK, mbr_range_give_back(pooled, 0, 4 * kGranule, true, nullptr, 0, &result, nullptr));
    EXPECT_EQ(4 * kGranule, world.kept().pooled_bytes);
    EXPECT_EQ(4 * kGranule, world.kept().parked_bytes);
    mbr_range *empty = world.reserve(16 * kGranule);
    mbr_context_lose(world.context);
    uint64_t calls = world.fake.all_calls();
    EXPECT_EQ(MBR_OK, world.end(pooled));
    EXPECT_EQ(0u, mbr_backing_trim(world.backing, 0));
    EXPECT_EQ(0u, mbr_backing_evict(world.backing, UINT64_MAX));
    EXPECT_EQ(8 * kGranule, world.cached());
    mbr_context_confirm_end(world.context);
    mbr_backing_confirm_lost(world.backing, world.context);
    EXPECT_EQ(0u, world.cached());
    EXPECT_EQ(0u, world.books().mapped_bytes);
    EXPECT_EQ(MBR_OK, world.end(empty));
    EXPECT_EQ(MBR_OK, mbr_backing_audit(world.backing, nullptr));
    EXPECT_EQ(0u, mbr_backing_evict(world.backing, UINT64_MAX));
    EXPECT_EQ(calls, world.fake.all_calls()); /* I12 */
    world.fake.forget_all();
}

TEST(Loss, OfARangeInWhichAPlaceIsStuck_IsForgottenWholeWithTheConfirmation)
{
    Used world;
    mbr_range *range = world.reserve(8 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(range, 0, 2 * kGranule));
    world.fake.faults = {{Slot::kUnmap, 1, FaultKind::kRefuse, MBR_SYSTEM}};
    mbr_range_decommit_result result = {};
    result.struct_size = sizeof(result);
    ASSERT_EQ(MBR_OK, mbr_range_give_back(range, 0, kGranule, true, nullptr, 0, &result, nullptr));
    ASSERT_EQ(1u, world.kept().quarantined_count);
    mbr_context_lose(world.context);
    EXPECT_EQ(MBR_OK, world.end(range));
    mbr_context_confirm_end(world.context);
    mbr_backing_confirm_lost(world.backing, world.context);
    EXPECT_EQ(0u, world.kept().quarantined_count);
    EXPECT_EQ(0u, world.books().charged_bytes);
    EXPECT_EQ(nullptr, world.addresses.root);
    world.fake.forget_all();
}

} // namespace
} // namespace membrane
