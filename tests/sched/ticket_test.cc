// Tickets against what settles them: releases, cancels, deadlines, new generations, limits.
#include "tests/sched/world.h"

extern "C" {
#include "governor/arbiter.h"
}

#include <gtest/gtest.h>

using namespace sched_test;

namespace
{

mbr_ticket_options Wish(mbr_holder *holder, uint64_t bytes)
{
    mbr_ticket_options options = {};
    options.holder = holder;
    options.bytes = bytes;
    options.priority = 3;
    options.deadline_ns = MBR_NO_DEADLINE;
    return options;
}

mbr_ticket *Submit(const mbr_ticket_options &options)
{
    mbr_ticket *ticket = nullptr;
    mbr_error error = NewError();
    SCHED_REQUIRE(
        mbr_ticket_submit(&options, &ticket, nullptr, &error) == MBR_OK, "%s", error.text);
    return ticket;
}

// What all have who wait for bytes that one holder has charged.
class Waiting : public GovernorScenario
{
  public:
    explicit Waiting(Draw &draw) : GovernorScenario(draw.Coin() ? kCreditLimit : 10000)
    {
        charged_ = draw.From(limit_ / 2 + 1, limit_);
        payer_ = Holder(draw.From(0, 3) == 0 ? limit_ : MBR_NO_ALLOWANCE);
        wanting_ = Holder(draw.From(0, 3) == 0 ? limit_ : MBR_NO_ALLOWANCE);
        wanted_ = draw.From(limit_ - charged_ + 1, limit_);
        Charge(payer_, charged_);
    }

    void Judge() override
    {
        mbr_authority_figures figures = Figures(authority_);
        SCHED_REQUIRE(figures.waiting_count == 0 && figures.waiting_bytes == 0);
        GovernorScenario::Judge();
    }

  protected:
    void Release() { mbr_refund(payer_, charged_); }

    uint64_t charged_, wanted_;
    mbr_holder *payer_, *wanting_;
};

// A release in two pieces, and somebody who claims and gives back on the way, while a ticket is
// submitted: whoever makes the bytes free sees who waits, or who waits sees the bytes.
class SubmitAgainstRelease : public Waiting
{
  public:
    explicit SubmitAgainstRelease(Draw &draw) : Waiting(draw)
    {
        quiet_ = draw.Coin();
        first_ = draw.From(0, charged_);
        passing_ = Holder();
        passing_bytes_ = draw.From(1, limit_);
    }

    bool WaitsStay() const override { return true; }

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { Wait(); }, [this] { ReleaseInTwo(); }, [this] { Pass(); }};
    }

  private:
    void Wait()
    {
        mbr_ticket_options options = Wish(wanting_, wanted_);
        options.quiet = quiet_;
        mbr_ticket *ticket = Submit(options);
        SCHED_REQUIRE(mbr_ticket_wait(ticket) == MBR_OK);
        mbr_grant_return(wanting_, wanted_);
        mbr_ticket_destroy(ticket);
    }

    void ReleaseInTwo()
    {
        mbr_refund(payer_, first_);
        mbr_refund(payer_, charged_ - first_);
    }

    void Pass()
    {
        if (mbr_grant(passing_, passing_bytes_, nullptr) == MBR_OK)
            mbr_grant_return(passing_, passing_bytes_);
    }

    bool quiet_;
    uint64_t first_, passing_bytes_;
    mbr_holder *passing_;
};

TEST(Sched_SubmitAgainstRelease, AnyOrder_NoWakeUpIsLost)
{
    ExpectHolds(ExploreRandom(Make<SubmitAgainstRelease>()));
}

TEST(Sched_SubmitAgainstRelease, EveryScheduleWithOnePreemption_NoWakeUpIsLost)
{
    ExpectHoldsInAll(ExploreAll(Make<SubmitAgainstRelease>(), 1), 3886);
}

TEST(Sched_SubmitAgainstRelease, LostSignals_AreCaught)
{
    ExpectCaught(ExploreRandom(Make<SubmitAgainstRelease>(), SCHED_LOST_SIGNAL));
}

