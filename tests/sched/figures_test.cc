// Figures that are read while others book, within the bounds that governor.h states.
#include "tests/sched/world.h"

#include <gtest/gtest.h>

#include <algorithm>

using namespace sched_test;

namespace
{

// A figure that changes inside of calls: whoever reads it meanwhile may see any value between.
class Bounds
{
  public:
    // Around a call that changes the figure.
    void Begin(int64_t difference)
    {
        least_ += std::min<int64_t>(difference, 0);
        most_ += std::max<int64_t>(difference, 0);
        Widen();
    }

    void End(int64_t difference)
    {
        least_ += std::max<int64_t>(difference, 0);
        most_ += std::min<int64_t>(difference, 0);
    }

    void Watch()
    {
        seen_least_ = least_;
        seen_most_ = most_;
    }

    int64_t Least() const { return seen_least_; }
    int64_t Most() const { return seen_most_; }

  private:
    void Widen()
    {
        seen_least_ = std::min(seen_least_, least_);
        seen_most_ = std::max(seen_most_, most_);
    }

    int64_t least_ = 0, most_ = 0, seen_least_ = 0, seen_most_ = 0;
};

// Two threads book in every way there is while a third reads everything.
class Reading : public GovernorScenario
{
  public:
    explicit Reading(Draw &draw) : GovernorScenario(draw.Coin() ? kCreditLimit : 1000000)
    {
        credit_ = limit_ == kCreditLimit ? limit_ / 64 : 0;
        for (Worker &worker : workers_) {
            worker.holder = Holder(draw.From(0, 3) == 0 ? limit_ : MBR_NO_ALLOWANCE);
            worker.small = draw.From(1, kCreditCap / 2);
            worker.large = draw.From(1, limit_ / 4);
        }
    }

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { Work(&workers_[0], workers_[1].holder); },
            [this] { Work(&workers_[1], workers_[0].holder); }, [this] { Observe(); }};
    }

    void Judge() override
    {
        mbr_authority_figures figures = Figures(authority_);
        SCHED_REQUIRE(figures.charged_bytes == 0 && figures.mapped_bytes == 0);
        SCHED_REQUIRE(figures.peak_charged_bytes <= limit_ + credit_);
        GovernorScenario::Judge();
    }

  private:
    struct Worker {
        mbr_holder *holder;
        uint64_t small, large;
    };

    void Charge(mbr_holder *holder, uint64_t bytes)
    {
        SCHED_REQUIRE(mbr_grant(holder, bytes, nullptr) == MBR_OK);
        charged_.Begin(static_cast<int64_t>(bytes));
        mbr_charge(holder, bytes);
        charged_.End(static_cast<int64_t>(bytes));
    }

    void Refund(mbr_holder *holder, uint64_t bytes)
    {
        charged_.Begin(-static_cast<int64_t>(bytes));
        mbr_refund(holder, bytes);
        charged_.End(-static_cast<int64_t>(bytes));
    }

    void Work(Worker *worker, mbr_holder *other)
    {
        Charge(worker->holder, worker->small);
        Charge(worker->holder, worker->large);
        mbr_mapped_add(worker->holder, worker->large);
        mbr_transfer(worker->holder, other, worker->large);
        mbr_mapped_transfer(worker->holder, other, worker->large);
        Refund(worker->holder, worker->small);
        mbr_mapped_sub(other, worker->large);
        Refund(other, worker->large);
    }

    void Observe()
    {
        charged_.Watch();
        mbr_authority_figures figures = Figures(authority_);
        SCHED_REQUIRE(figures.charged_bytes <= figures.claimed_bytes);
        SCHED_REQUIRE(figures.granted_bytes == figures.claimed_bytes - figures.charged_bytes);
        SCHED_REQUIRE(figures.claimed_bytes <= limit_ && figures.over_bytes == 0);
        SCHED_REQUIRE(figures.peak_charged_bytes >= figures.charged_bytes);
        SCHED_REQUIRE(figures.peak_charged_bytes <= limit_ + credit_);
        SCHED_REQUIRE(figures.mapped_bytes <= 2 * limit_);
        auto charged = static_cast<int64_t>(figures.charged_bytes);
        auto slack = static_cast<int64_t>(credit_);
        SCHED_REQUIRE(charged >= charged_.Least() - slack && charged <= charged_.Most() + slack,
            "charged %" PRId64 " outside of %" PRId64 " to %" PRId64, charged, charged_.Least(),
            charged_.Most());
        ObserveHolders();
    }

    void ObserveHolders()
    {
        mbr_holder_figures lines[2] = {};
        for (mbr_holder_figures &line : lines)
            line.struct_size = sizeof(line);
        uint32_t count = 0;
        mbr_authority_holders_read(authority_, lines, 2, &count);
        SCHED_REQUIRE(count == 2);
        for (const mbr_holder_figures &line : lines) {
            SCHED_REQUIRE(line.charged_bytes + line.granted_bytes <= limit_);
            SCHED_REQUIRE(line.peak_charged_bytes >= line.charged_bytes);
            SCHED_REQUIRE(line.peak_charged_bytes <= limit_ + credit_);
        }
    }

    uint64_t credit_;
    Worker workers_[2];
    Bounds charged_;
};

