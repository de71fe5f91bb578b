// One authority beside its model: a step is done to both, and then all that the governor shows is
// compared with the model.
#ifndef MEMBRANE_TESTS_UNIT_GOVERNOR_PAIR_H
#define MEMBRANE_TESTS_UNIT_GOVERNOR_PAIR_H

#include "tests/unit/governor/differs.h"
#include "tests/unit/governor/step.h"

#include <memory>

namespace governor_test
{

class Pair
{
  public:
    Pair(World &world, Tally &tally, uint64_t limit, bool measured, uint64_t margin)
        : model(&world.clock), world_(world), tally_(tally), measured_(measured)
    {
        probe_.free_bytes = limit;
        probe_seam_ = probe_.Seam();
        authority = world.Authority(limit, measured ? &probe_seam_ : nullptr, margin);
        model.set_limit = model.limit = limit;
        model.margin = margin;
        model.Sample(measured ? limit : kNone, true); // as a creation does
    }

    // False: it does not apply here and now, and nothing was done.
    bool Apply(const Step &step)
    {
        asked_.clear();
        model.asked.clear();
        bool applies = Dispatch(step);
        for (auto &[name, paper] : tickets_)
            WatchEdge(*paper, IsDue(model.tickets[name]));
        return applies;
    }

    // Empty, or what differs. `exact`: no thread can hold credit.
    std::string Compare(bool exact)
    {
        if (!difference_.empty())
            return difference_;
        bool none = exact || model.Claimed() > model.limit || !model.Queue().empty();
        std::string difference = Differs(Figures(authority), model, none ? 0 : model.limit / 64);
        for (auto &[name, party] : parties_)
            if (difference.empty())
                difference = Differs(Figures(party->holder), model.holders[name]);
        if (difference.empty())
            difference = CompareTickets();
        mbr_error error = NewError();
        if (difference.empty() && mbr_authority_audit(authority, &error) != MBR_OK)
            difference = error.text;
        return difference;
    }

    // Gives everything back and forgets the holders' manners; the authority lives on.
    void Clear()
    {
        while (!tickets_.empty())
            Apply({Do::kDestroyTicket, 0, 0, 0, tickets_.begin()->first});
        while (!model.members.empty())
            Apply({Do::kLeave, 0, 0, 0, model.members.begin()->first});
        for (auto &[name, party] : parties_) {
            ModelHolder &h = model.holders[name];
            Apply({Do::kQuarantineSettle, 0, name, 0, 0, h.quarantined});
            Apply({Do::kRetainSettle, 0, name, 0, 0, h.retained});
            Apply({Do::kRefund, 0, name, 0, 0, h.charged});
            Apply({Do::kReturn, 0, name, 0, 0, h.granted});
            Apply({Do::kUnmap, 0, name, 0, 0, h.mapped});
            Apply({Do::kManners, 0, name, kNobody});
        }
    }

    // Ends it all. Empty, or what differs or is left.
    std::string Finish()
    {
        if (difference_.empty())
            Clear();
        std::string difference = Compare(false);
        Drop();
        mbr_authority_collect_credit(authority);
        if (difference.empty() && Figures(authority).claimed_bytes != 0)
            difference = "claimed bytes at the end";
        if (mbr_authority_destroy(authority, nullptr) != MBR_OK && difference.empty())
            difference = "the authority's end is refused";
        return difference;
    }

    mbr_holder *Holder(int name)
    {
        return parties_.count(name) == 0 ? nullptr : parties_[name]->holder;
    }
    bool IsMeasured() const { return measured_; }

    template <typename A, typename B> void Expect(A got, B expected, const char *what)
    {
        if (static_cast<uint64_t>(got) != static_cast<uint64_t>(expected))
            Note(std::string(what) + " answered " + std::to_string(static_cast<uint64_t>(got)) +
                ", expected " + std::to_string(static_cast<uint64_t>(expected)));
    }

    void Note(const std::string &difference)
    {
        if (difference_.empty())
            difference_ = difference;
    }

