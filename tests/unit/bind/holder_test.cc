// The end of a holder: refused while a prefix stands on it, and for one of racing callers alone.
#include "tests/unit/bind/host_world.h"

#include <atomic>
#include <thread>
#include <vector>

namespace membrane
{
namespace
{

mbr_holder_handle make_holder(HostWorld &world, const char *name)
{
    auto request = world.holder_request(MBR_ROLE_PREFIX, name);
    mbr_holder_handle holder = {0};
    EXPECT_EQ(MBR_OK, mbr_manager_create_holder(world.manager, &request, &holder, &world.error))
        << world.error.text;
    return holder;
}

mbr_prefix_handle make_prefix(HostWorld &world, mbr_range_handle range, mbr_holder_handle holder)
{
    mbr_piece piece = {range, 0, 4 * kMiB};
    auto request = sized<mbr_prefix_request>();
    request.holder = holder;
    request.pieces = &piece;
    request.piece_count = 1;
    auto result = sized<mbr_prefix_result>();
    EXPECT_EQ(MBR_OK, mbr_prefix_create(world.manager, &request, &result, &world.error))
        << world.error.text;
    return result.prefix;
}

uint64_t charged(HostWorld &world, mbr_holder_handle holder)
{
    auto figures = sized<mbr_holder_figures>();
    EXPECT_EQ(MBR_OK, mbr_manager_read_holder(world.manager, holder, &figures, &world.error));
    return figures.charged_bytes;
}

TEST(Holder, OfASecondPrefix_IsRefusedWhileThePrefixLives)
{
    HostWorld world;
    auto first_holder = make_holder(world, "first"), second_holder = make_holder(world, "second");
    auto source = world.reserve(8 * kMiB, 2 * kMiB);
    ASSERT_EQ(MBR_OK, world.grow(source.range, 0, 4 * kMiB));
    auto first = make_prefix(world, source.range, first_holder);
    auto second = make_prefix(world, source.range, second_holder);
    ASSERT_EQ(4 * kMiB, charged(world, first_holder));
    ASSERT_EQ(0u, charged(world, second_holder)); /* and yet it will pay */
    ASSERT_EQ(MBR_IN_USE, mbr_manager_destroy_holder(world.manager, second_holder, &world.error));
    EXPECT_NE(nullptr, std::strstr(world.error.text, "1 prefixes")) << world.error.text;
    EXPECT_EQ(MBR_OK, mbr_prefix_release(world.manager, first, &world.error));
    EXPECT_EQ(4 * kMiB, charged(world, second_holder));
    EXPECT_TRUE(world.clean());
    EXPECT_EQ(MBR_OK, mbr_manager_destroy_holder(world.manager, first_holder, &world.error));
    EXPECT_EQ(MBR_OK, world.release(source.range));
    EXPECT_EQ(MBR_OK, mbr_prefix_release(world.manager, second, &world.error));
    EXPECT_EQ(MBR_OK, mbr_manager_destroy_holder(world.manager, second_holder, &world.error))
        << world.error.text;
}

TEST(Holder, OfARefusedPrefix_IsNotCounted)
{
    HostWorld world;
    auto holder = make_holder(world, "refused");
    auto source = world.reserve(8 * kMiB, 2 * kMiB);
    mbr_piece piece = {source.range, 0, 4 * kMiB}; /* not committed */
    auto request = sized<mbr_prefix_request>();
    request.holder = holder;
    request.pieces = &piece;
    auto result = sized<mbr_prefix_result>();
    for (request.piece_count = 0; request.piece_count < 2; request.piece_count++)
        EXPECT_EQ(MBR_INVALID_ARGUMENT,
            mbr_prefix_create(world.manager, &request, &result, &world.error));
    EXPECT_EQ(MBR_OK, mbr_manager_destroy_holder(world.manager, holder, &world.error))
        << world.error.text;
    EXPECT_EQ(MBR_STALE, mbr_prefix_create(world.manager, &request, &result, &world.error));
    EXPECT_EQ(MBR_OK, world.release(source.range));
}

TEST(Holder, DestroyedByRacingThreads_EndsOnceAndIsStaleForTheOthers)
{
    constexpr int kThreads = 4, kRounds = 200;
    HostWorld world;
    std::vector<mbr_holder_handle> holders(kRounds);
    std::atomic<int> round{-1}, arrived{0}, ended{0}, stale{0}, other{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; t++) {
        threads.emplace_back([&] {
            for (int mine = 0; mine < kRounds; mine++) {
                while (round.load() < mine)
                    std::this_thread::yield();
                mbr_status status = mbr_manager_destroy_holder(
                    world.manager, holders[static_cast<size_t>(mine)], nullptr);
                (status == MBR_OK ? ended : status == MBR_STALE ? stale : other)++;
                arrived++;
            }
        });
    }
    for (int i = 0; i < kRounds; i++) {
        holders[static_cast<size_t>(i)] = make_holder(world, "short");
        round = i;
        while (arrived.load() < kThreads * (i + 1))
            std::this_thread::yield();
    }
    for (auto &thread : threads)
        thread.join();
    EXPECT_EQ(kRounds, ended.load());
    EXPECT_EQ(kRounds * (kThreads - 1), stale.load());
    EXPECT_EQ(0, other.load());
}

} // namespace
} // namespace membrane
