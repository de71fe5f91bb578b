// One thread maps and unmaps, others work next door: in the same range, and in another.
#include "tests/unit/bind/host_world.h"

#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace membrane
{
namespace
{

// Writes each page of its own and reads it back, until it is told to stop; counts the rounds. As
// the device sees it: what a page holds at first is the mechanism's.
void work_on(
    uint64_t address, uint64_t bytes, const std::atomic<bool> &stops, std::atomic<uint64_t> &rounds)
{
    for (uint64_t own = 0; !stops; own++, rounds++) {
        for (uint64_t at = 0; at < bytes; at += 4096) {
            auto *word = reinterpret_cast<volatile uint64_t *>(view_of(address + at));
            if (own > 0) {
                EXPECT_EQ(at + own - 1, *word);
            }
            *word = at + own;
        }
        std::this_thread::yield();
    }
}

// kvcached#465. MEMBRANE_OPERATIONS asks for other than a thousand rounds.
TEST(Neighbour, MappingsNextDoor_DisturbNobody)
{
    const char *wanted = std::getenv("MEMBRANE_OPERATIONS");
    const int mappings = wanted != nullptr ? std::atoi(wanted) : 1000;
    HostWorld world;
    auto range = world.reserve(64 * kMiB), other = world.reserve(8 * kMiB);
    ASSERT_EQ(MBR_OK, world.grow(range.range, 0, 2 * kMiB));
    ASSERT_EQ(MBR_OK, world.grow(other.range, 0, 2 * kMiB));
    std::atomic<bool> stops{false};
    std::atomic<uint64_t> rounds{0};
    std::thread same([&] { work_on(range.address, 2 * kMiB, stops, rounds); });
    std::thread beside([&] { work_on(other.address, 2 * kMiB, stops, rounds); });
    auto request = sized<mbr_range_release_request>();
    request.flags = MBR_FREE_NOW;
    request.piece = {range.range, 2 * kMiB, 2 * kMiB};
    auto result = sized<mbr_range_decommit_result>();
    // However late the others begin, they are met.
    for (int i = 0; (i < mappings || rounds < 2) && !HasFailure(); i++) {
        ASSERT_EQ(MBR_OK, world.grow(range.range, 2 * kMiB, 2 * kMiB));
        ASSERT_EQ(MBR_OK, mbr_range_decommit(world.manager, &request, &result, &world.error));
        ASSERT_EQ(2 * kMiB, result.decommitted_bytes);
    }
    stops = true;
    same.join();
    beside.join();
    std::printf("%d mappings, %" PRIu64 " rounds of work beside them\n", mappings, rounds.load());
    EXPECT_TRUE(world.clean());
    EXPECT_EQ(MBR_OK, world.release(range.range));
    EXPECT_EQ(MBR_OK, world.release(other.range));
}

} // namespace
} // namespace membrane
