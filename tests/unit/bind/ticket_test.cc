// Waiting for bytes through the client interface, over the real host plugin: what a ticket brings
// is what a growth takes, caches give way first, and the end of a handle leaves nothing.
#include "tests/unit/bind/host_world.h"

#include <atomic>
#include <cstring>
#include <functional>
#include <thread>

namespace membrane
{
namespace
{

struct Asked {
    std::function<uint64_t()> could;
    std::function<void(uint64_t)> give;
    int count = 0;

    static uint64_t Ask(void *context, const mbr_pressure *)
    {
        auto *self = static_cast<Asked *>(context);
        self->count++;
        return self->could ? self->could() : 0;
    }

    static void Give(void *context, const mbr_pressure *, uint64_t bytes)
    {
        static_cast<Asked *>(context)->give(bytes);
    }
};

class Tickets : public ::testing::Test
{
  protected:
    mbr_holder_handle Holder(const char *name, Asked *asked = nullptr,
        uint64_t allowance_bytes = MBR_NO_ALLOWANCE, uint32_t flags = 0)
    {
        auto request = world.holder_request(MBR_ROLE_KV, name);
        request.allowance_bytes = allowance_bytes;
        request.flags = flags;
        if (asked != nullptr)
            request.pressed = {Asked::Ask, Asked::Give, asked};
        mbr_holder_handle holder = {0};
        EXPECT_EQ(MBR_OK, mbr_manager_create_holder(world.manager, &request, &holder, &world.error))
            << world.error.text;
        return holder;
    }

    mbr_ticket_request Wish(mbr_holder_handle holder, uint64_t bytes)
    {
        auto request = sized<mbr_ticket_request>();
        request.holder = holder;
        request.bytes = bytes;
        request.timeout_ns = MBR_NO_DEADLINE;
        return request;
    }

    mbr_ticket_handle Submit(const mbr_ticket_request &request)
    {
        mbr_ticket_handle ticket = {0};
        EXPECT_EQ(MBR_OK,
            mbr_manager_submit_ticket(world.manager, &request, &ticket, nullptr, &world.error))
            << world.error.text;
        return ticket;
    }

    uint32_t State(mbr_ticket_handle ticket)
    {
        uint32_t state = MBR_TICKET_STATE_COUNT;
        EXPECT_EQ(MBR_OK, mbr_manager_read_ticket(world.manager, ticket, &state, &world.error));
        return state;
    }

    mbr_status Claim(mbr_ticket_handle ticket)
    {
        return mbr_manager_claim_ticket(world.manager, ticket, &world.error);
    }

    void EndTicket(mbr_ticket_handle ticket)
    {
        EXPECT_EQ(MBR_OK, mbr_manager_end_ticket(world.manager, ticket, &world.error))
            << world.error.text;
    }

    void EndHolder(mbr_holder_handle holder)
    {
        EXPECT_EQ(MBR_OK, mbr_manager_destroy_holder(world.manager, holder, &world.error))
            << world.error.text;
    }

    mbr_holder_figures Figures(mbr_holder_handle holder) { return world.paid(holder); }