// Three tickets for more than there is, some matured, some of one holder whose allowance is not
// enough for both: each gets its bytes when others give theirs back.
class ThreeTickets : public Waiting
{
  public:
    explicit ThreeTickets(Draw &draw) : Waiting(draw)
    {
        mbr_holder *before = nullptr;
        for (Wanted &wanted : wanted_of_) {
            bool together = before != nullptr && draw.From(0, 2) == 0;
            wanted.holder =
                together ? before : Holder(draw.From(0, 2) == 0 ? limit_ / 2 : MBR_NO_ALLOWANCE);
            before = wanted.holder;
            wanted.options = Wish(wanted.holder, draw.From(1, limit_ / 2));
            wanted.options.priority = static_cast<uint32_t>(draw.From(0, 7));
            wanted.options.since_ns = sched_now_ns() - draw.From(0, 4) * MBR_AGEING_NS;
        }
    }

    bool WaitsStay() const override { return true; }

    std::vector<std::function<void()>> Bodies() override
    {
        std::vector<std::function<void()>> bodies = {[this] { Release(); }};
        for (Wanted &wanted : wanted_of_)
            bodies.push_back([&wanted] { Wait(&wanted); });
        return bodies;
    }

  private:
    struct Wanted {
        mbr_holder *holder;
        mbr_ticket_options options;
    };

    static void Wait(Wanted *wanted)
    {
        mbr_ticket *ticket = Submit(wanted->options);
        SCHED_REQUIRE(mbr_ticket_wait(ticket) == MBR_OK);
        mbr_ticket_destroy(ticket);
        mbr_charge(wanted->holder, wanted->options.bytes);
        mbr_refund(wanted->holder, wanted->options.bytes);
    }

    Wanted wanted_of_[3];
};

TEST(Sched_ThreeTickets, MoreThanThereIs_EachGetsItsBytesInTurn)
{
    ExpectHolds(ExploreRandom(Make<ThreeTickets>()));
}

TEST(Sched_ThreeTickets, OpenLock_IsCaught)
{
    ExpectCaught(ExploreRandom(Make<ThreeTickets>(), SCHED_OPEN_LOCK));
}

// One asks the holders for more than is free, which is held back for it meanwhile, and is given
// nothing; one who comes by and could have what is free gets it when the asking is over.
class Asking : public Waiting
{
  public:
    explicit Asking(Draw &draw) : Waiting(draw)
    {
        mbr_refund(payer_, 1); // so that something is free
        small_ = draw.From(1, limit_ - charged_ + 1);
        other_ = Holder();
    }

    bool WaitsStay() const override { return true; }

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { large_ = Submit(Wish(wanting_, limit_)); }, [this] { Wait(); }};
    }

    void Judge() override
    {
        SCHED_REQUIRE(mbr_ticket_cancel(large_));
        mbr_ticket_destroy(large_);
        mbr_refund(payer_, charged_ - 1);
        Waiting::Judge();
    }

  private:
    void Wait()
    {
        mbr_ticket *ticket = Submit(Wish(other_, small_));
        SCHED_REQUIRE(mbr_ticket_wait(ticket) == MBR_OK);
        mbr_grant_return(other_, small_);
        mbr_ticket_destroy(ticket);
    }

    uint64_t small_;
    mbr_holder *other_;
    mbr_ticket *large_ = nullptr;
};

TEST(Sched_Asking, WhatIsHeldBackForIt_IsFreeAfterwards)
{
    ExpectHolds(ExploreRandom(Make<Asking>()));
}

// A ticket that waits, and what may end it, all at once. Exactly one end, told once, and the bytes
// are somebody's only where it was claimed.
class Ending : public Waiting
{
  public:
    explicit Ending(Draw &draw) : Waiting(draw)
    {
        options_ = Wish(wanting_, wanted_);
        options_.settled = Settled;
        options_.context = this;
        options_.quiet = draw.Coin();
    }