    mbr_authority *authority;
    Model model;

  private:
    // A holder and how it answers, by its own figures.
    struct Party {
        Pair *pair;
        int name;
        Manners manners;
        mbr_holder *holder;

        static uint64_t Ask(void *context, const mbr_pressure *pressure)
        {
            auto *self = static_cast<Party *>(context);
            mbr_lock_assert_none_held();
            self->pair->asked_.push_back({false, self->name, pressure->bytes});
            return self->manners.offers;
        }

        static void Give(void *context, const mbr_pressure *, uint64_t bytes)
        {
            auto *self = static_cast<Party *>(context);
            mbr_lock_assert_none_held();
            self->pair->asked_.push_back({true, self->name, bytes});
            mbr_holder_figures has = Figures(self->holder);
            uint64_t free = has.charged_bytes - has.quarantined_bytes - has.retained_bytes;
            uint64_t most =
                self->manners.greedy ? self->manners.gives : std::min(bytes, self->manners.gives);
            mbr_holder *cache = self->pair->Holder(self->manners.cache);
            if (cache != nullptr && cache != self->holder)
                mbr_transfer(self->holder, cache, std::min(most, free));
            else
                mbr_refund(self->holder, std::min(most, free));
        }
    };

    // A ticket; its owner's callback sees that bytes are booked before anybody is told.
    struct Paper {
        Pair *pair;
        mbr_holder *holder;
        uint64_t bytes;
        mbr_ticket *ticket = nullptr;
        uint32_t seen = MBR_TICKET_WAITING;
        int told = 0;

        static void Settled(void *context, mbr_ticket *ticket)
        {
            auto *self = static_cast<Paper *>(context);
            mbr_lock_assert_none_held();
            self->pair->told_++;
            if (++self->told > 1)
                self->pair->Note("a ticket's owner was told twice");
            if (mbr_ticket_poll(ticket) == MBR_TICKET_GRANTED &&
                Figures(self->holder).granted_bytes < self->bytes)
                self->pair->Note("told before the bytes were booked");
        }
    };

    bool Dispatch(const Step &step)
    {
        switch (step.what) {
        case Do::kCreate:
            return Create(step);
        case Do::kSetLimit:
            return SetLimit(step.bytes), true;
        case Do::kChangeLimit:
            return ChangeLimit(step), true;
        case Do::kExhausted:
            mbr_authority_note_exhausted(authority);
            return model.Exhausted(), true;
        case Do::kSample:
        case Do::kSampleIfDue:
            return Sample(step.bytes, step.what == Do::kSample), true;
        case Do::kClock:
            return world_.clock.now_ns += step.bytes, true;
        case Do::kRetire:
            mbr_authority_retire_tickets(authority);
            return model.Retire(), true;
        case Do::kPollAll:
            mbr_authority_poll(authority);
            return model.PollAll(), true;
        case Do::kDeliver:
            mbr_authority_deliver(authority);
            return model.Tell(), true;
        case Do::kCollect:
            return mbr_authority_collect_credit(authority), true;
        case Do::kPoll:
        case Do::kClaim:
        case Do::kCancel:
        case Do::kDestroyTicket:
            return tickets_.count(step.name) != 0 && (OfTicket(step), true);
        case Do::kGrow:
        case Do::kShrink:
        case Do::kLeave:
            return OfMember(step);
        default:
            return parties_.count(step.a) != 0 && OfHolder(step);
        }
    }

    // Without the model, which may be wrong: by the governor's own figures.
    void Drop()
    {
        for (auto &[name, paper] : tickets_)
            mbr_ticket_destroy(paper->ticket);
        for (auto &[name, member] : members_)
            mbr_member_leave(admission_, member);
        mbr_admission_destroy(admission_, nullptr);
        for (auto &[name, party] : parties_) {
            mbr_holder_figures has = Figures(party->holder);
            mbr_quarantine_settle(party->holder, has.quarantined_bytes);
            mbr_retain_settle(party->holder, has.retained_bytes);
            mbr_refund(party->holder, has.charged_bytes);
            mbr_grant_return(party->holder, has.granted_bytes);
            mbr_mapped_sub(party->holder, has.mapped_bytes);
            Expect(mbr_holder_destroy(party->holder, nullptr), MBR_OK, "the holder's end");
        }
    }

