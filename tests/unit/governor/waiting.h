// Holders that are asked and give, and tickets that the test owns.
#ifndef MEMBRANE_TESTS_UNIT_GOVERNOR_WAITING_H
#define MEMBRANE_TESTS_UNIT_GOVERNOR_WAITING_H

#include "tests/unit/governor/world.h"

extern "C" {
#include "governor/admission.h"
#include "governor/arbiter.h"
#include "governor/ticket.h"
}

#include <functional>
#include <vector>

namespace governor_test
{

constexpr int kNobody = -1;

// How a holder answers when it is asked.
struct Manners {
    uint64_t offers = 0;
    uint64_t gives = 0;  // the most it gives, whatever it offered
    bool greedy = false; // gives that much even where less is asked
    int cache = kNobody; // who pays for it then, instead of a refund
};

// A holder that has charged bytes and gives some back when asked.
struct Giver {
    mbr_holder *holder = nullptr;
    uint64_t offers = 0; // the most it says it could give
    uint64_t keeps = 0;  // of what it is to give, it gives that much less
    uint64_t charged = 0;
    int asked = 0, gave = 0;
    mbr_pressure last = {};
    std::vector<Giver *> *order = nullptr; // whose turn it was to give
    std::function<void()> inside;          // runs in each callback

    mbr_pressure_callbacks Callbacks() { return {Ask, Give, this}; }

    void Charge(uint64_t bytes)
    {
        ASSERT_EQ(mbr_grant(holder, bytes, nullptr), MBR_OK);
        mbr_charge(holder, bytes);
        charged += bytes;
    }

    void Refund(uint64_t bytes)
    {
        mbr_refund(holder, bytes);
        charged -= bytes;
    }

    static uint64_t Ask(void *context, const mbr_pressure *pressure)
    {
        auto *self = static_cast<Giver *>(context);
        mbr_lock_assert_none_held();
        self->asked++;
        self->last = *pressure;
        if (self->inside)
            self->inside();
        return self->offers;
    }

    static void Give(void *context, const mbr_pressure *, uint64_t bytes)
    {
        auto *self = static_cast<Giver *>(context);
        mbr_lock_assert_none_held();
        self->gave++;
        if (self->order != nullptr)
            self->order->push_back(self);
        if (self->inside)
            self->inside();
        uint64_t given = bytes - std::min(bytes, self->keeps);
        given = std::min(given, self->charged);
        self->Refund(given);
        self->offers -= std::min(self->offers, given);
    }
};

inline void MakeGiver(World &world, Giver &giver, mbr_authority *authority, uint32_t role,
    uint64_t allowance_bytes = MBR_NO_ALLOWANCE, bool borrows = false)
{
    mbr_holder_options options = {};
    options.role = role;
    options.allowance_bytes = allowance_bytes;
    options.borrows = borrows;
    options.pressed = giver.Callbacks();
    giver.holder = world.Holder(authority, options);
}

inline mbr_ticket_options Wish(mbr_holder *holder, uint64_t bytes, uint32_t priority = 0)
{
    mbr_ticket_options options = {};
    options.holder = holder;
    options.bytes = bytes;
    options.priority = priority;
    options.deadline_ns = MBR_NO_DEADLINE;
    return options;
}

inline mbr_ticket *Submit(const mbr_ticket_options &options)
{
    mbr_ticket *ticket = nullptr;
    mbr_error error = NewError();
    EXPECT_EQ(mbr_ticket_submit(&options, &ticket, nullptr, &error), MBR_OK) << error.text;
    return ticket;
}

inline void Take(mbr_holder *holder, uint64_t bytes)
{
    ASSERT_EQ(mbr_grant(holder, bytes, nullptr), MBR_OK);
}

} // namespace governor_test

#endif
