// The credit of threads as far as figures show it, and when a refused caller should come again.
#include "tests/unit/governor/world.h"

using namespace governor_test;

namespace
{

TEST(Books_Credit, AfterASmallGrant_ShownAsGrantedAndWithin64thOfTheLimit)
{
    for (uint64_t limit : {16 * kMiB, kGiB, 80 * kGiB, UINT64_C(1) << 62}) {
        World world;
        mbr_authority *authority = world.Authority(limit);
        mbr_holder *holder = world.Holder(authority);
        ASSERT_EQ(mbr_grant(holder, 100, nullptr), MBR_OK);
        mbr_authority_figures figures = Figures(authority);
        EXPECT_GT(figures.claimed_bytes, 100u);
        EXPECT_LE(figures.claimed_bytes, 100 + limit / 64);
        EXPECT_EQ(figures.granted_bytes, figures.claimed_bytes);
        EXPECT_EQ(Figures(holder).granted_bytes, 100u); // a holder's line has no credit in it
        mbr_authority_collect_credit(authority);
        EXPECT_EQ(Figures(authority).claimed_bytes, 100u);
        EXPECT_EQ(Figures(authority).granted_bytes, 100u);
        mbr_grant_return(holder, 100);
        End(authority, holder);
    }
}

TEST(Books_Credit, LimitBelow16MiB_HasNone)
{
    World world;
    mbr_authority *authority = world.Authority(16 * kMiB - 1);
    mbr_holder *holder = world.Holder(authority);
    ASSERT_EQ(mbr_grant(holder, 100, nullptr), MBR_OK);
    EXPECT_EQ(Figures(authority).claimed_bytes, 100u);
    mbr_refund(holder, 0);
    mbr_grant_return(holder, 100);
    EXPECT_EQ(Figures(authority).claimed_bytes, 0u);
    End(authority, holder);
}

// Everything that was charged in small pieces comes back at once, or piece by piece: credit stays
// within its bound and the rest is free for others.
TEST(Books_Credit, ManyRefunds_KeepWithinTheBound)
{
    constexpr uint64_t kLimit = 64 * kMiB;
    World world;
    mbr_authority *authority = world.Authority(kLimit);
    mbr_holder *holder = world.Holder(authority);
    for (uint64_t amount : {UINT64_C(10), UINT64_C(999), 5 * kKiB, 9 * kKiB, 40 * kKiB}) {
        for (int i = 0; i < 300; i++) {
            ASSERT_EQ(mbr_grant(holder, amount, nullptr), MBR_OK);
            mbr_charge(holder, amount);
        }
        for (int i = 300; i > 0; i--) {
            mbr_refund(holder, amount);
            uint64_t used = static_cast<uint64_t>(i - 1) * amount;
            uint64_t claimed = Figures(authority).claimed_bytes;
            ASSERT_GE(claimed, used);
            ASSERT_LE(claimed - used, kLimit / 64);
        }
        mbr_error error = NewError();
        EXPECT_EQ(mbr_authority_audit(authority, &error), MBR_OK) << error.text;
    }
    End(authority, holder);
}

// ---- When to come again
TEST(Books_RetryAfter, FromTheRateOfRefunds)
{
    World world;
    mbr_authority *authority = world.Authority(1000);
    mbr_holder *holder = world.Holder(authority);
    mbr_refusal refusal = NewRefusal();
    ASSERT_EQ(mbr_grant(holder, 1000, nullptr), MBR_OK);
    mbr_charge(holder, 1000);
    ASSERT_EQ(mbr_grant(holder, 1, &refusal), MBR_OVER_BUDGET);
    EXPECT_EQ(refusal.retry_after_ns, MBR_UNKNOWN_BYTES);
    // 100 bytes a second for a long time: a missing 300 bytes take three seconds.
    for (int second = 0; second < 60; second++) {
        world.clock.now_ns += kSecond;
        mbr_refund(holder, 100);
        ASSERT_EQ(mbr_grant(holder, 101, &refusal), MBR_OVER_BUDGET);
        ASSERT_EQ(mbr_grant(holder, 100, nullptr), MBR_OK);
        mbr_charge(holder, 100);
    }
    ASSERT_EQ(mbr_grant(holder, 300, &refusal), MBR_OVER_BUDGET);
    EXPECT_NEAR(static_cast<double>(refusal.retry_after_ns), 3e9, 0.01e9);
    ASSERT_EQ(mbr_grant(holder, 1, &refusal), MBR_OVER_BUDGET);
    EXPECT_NEAR(static_cast<double>(refusal.retry_after_ns), 1e7, 1e5);
    ASSERT_EQ(mbr_grant(holder, 1001, &refusal), MBR_OVER_BUDGET); // waiting never helps here
    EXPECT_EQ(refusal.retry_after_ns, MBR_UNKNOWN_BYTES);
    // Long silence: the rate decays and the advice grows, up to a minute, then there is none.
    world.clock.now_ns += 30 * kSecond;
    ASSERT_EQ(mbr_grant(holder, 300, &refusal), MBR_OVER_BUDGET);
    EXPECT_EQ(refusal.retry_after_ns, 60 * kSecond);
    world.clock.now_ns += 3600 * kSecond;
    ASSERT_EQ(mbr_grant(holder, 300, &refusal), MBR_OVER_BUDGET);
    EXPECT_EQ(refusal.retry_after_ns, MBR_UNKNOWN_BYTES);
    mbr_refund(holder, 1000);
    End(authority, holder);
}

// Samples keep the rate, so that a silence before does not count.
TEST(Books_RetryAfter, SampledWhileNothingIsRefused_TheRateIsTheLastSeconds)
{
    World world;
    mbr_authority *authority = world.Authority(1000);
    mbr_holder *holder = world.Holder(authority);
    for (int second = 0; second < 1000; second++) {
        world.clock.now_ns += kSecond;
        if (second >= 990) {
            ASSERT_EQ(mbr_grant(holder, 500, nullptr), MBR_OK);
            mbr_charge(holder, 500);
            mbr_refund(holder, 500);
        }
        mbr_authority_sample(authority, false);
    }
    mbr_refusal refusal = NewRefusal();
    ASSERT_EQ(mbr_grant(holder, 1000, nullptr), MBR_OK);
    ASSERT_EQ(mbr_grant(holder, 500, &refusal), MBR_OVER_BUDGET);
    EXPECT_NEAR(static_cast<double>(refusal.retry_after_ns), 1e9, 0.01e9);
    mbr_grant_return(holder, 1000);
    End(authority, holder);
}

TEST(Books_RetryAfter, AtTheAllowance_FromTheHoldersOwnRefunds)
{
    World world;
    mbr_authority *authority = world.Authority(10000);
    mbr_holder *tight = world.Holder(authority, 100);
    mbr_holder *busy = world.Holder(authority);
    ASSERT_EQ(mbr_grant(tight, 100, nullptr), MBR_OK);
    mbr_charge(tight, 100);
    ASSERT_EQ(mbr_grant(busy, 5000, nullptr), MBR_OK);
    mbr_charge(busy, 5000);
    mbr_refusal refusal = NewRefusal();
    world.clock.now_ns += kSecond;
    mbr_refund(busy, 5000); // somebody else's release does not help at the own allowance
    ASSERT_EQ(mbr_grant(tight, 10, &refusal), MBR_OVER_BUDGET);
    EXPECT_EQ(refusal.reason, static_cast<uint32_t>(MBR_REFUSED_ALLOWANCE));
    EXPECT_EQ(refusal.retry_after_ns, MBR_UNKNOWN_BYTES);
    world.clock.now_ns += kSecond;
    mbr_refund(tight, 50);
    ASSERT_EQ(mbr_grant(tight, 60, &refusal), MBR_OVER_BUDGET);
    EXPECT_NE(refusal.retry_after_ns, MBR_UNKNOWN_BYTES);
    mbr_refund(tight, 50);
    End(authority, tight, busy);
}

TEST(Books_RetryAfter, SeveralHolders_TheirRefundsAddUp)
{
    World world;
    mbr_authority *authority = world.Authority(1000);
    mbr_holder *a = world.Holder(authority);
    mbr_holder *b = world.Holder(authority);
    for (mbr_holder *holder : {a, b}) {
        ASSERT_EQ(mbr_grant(holder, 500, nullptr), MBR_OK);
        mbr_charge(holder, 500);
        mbr_refund(holder, 250);
    }
    world.clock.now_ns += kSecond;
    mbr_refusal refusal = NewRefusal();
    ASSERT_EQ(mbr_grant(a, 750, &refusal), MBR_OVER_BUDGET);
    EXPECT_NEAR(static_cast<double>(refusal.retry_after_ns), 1e9, 1e6); // 500 in 1 s, half weighted
    mbr_refund(a, 250);
    mbr_refund(b, 250);
    End(authority, a, b);
}

// The rate is of the authority: releases of a holder that is gone still count.
TEST(Books_RetryAfter, HolderGone_ItsRefundsStayCounted)
{
    World world;
    mbr_authority *authority = world.Authority(1000);
    mbr_holder *gone = world.Holder(authority);
    mbr_holder *left = world.Holder(authority);
    ASSERT_EQ(mbr_grant(gone, 500, nullptr), MBR_OK);
    mbr_charge(gone, 500);
    mbr_refund(gone, 500);
    EXPECT_EQ(mbr_holder_destroy(gone, nullptr), MBR_OK);
    ASSERT_EQ(mbr_grant(left, 1000, nullptr), MBR_OK);
    world.clock.now_ns += kSecond;
    mbr_refusal refusal = NewRefusal();
    ASSERT_EQ(mbr_grant(left, 250, &refusal), MBR_OVER_BUDGET);
    EXPECT_NEAR(static_cast<double>(refusal.retry_after_ns), 1e9, 1e6); // 500 in 1 s, half weighted
    mbr_grant_return(left, 1000);
    End(authority, left);
}

} // namespace
