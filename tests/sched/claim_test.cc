// Claims that meet each other and the limit: never above it, and nobody refused while bytes are
// free.
#include "tests/sched/world.h"

#include <gtest/gtest.h>

using namespace sched_test;

namespace
{

mbr_refusal NewRefusal()
{
    mbr_refusal refusal = {};
    refusal.struct_size = sizeof(refusal);
    return refusal;
}

// Two claims that fit alone and not together, each of a holder with or without an allowance.
class TwoClaims : public GovernorScenario
{
  public:
    explicit TwoClaims(Draw &draw) : GovernorScenario(draw.From(100, 10000))
    {
        for (Claim &claim : claims_) {
            claim.holder = Holder(draw.Coin() ? limit_ : MBR_NO_ALLOWANCE);
            claim.bytes = draw.From(limit_ / 2 + 1, limit_);
        }
    }

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { Run(&claims_[0]); }, [this] { Run(&claims_[1]); }};
    }

    void Judge() override
    {
        SCHED_REQUIRE(claims_[0].granted != claims_[1].granted);
        const Claim &winner = claims_[claims_[0].granted ? 0 : 1];
        const Claim &loser = claims_[claims_[0].granted ? 1 : 0];
        SCHED_REQUIRE(loser.refusal.reason == MBR_REFUSED_LIMIT);
        SCHED_REQUIRE(loser.refusal.available_bytes == limit_ - winner.bytes);
        SCHED_REQUIRE(Figures(authority_).claimed_bytes == winner.bytes);
        SCHED_REQUIRE(Figures(authority_).refusal_count == 1);
        mbr_grant_return(winner.holder, winner.bytes);
        GovernorScenario::Judge();
    }

  private:
    struct Claim {
        mbr_holder *holder;
        uint64_t bytes;
        bool granted;
        mbr_refusal refusal;
    };

    static void Run(Claim *claim)
    {
        claim->refusal = NewRefusal();
        claim->granted = mbr_grant(claim->holder, claim->bytes, &claim->refusal) == MBR_OK;
    }

    Claim claims_[2] = {};
};

TEST(Sched_TwoClaims, TogetherAboveTheLimit_ExactlyOneIsRefused)
{
    ExpectHolds(ExploreRandom(Make<TwoClaims>()));
}

TEST(Sched_TwoClaims, EveryScheduleWithTwoPreemptions_ExactlyOneIsRefused)
{
    ExpectHoldsInAll(ExploreAll(Make<TwoClaims>(), 2), 4681);
}

TEST(Sched_TwoClaims, TornChanges_AreCaught)
{
    ExpectCaught(ExploreRandom(Make<TwoClaims>(), SCHED_TORN_CHANGE));
    ExpectCaught(ExploreAll(Make<TwoClaims>(), 2, SCHED_TORN_CHANGE));
}

// Three threads whose shares are the limit to the byte. Credit of one is missing to another until
// it is collected, and each gives back and takes again on the way.
class ExactShares : public GovernorScenario
{
  public:
    explicit ExactShares(Draw &draw) : GovernorScenario(kCreditLimit)
    {
        uint64_t left = limit_;
        for (Share &share : shares_) {
            bool last = &share == &shares_[kThreads - 1];
            uint64_t bytes = last ? left : draw.From(3 * kCreditCap, limit_ / kThreads);
            left -= bytes;
            for (uint64_t &piece : share.pieces)
                bytes -= piece = draw.From(1, kCreditCap / 2);
            share.rest = bytes;
            share.holder = Holder(draw.From(0, 3) == 0 ? limit_ : MBR_NO_ALLOWANCE);
        }
    }

    std::vector<std::function<void()>> Bodies() override
    {
        std::vector<std::function<void()>> bodies;
        for (Share &share : shares_)
            bodies.push_back([&share] { Run(&share); });
        return bodies;
    }

    void Judge() override
    {
        mbr_authority_figures figures = Figures(authority_);
        SCHED_REQUIRE(figures.claimed_bytes == 0, "the credit of ended threads came back");
        SCHED_REQUIRE(figures.refusal_count == 0);
        GovernorScenario::Judge();
    }

  private:
    static constexpr int kThreads = 3, kPieces = 4;

    struct Share {
        mbr_holder *holder;
        uint64_t pieces[kPieces], rest;
    };