    bool Create(const Step &step)
    {
        if (parties_.count(step.a) != 0)
            return false;
        auto party = std::make_unique<Party>(Party{this, step.a, {}, nullptr});
        mbr_holder_options options = {};
        options.role = step.rank;
        options.allowance_bytes = step.bytes;
        options.borrows = (step.flags & kBorrows) != 0 && step.bytes != MBR_NO_ALLOWANCE;
        if ((step.flags & kPressed) != 0)
            options.pressed = {Party::Ask, Party::Give, party.get()};
        party->holder = world_.Holder(authority, options);
        parties_[step.a] = std::move(party);
        ModelHolder &h = model.holders[step.a];
        h.allowance = step.bytes;
        h.role = step.rank;
        h.borrows = options.borrows;
        h.pressed = (step.flags & kPressed) != 0;
        h.born = ++born_;
        return true;
    }

    // Refused while anything is left, which is an operation of its own.
    bool Destroy(int name)
    {
        if (name == model.admission_holder)
            return false;
        const ModelHolder &h = model.holders[name];
        bool empty = h.Leased() == 0 && h.mapped == 0 && !model.HasTickets(name);
        Expect(mbr_holder_destroy(parties_[name]->holder, nullptr), empty ? MBR_OK : MBR_IN_USE,
            "destroy");
        if (empty) {
            model.holders.erase(name);
            parties_.erase(name);
        }
        return true;
    }

    bool OfHolder(const Step &step)
    {
        ModelHolder &h = model.holders[step.a];
        mbr_holder *holder = parties_[step.a]->holder;
        uint64_t bytes = step.bytes;
        switch (step.what) {
        case Do::kDestroy:
            return Destroy(step.a);
        case Do::kGrant:
            return Grant(step.a, bytes), true;
        case Do::kReturn:
            return bytes <= model.Usable(step.a) &&
                (mbr_grant_return(holder, bytes), model.Return(step.a, bytes), true);
        case Do::kCharge:
            return bytes <= model.Usable(step.a) &&
                (mbr_charge(holder, bytes), model.Charge(step.a, bytes), true);
        case Do::kRefund:
            return bytes <= h.Unmarked() &&
                (mbr_refund(holder, bytes), model.Refund(step.a, bytes), true);
        case Do::kTransfer:
        case Do::kTryTransfer:
            return bytes <= h.Unmarked() && parties_.count(step.b) != 0 && (Transfer(step), true);
        case Do::kRecord:
            if (bytes > UINT64_C(1) << 60 || model.Claimed() > UINT64_C(1) << 60)
                return false;
            return mbr_record_committed(holder, bytes), model.Record(step.a, bytes), true;
        case Do::kMap:
        case Do::kUnmap:
        case Do::kMapTransfer:
            return Map(step);
        case Do::kManners:
            h.manners = {bytes, step.more, (step.flags & kGreedy) != 0, step.b};
            return parties_[step.a]->manners = h.manners, true;
        case Do::kSubmit:
            return tickets_.count(step.name) == 0 && (Submit(step), true);
        case Do::kPressCaches:
            Expect(mbr_authority_press_caches(authority, holder, bytes),
                bytes == 0 ? 0 : model.Press(bytes, kNobody, true, step.a), "press_caches");
            return true;
        case Do::kAdmit:
            return Admit(step);
        default:
            return Mark(step);
        }
    }

    void Grant(int name, uint64_t bytes)
    {
        mbr_refusal refusal = NewRefusal();
        uint32_t reason = model.Grant(name, bytes);
        mbr_status status = mbr_grant(parties_[name]->holder, bytes, &refusal);
        Expect(status, reason == 0 ? MBR_OK : MBR_OVER_BUDGET, "grant");
        if (reason != 0)
            Note(Differs(refusal, model, model.holders[name], bytes, reason));
        tally_.reasons[reason]++;
    }

