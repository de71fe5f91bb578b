// The arbiter and the pressure plan: pure functions, by example and over every small case.
#include "tests/unit/governor/waiting.h"

#include <algorithm>

using namespace governor_test;

namespace
{

constexpr uint64_t kMature = MBR_PRIORITY_COUNT * (uint64_t)MBR_AGEING_NS;

mbr_arbiter_ticket Wants(uint64_t number, uint64_t bytes, uint32_t priority = 0)
{
    mbr_arbiter_ticket ticket = {};
    ticket.number = number;
    ticket.bytes = bytes;
    ticket.priority = priority;
    ticket.since_ns = kMature + number;
    ticket.deadline_ns = MBR_NO_DEADLINE;
    ticket.holder_id = number;
    ticket.lease_left_bytes = UINT64_MAX;
    return ticket;
}

mbr_arbiter_pool Pool(uint64_t free_bytes)
{
    return {kMature + 1000, free_bytes, 1000, 1000};
}

struct Arbiter : testing::Test {
    mbr_arbitration Run(const mbr_arbiter_pool &pool)
    {
        auto made = mbr_arbitrate(&pool, tickets.data(), (uint32_t)tickets.size());
        uint64_t granted = 0;
        for (const auto &ticket : tickets)
            granted += ticket.verdict == MBR_VERDICT_GRANT ? ticket.bytes : 0;
        EXPECT_EQ(pool.free_bytes, granted + made.held_bytes + made.left_bytes);
        return made;
    }

    mbr_verdict Of(uint64_t number)
    {
        for (const auto &ticket : tickets)
            if (ticket.number == number)
                return ticket.verdict;
        ADD_FAILURE() << "no ticket " << number;
        return MBR_VERDICT_WAIT;
    }

