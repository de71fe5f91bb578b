// Claims on several authorities as one: all or none, and nobody holds a part while waiting.
#include "tests/unit/governor/waiting.h"

#include <thread>

using namespace governor_test;

namespace
{

class Claims : public testing::Test
{
  protected:
    void SetUp() override
    {
        for (int i = 0; i < 3; i++) {
            authorities[i] = world.Authority(100);
            holders[i] = world.Holder(authorities[i]);
        }
    }

    void TearDown() override
    {
        for (int i = 0; i < 3; i++)
            End(authorities[i], holders[i]);
    }

    void ReturnAll(uint64_t bytes)
    {
        for (mbr_holder *holder : holders)
            mbr_grant_return(holder, bytes);
    }

    World world;
    mbr_authority *authorities[3];
    mbr_holder *holders[3];
};

TEST_F(Claims, AllOrNone_WhicheverRefuses)
{
    for (int full = 0; full < 3; full++) {
        mbr_claim claims[] = {{holders[2], 60}, {holders[0], 60}, {holders[1], 60}};
        Take(holders[full], 50);
        uint32_t refused;
        mbr_refusal refusal = NewRefusal();
        EXPECT_EQ(mbr_grant_all(claims, 3, &refused, &refusal), MBR_OVER_BUDGET);
        EXPECT_EQ(claims[refused].holder, holders[full]);
        EXPECT_EQ(refusal.available_bytes, 50u);
        for (int i = 0; i < 3; i++)
            EXPECT_EQ(Figures(holders[i]).granted_bytes, i == full ? 50u : 0u);
        mbr_grant_return(holders[full], 50);
        EXPECT_EQ(mbr_grant_all(claims, 3, &refused, nullptr), MBR_OK);
        EXPECT_EQ(refused, UINT32_MAX);
        ReturnAll(60);
    }
}

TEST_F(Claims, TwoOfOneAuthorityOrTooMany_Invalid)
{
    mbr_claim twice[] = {{holders[0], 1}, {holders[1], 1}, {holders[0], 1}};
    uint32_t refused;
    EXPECT_EQ(mbr_grant_all(twice, 3, &refused, nullptr), MBR_INVALID_ARGUMENT);
    std::vector<mbr_claim> many(MBR_AUTHORITY_LIMIT_COUNT + 1, mbr_claim{holders[0], 1});
    EXPECT_EQ(
        mbr_grant_all(many.data(), (uint32_t)many.size(), &refused, nullptr), MBR_INVALID_ARGUMENT);
    mbr_error error = NewError();
    EXPECT_EQ(mbr_wait_all(twice, 3, 0, MBR_NO_DEADLINE, &refused, nullptr, &error),
        MBR_INVALID_ARGUMENT);
    EXPECT_EQ(mbr_wait_all(nullptr, 0, 0, MBR_NO_DEADLINE, &refused, nullptr, &error), MBR_OK);
}

TEST_F(Claims, WhoWaitsForOne_HoldsNoneOfTheOthers)
{
    Take(holders[1], 100);
    std::thread waits([&] {
        mbr_claim claims[] = {{holders[0], 80}, {holders[1], 80}, {holders[2], 80}};
        uint32_t refused;
        mbr_error error = NewError();
        EXPECT_EQ(mbr_wait_all(claims, 3, 0, MBR_NO_DEADLINE, &refused, nullptr, &error), MBR_OK)
            << error.text;
    });
    while (Figures(authorities[1]).waiting_count == 0)
        std::this_thread::yield();
    Take(holders[0], 100);
    Take(holders[2], 100);
    mbr_grant_return(holders[0], 100);
    mbr_grant_return(holders[2], 100);
    mbr_grant_return(holders[1], 100);
    waits.join();
    ReturnAll(80);
}

TEST_F(Claims, DeadlinePassed_NothingIsHeld)
{
    Take(holders[1], 100);
    mbr_claim claims[] = {{holders[0], 80}, {holders[1], 80}};
    uint32_t refused;
    EXPECT_EQ(
        mbr_wait_all(claims, 2, 0, world.clock.now_ns, &refused, nullptr, nullptr), MBR_TIMED_OUT);
    EXPECT_EQ(refused, 1u);
    EXPECT_EQ(Figures(authorities[0]).claimed_bytes, 0u);
    mbr_grant_return(holders[1], 100);
}

TEST_F(Claims, OppositeWishes_AllAreServed)
{
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 4; thread++)
        threads.emplace_back([&, thread] {
            for (int round = 0; round < 200; round++) {
                mbr_claim claims[] = {{holders[thread % 3], 70}, {holders[(thread + 1) % 3], 70}};
                uint32_t refused;
                mbr_error error = NewError();
                EXPECT_EQ(mbr_wait_all(claims, 2, (uint32_t)thread, MBR_NO_DEADLINE, &refused,
                              nullptr, &error),
                    MBR_OK)
                    << error.text;
                for (const mbr_claim &claim : claims)
                    mbr_grant_return(claim.holder, 70);
            }
        });
    for (std::thread &thread : threads)
        thread.join();
}

} // namespace
