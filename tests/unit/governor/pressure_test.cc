// Pressure: who is asked, in which order, for how much, and that nothing is taken in vain.
#include "tests/unit/governor/waiting.h"

#include <thread>

using namespace governor_test;

namespace
{

class Pressure : public testing::Test
{
  protected:
    void SetUp() override
    {
        authority = world.Authority(1000);
        waiter = world.Holder(authority);
    }

    void Make(Giver &giver, uint32_t role, uint64_t charged, uint64_t offers)
    {
        MakeGiver(world, giver, authority, role);
        giver.order = &order;
        giver.Charge(charged);
        giver.offers = offers;
    }

    // Claims, gives back, ends all.
    void Finish(mbr_ticket *ticket, std::vector<Giver *> givers)
    {
        if (mbr_ticket_claim(ticket) == MBR_OK)
            mbr_grant_return(waiter, 100);
        mbr_ticket_destroy(ticket);
        for (Giver *giver : givers) {
            giver->Refund(giver->charged);
            EXPECT_EQ(mbr_holder_destroy(giver->holder, nullptr), MBR_OK);
        }
        End(authority, waiter);
    }

    World world;
    mbr_authority *authority;
    mbr_holder *waiter;
    std::vector<Giver *> order;
};

TEST_F(Pressure, CacheFirst_ThenByRoleUntilItSuffices)
{
    Giver kv, weights, cache, prefix;
    Make(kv, MBR_ROLE_KV, 400, 400);
    Make(weights, MBR_ROLE_WEIGHTS, 400, 400);
    Make(cache, MBR_ROLE_CACHE, 40, 40);
    Make(prefix, MBR_ROLE_PREFIX, 160, 30);
    mbr_ticket *ticket = Submit(Wish(waiter, 100));
    EXPECT_EQ(mbr_ticket_poll(ticket), (uint32_t)MBR_TICKET_GRANTED);
    EXPECT_EQ(order, (std::vector<Giver *>{&cache, &prefix, &weights}));
    EXPECT_EQ(cache.charged, 0u);
    EXPECT_EQ(prefix.charged, 130u);
    EXPECT_EQ(weights.charged, 370u);
    EXPECT_EQ(kv.gave, 0);
    EXPECT_EQ(kv.asked, 1); // all are asked before any gives
    EXPECT_EQ(kv.last.bytes, 100u);
    EXPECT_EQ(kv.last.holder_id, mbr_holder_id(waiter));
    EXPECT_EQ(kv.last.role, (uint32_t)MBR_ROLE_KV);
    Finish(ticket, {&kv, &weights, &cache, &prefix});
}

TEST_F(Pressure, OnlyWhatIsMissing_IsAskedFor)
{
    Giver cache;
    Make(cache, MBR_ROLE_CACHE, 930, 930);
    mbr_ticket *ticket = Submit(Wish(waiter, 100));
    EXPECT_EQ(cache.last.bytes, 30u);
    EXPECT_EQ(cache.charged, 900u);
    Finish(ticket, {&cache});
}

TEST_F(Pressure, TogetherTooLittle_NobodyGivesAndTheTicketWaits)
{
    Giver cache, pinned;
    Make(cache, MBR_ROLE_CACHE, 500, 99);
    Make(pinned, MBR_ROLE_KV, 500, 0);
    mbr_ticket *ticket = Submit(Wish(waiter, 100));
    EXPECT_EQ(mbr_ticket_poll(ticket), (uint32_t)MBR_TICKET_WAITING);
    EXPECT_EQ(cache.gave, 0);
    EXPECT_EQ(cache.charged, 500u);
    EXPECT_EQ(Figures(authority).held_bytes, 0u);
    Finish(ticket, {&cache, &pinned});
}

TEST_F(Pressure, OfOneAtItsAllowance_ItIsAskedAlone)
{
    Giver cache, bounded;
    Make(cache, MBR_ROLE_CACHE, 500, 500);
    MakeGiver(world, bounded, authority, MBR_ROLE_KV, 200);
    bounded.Charge(180);
    bounded.offers = 70;
    mbr_ticket *ticket = Submit(Wish(bounded.holder, 100));
    EXPECT_EQ(mbr_ticket_poll(ticket), (uint32_t)MBR_TICKET_WAITING);
    EXPECT_EQ(cache.asked, 0); // what it gave would be no use
    EXPECT_EQ(bounded.last.bytes, 80u);
    EXPECT_EQ(bounded.gave, 0);
    bounded.offers = 80;
    world.clock.now_ns += MBR_PRESS_INTERVAL_NS;
    mbr_authority_poll(authority);
    EXPECT_EQ(mbr_ticket_claim(ticket), MBR_OK);
    mbr_ticket_destroy(ticket);
    EXPECT_EQ(bounded.charged, 100u);
    EXPECT_EQ(cache.charged, 500u);
    mbr_grant_return(bounded.holder, 100);
    Finish(Submit(Wish(waiter, 100)), {&cache, &bounded});
}

TEST_F(Pressure, LargerThanTheLimitInForce_NobodyIsAskedInVain)
{
    FakeProbe probe;
    probe.free_bytes = 300;
    mbr_probe seam = probe.Seam();
    mbr_authority *measured = world.Authority(1000, &seam);
    mbr_holder *wants = world.Holder(measured);
    Giver cache;
    MakeGiver(world, cache, measured, MBR_ROLE_CACHE);
    cache.Charge(250);
    cache.offers = 250;
    mbr_ticket *ticket = Submit(Wish(wants, 400));
    EXPECT_EQ(mbr_ticket_poll(ticket), (uint32_t)MBR_TICKET_WAITING);
    EXPECT_EQ(cache.asked, 0);
    EXPECT_EQ(cache.charged, 250u);
    mbr_ticket_destroy(ticket);
    cache.Refund(250);
    End(measured, wants, cache.holder);
    End(authority, waiter);
}

TEST_F(Pressure, AboveALoweredLimit_TheOverageIsMissingToo)
{
    Giver cache;
    Make(cache, MBR_ROLE_CACHE, 1000, 299);
    uint64_t over;
    EXPECT_EQ(mbr_authority_set_limit(authority, 800, &over, nullptr), MBR_OK);
    mbr_ticket *ticket = Submit(Wish(waiter, 100));
    EXPECT_EQ(cache.last.bytes, 300u);
    EXPECT_EQ(cache.charged, 1000u); // one byte too little: nothing is taken in vain
    cache.offers = 300;
    world.clock.now_ns += MBR_PRESS_INTERVAL_NS;
    mbr_authority_poll(authority);
    EXPECT_EQ(mbr_ticket_poll(ticket), (uint32_t)MBR_TICKET_GRANTED);
    EXPECT_EQ(cache.charged, 700u);
    Finish(ticket, {&cache});
}

TEST_F(Pressure, AHolderThatGivesLessThanItSaid_CountsAndThoseBehindItGiveTheRest)
{
    Giver first, second;
    Make(first, MBR_ROLE_PREFIX, 500, 100);
    Make(second, MBR_ROLE_WEIGHTS, 500, 500);
    first.keeps = 70;
    mbr_ticket *ticket = Submit(Wish(waiter, 100));
    EXPECT_EQ(mbr_ticket_poll(ticket), (uint32_t)MBR_TICKET_GRANTED);
    EXPECT_EQ(first.charged, 470u);
    EXPECT_EQ(first.charged + second.charged, 900u);
    Finish(ticket, {&first, &second});
}

TEST_F(Pressure, AHolderThatGivesNothingOfWhatItSaid_DoesNotMakeAGrant)
{
    Giver liar;
    Make(liar, MBR_ROLE_CACHE, 1000, 1000);
    liar.keeps = 1000;
    mbr_ticket *ticket = Submit(Wish(waiter, 100));
    EXPECT_EQ(mbr_ticket_poll(ticket), (uint32_t)MBR_TICKET_WAITING);
    EXPECT_EQ(liar.gave, 1);
    Finish(ticket, {&liar});
}

TEST_F(Pressure, CallbackThatReenters_NeitherDeadlocksNorAsksInTurn)
{
    Giver cache;
    Make(cache, MBR_ROLE_CACHE, 1000, 1000);
    mbr_ticket *inner = nullptr;
    cache.inside = [&] {
        if (inner == nullptr && cache.gave == 1)
            inner = Submit(Wish(cache.holder, 10));
        EXPECT_EQ(mbr_holder_destroy(waiter, nullptr), MBR_BUSY);
        mbr_authority_poll(authority);
        Figures(authority);
    };
    mbr_ticket *ticket = Submit(Wish(waiter, 100));
    EXPECT_EQ(mbr_ticket_poll(ticket), (uint32_t)MBR_TICKET_GRANTED);
    ASSERT_NE(inner, nullptr);
    cache.inside = nullptr;
    mbr_ticket_destroy(inner);
    Finish(ticket, {&cache});
}

TEST_F(Pressure, WhileOthersGive_NobodyTakesWhatTheyGave)
{
    Giver first, second;
    Make(first, MBR_ROLE_CACHE, 60, 60);
    Make(second, MBR_ROLE_WEIGHTS, 940, 40);
    mbr_status stolen = MBR_OK;
    second.inside = [&] {
        if (first.gave == 1)
            stolen = mbr_grant(second.holder, 1, nullptr);
    };
    mbr_ticket *ticket = Submit(Wish(waiter, 100));
    EXPECT_EQ(stolen, MBR_OVER_BUDGET);
    EXPECT_EQ(mbr_ticket_poll(ticket), (uint32_t)MBR_TICKET_GRANTED);
    second.inside = nullptr;
    Finish(ticket, {&first, &second});
}

TEST_F(Pressure, OneWhoWaits_AsksAgainAtAPollButNotBeforeTheInterval)
{
    Giver prefix;
    Make(prefix, MBR_ROLE_PREFIX, 1000, 0);
    mbr_ticket *ticket = Submit(Wish(waiter, 100));
    prefix.offers = 100; // became cold
    mbr_authority_poll(authority);
    EXPECT_EQ(prefix.asked, 1);
    world.clock.now_ns += MBR_PRESS_INTERVAL_NS;
    mbr_authority_poll(authority);
    EXPECT_EQ(prefix.asked, 2);
    EXPECT_EQ(mbr_ticket_poll(ticket), (uint32_t)MBR_TICKET_GRANTED);
    Finish(ticket, {&prefix});
}

TEST_F(Pressure, QuietTicket_AsksNobody)
{
    Giver cache;
    Make(cache, MBR_ROLE_CACHE, 1000, 1000);
    mbr_ticket_options wish = Wish(waiter, 100);
    wish.quiet = true;
    mbr_ticket *ticket = Submit(wish);
    world.clock.now_ns += MBR_PRESS_INTERVAL_NS;
    mbr_authority_poll(authority);
    EXPECT_EQ(cache.asked, 0);
    Finish(ticket, {&cache});
}

TEST_F(Pressure, DestroyOfAHolderThatIsAsked_WaitsForTheCallback)
{
    Giver cache;
    Make(cache, MBR_ROLE_CACHE, 100, 0);
    cache.Refund(100);
    Take(waiter, 1000);
    mbr_charge(waiter, 1000);
    std::atomic<bool> destroying{false}, inside{false}, done{false};
    cache.inside = [&] {
        inside = true;
        while (!destroying)
            std::this_thread::yield();
        EXPECT_FALSE(done);
    };
    mbr_ticket *ticket = nullptr;
    std::thread asks([&] { ticket = Submit(Wish(waiter, 100)); });
    while (!inside)
        std::this_thread::yield();
    std::thread destroys([&] {
        destroying = true;
        EXPECT_EQ(mbr_holder_destroy(cache.holder, nullptr), MBR_OK);
        done = true;
    });
    asks.join();
    destroys.join();
    EXPECT_EQ(cache.asked, 1);
    mbr_ticket_destroy(ticket);
    mbr_refund(waiter, 1000);
    End(authority, waiter);
}

// ---- Lending

TEST_F(Pressure, Borrower_LeasesPastItsShareAndIsShownTo)
{
    Giver lender, borrower;
    MakeGiver(world, lender, authority, MBR_ROLE_KV, 400, true);
    MakeGiver(world, borrower, authority, MBR_ROLE_KV, 400, true);
    borrower.Charge(700);
    EXPECT_EQ(Figures(borrower.holder).borrowed_bytes, 300u);
    EXPECT_EQ(Figures(authority).lent_bytes, 300u); // of the 400 that the lender leaves
    EXPECT_EQ(Figures(authority).unassigned_bytes, 200u);
    borrower.Charge(300);
    EXPECT_EQ(Figures(authority).lent_bytes, 400u); // and then of the 200 of nobody
    EXPECT_EQ(Figures(borrower.holder).borrowed_bytes, 600u);
    mbr_ticket *ticket = Submit(Wish(waiter, 100));
    EXPECT_EQ(mbr_ticket_poll(ticket), (uint32_t)MBR_TICKET_WAITING);
    Finish(ticket, {&lender, &borrower});
}

TEST_F(Pressure, LenderWhoWantsItsShareBack_HasItFromTheBorrowerDownToItsOwn)
{
    Giver lender, borrower, weights;
    MakeGiver(world, lender, authority, MBR_ROLE_KV, 500, true);
    MakeGiver(world, borrower, authority, MBR_ROLE_KV, 300, true);
    Make(weights, MBR_ROLE_WEIGHTS, 200, 200);
    borrower.order = &order;
    borrower.Charge(800);
    borrower.offers = 800;
    mbr_ticket *ticket = Submit(Wish(lender.holder, 500));
    EXPECT_EQ(mbr_ticket_claim(ticket), MBR_OK);
    EXPECT_EQ(borrower.charged, 300u);
    EXPECT_EQ(weights.gave, 0); // what was lent comes back before a share is touched
    mbr_ticket_destroy(ticket);
    ticket = Submit(Wish(lender.holder, 1)); // beyond: of the weights, which have no share
    EXPECT_EQ(mbr_ticket_claim(ticket), MBR_OK);
    EXPECT_EQ(borrower.charged, 300u);
    EXPECT_EQ(weights.charged, 199u);
    mbr_ticket_destroy(ticket);
    mbr_grant_return(lender.holder, 501);
    Finish(Submit(Wish(waiter, 100)), {&lender, &borrower, &weights});
}

} // namespace
