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

} // namespace
} // namespace membrane
