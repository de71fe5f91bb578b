// Tickets: their states, who gets what, and that nothing is lost on the way.
#include "tests/unit/governor/waiting.h"

#include "abi/base/state.h"
#include "governor/ticket_states.h"

#include <thread>

using namespace governor_test;

namespace
{

class Ticket : public testing::Test
{
  protected:
    void SetUp() override
    {
        authority = world.Authority(100);
        first = world.Holder(authority);
        second = world.Holder(authority);
    }

    void TearDown() override { End(authority, first, second); }

    World world;
    mbr_authority *authority;
    mbr_holder *first, *second;
};

TEST_F(Ticket, RoomIsThere_GrantedAtOnceAndClaimedOnce)
{
    mbr_ticket *ticket = Submit(Wish(first, 100));
    EXPECT_EQ(mbr_ticket_poll(ticket), (uint32_t)MBR_TICKET_GRANTED);
    EXPECT_EQ(Figures(first).granted_bytes, 100u);
    EXPECT_EQ(mbr_ticket_claim(ticket), MBR_OK);
    EXPECT_EQ(mbr_ticket_claim(ticket), MBR_STALE);
    EXPECT_FALSE(mbr_ticket_cancel(ticket));
    mbr_ticket_destroy(ticket);
    EXPECT_EQ(Figures(first).granted_bytes, 100u);
    mbr_grant_return(first, 100);
}

TEST_F(Ticket, NoRoom_WaitsOwnsNothingAndHasTheBytesAfterARefund)
{
    Take(first, 60);
    mbr_charge(first, 60);
    mbr_ticket *ticket = Submit(Wish(second, 50));
    EXPECT_EQ(mbr_ticket_claim(ticket), MBR_NOT_READY);
    EXPECT_EQ(Figures(authority).waiting_count, 1u);
    EXPECT_EQ(Figures(authority).waiting_bytes, 50u);
    EXPECT_EQ(Figures(authority).claimed_bytes, 60u);
    mbr_refund(first, 9);
    EXPECT_EQ(mbr_ticket_poll(ticket), (uint32_t)MBR_TICKET_WAITING);
    mbr_refund(first, 1);
    EXPECT_EQ(mbr_ticket_poll(ticket), (uint32_t)MBR_TICKET_GRANTED);
    EXPECT_EQ(Figures(second).granted_bytes, 50u);
    EXPECT_EQ(mbr_ticket_claim(ticket), MBR_OK);
    mbr_ticket_destroy(ticket);
    mbr_grant_return(second, 50);
    mbr_refund(first, 50);
}

TEST_F(Ticket, CancelledWhileItWaits_OwnsNothing)
{
    Take(first, 100);
    mbr_ticket *ticket = Submit(Wish(second, 1));
    EXPECT_TRUE(mbr_ticket_cancel(ticket));
    EXPECT_FALSE(mbr_ticket_cancel(ticket));
    EXPECT_EQ(mbr_ticket_claim(ticket), MBR_STALE);
    mbr_grant_return(first, 100);
    EXPECT_EQ(mbr_ticket_poll(ticket), (uint32_t)MBR_TICKET_CANCELLED);
    mbr_ticket_destroy(ticket);
}

TEST_F(Ticket, CancelledAfterTheGrant_GivesTheBytesBack)
{
    mbr_ticket *ticket = Submit(Wish(first, 100));
    EXPECT_TRUE(mbr_ticket_cancel(ticket));
    EXPECT_EQ(mbr_ticket_poll(ticket), (uint32_t)MBR_TICKET_RETURNED);
    EXPECT_EQ(mbr_ticket_claim(ticket), MBR_STALE);
    mbr_ticket_destroy(ticket);
}

TEST_F(Ticket, DestroyedUnclaimed_GivesTheBytesBack)
{
    mbr_ticket_destroy(Submit(Wish(first, 100)));
    mbr_ticket_destroy(nullptr);
}

TEST_F(Ticket, DeadlinePassed_TimesOutAlsoWhereBytesCameAtThatInstant)
{
    Take(first, 100);
    mbr_ticket_options wish = Wish(second, 10);
    wish.deadline_ns = world.clock.now_ns + 5;
    mbr_ticket *ticket = Submit(wish);
    world.clock.now_ns += 4;
    EXPECT_EQ(mbr_ticket_poll(ticket), (uint32_t)MBR_TICKET_WAITING);
    world.clock.now_ns += 1;
    mbr_grant_return(first, 100);
    EXPECT_EQ(mbr_ticket_claim(ticket), MBR_TIMED_OUT);
    EXPECT_EQ(Figures(authority).claimed_bytes, 0u);
    mbr_ticket_destroy(ticket);
}

TEST_F(Ticket, GrantedBeforeItsDeadline_StaysGrantedBehindIt)
{
    mbr_ticket_options wish = Wish(second, 10);
    wish.deadline_ns = world.clock.now_ns + 5;
    mbr_ticket *ticket = Submit(wish);
    world.clock.now_ns += 50;
    EXPECT_EQ(mbr_ticket_claim(ticket), MBR_OK);
    mbr_ticket_destroy(ticket);
    mbr_grant_return(second, 10);
}

TEST_F(Ticket, NewGeneration_EndsThoseThatWaitAndThoseThatAreGranted)
{
    mbr_ticket *granted = Submit(Wish(first, 100));
    mbr_ticket *waiting = Submit(Wish(second, 10));
    mbr_authority_retire_tickets(authority);
    EXPECT_EQ(mbr_ticket_claim(granted), MBR_STALE);
    EXPECT_EQ(mbr_ticket_poll(granted), (uint32_t)MBR_TICKET_RETURNED);
    EXPECT_EQ(mbr_ticket_claim(waiting), MBR_STALE);
    EXPECT_EQ(mbr_ticket_poll(waiting), (uint32_t)MBR_TICKET_STALE);
    mbr_ticket *later = Submit(Wish(second, 100));
    EXPECT_EQ(mbr_ticket_claim(later), MBR_OK);
    mbr_grant_return(second, 100);
    for (mbr_ticket *ticket : {granted, waiting, later})
        mbr_ticket_destroy(ticket);
}

TEST_F(Ticket, LimitSetBelowItsBytes_IsRefusedForGood)
{
    Take(first, 100);
    mbr_ticket *ticket = Submit(Wish(second, 60));
    uint64_t over;
    EXPECT_EQ(mbr_authority_set_limit(authority, 60, &over, nullptr), MBR_OK);
    EXPECT_EQ(mbr_ticket_claim(ticket), MBR_NOT_READY);
    EXPECT_EQ(mbr_authority_set_limit(authority, 59, &over, nullptr), MBR_OK);
    EXPECT_EQ(mbr_ticket_claim(ticket), MBR_OVER_BUDGET);
    EXPECT_EQ(mbr_ticket_poll(ticket), (uint32_t)MBR_TICKET_REFUSED);
    mbr_ticket_destroy(ticket);
    mbr_grant_return(first, 100);
}

TEST_F(Ticket, RaisedLimit_GrantsAtOnce)
{
    Take(first, 100);
    mbr_ticket *ticket = Submit(Wish(second, 60));
    uint64_t over;
    EXPECT_EQ(mbr_authority_set_limit(authority, 160, &over, nullptr), MBR_OK);
    EXPECT_EQ(mbr_ticket_claim(ticket), MBR_OK);
    mbr_ticket_destroy(ticket);
    mbr_grant_return(second, 60);
    mbr_grant_return(first, 100);
}

TEST_F(Ticket, LargerThanTheLimit_RefusedAtOnceWithFigures)
{
    mbr_ticket_options wish = Wish(first, 101);
    mbr_ticket *ticket = nullptr;
    mbr_refusal refusal = NewRefusal();
    EXPECT_EQ(mbr_ticket_submit(&wish, &ticket, &refusal, nullptr), MBR_OVER_BUDGET);
    EXPECT_EQ(ticket, nullptr);
    EXPECT_EQ(refusal.reason, (uint32_t)MBR_REFUSED_CAPACITY);
    EXPECT_EQ(refusal.asked_bytes, 101u);
    EXPECT_EQ(refusal.limit_bytes, 100u);
}

TEST_F(Ticket, BadOptions_RefusedWithTheValue)
{
    mbr_ticket *ticket = nullptr;
    mbr_error error = NewError();
    mbr_ticket_options nothing = Wish(first, 0);
    EXPECT_EQ(mbr_ticket_submit(&nothing, &ticket, nullptr, &error), MBR_INVALID_ARGUMENT);
    mbr_ticket_options high = Wish(first, 1, MBR_PRIORITY_COUNT);
    EXPECT_EQ(mbr_ticket_submit(&high, &ticket, nullptr, &error), MBR_INVALID_ARGUMENT);
    EXPECT_NE(std::string(error.text).find("priority 8"), std::string::npos) << error.text;
    world.heap.fail_at = world.heap.calls + 1;
    mbr_ticket_options good = Wish(first, 1);
    EXPECT_EQ(mbr_ticket_submit(&good, &ticket, nullptr, &error), MBR_OUT_OF_HOST_MEMORY);
    EXPECT_EQ(ticket, nullptr);
}

TEST_F(Ticket, QueueIsFull_BusyWithAdviceAndNothingChanged)
{
    Take(first, 50);
    mbr_charge(first, 50);
    mbr_refund(first, 25);
    world.clock.now_ns += kSecond;
    Take(first, 75);
    std::vector<mbr_ticket *> tickets;
    for (int i = 0; i < MBR_TICKET_LIMIT_COUNT; i++)
        tickets.push_back(Submit(Wish(second, 1)));
    mbr_ticket *one_more = nullptr;
    mbr_ticket_options wish = Wish(second, 1);
    mbr_refusal refusal = NewRefusal();
    EXPECT_EQ(mbr_ticket_submit(&wish, &one_more, &refusal, nullptr), MBR_BUSY);
    EXPECT_EQ(refusal.reason, (uint32_t)MBR_REFUSED_QUEUE);
    EXPECT_NE(refusal.retry_after_ns, MBR_UNKNOWN_BYTES);
    for (mbr_ticket *ticket : tickets)
        mbr_ticket_destroy(ticket);
    mbr_grant_return(first, 75);
    mbr_refund(first, 25);
}

TEST_F(Ticket, HolderWithATicket_IsInUse)
{
    mbr_ticket *ticket = Submit(Wish(first, 1));
    EXPECT_TRUE(mbr_ticket_cancel(ticket));
    mbr_error error = NewError();
    EXPECT_EQ(mbr_holder_destroy(first, &error), MBR_IN_USE);
    EXPECT_NE(std::string(error.text).find("1 tickets"), std::string::npos) << error.text;
    mbr_ticket_destroy(ticket);
}

TEST_F(Ticket, EndlessSmallOnesOfHighPriority_DoNotStarveALargeOne)
{
    Take(first, 100);
    mbr_charge(first, 100);
    mbr_ticket *large = Submit(Wish(second, 80));
    int rounds = 0;
    // Ten bytes come back and are wanted again at once, by one that goes before.
    for (; mbr_ticket_poll(large) == MBR_TICKET_WAITING && rounds < 1000; rounds++) {
        mbr_ticket *small = Submit(Wish(first, 10, MBR_PRIORITY_COUNT - 1));
        if (Figures(first).charged_bytes >= 10)
            mbr_refund(first, 10);
        if (mbr_ticket_claim(small) == MBR_OK)
            mbr_charge(first, 10);
        mbr_ticket_destroy(small);
        world.clock.now_ns += MBR_AGEING_NS / 10;
    }
    EXPECT_GT(rounds, 10);
    EXPECT_LT(rounds, 200);
    EXPECT_EQ(mbr_ticket_claim(large), MBR_OK);
    mbr_ticket_destroy(large);
    mbr_grant_return(second, 80);
    mbr_refund(first, Figures(first).charged_bytes);
}

TEST_F(Ticket, MaturedOne_HoldsBackWhatIsFreeAndACancelFreesIt)
{
    Take(first, 90);
    mbr_ticket *large = Submit(Wish(second, 50));
    Take(first, 1); // it may be overtaken while it is young
    world.clock.now_ns += MBR_PRIORITY_COUNT * (uint64_t)MBR_AGEING_NS;
    mbr_grant_return(first, 1);
    mbr_refusal refusal = NewRefusal();
    EXPECT_EQ(mbr_grant(first, 1, &refusal), MBR_OVER_BUDGET);
    EXPECT_EQ(refusal.reason, (uint32_t)MBR_REFUSED_LIMIT);
    EXPECT_EQ(Figures(authority).held_bytes, 10u);
    EXPECT_TRUE(mbr_ticket_cancel(large));
    EXPECT_EQ(Figures(authority).held_bytes, 0u);
    EXPECT_EQ(mbr_grant(first, 10, nullptr), MBR_OK);
    mbr_ticket_destroy(large);
    mbr_grant_return(first, 100);
}

TEST_F(Ticket, MaturedOneThatOnlyWithheldBytesCouldServe_HoldsNothingBack)
{
    Take(first, 60);
    mbr_charge(first, 60);
    mbr_retain(first, 60);
    mbr_ticket *ticket = Submit(Wish(second, 41));
    world.clock.now_ns += MBR_PRIORITY_COUNT * (uint64_t)MBR_AGEING_NS;
    mbr_authority_poll(authority);
    EXPECT_EQ(Figures(authority).held_bytes, 0u);
    Take(first, 40);
    mbr_grant_return(first, 40);
    mbr_retain_settle(first, 60);
    mbr_authority_poll(authority);
    EXPECT_EQ(Figures(authority).held_bytes, 40u);
    mbr_refund(first, 60);
    EXPECT_EQ(mbr_ticket_claim(ticket), MBR_OK);
    mbr_ticket_destroy(ticket);
    mbr_grant_return(second, 41);
}

TEST_F(Ticket, OfAHolderAtItsAllowance_WaitsForThatAndHoldsNothingBack)
{
    mbr_holder *bounded = world.Holder(authority, 20);
    Take(bounded, 20);
    mbr_ticket *ticket = Submit(Wish(bounded, 5));
    world.clock.now_ns += MBR_PRIORITY_COUNT * (uint64_t)MBR_AGEING_NS;
    Take(first, 80); // free, and not held back
    mbr_grant_return(bounded, 5);
    EXPECT_EQ(mbr_ticket_claim(ticket), MBR_OK);
    mbr_ticket_destroy(ticket);
    mbr_charge(bounded, 20);
    mbr_ticket *again = Submit(Wish(bounded, 5));
    mbr_transfer(bounded, first, 5); // frees its allowance, not the pool
    EXPECT_EQ(mbr_ticket_poll(again), (uint32_t)MBR_TICKET_WAITING);
    mbr_refund(first, 5);
    EXPECT_EQ(mbr_ticket_claim(again), MBR_OK);
    mbr_ticket_destroy(again);
    mbr_grant_return(bounded, 5);
    mbr_refund(bounded, 15);
    mbr_grant_return(first, 80);
    EXPECT_EQ(mbr_holder_destroy(bounded, nullptr), MBR_OK);
}

TEST_F(Ticket, CreditOfThreads_DoesNotHideFreeBytesFromOneThatWaits)
{
    mbr_authority *large = world.Authority(kGiB);
    mbr_holder *worker = world.Holder(large), *waiter = world.Holder(large);
    Take(worker, kGiB - 4 * kMiB);
    mbr_ticket *ticket = Submit(Wish(waiter, 8 * kMiB));
    std::thread([&] {
        for (uint64_t bytes = 0; bytes < 4 * kMiB; bytes += 4 * kKiB)
            mbr_grant_return(worker, 4 * kKiB); // each would fit into a thread's credit
    }).join();
    EXPECT_EQ(mbr_ticket_claim(ticket), MBR_OK);
    mbr_ticket_destroy(ticket);
    mbr_grant_return(waiter, 8 * kMiB);
    mbr_grant_return(worker, kGiB - 8 * kMiB);
    End(large, worker, waiter);
}

// ---- Being told

struct Told {
    int count = 0;
    uint32_t state = MBR_TICKET_WAITING;
    std::function<void(mbr_ticket *)> then;

