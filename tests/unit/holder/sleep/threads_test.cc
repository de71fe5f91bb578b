// Two tags sleep and wake on threads of their own, beside others that grow, share, end
// and trim under the same authorities: what slept is right, and nothing is left.
#include "tests/unit/holder/sleep/world.h"

#include <atomic>
#include <thread>

namespace membrane
{
namespace
{

constexpr uint64_t kUnit = 64 * 1024;
constexpr int kRounds = 25;

mbr_status attach(HostWorld *world, mbr_prefix_handle prefix, mbr_range_handle range)
{
    auto request = sized<mbr_prefix_attach_request>();
    request.target_count = 1;
    request.prefix = prefix;
    request.holder = world->holder;
    request.targets = &range;
    auto result = sized<mbr_prefix_attach_result>();
    auto error = sized<mbr_error>();
    return mbr_prefix_attach(world->manager, &request, &result, &error);
}

mbr_status release(HostWorld *world, mbr_range_handle range)
{
    auto request = sized<mbr_range_release_request>();
    request.flags = MBR_FREE_NOW;
    request.piece.range = range;
    return mbr_range_release(world->manager, &request, nullptr);
}

mbr_range_handle reserve(HostWorld *world)
{
    auto request = sized<mbr_range_reserve_request>();
    request.binding = world->binding;
    request.bytes = 16 * kUnit;
    request.growth = {kUnit, kUnit, 0};
    auto result = sized<mbr_range_reserve_result>();
    EXPECT_EQ(MBR_OK, mbr_range_reserve(world->manager, &request, &result, nullptr));
    return result.range;
}

mbr_status grow(HostWorld *world, mbr_range_handle range, uint64_t bytes)
{
    mbr_piece piece = {range, 0, bytes};
    auto request = sized<mbr_range_grow_request>();
    request.holder = world->holder;
    request.stream = world->stream;
    request.pieces = &piece;
    request.piece_count = 1;
    auto result = sized<mbr_range_grow_result>();
    return mbr_range_grow(world->manager, &request, &result, nullptr);
}

mbr_status move(SleepWorld *world, uint64_t tag, bool sleeps)
{
    auto sleep = sized<mbr_sleep_request>();
    sleep.level = MBR_SLEEP_KEEP;
    sleep.tag = tag;
    sleep.stream = world->stream;
    sleep.deadline_ns = kNever;
    auto wake = sized<mbr_wake_request>();
    wake.tag = tag;
    wake.stream = world->stream;
    wake.deadline_ns = kNever;
    auto slept = sized<mbr_sleep_result>();
    auto woken = sized<mbr_wake_result>();
    return sleeps ? mbr_sleeper_sleep(world->sleeper, &sleep, &slept, nullptr)
                  : mbr_sleeper_wake(world->sleeper, &wake, &woken, nullptr);
}

TEST(SleepThreads, TagsBesideGrowthsSharersAndTrims_KeepTheirContents)
{
    SleepWorld world;
    auto source = world.make(1, 6 * kUnit, 1), other = world.make(2, 5 * kUnit + 4096, 2);
    mbr_piece piece = {source.range, kUnit, 3 * kUnit};
    auto request = sized<mbr_prefix_request>();
    request.piece_count = 1;
    request.holder = world.holder;
    request.pieces = &piece;
    auto result = sized<mbr_prefix_result>();
    ASSERT_EQ(MBR_OK, mbr_prefix_create(world.manager, &request, &result, &world.error));
    std::atomic<bool> is_over{false};
    auto nap = [&](uint64_t tag) {
        for (int i = 0; i < kRounds; i++) {
            for (int k = 0; k < 3; k++)
                EXPECT_EQ(MBR_OK, move(&world, tag, true));
            EXPECT_EQ(MBR_OK, move(&world, tag, false));
        }
    };
    auto share = [&] {
        while (!is_over) {
            mbr_range_handle range = reserve(&world);
            EXPECT_EQ(MBR_OK, attach(&world, result.prefix, range));
            EXPECT_EQ(MBR_OK, grow(&world, range, 6 * kUnit));
            EXPECT_EQ(MBR_OK, release(&world, range));
        }
    };
    auto trim = [&] {
        while (!is_over) {
            uint64_t released;
            mbr_manager_trim(world.manager, world.mechanism, 0, &released, nullptr);
            mbr_sleeper_give(world.sleeper, kMiB);
            world.SleepWorld::read();
            mbr_manager_poll(world.manager);
        }
    };
    std::thread sleepers[] = {std::thread(nap, 1), std::thread(nap, 2)};
    std::thread others[] = {std::thread(share), std::thread(share), std::thread(trim)};
    for (auto &thread : sleepers)
        thread.join();
    is_over = true;
    for (auto &thread : others)
        thread.join();
    EXPECT_TRUE(world.holds(source.address, 6 * kUnit, 1));
    EXPECT_TRUE(world.holds(other.address, 5 * kUnit + 4096, 2));
    EXPECT_EQ(MBR_OK, mbr_prefix_release(world.manager, result.prefix, &world.error));
    EXPECT_EQ(MBR_OK, world.drain());
    EXPECT_TRUE(world.clean());
    world.end(source.range);
    world.end(other.range);
}

} // namespace
} // namespace membrane
