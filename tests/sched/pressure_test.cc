// Callbacks: holders that are asked while they end, callbacks that call back, tickets that end
// while they are told of; and what waits at several places at once.
#include "tests/sched/world.h"

extern "C" {
#include "governor/admission.h"
}

#include <gtest/gtest.h>

#include <algorithm>

using namespace sched_test;

namespace
{

mbr_ticket *Submit(const mbr_ticket_options &options)
{
    mbr_ticket *ticket = nullptr;
    mbr_error error = NewError();
    SCHED_REQUIRE(
        mbr_ticket_submit(&options, &ticket, nullptr, &error) == MBR_OK, "%s", error.text);
    return ticket;
}

mbr_ticket_options Wish(mbr_holder *holder, uint64_t bytes)
{
    mbr_ticket_options options = {};
    options.holder = holder;
    options.bytes = bytes;
    options.deadline_ns = MBR_NO_DEADLINE;
    return options;
}

// A holder that gives when it is asked, and looks at who calls it and when.
class Giver
{
  public:
    mbr_pressure_callbacks Callbacks() { return {Ask, Give, this}; }

    mbr_holder *holder = nullptr;
    uint64_t charged = 0;
    std::function<void()> inside = [] {}; // runs in each callback
    bool gone = false;

  private:
    // One call at a time, none under a lock and none after the holder's end.
    void Enter()
    {
        sched_check_no_lock();
        SCHED_REQUIRE(!gone, "a holder was called after its end");
        SCHED_REQUIRE(!busy_, "a holder was called by two threads at once");
        busy_ = true;
        SCHED_CALLBACK_POINT();
        inside();
    }

    void Leave()
    {
        SCHED_CALLBACK_POINT();
        SCHED_REQUIRE(!gone, "a holder ended inside its callback");
        busy_ = false;
    }

    static uint64_t Ask(void *context, const mbr_pressure *)
    {
        auto *self = static_cast<Giver *>(context);
        self->Enter();
        uint64_t offer = self->charged;
        self->Leave();
        return offer;
    }

    static void Give(void *context, const mbr_pressure *, uint64_t bytes)
    {
        auto *self = static_cast<Giver *>(context);
        self->Enter();
        uint64_t given = std::min(bytes, self->charged);
        self->charged -= given;
        mbr_refund(self->holder, given);
        self->Leave();
    }

    bool busy_ = false;
};

// Two tickets press a cache, which somebody takes away meanwhile.
class PressAgainstDestroy : public GovernorScenario
{
  public:
    explicit PressAgainstDestroy(Draw &draw) : GovernorScenario(10000)
    {
        cache_.holder = Pressed(cache_.Callbacks());
        cache_.charged = draw.From(limit_ / 2, limit_);
        Charge(cache_.holder, cache_.charged);
        for (Wanted &wanted : wanted_) {
            wanted.holder = Holder();
            wanted.bytes = draw.From(1, limit_ / 2);
        }
    }

    bool WaitsStay() const override { return true; }

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { Wait(&wanted_[0]); }, [this] { Wait(&wanted_[1]); }, [this] { End(); }};
    }

    void Judge() override
    {
        if (!cache_.gone)
            Destroy(cache_.holder);
        GovernorScenario::Judge();
    }

  private:
    struct Wanted {
        mbr_holder *holder;
        uint64_t bytes;
    };

    static void Wait(Wanted *wanted)
    {
        mbr_ticket *ticket = Submit(Wish(wanted->holder, wanted->bytes));
        SCHED_REQUIRE(mbr_ticket_wait(ticket) == MBR_OK);
        mbr_ticket_destroy(ticket);
        mbr_grant_return(wanted->holder, wanted->bytes);
    }

    // What it has is given back, and then it goes; a callback that runs gives less.
    void End()
    {
        uint64_t rest = cache_.charged;
        cache_.charged = 0;
        mbr_refund(cache_.holder, rest);
        mbr_status status = mbr_holder_destroy(cache_.holder, nullptr);
        SCHED_REQUIRE(status == MBR_OK, "status %d", (int)status);
        cache_.gone = true;
    }

    Giver cache_;
    Wanted wanted_[2];
};

TEST(Sched_PressAgainstDestroy, ACacheThatGoes_IsNotCalledAfterItsEnd)
{
    ExpectHolds(ExploreRandom(Make<PressAgainstDestroy>()));
}

TEST(Sched_PressAgainstDestroy, OpenLock_IsCaught)
{
    ExpectCaught(ExploreRandom(Make<PressAgainstDestroy>(), SCHED_OPEN_LOCK));
}

