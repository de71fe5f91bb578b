// Growing ranges: addresses and contents stay, sources in the right order, refusals change nothing
// (I5, I6, I7, I9), and every fallible call fails once.
#include "tests/unit/backing/world.h"

#include <vector>

namespace membrane
{
namespace
{

struct Books {
    uint64_t charged, granted, mapped, claimed, cached, kv;
    bool operator==(const Books &other) const
    {
        return charged == other.charged && granted == other.granted && mapped == other.mapped &&
            claimed == other.claimed && cached == other.cached && kv == other.kv;
    }
};

Books books(const World &world)
{
    mbr_authority_figures figures = world.books();
    return {figures.charged_bytes, figures.granted_bytes, figures.mapped_bytes,
        figures.claimed_bytes, world.cached(), world.charged(world.kv)};
}

TEST(Grow, FirstBytes_CommitsWholeExtentsAndChargesTheHolder)
{
    World world;
    mbr_range *range = world.reserve(64 * kGranule);
    ASSERT_NE(nullptr, range);
    EXPECT_EQ(0u, world.fake.owned());
    EXPECT_FALSE(mbr_range_is_committed_to(range, 1));
    mbr_range_grow_result result = {};
    result.struct_size = sizeof(result);
    ASSERT_EQ(MBR_OK, world.grow(range, 0, 3 * kGranule + 1, &result));
    EXPECT_EQ(4 * kGranule, result.new_bytes);
    EXPECT_EQ(4 * kGranule, result.created_bytes);
    EXPECT_EQ(static_cast<uint32_t>(MBR_CONTENT_ZERO), result.content);
    EXPECT_EQ(4 * kGranule, world.charged(world.kv));
    EXPECT_EQ(4 * kGranule, world.mapped_by(world.kv));
    EXPECT_TRUE(mbr_range_is_committed_to(range, 4 * kGranule));
    EXPECT_FALSE(mbr_range_is_committed_to(range, 4 * kGranule + 1));
    EXPECT_EQ(static_cast<uint32_t>(MBR_ACCESS_READ_WRITE),
        world.fake.access_at(mbr_range_address(range) + 3 * kGranule));
    EXPECT_TRUE(world.agree());
    EXPECT_EQ(MBR_OK, world.end(range));
    EXPECT_EQ(0u, world.charged(world.kv));
    EXPECT_TRUE(world.agree());
}

TEST(Grow, CommittedAlready_MakesNoCall)
{
    World world;
    mbr_range *range = world.reserve(64 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(range, 0, 8 * kGranule));
    uint64_t calls = world.fake.all_calls();
    mbr_range_grow_result result = {};
    result.struct_size = sizeof(result);
    ASSERT_EQ(MBR_OK, world.grow(range, kGranule, 2 * kGranule, &result));
    EXPECT_EQ(0u, result.new_bytes);
    EXPECT_EQ(calls, world.fake.all_calls());
    world.end(range);
}

TEST(Grow, ParkedExtents_AreAdoptedWithoutACall)
{
    World world;
    mbr_range *first = world.reserve(64 * kGranule);
    uint64_t address = mbr_range_address(first);
    ASSERT_EQ(MBR_OK, world.grow(first, 0, 8 * kGranule));
    world.end(first);
    EXPECT_EQ(8 * kGranule, world.cached());
    EXPECT_EQ(8 * kGranule, world.kept().parked_bytes);
    uint64_t calls = world.fake.all_calls();
    mbr_range *second = world.reserve(64 * kGranule);
    EXPECT_EQ(address, mbr_range_address(second));
    EXPECT_EQ(0u, world.figures(second).committed_bytes);
    mbr_range_grow_result result = {};
    result.struct_size = sizeof(result);
    ASSERT_EQ(MBR_OK, world.grow(second, 0, 5 * kGranule, &result));
    EXPECT_EQ(calls, world.fake.all_calls());
    EXPECT_EQ(5 * kGranule, result.parked_bytes);
    EXPECT_EQ(static_cast<uint32_t>(MBR_CONTENT_STALE), result.content);
    EXPECT_EQ(5 * kGranule, world.charged(world.kv));
    EXPECT_EQ(3 * kGranule, world.cached());
    EXPECT_TRUE(world.agree());
    world.end(second);
}

TEST(Grow, OtherShape_StealsParkedExtentsOfTheSameSize)
{
    World world;
    mbr_range *first = world.reserve(64 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(first, 0, 8 * kGranule));
    world.end(first);
    mbr_range *other = world.reserve(32 * kGranule);
    mbr_range_grow_result result = {};
    result.struct_size = sizeof(result);
    ASSERT_EQ(MBR_OK, world.grow(other, 0, 8 * kGranule, &result));
    EXPECT_EQ(8 * kGranule, result.pooled_bytes);
    EXPECT_EQ(8u, world.fake.calls(Slot::kCreate));
    EXPECT_EQ(8 * kGranule, world.fake.owned());
    EXPECT_TRUE(world.agree());
    world.end(other);
}

TEST(Grow, OverTheLimit_ChangesNoFigureAndSaysWhatWouldFit)
{
    World world(10 * kGranule);
    mbr_range *range = world.reserve(64 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(range, 0, 6 * kGranule));
    Books before = books(world);
    mbr_error error = {};
    error.struct_size = sizeof(error);
    EXPECT_EQ(MBR_OVER_BUDGET, world.grow(range, 6 * kGranule, 5 * kGranule, nullptr, &error));
    EXPECT_NE(nullptr, std::strstr(error.text, "limit"));
    EXPECT_TRUE(before == books(world));
    EXPECT_TRUE(mbr_range_is_committed_to(range, 6 * kGranule));
    EXPECT_EQ(MBR_OK, world.grow(range, 6 * kGranule, 4 * kGranule)); /* exactly the limit */
    EXPECT_TRUE(world.agree());
    world.end(range);
}

TEST(Grow, OverTheLimit_ARefusalOfAnySizeIsWrittenToItsEndAndDecidesNothing)
{
    for (uint32_t room = 0; room <= sizeof(mbr_refusal); room += 4) {
        World world(10 * kGranule);
        mbr_range *parked = world.reserve(64 * kGranule);
        ASSERT_EQ(MBR_OK, world.grow(parked, 0, 4 * kGranule));
        world.end(parked);
        mbr_range *range = world.reserve(64 * kGranule, {2 * kGranule, 2 * kGranule, 0});
        std::vector<unsigned char> memory(sizeof(mbr_refusal) + 64, 0xA5);
        auto *refusal = reinterpret_cast<mbr_refusal *>(memory.data());
        refusal->struct_size = room;
        mbr_grow_options options = {};
        options.refusal = refusal;
        EXPECT_EQ(MBR_OVER_BUDGET, world.grow_with(options, {range, 0, 0, 12 * kGranule}));
        EXPECT_EQ(4 * kGranule, world.cached()) << "what cannot suffice is not asked of the cache";
        EXPECT_EQ(room, refusal->struct_size);
        if (room >= offsetof(mbr_refusal, asked_bytes) + sizeof(refusal->asked_bytes)) {
            EXPECT_EQ(12 * kGranule, refusal->asked_bytes);
        }
        for (size_t i = std::max<size_t>(room, sizeof(room)); i < memory.size(); i++)
            ASSERT_EQ(0xA5, memory[i]) << "byte " << i << " of " << room;
        EXPECT_EQ(MBR_OK, world.grow_with(options, {range, 0, 0, 10 * kGranule}))
            << "the cache gives what is missing, whatever the caller's struct holds";
        EXPECT_TRUE(world.agree());
        world.end(range);
    }
}

TEST(Grow, CachedBytesInTheWay_AreGivenBackFirst)
{
    World world(10 * kGranule);
    mbr_range *parked = world.reserve(64 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(parked, 0, 6 * kGranule));
    world.end(parked);
    /* Two granules an extent: nothing cached fits, and 10 are asked for while 6 are cached. */
    mbr_range *range = world.reserve(64 * kGranule, {2 * kGranule, 2 * kGranule, 0});
    ASSERT_EQ(MBR_OK, world.grow(range, 0, 10 * kGranule));
    EXPECT_EQ(10 * kGranule, world.charged(world.kv));
    EXPECT_EQ(0u, world.cached());
    EXPECT_TRUE(world.agree());
    world.end(range);
}

TEST(Grow, CacheOfMixedUse_SufficesExactly)
{
    World world(16 * kGranule);
    mbr_range *a = world.reserve(64 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(a, 0, 8 * kGranule));
    world.end(a);
    mbr_range *b = world.reserve(64 * kGranule, {2 * kGranule, 2 * kGranule, 0});
    ASSERT_EQ(MBR_OK, world.grow(b, 0, 8 * kGranule));
    world.end(b);
    /* All 16 are cached; 8 fit in place, 8 more must be made from what the other shape gives back.
     */
    mbr_range *c = world.reserve(64 * kGranule);
    EXPECT_EQ(MBR_OK, world.grow(c, 0, 16 * kGranule));
    EXPECT_TRUE(world.agree());
    world.end(c);
}

TEST(Grow, PublishRefuses_UndoesAll)
{
    World world;
    mbr_range *range = world.reserve(64 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(range, 0, 2 * kGranule));
    Books before = books(world);
    mbr_grow_options options = {};
    options.publish = [](void *) -> mbr_status { return MBR_NOT_READY; };
    mbr_range_grow_result result = {};
    result.struct_size = sizeof(result);
    EXPECT_EQ(MBR_NOT_READY, world.grow_with(options, {range, 0, 0, 9 * kGranule}, &result));
    EXPECT_EQ(0u, result.new_bytes);
    EXPECT_TRUE(before == books(world));
    EXPECT_TRUE(mbr_range_is_committed_to(range, 2 * kGranule));
    EXPECT_FALSE(mbr_range_is_committed_to(range, 2 * kGranule + 1));
    EXPECT_TRUE(world.agree());
    world.end(range);
}

TEST(Grow, SeveralRanges_AllOrNone)
{
    World world(12 * kGranule);
    mbr_range *ranges[3];
    std::vector<mbr_range_part> parts;
    for (auto &range : ranges) {
        range = world.reserve(16 * kGranule);
        parts.push_back({range, 0, 0, 4 * kGranule});
    }
    mbr_grow_options options = {};
    options.holder = world.kv;
    options.parts = parts.data();
    options.part_count = 3;
    mbr_range_grow_result result = {};
    result.struct_size = sizeof(result);
    ASSERT_EQ(MBR_OK, mbr_backing_grow(world.backing, &options, &result, nullptr));
    EXPECT_EQ(12 * kGranule, result.new_bytes);
    for (auto &part : parts)
        part.bytes = 5 * kGranule;
    EXPECT_EQ(MBR_OVER_BUDGET, mbr_backing_grow(world.backing, &options, &result, nullptr));
    for (auto *range : ranges) {
        EXPECT_TRUE(mbr_range_is_committed_to(range, 4 * kGranule));
        EXPECT_FALSE(mbr_range_is_committed_to(range, 4 * kGranule + 1));
        world.end(range);
    }
    EXPECT_TRUE(world.agree());
}

TEST(Grow, OverlappingPieces_CountOnce)
{
    World world;
    mbr_range *range = world.reserve(64 * kGranule);
    mbr_range_part parts[] = {{range, 0, 0, 4 * kGranule}, {range, 0, 2 * kGranule, 4 * kGranule}};
    mbr_grow_options options = {};
    options.holder = world.kv;
    options.parts = parts;
    options.part_count = 2;
    mbr_range_grow_result result = {};
    result.struct_size = sizeof(result);
    ASSERT_EQ(MBR_OK, mbr_backing_grow(world.backing, &options, &result, nullptr));
    EXPECT_EQ(6 * kGranule, result.new_bytes);
    EXPECT_TRUE(world.agree());
    world.end(range);
}

TEST(Grow, BadPieces_AreRefusedWithTheValue)
{
    World world;
    mbr_range *range = world.reserve(64 * kGranule);
    mbr_error error = {};
    error.struct_size = sizeof(error);
    EXPECT_EQ(MBR_OUT_OF_RANGE, world.grow(range, 64 * kGranule, 1, nullptr, &error));
    EXPECT_EQ(MBR_OUT_OF_RANGE, world.grow(range, UINT64_MAX - 10, 100, nullptr, &error));
    EXPECT_EQ(MBR_OUT_OF_RANGE, world.grow(range, 0, UINT64_MAX, nullptr, &error));
    world.end(range);
    EXPECT_EQ(MBR_STALE, world.grow(range, 0, 1, nullptr, &error));
    EXPECT_EQ(nullptr, world.reserve(UINT64_MAX - 11, {kGranule, kGranule, 0}, 0, 0, &error));
    EXPECT_EQ(nullptr, world.reserve(1, {kGranule + 1, kGranule, 0}, 0, 0, &error));
    EXPECT_EQ(MBR_MISALIGNED, error.status);
    EXPECT_TRUE(world.agree());
}

TEST(Grow, ExtentsByOffset_FollowTheRule)
{
    World world(UINT64_C(256) << 20);
    mbr_range *range = world.reserve(4096 * kGranule, {kGranule, 64 * kGranule, 16});
    ASSERT_EQ(MBR_OK, world.grow(range, 0, 4096 * kGranule));
    EXPECT_EQ(160u, world.fake.extents()); /* what a loop over the rule of the geometry gives */
    EXPECT_EQ(4096 * kGranule, world.fake.owned());
    EXPECT_TRUE(world.agree());
    world.end(range);
}

TEST(Grow, ChangedIsolationGroup_IsNeverAdoptedInPlace)
{
    World world;
    mbr_range *first = world.reserve(64 * kGranule, {kGranule, kGranule, 0}, 0, 1);
    ASSERT_EQ(MBR_OK, world.grow(first, 0, 4 * kGranule));
    world.end(first);
    mbr_range *second = world.reserve(64 * kGranule, {kGranule, kGranule, 0}, 0, 2);
    EXPECT_EQ(0u, world.figures(second).parked_bytes);
    mbr_error error = {};
    error.struct_size = sizeof(error);
    /* The extents would have to be filled, and there is neither stream nor host access. */
    EXPECT_EQ(MBR_INVALID_ARGUMENT, world.grow(second, 0, 4 * kGranule, nullptr, &error));
    EXPECT_TRUE(world.agree());
    world.end(second);
}

TEST(Grow, FreshMemoryThatIsNotZero_IsFilledOnceThereAreTwoGroups)
{
    World world;
    world.fake.fresh_content = MBR_CONTENT_UNDEFINED;
    mbr_range_grow_result result = {};
    result.struct_size = sizeof(result);
    mbr_range *first = world.reserve(64 * kGranule, {kGranule, kGranule, 0}, 0, 7);
    ASSERT_EQ(MBR_OK, world.grow(first, 0, 4 * kGranule, &result));
    EXPECT_EQ(static_cast<uint32_t>(MBR_CONTENT_UNDEFINED), result.content);
    mbr_range *again = world.reserve(32 * kGranule, {kGranule, kGranule, 0}, 0, 7);
    EXPECT_EQ(MBR_OK, world.grow(again, 0, kGranule)) << "one group has nothing to fear";
    mbr_range *second = world.reserve(64 * kGranule, {kGranule, kGranule, 0}, 0, 8);
    /* It would have to be filled, and there is neither stream nor host access. */
    EXPECT_EQ(MBR_INVALID_ARGUMENT, world.grow(second, 0, kGranule));
    mbr_grow_options options = {};
    options.stream_id = world.stream;
    uint64_t fills = world.line.fill_count;
    EXPECT_EQ(MBR_OK, world.grow_with(options, {second, 0, 0, 2 * kGranule}, &result));
    EXPECT_EQ(fills + 2, world.line.fill_count);
    EXPECT_EQ(static_cast<uint32_t>(MBR_CONTENT_ZERO), result.content);
    EXPECT_TRUE(world.agree());
    for (mbr_range *range : {first, again, second})
        world.end(range);
}

// Authorities have a backing each, over the one memory of the plugin.
TEST(Grow, FreshMemoryThatIsNotZero_IsFilledWhereTheOtherGroupIsUnderAnotherAuthority)
{
    World world;
    world.fake.fresh_content = MBR_CONTENT_UNDEFINED;
    mbr_range *first = world.reserve(64 * kGranule, {kGranule, kGranule, 0}, 0, 7);
    ASSERT_EQ(MBR_OK, world.grow(first, 0, 4 * kGranule));
    world.end(first);
    mbr_backing_trim(world.backing, 0); /* what the group wrote is the plugin's */
    mbr_error error = {};
    error.struct_size = sizeof(error);
    mbr_authority *second;
    mbr_authority_options authority = {
        "second", MBR_TIER_HOST, UINT64_C(64) << 20, nullptr, 0, nullptr};
    ASSERT_EQ(MBR_OK, mbr_authority_create(world.governor, &authority, &second, &error));
    mbr_holder *payer;
    mbr_holder_options holder = {"kv", MBR_ROLE_KV, MBR_NO_ALLOWANCE, false, {}};
    ASSERT_EQ(MBR_OK, mbr_holder_create(second, &holder, &payer, &error));
    mbr_backing *backing;
    mbr_backing_options beside = {
        world.port, second, "cache", UINT64_MAX, &world.heap.heap, UINT64_C(1000000000), 0};
    ASSERT_EQ(MBR_OK, mbr_backing_create(&beside, &backing, &error)) << error.text;
    mbr_range_options wanted = {};
    wanted.context = world.context;
    wanted.bytes = 64 * kGranule;
    wanted.growth = {kGranule, kGranule, 0};
    wanted.isolation_group = 8;
    mbr_range *range;
    ASSERT_EQ(MBR_OK, mbr_backing_reserve(backing, &wanted, &range, &error)) << error.text;
    mbr_range_part part = {range, 0, 0, 2 * kGranule};
    mbr_grow_options options = {};
    options.holder = payer;
    options.stream_id = world.stream;
    options.parts = &part;
    options.part_count = 1;
    mbr_range_grow_result result = {};
    result.struct_size = sizeof(result);
    uint64_t fills = world.line.fill_count;
    EXPECT_EQ(MBR_OK, mbr_backing_grow(backing, &options, &result, &error)) << error.text;
    EXPECT_EQ(fills + 2, world.line.fill_count);
    EXPECT_EQ(static_cast<uint32_t>(MBR_CONTENT_ZERO), result.content);
    world.end(range);
    EXPECT_EQ(MBR_OK, mbr_backing_destroy(backing, &error)) << error.text;
    EXPECT_EQ(MBR_OK, mbr_holder_destroy(payer, &error)) << error.text;
    EXPECT_EQ(MBR_OK, mbr_authority_destroy(second, &error)) << error.text;
}

/* ---- Every fallible call fails once ---------------------------------------------------------- */

/* A scenario with every source: parked in place, pool, stolen, created; then a decommit and an end.
 */
mbr_status scenario(World &world, bool *clean)
{
    mbr_range *parked = world.reserve(32 * kGranule);
    if (parked == nullptr)
        return MBR_OUT_OF_ADDRESSES;
    mbr_status status = world.grow(parked, 0, 6 * kGranule);
    world.end(parked);
    mbr_range *other = world.reserve(16 * kGranule);
    if (other == nullptr)
        return MBR_OUT_OF_ADDRESSES;
    if (status == MBR_OK)
        status = world.grow(other, 0, 3 * kGranule); /* steals three */
    mbr_range *range = world.reserve(32 * kGranule); /* adopts the rest */
    if (range == nullptr) {
        world.end(other);
        return MBR_OUT_OF_ADDRESSES;
    }
    Books before = books(world);
    if (status == MBR_OK) {
        status = world.grow(range, 0, 8 * kGranule);
        if (status != MBR_OK && status != MBR_RESIDUAL)
            *clean = *clean && before == books(world);
    }
    if (status == MBR_OK) {
        mbr_range_decommit_result decommitted = {};
        decommitted.struct_size = sizeof(decommitted);
        status = mbr_range_give_back(
            range, 2 * kGranule, 3 * kGranule, true, nullptr, 0, &decommitted, nullptr);
    }
    world.end(range);
    world.end(other);
    return status;
}

void sweep(Slot slot, FaultKind kind, bool sticky)
{
    for (uint64_t ordinal = 1;; ordinal++) {
        World world(UINT64_C(1) << 20);
        world.leaks = true; /* decided below */
        Fault fault = {slot, ordinal, kind, MBR_OUT_OF_MAPPINGS, sticky};
        world.fake.faults.push_back(fault);
        bool clean = true;
        scenario(world, &clean);
        mbr_backing_evict(world.backing, UINT64_MAX);
        bool met = world.fake.faults_met() != 0;
        EXPECT_TRUE(clean) << "slot " << static_cast<int>(slot) << " ordinal " << ordinal;
        EXPECT_TRUE(world.agree()) << "slot " << static_cast<int>(slot) << " ordinal " << ordinal;
        world.fake.faults.clear();
        uint64_t owned = world.fake.owned();
        uint64_t released = mbr_backing_trim(world.backing, 0);
        EXPECT_EQ(released, owned - world.fake.owned());
        EXPECT_TRUE(world.agree());
        bool left = world.kept().quarantined_count + world.kept().extent_count != 0;
        EXPECT_FALSE(left && kind == FaultKind::kRefuse) << "what is refused is tried again";
        EXPECT_FALSE(left && slot == Slot::kCreate) << "what was made in part is destroyed";
        mbr_status again = scenario(world, &clean);
        EXPECT_EQ(MBR_OK, again) << "after slot " << static_cast<int>(slot) << " " << ordinal;
        EXPECT_TRUE(world.agree());
        world.leaks = left;
        if (!met)
            return;
        ASSERT_LT(ordinal, 100u);
    }
}

TEST(GrowFaults, Reserve)
{
    sweep(Slot::kReserve, FaultKind::kRefuse, false);
}
TEST(GrowFaults, CreateOnce)
{
    sweep(Slot::kCreate, FaultKind::kRefuse, false);
}
TEST(GrowFaults, CreateForGood)
{
    sweep(Slot::kCreate, FaultKind::kRefuse, true);
}
TEST(GrowFaults, CreateLeavesBytes)
{
    sweep(Slot::kCreate, FaultKind::kPartial, false);
}
TEST(GrowFaults, MapOnce)
{
    sweep(Slot::kMap, FaultKind::kRefuse, false);
}
TEST(GrowFaults, MapForGood)
{
    sweep(Slot::kMap, FaultKind::kRefuse, true);
}
TEST(GrowFaults, MapLeavesItMapped)
{
    sweep(Slot::kMap, FaultKind::kPartial, false);
}
TEST(GrowFaults, MapNobodyKnows)
{
    sweep(Slot::kMap, FaultKind::kQuarantine, false);
}
TEST(GrowFaults, MapIllegalPair)
{
    sweep(Slot::kMap, FaultKind::kIllegalPair, false);
}
TEST(GrowFaults, ProtectOnce)
{
    sweep(Slot::kProtect, FaultKind::kRefuse, false);
}
TEST(GrowFaults, ProtectForGood)
{
    sweep(Slot::kProtect, FaultKind::kRefuse, true);
}
TEST(GrowFaults, UnmapOnce)
{
    sweep(Slot::kUnmap, FaultKind::kRefuse, false);
}
TEST(GrowFaults, UnmapForGood)
{
    sweep(Slot::kUnmap, FaultKind::kRefuse, true);
}
TEST(GrowFaults, DestroyOnce)
{
    sweep(Slot::kDestroy, FaultKind::kRefuse, false);
}
TEST(GrowFaults, DestroyForGood)
{
    sweep(Slot::kDestroy, FaultKind::kRefuse, true);
}

TEST(GrowFaults, ProtectAndItsUndo_LeaveAChargedResidual)
{
    World world; /* whose end tries the unmap once more */
    mbr_range *range = world.reserve(32 * kGranule);
    world.fake.faults.push_back({Slot::kProtect, 1});
    world.fake.faults.push_back({Slot::kUnmap, 1});
    mbr_range_grow_result result = {};
    result.struct_size = sizeof(result);
    mbr_error error = {};
    error.struct_size = sizeof(error);
    EXPECT_EQ(MBR_RESIDUAL, world.grow(range, 0, 3 * kGranule, &result, &error));
    EXPECT_EQ(kGranule, result.residual_bytes);
    EXPECT_EQ(kGranule, world.charged(world.kv));
    EXPECT_EQ(kGranule, world.books().quarantined_bytes);
    EXPECT_TRUE(world.agree());
    world.fake.faults.clear();
    EXPECT_EQ(
        MBR_BUSY, world.grow(range, 0, 3 * kGranule)); /* the stuck place is never used again */
    EXPECT_EQ(MBR_OK, world.grow(range, 0, 2 * kGranule));
    EXPECT_TRUE(world.agree());
    world.end(range);
    EXPECT_TRUE(world.agree());
}

TEST(GrowFaults, HeapFailsAtEachCall_EverythingHolds)
{
    for (uint64_t at = 1;; at++) {
        World world(UINT64_C(1) << 20);
        uint64_t made = world.heap.allocations;
        world.heap.fail_at = made + at;
        bool clean = true;
        mbr_status status = scenario(world, &clean);
        bool met = world.heap.allocations >= made + at;
        EXPECT_TRUE(clean) << at;
        EXPECT_TRUE(world.agree()) << at;
        world.heap.fail_at = 0;
        EXPECT_EQ(MBR_OK, scenario(world, &clean)) << at;
        EXPECT_TRUE(world.agree()) << at;
        if (!met) {
            EXPECT_EQ(MBR_OK, status);
            return;
        }
    }
}

} // namespace
} // namespace membrane
