// When the limit is sampled without anybody who polls: before a refusal for want of measured bytes,
// and for large amounts. And what lowers it until then.
#include "tests/unit/backing/world.h"

namespace membrane
{
namespace
{

struct Probe {
    uint64_t free_bytes = UINT64_C(1) << 20;
    uint64_t calls = 0;
    mbr_probe probe = {[](void *context, uint64_t *bytes) {
                           auto *self = static_cast<Probe *>(context);
                           self->calls++;
                           *bytes = self->free_bytes;
                           return true;
                       },
        this};
};

TEST(Sample, DriverSaidOutOfMemory_GrowthGoesOnAfterASecondWithoutAPoll)
{
    World world;
    mbr_range *range = world.reserve(64 * kGranule);
    world.fake.faults.push_back({Slot::kCreate, 1});
    ASSERT_EQ(MBR_OUT_OF_MEMORY, world.grow(range, 0, kGranule));
    EXPECT_EQ(0u, world.books().limit_bytes);
    EXPECT_EQ(MBR_OVER_BUDGET, world.grow(range, 0, kGranule)); /* too early to ask the driver */
    EXPECT_EQ(1u, world.fake.calls(Slot::kCreate));
    world.clock.now_ns += MBR_PROBE_INTERVAL_NS;
    EXPECT_EQ(MBR_OK, world.grow(range, 0, kGranule));
    EXPECT_EQ(MBR_OK, world.end(range));
}

TEST(Sample, EagerSpanThatTheDriverRefuses_LowersTheLimitToo)
{
    World world;
    auto *mechanism = world.mechanism();
    mechanism->has_virtual = mechanism->has_shared = false;
    auto take = [&](mbr_span *span) {
        return mbr_backing_take_span(
            world.backing, world.context, 0, 0, 1000, 256, span, nullptr, nullptr);
    };
    mbr_span span;
    world.fake.faults.push_back({Slot::kAllocate, 1});
    ASSERT_EQ(MBR_OUT_OF_MEMORY, take(&span));
    EXPECT_EQ(0u, world.books().limit_bytes);
    EXPECT_EQ(MBR_OVER_BUDGET, take(&span));
    EXPECT_EQ(1u, world.fake.calls(Slot::kAllocate));
    world.clock.now_ns += MBR_PROBE_INTERVAL_NS;
    ASSERT_EQ(MBR_OK, take(&span));
    mbr_backing_give_span(world.backing, &span);
    EXPECT_TRUE(world.agree());
}

TEST(Sample, MoreIsFreeThanWasMeasured_FoundOutBeforeTheRefusal)
{
    Probe probe;
    World world(UINT64_C(64) << 20, UINT64_MAX, 0, &probe.probe);
    mbr_range *range = world.reserve(UINT64_C(2) << 20);
    ASSERT_EQ(MBR_OVER_BUDGET, world.grow(range, 0, UINT64_C(2) << 20));
    EXPECT_EQ(1u, probe.calls); /* at creation: no other one was due */
    probe.free_bytes = UINT64_C(2) << 20;
    EXPECT_EQ(MBR_OVER_BUDGET, world.grow(range, 0, UINT64_C(2) << 20));
    world.clock.now_ns += MBR_PROBE_INTERVAL_NS;
    EXPECT_EQ(MBR_OK, world.grow(range, 0, UINT64_C(2) << 20));
    EXPECT_EQ(2u, probe.calls);
    EXPECT_EQ(MBR_OK, world.end(range));
}

TEST(Sample, LargeAmount_IsMeasuredBeforeItIsGranted)
{
    constexpr uint64_t kLarge = UINT64_C(64) << 20;
    Probe probe;
    probe.free_bytes = 2 * kLarge;
    World world(4 * kLarge, UINT64_MAX, 0, &probe.probe);
    mbr_range *range = world.reserve(kLarge, {kLarge, kLarge, 0});
    world.clock.now_ns += MBR_PROBE_INTERVAL_NS;
    probe.free_bytes = kLarge / 2; /* another process took the rest */
    EXPECT_EQ(MBR_OVER_BUDGET, world.grow(range, 0, kLarge));
    EXPECT_EQ(0u, world.fake.calls(Slot::kCreate));
    EXPECT_EQ(2u, probe.calls);
    EXPECT_EQ(MBR_OK, world.end(range));
}

} // namespace
} // namespace membrane