// Callbacks that claim, submit, cancel, destroy and poll, of a holder and of a ticket.
class Reentering : public GovernorScenario
{
  public:
    explicit Reentering(Draw &draw) : GovernorScenario(10000)
    {
        cache_.holder = Pressed(cache_.Callbacks());
        cache_.charged = draw.From(limit_ / 2, limit_);
        Charge(cache_.holder, cache_.charged);
        aside_ = Holder();
        cache_.inside = [this] { CallBack(); };
        own_ = Holder();
        destroys_inside_ = draw.Coin();
        bytes_ = draw.From(1, limit_);
        other_ = Holder();
        other_bytes_ = draw.From(1, limit_ / 2);
    }

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { Run(); }, [this] { Wait(); }, [this] { mbr_authority_poll(authority_); }};
    }

    void Judge() override
    {
        mbr_refund(cache_.holder, cache_.charged);
        mbr_authority_deliver(authority_);
        SCHED_REQUIRE(told_ == 1 || (told_ == 0 && !destroys_inside_), "told %d times", told_);
        Destroy(cache_.holder);
        GovernorScenario::Judge();
    }

  private:
    // In the holder's callback: a claim, and a ticket that asks nobody and is given up.
    void CallBack()
    {
        if (mbr_grant(aside_, 1, nullptr) == MBR_OK)
            mbr_grant_return(aside_, 1);
        mbr_ticket *ticket = Submit(Wish(aside_, limit_));
        if (mbr_ticket_claim(ticket) == MBR_OK)
            mbr_grant_return(aside_, limit_);
        mbr_ticket_destroy(ticket);
        mbr_authority_poll(authority_);
    }

    // Its `settled` claims, and perhaps destroys the ticket that it is told of.
    static void Settled(void *context, mbr_ticket *ticket)
    {
        auto *self = static_cast<Reentering *>(context);
        sched_check_no_lock();
        self->told_++;
        SCHED_CALLBACK_POINT();
        if (mbr_ticket_claim(ticket) == MBR_OK)
            mbr_grant_return(self->own_, self->bytes_);
        if (self->destroys_inside_)
            mbr_ticket_destroy(ticket);
        SCHED_CALLBACK_POINT();
        mbr_authority_deliver(self->authority_);
    }

    void Run()
    {
        mbr_ticket_options options = Wish(own_, bytes_);
        options.settled = Settled;
        options.context = this;
        mbr_ticket *ticket = Submit(options);
        if (destroys_inside_)
            return;
        mbr_status status = mbr_ticket_wait(ticket);
        SCHED_REQUIRE(status == MBR_OK || status == MBR_STALE);
        if (status == MBR_OK)
            mbr_grant_return(own_, bytes_);
        mbr_ticket_destroy(ticket); // perhaps before anybody was told of it
    }

    void Wait()
    {
        mbr_ticket *ticket = Submit(Wish(other_, other_bytes_));
        SCHED_REQUIRE(mbr_ticket_wait(ticket) == MBR_OK);
        mbr_grant_return(other_, other_bytes_);
        mbr_ticket_destroy(ticket);
    }

    Giver cache_;
    mbr_holder *aside_, *own_, *other_;
    uint64_t bytes_, other_bytes_;
    bool destroys_inside_;
    int told_ = 0;
};

TEST(Sched_Reentering, CallbacksThatCallBack_NothingIsHeldNothingIsLost)
{
    ExpectHolds(ExploreRandom(Make<Reentering>()));
}

// The owner destroys a ticket while others tell of it: told at most once, never after its end.
class DestroyAgainstDeliver : public GovernorScenario
{
  public:
    explicit DestroyAgainstDeliver(Draw &draw) : GovernorScenario(10000)
    {
        payer_ = Holder();
        Charge(payer_, limit_);
        for (int i = 0; i < kTickets; i++) {
            owners_[i] = Holder();
            told_[i].self = this;
            mbr_ticket_options options = Wish(owners_[i], draw.From(1, limit_ / kTickets));
            options.settled = Settled;
            options.context = &told_[i];
            tickets_[i] = Submit(options);
        }
    }

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { mbr_refund(payer_, limit_); },
            [this] { mbr_authority_deliver(authority_); }, [this] { DestroyOwn(0); },
            [this] { DestroyOwn(1); }, [this] { mbr_authority_poll(authority_); }};
    }

  private:
    static constexpr int kTickets = 2;

    struct Told {
        DestroyAgainstDeliver *self;
        int count;
        bool destroyed;
    };

    static void Settled(void *context, mbr_ticket *ticket)
    {
        auto *told = static_cast<Told *>(context);
        sched_check_no_lock();
        SCHED_REQUIRE(!told->destroyed && ++told->count == 1);
        SCHED_CALLBACK_POINT();
        SCHED_REQUIRE(mbr_ticket_poll(ticket) != MBR_TICKET_WAITING);
        SCHED_CALLBACK_POINT();
        SCHED_REQUIRE(!told->destroyed, "destroyed while it was told of");
    }

    void DestroyOwn(int i)
    {
        mbr_ticket_destroy(tickets_[i]);
        told_[i].destroyed = true;
    }

    mbr_holder *payer_, *owners_[kTickets];
    mbr_ticket *tickets_[kTickets];
    Told told_[kTickets] = {};
};

