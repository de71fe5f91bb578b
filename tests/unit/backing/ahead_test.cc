// What is mapped ahead of need: parked where nobody has been, paid by the cache, adopted without a
// call, bounded, the first to go; and every call of its making fails once.
#include "tests/unit/backing/world.h"

namespace membrane
{
namespace
{

class AheadWorld : public World
{
  public:
    explicit AheadWorld(uint64_t bound = 16 * kGranule, uint64_t limit = UINT64_C(64) << 20,
        uint64_t keep = UINT64_MAX)
        : World(limit, keep)
    {
        mbr_backing_set_ahead(backing, bound);
    }
    uint64_t stands() const { return kept().ahead_bytes; }
};

mbr_range_grow_result new_result()
{
    mbr_range_grow_result result = {};
    result.struct_size = sizeof(result);
    return result;
}

TEST(Ahead, IsParkedAndPaidByTheCache_UntilAGrowthAdoptsItWithoutACall)
{
    AheadWorld world;
    mbr_range *range = world.reserve(64 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(range, 0, 4 * kGranule));
    mbr_range_grow_result result = new_result();
    ASSERT_EQ(MBR_OK, world.ahead(range, 2 * kGranule, 6 * kGranule, &result));
    EXPECT_EQ(4 * kGranule, result.new_bytes); // what was missing
    EXPECT_EQ(4 * kGranule, world.stands());
    EXPECT_EQ(4 * kGranule, world.cached());
    EXPECT_EQ(4 * kGranule, world.mapped_by(mbr_backing_cache(world.backing)));
    EXPECT_EQ(4 * kGranule, world.charged(world.kv));
    EXPECT_FALSE(mbr_range_is_committed_to(range, 4 * kGranule + 1)); // not handed out
    EXPECT_EQ(4 * kGranule, world.figures(range).committed_bytes);
    EXPECT_EQ(4 * kGranule, world.figures(range).parked_bytes);
    EXPECT_TRUE(world.agree());

    uint64_t calls = world.fake.all_calls(), heap = world.heap.allocations;
    ASSERT_EQ(MBR_OK, world.grow(range, 4 * kGranule, 3 * kGranule, &result));
    EXPECT_EQ(calls, world.fake.all_calls());
    EXPECT_EQ(heap, world.heap.allocations);
    EXPECT_EQ(3 * kGranule, result.parked_bytes);
    EXPECT_EQ(static_cast<uint32_t>(MBR_CONTENT_ZERO), result.content); // as it was made
    EXPECT_EQ(kGranule, world.stands());
    EXPECT_EQ(7 * kGranule, world.charged(world.kv));
    EXPECT_EQ(7 * kGranule, world.mapped_by(world.kv));
    EXPECT_EQ(kGranule, world.cached());
    EXPECT_TRUE(world.agree());
    ASSERT_EQ(MBR_OK, world.end(range));
    EXPECT_EQ(0u, world.stands()); // cache like any other
    EXPECT_EQ(8 * kGranule, world.kept().parked_bytes);
    EXPECT_TRUE(world.agree());
}

TEST(Ahead, GrowthPastWhatStands_MakesTheRestAlone)
{
    AheadWorld world;
    mbr_range *range = world.reserve(64 * kGranule);
    ASSERT_EQ(MBR_OK, world.ahead(range, 0, 2 * kGranule));
    mbr_range_grow_result result = new_result();
    ASSERT_EQ(MBR_OK, world.grow(range, 0, 5 * kGranule, &result));
    EXPECT_EQ(2 * kGranule, result.parked_bytes);
    EXPECT_EQ(3 * kGranule, result.created_bytes);
    EXPECT_EQ(0u, world.stands());
    EXPECT_TRUE(world.agree());
    world.end(range);
}

TEST(Ahead, OverlappingPartsOfAnAdoption_CountOnce)
{
    AheadWorld world;
    mbr_range *range = world.reserve(64 * kGranule);
    ASSERT_EQ(MBR_OK, world.ahead(range, 0, 4 * kGranule));
    mbr_range_part parts[] = {{range, 0, 0, 3 * kGranule}, {range, 0, kGranule, 3 * kGranule}};
    mbr_range_grow_result result = new_result();
    mbr_grow_options options = {};
    options.holder = world.kv;
    options.parts = parts;
    options.part_count = 2;
    ASSERT_EQ(MBR_OK, mbr_backing_grow(world.backing, &options, &result, nullptr));
    EXPECT_EQ(4 * kGranule, result.parked_bytes);
    EXPECT_EQ(4 * kGranule, world.charged(world.kv));
    EXPECT_TRUE(world.agree());
    world.end(range);
}

TEST(Ahead, FromThePool_NeedsNoGrant)
{
    AheadWorld world;
    mbr_range *range = world.reserve(64 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(range, 0, 4 * kGranule));
    mbr_range_decommit_result left = {};
    left.struct_size = sizeof(left);
    ASSERT_EQ(MBR_OK,
        mbr_range_give_back(range, 2 * kGranule, 2 * kGranule, true, nullptr, 0, &left, nullptr));
    EXPECT_EQ(2 * kGranule, world.kept().pooled_bytes);
    mbr_range_grow_result result = new_result();
    ASSERT_EQ(MBR_OK, world.ahead(range, 2 * kGranule, 2 * kGranule, &result));
    EXPECT_EQ(2 * kGranule, result.pooled_bytes);
    EXPECT_EQ(4u, world.fake.calls(Slot::kCreate));
    EXPECT_EQ(0u, world.kept().pooled_bytes);
    EXPECT_EQ(2 * kGranule, world.cached());
    EXPECT_TRUE(world.agree());
    world.end(range);
}

/* I21: nothing that another group had stands in a range before it is filled. */
TEST(Ahead, MemoryOfAnotherGroup_IsNotTaken)
{
    AheadWorld world;
    mbr_range *first = world.reserve(8 * kGranule, {kGranule, kGranule, 0}, 0, 1);
    ASSERT_EQ(MBR_OK, world.grow(first, 0, 2 * kGranule));
    mbr_range_decommit_result left = {};
    left.struct_size = sizeof(left);
    ASSERT_EQ(
        MBR_OK, mbr_range_give_back(first, 0, 2 * kGranule, true, nullptr, 0, &left, nullptr));
    mbr_range *second = world.reserve(8 * kGranule, {kGranule, kGranule, 0}, 0, 2);
    mbr_range_grow_result result = new_result();
    ASSERT_EQ(MBR_OK, world.ahead(second, 0, 2 * kGranule, &result));
    EXPECT_EQ(2 * kGranule, result.created_bytes);
    EXPECT_EQ(2 * kGranule, world.kept().pooled_bytes);
    EXPECT_TRUE(world.agree());
    world.fake.fresh_content = MBR_CONTENT_UNDEFINED;
    EXPECT_EQ(MBR_UNSUPPORTED, world.ahead(second, 2 * kGranule, 2 * kGranule));
    uint64_t calls = world.fake.all_calls();
    EXPECT_EQ(MBR_UNSUPPORTED, world.ahead(second, 2 * kGranule, 2 * kGranule));
    EXPECT_EQ(calls, world.fake.all_calls()); // known from then on
    EXPECT_EQ(2 * kGranule, world.stands());
    EXPECT_TRUE(world.agree());
    world.end(first);
    world.end(second);
}

/* ---- Its bound, and what gives way to what --------------------------------------------------- */

TEST(Ahead, PastItsBound_IsRefusedWithTheFiguresAndChangesNothing)
{
    AheadWorld world(4 * kGranule);
    mbr_range *range = world.reserve(64 * kGranule);
    ASSERT_EQ(MBR_OK, world.ahead(range, 0, 3 * kGranule));
    mbr_error error = {};
    error.struct_size = sizeof(error);
    EXPECT_EQ(MBR_OVER_BUDGET, world.ahead(range, 3 * kGranule, 2 * kGranule, nullptr, &error));
    EXPECT_NE(nullptr, strstr(error.text, "8192 bytes more ahead of need, where 12288 stand"))
        << error.text;
    EXPECT_NE(nullptr, strstr(error.text, "ahead_bytes 16384")) << error.text;
    EXPECT_EQ(3 * kGranule, world.stands());
    EXPECT_TRUE(world.agree());
    EXPECT_EQ(MBR_OK, world.ahead(range, 3 * kGranule, kGranule));
    mbr_backing_set_ahead(world.backing, 0); // what stands is plain cache, and nothing more comes
    EXPECT_EQ(MBR_OVER_BUDGET, world.ahead(range, 4 * kGranule, kGranule));
    EXPECT_EQ(MBR_OK, world.grow(range, 0, 4 * kGranule));
    EXPECT_EQ(4u, world.fake.calls(Slot::kCreate));
    world.end(range);
}

TEST(Ahead, BoundThatIsLowered_WhatStandsAboveItIsCacheLikeAnyOther)
{
    AheadWorld world(16 * kGranule, UINT64_C(64) << 20, 0);
    mbr_range *first = world.reserve(64 * kGranule), *second = world.reserve(64 * kGranule);
    ASSERT_EQ(MBR_OK, world.ahead(first, 0, 2 * kGranule));
    ASSERT_EQ(MBR_OK, world.ahead(second, 0, 3 * kGranule));
    mbr_backing_set_ahead(world.backing, 5 * kGranule);
    EXPECT_EQ(5 * kGranule, world.stands());
    mbr_backing_set_ahead(world.backing, 4 * kGranule); // the first stands longest
    EXPECT_EQ(3 * kGranule, world.stands());
    EXPECT_EQ(3 * kGranule, world.cached()); // the watermark is 0
    EXPECT_EQ(3u, world.figures(second).parked_bytes / kGranule);
    mbr_backing_set_ahead(world.backing, 0);
    EXPECT_EQ(0u, world.stands());
    EXPECT_EQ(0u, world.fake.owned());
    EXPECT_TRUE(world.agree());
    world.end(first);
    world.end(second);
}

TEST(Ahead, UnderPressure_GoesBeforeThePoolAndBeforeParkedRanges)
{
    AheadWorld world;
    mbr_range *parked = world.reserve(32 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(parked, 0, 3 * kGranule));
    mbr_range *other = world.reserve(16 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(other, 0, 2 * kGranule));
    mbr_range_decommit_result left = {};
    left.struct_size = sizeof(left);
    ASSERT_EQ(
        MBR_OK, mbr_range_give_back(other, 0, 2 * kGranule, true, nullptr, 0, &left, nullptr));
    mbr_range *growing = world.reserve(64 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(growing, 0, kGranule)); // takes one of the pool
    ASSERT_EQ(MBR_OK, world.end(parked));
    ASSERT_EQ(MBR_OK, world.ahead(growing, kGranule, 4 * kGranule)); // and one more
    EXPECT_EQ(4 * kGranule, world.stands());
    EXPECT_EQ(2 * kGranule, mbr_backing_evict(world.backing, 2 * kGranule));
    EXPECT_EQ(2 * kGranule, world.stands());
    EXPECT_EQ(5 * kGranule, world.kept().parked_bytes);
    EXPECT_EQ(2 * kGranule, mbr_backing_evict(world.backing, 2 * kGranule));
    EXPECT_EQ(0u, world.stands());
    EXPECT_EQ(3 * kGranule, world.kept().parked_bytes);
    EXPECT_TRUE(world.agree());
    EXPECT_EQ(MBR_OK, world.grow(growing, kGranule, kGranule)); // nobody misses it
    world.end(growing);
    world.end(other);
}

/* The furthest goes first: what will be reached next stays longest. */
TEST(Ahead, UnderPressure_TheFurthestGoesFirst)
{
    AheadWorld world;
    mbr_range *range = world.reserve(64 * kGranule);
    ASSERT_EQ(MBR_OK, world.ahead(range, 0, 3 * kGranule));
    mbr_backing_evict(world.backing, kGranule);
    uint64_t calls = world.fake.all_calls();
    EXPECT_EQ(MBR_OK, world.grow(range, 0, 2 * kGranule));
    EXPECT_EQ(calls, world.fake.all_calls());
    world.end(range);
}

TEST(Ahead, GrowthOfAnother_GetsItInsteadOfARefusal)
{
    AheadWorld world(8 * kGranule, 8 * kGranule);
    mbr_range *one = world.reserve(64 * kGranule), *other = world.reserve(64 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(one, 0, 2 * kGranule));
    ASSERT_EQ(MBR_OK, world.ahead(one, 2 * kGranule, 6 * kGranule));
    ASSERT_EQ(MBR_OK, world.grow(other, 0, 5 * kGranule));
    EXPECT_EQ(kGranule, world.stands());
    EXPECT_EQ(7 * kGranule, world.charged(world.kv));
    EXPECT_TRUE(world.agree());
    world.end(one);
    world.end(other);
}

/* With memory to be had, nobody moves what another will reach next. */
TEST(Ahead, GrowthOfAnother_DoesNotStealIt)
{
    AheadWorld world;
    mbr_range *one = world.reserve(64 * kGranule), *other = world.reserve(64 * kGranule);
    ASSERT_EQ(MBR_OK, world.ahead(one, 0, 4 * kGranule));
    ASSERT_EQ(MBR_OK, world.grow(other, 0, 2 * kGranule));
    EXPECT_EQ(4 * kGranule, world.stands());
    EXPECT_EQ(0u, world.fake.calls(Slot::kUnmap));
    world.end(one);
    world.end(other);
}

TEST(Ahead, RefusedByTheBudget_PressesNobody)
{
    AheadWorld world(8 * kGranule, 8 * kGranule);
    mbr_range *parked = world.reserve(32 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(parked, 0, 4 * kGranule));
    ASSERT_EQ(MBR_OK, world.end(parked));
    mbr_range *range = world.reserve(64 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(range, 0, kGranule)); // steals one
    mbr_authority_figures before = world.books();
    EXPECT_EQ(MBR_OVER_BUDGET, world.ahead(range, kGranule, 8 * kGranule));
    mbr_authority_figures after = world.books();
    EXPECT_EQ(before.charged_bytes, after.charged_bytes);
    EXPECT_EQ(before.granted_bytes, after.granted_bytes);
    EXPECT_EQ(before.claimed_bytes, after.claimed_bytes);
    EXPECT_EQ(3 * kGranule, world.kept().parked_bytes); // the cache kept what it had
    EXPECT_TRUE(world.agree());
    world.end(range);
}

TEST(Ahead, BesideAWatermarkOfZero_StandsUntilItsRangeEnds)
{
    AheadWorld world(16 * kGranule, UINT64_C(64) << 20, 0);
    mbr_range *one = world.reserve(64 * kGranule), *other = world.reserve(32 * kGranule);
    ASSERT_EQ(MBR_OK, world.ahead(one, 0, 3 * kGranule));
    ASSERT_EQ(MBR_OK, world.grow(other, 0, 2 * kGranule));
    ASSERT_EQ(MBR_OK, world.end(other)); // above the watermark: all of it goes
    EXPECT_EQ(3 * kGranule, world.stands());
    EXPECT_EQ(3 * kGranule, world.cached());
    ASSERT_EQ(MBR_OK, world.end(one));
    EXPECT_EQ(0u, world.cached());
    EXPECT_EQ(0u, world.fake.owned());
    EXPECT_TRUE(world.agree());
}

TEST(Ahead, Trim_TakesItToo)
{
    AheadWorld world;
    mbr_range *range = world.reserve(64 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(range, 0, kGranule));
    ASSERT_EQ(MBR_OK, world.ahead(range, kGranule, 3 * kGranule));
    EXPECT_EQ(3 * kGranule, mbr_backing_trim(world.backing, 0));
    EXPECT_EQ(0u, world.stands());
    EXPECT_EQ(kGranule, world.fake.owned());
    EXPECT_TRUE(world.agree());
    world.end(range);
}

/* ---- Beside others --------------------------------------------------------------------------- */

const mbr_virtual_vtable *plain;
std::function<void()> meanwhile;

mbr_status map_meanwhile(
    mbr_instance *instance, const mbr_map_request *request, mbr_outcome *outcome, mbr_error *error)
{
    auto once = std::move(meanwhile);
    meanwhile = nullptr;
    if (once)
        once();
    return plain->map(instance, request, outcome, error);
}

TEST(Ahead, WhileItIsMapped_WhatStandsAlreadyIsAdoptedAndNothingIsWaitedFor)
{
    AheadWorld world;
    mbr_range *range = world.reserve(64 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(range, 0, kGranule));
    ASSERT_EQ(MBR_OK, world.ahead(range, kGranule, 2 * kGranule));
    plain = &world.fake.mechanism.virtual_;
    world.mechanism()->virtual_.map = map_meanwhile;
    mbr_status adopted = MBR_INTERNAL, another = MBR_INTERNAL;
    meanwhile = [&] {
        adopted = world.grow(range, kGranule, 2 * kGranule); // on this very thread: or never
        another = world.ahead(range, 6 * kGranule, kGranule);
    };
    EXPECT_EQ(MBR_OK, world.ahead(range, 3 * kGranule, 2 * kGranule));
    EXPECT_EQ(MBR_OK, adopted);
    EXPECT_EQ(MBR_BUSY, another);
    EXPECT_TRUE(mbr_range_is_committed_to(range, 3 * kGranule));
    EXPECT_EQ(2 * kGranule, world.stands());
    EXPECT_EQ(3 * kGranule, world.charged(world.kv));
    EXPECT_TRUE(world.agree());
    EXPECT_EQ(MBR_OK, world.grow(range, 3 * kGranule, 2 * kGranule));
    EXPECT_EQ(5u, world.fake.calls(Slot::kCreate));
    world.end(range);
}

TEST(Ahead, WhileItIsMapped_ItsBytesCountAgainstTheBound)
{
    AheadWorld world(4 * kGranule);
    mbr_range *range = world.reserve(64 * kGranule), *other = world.reserve(64 * kGranule);
    plain = &world.fake.mechanism.virtual_;
    world.mechanism()->virtual_.map = map_meanwhile;
    mbr_status above = MBR_INTERNAL, within = MBR_INTERNAL;
    meanwhile = [&] {
        above = world.ahead(other, 0, 2 * kGranule);
        within = world.ahead(other, 0, kGranule);
    };
    EXPECT_EQ(MBR_OK, world.ahead(range, 0, 3 * kGranule));
    EXPECT_EQ(MBR_OVER_BUDGET, above);
    EXPECT_EQ(MBR_OK, within);
    EXPECT_EQ(4 * kGranule, world.stands());
    // One that fails leaves its room to others.
    EXPECT_EQ(MBR_OK, world.grow(range, 0, 3 * kGranule));
    world.fake.faults.push_back(
        {Slot::kMap, world.fake.calls(Slot::kMap) + 2, FaultKind::kRefuse, MBR_OUT_OF_MAPPINGS});
    EXPECT_EQ(MBR_OUT_OF_MAPPINGS, world.ahead(range, 3 * kGranule, 3 * kGranule));
    EXPECT_EQ(MBR_OK, world.ahead(range, 3 * kGranule, 3 * kGranule));
    EXPECT_TRUE(world.agree());
    world.end(range);
    world.end(other);
}

TEST(Ahead, OfALostOrEndedRange_IsRefusedWithoutACall)
{
    AheadWorld world;
    mbr_range *range = world.reserve(64 * kGranule);
    ASSERT_EQ(MBR_OK, world.ahead(range, 0, 2 * kGranule));
    uint64_t calls = world.fake.all_calls();
    mbr_context_lose(world.context);
    EXPECT_EQ(MBR_DEVICE_LOST, world.ahead(range, 2 * kGranule, kGranule));
    EXPECT_EQ(MBR_DEVICE_LOST, world.grow(range, 0, kGranule)); // not adopted either
    EXPECT_EQ(calls, world.fake.all_calls());
    EXPECT_EQ(MBR_OK, world.end(range));
    EXPECT_EQ(MBR_STALE, world.ahead(range, 0, kGranule));
    EXPECT_EQ(0u, world.stands());
    EXPECT_TRUE(world.agree());
}

/* ---- Every call fails once ------------------------------------------------------------------- */

struct Books {
    uint64_t charged, granted, mapped, claimed, cached, stands;
    bool operator==(const Books &other) const
    {
        return std::memcmp(this, &other, sizeof(other)) == 0;
    }
};

Books books(const AheadWorld &world)
{
    mbr_authority_figures figures = world.books();
    return {figures.charged_bytes, figures.granted_bytes, figures.mapped_bytes,
        figures.claimed_bytes, world.cached(), world.stands()};
}

void sweep(Slot slot, FaultKind kind)
{
    for (uint64_t ordinal = 1; ordinal <= 5; ordinal++) {
        AheadWorld world;
        mbr_range *range = world.reserve(64 * kGranule);
        ASSERT_EQ(MBR_OK, world.ahead(range, 0, kGranule));
        Books before = books(world);
        world.fake.faults.push_back(
            {slot, world.fake.calls(slot) + ordinal, kind, MBR_OUT_OF_MAPPINGS});
        mbr_status status = world.ahead(range, kGranule, 4 * kGranule);
        bool met = world.fake.faults_met() != 0;
        world.fake.faults.clear();
        EXPECT_EQ(met, status != MBR_OK) << "ordinal " << ordinal;
        EXPECT_TRUE(status == MBR_OK || status == MBR_RESIDUAL || before == books(world))
            << "ordinal " << ordinal;
        EXPECT_TRUE(world.agree()) << "ordinal " << ordinal;
        mbr_backing_trim(world.backing, UINT64_MAX); // tries once more what was refused
        bool left = world.kept().quarantined_count != 0;
        EXPECT_FALSE(left && kind == FaultKind::kRefuse);
        EXPECT_TRUE(left || world.grow(range, 0, 5 * kGranule) == MBR_OK);
        world.leaks = left;
        EXPECT_EQ(MBR_OK, world.end(range));
        EXPECT_TRUE(world.agree()) << "ordinal " << ordinal;
    }
}

TEST(AheadFaults, Create)
{
    sweep(Slot::kCreate, FaultKind::kRefuse);
}
TEST(AheadFaults, CreateLeavesBytes)
{
    sweep(Slot::kCreate, FaultKind::kPartial);
}
TEST(AheadFaults, Map)
{
    sweep(Slot::kMap, FaultKind::kRefuse);
}
TEST(AheadFaults, MapLeavesItMapped)
{
    sweep(Slot::kMap, FaultKind::kPartial);
}
TEST(AheadFaults, MapNobodyKnows)
{
    sweep(Slot::kMap, FaultKind::kQuarantine);
}
TEST(AheadFaults, Protect)
{
    sweep(Slot::kProtect, FaultKind::kRefuse);
}

TEST(AheadFaults, UnmapUnderPressure_TheOthersGoAndItIsTriedAgain)
{
    AheadWorld world;
    mbr_range *range = world.reserve(64 * kGranule);
    ASSERT_EQ(MBR_OK, world.ahead(range, 0, 4 * kGranule));
    world.fake.faults.push_back({Slot::kUnmap, world.fake.calls(Slot::kUnmap) + 1});
    EXPECT_EQ(3 * kGranule, mbr_backing_evict(world.backing, 4 * kGranule));
    EXPECT_EQ(0u, world.stands());
    EXPECT_EQ(1u, world.kept().quarantined_count);
    EXPECT_TRUE(world.agree());
    world.fake.faults.clear();
    mbr_backing_trim(world.backing, 0);
    EXPECT_EQ(0u, world.kept().quarantined_count);
    EXPECT_EQ(0u, world.fake.owned());
    EXPECT_TRUE(world.agree());
    world.end(range);
}

TEST(AheadFaults, HeapFailsAtEachCall_EverythingHolds)
{
    for (uint64_t ordinal = 1;; ordinal++) {
        AheadWorld world;
        mbr_range *range = world.reserve(64 * kGranule);
        Books before = books(world);
        world.heap.fail_at = world.heap.allocations + ordinal;
        mbr_status status = world.ahead(range, 0, 4 * kGranule);
        bool met = world.heap.allocations >= world.heap.fail_at;
        world.heap.fail_at = 0;
        EXPECT_EQ(met ? MBR_OUT_OF_HOST_MEMORY : MBR_OK, status);
        EXPECT_TRUE(!met || before == books(world));
        EXPECT_TRUE(world.agree());
        world.end(range);
        if (!met)
            break;
        ASSERT_LT(ordinal, 100u);
    }
}

} // namespace
} // namespace membrane