    std::vector<mbr_arbiter_ticket> tickets;
};

TEST_F(Arbiter, HigherPriorityFirst_ThenTheOldest)
{
    tickets = {Wants(1, 50, 1), Wants(2, 50, 2), Wants(3, 50, 2)};
    auto made = Run(Pool(60));
    EXPECT_EQ(Of(2), MBR_VERDICT_GRANT);
    EXPECT_EQ(Of(1), MBR_VERDICT_WAIT);
    EXPECT_EQ(Of(3), MBR_VERDICT_WAIT);
    EXPECT_EQ(made.left_bytes, 10u);
}

TEST_F(Arbiter, AYoungOneThatDoesNotFit_IsOvertaken)
{
    tickets = {Wants(1, 50, 7), Wants(2, 10)};
    EXPECT_EQ(Run(Pool(20)).held_bytes, 0u);
    EXPECT_EQ(Of(2), MBR_VERDICT_GRANT);
}

TEST_F(Arbiter, AMaturedOneThatDoesNotFit_HoldsBackWhatIsFree)
{
    tickets = {Wants(1, 50), Wants(2, 10, 7)};
    tickets[0].since_ns = 0;
    auto made = Run(Pool(20));
    EXPECT_EQ(made.held_bytes, 20u);
    EXPECT_EQ(made.left_bytes, 0u);
    EXPECT_EQ(tickets[0].held_bytes, 20u);
    EXPECT_EQ(tickets[1].held_bytes, 0u);
    EXPECT_EQ(Of(2), MBR_VERDICT_WAIT);
}

TEST_F(Arbiter, AMaturedOneAboveTheLimitInForce_HoldsNothingBack)
{
    tickets = {Wants(1, 500), Wants(2, 10)};
    tickets[0].since_ns = 0;
    auto pool = Pool(20);
    pool.limit_bytes = 499;
    EXPECT_EQ(Run(pool).held_bytes, 0u);
    EXPECT_EQ(Of(1), MBR_VERDICT_WAIT);
    EXPECT_EQ(Of(2), MBR_VERDICT_GRANT);
}

TEST_F(Arbiter, AMaturedOneAtItsAllowance_HoldsNothingBack)
{
    tickets = {Wants(1, 15), Wants(2, 10)};
    tickets[0].since_ns = 0;
    tickets[0].lease_left_bytes = 14;
    EXPECT_EQ(Run(Pool(20)).held_bytes, 0u);
    EXPECT_EQ(Of(2), MBR_VERDICT_GRANT);
}

TEST_F(Arbiter, OneForWhichHoldersGive_HoldsBackWhatTheyGave)
{
    tickets = {Wants(1, 50), Wants(2, 10)};
    tickets[0].asking = true;
    EXPECT_EQ(Run(Pool(9)).held_bytes, 9u);
}

TEST_F(Arbiter, WithinItsOwnShare_GoesBeforeAHigherPriorityThatBorrows)
{
    tickets = {Wants(1, 50, 7), Wants(2, 50)};
    tickets[1].own_left_bytes = 50;
    Run(Pool(50));
    EXPECT_EQ(Of(2), MBR_VERDICT_GRANT);
    EXPECT_EQ(Of(1), MBR_VERDICT_WAIT);
}

TEST_F(Arbiter, Age_RaisesByOnePriorityEachStep)
{
    tickets = {Wants(1, 50, 3), Wants(2, 50, 4)};
    tickets[0].since_ns = tickets[1].since_ns - MBR_AGEING_NS;
    Run(Pool(50));
    EXPECT_EQ(Of(1), MBR_VERDICT_GRANT); // equal now, and older
    tickets = {Wants(1, 50, 3), Wants(2, 50, 4)};
    tickets[0].since_ns = tickets[1].since_ns - MBR_AGEING_NS + 2000;
    Run(Pool(50));
    EXPECT_EQ(Of(2), MBR_VERDICT_GRANT);
}

TEST_F(Arbiter, TwoOfOneHolder_ShareItsLease)
{
    tickets = {Wants(1, 30), Wants(2, 30), Wants(3, 10)};
    for (auto &ticket : tickets) {
        ticket.holder_id = 9;
        ticket.lease_left_bytes = 40;
    }
    Run(Pool(100));
    EXPECT_EQ(Of(1), MBR_VERDICT_GRANT);
    EXPECT_EQ(Of(2), MBR_VERDICT_WAIT);
    EXPECT_EQ(Of(3), MBR_VERDICT_GRANT);
}

TEST_F(Arbiter, DeadlineAndSetLimit_EndATicketBeforeAnythingElse)
{
    tickets = {Wants(1, 10), Wants(2, 1001), Wants(3, 10)};
    auto pool = Pool(100);
    tickets[0].deadline_ns = pool.now_ns;
    tickets[2].deadline_ns = pool.now_ns + 7;
    pool.free_bytes = 0;
    Run(pool);
    EXPECT_EQ(Of(1), MBR_VERDICT_TIME_OUT);
    EXPECT_EQ(Of(2), MBR_VERDICT_REFUSE);
    EXPECT_EQ(Of(3), MBR_VERDICT_WAIT);
}

// Every set of up to four tickets over small bytes, ages, priorities and leases: no grant that does
// not fit, none left waiting that could be granted out of what is left, and the answer does not
// depend on the order in which they are given.
TEST_F(Arbiter, EverySmallCase_IsSoundAndIndependentOfTheOrderGiven)
{
    uint64_t cases = 0;
    constexpr uint64_t kShapes = 3 * 2 * 2 * 2;
    for (int count = 1; count <= 4; count++) {
        uint64_t all = 1;
        for (int i = 0; i < count; i++)
            all *= kShapes;
        for (uint64_t code = 0; code < all; code++) {
            uint64_t rest = code;
            tickets.clear();
            for (int i = 0; i < count; i++) {
                uint64_t shape = rest % kShapes;
                rest /= kShapes;
                auto ticket = Wants((uint64_t)i + 1, 1 + shape % 3, shape / 3 % 2 == 0 ? 0 : 5);
                if (shape / 6 % 2 != 0)
                    ticket.since_ns = (uint64_t)i;
                ticket.lease_left_bytes = shape / 12 % 2 == 0 ? UINT64_MAX : 1;
                tickets.push_back(ticket);
            }
            auto pool = Pool(code % 7);
            pool.limit_bytes = 2 + code % 2;
            auto reversed = tickets;
            std::reverse(reversed.begin(), reversed.end());
            auto made = Run(pool);
            mbr_arbitrate(&pool, reversed.data(), (uint32_t)count);
            for (int i = 0; i < count; i++) {
                ASSERT_EQ(tickets[i].number, reversed[i].number) << code;
                ASSERT_EQ(tickets[i].verdict, reversed[i].verdict) << code;
                bool fits = tickets[i].bytes <= made.left_bytes &&
                    tickets[i].bytes <= tickets[i].lease_left_bytes;
                ASSERT_FALSE(fits && tickets[i].verdict == MBR_VERDICT_WAIT) << code;
                ASSERT_FALSE(tickets[i].bytes > tickets[i].lease_left_bytes &&
                    tickets[i].verdict == MBR_VERDICT_GRANT)
                    << code;
            }
            cases++;
        }
    }
    EXPECT_EQ(cases, 24u + 24 * 24 + 24 * 24 * 24 + 24 * 24 * 24 * 24);
}

// ---- The plan

mbr_offer Offer(uint32_t index, uint64_t order, uint64_t bytes)
{
    return {order, bytes, index};
}

TEST(PressurePlan, Suffices_InTheOrderOfTaking)
{
    mbr_offer offers[] = {Offer(0, 3, 100), Offer(1, 1, 5), Offer(2, 2, 10)};
    EXPECT_TRUE(mbr_plan_pressure(20, offers, 3));
    EXPECT_EQ(offers[0].index, 1u);
    EXPECT_EQ(offers[1].index, 2u);
    EXPECT_EQ(offers[2].index, 0u);
}

TEST(PressurePlan, TooLittle_IsNoPlan)
{
    mbr_offer offers[] = {Offer(0, 0, 9), Offer(1, 0, 10)};
    EXPECT_FALSE(mbr_plan_pressure(20, offers, 2));
    EXPECT_TRUE(mbr_plan_pressure(19, offers, 2));
    EXPECT_FALSE(mbr_plan_pressure(1, nullptr, 0));
}

} // namespace