    static void Claim(Share *share, uint64_t bytes)
    {
        SCHED_REQUIRE(mbr_grant(share->holder, bytes, nullptr) == MBR_OK,
            "%" PRIu64 " bytes within a share", bytes);
    }

    static void Run(Share *share)
    {
        for (uint64_t piece : share->pieces)
            Claim(share, piece);
        mbr_charge(share->holder, share->pieces[0]);
        Claim(share, share->rest);
        mbr_refund(share->holder, share->pieces[0]);
        mbr_grant_return(share->holder, share->rest);
        Claim(share, share->pieces[0] + share->rest);
        mbr_grant_return(share->holder, share->rest);
        for (uint64_t piece : share->pieces)
            mbr_grant_return(share->holder, piece);
    }

    Share shares_[kThreads];
};

TEST(Sched_ExactShares, CreditElsewhere_NobodyIsRefused)
{
    ExpectHolds(ExploreRandom(Make<ExactShares>()));
}

TEST(Sched_ExactShares, TornChanges_AreCaught)
{
    ExpectCaught(ExploreRandom(Make<ExactShares>(), SCHED_TORN_CHANGE));
}

// Transfers that may be refused, one that may not, and a claim, all towards one allowance.
class Allowance : public GovernorScenario
{
  public:
    explicit Allowance(Draw &draw) : GovernorScenario(100000)
    {
        allowance_ = draw.From(100, 1000);
        to_ = Holder(allowance_);
        for (int i = 0; i < kGivers; i++) {
            bytes_[i] = draw.From(allowance_ / 3, allowance_);
            from_[i] = Holder(draw.Coin() ? MBR_NO_ALLOWANCE : 2000);
            Charge(from_[i], bytes_[i]);
        }
        claim_ = draw.From(allowance_ / 3, allowance_);
        forced_ = draw.From(0, 1) * draw.From(1, allowance_);
        forced_from_ = Holder();
        Charge(forced_from_, forced_);
    }

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { Give(0); }, [this] { Give(1); },
            [this] { claimed_ = mbr_grant(to_, claim_, nullptr) == MBR_OK; },
            [this] { mbr_transfer(forced_from_, to_, forced_); }};
    }

    void Judge() override
    {
        uint64_t leased =
            (claimed_ ? claim_ : 0) + (given_[0] ? bytes_[0] : 0) + (given_[1] ? bytes_[1] : 0);
        SCHED_REQUIRE(leased <= allowance_, "%" PRIu64 " of %" PRIu64, leased, allowance_);
        uint64_t most = leased + forced_;
        SCHED_REQUIRE(claimed_ || most + claim_ > allowance_);
        for (int i = 0; i < kGivers; i++)
            SCHED_REQUIRE(given_[i] || most + bytes_[i] > allowance_, "refused in vain");
        SCHED_REQUIRE(Figures(to_).charged_bytes == most - (claimed_ ? claim_ : 0));
        GiveBack();
        GovernorScenario::Judge();
    }

  private:
    static constexpr int kGivers = 2;

    void Give(int i) { given_[i] = mbr_try_transfer(from_[i], to_, bytes_[i], nullptr) == MBR_OK; }

    void GiveBack()
    {
        if (claimed_)
            mbr_grant_return(to_, claim_);
        for (int i = 0; i < kGivers; i++)
            mbr_refund(given_[i] ? to_ : from_[i], bytes_[i]);
        mbr_refund(to_, forced_);
    }

    uint64_t allowance_, bytes_[kGivers], claim_, forced_;
    mbr_holder *to_, *from_[kGivers], *forced_from_;
    bool given_[kGivers] = {}, claimed_ = false;
};

TEST(Sched_Allowance, TransfersAndAClaim_NeverAboveItNobodyRefusedInVain)
{
    ExpectHolds(ExploreRandom(Make<Allowance>()));
}

TEST(Sched_Allowance, EveryScheduleWithOnePreemption_NeverAboveIt)
{
    ExpectHoldsInAll(ExploreAll(Make<Allowance>(), 1), 22826);
}

TEST(Sched_Allowance, OpenLock_IsCaught)
{
    ExpectCaught(ExploreRandom(Make<Allowance>(), SCHED_OPEN_LOCK));
}

} // namespace
