// Credit that others take back, and threads that begin and end, while claims go on.
#include "tests/sched/world.h"

#include <gtest/gtest.h>

using namespace sched_test;

namespace
{

// Two threads claim out of credit and refill it; a third takes all credit back, by asking for it or
// by a claim that can only be refused.
class Collecting : public GovernorScenario
{
  public:
    explicit Collecting(Draw &draw) : GovernorScenario(kCreditLimit)
    {
        for (Worker &worker : workers_) {
            worker.holder = Holder();
            for (uint64_t &piece : worker.pieces)
                piece = draw.From(1, kCreditCap / 2);
        }
        asks_ = draw.Coin();
        greedy_ = Holder();
    }

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { Work(&workers_[0]); }, [this] { Work(&workers_[1]); },
            [this] { Collect(); }, [this] { Collect(); }};
    }

    void Judge() override
    {
        SCHED_REQUIRE(Figures(authority_).claimed_bytes == 0, "ended threads keep no credit");
        GovernorScenario::Judge();
    }

  private:
    static constexpr int kPieces = 4;

    struct Worker {
        mbr_holder *holder;
        uint64_t pieces[kPieces];
    };

    static void Work(Worker *worker)
    {
        for (uint64_t piece : worker->pieces)
            SCHED_REQUIRE(mbr_grant(worker->holder, piece, nullptr) == MBR_OK);
        mbr_charge(worker->holder, worker->pieces[0]);
        mbr_refund(worker->holder, worker->pieces[0]);
        for (int i = 1; i < kPieces; i++)
            mbr_grant_return(worker->holder, worker->pieces[i]);
    }

    void Collect()
    {
        if (asks_)
            mbr_authority_collect_credit(authority_);
        else
            SCHED_REQUIRE(mbr_grant(greedy_, limit_ + 1, nullptr) == MBR_OVER_BUDGET);
    }

    Worker workers_[2];
    mbr_holder *greedy_;
    bool asks_;
};

TEST(Sched_Collecting, AgainstClaimsOutOfCredit_NoByteIsLostOrMade)
{
    ExpectHolds(ExploreRandom(Make<Collecting>()));
}

TEST(Sched_Collecting, TornChanges_AreCaught)
{
    ExpectCaught(ExploreRandom(Make<Collecting>(), SCHED_TORN_CHANGE));
}

TEST(Sched_Collecting, OpenLock_IsCaught)
{
    ExpectCaught(ExploreRandom(Make<Collecting>(), SCHED_OPEN_LOCK));
}

// A thread ends with credit while another one needs every byte, a third begins and may get the slot
// that the first left, and an authority comes and goes in the list that an ending thread walks.
class ThreadEnd : public GovernorScenario
{
  public:
    explicit ThreadEnd(Draw &draw) : GovernorScenario(kCreditLimit)
    {
        kept_ = draw.From(1, kCreditCap / 2);
        brief_ = draw.From(1, kCreditCap / 2);
        holder_ = Holder();
        other_ = Holder();
    }

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { Claim(holder_, kept_); }, [this] { ClaimTheRest(); }, [this] { Brief(); },
            [this] { OtherAuthority(); }};
    }

    void Judge() override
    {
        SCHED_REQUIRE(Figures(authority_).claimed_bytes == kept_, "ended threads keep no credit");
        mbr_grant_return(holder_, kept_);
        GovernorScenario::Judge();
    }

  private:
    static void Claim(mbr_holder *holder, uint64_t bytes)
    {
        SCHED_REQUIRE(mbr_grant(holder, bytes, nullptr) == MBR_OK);
    }

    void ClaimTheRest()
    {
        uint64_t rest = limit_ - kept_ - brief_;
        Claim(other_, rest);
        mbr_grant_return(other_, rest);
    }

    void Brief()
    {
        Claim(other_, brief_);
        mbr_grant_return(other_, brief_);
    }

    void OtherAuthority()
    {
        mbr_authority *authority = Authority("other", kCreditLimit, nullptr);
        SCHED_REQUIRE(mbr_authority_destroy(authority, nullptr) == MBR_OK);
    }

    uint64_t kept_, brief_;
    mbr_holder *holder_, *other_;
};

TEST(Sched_ThreadEnd, AgainstClaimsOfEveryByte_CreditComesBackOnce)
{
    ExpectHolds(ExploreRandom(Make<ThreadEnd>()));
}

TEST(Sched_ThreadEnd, OpenLock_IsCaught)
{
    ExpectCaught(ExploreRandom(Make<ThreadEnd>(), SCHED_OPEN_LOCK));
}

} // namespace