    void Transfer(const Step &step)
    {
        mbr_holder *from = parties_[step.a]->holder, *to = parties_[step.b]->holder;
        bool may_refuse = step.what == Do::kTryTransfer;
        bool fits = model.Transfer(step.a, step.b, step.bytes, may_refuse);
        if (!may_refuse)
            return mbr_transfer(from, to, step.bytes);
        mbr_refusal refusal = NewRefusal();
        Expect(mbr_try_transfer(from, to, step.bytes, &refusal), fits ? MBR_OK : MBR_OVER_BUDGET,
            "try_transfer");
        Expect(refusal.reason, fits ? 0 : MBR_REFUSED_ALLOWANCE, "the reason of try_transfer");
    }

    bool Map(const Step &step)
    {
        mbr_holder *holder = parties_[step.a]->holder, *to = Holder(step.b);
        uint64_t &mapped = model.holders[step.a].mapped;
        if (step.what == Do::kMap)
            return mbr_mapped_add(holder, step.bytes), mapped += step.bytes, true;
        if (step.bytes > mapped || (step.what == Do::kMapTransfer && to == nullptr))
            return false;
        mapped -= step.bytes;
        if (step.what == Do::kUnmap)
            return mbr_mapped_sub(holder, step.bytes), true;
        model.holders[step.b].mapped += step.bytes;
        return mbr_mapped_transfer(holder, to, step.bytes), true;
    }

    bool Mark(const Step &step)
    {
        bool quarantine = step.what == Do::kQuarantine || step.what == Do::kQuarantineSettle;
        bool marks = step.what == Do::kQuarantine || step.what == Do::kRetain;
        ModelHolder &h = model.holders[step.a];
        uint64_t &marked = quarantine ? h.quarantined : h.retained;
        if (step.bytes > (marks ? h.Unmarked() : marked))
            return false;
        mbr_holder *holder = parties_[step.a]->holder;
        if (marks)
            (quarantine ? mbr_quarantine : mbr_retain)(holder, step.bytes);
        else
            (quarantine ? mbr_quarantine_settle : mbr_retain_settle)(holder, step.bytes);
        marked = marks ? marked + step.bytes : marked - step.bytes;
        return true;
    }

    bool LimitIsGood(uint64_t bytes) const
    {
        return bytes == kNone ? measured_ : bytes <= kMostBytes;
    }

    void SetLimit(uint64_t bytes)
    {
        bool good = LimitIsGood(bytes);
        if (good)
            model.ChangeSetLimit(bytes);
        uint64_t over = 77;
        Expect(
            mbr_authority_set_limit(authority, bytes, &over, nullptr) == MBR_OK, good, "set_limit");
        Expect(over, good ? model.Over() : 0, "set_limit's over");
    }

    void ChangeLimit(const Step &step)
    {
        bool good = LimitIsGood(step.bytes), restore = (step.flags & kRestore) != 0;
        uint64_t over = 0, given = 0;
        uint32_t kind = good ? model.ChangeLimit(step.bytes, restore, step.more, &over, &given) : 0;
        mbr_limit_change change = {
            sizeof(change), restore ? MBR_LIMIT_RESTORE : 0, step.bytes, step.more};
        mbr_limit_answer answer = {};
        answer.struct_size = sizeof(answer);
        mbr_status status = mbr_authority_change_limit(authority, &change, &answer, nullptr);
        Expect(status == MBR_OK, good, "change_limit");
        tally_.limit_kinds[kind]++;
        Expect(answer.kind, kind, "change_limit's kind");
        Expect(answer.over_bytes, over, "change_limit's over");
        Expect(answer.given_bytes, given, "change_limit's given");
        Expect(answer.limit_bytes, good ? model.set_limit : 0, "change_limit's limit");
        Expect(answer.revision, good ? model.set_revision : 0, "change_limit's revision");
    }