TEST(Sched_DestroyAgainstDeliver, TicketsThatEnd_AreNotToldOfAfterwards)
{
    ExpectHolds(ExploreRandom(Make<DestroyAgainstDeliver>()));
}

TEST(Sched_DestroyAgainstDeliver, OpenLock_IsCaught)
{
    ExpectCaught(ExploreRandom(Make<DestroyAgainstDeliver>(), SCHED_OPEN_LOCK));
}

// Two threads that want bytes of two pools, named in opposite order, of which both cannot have all:
// no part is kept while another is waited for, so both are served.
class TwoPools : public GovernorScenario
{
  public:
    explicit TwoPools(Draw &draw) : GovernorScenario(10000)
    {
        second_ = Authority("second", limit_, nullptr);
        for (Wanted &wanted : wanted_) {
            wanted.first = Holder();
            wanted.second = SecondHolder();
            wanted.bytes = draw.From(limit_ / 2 + 1, limit_);
        }
    }

    bool WaitsStay() const override { return true; }

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { Run(&wanted_[0], true); }, [this] { Run(&wanted_[1], false); }};
    }

    void Judge() override
    {
        mbr_error error = NewError();
        SCHED_REQUIRE(mbr_authority_audit(second_, &error) == MBR_OK, "%s", error.text);
        for (Wanted &wanted : wanted_)
            Destroy(wanted.second);
        SCHED_REQUIRE(Figures(second_).claimed_bytes == 0);
        SCHED_REQUIRE(mbr_authority_destroy(second_, &error) == MBR_OK, "%s", error.text);
        GovernorScenario::Judge();
    }

  private:
    struct Wanted {
        mbr_holder *first, *second;
        uint64_t bytes;
    };

    mbr_holder *SecondHolder()
    {
        mbr_holder_options options = {};
        options.name = "far";
        options.allowance_bytes = MBR_NO_ALLOWANCE;
        return HolderOf(second_, options);
    }

    static void Run(Wanted *wanted, bool forwards)
    {
        mbr_claim near = {wanted->first, wanted->bytes}, far = {wanted->second, wanted->bytes};
        mbr_claim claims[2] = {forwards ? near : far, forwards ? far : near};
        uint32_t refused = 0;
        mbr_error error = NewError();
        mbr_status status = mbr_wait_all(claims, 2, 0, MBR_NO_DEADLINE, &refused, nullptr, &error);
        SCHED_REQUIRE(status == MBR_OK, "%s", error.text);
        SCHED_CALLBACK_POINT();
        mbr_grant_return(wanted->first, wanted->bytes);
        mbr_grant_return(wanted->second, wanted->bytes);
    }

    mbr_authority *second_ = nullptr;
    Wanted wanted_[2];
};

TEST(Sched_TwoPools, OppositeWishes_NoPartIsKeptAndBothAreServed)
{
    ExpectHolds(ExploreRandom(Make<TwoPools>()));
}

TEST(Sched_TwoPools, LostSignals_AreCaught)
{
    ExpectCaught(ExploreRandom(Make<TwoPools>(), SCHED_LOST_SIGNAL));
}