    HostWorld world{32 * kMiB};
};

TEST_F(Tickets, GrowthThatWasRefused_WaitsAndTakesWhatTheTicketBrought)
{
    auto first = world.reserve(32 * kMiB, 2 * kMiB);
    ASSERT_EQ(MBR_OK, world.grow(first.range, 0, 32 * kMiB));
    auto second = world.reserve(32 * kMiB, 2 * kMiB);
    ASSERT_EQ(MBR_OVER_BUDGET, world.grow(second.range, 0, 8 * kMiB));
    auto ticket = Submit(Wish(world.holder, 8 * kMiB));
    EXPECT_EQ((uint32_t)MBR_TICKET_WAITING, State(ticket));
    EXPECT_EQ(MBR_NOT_READY, Claim(ticket));
    EXPECT_NE(nullptr, std::strstr(world.error.text, "waiting")) << world.error.text;
    ASSERT_EQ(MBR_OK, world.release(first.range)); // parked: the cache has it
    mbr_manager_poll(world.manager);
    auto other = Holder("other");
    EXPECT_EQ(MBR_OK, mbr_manager_wait_ticket(world.manager, ticket, &world.error)); // asks it
    EXPECT_EQ(8 * kMiB, Figures(world.holder).granted_bytes);
    ASSERT_EQ(MBR_OK, world.grow(second.range, 0, 8 * kMiB));
    EXPECT_EQ(0u, Figures(world.holder).granted_bytes);
    EXPECT_EQ(8 * kMiB, Figures(world.holder).charged_bytes);
    EndTicket(ticket);
    EXPECT_EQ(MBR_STALE, mbr_manager_end_ticket(world.manager, ticket, &world.error));
    EXPECT_TRUE(world.clean());
    ASSERT_EQ(MBR_OK, world.release(second.range));
    EndHolder(other);
}

TEST_F(Tickets, GrowthThatFails_LeavesWhatTheTicketBroughtForTheNext)
{
    auto ticket = Submit(Wish(world.holder, 8 * kMiB));
    ASSERT_EQ(MBR_OK, Claim(ticket));
    EndTicket(ticket);
    auto grown = world.reserve(32 * kMiB, 2 * kMiB);
    mbr_piece piece = {grown.range, 0, 12 * kMiB};
    auto request = sized<mbr_range_grow_request>();
    request.holder = world.holder;
    request.pieces = &piece;
    request.piece_count = 1;
    request.publish = [](void *) -> mbr_status { return MBR_NOT_READY; };
    auto result = sized<mbr_range_grow_result>();
    EXPECT_EQ(MBR_NOT_READY, mbr_range_grow(world.manager, &request, &result, &world.error));
    EXPECT_EQ(8 * kMiB, Figures(world.holder).granted_bytes);
    EXPECT_EQ(0u, Figures(world.holder).charged_bytes);
    ASSERT_EQ(MBR_OK, world.grow(grown.range, 0, 8 * kMiB));
    EXPECT_EQ(0u, Figures(world.holder).granted_bytes);
    ASSERT_EQ(MBR_OK, world.release(grown.range));
    EXPECT_TRUE(world.clean());
}

TEST_F(Tickets, OfAHolderAtItsAllowance_ServesAGrowthThatAdoptsParkedExtentsToo)
{
    auto holder = Holder("bounded", nullptr, 8 * kMiB);
    auto parked = world.reserve(8 * kMiB, 2 * kMiB);
    ASSERT_EQ(MBR_OK, world.grow(parked.range, 0, 8 * kMiB));
    ASSERT_EQ(MBR_OK, world.release(parked.range));
    auto ticket = Submit(Wish(holder, 8 * kMiB));
    ASSERT_EQ(MBR_OK, Claim(ticket));
    EndTicket(ticket);
    std::swap(holder, world.holder); // who pays for what the world grows
    auto range = world.reserve(8 * kMiB, 2 * kMiB);
    EXPECT_EQ(MBR_OK, world.grow(range.range, 0, 8 * kMiB)) << world.error.text;
    EXPECT_EQ(8 * kMiB, Figures(world.holder).charged_bytes);
    EXPECT_EQ(0u, Figures(world.holder).granted_bytes);
    ASSERT_EQ(MBR_OK, world.release(range.range));
    std::swap(holder, world.holder);
    EndHolder(holder);
    EXPECT_TRUE(world.clean());
}

TEST_F(Tickets, GrowthBeyondItsTicket_HasTheCacheGiveTheRestAlone)
{
    auto parked = world.reserve(32 * kMiB, 2 * kMiB);
    ASSERT_EQ(MBR_OK, world.grow(parked.range, 0, 16 * kMiB));
    ASSERT_EQ(MBR_OK, world.release(parked.range)); // the cache has them, in extents of 2 MiB
    auto range = world.reserve(32 * kMiB, 8 * kMiB);
    ASSERT_EQ(MBR_OK, world.grow(range.range, 0, 8 * kMiB));
    auto ticket = Submit(Wish(world.holder, 8 * kMiB)); // all that was free
    ASSERT_EQ(MBR_OK, Claim(ticket));
    EndTicket(ticket);
    EXPECT_EQ(MBR_OK, world.grow(range.range, 8 * kMiB, 24 * kMiB)) << world.error.text;
    EXPECT_EQ(32 * kMiB, Figures(world.holder).charged_bytes);
    EXPECT_EQ(0u, Figures(world.holder).granted_bytes);
    ASSERT_EQ(MBR_OK, world.release(range.range));
    EXPECT_TRUE(world.clean());
}

TEST_F(Tickets, WhatNoGrowthTook_GoesBackOnDemandOrWithTheHolder)
{
    auto holder = Holder("brief");
    auto ticket = Submit(Wish(holder, 8 * kMiB));
    ASSERT_EQ(MBR_OK, Claim(ticket));
    EndTicket(ticket);
    EXPECT_EQ(8 * kMiB, Figures(holder).granted_bytes);
    uint64_t returned = 0;
    EXPECT_EQ(MBR_OK, mbr_manager_return_aside(world.manager, holder, &returned, &world.error));
    EXPECT_EQ(8 * kMiB, returned);
    EXPECT_EQ(0u, Figures(holder).granted_bytes);
    ticket = Submit(Wish(holder, 8 * kMiB));
    ASSERT_EQ(MBR_OK, Claim(ticket));
    EXPECT_EQ(MBR_IN_USE, mbr_manager_destroy_holder(world.manager, holder, &world.error));
    EndTicket(ticket);
    EndHolder(holder);
    EXPECT_EQ(0u, world.books().granted_bytes);
    EXPECT_EQ(MBR_STALE, mbr_manager_return_aside(world.manager, holder, nullptr, &world.error));
}

TEST_F(Tickets, CachesOfTheAuthority_GiveBeforeAnybodyElseIsPressed)
{
    auto parked = world.reserve(32 * kMiB, 2 * kMiB);
    ASSERT_EQ(MBR_OK, world.grow(parked.range, 0, 16 * kMiB));
    auto range = world.reserve(32 * kMiB, 2 * kMiB);
    ASSERT_EQ(MBR_OK, world.grow(range.range, 0, 16 * kMiB));
    ASSERT_EQ(MBR_OK, world.release(parked.range));
    Asked cold;
    cold.could = [] { return 8 * kMiB; };
    cold.give = [&](uint64_t) { ADD_FAILURE() << "the cache had enough"; };
    auto holder = Holder("cold", &cold);
    auto ticket = Submit(Wish(holder, 16 * kMiB));
    EXPECT_EQ(MBR_OK, Claim(ticket));
    EXPECT_EQ(1, cold.count);
    EndTicket(ticket);
    EndHolder(holder);
    ASSERT_EQ(MBR_OK, world.release(range.range));
}

TEST_F(Tickets, IdleSlabs_AreGivenWhenTheCacheIsAsked)
{
    std::vector<mbr_allocation_handle> blocks;
    for (int i = 0; i < 8; i++)
        blocks.push_back(world.alloc(2 * kMiB).allocation);
    for (auto block : blocks)
        ASSERT_EQ(MBR_OK, world.free_now(block));
    ASSERT_GE(world.figures().owned_bytes, 16 * kMiB);
    auto ticket = Submit(Wish(world.holder, 32 * kMiB));
    EXPECT_EQ(MBR_OK, Claim(ticket)) << world.error.text;
    EndTicket(ticket);
    EXPECT_EQ(0u, world.figures().owned_bytes);
    EXPECT_EQ(MBR_OK, mbr_manager_return_aside(world.manager, world.holder, nullptr, &world.error));
}

TEST_F(Tickets, HolderThatIsAsked_ReleasesInsideItsCallbackButMakesAndEndsNothing)
{
    auto range = world.reserve(32 * kMiB, 2 * kMiB);
    ASSERT_EQ(MBR_OK, world.grow(range.range, 0, 32 * kMiB));
    Asked asked;
    mbr_holder_handle holder = {0};
    asked.could = [] { return 32 * kMiB; };
    asked.give = [&](uint64_t) {
        EXPECT_EQ(MBR_BUSY, mbr_manager_destroy_holder(world.manager, holder, &world.error));
        EXPECT_EQ(MBR_BUSY, mbr_manager_unbind(world.manager, world.binding, &world.error));
        auto request = world.bind_request();
        mbr_binding_handle binding;
        EXPECT_EQ(MBR_BUSY, mbr_manager_bind(world.manager, &request, &binding, &world.error));
        EXPECT_EQ(MBR_OK, world.release(range.range));
        mbr_manager_poll(world.manager);
    };
    holder = Holder("asked", &asked);
    auto waiter = Holder("waiter");
    auto ticket = Submit(Wish(waiter, 4 * kMiB));
    // Its release went to the cache's payer, which was asked in the next round.
    EXPECT_EQ(
        (uint32_t)MBR_TICKET_WAITING, State(ticket)); // the books saw no byte of `asked` itself
    EXPECT_EQ(MBR_OK, mbr_manager_wait_ticket(world.manager, ticket, &world.error));
    EndTicket(ticket);
    EndHolder(waiter);
    EndHolder(holder);
}

TEST_F(Tickets, Owner_IsToldAtAPollAndMayClaimAndEnd)
{
    auto range = world.reserve(32 * kMiB, 2 * kMiB);
    ASSERT_EQ(MBR_OK, world.grow(range.range, 0, 32 * kMiB));
    struct Told {
        HostWorld *world;
        int count;
        mbr_status claimed, ended;
    } told = {&world, 0, MBR_INTERNAL, MBR_INTERNAL};
    auto request = Wish(world.holder, 32 * kMiB);
    request.flags = MBR_TICKET_QUIET;
    request.context = &told;
    request.settled = [](void *context, mbr_ticket_handle ticket) {
        auto *self = static_cast<Told *>(context);
        self->count++;
        self->claimed = mbr_manager_claim_ticket(self->world->manager, ticket, nullptr);
        self->ended = mbr_manager_end_ticket(self->world->manager, ticket, nullptr);
    };
    Submit(request);
    ASSERT_EQ(MBR_OK, world.release(range.range));
    mbr_manager_poll(world.manager);
    EXPECT_EQ(0, told.count); // parked: the cache pays, and a quiet ticket asks nobody
    uint64_t released;
    EXPECT_EQ(MBR_OK, mbr_manager_trim(world.manager, world.mechanism, 0, &released, &world.error));
    mbr_manager_poll(world.manager);
    EXPECT_EQ(1, told.count);
    EXPECT_EQ(MBR_OK, told.claimed);
    EXPECT_EQ(MBR_OK, told.ended);
    EXPECT_EQ(MBR_OK, mbr_manager_return_aside(world.manager, world.holder, nullptr, &world.error));
}

TEST_F(Tickets, EndOfTheHandle_EndsAWaitInAnotherThread)
{
    auto range = world.reserve(32 * kMiB, 2 * kMiB);
    ASSERT_EQ(MBR_OK, world.grow(range.range, 0, 32 * kMiB));
    auto ticket = Submit(Wish(world.holder, 8 * kMiB));
    std::thread waits([&] {
        mbr_status status = mbr_manager_wait_ticket(world.manager, ticket, nullptr);
        EXPECT_TRUE(status == MBR_STALE) << status;
    });
    EndTicket(ticket);
    waits.join();
    ASSERT_EQ(MBR_OK, world.release(range.range));
}

TEST_F(Tickets, EndInsideTheWaitThatTellsOfIt_EndsBoth)
{
    auto range = world.reserve(32 * kMiB, 2 * kMiB);
    ASSERT_EQ(MBR_OK, world.grow(range.range, 0, 32 * kMiB));
    auto request = Wish(world.holder, 8 * kMiB);
    request.timeout_ns = 1;
    request.context = world.manager;
    request.settled = [](void *context, mbr_ticket_handle ticket) {
        EXPECT_EQ(
            MBR_OK, mbr_manager_end_ticket(static_cast<mbr_manager *>(context), ticket, nullptr));
    };
    mbr_ticket_handle ticket = {0};
    mbr_manager_submit_ticket(world.manager, &request, &ticket, nullptr, &world.error);
    mbr_status status = mbr_manager_wait_ticket(world.manager, ticket, &world.error);
    EXPECT_TRUE(status == MBR_TIMED_OUT || status == MBR_STALE) << world.error.text;
    EXPECT_EQ(MBR_STALE, mbr_manager_end_ticket(world.manager, ticket, &world.error));
    ASSERT_EQ(MBR_OK, world.release(range.range));
}

// Its end would wait for the call that tells of the ticket, which is this thread's.
TEST_F(Tickets, HolderAndAuthorityInsideTheTellingOfALastTicket_AreInUse)
{
    auto pool = sized<mbr_authority_request>();
    pool.name = "brief";
    pool.tier = MBR_TIER_HOST;
    pool.limit_bytes = kMiB;
    auto payer = sized<mbr_holder_request>();
    payer.name = "brief";
    payer.allowance_bytes = MBR_NO_ALLOWANCE;
    struct Told {
        mbr_manager *manager;
        mbr_authority_handle authority;
        mbr_holder_handle holder;
        mbr_status of_holder, of_authority;
    } told = {world.manager, {0}, {0}, MBR_OK, MBR_OK};
    ASSERT_EQ(
        MBR_OK, mbr_manager_create_authority(world.manager, &pool, &told.authority, &world.error));
    payer.authority = told.authority;
    ASSERT_EQ(MBR_OK, mbr_manager_create_holder(world.manager, &payer, &told.holder, &world.error));
    auto request = Wish(told.holder, kMiB);
    request.context = &told;
    request.settled = [](void *context, mbr_ticket_handle ticket) {
        auto *self = static_cast<Told *>(context);
        EXPECT_EQ(MBR_OK, mbr_manager_end_ticket(self->manager, ticket, nullptr));
        self->of_holder = mbr_manager_destroy_holder(self->manager, self->holder, nullptr);
        self->of_authority = mbr_manager_destroy_authority(self->manager, self->authority, nullptr);
    };
    Submit(request);
    EXPECT_EQ(MBR_IN_USE, told.of_holder);
    EXPECT_EQ(MBR_IN_USE, told.of_authority);
    EndHolder(told.holder);
    EXPECT_EQ(MBR_OK, mbr_manager_destroy_authority(world.manager, told.authority, &world.error));
}

TEST_F(Tickets, InsideAHoldersCallback_ATicketIsSubmittedAndEndedButNotWaitedFor)
{
    auto range = world.reserve(32 * kMiB, 2 * kMiB);
    ASSERT_EQ(MBR_OK, world.grow(range.range, 0, 32 * kMiB));
    Asked asked;
    mbr_ticket_handle outer = {0};
    bool done = false;
    asked.could = [&] {
        if (!done) {
            done = true;
            auto inner = Submit(Wish(world.holder, kMiB));
            EXPECT_EQ(MBR_BUSY, mbr_manager_wait_ticket(world.manager, inner, &world.error));
            EXPECT_NE(nullptr, std::strstr(world.error.text, "outside")) << world.error.text;
            EndTicket(inner);
            EndTicket(outer); // which this thread waits for, and asks for
        }
        return uint64_t{0};
    };
    outer = Submit(Wish(world.holder, 8 * kMiB));
    auto curious = Holder("curious", &asked);
    mbr_status status = mbr_manager_wait_ticket(world.manager, outer, &world.error);
    EXPECT_EQ(MBR_STALE, status);
    EXPECT_TRUE(done);
    EndHolder(curious);
    ASSERT_EQ(MBR_OK, world.release(range.range));
}

TEST_F(Tickets, TimeoutAndANewGeneration_EndWhatWaits)
{
    auto range = world.reserve(32 * kMiB, 2 * kMiB);
    ASSERT_EQ(MBR_OK, world.grow(range.range, 0, 32 * kMiB));
    auto brief = Wish(world.holder, 8 * kMiB);
    brief.timeout_ns = 1;
    auto timed = Submit(brief);
    EXPECT_EQ(MBR_TIMED_OUT, mbr_manager_wait_ticket(world.manager, timed, &world.error));
    auto retired = Submit(Wish(world.holder, 8 * kMiB));
    EXPECT_EQ(MBR_OK, mbr_manager_retire_tickets(world.manager, world.authority, &world.error));
    EXPECT_EQ(MBR_STALE, Claim(retired));
    EndTicket(timed);
    EndTicket(retired);
    ASSERT_EQ(MBR_OK, world.release(range.range));
}

TEST_F(Tickets, BadRequests_AreRefusedAndNothingIsLeft)
{
    mbr_ticket_handle ticket = {1};
    auto refusal = sized<mbr_refusal>();
    auto submit = [&](const mbr_ticket_request &request) {
        mbr_status status =
            mbr_manager_submit_ticket(world.manager, &request, &ticket, &refusal, &world.error);
        EXPECT_EQ(0u, ticket.value);
        return status;
    };
    EXPECT_EQ(MBR_INVALID_ARGUMENT, submit(Wish(world.holder, 0)));
    EXPECT_EQ(MBR_UNKNOWN_OBJECT, submit(Wish({0}, 1)));
    EXPECT_EQ(MBR_OVER_BUDGET, submit(Wish(world.holder, 33 * kMiB)));
    EXPECT_EQ((uint32_t)MBR_REFUSED_CAPACITY, refusal.reason);
    EXPECT_NE(nullptr, std::strstr(world.error.text, "34603008 bytes")) << world.error.text;
    auto request = Wish(world.holder, 1);
    request.flags = 0x8;
    EXPECT_EQ(MBR_UNSUPPORTED, submit(request));
    request = Wish(world.holder, 1);
    request.struct_size = 16;
    EXPECT_EQ(MBR_INVALID_ARGUMENT, submit(request));
    request = Wish(world.holder, 1);
    request.priority = 8;
    EXPECT_EQ(MBR_INVALID_ARGUMENT, submit(request));
    uint32_t state;
    EXPECT_EQ(
        MBR_UNKNOWN_OBJECT, mbr_manager_read_ticket(world.manager, {12345}, &state, &world.error));
    auto holder = sized<mbr_holder_request>();
    holder.authority = world.authority;
    holder.name = "flags";
    holder.allowance_bytes = kMiB;
    holder.flags = 0x4;
    mbr_holder_handle made;
    EXPECT_EQ(
        MBR_UNSUPPORTED, mbr_manager_create_holder(world.manager, &holder, &made, &world.error));
    EXPECT_TRUE(world.clean());
}

TEST_F(Tickets, Borrower_GivesBackWhatALenderWants)
{
    Asked asked;
    auto lender = Holder("lender", nullptr, 16 * kMiB, MBR_HOLDER_BORROWS);
    auto borrower = Holder("borrower", &asked, 16 * kMiB, MBR_HOLDER_BORROWS);
    uint64_t wanted = 0;
    asked.could = [] { return 28 * kMiB; };
    asked.give = [&](uint64_t bytes) {
        wanted = bytes;
        EXPECT_EQ(MBR_OK, mbr_manager_return_aside(world.manager, borrower, nullptr, &world.error));
    };
    auto lent = Submit(Wish(borrower, 28 * kMiB));
    ASSERT_EQ(MBR_OK, Claim(lent));
    EXPECT_EQ(12 * kMiB, Figures(borrower).borrowed_bytes);
    auto own = Submit(Wish(lender, 16 * kMiB));
    EXPECT_EQ(MBR_OK, Claim(own));
    EXPECT_EQ(12 * kMiB, wanted); // down to its own share, and no further
    EXPECT_EQ(0u, Figures(borrower).borrowed_bytes);
    for (auto ticket : {lent, own})
        EndTicket(ticket);
    EndHolder(lender);
    EndHolder(borrower);
}

TEST_F(Tickets, LimitInTwoPhases_HasTheCachesGive)
{
    auto range = world.reserve(32 * kMiB, 2 * kMiB);
    ASSERT_EQ(MBR_OK, world.grow(range.range, 0, 32 * kMiB));
    ASSERT_EQ(MBR_OK, world.release(range.range));
    auto change = sized<mbr_limit_change>();
    change.limit_bytes = 8 * kMiB;
    change.expected_revision = MBR_ANY_REVISION;
    auto answer = sized<mbr_limit_answer>();
    EXPECT_EQ(MBR_OK,
        mbr_manager_change_limit(world.manager, world.authority, &change, &answer, &world.error));
    EXPECT_EQ((uint32_t)MBR_LIMIT_APPLIED, answer.kind);
    EXPECT_EQ(24 * kMiB, answer.given_bytes);
    EXPECT_LE(world.figures().owned_bytes, 8 * kMiB);
    EXPECT_EQ(MBR_UNKNOWN_OBJECT,
        mbr_manager_change_limit(world.manager, {99}, &change, &answer, &world.error));
}

TEST_F(Tickets, Admission_LetsInWhoCanFinishAndRefusesTheRestWithFigures)
{
    mbr_admission_handle admission = {0};
    ASSERT_EQ(MBR_OK,
        mbr_manager_create_admission(world.manager, world.holder, &admission, &world.error));
    uint64_t first, second, third;
    auto refusal = sized<mbr_refusal>();
    auto admit = [&](uint64_t most, uint64_t *member) {
        return mbr_manager_admit(world.manager, admission, most, member, &refusal, &world.error);
    };
    auto grow = [&](uint64_t member, uint64_t bytes) {
        return mbr_manager_grow_member(
            world.manager, admission, member, bytes, &refusal, &world.error);
    };
    ASSERT_EQ(MBR_OK, admit(24 * kMiB, &first));
    ASSERT_EQ(MBR_OK, admit(24 * kMiB, &second));
    EXPECT_EQ(MBR_OVER_BUDGET, admit(33 * kMiB, &third));
    EXPECT_EQ(0u, third);
    EXPECT_EQ((uint32_t)MBR_REFUSED_CAPACITY, refusal.reason);
    EXPECT_EQ(MBR_OK, grow(first, 16 * kMiB));
    EXPECT_EQ(MBR_BUSY, grow(second, 9 * kMiB));
    EXPECT_EQ((uint32_t)MBR_REFUSED_LIMIT, refusal.reason);
    EXPECT_EQ(8 * kMiB, refusal.available_bytes);
    EXPECT_EQ(
        MBR_OK, mbr_manager_shrink_member(world.manager, admission, first, 8 * kMiB, &world.error));
    EXPECT_EQ(MBR_OK, grow(second, 9 * kMiB)); // what the first did not use is there
    EXPECT_EQ(MBR_OK,
        mbr_manager_shrink_member(world.manager, admission, second, 9 * kMiB, &world.error));
    EXPECT_EQ(MBR_UNKNOWN_OBJECT,
        mbr_manager_shrink_member(world.manager, admission, 77, 1, &world.error));
    EXPECT_EQ(MBR_OUT_OF_RANGE, grow(second, 25 * kMiB));
    EXPECT_EQ(MBR_UNKNOWN_OBJECT, grow(77, 1));
    EXPECT_EQ(MBR_IN_USE, mbr_manager_destroy_admission(world.manager, admission, &world.error));
    for (uint64_t member : {first, second})
        EXPECT_EQ(MBR_OK, mbr_manager_dismiss(world.manager, admission, member, &world.error));
    EXPECT_EQ(
        MBR_UNKNOWN_OBJECT, mbr_manager_dismiss(world.manager, admission, first, &world.error));
    EXPECT_EQ(MBR_IN_USE, mbr_manager_destroy_holder(world.manager, world.holder, &world.error));
    EXPECT_EQ(MBR_OK, mbr_manager_destroy_admission(world.manager, admission, &world.error));
    EXPECT_EQ(MBR_STALE, mbr_manager_destroy_admission(world.manager, admission, &world.error));
}

} // namespace
} // namespace membrane