    void Judge() override
    {
        mbr_authority_deliver(authority_);
        SCHED_REQUIRE(told_ == 1, "told %d times", told_);
        uint32_t state = mbr_ticket_poll(ticket_);
        SCHED_REQUIRE(state != MBR_TICKET_WAITING);
        SCHED_REQUIRE((state == MBR_TICKET_CLAIMED) == (claims_ == 1), "%d claims", claims_);
        SCHED_REQUIRE((state == MBR_TICKET_CANCELLED || state == MBR_TICKET_RETURNED) ==
                (cancels_ == 1 || stale_returns_),
            "state %u, %d cancels", state, cancels_);
        SCHED_REQUIRE(claims_ + cancels_ <= 1);
        if (claims_ == 1)
            mbr_grant_return(wanting_, wanted_);
        mbr_ticket_destroy(ticket_);
        Waiting::Judge();
    }

  protected:
    // Before the bodies start, so that each of them has it.
    void SubmitNow() { ticket_ = Submit(options_); }

    void Claim()
    {
        mbr_status status = mbr_ticket_claim(ticket_);
        SCHED_REQUIRE(status == MBR_OK || status == MBR_NOT_READY || status == MBR_TIMED_OUT ||
            status == MBR_STALE || status == MBR_OVER_BUDGET);
        SCHED_REQUIRE(status != MBR_OK || sched_granted_bytes(wanting_) == (int64_t)wanted_,
            "claimed before it was booked");
        claims_ += status == MBR_OK;
    }

    void Cancel() { cancels_ += mbr_ticket_cancel(ticket_); }

    mbr_ticket_options options_;
    mbr_ticket *ticket_ = nullptr;
    int told_ = 0, claims_ = 0, cancels_ = 0;
    bool stale_returns_ = false; // a claim may have returned the bytes

  private:
    static void Settled(void *context, mbr_ticket *ticket)
    {
        auto *self = static_cast<Ending *>(context);
        sched_check_no_lock();
        SCHED_CALLBACK_POINT();
        SCHED_REQUIRE(mbr_ticket_poll(ticket) != MBR_TICKET_WAITING);
        self->told_++;
    }
};

class CancelAgainstGrant : public Ending
{
  public:
    explicit CancelAgainstGrant(Draw &draw) : Ending(draw), granted_before_(draw.Coin())
    {
        SubmitNow();
        if (granted_before_)
            Release();
    }

    std::vector<std::function<void()>> Bodies() override
    {
        std::vector<std::function<void()>> bodies = {
            [this] { Cancel(); }, [this] { Claim(); }, [this] { Cancel(); }};
        if (!granted_before_)
            bodies.push_back([this] { Release(); });
        return bodies;
    }

  private:
    bool granted_before_;
};

TEST(Sched_CancelAgainstGrant, ClaimsToo_ExactlyOneOfClaimedAndGivenBack)
{
    ExpectHolds(ExploreRandom(Make<CancelAgainstGrant>()));
}

TEST(Sched_CancelAgainstGrant, EveryScheduleWithOnePreemption_ExactlyOneOfClaimedAndGivenBack)
{
    ExpectHoldsInAll(ExploreAll(Make<CancelAgainstGrant>(), 1), 3754);
}

TEST(Sched_CancelAgainstGrant, TornChanges_AreCaught)
{
    ExpectCaught(ExploreRandom(Make<CancelAgainstGrant>(), SCHED_TORN_CHANGE));
}

// The deadline passes while the bytes come: either it has them or it is late, and late owns
// nothing.
class TimeOutAtGrant : public Ending
{
  public:
    explicit TimeOutAtGrant(Draw &draw) : Ending(draw)
    {
        options_.deadline_ns = sched_now_ns() + draw.From(1, 30) * 1000000;
        SubmitNow();
    }

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { Release(); }, [this] { Wait(); },
            [this] { sched_pass_time(options_.deadline_ns - sched_now_ns()); },
            [this] { mbr_authority_poll(authority_); }};
    }

  private:
    void Wait()
    {
        mbr_status status = mbr_ticket_wait(ticket_);
        SCHED_REQUIRE(status == MBR_OK || status == MBR_TIMED_OUT);
        SCHED_REQUIRE(status == MBR_OK || sched_now_ns() >= options_.deadline_ns);
        claims_ += status == MBR_OK;
    }
};

