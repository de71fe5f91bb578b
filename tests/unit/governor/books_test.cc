// The life of a byte: each booking, each typed refusal with its figures, the marks, the
// peaks.
#include "tests/unit/governor/world.h"

#include <algorithm>

using namespace governor_test;

namespace
{

struct Line {
    uint64_t granted, charged, mapped;
};

void ExpectLine(mbr_holder *holder, Line line, const char *after)
{
    mbr_holder_figures figures = Figures(holder);
    EXPECT_EQ(figures.granted_bytes, line.granted) << after;
    EXPECT_EQ(figures.charged_bytes, line.charged) << after;
    EXPECT_EQ(figures.mapped_bytes, line.mapped) << after;
}

TEST(Books_Life, EachBooking_MovesItsBytesOnly)
{
    World world;
    mbr_authority *authority = world.Authority(1000);
    mbr_holder *a = world.Holder(authority);
    mbr_holder *b = world.Holder(authority);

    ASSERT_EQ(mbr_grant(a, 100, nullptr), MBR_OK);
    ExpectLine(a, {100, 0, 0}, "grant");
    mbr_charge(a, 60);
    ExpectLine(a, {40, 60, 0}, "charge");
    mbr_grant_return(a, 40);
    ExpectLine(a, {0, 60, 0}, "grant_return");
    mbr_mapped_add(a, 60);
    ExpectLine(a, {0, 60, 60}, "mapped_add");
    mbr_transfer(a, b, 50);
    ExpectLine(a, {0, 10, 60}, "transfer, from");
    ExpectLine(b, {0, 50, 0}, "transfer, to");
    mbr_mapped_transfer(a, b, 50);
    ExpectLine(a, {0, 10, 10}, "mapped_transfer, from");
    ExpectLine(b, {0, 50, 50}, "mapped_transfer, to");
    EXPECT_EQ(Figures(authority).claimed_bytes, 60u);
    EXPECT_EQ(Figures(authority).charged_bytes, 60u);
    EXPECT_EQ(Figures(authority).mapped_bytes, 60u);
    mbr_mapped_sub(b, 50);
    mbr_refund(b, 50);
    ExpectLine(b, {0, 0, 0}, "refund");
    EXPECT_EQ(Figures(authority).claimed_bytes, 10u);
    mbr_mapped_sub(a, 10);
    mbr_refund(a, 10);
    EXPECT_EQ(Figures(authority).grant_count, 1u);
    End(authority, a, b);
}

TEST(Books_Life, ZeroBytes_DoNothing)
{
    World world;
    mbr_authority *authority = world.Authority(10);
    mbr_holder *a = world.Holder(authority);
    mbr_holder *b = world.Holder(authority, 0);
    for (mbr_holder *holder : {a, b}) {
        EXPECT_EQ(mbr_grant(holder, 0, nullptr), MBR_OK);
        mbr_charge(holder, 0);
        mbr_grant_return(holder, 0);
        mbr_refund(holder, 0);
        mbr_record_committed(holder, 0);
        mbr_mapped_add(holder, 0);
        mbr_mapped_sub(holder, 0);
        mbr_quarantine(holder, 0);
        mbr_quarantine_settle(holder, 0);
        mbr_retain(holder, 0);
        mbr_retain_settle(holder, 0);
    }
    mbr_transfer(a, b, 0);
    EXPECT_EQ(mbr_try_transfer(a, b, 0, nullptr), MBR_OK);
    mbr_mapped_transfer(a, b, 0);
    EXPECT_EQ(Figures(authority).grant_count, 0u);
    EXPECT_EQ(Figures(authority).refusal_count, 0u);
    ExpectLine(a, {0, 0, 0}, "nothing");
    End(authority, a, b);
}

// I7: what is refunded on which axis when an unmap, a destroy or both fail or succeed.
TEST(Books_Life, UnmapAndDestroyOutcomes_RefundEachAxisAlone)
{
    World world;
    mbr_authority *authority = world.Authority(1000);
    mbr_holder *kv = world.Holder(authority);
    mbr_holder *cache = world.Holder(authority, MBR_NO_ALLOWANCE, MBR_ROLE_CACHE);
    auto give = [&] {
        ASSERT_EQ(mbr_grant(kv, 100, nullptr), MBR_OK);
        mbr_charge(kv, 100);
        mbr_mapped_add(kv, 100);
    };
    give(); // unmap failed: neither axis
    ExpectLine(kv, {0, 100, 100}, "unmap failed");
    mbr_mapped_sub(kv, 100); // unmapped and pooled: mapped only, the cache pays
    mbr_transfer(kv, cache, 100);
    ExpectLine(kv, {0, 0, 0}, "pooled, kv");
    ExpectLine(cache, {0, 100, 0}, "pooled, cache");
    mbr_refund(cache, 100); // destroyed from the pool: owned only
    ExpectLine(cache, {0, 0, 0}, "destroyed from the pool");
    give(); // parked: nothing is refunded, both axes move to the cache
    mbr_transfer(kv, cache, 100);
    mbr_mapped_transfer(kv, cache, 100);
    ExpectLine(cache, {0, 100, 100}, "parked");
    mbr_mapped_sub(cache, 100); // unmapped, destroy failed: mapped only, and nobody knows the rest
    mbr_quarantine(cache, 100);
    ExpectLine(cache, {0, 100, 0}, "destroy failed");
    EXPECT_EQ(Figures(authority).quarantined_bytes, 100u);
    mbr_quarantine_settle(cache, 100);
    mbr_refund(cache, 100);
    End(authority, kv, cache);
}

// S60: exactly the limit and one byte more.
TEST(Books_Grant, ExactlyTheLimitAndOneByteMore_GrantedThenRefused)
{
    for (uint64_t limit : {UINT64_C(1), UINT64_C(1000), 16 * kMiB, kGiB + 1, 80 * kGiB}) {
        World world;
        mbr_authority *authority = world.Authority(limit);
        mbr_holder *holder = world.Holder(authority);
        mbr_refusal refusal = NewRefusal();
        EXPECT_EQ(mbr_grant(holder, limit, &refusal), MBR_OK);
        EXPECT_EQ(refusal.asked_bytes, 0u); // not written on MBR_OK
        EXPECT_EQ(mbr_grant(holder, 1, &refusal), MBR_OVER_BUDGET);
        EXPECT_EQ(refusal.reason, static_cast<uint32_t>(MBR_REFUSED_LIMIT));
        EXPECT_EQ(refusal.available_bytes, 0u);
        mbr_grant_return(holder, 1);
        EXPECT_EQ(mbr_grant(holder, 2, &refusal), MBR_OVER_BUDGET);
        EXPECT_EQ(refusal.available_bytes, 1u);
        EXPECT_EQ(mbr_grant(holder, 1, &refusal), MBR_OK);
        EXPECT_EQ(Figures(authority).refusal_count, 2u);
        EXPECT_EQ(Figures(authority).grant_count, 2u);
        mbr_grant_return(holder, limit);
        End(authority, holder);
    }
}

// Small grants run on credit; when they have taken all but a rest, the credit must not hide it.
TEST(Books_Grant, FilledByAnyAmount_RefusedOnlyWhenNothingFits)
{
    for (uint64_t limit : {100 * kKiB, 16 * kMiB, 64 * kMiB + 12345}) {
        for (uint64_t amount : {UINT64_C(1000), 4 * kKiB, 7 * kKiB + 1, 100 * kKiB}) {
            World world;
            mbr_authority *authority = world.Authority(limit);
            mbr_holder *holder = world.Holder(authority);
            mbr_refusal refusal = NewRefusal();
            uint64_t count = 0;
            while (mbr_grant(holder, amount, &refusal) == MBR_OK)
                count++;
            EXPECT_EQ(count, limit / amount);
            EXPECT_EQ(refusal.available_bytes, limit % amount);
            EXPECT_EQ(refusal.granted_bytes, count * amount);
            EXPECT_EQ(mbr_grant(holder, limit % amount, &refusal), MBR_OK);
            EXPECT_EQ(Figures(authority).claimed_bytes, limit);
            mbr_grant_return(holder, limit % amount);
            for (uint64_t i = 0; i < count; i++)
                mbr_grant_return(holder, amount);
            EXPECT_EQ(mbr_grant(holder, limit, &refusal), MBR_OK); // also what went into credit
            mbr_grant_return(holder, limit);
            End(authority, holder);
        }
    }
}

// pytorch#173049: everything that the message needs.
TEST(Books_Grant, Refused_FiguresOfTheAuthority)
{
    World world;
    FakeProbe probe;
    probe.free_bytes = 5000;
    mbr_probe seam = probe.Seam();
    mbr_authority *authority = world.Authority(1000, &seam);
    mbr_holder *kv = world.Holder(authority);
    mbr_holder *cache = world.Holder(authority, MBR_NO_ALLOWANCE, MBR_ROLE_CACHE);
    mbr_holder *weights = world.Holder(authority, MBR_NO_ALLOWANCE, MBR_ROLE_WEIGHTS);
    ASSERT_EQ(mbr_grant(kv, 100, nullptr), MBR_OK);
    ASSERT_EQ(mbr_grant(cache, 300, nullptr), MBR_OK);
    mbr_charge(cache, 250);
    ASSERT_EQ(mbr_grant(weights, 200, nullptr), MBR_OK);
    mbr_charge(weights, 200);
    mbr_quarantine(weights, 30);

    mbr_refusal refusal = NewRefusal();
    ASSERT_EQ(mbr_grant(kv, 401, &refusal), MBR_OVER_BUDGET);
    EXPECT_EQ(refusal.reason, static_cast<uint32_t>(MBR_REFUSED_LIMIT));
    EXPECT_EQ(refusal.asked_bytes, 401u);
    EXPECT_EQ(refusal.available_bytes, 400u);
    EXPECT_EQ(refusal.limit_bytes, 1000u);
    EXPECT_EQ(refusal.granted_bytes, 150u);
    EXPECT_EQ(refusal.charged_bytes, 450u);
    EXPECT_EQ(refusal.cached_bytes, 250u);
    EXPECT_EQ(refusal.deferred_bytes, MBR_UNKNOWN_BYTES);
    EXPECT_EQ(refusal.quarantined_bytes, 30u);
    EXPECT_EQ(refusal.device_free_bytes, 5000u);
    EXPECT_EQ(refusal.retry_after_ns, MBR_UNKNOWN_BYTES); // nothing was ever released

    mbr_quarantine_settle(weights, 30);
    mbr_grant_return(kv, 100);
    mbr_grant_return(cache, 50);
    mbr_refund(cache, 250);
    mbr_refund(weights, 200);
    End(authority, kv, cache, weights);
}

TEST(Books_Grant, RefusalOfAnOlderCaller_WritesItsSizeOnly)
{
    World world;
    mbr_authority *authority = world.Authority(10);
    mbr_holder *holder = world.Holder(authority);
    mbr_refusal refusal = NewRefusal();
    refusal.struct_size = offsetof(mbr_refusal, limit_bytes);
    refusal.limit_bytes = 77;
    EXPECT_EQ(mbr_grant(holder, 11, &refusal), MBR_OVER_BUDGET);
    EXPECT_EQ(refusal.asked_bytes, 11u);
    EXPECT_EQ(refusal.available_bytes, 10u);
    EXPECT_EQ(refusal.limit_bytes, 77u);
    EXPECT_EQ(refusal.struct_size, offsetof(mbr_refusal, limit_bytes));
    EXPECT_EQ(mbr_grant(holder, 11, nullptr), MBR_OVER_BUDGET);
    End(authority, holder);
}

// S83: larger than the capacity is refused at once and for good.
TEST(Books_Grant, LargerThanTheLimit_RefusedForCapacityWhateverIsFree)
{
    for (uint64_t allowance : {MBR_NO_ALLOWANCE, UINT64_C(5)}) {
        World world;
        mbr_authority *authority = world.Authority(kGiB);
        mbr_holder *holder = world.Holder(authority, allowance);
        mbr_refusal refusal = NewRefusal();
        for (uint64_t bytes :
            {kGiB + 1, UINT64_C(1) << 63, (UINT64_C(1) << 63) - 1, kNone - 10, kNone - 1, kNone}) {
            EXPECT_EQ(mbr_grant(holder, bytes, &refusal), MBR_OVER_BUDGET) << bytes;
            EXPECT_EQ(refusal.reason, static_cast<uint32_t>(MBR_REFUSED_CAPACITY));
            EXPECT_EQ(refusal.asked_bytes, bytes);
            EXPECT_EQ(refusal.available_bytes, std::min(kGiB, allowance));
            EXPECT_EQ(refusal.retry_after_ns, MBR_UNKNOWN_BYTES);
        }
        EXPECT_EQ(mbr_grant(holder, std::min(kGiB, allowance), &refusal), MBR_OK);
        mbr_grant_return(holder, std::min(kGiB, allowance));
        End(authority, holder);
    }
}

// S60 to S65: a sum that wraps 2^64.
TEST(Books_Grant, SumsThatWrap_AreRefused)
{
    constexpr uint64_t kLargest = (UINT64_C(1) << 63) - 1;
    World world;
    mbr_authority *authority = world.Authority(kLargest);
    mbr_holder *holder = world.Holder(authority);
    mbr_refusal refusal = NewRefusal();
    ASSERT_EQ(mbr_grant(holder, kLargest - 4, &refusal), MBR_OK);
    for (uint64_t bytes : {UINT64_C(5), kLargest, kNone, kNone - kLargest + 5})
        EXPECT_EQ(mbr_grant(holder, bytes, &refusal), MBR_OVER_BUDGET) << bytes;
    EXPECT_EQ(mbr_grant(holder, 4, &refusal), MBR_OK);
    EXPECT_EQ(Figures(authority).claimed_bytes, kLargest);
    mbr_grant_return(holder, kLargest);
    End(authority, holder);
}

// ---- Allowance
TEST(Books_Allowance, ExactlyTheAllowance_GrantedThenRefusedWithItsFigures)
{
    for (uint64_t limit : {UINT64_C(1000), kGiB}) {
        World world;
        mbr_authority *authority = world.Authority(limit);
        mbr_holder *holder = world.Holder(authority, 100);
        mbr_holder *other = world.Holder(authority);
        mbr_refusal refusal = NewRefusal();
        EXPECT_EQ(mbr_grant(holder, 60, &refusal), MBR_OK);
        mbr_charge(holder, 20);
        EXPECT_EQ(mbr_grant(holder, 41, &refusal), MBR_OVER_BUDGET);
        EXPECT_EQ(refusal.reason, static_cast<uint32_t>(MBR_REFUSED_ALLOWANCE));
        EXPECT_EQ(refusal.available_bytes, 40u);
        EXPECT_EQ(refusal.limit_bytes, limit);
        EXPECT_EQ(mbr_grant(other, 41, &refusal), MBR_OK); // the others are not concerned
        EXPECT_EQ(mbr_grant(holder, 40, &refusal), MBR_OK);
        EXPECT_EQ(mbr_grant(holder, 1, &refusal), MBR_OVER_BUDGET);
        EXPECT_EQ(refusal.available_bytes, 0u);
        mbr_grant_return(holder, 80);
        mbr_refund(holder, 20);
        EXPECT_EQ(mbr_grant(holder, 100, &refusal), MBR_OK);
        mbr_grant_return(holder, 100);
        mbr_grant_return(other, 41);
        End(authority, holder, other);
    }
}

TEST(Books_Allowance, AuthorityIsFull_RefusedForTheLimit)
{
    World world;
    mbr_authority *authority = world.Authority(100);
    mbr_holder *holder = world.Holder(authority, 90);
    mbr_holder *other = world.Holder(authority);
    ASSERT_EQ(mbr_grant(other, 30, nullptr), MBR_OK);
    mbr_refusal refusal = NewRefusal();
    EXPECT_EQ(mbr_grant(holder, 71, &refusal), MBR_OVER_BUDGET);
    EXPECT_EQ(refusal.reason, static_cast<uint32_t>(MBR_REFUSED_LIMIT));
    EXPECT_EQ(refusal.available_bytes, 70u);
    EXPECT_EQ(mbr_grant(holder, 70, &refusal), MBR_OK); // the refusal left no lease behind
    EXPECT_EQ(mbr_grant(holder, 21, &refusal), MBR_OVER_BUDGET);
    EXPECT_EQ(refusal.reason, static_cast<uint32_t>(MBR_REFUSED_ALLOWANCE));
    EXPECT_EQ(refusal.available_bytes, 0u); // 20 of the allowance, 0 of the authority
    mbr_grant_return(holder, 70);
    mbr_grant_return(other, 30);
    End(authority, holder, other);
}

// Both bounds at once, and a part of what is free is in the credit of the other holder's thread.
TEST(Books_Allowance, ExactlyWhatBothLeave_GrantedThoughCreditHoldsAPart)
{
    World world;
    mbr_authority *authority = world.Authority(kGiB);
    mbr_holder *holder = world.Holder(authority, kGiB - 100);
    mbr_holder *other = world.Holder(authority);
    ASSERT_EQ(mbr_grant(other, 100, nullptr), MBR_OK);
    ASSERT_GT(Figures(authority).claimed_bytes, 100u);
    EXPECT_EQ(mbr_grant(holder, kGiB - 100, nullptr), MBR_OK);
    EXPECT_EQ(Figures(authority).claimed_bytes, kGiB);
    mbr_grant_return(holder, kGiB - 100);
    mbr_grant_return(other, 100);
    End(authority, holder, other);
}

TEST(Books_Allowance, TransferPastIt_IsOversubscribedAndNeverFails)
{
    World world;
    mbr_authority *authority = world.Authority(1000);
    mbr_holder *owner = world.Holder(authority);
    mbr_holder *heir = world.Holder(authority, 100);
    ASSERT_EQ(mbr_grant(owner, 150, nullptr), MBR_OK);
    mbr_charge(owner, 150);
    mbr_transfer(owner, heir, 150);
    EXPECT_EQ(Figures(heir).charged_bytes, 150u);
    EXPECT_EQ(Figures(heir).oversubscribed_bytes, 50u);
    EXPECT_EQ(Figures(authority).claimed_bytes, 150u); // one payer, no second claim
    mbr_refusal refusal = NewRefusal();
    EXPECT_EQ(mbr_grant(heir, 1, &refusal), MBR_OVER_BUDGET);
    EXPECT_EQ(refusal.reason, static_cast<uint32_t>(MBR_REFUSED_ALLOWANCE));
    EXPECT_EQ(refusal.available_bytes, 0u);
    mbr_refund(heir, 51);
    EXPECT_EQ(Figures(heir).oversubscribed_bytes, 0u);
    EXPECT_EQ(mbr_grant(heir, 1, &refusal), MBR_OK);
    mbr_grant_return(heir, 1);
    mbr_transfer(heir, owner, 99); // and back: the allowance is free again
    EXPECT_EQ(mbr_grant(heir, 100, &refusal), MBR_OK);
    mbr_grant_return(heir, 100);
    mbr_refund(owner, 99);
    End(authority, owner, heir);
}

TEST(Books_Allowance, TryTransferPastIt_RefusedAndNothingMoves)
{
    World world;
    mbr_authority *authority = world.Authority(1000);
    mbr_holder *cache = world.Holder(authority, MBR_NO_ALLOWANCE, MBR_ROLE_CACHE);
    mbr_holder *kv = world.Holder(authority, 100);
    ASSERT_EQ(mbr_grant(cache, 150, nullptr), MBR_OK);
    mbr_charge(cache, 150);
    ASSERT_EQ(mbr_grant(kv, 10, nullptr), MBR_OK); // granted counts like charged
    mbr_refusal refusal = NewRefusal();
    EXPECT_EQ(mbr_try_transfer(cache, kv, 91, &refusal), MBR_OVER_BUDGET);
    EXPECT_EQ(refusal.reason, static_cast<uint32_t>(MBR_REFUSED_ALLOWANCE));
    EXPECT_EQ(refusal.asked_bytes, 91u);
    EXPECT_EQ(refusal.available_bytes, 90u);
    EXPECT_EQ(refusal.cached_bytes, 150u);
    ExpectLine(cache, {0, 150, 0}, "refused");
    ExpectLine(kv, {10, 0, 0}, "refused");
    EXPECT_EQ(Figures(authority).refusal_count, 1u);
    EXPECT_EQ(mbr_try_transfer(cache, kv, 91, nullptr), MBR_OVER_BUDGET);
    EXPECT_EQ(mbr_try_transfer(cache, kv, 90, &refusal), MBR_OK);
    ExpectLine(cache, {0, 60, 0}, "moved");
    ExpectLine(kv, {10, 90, 0}, "moved");
    EXPECT_EQ(mbr_try_transfer(kv, kv, 90, &refusal), MBR_OK); // to itself: nothing to lease
    EXPECT_EQ(mbr_try_transfer(kv, cache, 90, &refusal), MBR_OK);
    EXPECT_EQ(mbr_grant(kv, 90, &refusal), MBR_OK);
    mbr_grant_return(kv, 100);
    mbr_refund(cache, 150);
    End(authority, cache, kv);
}

// ---- Committed
// S60 to S65: bytes that were taken already.
TEST(Books_Committed, PastTheLimit_ShownAsOverAndNothingGrantedUntilBelow)
{
    for (uint64_t limit : {UINT64_C(100), kGiB}) {
        World world;
        mbr_authority *authority = world.Authority(limit);
        mbr_holder *holder = world.Holder(authority, limit);
        mbr_holder *small = world.Holder(authority);
        ASSERT_EQ(mbr_grant(small, 1, nullptr), MBR_OK); // may leave credit behind
        mbr_record_committed(holder, limit + 50);
        mbr_authority_figures figures = Figures(authority);
        EXPECT_EQ(figures.claimed_bytes, limit + 51);
        EXPECT_EQ(figures.over_bytes, 51u);
        EXPECT_EQ(figures.charged_bytes, limit + 50);
        EXPECT_EQ(figures.granted_bytes, 1u);
        EXPECT_EQ(figures.grant_count, 1u);
        EXPECT_EQ(Figures(holder).oversubscribed_bytes, 50u);
        mbr_refusal refusal = NewRefusal();
        EXPECT_EQ(
            mbr_grant(small, 1, &refusal), MBR_OVER_BUDGET); // no credit is left to grant from
        EXPECT_EQ(refusal.available_bytes, 0u);
        EXPECT_EQ(refusal.reason, static_cast<uint32_t>(MBR_REFUSED_LIMIT));
        mbr_refund(holder, 51);
        EXPECT_EQ(Figures(authority).over_bytes, 0u);
        EXPECT_EQ(mbr_grant(small, 1, &refusal), MBR_OVER_BUDGET);
        mbr_refund(holder, 1);
        EXPECT_EQ(mbr_grant(small, 1, &refusal), MBR_OK);
        mbr_grant_return(small, 2);
        mbr_refund(holder, limit - 2);
        End(authority, holder, small);
    }
}

TEST(Books_CommittedDeathTest, PastAllBytesThereAre_EndsTheProcess)
{
    World world;
    mbr_authority *authority = world.Authority(100);
    mbr_holder *holder = world.Holder(authority);
    mbr_record_committed(holder, (UINT64_C(1) << 63) - 11);
    EXPECT_EQ(Figures(authority).over_bytes, (UINT64_C(1) << 63) - 111);
    mbr_record_committed(holder, 10);
    for (uint64_t bytes : {UINT64_C(1), UINT64_C(1) << 63, kNone})
        EXPECT_DEATH(mbr_record_committed(holder, bytes), "assertion failed");
    mbr_refund(holder, (UINT64_C(1) << 63) - 1);
    End(authority, holder);
}

TEST(Books_TransferDeathTest, AcrossAuthorities_EndsTheProcess)
{
    World world;
    mbr_authority *first = world.Authority(100);
    mbr_authority *second = world.Authority(100);
    mbr_holder *from = world.Holder(first);
    mbr_holder *to = world.Holder(second);
    EXPECT_DEATH(mbr_transfer(from, to, 0), "assertion failed");
    EXPECT_DEATH(mbr_try_transfer(from, to, 0, nullptr), "assertion failed");
    End(first, from);
    End(second, to);
}

// ---- Marks
TEST(Books_Marks, QuarantinedAndRetained_StayChargedUntilSettledAndRefunded)
{
    World world;
    mbr_authority *authority = world.Authority(1000);
    mbr_holder *a = world.Holder(authority);
    mbr_holder *b = world.Holder(authority);
    for (mbr_holder *holder : {a, b}) {
        ASSERT_EQ(mbr_grant(holder, 100, nullptr), MBR_OK);
        mbr_charge(holder, 100);
    }
    mbr_quarantine(a, 10);
    mbr_quarantine(b, 20);
    mbr_retain(a, 3);
    mbr_retain(b, 4);
    EXPECT_EQ(Figures(a).quarantined_bytes, 10u);
    EXPECT_EQ(Figures(b).retained_bytes, 4u);
    EXPECT_EQ(Figures(authority).quarantined_bytes, 30u);
    EXPECT_EQ(Figures(authority).retained_bytes, 7u);
    EXPECT_EQ(Figures(authority).charged_bytes, 200u);
    EXPECT_EQ(mbr_authority_audit(authority, nullptr), MBR_OK);
    mbr_quarantine_settle(a, 6);
    mbr_retain_settle(a, 3);
    EXPECT_EQ(Figures(a).quarantined_bytes, 4u);
    EXPECT_EQ(Figures(a).retained_bytes, 0u);
    EXPECT_EQ(Figures(a).charged_bytes, 100u); // the refund is another step
    mbr_quarantine_settle(a, 4);
    mbr_quarantine_settle(b, 20);
    mbr_retain_settle(b, 4);
    mbr_refund(a, 100);
    mbr_refund(b, 100);
    End(authority, a, b);
}

TEST(Books_MarksDeathTest, SettledMoreThanMarked_EndsTheProcess)
{
    World world;
    mbr_authority *authority = world.Authority(1000);
    mbr_holder *holder = world.Holder(authority);
    mbr_record_committed(holder, 10);
    mbr_quarantine(holder, 4);
    mbr_retain(holder, 5);
    EXPECT_DEATH(mbr_quarantine_settle(holder, 5), "assertion failed");
    EXPECT_DEATH(mbr_retain_settle(holder, 6), "assertion failed");
    mbr_quarantine_settle(holder, 4);
    mbr_retain_settle(holder, 5);
    mbr_refund(holder, 10);
    End(authority, holder);
}

// ---- Peaks
TEST(Books_Peak, OneThread_ExactWhateverTheAmounts)
{
    for (uint64_t limit : {kMiB, 64 * kMiB, 80 * kGiB}) {
        for (uint64_t step : {UINT64_C(1), UINT64_C(1000), 20 * kKiB, 90 * kKiB}) {
            World world;
            mbr_authority *authority = world.Authority(limit);
            mbr_holder *a = world.Holder(authority);
            mbr_holder *b = world.Holder(authority);
            auto add = [&](mbr_holder *holder, uint64_t bytes) {
                ASSERT_EQ(mbr_grant(holder, bytes, nullptr), MBR_OK);
                mbr_charge(holder, bytes);
            };
            for (int i = 0; i < 6; i++)
                add(a, step);
            add(b, 3 * step);
            mbr_refund(a, 6 * step); // nobody looked at the height
            add(b, 2 * step);
            mbr_transfer(b, a, step);
            EXPECT_EQ(Figures(authority).peak_charged_bytes, 9 * step);
            EXPECT_EQ(Figures(a).peak_charged_bytes, 6 * step);
            EXPECT_EQ(Figures(b).peak_charged_bytes, 5 * step);
            mbr_refund(a, step);
            mbr_refund(b, 4 * step);
            EXPECT_EQ(Figures(authority).peak_charged_bytes, 9 * step);
            mbr_record_committed(a, 2 * limit);
            EXPECT_EQ(Figures(a).peak_charged_bytes, 2 * limit);
            EXPECT_EQ(Figures(authority).peak_charged_bytes, 2 * limit);
            mbr_refund(a, 2 * limit);
            End(authority, a, b);
        }
    }
}

TEST(Books_Peak, GrantedBytes_AreNotCharged)
{
    World world;
    mbr_authority *authority = world.Authority(100);
    mbr_holder *holder = world.Holder(authority);
    ASSERT_EQ(mbr_grant(holder, 100, nullptr), MBR_OK);
    mbr_grant_return(holder, 100);
    EXPECT_EQ(Figures(authority).peak_charged_bytes, 0u);
    EXPECT_EQ(Figures(holder).peak_charged_bytes, 0u);
    End(authority, holder);
}

} // namespace
