// Situations of docs/scenarios.md that need several parts of the governor at once.
#include "tests/unit/governor/waiting.h"

using namespace governor_test;

namespace
{

// Two engines share one pool and exhaust it while both decode: a step of the second is refused and
// says so, the first is as it was; after the cache gave way the same step works.
TEST(Scenario, TwoEnginesExhaustThePool_SecondIsRefusedFirstUnharmedAndARetryWorks)
{
    World world;
    mbr_authority *authority = world.Authority(1000);
    Giver first, second, cache;
    MakeGiver(world, first, authority, MBR_ROLE_KV);
    MakeGiver(world, second, authority, MBR_ROLE_KV);
    MakeGiver(world, cache, authority, MBR_ROLE_CACHE);
    first.Charge(500);
    cache.Charge(100);
    second.Charge(400);
    mbr_holder_figures before = Figures(first.holder);
    mbr_refusal refusal = NewRefusal();
    EXPECT_EQ(mbr_grant(second.holder, 60, &refusal), MBR_OVER_BUDGET);
    EXPECT_EQ(refusal.reason, (uint32_t)MBR_REFUSED_LIMIT);
    EXPECT_EQ(refusal.available_bytes, 0u);
    EXPECT_EQ(refusal.cached_bytes, 100u);
    cache.offers = 100;
    mbr_ticket *ticket = Submit(Wish(second.holder, 60));
    EXPECT_EQ(mbr_ticket_claim(ticket), MBR_OK);
    mbr_ticket_destroy(ticket);
    mbr_charge(second.holder, 60);
    second.charged += 60;
    mbr_holder_figures after = Figures(first.holder);
    EXPECT_EQ(after.charged_bytes, before.charged_bytes);
    EXPECT_EQ(first.gave, 0);
    EXPECT_EQ(cache.charged, 40u);
    for (Giver *giver : {&first, &second, &cache})
        giver->Refund(giver->charged);
    End(authority, first.holder, second.holder, cache.holder);
}

// A pool that shrank below its use shows 0 as available and the overage, in every figure that a
// client sees, down to the byte that ends it.
TEST(Scenario, UsedAboveTheLimitAfterAShrink_AvailableIsZeroUntilTheLastByte)
{
    World world;
    mbr_authority *authority = world.Authority(1000);
    mbr_holder *holder = world.Holder(authority);
    Take(holder, 1000);
    mbr_charge(holder, 1000);
    uint64_t over;
    ASSERT_EQ(mbr_authority_set_limit(authority, 998, &over, nullptr), MBR_OK);
    EXPECT_EQ(over, 2u);
    for (uint64_t above : {2, 1, 0}) {
        mbr_refusal refusal = NewRefusal();
        EXPECT_EQ(mbr_grant(holder, 1, &refusal), MBR_OVER_BUDGET);
        EXPECT_EQ(refusal.available_bytes, 0u);
        EXPECT_EQ(Figures(authority).over_bytes, above);
        mbr_refund(holder, 1);
    }
    EXPECT_EQ(mbr_grant(holder, 1, nullptr), MBR_OK);
    mbr_grant_return(holder, 1);
    mbr_refund(holder, 997);
    End(authority, holder);
}

// Two devices have pools of their own and one host pool behind them: whoever needs both has both or
// waits without a part, and the other device goes on.
TEST(Scenario, TwoDevicesOverOneHostPool_NoPartIsKept)
{
    World world;
    mbr_authority *devices[] = {world.Authority(100), world.Authority(100)};
    mbr_authority *host = world.Authority(150);
    mbr_holder *on[] = {world.Holder(devices[0]), world.Holder(devices[1])};
    mbr_holder *staging[] = {world.Holder(host), world.Holder(host)};
    mbr_claim first[] = {{on[0], 100}, {staging[0], 100}};
    mbr_claim second[] = {{staging[1], 100}, {on[1], 100}};
    uint32_t refused;
    ASSERT_EQ(mbr_grant_all(first, 2, &refused, nullptr), MBR_OK);
    EXPECT_EQ(mbr_grant_all(second, 2, &refused, nullptr), MBR_OVER_BUDGET);
    EXPECT_EQ(refused, 0u);
    mbr_authority_collect_credit(devices[1]);
    EXPECT_EQ(Figures(devices[1]).claimed_bytes, 0u);
    EXPECT_EQ(Figures(host).claimed_bytes, 100u);
    for (const mbr_claim &claim : first)
        mbr_grant_return(claim.holder, 100);
    EXPECT_EQ(mbr_grant_all(second, 2, &refused, nullptr), MBR_OK);
    for (const mbr_claim &claim : second)
        mbr_grant_return(claim.holder, 100);
    End(devices[0], on[0]);
    End(devices[1], on[1]);
    End(host, staging[0], staging[1]);
}

} // namespace