    static void Settled(void *context, mbr_ticket *ticket)
    {
        auto *self = static_cast<Told *>(context);
        mbr_lock_assert_none_held();
        self->count++;
        self->state = mbr_ticket_poll(ticket);
        if (self->then)
            self->then(ticket);
    }
};

TEST_F(Ticket, Owner_IsToldOnceByADeliveryAndNeverInsideABooking)
{
    Told told;
    mbr_ticket_options wish = Wish(second, 10);
    wish.settled = Told::Settled;
    wish.context = &told;
    Take(first, 100);
    mbr_ticket *ticket = Submit(wish);
    EXPECT_EQ(told.count, 0);
    mbr_grant_return(first, 100);
    EXPECT_EQ(told.count, 0);
    mbr_authority_deliver(authority);
    EXPECT_EQ(told.count, 1);
    EXPECT_EQ(told.state, (uint32_t)MBR_TICKET_GRANTED);
    mbr_authority_deliver(authority);
    mbr_authority_poll(authority);
    EXPECT_EQ(told.count, 1);
    mbr_ticket_destroy(ticket);
}

TEST_F(Ticket, OwnerWhoIsTold_MayClaimDestroyAndSubmitTheNext)
{
    Told told;
    mbr_ticket_options wish = Wish(second, 10);
    wish.settled = Told::Settled;
    wish.context = &told;
    told.then = [&](mbr_ticket *ticket) {
        EXPECT_EQ(mbr_ticket_claim(ticket), MBR_OK);
        mbr_ticket_destroy(ticket);
        mbr_grant_return(second, 10);
        if (told.count < 5)
            Submit(wish); // granted at once; told by the loop that told this one
    };
    Submit(wish);
    EXPECT_EQ(told.count, 5);
}

TEST_F(Ticket, DestroyedBeforeItsOwnerIsTold_IsNotTold)
{
    Told told;
    mbr_ticket_options wish = Wish(second, 10);
    wish.settled = Told::Settled;
    wish.context = &told;
    Take(first, 100);
    mbr_ticket *ticket = Submit(wish);
    mbr_grant_return(first, 100);
    mbr_ticket_destroy(ticket);
    mbr_authority_deliver(authority);
    EXPECT_EQ(told.count, 0);
}

TEST_F(Ticket, PreparedButNotPressed_NobodyIsTold)
{
    Told told;
    mbr_ticket_options wish = Wish(second, 10);
    wish.settled = Told::Settled;
    wish.context = &told;
    mbr_ticket *prepared = nullptr;
    ASSERT_EQ(mbr_ticket_prepare(&wish, &prepared, nullptr, nullptr), MBR_OK);
    EXPECT_EQ(mbr_ticket_poll(prepared), (uint32_t)MBR_TICKET_GRANTED);
    std::thread([&] { mbr_authority_poll(authority); }).join();
    EXPECT_EQ(told.count, 0); // its submitter has more to do
    mbr_ticket *behind = Submit(wish);
    EXPECT_EQ(told.count, 1); // and stands in nobody's way
    mbr_ticket_press(prepared);
    EXPECT_EQ(told.count, 2);
    mbr_ticket_destroy(prepared);
    mbr_ticket_destroy(behind);
}

// ---- Blocking

TEST_F(Ticket, Wait_EndsWithTheReleaseOfAnotherThread)
{
    Take(first, 100);
    mbr_ticket *ticket = Submit(Wish(second, 100));
    std::thread other([&] { mbr_grant_return(first, 100); });
    EXPECT_EQ(mbr_ticket_wait(ticket), MBR_OK);
    other.join();
    mbr_ticket_destroy(ticket);
    mbr_grant_return(second, 100);
}

TEST_F(Ticket, Wait_TellsAlsoOfItsOwnTicket)
{
    Told told;
    mbr_ticket_options wish = Wish(second, 100);
    wish.settled = Told::Settled;
    wish.context = &told;
    Take(first, 100);
    mbr_ticket *ticket = Submit(wish);
    mbr_grant_return(first, 100);
    EXPECT_EQ(told.count, 0);
    EXPECT_EQ(mbr_ticket_wait(ticket), MBR_OK);
    EXPECT_EQ(told.count, 1);
    mbr_ticket_destroy(ticket);
    mbr_grant_return(second, 100);
}

TEST_F(Ticket, Wait_EndsWithItsDeadlineACancelOrANewGeneration)
{
    Take(first, 100);
    mbr_ticket_options wish = Wish(second, 100);
    wish.deadline_ns = world.clock.now_ns + 5;
    mbr_ticket *timed = Submit(wish);
    std::thread clock([&] { world.clock.now_ns += 5; });
    EXPECT_EQ(mbr_ticket_wait(timed), MBR_TIMED_OUT);
    clock.join();
    mbr_ticket *cancelled = Submit(Wish(second, 100));
    std::thread canceller([&] { EXPECT_TRUE(mbr_ticket_cancel(cancelled)); });
    EXPECT_EQ(mbr_ticket_wait(cancelled), MBR_STALE);
    canceller.join();
    mbr_ticket *retired = Submit(Wish(second, 100));
    std::thread retirer([&] { mbr_authority_retire_tickets(authority); });
    EXPECT_EQ(mbr_ticket_wait(retired), MBR_STALE);
    retirer.join();
    for (mbr_ticket *ticket : {timed, cancelled, retired})
        mbr_ticket_destroy(ticket);
    mbr_grant_return(first, 100);
}

TEST(Ticket_Threads, WaitersAndReleasers_AllAreServedAndNothingIsLeft)
{
    World world;
    mbr_authority *authority = world.Authority(1000);
    constexpr int kThreads = 6, kRounds = 400;
    std::vector<mbr_holder *> holders;
    for (int i = 0; i < kThreads; i++)
        holders.push_back(world.Holder(authority));
    std::vector<std::thread> threads;
    std::atomic<int> served{0};
    for (int i = 0; i < kThreads; i++)
        threads.emplace_back([&, i] {
            for (int round = 0; round < kRounds; round++) {
                uint64_t bytes = 100 + (uint64_t)(round * 7 + i * 13) % 500;
                mbr_ticket *ticket = Submit(Wish(holders[i], bytes, (uint32_t)i));
                if (mbr_ticket_wait(ticket) == MBR_OK) {
                    served++;
                    mbr_charge(holders[i], bytes);
                    mbr_refund(holders[i], bytes);
                }
                mbr_ticket_destroy(ticket);
            }
        });
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(served, kThreads * kRounds);
    End(authority, holders[0], holders[1], holders[2], holders[3], holders[4], holders[5]);
}

TEST(Ticket_Threads, ToldAndDestroyedByAnotherThread_WhileItIsSubmitted)
{
    World world;
    mbr_authority *authority = world.Authority(100);
    mbr_holder *holder = world.Holder(authority);
    std::atomic<int> told{0};
    std::atomic<bool> done{false};
    mbr_ticket_options wish = Wish(holder, 10);
    wish.context = &told;
    wish.settled = [](void *context, mbr_ticket *ticket) {
        (*static_cast<std::atomic<int> *>(context))++;
        mbr_ticket_destroy(ticket);
    };
    std::thread polls([&] {
        while (!done)
            mbr_authority_poll(authority);
    });
    constexpr int kRounds = 5000;
    for (int round = 0; round < kRounds; round++)
        Submit(wish);
    done = true;
    polls.join();
    mbr_authority_poll(authority);
    EXPECT_EQ(told, kRounds);
    End(authority, holder);
}

TEST(Ticket_Threads, CancelAgainstGrant_ExactlyOneOfClaimedAndReturned)
{
    World world;
    mbr_authority *authority = world.Authority(100);
    mbr_holder *giver = world.Holder(authority), *waiter = world.Holder(authority);
    int claimed = 0, ended = 0;
    constexpr int kRounds = 2000;
    for (int round = 0; round < kRounds; round++) {
        Take(giver, 100);
        mbr_ticket *ticket = Submit(Wish(waiter, 100));
        std::atomic<int> ready{0};
        auto together = [&ready] {
            ready++;
            while (ready < 2)
                std::this_thread::yield();
        };
        bool cancelled = false;
        std::thread canceller([&] {
            together();
            cancelled = mbr_ticket_cancel(ticket);
        });
        together();
        mbr_grant_return(giver, 100);
        bool has = mbr_ticket_claim(ticket) == MBR_OK;
        canceller.join();
        EXPECT_NE(has, cancelled);
        claimed += has;
        ended += cancelled;
        if (has)
            mbr_grant_return(waiter, 100);
        mbr_ticket_destroy(ticket);
    }
    EXPECT_EQ(claimed + ended, kRounds);
    End(authority, giver, waiter);
}

TEST(Ticket_States, Table_HasTwoStatesWithSuccessorsAndSixEnds)
{
    int ends = 0;
    for (uint32_t state = 0; state < mbr_ticket_states.count; state++)
        ends += mbr_ticket_states.successors[state] == 0;
    EXPECT_EQ(ends, 6);
    EXPECT_TRUE(mbr_state_allows(&mbr_ticket_states, MBR_TICKET_WAITING, MBR_TICKET_GRANTED));
    EXPECT_FALSE(mbr_state_allows(&mbr_ticket_states, MBR_TICKET_WAITING, MBR_TICKET_CLAIMED));
    EXPECT_FALSE(mbr_state_allows(&mbr_ticket_states, MBR_TICKET_GRANTED, MBR_TICKET_TIMED_OUT));
}

} // namespace
