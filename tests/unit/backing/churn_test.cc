// I5 while threads run: at every moment what the mechanism owns is granted or charged. The monitor
// stops the mechanism, not the threads: what a thread took before its slot and refunds after it
// only makes the books larger.
#include "tests/unit/backing/world.h"

#include <atomic>
#include <random>
#include <thread>
#include <vector>

namespace membrane
{
namespace
{

constexpr int kThreads = 4;
constexpr int kRounds = 150; // and on, until the monitor has seen them at work
constexpr int kMostRounds = 100 * kRounds;

void grow_and_end(World &world, unsigned seed, const std::atomic<bool> &seen)
{
    std::mt19937 random(seed);
    for (int round = 0; round < kRounds || (!seen && round < kMostRounds); round++) {
        mbr_range *range = world.reserve((8 + random() % 3 * 8) * kGranule);
        for (uint64_t end = 1 + random() % 3; end <= 8; end += 1 + random() % 4) {
            mbr_status status = world.grow(range, 0, end * kGranule);
            EXPECT_TRUE(status == MBR_OK || status == MBR_OVER_BUDGET) << status;
        }
        mbr_span span;
        if (mbr_backing_take_span(world.backing, world.context, 0, 0, 2 * kGranule, 0, &span,
                nullptr, nullptr) == MBR_OK)
            mbr_backing_give_span(world.backing, &span);
        EXPECT_EQ(MBR_OK, world.end(range));
        if (random() % 8 == 0)
            mbr_backing_trim(world.backing, random() % 8 * kGranule);
    }
}

TEST(Churn, WhatIsOwned_IsGrantedOrChargedAtEveryMoment)
{
    World world(24 * kGranule, 12 * kGranule); // too little for all: refusals and evictions too
    std::atomic<int> running{kThreads};
    std::atomic<bool> seen{false};
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; i++)
        threads.emplace_back([&, i] {
            grow_and_end(world, static_cast<unsigned>(i), seen);
            running--;
        });
    uint64_t looks = 0, most_owned = 0;
    while (running != 0) {
        world.fake.look([&](uint64_t owned) {
            mbr_authority_figures books = world.books();
            EXPECT_GE(books.claimed_bytes, owned);
            EXPECT_EQ(books.claimed_bytes, books.granted_bytes + books.charged_bytes);
            EXPECT_LE(books.claimed_bytes, books.limit_bytes);
            most_owned = std::max(most_owned, owned);
        });
        looks++;
        seen = looks > 10 && most_owned > 8 * kGranule;
    }
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_GT(looks, 10u);
    EXPECT_GT(most_owned, 8 * kGranule) << "the monitor saw the threads at work";
    EXPECT_TRUE(world.agree());
}

} // namespace
} // namespace membrane