TEST(Sched_Reading, WhileThreadsBook_EachFigureStaysInItsBounds)
{
    ExpectHolds(ExploreRandom(Make<Reading>()));
}

TEST(Sched_Reading, TornChanges_AreCaught)
{
    ExpectCaught(ExploreRandom(Make<Reading>(), SCHED_TORN_CHANGE));
}

// A bill goes to and fro between two holders: of the authority nothing moves, to the byte.
class Billing : public GovernorScenario
{
  public:
    explicit Billing(Draw &draw) : GovernorScenario(draw.Coin() ? kCreditLimit : 1000000)
    {
        bytes_ = draw.From(1, limit_ / 2);
        one_ = Holder();
        two_ = Holder(limit_ / 4);
        Charge(one_, bytes_);
        mbr_authority_collect_credit(authority_);
    }

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { mbr_transfer(one_, two_, bytes_); },
            [this] { half_moved_ = mbr_try_transfer(one_, two_, bytes_ / 2, nullptr) == MBR_OK; },
            [this] { Observe(); }};
    }

    void Judge() override
    {
        uint64_t moved = bytes_ + (half_moved_ ? bytes_ / 2 : 0);
        mbr_transfer(two_, one_, moved);
        mbr_refund(one_, bytes_);
        GovernorScenario::Judge();
    }

  private:
    void Observe()
    {
        mbr_authority_figures figures = Figures(authority_);
        SCHED_REQUIRE(figures.charged_bytes == bytes_, "%" PRIu64, figures.charged_bytes);
        SCHED_REQUIRE(figures.claimed_bytes == bytes_ && figures.peak_charged_bytes == bytes_);
    }

    uint64_t bytes_;
    mbr_holder *one_, *two_;
    bool half_moved_ = false;
};

// Holders come and go in the lists that figures, refusals and audits walk.
class Life : public GovernorScenario
{
  public:
    explicit Life(Draw &draw) : GovernorScenario(10000)
    {
        bytes_ = draw.From(1, limit_ / 2);
        lasting_ = Holder();
        for (mbr_holder *&holder : leaving_)
            holder = LooseHolder();
        Charge(leaving_[0], bytes_);
    }

    std::vector<std::function<void()>> Bodies() override
    {
        return {
            [this] { End(); }, [this] { Pass(); }, [this] { Observe(); }, [this] { BeRefused(); }};
    }

  private:
    void End()
    {
        SCHED_REQUIRE(mbr_holder_destroy(leaving_[0], nullptr) == MBR_IN_USE);
        mbr_refund(leaving_[0], bytes_);
        Destroy(leaving_[0]);
        Destroy(leaving_[1]);
    }

    void Pass()
    {
        mbr_holder *brief = LooseHolder(limit_);
        if (mbr_grant(brief, bytes_, nullptr) == MBR_OK) {
            SCHED_REQUIRE(mbr_holder_destroy(brief, nullptr) == MBR_IN_USE);
            mbr_grant_return(brief, bytes_);
        }
        Destroy(brief);
    }

    void Observe()
    {
        mbr_holder_figures lines[4] = {};
        for (mbr_holder_figures &line : lines)
            line.struct_size = sizeof(line);
        uint32_t count = 0;
        mbr_authority_holders_read(authority_, lines, 4, &count);
        SCHED_REQUIRE(count >= 1 && count <= 4);
        for (uint32_t i = 0; i < count; i++)
            SCHED_REQUIRE(lines[i].charged_bytes <= bytes_ && lines[i].granted_bytes <= bytes_);
        SCHED_REQUIRE(Figures(authority_).claimed_bytes <= limit_);
    }

    void BeRefused()
    {
        mbr_refusal refusal = {};
        refusal.struct_size = sizeof(refusal);
        SCHED_REQUIRE(mbr_grant(lasting_, limit_ + 1, &refusal) == MBR_OVER_BUDGET);
        SCHED_REQUIRE(refusal.charged_bytes <= bytes_);
    }

    uint64_t bytes_;
    mbr_holder *lasting_, *leaving_[2];
};

TEST(Sched_Billing, WhileABillMoves_TheAuthorityShowsItWhole)
{
    ExpectHolds(ExploreRandom(Make<Billing>()));
}

TEST(Sched_Life, HoldersComeAndGo_ListsStayWholeAndNothingIsUsedLater)
{
    ExpectHolds(ExploreRandom(Make<Life>()));
}

TEST(Sched_Life, OpenLock_IsCaught)
{
    ExpectCaught(ExploreRandom(Make<Life>(), SCHED_OPEN_LOCK));
}

} // namespace