    void Sample(uint64_t free, bool now)
    {
        probe_.free_bytes = free;
        probe_.known = free != kNone - 1;
        mbr_authority_sample(authority, now);
        bool answers = measured_ && probe_.known;
        model.Sample(answers ? free : kNone, now);
    }

    // ---- Tickets
    void Submit(const Step &step)
    {
        auto paper = std::make_unique<Paper>(Paper{this, parties_[step.a]->holder, step.bytes});
        ModelTicket ticket;
        ticket.holder = step.a;
        ticket.bytes = step.bytes;
        ticket.priority = step.rank;
        ticket.deadline = step.more == kNone ? MBR_NO_DEADLINE : world_.clock.now_ns + step.more;
        ticket.quiet = (step.flags & kQuiet) != 0;
        ticket.tells = (step.flags & kTells) != 0;
        mbr_ticket_options options = {};
        options.holder = paper->holder;
        options.bytes = ticket.bytes;
        options.priority = ticket.priority;
        options.quiet = ticket.quiet;
        options.deadline_ns = ticket.deadline;
        options.settled = ticket.tells ? Paper::Settled : nullptr;
        options.context = paper.get();
        bool good = step.bytes != 0 && step.rank < MBR_PRIORITY_COUNT;
        uint32_t never = good ? model.NeverFor(step.a, step.bytes) : 0;
        mbr_refusal refusal = NewRefusal();
        mbr_status status = mbr_ticket_submit(&options, &paper->ticket, &refusal, nullptr);
        if (!good)
            return Expect(status, MBR_INVALID_ARGUMENT, "a bad submit");
        Expect(status, never != 0 ? MBR_OVER_BUDGET : MBR_OK, "submit");
        if (never != 0) {
            model.refusals++;
            return Note(Differs(refusal, model, model.holders[step.a], step.bytes, never));
        }
        model.Submit(step.name, ticket);
        if (paper->ticket != nullptr)
            tickets_[step.name] = std::move(paper);
    }

    void OfTicket(const Step &step)
    {
        mbr_ticket *ticket = tickets_[step.name]->ticket;
        if (step.what == Do::kPoll) {
            Expect(mbr_ticket_poll(ticket), model.Poll(step.name), "poll");
        } else if (step.what == Do::kClaim) {
            Expect(mbr_ticket_claim(ticket), model.Claim(step.name), "claim");
        } else if (step.what == Do::kCancel) {
            Expect(mbr_ticket_cancel(ticket), model.Cancel(step.name), "cancel");
        } else {
            mbr_ticket_destroy(ticket);
            model.Destroy(step.name);
            tickets_.erase(step.name);
        }
    }

    // A poll would end it.
    bool IsDue(const ModelTicket &ticket) const
    {
        return ticket.state == MBR_TICKET_WAITING && ticket.deadline <= model.Now();
    }

    void WatchEdge(Paper &paper, bool is_due)
    {
        uint32_t now = is_due ? paper.seen : mbr_ticket_poll(paper.ticket);
        if (now == paper.seen)
            return;
        if (!mbr_state_allows(&mbr_ticket_states, paper.seen, now))
            Note("a ticket went from state " + std::to_string(paper.seen) + " to " +
                std::to_string(now));
        tally_.edges[paper.seen][now]++;
        paper.seen = now;
    }

    // Each in its one state; none waits over bytes that are there for it.
    std::string CompareTickets()
    {
        for (auto &[name, paper] : tickets_) {
            const ModelTicket &known = model.tickets[name];
            uint32_t state = known.state;
            bool is_due = IsDue(known);
            uint32_t now = is_due ? state : mbr_ticket_poll(paper->ticket);
            PAIR_SAME("state of ticket " + std::to_string(name), now, state);
            bool fits = paper->bytes <= model.Room() &&
                paper->bytes <= model.holders[known.holder].LeaseLeft();
            PAIR_SAME("waits over free bytes", !is_due && fits && now == MBR_TICKET_WAITING, false);
        }
        tally_.held += model.held != 0;
        tally_.gave += !model.asked.empty() && model.asked.back().gives;
        PAIR_SAME("told", told_, model.told);
        if (asked_ != model.asked)
            return "asked in another way: " + Said(asked_) + "; model: " + Said(model.asked);
        return "";
    }