// A limit that changes in two phases, by two threads, over a cache that gives and one who claims.
class Changing : public GovernorScenario
{
  public:
    explicit Changing(Draw &draw) : GovernorScenario(10000)
    {
        may_go_below_ = 3;
        cache_.holder = Pressed(cache_.Callbacks());
        cache_.charged = draw.From(0, limit_ / 2);
        Charge(cache_.holder, cache_.charged);
        kept_ = draw.From(0, limit_ / 2);
        keeper_ = Holder();
        Charge(keeper_, kept_);
        claimer_ = Holder();
        claim_ = draw.From(1, limit_);
        for (Change &change : changes_) {
            change.limit = draw.From(1, limit_);
            change.restores = draw.Coin();
        }
    }

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { Run(&changes_[0]); }, [this] { Run(&changes_[1]); },
            [this] { claimed_ = mbr_grant(claimer_, claim_, nullptr) == MBR_OK; }};
    }

    void Judge() override
    {
        uint64_t limit = Figures(authority_).set_limit_bytes;
        SCHED_REQUIRE(limit == limit_ || limit == changes_[0].limit || limit == changes_[1].limit);
        for (const Change &change : changes_)
            SCHED_REQUIRE(change.kind != MBR_LIMIT_DEFERRED || !change.restores);
        SCHED_REQUIRE(changes_[0].kind != 0 && changes_[1].kind != 0);
        bool stands = limit != limit_;
        bool taken = Stood(changes_[0]) || Stood(changes_[1]);
        SCHED_REQUIRE(!stands || taken, "limit %" PRIu64 " that nobody was told of", limit);
        if (claimed_)
            mbr_grant_return(claimer_, claim_);
        mbr_refund(keeper_, kept_);
        mbr_refund(cache_.holder, cache_.charged);
        Destroy(cache_.holder);
        GovernorScenario::Judge();
    }

  private:
    struct Change {
        uint64_t limit;
        bool restores;
        uint32_t kind;
    };

    static bool Stood(const Change &change)
    {
        return change.kind == MBR_LIMIT_APPLIED || change.kind == MBR_LIMIT_DEFERRED;
    }

    void Run(Change *change)
    {
        mbr_limit_change request = {};
        request.struct_size = sizeof(request);
        request.flags = change->restores ? MBR_LIMIT_RESTORE : 0;
        request.limit_bytes = change->limit;
        request.expected_revision = MBR_ANY_REVISION;
        mbr_limit_answer answer = {};
        answer.struct_size = sizeof(answer);
        mbr_error error = NewError();
        mbr_status status = mbr_authority_change_limit(authority_, &request, &answer, &error);
        SCHED_REQUIRE(status == MBR_OK, "%s", error.text);
        change->kind = answer.kind;
    }

    Giver cache_;
    mbr_holder *keeper_, *claimer_;
    uint64_t kept_, claim_;
    bool claimed_ = false;
    Change changes_[2] = {};
};

TEST(Sched_Changing, TwoAtOnceWithClaims_TheLimitThatStandsWasAnswered)
{
    ExpectHolds(ExploreRandom(Make<Changing>()));
}

// Members that grow and leave: at every instant some order exists in which all can finish.
class Admitting : public GovernorScenario
{
  public:
    explicit Admitting(Draw &draw) : GovernorScenario(10000)
    {
        payer_ = Holder();
        SCHED_REQUIRE(mbr_admission_create(payer_, &admission_, nullptr) == MBR_OK);
        for (Member &member : members_) {
            member.most = draw.From(limit_ / 4, limit_);
            member.step = draw.From(1, member.most);
        }
    }

    std::vector<std::function<void()>> Bodies() override
    {
        std::vector<std::function<void()>> bodies;
        for (Member &member : members_)
            bodies.push_back([this, &member] { Run(&member); });
        return bodies;
    }

    void Look(uint8_t fiber) override
    {
        GovernorScenario::Look(fiber);
        mbr_member_need needs[kMembers];
        uint32_t count = 0;
        uint64_t has = 0;
        for (const Member &member : members_) {
            if (!member.in)
                continue;
            needs[count++] = {member.has, member.most, 0};
            has += member.has;
        }
        SCHED_REQUIRE(has <= limit_);
        SCHED_REQUIRE(mbr_all_can_finish(limit_ - has, needs, count), "nobody can finish");
    }

    void Judge() override
    {
        SCHED_REQUIRE(mbr_admission_count(admission_) == 0);
        SCHED_REQUIRE(mbr_admission_destroy(admission_, nullptr) == MBR_OK);
        GovernorScenario::Judge();
    }

  private:
    static constexpr int kMembers = 3;

    struct Member {
        uint64_t most, step, has;
        bool in;
    };

    void Run(Member *member)
    {
        mbr_member name;
        mbr_status status = mbr_admit(admission_, member->most, &name, nullptr, nullptr);
        SCHED_REQUIRE(status == MBR_OK || status == MBR_OVER_BUDGET);
        if (status != MBR_OK)
            return;
        member->in = true;
        if (mbr_member_grow(admission_, name, member->step, nullptr, nullptr) == MBR_OK) {
            SCHED_REQUIRE(mbr_grant(payer_, member->step, nullptr) == MBR_OK);
            member->has = member->step;
            SCHED_CALLBACK_POINT();
            mbr_grant_return(payer_, member->step);
        }
        member->in = false;
        member->has = 0;
        SCHED_REQUIRE(mbr_member_leave(admission_, name));
    }

    mbr_holder *payer_;
    mbr_admission *admission_ = nullptr;
    Member members_[kMembers] = {};
};

TEST(Sched_Admitting, MembersGrowAndLeave_AllCanAlwaysFinish)
{
    ExpectHolds(ExploreRandom(Make<Admitting>()));
}

} // namespace
