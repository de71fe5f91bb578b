// A limit that changes in two phases: applied, deferred, stale, conflict; holders' data untouched.
#include "tests/unit/governor/waiting.h"

using namespace governor_test;

namespace
{

class Change : public testing::Test
{
  protected:
    void SetUp() override
    {
        authority = world.Authority(1000);
        MakeGiver(world, giver, authority, MBR_ROLE_CACHE);
        giver.Charge(800);
    }

    void TearDown() override
    {
        giver.inside = nullptr;
        giver.Refund(giver.charged);
        End(authority, giver.holder);
    }

    mbr_limit_answer To(
        uint64_t limit_bytes, uint32_t flags = 0, uint64_t expected_revision = MBR_ANY_REVISION)
    {
        mbr_limit_change change = {sizeof(change), flags, limit_bytes, expected_revision};
        mbr_limit_answer answer = {};
        answer.struct_size = sizeof(answer);
        mbr_error error = NewError();
        EXPECT_EQ(mbr_authority_change_limit(authority, &change, &answer, &error), MBR_OK)
            << error.text;
        return answer;
    }

    World world;
    mbr_authority *authority;
    Giver giver;
};

TEST_F(Change, AboveWhatIsClaimed_AppliedAndNobodyAsked)
{
    mbr_limit_answer answer = To(900);
    EXPECT_EQ(answer.kind, (uint32_t)MBR_LIMIT_APPLIED);
    EXPECT_EQ(answer.limit_bytes, 900u);
    EXPECT_EQ(answer.over_bytes, 0u);
    EXPECT_EQ(answer.revision, 1u);
    EXPECT_EQ(giver.asked, 0);
}

TEST_F(Change, BelowUse_AppliedByWhatTheHoldersGive)
{
    giver.offers = 300;
    mbr_limit_answer answer = To(500);
    EXPECT_EQ(answer.kind, (uint32_t)MBR_LIMIT_APPLIED);
    EXPECT_EQ(answer.given_bytes, 300u);
    EXPECT_EQ(giver.charged, 500u);
    EXPECT_EQ(giver.last.holder_id, 0u);
}

TEST_F(Change, BelowUseAndNobodyGives_DeferredWithTheOverageAndNoWrap)
{
    giver.offers = 299;
    mbr_limit_answer answer = To(500);
    EXPECT_EQ(answer.kind, (uint32_t)MBR_LIMIT_DEFERRED);
    EXPECT_EQ(answer.over_bytes, 300u);
    EXPECT_EQ(giver.gave, 0);
    EXPECT_EQ(giver.charged, 800u);
    mbr_refusal refusal = NewRefusal();
    EXPECT_EQ(mbr_grant(giver.holder, 1, &refusal), MBR_OVER_BUDGET);
    EXPECT_EQ(refusal.available_bytes, 0u);
    giver.Refund(300);
    EXPECT_EQ(Figures(authority).over_bytes, 0u);
    answer = To(900); // above use again
    EXPECT_EQ(answer.kind, (uint32_t)MBR_LIMIT_APPLIED);
}

TEST_F(Change, RatherTheOldOne_ConflictWithTheOverageAndTheOldLimit)
{
    mbr_limit_answer answer = To(500, MBR_LIMIT_RESTORE);
    EXPECT_EQ(answer.kind, (uint32_t)MBR_LIMIT_CONFLICT);
    EXPECT_EQ(answer.over_bytes, 300u);
    EXPECT_EQ(answer.limit_bytes, 1000u);
    EXPECT_EQ(mbr_grant(giver.holder, 200, nullptr), MBR_OK);
    mbr_grant_return(giver.holder, 200);
}

TEST_F(Change, WhileHoldersAreAsked_ClaimsPauseAndASecondWriterConflicts)
{
    giver.offers = 300;
    mbr_limit_answer second = {};
    mbr_status claim = MBR_OK;
    giver.inside = [&] {
        if (giver.asked != 1 || giver.gave != 0)
            return;
        claim = mbr_grant(giver.holder, 1, nullptr);
        second = To(700);
    };
    EXPECT_EQ(To(500).kind, (uint32_t)MBR_LIMIT_APPLIED);
    EXPECT_EQ(claim, MBR_OVER_BUDGET);
    EXPECT_EQ(second.kind, (uint32_t)MBR_LIMIT_CONFLICT);
    EXPECT_EQ(Figures(authority).set_limit_bytes, 500u);
}

TEST_F(Change, OverageOfTheMeasuredLimitAlone_IsNotTheChanges)
{
    FakeProbe probe;
    mbr_probe seam = probe.Seam();
    probe.free_bytes = 1000;
    mbr_authority *measured = world.Authority(1000, &seam);
    mbr_holder *holder = world.Holder(measured);
    Take(holder, 800); // granted, and never owned
    probe.free_bytes = 100;
    mbr_authority_sample(measured, true);
    EXPECT_EQ(Figures(measured).over_bytes, 700u);
    mbr_limit_change change = {sizeof(change), MBR_LIMIT_RESTORE, 900, MBR_ANY_REVISION};
    mbr_limit_answer answer = {};
    answer.struct_size = sizeof(answer);
    EXPECT_EQ(mbr_authority_change_limit(measured, &change, &answer, nullptr), MBR_OK);
    EXPECT_EQ(answer.kind, (uint32_t)MBR_LIMIT_APPLIED);
    EXPECT_EQ(answer.over_bytes, 0u);
    mbr_grant_return(holder, 800);
    End(measured, holder);
}

TEST_F(Change, ExpectedRevisionThatHasPassed_StaleAndNothingChanged)
{
    uint64_t revision = Figures(authority).set_revision;
    EXPECT_EQ(To(950, 0, revision).kind, (uint32_t)MBR_LIMIT_APPLIED);
    mbr_limit_answer answer = To(850, 0, revision);
    EXPECT_EQ(answer.kind, (uint32_t)MBR_LIMIT_STALE);
    EXPECT_EQ(answer.limit_bytes, 950u);
    EXPECT_EQ(To(850, 0, answer.revision).kind, (uint32_t)MBR_LIMIT_APPLIED);
}

TEST_F(Change, OvertakenByAnotherWriter_StaleAndTheirsStands)
{
    giver.inside = [&] {
        uint64_t over;
        EXPECT_EQ(mbr_authority_set_limit(authority, 640, &over, nullptr), MBR_OK);
    };
    mbr_limit_answer answer = To(500, MBR_LIMIT_RESTORE);
    EXPECT_EQ(answer.kind, (uint32_t)MBR_LIMIT_STALE);
    EXPECT_EQ(answer.limit_bytes, 640u);
    EXPECT_EQ(answer.over_bytes, 160u);
}

// What moves to and fro between two payers is asked for a few times, and is not given.
TEST_F(Change, HoldersThatMoveBytesToAndFro_EndDeferred)
{
    struct Mover {
        mbr_holder *holder, *other;
    };
    Mover movers[2];
    mbr_holder_options options = {};
    options.allowance_bytes = MBR_NO_ALLOWANCE;
    options.pressed.ask = [](void *context, const mbr_pressure *) {
        return Figures(static_cast<Mover *>(context)->holder).charged_bytes;
    };
    options.pressed.give = [](void *context, const mbr_pressure *, uint64_t bytes) {
        auto *mover = static_cast<Mover *>(context);
        mbr_transfer(mover->holder, mover->other, bytes);
    };
    for (Mover &mover : movers) {
        options.pressed.context = &mover;
        mover.holder = world.Holder(authority, options);
    }
    movers[0].other = movers[1].holder;
    movers[1].other = movers[0].holder;
    Take(movers[0].holder, 200);
    mbr_charge(movers[0].holder, 200);
    mbr_limit_answer answer = To(900);
    EXPECT_EQ(answer.kind, (uint32_t)MBR_LIMIT_DEFERRED);
    EXPECT_EQ(answer.over_bytes, 100u);
    EXPECT_EQ(answer.given_bytes, 0u);
    for (Mover &mover : movers) {
        mbr_refund(mover.holder, Figures(mover.holder).charged_bytes);
        EXPECT_EQ(mbr_holder_destroy(mover.holder, nullptr), MBR_OK);
    }
}

TEST_F(Change, HolderThatGivesByteByByte_IsAskedAFewTimesAndDeferred)
{
    giver.offers = 800;
    giver.keeps = 299; // of the 300 it is to give first, of less it gives nothing
    mbr_limit_answer answer = To(500);
    EXPECT_EQ(answer.kind, (uint32_t)MBR_LIMIT_DEFERRED);
    EXPECT_EQ(answer.given_bytes, 1u);
    EXPECT_EQ(answer.over_bytes, 299u);
    EXPECT_LE(giver.asked, 4);
}

TEST_F(Change, BadRequests_RefusedAndNothingChanged)
{
    mbr_limit_answer answer = {};
    answer.struct_size = sizeof(answer);
    mbr_error error = NewError();
    mbr_limit_change flags = {sizeof(flags), 0x2, 500, MBR_ANY_REVISION};
    EXPECT_EQ(mbr_authority_change_limit(authority, &flags, &answer, &error), MBR_UNSUPPORTED);
    mbr_limit_change wide = {sizeof(wide), 0, UINT64_MAX - 1, MBR_ANY_REVISION};
    EXPECT_EQ(mbr_authority_change_limit(authority, &wide, &answer, &error), MBR_OUT_OF_RANGE);
    mbr_limit_change none = {sizeof(none), 0, UINT64_MAX, MBR_ANY_REVISION};
    EXPECT_EQ(mbr_authority_change_limit(authority, &none, &answer, &error), MBR_INVALID_ARGUMENT);
    mbr_limit_change small = {8, 0, 500, MBR_ANY_REVISION};
    EXPECT_EQ(mbr_authority_change_limit(authority, &small, &answer, &error), MBR_INVALID_ARGUMENT);
    EXPECT_EQ(Figures(authority).set_limit_bytes, 1000u);
}

} // namespace
