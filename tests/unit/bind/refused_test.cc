// What an allocation costs that is refused because the bytes are still behind a stream: callers
// spin on it (P11), and the end of the work falls into the middle of one attempt.
#include "tests/unit/bind/host_world.h"

#include "tests/support/faulty/failing.h"

#include <numeric>

namespace membrane
{
namespace
{

constexpr char kFaulty[] = "tests/support/libmembrane-faulty.so";
constexpr uint64_t kBlock = 100 * kMiB; /* of 160: another such block has to wait for it */

/* For the host's use: no stream could wait for the memory instead. */
mbr_status alloc(HostWorld &world, mbr_alloc_result *result)
{
    auto request = sized<mbr_alloc_request>();
    request.binding = world.binding;
    request.holder = world.holder;
    request.bytes = kBlock;
    return mbr_alloc(world.manager, &request, result, &world.error);
}

TEST(Refused, BehindABusyStream_CallsNoSlotAndIsGivenOnceTheStreamIsDone)
{
    Faulty faulty;
    auto options = faulty.options();
    options.push_back({"populate", "0"});
    HostWorld world(160 * kMiB, nullptr, kFaulty, options);
    mbr_alloc_result first = world.alloc(kBlock), second = sized<mbr_alloc_result>();
    {
        Gate busy(world);
        ASSERT_EQ(MBR_OK, world.free_queued(first.allocation)) << world.error.text;
        EXPECT_EQ(MBR_OVER_BUDGET, alloc(world, &second)); /* the free is signalled now */
        auto calls = [&] {
            return std::accumulate(
                faulty.plan.calls, faulty.plan.calls + FAULTY_SLOT_COUNT, uint64_t{0});
        };
        uint64_t before = calls();
        for (int i = 0; i < 1000; i++)
            ASSERT_EQ(MBR_OVER_BUDGET, alloc(world, &second));
        EXPECT_EQ(before, calls());
    }
    world.await(world.native);
    ASSERT_EQ(MBR_OK, alloc(world, &second)) << world.error.text;
    EXPECT_EQ(MBR_OK, world.free_now(second.allocation));
    EXPECT_TRUE(world.clean());
}

} // namespace
} // namespace membrane
