// Which extents leave first when the cache gives some back.
#include "tests/unit/backing/world.h"

namespace membrane
{
namespace
{

void decommit(mbr_range *range, uint64_t bytes)
{
    mbr_range_decommit_result result = {};
    result.struct_size = sizeof(result);
    ASSERT_EQ(MBR_OK, mbr_range_give_back(range, 0, bytes, true, nullptr, 0, &result, nullptr));
    ASSERT_EQ(bytes, result.decommitted_bytes);
}

TEST(Evict, PoolOfSeveralSizes_GivesWhatWasPutThereFirst)
{
    World world;
    mbr_range *small = world.reserve(8 * kGranule);
    mbr_range *large = world.reserve(32 * kGranule, {4 * kGranule, 4 * kGranule, 0});
    ASSERT_EQ(MBR_OK, world.grow(small, 0, kGranule));
    ASSERT_EQ(MBR_OK, world.grow(large, 0, 4 * kGranule));
    decommit(small, kGranule);
    decommit(large, 4 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(small, 0, kGranule)); /* and back: it is the warmer one now */
    decommit(small, kGranule);
    ASSERT_EQ(5 * kGranule, world.kept().pooled_bytes);
    EXPECT_EQ(4 * kGranule, mbr_backing_evict(world.backing, 1));
    EXPECT_EQ(kGranule, mbr_backing_evict(world.backing, 1));
    EXPECT_EQ(0u, mbr_backing_evict(world.backing, 1));
    EXPECT_EQ(MBR_OK, world.end(small));
    EXPECT_EQ(MBR_OK, world.end(large));
    EXPECT_TRUE(world.agree());
}

mbr_range *reserve_for(World &world, uint64_t expected_bytes, uint32_t flags = 0)
{
    mbr_range_options options = {};
    options.context = world.context;
    options.bytes = 16 * kGranule;
    options.growth = {kGranule, kGranule, 0};
    options.expected_bytes = expected_bytes;
    options.flags = flags;
    mbr_range *range = nullptr;
    EXPECT_EQ(MBR_OK, mbr_backing_reserve(world.backing, &options, &range, nullptr));
    return range;
}

TEST(Evict, CachedRangesOfOneShape_TheOneOfBestFitIsTaken)
{
    World world;
    mbr_range *ranges[4];
    const uint64_t parked[4] = {6, 2, 10, 0}; /* in granules; the last is the warmest */
    for (mbr_range *&range : ranges)
        range = world.reserve(16 * kGranule);
    for (int i = 0; i < 4; i++)
        ASSERT_EQ(MBR_OK, world.grow(ranges[i], 0, parked[i] * kGranule));
    for (mbr_range *range : ranges)
        ASSERT_EQ(MBR_OK, world.end(range));
    const struct {
        uint64_t expected, flags, parked;
    } rows[] = {
        {0, 0, 10}, // the warmest that has some
        {1, 0, 2},  // the least that is enough
        {2, 0, 2},
        {3, 0, 6},
        {7, 0, 10},
        {11, 0, 10}, // none is enough: the most
        {3, MBR_RANGE_UNPARKED, 0},
    };
    for (const auto &row : rows) {
        SCOPED_TRACE(row.expected);
        mbr_range *taken =
            reserve_for(world, row.expected * kGranule, static_cast<uint32_t>(row.flags));
        EXPECT_EQ(row.parked * kGranule, world.figures(taken).parked_bytes);
        ASSERT_EQ(MBR_OK, world.end(taken)); /* now the warmest */
    }
    EXPECT_EQ(4u, world.fake.calls(Slot::kReserve));
    EXPECT_TRUE(world.agree());
}

// Two ended ranges of one shape: one with four parked extents, one with nothing.
void end_two(World &world)
{
    mbr_range *parked = world.reserve(8 * kGranule);
    mbr_range *idle = world.reserve(8 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(parked, 0, 4 * kGranule));
    ASSERT_EQ(MBR_OK, world.end(parked));
    ASSERT_EQ(MBR_OK, world.end(idle));
    ASSERT_EQ(2u, world.kept().cached_range_count);
    ASSERT_EQ(4 * kGranule, world.kept().parked_bytes);
    world.fake.reset_calls();
}

TEST(Evict, ReserveWithoutAddresses_GetsThoseOfCachedRanges)
{
    for (mbr_status status : {MBR_OUT_OF_ADDRESSES, MBR_OUT_OF_MAPPINGS}) {
        World world;
        end_two(world);
        world.fake.faults = {{Slot::kReserve, 1, FaultKind::kRefuse, status}};
        mbr_range *other = world.reserve(16 * kGranule); // of no cached shape
        ASSERT_NE(nullptr, other);
        EXPECT_EQ(2u, world.fake.calls(Slot::kReserve));
        EXPECT_EQ(2u, world.fake.calls(Slot::kUnreserve));
        EXPECT_EQ(0u, world.kept().cached_range_count);
        EXPECT_EQ(4 * kGranule, world.kept().pooled_bytes); // the memory is kept
        EXPECT_EQ(MBR_OK, world.grow(other, 0, 4 * kGranule));
        EXPECT_EQ(0u, world.fake.calls(Slot::kCreate));
        EXPECT_EQ(MBR_OK, world.end(other));
        EXPECT_TRUE(world.agree());
    }
}

TEST(Evict, ReserveThatStillHasNoAddresses_IsRefusedAfterOneRetry)
{
    World world;
    end_two(world);
    world.fake.faults = {
        {Slot::kReserve, 1, FaultKind::kRefuse, MBR_OUT_OF_ADDRESSES, /* sticky */ true}};
    for (uint64_t calls : {2, 3}) { // the second time nothing is cached any more
        mbr_error error = {};
        error.struct_size = sizeof(error);
        EXPECT_EQ(nullptr, world.reserve(16 * kGranule, {kGranule, kGranule, 0}, 0, 0, &error));
        EXPECT_EQ(MBR_OUT_OF_ADDRESSES, error.status);
        EXPECT_EQ(calls, world.fake.calls(Slot::kReserve));
    }
    EXPECT_TRUE(world.agree());
}

TEST(Evict, ReserveRefusedForAnotherReason_LeavesTheCache)
{
    World world;
    end_two(world);
    world.fake.faults = {{Slot::kReserve, 1, FaultKind::kRefuse, MBR_OUT_OF_MEMORY}};
    EXPECT_EQ(nullptr, world.reserve(16 * kGranule));
    EXPECT_EQ(1u, world.fake.calls(Slot::kReserve));
    EXPECT_EQ(2u, world.kept().cached_range_count);
    EXPECT_EQ(4 * kGranule, world.kept().parked_bytes);
    EXPECT_TRUE(world.agree());
}

// An extent that cannot be unmapped keeps its addresses; the others are given back all the same.
TEST(Evict, CachedRangeWithAnExtentThatStays_IsRetained)
{
    World world;
    world.leaks = true;
    end_two(world);
    world.fake.faults = {{Slot::kReserve, 1, FaultKind::kRefuse, MBR_OUT_OF_ADDRESSES},
        {Slot::kUnmap, 2, FaultKind::kQuarantine, MBR_SYSTEM}};
    mbr_range *other = world.reserve(16 * kGranule);
    ASSERT_NE(nullptr, other);
    EXPECT_EQ(1u, world.fake.calls(Slot::kUnreserve));
    EXPECT_EQ(3 * kGranule, world.kept().pooled_bytes);
    EXPECT_EQ(1u, world.kept().quarantined_count);
    EXPECT_EQ(MBR_OK, world.end(other));
    EXPECT_TRUE(world.agree());
}

// Eviction begins where discarding does: at the coldest, in which something is stuck from then on.
TEST(Evict, ReserveWithoutAddresses_PassesARangeInWhichAPlaceIsStuck)
{
    World world;
    world.leaks = true;
    end_two(world);
    world.fake.faults = {{Slot::kUnmap, 1, FaultKind::kQuarantine, MBR_SYSTEM},
        {Slot::kReserve, 1, FaultKind::kRefuse, MBR_OUT_OF_ADDRESSES}};
    mbr_backing_evict(world.backing, kGranule);
    ASSERT_EQ(1u, world.kept().quarantined_count);
    ASSERT_EQ(2u, world.kept().cached_range_count);
    mbr_range *other = world.reserve(16 * kGranule);
    ASSERT_NE(nullptr, other);
    EXPECT_EQ(1u, world.fake.calls(Slot::kUnreserve));
    EXPECT_EQ(1u, world.kept().cached_range_count); // that one
    EXPECT_EQ(MBR_OK, world.end(other));
    EXPECT_TRUE(world.agree());
}

// What is leaked is as little as can be, and nobody calls the backing any more: its mechanism may
// be closed.
TEST(Evict, EndWithAPlaceThatIsStuck_GivesTheOthersBackAndIsNotAskedAgain)
{
    World world;
    world.leaks = true;
    end_two(world);
    uint64_t asked = 0;
    mbr_idle_keeper keeper = {};
    keeper.idle_bytes = [](void *context) -> uint64_t {
        ++*static_cast<uint64_t *>(context);
        return kGranule;
    };
    keeper.shed = [](void *, uint64_t) -> uint64_t { return 0; };
    keeper.context = &asked;
    mbr_backing_add_keeper(world.backing, &keeper);
    mbr_authority_press_caches(world.authority, nullptr, 64 * kGranule); // more than there is
    ASSERT_EQ(1u, asked);
    world.fake.faults = {{Slot::kUnmap, 1, FaultKind::kQuarantine, MBR_SYSTEM}};
    EXPECT_EQ(MBR_RESIDUAL, mbr_backing_destroy(world.backing, nullptr));
    EXPECT_EQ(kGranule, world.books().charged_bytes);
    EXPECT_EQ(1u, world.fake.extents());
    EXPECT_EQ(0u, mbr_authority_press_caches(world.authority, nullptr, kGranule));
    EXPECT_EQ(1u, asked);
    mbr_backing_remove_keeper(world.backing, &keeper);
    EXPECT_TRUE(world.agree());
}

} // namespace
} // namespace membrane
