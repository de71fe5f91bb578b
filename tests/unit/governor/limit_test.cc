// The limit in force: set, measured, fallen because a driver said out of memory; and what each does
// to claims and figures.
#include "tests/unit/governor/world.h"

using namespace governor_test;

namespace
{

TEST(Limit_Set, RaisedAndLowered_InForceAtOnceWithARevisionEach)
{
    for (uint64_t scale : {UINT64_C(1), kMiB}) { // without credit and with it
        World world;
        mbr_authority *authority = world.Authority(100 * scale);
        mbr_holder *holder = world.Holder(authority);
        EXPECT_EQ(Figures(authority).revision, 0u);
        ASSERT_EQ(mbr_grant(holder, 60 * scale, nullptr), MBR_OK);
        ASSERT_EQ(mbr_grant(holder, scale / 1024 + 1, nullptr), MBR_OK);
        mbr_grant_return(holder, scale / 1024 + 1);
        uint64_t over = 99;
        EXPECT_EQ(mbr_authority_set_limit(authority, 200 * scale, &over, nullptr), MBR_OK);
        EXPECT_EQ(over, 0u);
        EXPECT_EQ(Figures(authority).limit_bytes, 200 * scale);
        EXPECT_EQ(Figures(authority).revision, 1u);
        EXPECT_EQ(mbr_authority_set_limit(authority, 200 * scale, &over, nullptr), MBR_OK);
        EXPECT_EQ(Figures(authority).revision, 1u); // no change
        EXPECT_EQ(mbr_authority_set_limit(authority, 61 * scale, &over, nullptr), MBR_OK);
        EXPECT_EQ(over, 0u);
        EXPECT_EQ(Figures(authority).set_limit_bytes, 61 * scale);
        EXPECT_EQ(Figures(authority).revision, 2u);
        EXPECT_EQ(mbr_grant(holder, scale + 1, nullptr), MBR_OVER_BUDGET);
        EXPECT_EQ(mbr_grant(holder, scale, nullptr), MBR_OK);
        mbr_grant_return(holder, 61 * scale);
        End(authority, holder);
    }
}

// kvcached#377, #414: available 0, the overage reported, no wrap, the holder's data untouched.
TEST(Limit_Set, BelowWhatIsClaimed_RevokesNothingAndRefusesUntilBelow)
{
    World world;
    mbr_authority *authority = world.Authority(100);
    mbr_holder *holder = world.Holder(authority);
    ASSERT_EQ(mbr_grant(holder, 80, nullptr), MBR_OK);
    mbr_charge(holder, 80);
    uint64_t over = 0;
    EXPECT_EQ(mbr_authority_set_limit(authority, 30, &over, nullptr), MBR_OK);
    EXPECT_EQ(over, 50u);
    mbr_authority_figures figures = Figures(authority);
    EXPECT_EQ(figures.over_bytes, 50u);
    EXPECT_EQ(figures.claimed_bytes, 80u);
    EXPECT_EQ(figures.charged_bytes, 80u);
    mbr_refusal refusal = NewRefusal();
    EXPECT_EQ(mbr_grant(holder, 1, &refusal), MBR_OVER_BUDGET);
    EXPECT_EQ(refusal.reason, static_cast<uint32_t>(MBR_REFUSED_LIMIT));
    EXPECT_EQ(refusal.available_bytes, 0u);
    EXPECT_EQ(refusal.limit_bytes, 30u);
    mbr_refund(holder, 50);
    EXPECT_EQ(Figures(authority).over_bytes, 0u);
    EXPECT_EQ(mbr_grant(holder, 1, &refusal), MBR_OVER_BUDGET);
    mbr_refund(holder, 10);
    EXPECT_EQ(mbr_grant(holder, 10, &refusal), MBR_OK);
    EXPECT_EQ(mbr_authority_set_limit(authority, 0, &over, nullptr), MBR_OK);
    EXPECT_EQ(over, 30u);
    EXPECT_EQ(mbr_authority_set_limit(authority, 100, &over, nullptr), MBR_OK);
    EXPECT_EQ(over, 0u);
    EXPECT_EQ(mbr_grant(holder, 70, &refusal), MBR_OK);
    mbr_grant_return(holder, 80);
    mbr_refund(holder, 20);
    End(authority, holder);
}

// A thread's credit was claimed under the old limit: none of it may be granted above the new one.
TEST(Limit_Set, LoweredBelowUse_LeavesNoCreditToGrantFrom)
{
    World world;
    mbr_authority *authority = world.Authority(kGiB);
    mbr_holder *holder = world.Holder(authority);
    ASSERT_EQ(mbr_grant(holder, 100 * kKiB, nullptr), MBR_OK);
    ASSERT_GT(Figures(authority).claimed_bytes, 100 * kKiB);
    uint64_t over = 0;
    EXPECT_EQ(mbr_authority_set_limit(authority, 60 * kKiB, &over, nullptr), MBR_OK);
    EXPECT_EQ(over, 40 * kKiB); // of grants, not of credit
    EXPECT_EQ(mbr_grant(holder, 1, nullptr), MBR_OVER_BUDGET);
    mbr_grant_return(holder, 100 * kKiB);
    End(authority, holder);
}

TEST(Limit_Set, LoweredWithRoom_KeepsCreditWithin64thOfTheNewLimit)
{
    World world;
    mbr_authority *authority = world.Authority(80 * kGiB);
    mbr_holder *holder = world.Holder(authority);
    uint64_t over;
    ASSERT_EQ(mbr_grant(holder, 100, nullptr), MBR_OK);
    ASSERT_EQ(mbr_authority_set_limit(authority, 32 * kMiB, &over, nullptr), MBR_OK);
    EXPECT_LE(Figures(authority).claimed_bytes, 100 + kMiB / 2);
    ASSERT_EQ(mbr_grant(holder, 100, nullptr), MBR_OK);
    EXPECT_GT(Figures(authority).claimed_bytes, 200u);
    EXPECT_LE(Figures(authority).claimed_bytes, 200 + kMiB / 2);
    mbr_grant_return(holder, 200);
    End(authority, holder);
}

TEST(Limit_Set, OutOfRange_RefusedAndUnchanged)
{
    World world;
    FakeProbe probe;
    probe.free_bytes = 500;
    mbr_probe seam = probe.Seam();
    mbr_authority *set = world.Authority(100);
    mbr_authority *measured = world.Authority(100, &seam);
    uint64_t over = 99;
    mbr_error error = NewError();
    EXPECT_EQ(mbr_authority_set_limit(set, kNone, &over, &error), MBR_INVALID_ARGUMENT);
    EXPECT_NE(std::string(error.text).find("measures nothing"), std::string::npos) << error.text;
    EXPECT_EQ(over, 0u);
    EXPECT_EQ(mbr_authority_set_limit(set, UINT64_C(1) << 63, &over, &error), MBR_OUT_OF_RANGE);
    EXPECT_NE(std::string(error.text).find("9223372036854775808"), std::string::npos);
    EXPECT_EQ(mbr_authority_set_limit(measured, kNone - 1, &over, &error), MBR_OUT_OF_RANGE);
    for (mbr_authority *authority : {set, measured}) {
        EXPECT_EQ(Figures(authority).limit_bytes, 100u);
        EXPECT_EQ(Figures(authority).revision, 0u);
    }
    EXPECT_EQ(mbr_authority_set_limit(set, (UINT64_C(1) << 63) - 1, &over, &error), MBR_OK);
    EXPECT_EQ(Figures(set).limit_bytes, (UINT64_C(1) << 63) - 1); // the largest there is
    EXPECT_EQ(mbr_authority_set_limit(measured, kNone, &over, &error), MBR_OK);
    EXPECT_EQ(Figures(measured).limit_bytes, 500u);
    EXPECT_EQ(Figures(measured).set_limit_bytes, kNone);
    End<mbr_holder *>(set, nullptr);
    End<mbr_holder *>(measured, nullptr);
}

// ---- Measured
TEST(Limit_Measured, AtCreation_SampledOnceWithTheMargin)
{
    struct Row {
        uint64_t set, free, margin, limit;
    } rows[] = {
        {kNone, 1000, 0, 1000}, {kNone, 1000, 100, 900}, {kNone, 1000, 1000, 0},
        {kNone, 1000, 1001, 0}, {kNone, 0, 0, 0}, {500, 1000, 100, 500}, {950, 1000, 100, 900},
        {kNone, kNone - 1, 0, (UINT64_C(1) << 63) - 1}, {kNone, kNone - 1, kNone, 0},
        {500, MBR_UNKNOWN_BYTES, 0, 500}, // as good as no answer
    };
    for (const Row &row : rows) {
        World world;
        FakeProbe probe;
        probe.free_bytes = row.free;
        mbr_probe seam = probe.Seam();
        mbr_authority *authority = world.Authority(row.set, &seam, row.margin);
        EXPECT_EQ(probe.calls, 1);
        EXPECT_EQ(Figures(authority).limit_bytes, row.limit) << row.set << " " << row.free;
        EXPECT_EQ(Figures(authority).set_limit_bytes, row.set);
        End<mbr_holder *>(authority, nullptr);
    }
}

TEST(Limit_Measured, ChargedAndFreeTogetherWrap_IsTheLargestLimit)
{
    World world;
    FakeProbe probe;
    probe.free_bytes = kNone - 1;
    mbr_probe seam = probe.Seam();
    mbr_authority *authority = world.Authority(kNone, &seam);
    mbr_holder *holder = world.Holder(authority);
    mbr_record_committed(holder, 1000);
    mbr_authority_sample(authority, true);
    EXPECT_EQ(Figures(authority).limit_bytes, (UINT64_C(1) << 63) - 1);
    mbr_refund(holder, 1000);
    End(authority, holder);
}

TEST(Limit_Measured, FallsAndRises_WithWhatIsFreeBesideWhatIsCharged)
{
    World world;
    FakeProbe probe;
    probe.free_bytes = 1000;
    mbr_probe seam = probe.Seam();
    mbr_authority *authority = world.Authority(2000, &seam, 100);
    mbr_holder *holder = world.Holder(authority);
    ASSERT_EQ(mbr_grant(holder, 400, nullptr), MBR_OK);
    mbr_charge(holder, 300);
    probe.free_bytes = 600; // the 300 are in use now, and somebody else took 100
    mbr_authority_sample(authority, true);
    EXPECT_EQ(Figures(authority).limit_bytes, 800u); // 300 + 600 - 100
    mbr_refusal refusal = NewRefusal();
    EXPECT_EQ(mbr_grant(holder, 401, &refusal), MBR_OVER_BUDGET);
    EXPECT_EQ(refusal.reason, static_cast<uint32_t>(MBR_REFUSED_MEASURED));
    EXPECT_EQ(refusal.available_bytes, 400u);
    EXPECT_EQ(refusal.limit_bytes, 800u);
    EXPECT_EQ(refusal.device_free_bytes, 600u);
    EXPECT_EQ(mbr_grant(holder, 1601, &refusal), MBR_OVER_BUDGET);
    EXPECT_EQ(refusal.reason, static_cast<uint32_t>(MBR_REFUSED_LIMIT)); // the set one too
    EXPECT_EQ(mbr_grant(holder, 2001, &refusal), MBR_OVER_BUDGET);
    EXPECT_EQ(refusal.reason, static_cast<uint32_t>(MBR_REFUSED_CAPACITY));

    probe.free_bytes = 150; // below use: over by what is granted too much
    mbr_authority_sample(authority, true);
    EXPECT_EQ(Figures(authority).limit_bytes, 350u);
    EXPECT_EQ(Figures(authority).over_bytes, 50u);
    EXPECT_EQ(mbr_grant(holder, 1, &refusal), MBR_OVER_BUDGET);
    EXPECT_EQ(refusal.reason, static_cast<uint32_t>(MBR_REFUSED_MEASURED));
    EXPECT_EQ(refusal.available_bytes, 0u);

    probe.free_bytes = 5000; // and up to the set limit again
    mbr_authority_sample(authority, true);
    EXPECT_EQ(Figures(authority).limit_bytes, 2000u);
    EXPECT_EQ(mbr_grant(holder, 1600, &refusal), MBR_OK);
    mbr_grant_return(holder, 1700);
    mbr_refund(holder, 300);
    End(authority, holder);
}

TEST(Limit_Measured, OnlyMeasured_CapacityIsNeverTheReason)
{
    World world;
    FakeProbe probe;
    probe.free_bytes = 1000;
    mbr_probe seam = probe.Seam();
    mbr_authority *authority = world.Authority(kNone, &seam);
    mbr_holder *holder = world.Holder(authority);
    mbr_refusal refusal = NewRefusal();
    EXPECT_EQ(mbr_grant(holder, 1001, &refusal), MBR_OVER_BUDGET);
    EXPECT_EQ(refusal.reason, static_cast<uint32_t>(MBR_REFUSED_MEASURED)); // it may rise
    EXPECT_EQ(mbr_grant(holder, kNone, &refusal), MBR_OVER_BUDGET);
    EXPECT_EQ(refusal.reason, static_cast<uint32_t>(MBR_REFUSED_CAPACITY)); // no machine has that
    End(authority, holder);
}

TEST(Limit_Measured, SampledAgain_OnlyAfterTheIntervalOrOnDemand)
{
    World world;
    FakeProbe probe;
    probe.free_bytes = 1000;
    mbr_probe seam = probe.Seam();
    mbr_authority *authority = world.Authority(kNone, &seam);
    mbr_authority_sample(authority, false);
    EXPECT_EQ(probe.calls, 1);
    world.clock.now_ns += MBR_PROBE_INTERVAL_NS - 1;
    mbr_authority_sample(authority, false);
    EXPECT_EQ(probe.calls, 1);
    world.clock.now_ns += 1;
    probe.free_bytes = 700;
    mbr_authority_sample(authority, false);
    EXPECT_EQ(probe.calls, 2);
    EXPECT_EQ(Figures(authority).limit_bytes, 700u);
    mbr_authority_sample(authority, false);
    EXPECT_EQ(probe.calls, 2);
    mbr_authority_sample(authority, true);
    EXPECT_EQ(probe.calls, 3);
    world.clock.now_ns += MBR_PROBE_INTERVAL_NS - 1; // counted from the sample on demand
    mbr_authority_sample(authority, false);
    EXPECT_EQ(probe.calls, 3);
    world.clock.now_ns -=
        2 * MBR_PROBE_INTERVAL_NS; // a clock that goes back stops nothing for good
    mbr_authority_sample(authority, false);
    EXPECT_EQ(probe.calls, 3);
    mbr_authority_sample(authority, true);
    EXPECT_EQ(probe.calls, 4);
    End<mbr_holder *>(authority, nullptr);
}

TEST(Limit_Measured, ProbeFallsSilent_LastMeasureStays)
{
    World world;
    FakeProbe probe;
    probe.free_bytes = 1000;
    mbr_probe seam = probe.Seam();
    mbr_authority *authority = world.Authority(5000, &seam);
    mbr_holder *holder = world.Holder(authority);
    probe.known = false;
    probe.free_bytes = 0;
    mbr_authority_sample(authority, true);
    EXPECT_EQ(probe.calls, 2);
    EXPECT_EQ(Figures(authority).limit_bytes, 1000u);
    mbr_refusal refusal = NewRefusal();
    EXPECT_EQ(mbr_grant(holder, 1001, &refusal), MBR_OVER_BUDGET);
    EXPECT_EQ(refusal.device_free_bytes, 1000u); // as measured last
    End(authority, holder);
}

TEST(Limit_Measured, NeverMeasured_FreeBytesAreUnknown)
{
    World world;
    FakeProbe probe;
    probe.known = false;
    mbr_probe seam = probe.Seam();
    for (const mbr_probe *one :
        {static_cast<const mbr_probe *>(nullptr), (const mbr_probe *)&seam}) {
        mbr_authority *authority = world.Authority(10, one);
        mbr_holder *holder = world.Holder(authority);
        mbr_authority_sample(authority, true);
        mbr_refusal refusal = NewRefusal();
        EXPECT_EQ(mbr_grant(holder, 11, &refusal), MBR_OVER_BUDGET);
        EXPECT_EQ(refusal.device_free_bytes, MBR_UNKNOWN_BYTES);
        EXPECT_EQ(Figures(authority).unattributed_bytes, MBR_UNKNOWN_BYTES);
        End(authority, holder);
    }
}

// Bytes that come or go while the probe looks must not be counted as charged and as free.
TEST(Limit_Measured, BooksMoveDuringTheSample_TheLowerFigureCounts)
{
    World world;
    FakeProbe probe;
    probe.free_bytes = 1000;
    mbr_probe seam = probe.Seam();
    mbr_authority *authority = world.Authority(5000, &seam);
    mbr_holder *holder = world.Holder(authority);
    probe.inside_context = holder;
    probe.inside = [](void *context) {
        auto *inner = static_cast<mbr_holder *>(context);
        ASSERT_EQ(mbr_grant(inner, 300, nullptr), MBR_OK); // the probe may book: no lock is held
        mbr_charge(inner, 300);
    };
    mbr_authority_sample(authority, true);
    EXPECT_EQ(Figures(authority).limit_bytes, 1000u); // 0 charged before, 1000 free before
    probe.inside = [](void *context) { mbr_refund(static_cast<mbr_holder *>(context), 300); };
    mbr_authority_sample(authority, true);
    EXPECT_EQ(Figures(authority).limit_bytes, 1000u); // 300 were given back and are free
    probe.inside = nullptr;
    End(authority, holder);
}

// ---- Exhausted
TEST(Limit_Exhausted, DriverSaidOutOfMemory_NothingGrantedUntilTheNextSample)
{
    for (bool measured : {false, true}) {
        World world;
        FakeProbe probe;
        probe.free_bytes = kGiB;
        mbr_probe seam = probe.Seam();
        mbr_authority *authority = world.Authority(kGiB, measured ? &seam : nullptr);
        mbr_holder *holder = world.Holder(authority);
        ASSERT_EQ(mbr_grant(holder, 1000, nullptr), MBR_OK);
        uint64_t revision = Figures(authority).revision;
        mbr_authority_note_exhausted(authority);
        EXPECT_EQ(Figures(authority).limit_bytes, 1000u);
        EXPECT_EQ(Figures(authority).claimed_bytes, 1000u);
        EXPECT_EQ(Figures(authority).set_limit_bytes, kGiB);
        EXPECT_EQ(Figures(authority).revision, revision + 1);
        mbr_refusal refusal = NewRefusal();
        EXPECT_EQ(mbr_grant(holder, 1, &refusal), MBR_OVER_BUDGET);
        EXPECT_EQ(refusal.reason, static_cast<uint32_t>(MBR_REFUSED_MEASURED));
        mbr_grant_return(holder, 10); // what is given back may be taken again
        EXPECT_EQ(mbr_grant(holder, 10, &refusal), MBR_OK);
        mbr_authority_sample(authority, false); // too early: it was just found out
        EXPECT_EQ(Figures(authority).limit_bytes, 1000u);
        world.clock.now_ns += MBR_PROBE_INTERVAL_NS;
        mbr_authority_sample(authority, false);
        EXPECT_EQ(Figures(authority).limit_bytes, kGiB);
        EXPECT_EQ(mbr_grant(holder, 1, &refusal), MBR_OK);
        mbr_grant_return(holder, 1001);
        End(authority, holder);
    }
}

TEST(Limit_Exhausted, NewLimit_HoldsAtOnce)
{
    World world;
    mbr_authority *authority = world.Authority(1000);
    mbr_holder *holder = world.Holder(authority);
    mbr_authority_note_exhausted(authority);
    ASSERT_EQ(mbr_grant(holder, 1, nullptr), MBR_OVER_BUDGET);
    uint64_t over = 77;
    ASSERT_EQ(mbr_authority_set_limit(authority, 2000, &over, nullptr), MBR_OK);
    EXPECT_EQ(over, 0u);
    EXPECT_EQ(mbr_grant(holder, 2000, nullptr), MBR_OK);
    mbr_grant_return(holder, 2000);
    End(authority, holder);
}

TEST(Limit_Exhausted, AlreadyOver_LimitStaysWhereItIs)
{
    World world;
    mbr_authority *authority = world.Authority(100);
    mbr_holder *holder = world.Holder(authority);
    mbr_record_committed(holder, 150);
    mbr_authority_note_exhausted(authority);
    EXPECT_EQ(Figures(authority).limit_bytes, 100u);
    EXPECT_EQ(Figures(authority).over_bytes, 50u);
    mbr_refund(holder, 150);
    EXPECT_EQ(Figures(authority).limit_bytes, 100u);
    mbr_authority_sample(authority, true);
    End(authority, holder);
}

TEST(Limit_Exhausted, FoundOutDuringASample_OutlivesThatSample)
{
    World world;
    FakeProbe probe;
    probe.free_bytes = 1000;
    mbr_probe seam = probe.Seam();
    mbr_authority *authority = world.Authority(1000, &seam);
    mbr_holder *holder = world.Holder(authority);
    ASSERT_EQ(mbr_grant(holder, 10, nullptr), MBR_OK);
    probe.inside_context = authority;
    probe.inside = [](void *context) {
        mbr_authority_note_exhausted(static_cast<mbr_authority *>(context));
    };
    mbr_authority_sample(authority, true); // measured before: it proves nothing about afterwards
    EXPECT_EQ(Figures(authority).limit_bytes, 10u);
    probe.inside = nullptr;
    mbr_authority_sample(authority, true);
    EXPECT_EQ(Figures(authority).limit_bytes, 1000u);
    mbr_grant_return(holder, 10);
    End(authority, holder);
}

TEST(Limit_Violation, EachNote_IsCounted)
{
    World world;
    mbr_authority *authority = world.Authority(100);
    for (uint64_t i = 0; i < 3; i++) {
        EXPECT_EQ(Figures(authority).violation_count, i);
        mbr_authority_note_violation(authority);
    }
    EXPECT_EQ(Figures(authority).violation_count, 3u);
    End<mbr_holder *>(authority, nullptr);
}

} // namespace
