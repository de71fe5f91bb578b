// One authority as a child would keep it: one number a name, one list of tickets, no credit, no
// slots, no code of the product. Written from the texts of the headers; slow and plain. Holders and
// tickets are known by a number that the test gives them.
#ifndef MEMBRANE_TESTS_UNIT_GOVERNOR_MODEL_H
#define MEMBRANE_TESTS_UNIT_GOVERNOR_MODEL_H

#include "tests/unit/governor/waiting.h"

#include <algorithm>
#include <array>
#include <map>
#include <vector>

namespace governor_test
{

constexpr uint64_t kMostBytes = (UINT64_C(1) << 63) - 1;
constexpr int kRounds = 4; // of asking, in one go

inline uint64_t SumCapped(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

inline uint64_t Less(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

// Who was asked or had to give, in order.
struct Asked {
    bool gives;
    int holder;
    uint64_t bytes;
    bool operator==(const Asked &o) const
    {
        return gives == o.gives && holder == o.holder && bytes == o.bytes;
    }
};

struct ModelHolder {
    uint64_t allowance = MBR_NO_ALLOWANCE;
    uint32_t role = 0;
    bool borrows = false, pressed = false;
    uint64_t born = 0; // the order of creation
    Manners manners;
    uint64_t granted = 0, charged = 0, mapped = 0, quarantined = 0, retained = 0, peak = 0;

    uint64_t Leased() const { return granted + charged; }
    uint64_t Withheld() const { return quarantined + retained; }
    uint64_t Unmarked() const { return charged - Withheld(); }
    // What is left of its own allowance, and of what it may lease at all.
    uint64_t OwnLeft() const
    {
        return allowance == MBR_NO_ALLOWANCE ? 0 : Less(allowance, Leased());
    }
    uint64_t LeaseLeft() const
    {
        return allowance == MBR_NO_ALLOWANCE || borrows ? kNone : OwnLeft();
    }
    uint64_t Borrowed() const { return borrows ? Less(Leased(), allowance) : 0; }
};

struct ModelTicket {
    int holder = kNobody;
    uint64_t bytes = 0, since = 0, deadline = 0, number = 0, generation = 0, asked_at = 0, held = 0;
    uint32_t priority = 0;
    bool quiet = false, tells = false;
    bool asking = false, due = false;
    uint32_t state = MBR_TICKET_WAITING;
};

struct ModelMember {
    uint64_t has = 0, most = 0;
};

class Model
{
  public:
    explicit Model(const HandClock *clock) : clock_(clock) {}

    uint64_t set_limit = 0, limit = 0;
    uint64_t measured = kNone, exhausted = kNone, margin = 0, device_free = MBR_UNKNOWN_BYTES;
    uint64_t held = 0, generation = 0, sampled_at = 0;
    uint64_t grants = 0, refusals = 0, revision = 0, set_revision = 0, peak = 0, told = 0;
    std::map<int, ModelHolder> holders;
    std::map<int, ModelTicket> tickets; // that were not destroyed
    std::map<int, ModelMember> members; // of the one admission
    int admission_holder = kNobody;
    std::vector<Asked> asked; // of the last operation
    bool forgetful = false;   // a planted fault: a refund serves nobody

    // ---- Sums
    uint64_t Now() const { return clock_->now_ns; }

    template <typename Figure> uint64_t Total(Figure figure) const
    {
        uint64_t sum = 0;
        for (const auto &[name, holder] : holders)
            sum += figure(holder);
        return sum;
    }

    uint64_t Sum(uint64_t ModelHolder::*figure) const
    {
        return Total([figure](auto &it) { return it.*figure; });
    }

    uint64_t Cached() const
    {
        return Total([](auto &it) { return it.role == MBR_ROLE_CACHE ? it.charged : 0; });
    }

    uint64_t Leased() const { return Sum(&ModelHolder::granted) + Sum(&ModelHolder::charged); }
    uint64_t Claimed() const { return Leased() + held; }
    uint64_t Room() const { return Less(limit, Claimed()); }
    uint64_t Over() const { return Less(Claimed(), limit); }
    uint64_t Above() const { return Less(Claimed(), set_limit); }
    uint64_t Reach() const
    {
        return Less(limit, Total([](auto &it) { return it.Withheld(); }));
    }
    uint64_t SetLimit() const { return std::min(set_limit, kMostBytes); }

    // ---- Booking
    // 0, or why the grant is refused.
    uint32_t Refuses(const ModelHolder &holder, uint64_t bytes) const
    {
        if (bytes <= Room() && bytes <= holder.LeaseLeft())
            return 0;
        if (bytes > SetLimit())
            return MBR_REFUSED_CAPACITY;
        if (bytes > holder.LeaseLeft())
            return MBR_REFUSED_ALLOWANCE;
        bool set_allows = Claimed() <= SetLimit() && bytes <= SetLimit() - Claimed();
        return set_allows ? MBR_REFUSED_MEASURED : MBR_REFUSED_LIMIT;
    }

    uint32_t Grant(int holder, uint64_t bytes)
    {
        uint32_t reason = bytes == 0 ? 0 : Refuses(holders[holder], bytes);
        refusals += reason != 0;
        if (reason == 0) {
            holders[holder].granted += bytes;
            grants += bytes != 0;
        }
        return reason;
    }

    void Return(int holder, uint64_t bytes)
    {
        holders[holder].granted -= bytes;
        Serve();
    }

    void Charge(int holder, uint64_t bytes)
    {
        holders[holder].granted -= bytes;
        AddCharged(holder, bytes);
    }

    void Refund(int holder, uint64_t bytes)
    {
        holders[holder].charged -= bytes;
        if (!forgetful)
            Serve();
    }

    // True: done.
    bool Transfer(int from, int to, uint64_t bytes, bool may_refuse)
    {
        if (from == to)
            return true;
        if (may_refuse && bytes > holders[to].LeaseLeft()) {
            refusals++;
            return false;
        }
        holders[from].charged -= bytes;
        AddCharged(to, bytes);
        // Frees no byte; a lease may be another one.
        if (holders[from].allowance != kNone || holders[to].allowance != kNone)
            Serve();
        return true;
    }

    void Record(int holder, uint64_t bytes)
    {
        AddCharged(holder, bytes);
        Serve();
    }

    // ---- Limits
    void ApplyLimit()
    {
        uint64_t least = std::min(std::min(set_limit, measured), std::min(exhausted, kMostBytes));
        if (least == limit)
            return;
        limit = least;
        revision++;
        Serve();
    }

    void ChangeSetLimit(uint64_t bytes)
    {
        set_limit = bytes;
        set_revision++;
        exhausted = kNone;
        ApplyLimit();
        Serve();
    }

    // The kind of the answer; *over is what it says is above.
    uint32_t ChangeLimit(
        uint64_t bytes, bool restore, uint64_t expected, uint64_t *over, uint64_t *given)
    {
        *given = 0;
        if (expected != MBR_ANY_REVISION && expected != set_revision) {
            *over = Above();
            return MBR_LIMIT_STALE;
        }
        uint64_t before = set_limit;
        ChangeSetLimit(bytes);
        uint64_t began = Above();
        for (int round = 0; round < kRounds && Above() != 0; round++)
            if (Press(Above(), kNobody) == 0)
                break;
        *over = Above();
        *given = Less(began, *over);
        bool back = *over != 0 && restore;
        if (back)
            ChangeSetLimit(before);
        Tell();
        return back ? MBR_LIMIT_CONFLICT : *over != 0 ? MBR_LIMIT_DEFERRED : MBR_LIMIT_APPLIED;
    }

    void Exhausted()
    {
        sampled_at = Now();
        exhausted = Leased();
        ApplyLimit();
    }

    // `free` is what the probe says; kNone: nothing.
    void Sample(uint64_t free, bool now)
    {
        if (!now && Now() - sampled_at < MBR_PROBE_INTERVAL_NS)
            return;
        sampled_at = Now();
        if (free != kNone) {
            measured =
                std::min(SumCapped(Sum(&ModelHolder::charged), Less(free, margin)), kMostBytes);
            device_free = free;
        }
        exhausted = kNone;
        ApplyLimit();
    }

    // ---- Tickets
    // 0, or why it can never be granted.
    uint32_t NeverFor(int holder, uint64_t bytes) const
    {
        const ModelHolder &h = holders.at(holder);
        if (bytes > SetLimit())
            return MBR_REFUSED_CAPACITY;
        return bytes > h.allowance && !h.borrows ? MBR_REFUSED_ALLOWANCE : 0;
    }

    void Submit(int name, ModelTicket ticket)
    {
        ticket.number = ++ticket_number_;
        ticket.generation = generation;
        ticket.since = ticket.since == 0 ? Now() : ticket.since;
        ticket.asking = !ticket.quiet;
        ticket.asked_at = Now();
        tickets[name] = ticket;
        queue_.push_back(name);
        Serve();
        AskFor(tickets[name]);
        Tell();
    }

    uint32_t Poll(int name)
    {
        if (tickets[name].state == MBR_TICKET_WAITING && tickets[name].deadline <= Now())
            Serve();
        return tickets[name].state;
    }

    mbr_status Claim(int name)
    {
        Poll(name);
        ModelTicket &ticket = tickets[name];
        if (ticket.state == MBR_TICKET_GRANTED && ticket.generation != generation)
            GiveUp(ticket);
        if (ticket.state == MBR_TICKET_GRANTED) {
            ticket.state = MBR_TICKET_CLAIMED;
            return MBR_OK;
        }
        static const std::map<uint32_t, mbr_status> answers = {{MBR_TICKET_WAITING, MBR_NOT_READY},
            {MBR_TICKET_TIMED_OUT, MBR_TIMED_OUT}, {MBR_TICKET_REFUSED, MBR_OVER_BUDGET}};
        auto answer = answers.find(ticket.state);
        return answer == answers.end() ? MBR_STALE : answer->second;
    }

    bool Cancel(int name)
    {
        ModelTicket &ticket = tickets[name];
        bool waited = ticket.state == MBR_TICKET_WAITING;
        bool granted = ticket.state == MBR_TICKET_GRANTED;
        if (waited) {
            Leave(name, MBR_TICKET_CANCELLED);
            Serve();
        } else if (granted) {
            GiveUp(ticket);
        }
        return waited || granted;
    }

    void Destroy(int name)
    {
        Cancel(name);
        tickets.erase(name);
    }

    void Retire()
    {
        generation++;
        while (!queue_.empty())
            Leave(queue_.front(), MBR_TICKET_STALE);
        Serve();
        Tell();
    }

    void PollAll()
    {
        if (!queue_.empty()) {
            Serve();
            for (int name : queue_) {
                if (!MayAsk(tickets[name]))
                    continue;
                tickets[name].asking = true;
                tickets[name].asked_at = Now();
                AskFor(tickets[name]);
                break;
            }
        }
        Tell();
    }

    void Tell()
    {
        for (auto &[name, ticket] : tickets) {
            told += ticket.due;
            ticket.due = false;
        }
    }

    bool HasTickets(int holder) const
    {
        auto of = [&](const auto &one) { return one.second.holder == holder; };
        return std::any_of(tickets.begin(), tickets.end(), of);
    }

    // Granted bytes that the holder may use: those of unclaimed tickets are not its to charge.
    uint64_t Usable(int holder) const
    {
        uint64_t bytes = holders.at(holder).granted;
        for (const auto &[name, ticket] : tickets)
            if (ticket.holder == holder && ticket.state == MBR_TICKET_GRANTED)
                bytes -= ticket.bytes;
        return bytes;
    }

    uint64_t WaitingBytes() const
    {
        uint64_t bytes = 0;
        for (int name : queue_)
            bytes = SumCapped(bytes, tickets.at(name).bytes);
        return bytes;
    }

    const std::vector<int> &Queue() const { return queue_; }

    // ---- Admission: one after another finishes and gives all it had.
    bool AllCanFinish() const
    {
        uint64_t others = 0, has = 0;
        const ModelHolder &own = holders.at(admission_holder);
        for (const auto &[name, it] : holders)
            if (name != admission_holder)
                others += it.granted + (it.role == MBR_ROLE_CACHE ? it.Withheld() : it.charged);
        uint64_t capacity = Less(
            std::min(Less(limit, others), own.borrows ? kNone : own.allowance), own.Withheld());
        auto left = members;
        for (const auto &[name, member] : left)
            has = SumCapped(has, member.has);
        if (has > capacity)
            return false;
        uint64_t free = capacity - has;
        while (!left.empty()) {
            auto one = std::find_if(left.begin(), left.end(),
                [&](const auto &m) { return m.second.most - m.second.has <= free; });
            if (one == left.end())
                return false;
            free += one->second.has;
            left.erase(one);
        }
        return true;
    }

    // Whether the member could be as `wanted` says; it is then.
    bool TryMember(int name, ModelMember wanted)
    {
        auto before = members;
        members[name] = wanted;
        bool fits = wanted.has <= wanted.most && AllCanFinish();
        if (!fits)
            members = before;
        return fits;
    }

    // The most that a member could grow by now: halved down to the byte.
    uint64_t MostGrowth(int name)
    {
        ModelMember now = members[name];
        uint64_t fits = 0, fails = now.most - now.has + 1;
        while (fails - fits > 1) {
            uint64_t middle = fits + (fails - fits) / 2;
            bool could = TryMember(name, {now.has + middle, now.most});
            (could ? fits : fails) = middle;
            members[name] = now;
        }
        return fits;
    }

    // ---- Pressure
    // The class of a holder in the order of giving, then the role, the cheapest to have again
    // first.
    uint64_t TurnOf(int name, int wants) const
    {
        static const std::array cheapest = {MBR_ROLE_CACHE, MBR_ROLE_STAGING, MBR_ROLE_PREFIX,
            MBR_ROLE_ACTIVATION, MBR_ROLE_WORKSPACE, MBR_ROLE_WEIGHTS, MBR_ROLE_KV};
        const ModelHolder &h = holders.at(name);
        uint64_t others = name == wants ? 1 : h.Borrowed() != 0 ? 2 : 3;
        uint64_t turn = h.role == MBR_ROLE_CACHE ? 0 : others;
        auto rank = std::find(cheapest.begin(), cheapest.end(), static_cast<int>(h.role));
        return turn * 100 + static_cast<uint64_t>(rank - cheapest.begin());
    }

    // The bytes that the holders' leases fell by. Of caches only: all but `except`.
    uint64_t Press(uint64_t bytes, int wants, bool caches_only = false, int except = kNobody,
        bool own_only = false)
    {
        struct Offer {
            uint64_t turn, born, bytes;
            int holder;
        };
        std::vector<Offer> offers;
        for (const auto &[name, h] : holders)
            if (h.pressed && name != except && (!caches_only || h.role == MBR_ROLE_CACHE) &&
                (!own_only || name == wants))
                offers.push_back({TurnOf(name, wants), h.born, 0, name});
        std::sort(offers.begin(), offers.end(), [](auto &a, auto &b) { return a.born < b.born; });
        uint64_t together = 0, given = 0;
        for (Offer &offer : offers) {
            const ModelHolder &h = holders[offer.holder];
            asked.push_back({false, offer.holder, bytes});
            uint64_t most = h.borrows && offer.holder != wants ? h.Borrowed() : kNone;
            offer.bytes = std::min(h.manners.offers, most);
            together = SumCapped(together, offer.bytes);
        }
        if (together < bytes)
            return 0;
        auto by_turn = [](auto &a, auto &b) { return a.turn < b.turn; };
        std::stable_sort(offers.begin(), offers.end(), by_turn);
        for (const Offer &offer : offers) {
            if (uint64_t part = std::min(offer.bytes, bytes - given); part != 0) {
                asked.push_back({true, offer.holder, part});
                uint64_t before = holders[offer.holder].Leased();
                Give(offer.holder, part);
                given += std::min(part, Less(before, holders[offer.holder].Leased()));
            }
        }
        return given;
    }

  private:
    void AddCharged(int holder, uint64_t bytes)
    {
        ModelHolder &h = holders[holder];
        h.charged += bytes;
        h.peak = std::max(h.peak, h.charged);
        // A transfer adds before it subtracts, and the total stays as it is.
        peak = std::max(peak, Sum(&ModelHolder::charged));
    }

    void Give(int name, uint64_t part)
    {
        const ModelHolder &h = holders[name];
        uint64_t most = h.manners.greedy ? h.manners.gives : std::min(part, h.manners.gives);
        uint64_t bytes = std::min(most, h.Unmarked());
        if (h.manners.cache != name && holders.count(h.manners.cache) != 0)
            Transfer(name, h.manners.cache, bytes, false);
        else
            Refund(name, bytes);
    }

    void GiveUp(ModelTicket &ticket)
    {
        ticket.state = MBR_TICKET_RETURNED;
        Return(ticket.holder, ticket.bytes);
    }

    void Leave(int name, uint32_t state)
    {
        queue_.erase(std::find(queue_.begin(), queue_.end(), name));
        tickets[name].state = state;
        tickets[name].due = tickets[name].tells;
    }

    uint64_t Standing(const ModelTicket &ticket) const
    {
        return SumCapped(ticket.priority, Less(Now(), ticket.since) / MBR_AGEING_NS);
    }

    bool Matured(const ModelTicket &ticket) const { return Standing(ticket) >= MBR_PRIORITY_COUNT; }

    // Smaller is earlier: matured by age; then own share, standing, age.
    std::array<uint64_t, 5> Place(const ModelTicket &ticket) const
    {
        if (Matured(ticket))
            return {0, 0, 0, ticket.since, ticket.number};
        bool own = ticket.bytes <= holders.at(ticket.holder).OwnLeft();
        return {
            1, own ? 0u : 1u, MBR_PRIORITY_COUNT - Standing(ticket), ticket.since, ticket.number};
    }

    // Who waits gets what is free, in order; matured ones and those that ask keep it.
    void Serve()
    {
        std::vector<std::pair<std::array<uint64_t, 5>, int>> order;
        for (int name : queue_)
            order.push_back({Place(tickets[name]), name});
        std::sort(order.begin(), order.end());
        queue_.clear();
        for (const auto &[place, name] : order)
            queue_.push_back(name);
        held = 0;
        uint64_t free = Less(limit, Leased());
        for (const auto &[place, name] : order) {
            ModelTicket &ticket = tickets[name];
            ModelHolder &holder = holders[ticket.holder];
            bool may_lease = ticket.bytes <= holder.LeaseLeft();
            ticket.held = 0;
            if (ticket.bytes > SetLimit()) {
                Leave(name, MBR_TICKET_REFUSED);
            } else if (ticket.deadline <= Now()) {
                Leave(name, MBR_TICKET_TIMED_OUT);
            } else if (ticket.bytes <= free && may_lease) {
                free -= ticket.bytes;
                holder.granted += ticket.bytes;
                grants++;
                Leave(name, MBR_TICKET_GRANTED);
            } else if (ticket.bytes <= Reach() && may_lease && (Matured(ticket) || ticket.asking)) {
                ticket.held = std::min(free, ticket.bytes);
                held += ticket.held;
                free -= ticket.held;
            }
        }
    }

    bool MayAsk(const ModelTicket &ticket) const
    {
        return !ticket.quiet && ticket.state == MBR_TICKET_WAITING &&
            Now() - ticket.asked_at >= MBR_PRESS_INTERVAL_NS;
    }

    void AskFor(ModelTicket &ticket)
    {
        for (int round = 0; !ticket.quiet && round < kRounds; round++) {
            Serve();
            uint64_t left = holders[ticket.holder].LeaseLeft(), bytes = ticket.bytes;
            bool own = bytes > left; // then others' bytes are no use
            uint64_t missing = own ? bytes - left : bytes - ticket.held + Over();
            if (ticket.state != MBR_TICKET_WAITING || bytes > Reach() ||
                Press(missing, ticket.holder, false, kNobody, own) == 0)
                break;
        }
        ticket.asking = false;
        Serve();
    }

    const HandClock *clock_;
    uint64_t ticket_number_ = 0;
    std::vector<int> queue_; // in the order of the last time they were served
};

} // namespace governor_test

#endif
