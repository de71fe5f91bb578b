// What mechanisms differ in, as their facts say it, and what the host makes of each: access that is
// refused at random, one unmap for each mapping, a largest reservation.
#include "tests/unit/backing/world.h"

#include <string>

namespace membrane
{
namespace
{

class QuirkWorld : public World
{
  public:
    // The port's own copy: what it was opened with.

    uint64_t protects() const { return fake.calls(Slot::kProtect); }
};

TEST(Quirk, AccessRefusedAtRandom_IsAskedForPieceByPieceAndAgain)
{
    QuirkWorld world;
    world.mechanism()->protect_may_fail_spuriously = true;
    mbr_range *range = world.reserve(16 * kGranule);
    world.fake.faults.push_back({Slot::kProtect, 2, FaultKind::kRefuse, MBR_SYSTEM});
    EXPECT_EQ(MBR_OK, world.grow(range, 0, 4 * kGranule));
    EXPECT_EQ(4u + 1, world.protects());
    EXPECT_TRUE(world.agree());
    EXPECT_EQ(MBR_OK, world.end(range));
}

TEST(Quirk, AccessRefusedForGood_IsGivenUpAfterAFewTriesAndRolledBack)
{
    QuirkWorld world;
    world.mechanism()->protect_may_fail_spuriously = true;
    mbr_range *range = world.reserve(16 * kGranule);
    world.fake.faults.push_back({Slot::kProtect, 3, FaultKind::kRefuse, MBR_SYSTEM, true});
    EXPECT_EQ(MBR_SYSTEM, world.grow(range, 0, 4 * kGranule));
    EXPECT_EQ(2u + 4, world.protects()) << "two pieces, and four tries of the third";
    EXPECT_EQ(0u, world.fake.mappings());
    EXPECT_EQ(0u, world.charged(world.kv));
    EXPECT_TRUE(world.agree());
    world.fake.faults.clear();
    EXPECT_EQ(MBR_OK, world.grow(range, 0, 4 * kGranule)) << "the same places";
    EXPECT_EQ(MBR_OK, world.end(range));
}

TEST(Quirk, UnmapOfEachMapping_IsACallOfItsOwn)
{
    QuirkWorld world;
    world.mechanism()->unmap_spans_mappings = false;
    mbr_range *range = world.reserve(16 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(range, 0, 4 * kGranule));
    EXPECT_EQ(MBR_OK, world.end(range));
    mbr_backing_trim(world.backing, 0);
    EXPECT_EQ(4u, world.fake.calls(Slot::kUnmap));
    EXPECT_TRUE(world.fake.misuse.empty());
}

TEST(Quirk, ReservationAboveTheLargest_IsRefusedWithBothSizes)
{
    QuirkWorld world;
    world.mechanism()->reservation_max_bytes = 16 * kGranule;
    mbr_range_options options = {};
    options.context = world.context;
    options.bytes = 17 * kGranule;
    mbr_range *range = nullptr;
    mbr_error error = {};
    error.struct_size = sizeof(error);
    EXPECT_EQ(MBR_OUT_OF_ADDRESSES, mbr_backing_reserve(world.backing, &options, &range, &error));
    EXPECT_EQ(nullptr, range);
    EXPECT_NE(std::string::npos, std::string(error.text).find(std::to_string(17 * kGranule)));
    EXPECT_NE(std::string::npos, std::string(error.text).find(std::to_string(16 * kGranule)));
    options.bytes = 16 * kGranule;
    EXPECT_EQ(MBR_OK, mbr_backing_reserve(world.backing, &options, &range, &error)) << error.text;
    EXPECT_EQ(MBR_OK, world.end(range));
}

} // namespace
} // namespace membrane