    // ---- Admission: one at a time, which ends with its last member.
    bool Admit(const Step &step)
    {
        bool begins = model.admission_holder == kNobody;
        if (model.members.count(step.name) != 0 || (!begins && model.admission_holder != step.a))
            return false;
        mbr_holder *holder = parties_[step.a]->holder;
        if (begins)
            Expect(mbr_admission_create(holder, &admission_, nullptr), MBR_OK, "an admission");
        model.admission_holder = step.a;
        uint32_t never = model.NeverFor(step.a, step.bytes);
        bool fits = step.bytes != 0 && never == 0 && model.TryMember(step.name, {0, step.bytes});
        mbr_refusal refusal = NewRefusal();
        mbr_member member;
        mbr_status status = mbr_admit(admission_, step.bytes, &member, &refusal, nullptr);
        mbr_status wanted = step.bytes == 0 ? MBR_INVALID_ARGUMENT
            : fits                          ? MBR_OK
                                            : MBR_OVER_BUDGET;
        Expect(status, wanted, "admit");
        if (wanted == MBR_OVER_BUDGET) {
            model.refusals++;
            uint32_t reason = never != 0 ? never : MBR_REFUSED_LIMIT;
            Note(Differs(refusal, model, model.holders[step.a], step.bytes, reason));
        }
        if (fits)
            members_[step.name] = member;
        EndEmptyAdmission();
        return true;
    }

    void Grow(const Step &step, mbr_member member, ModelMember has)
    {
        ModelMember wanted = {SumCapped(has.has, step.bytes), has.most};
        bool said = wanted.has <= wanted.most;
        bool fits = model.TryMember(step.name, wanted);
        mbr_refusal refusal = NewRefusal();
        mbr_status status = mbr_member_grow(admission_, member, step.bytes, &refusal, nullptr);
        Expect(status, fits ? MBR_OK : said ? MBR_BUSY : MBR_OUT_OF_RANGE, "grow");
        if (fits || !said)
            return;
        model.refusals++;
        const ModelHolder &h = model.holders[model.admission_holder];
        uint64_t growth = model.MostGrowth(step.name);
        Note(Differs(refusal, model, h, step.bytes, MBR_REFUSED_LIMIT, growth));
    }

    bool OfMember(const Step &step)
    {
        if (model.members.count(step.name) == 0)
            return false;
        mbr_member member = members_[step.name];
        ModelMember wanted = model.members[step.name];
        if (step.what == Do::kGrow) {
            Grow(step, member, wanted);
        } else if (step.what == Do::kShrink) {
            mbr_member_shrink(admission_, member, step.bytes);
            model.members[step.name].has = Less(wanted.has, step.bytes);
        } else {
            Expect(mbr_member_leave(admission_, member), true, "leave");
            model.members.erase(step.name);
            members_.erase(step.name);
            EndEmptyAdmission();
        }
        return true;
    }

    void EndEmptyAdmission()
    {
        if (admission_ == nullptr)
            return;
        Expect(mbr_admission_count(admission_), model.members.size(), "the count of members");
        if (!model.members.empty())
            return;
        Expect(mbr_admission_destroy(admission_, nullptr), MBR_OK, "the admission's end");
        admission_ = nullptr;
        model.admission_holder = kNobody;
    }

    World &world_;
    Tally &tally_;
    bool measured_;
    FakeProbe probe_;
    mbr_probe probe_seam_;
    std::string difference_;
    std::map<int, std::unique_ptr<Party>> parties_;
    std::map<int, std::unique_ptr<Paper>> tickets_;
    std::map<int, mbr_member> members_;
    mbr_admission *admission_ = nullptr;
    std::vector<Asked> asked_;
    uint64_t told_ = 0, born_ = 0;
};

} // namespace governor_test

#endif