TEST(Sched_TimeOutAtGrant, DeadlineAndBytesTogether_GrantedOrLateNeverBoth)
{
    ExpectHolds(ExploreRandom(Make<TimeOutAtGrant>()));
}

// A new generation: what waited is stale, what was granted before cannot be claimed after it.
class Retiring : public Ending
{
  public:
    explicit Retiring(Draw &draw) : Ending(draw)
    {
        stale_returns_ = true;
        SubmitNow();
    }

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { Release(); }, [this] { Retire(); }, [this] { ClaimBySide(); },
            [this] { ClaimBySide(); }};
    }

    void Judge() override
    {
        Claim(); // returns what was granted to a generation that is gone
        cancels_ = 0;
        stale_returns_ = mbr_ticket_poll(ticket_) == MBR_TICKET_RETURNED;
        Ending::Judge();
    }

  private:
    void Retire()
    {
        mbr_authority_retire_tickets(authority_);
        retired_ = true;
    }

    void ClaimBySide()
    {
        bool before = retired_;
        mbr_status status = mbr_ticket_claim(ticket_);
        SCHED_REQUIRE(!before || status == MBR_STALE || claims_ == 1, "status %d", (int)status);
        SCHED_REQUIRE(!before || status != MBR_OK, "claimed after its generation was retired");
        claims_ += status == MBR_OK;
    }

    bool retired_ = false;
};

TEST(Sched_Retiring, AgainstGrantAndClaim_NoneIsClaimedAfterIt)
{
    ExpectHolds(ExploreRandom(Make<Retiring>()));
}

// The limit falls below a ticket that waits, and perhaps rises again, while its bytes come; or it
// rises so far that they need not come.
class LimitAgainstTicket : public Ending
{
  public:
    explicit LimitAgainstTicket(Draw &draw) : Ending(draw)
    {
        may_go_below_ = 1;
        lowered_ = draw.From(1, limit_);
        releases_ = draw.Coin();
        raised_ = releases_ ? (draw.Coin() ? limit_ : lowered_) : charged_ + wanted_;
        SubmitNow();
    }

    bool WaitsStay() const override { return true; }

    std::vector<std::function<void()>> Bodies() override
    {
        std::vector<std::function<void()>> bodies = {[this] { Set(); }, [this] { Wait(); }};
        if (releases_)
            bodies.push_back([this] { Release(); });
        return bodies;
    }

    void Judge() override
    {
        if (!releases_)
            Release();
        Ending::Judge();
    }

  private:
    void Set()
    {
        uint64_t over;
        SCHED_REQUIRE(mbr_authority_set_limit(authority_, lowered_, &over, nullptr) == MBR_OK);
        SCHED_REQUIRE(mbr_authority_set_limit(authority_, raised_, &over, nullptr) == MBR_OK);
    }

    void Wait()
    {
        mbr_status status = mbr_ticket_wait(ticket_);
        SCHED_REQUIRE(status == MBR_OK || (status == MBR_OVER_BUDGET && wanted_ > lowered_),
            "status %d, %" PRIu64 " of %" PRIu64, (int)status, wanted_, lowered_);
        claims_ += status == MBR_OK;
    }

    uint64_t lowered_, raised_;
    bool releases_;
};

TEST(Sched_LimitAgainstTicket, LoweredAndRaised_GrantedOrRefusedNeverLeft)
{
    ExpectHolds(ExploreRandom(Make<LimitAgainstTicket>()));
}

TEST(Sched_LimitAgainstTicket, LostSignals_AreCaught)
{
    ExpectCaught(ExploreRandom(Make<LimitAgainstTicket>(), SCHED_LOST_SIGNAL));
}

} // namespace
