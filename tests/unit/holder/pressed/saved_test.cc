// Paged stores that save into one authority: its room is promised once, and what each says that it
// could give it then gives, whoever else gave before.
#include "tests/unit/holder/captures.h"
#include "tests/unit/holder/pressed/world.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <unistd.h>

namespace membrane
{
namespace
{

/* A store on a holder of its own, with sequences of a MiB that may go. */
class Saving
{
  public:
    Saving(HostWorld &world, Elsewhere &elsewhere, mbr_holder_handle saved, const char *name)
        : payer(world, MBR_ROLE_KV, name), world_(world)
    {
        auto request = paged_request(world, payer.handle);
        request.saved_binding = elsewhere.binding;
        request.saved_holder = saved;
        EXPECT_EQ(MBR_OK, mbr_paged_create(world.manager, &request, &store, &world.error))
            << world.error.text;
    }
    ~Saving()
    {
        for (mbr_paged_sequence each : offered_)
            EXPECT_EQ(MBR_OK, mbr_paged_end(store, each, &world_.error));
        EXPECT_EQ(MBR_OK, mbr_paged_destroy(store, &world_.error)) << world_.error.text;
    }
    void offer(uint64_t count, uint64_t bytes = kMiB)
    {
        for (uint64_t i = 0; i < count; i++) {
            offered_.push_back(begin_paged(world_, store, bytes));
            EXPECT_EQ(MBR_OK, mbr_paged_offer(store, offered_.back(), &world_.error));
        }
    }
    void restore_and_offer()
    {
        for (mbr_paged_sequence each : offered_) {
            EXPECT_EQ(MBR_OK, mbr_paged_restore(store, each, nullptr, &world_.error));
            EXPECT_EQ(MBR_OK, mbr_paged_offer(store, each, &world_.error));
        }
    }
    uint64_t could() { return mbr_paged_could_give(store, UINT64_MAX); }
    uint64_t give(uint64_t bytes) { return mbr_paged_give(store, bytes); }
    uint64_t preempted()
    {
        auto figures = sized<mbr_paged_figures>();
        EXPECT_EQ(MBR_OK, mbr_paged_read(store, &figures, &world_.error));
        return figures.preempted_count;
    }

    Payer payer;
    mbr_paged *store = nullptr;

  private:
    HostWorld &world_;
    std::vector<mbr_paged_sequence> offered_;
};

TEST(Saved, RoomOfOneAuthority_IsPromisedOnce)
{
    HostWorld world(kLimit);
    SKIP_WITHOUT_HOST_MEMORY(world);
    Elsewhere elsewhere(world, 3 * kMiB);
    Saving first(world, elsewhere, elsewhere.holder, "first");
    {
        Saving second(world, elsewhere, elsewhere.create_holder("another"), "second");
        second.offer(2);
        EXPECT_EQ(2 * kMiB, second.could());
        first.offer(2);
        EXPECT_EQ(2 * kMiB, first.could()) << "made first, it has the room first";
        EXPECT_EQ(kMiB, second.could());
        EXPECT_EQ(kMiB, second.give(kMiB));
        EXPECT_EQ(2 * kMiB, first.give(2 * kMiB));
        EXPECT_EQ(0u, first.could() + second.could());
    }
    EXPECT_TRUE(world.clean());
}

TEST(Saved, StoreThatIsGone_LeavesItsRoomToTheNext)
{
    HostWorld world(kLimit);
    SKIP_WITHOUT_HOST_MEMORY(world);
    Elsewhere elsewhere(world, 2 * kMiB);
    auto first = std::make_unique<Saving>(world, elsewhere, elsewhere.holder, "first");
    Saving second(world, elsewhere, elsewhere.holder, "second");
    first->offer(2);
    second.offer(2);
    EXPECT_EQ(0u, second.could());
    first.reset();
    EXPECT_EQ(2 * kMiB, second.could());
    EXPECT_EQ(2 * kMiB, second.give(UINT64_MAX));
}

TEST(Saved, AllowanceOfOneHolder_IsPromisedOnceAndOfTwoToEach)
{
    HostWorld world(kLimit);
    SKIP_WITHOUT_HOST_MEMORY(world);
    Elsewhere elsewhere(world, kLimit);
    mbr_holder_handle narrow = elsewhere.create_holder("narrow", 2 * kMiB);
    mbr_holder_handle other = elsewhere.create_holder("other", kMiB);
    Saving first(world, elsewhere, narrow, "first");
    Saving second(world, elsewhere, other, "second");
    Saving third(world, elsewhere, narrow, "third");
    first.offer(1);
    second.offer(2);
    third.offer(2);
    EXPECT_EQ(kMiB, first.could());
    EXPECT_EQ(kMiB, second.could());
    EXPECT_EQ(kMiB, third.could());
    for (Saving *each : {&third, &second, &first})
        EXPECT_EQ(kMiB, each->give(kMiB));
}

/* It gives nothing now, and so takes nothing. */
TEST(Saved, StoreThatAGraphHas_LeavesItsRoomToTheNext)
{
    HostWorld world(kLimit);
    SKIP_WITHOUT_HOST_MEMORY(world);
    Elsewhere elsewhere(world, 2 * kMiB);
    Saving first(world, elsewhere, elsewhere.holder, "first");
    Saving second(world, elsewhere, elsewhere.holder, "second");
    Captures captures(world, false);
    captures.begin();
    first.offer(2);
    captures.end();
    second.offer(2);
    EXPECT_EQ(0u, first.could());
    EXPECT_EQ(2 * kMiB, second.could());
    captures.retire();
    EXPECT_EQ(MBR_OK, world.drain());
    EXPECT_EQ(2 * kMiB, first.could());
    EXPECT_EQ(0u, second.could());
}

TEST(Saved, HolderThatHasEnded_HasNoRoom)
{
    HostWorld world(kLimit);
    SKIP_WITHOUT_HOST_MEMORY(world);
    Elsewhere elsewhere(world, kLimit);
    auto request = world.holder_request(MBR_ROLE_STAGING, "ends");
    request.authority = elsewhere.authority;
    mbr_holder_handle ends;
    ASSERT_EQ(MBR_OK, mbr_manager_create_holder(world.manager, &request, &ends, &world.error));
    Saving first(world, elsewhere, ends, "first");
    Saving second(world, elsewhere, elsewhere.holder, "second");
    first.offer(1);
    second.offer(1);
    ASSERT_EQ(MBR_OK, mbr_manager_destroy_holder(world.manager, ends, &world.error))
        << world.error.text;
    EXPECT_EQ(0u, first.could());
    EXPECT_EQ(0u, first.give(UINT64_MAX));
    EXPECT_EQ(kMiB, second.could());
}

/* Where all together could not serve it, nobody gives for it. */
TEST(Saved, TicketThatAllTogetherCannotServe_PreemptsNobody)
{
    HostWorld world(kLimit);
    SKIP_WITHOUT_HOST_MEMORY(world);
    Elsewhere elsewhere(world, 2 * kMiB);
    Saving first(world, elsewhere, elsewhere.holder, "first");
    Saving second(world, elsewhere, elsewhere.holder, "second");
    first.offer(2);
    second.offer(2);
    auto rest = fill(world);
    {
        Waiter waiter(world, 3 * kMiB);
        EXPECT_EQ(MBR_TICKET_WAITING, waiter.state());
        EXPECT_EQ(0u, first.preempted() + second.preempted());
        Waiter less(world, 2 * kMiB);
        less.wait_and_return();
        EXPECT_EQ(2u, first.preempted() + second.preempted());
    }
    EXPECT_EQ(MBR_OK, world.release(rest.range));
}

/* Sequences and extents of any size, some of which were saved and are back, under a binding that
 * was switched or not; in any order of giving. */
TEST(Saved, WhatEachSaysThatItCouldGive_ItThenGives)
{
    constexpr uint32_t kStores = 3, kRounds = 24, kSeed = 7;
    HostWorld world(64 * kMiB);
    SKIP_WITHOUT_HOST_MEMORY(world);
    std::mt19937 random(kSeed);
    auto draw = [&](uint64_t most) { return random() % most + 1; };
    uint64_t given = 0, short_of = 0;
    for (uint32_t round = 0; round < kRounds; round++) {
        SCOPED_TRACE(round);
        Elsewhere elsewhere(world, draw(8) * kMiB);
        std::vector<std::unique_ptr<Saving>> stores;
        for (uint32_t i = 0; i < kStores; i++) {
            bool is_narrow = draw(2) == 1;
            uint32_t flags = draw(2) == 1 ? MBR_HOLDER_BORROWS : 0;
            mbr_holder_handle payer = is_narrow
                ? elsewhere.create_holder("narrow", draw(4) * kMiB, flags)
                : elsewhere.holder;
            stores.push_back(std::make_unique<Saving>(world, elsewhere, payer, "store"));
            for (uint64_t k = draw(4); k-- > 0;)
                stores.back()->offer(1, draw(160) * 16384);
        }
        if (draw(2) == 1)
            stores[draw(kStores) - 1]->give(draw(4) * kMiB);
        if (draw(2) == 1)
            for (auto &each : stores)
                each->restore_and_offer();
        if (draw(3) == 1)
            elsewhere.switch_binding();
        std::vector<std::pair<Saving *, uint64_t>> said;
        for (auto &each : stores)
            said.emplace_back(each.get(), each->could());
        std::shuffle(said.begin(), said.end(), random);
        for (auto &[store, bytes] : said) {
            EXPECT_LE(bytes, store->give(bytes));
            given += bytes;
            short_of += bytes == 0;
        }
        stores.clear();
    }
    EXPECT_LT(0u, given);
    EXPECT_LT(0u, short_of) << "no room was scarce";
}

/* Which gives way to the next growth, so it is room. */
TEST(Saved, WhatTheCacheThereKeeps_IsRoom)
{
    HostWorld world(kLimit);
    SKIP_WITHOUT_HOST_MEMORY(world);
    Elsewhere elsewhere(world, 2 * kMiB);
    Saving store(world, elsewhere, elsewhere.holder, "store");
    store.offer(2);
    EXPECT_EQ(2 * kMiB, store.give(2 * kMiB));
    store.restore_and_offer();
    EXPECT_EQ(2 * kMiB, elsewhere.claimed()) << "by the cache";
    EXPECT_EQ(2 * kMiB, store.could());
    EXPECT_EQ(2 * kMiB, store.give(2 * kMiB));
}

TEST(Saved, HolderThatBorrows_HasWhatOthersLeave)
{
    HostWorld world(kLimit);
    SKIP_WITHOUT_HOST_MEMORY(world);
    Elsewhere elsewhere(world, 3 * kMiB);
    mbr_holder_handle borrower = elsewhere.create_holder("borrows", kMiB, MBR_HOLDER_BORROWS);
    Saving first(world, elsewhere, borrower, "first");
    Saving second(world, elsewhere, borrower, "second");
    first.offer(2);
    second.offer(2);
    EXPECT_EQ(2 * kMiB, first.could());
    EXPECT_EQ(kMiB, second.could());
    EXPECT_EQ(2 * kMiB, first.give(UINT64_MAX));
    EXPECT_EQ(kMiB, second.give(UINT64_MAX));
}

/* Nothing could be saved there: the first growth says why. */
TEST(Saved, HolderOfAnotherAuthority_HasNoRoom)
{
    HostWorld world(kLimit);
    SKIP_WITHOUT_HOST_MEMORY(world);
    Elsewhere elsewhere(world, kLimit);
    Saving store(world, elsewhere, world.holder, "store");
    store.offer(2);
    EXPECT_EQ(0u, store.could());
    EXPECT_EQ(0u, store.give(UINT64_MAX));
}

/* Its ranges grow as before. */
TEST(Saved, BindingThatWasSwitched_HasTheSameRoom)
{
    HostWorld world(kLimit);
    SKIP_WITHOUT_HOST_MEMORY(world);
    Elsewhere elsewhere(world, 3 * kMiB);
    Saving first(world, elsewhere, elsewhere.holder, "first");
    elsewhere.switch_binding();
    Saving second(world, elsewhere, elsewhere.holder, "second");
    first.offer(2);
    second.offer(2);
    EXPECT_EQ(2 * kMiB, first.could());
    EXPECT_EQ(kMiB, second.could());
    EXPECT_EQ(kMiB, second.give(kMiB));
    EXPECT_EQ(2 * kMiB, first.give(2 * kMiB));
}

/* An authority has leased nothing of it before it needs something. */
TEST(Saved, WhatASharedLedgerHasFree_IsRoom)
{
    std::string folder = testing::TempDir() + "/ledger-XXXXXX";
    ASSERT_NE(nullptr, mkdtemp(folder.data()));
    {
        HostWorld world(kLimit);
        SKIP_WITHOUT_HOST_MEMORY(world);
        Elsewhere elsewhere(world, 2 * kMiB, folder.c_str());
        Saving store(world, elsewhere, elsewhere.holder, "store");
        store.offer(3);
        mbr_manager_poll(world.manager);
        EXPECT_EQ(2 * kMiB, store.could());
        EXPECT_EQ(2 * kMiB, store.give(UINT64_MAX));
    }
    EXPECT_EQ(0, rmdir(folder.c_str())) << "the last member has removed its file";
}

/* Each looks at the other's while that comes and goes, and while captures are open or not. */
TEST(Saved, StoresThatComeAndGoBesideEachOther_EndCleanly)
{
    constexpr int kRounds = 20;
    HostWorld world(64 * kMiB);
    SKIP_WITHOUT_HOST_MEMORY(world);
    Elsewhere elsewhere(world, 2 * kMiB);
    auto come_and_go = [&](const Payer &payer) {
        auto error = sized<mbr_error>();
        auto request = paged_request(world, payer.handle);
        request.saved_binding = elsewhere.binding;
        request.saved_holder = elsewhere.holder;
        for (int round = 0; round < kRounds; round++) {
            mbr_paged *store;
            mbr_paged_sequence sequence;
            ASSERT_EQ(MBR_OK, mbr_paged_create(world.manager, &request, &store, &error));
            EXPECT_EQ(MBR_OK, mbr_paged_begin(store, &sequence, &error));
            EXPECT_EQ(MBR_OK, mbr_paged_append(store, sequence, 256, nullptr, &error));
            EXPECT_EQ(MBR_OK, mbr_paged_offer(store, sequence, &error));
            EXPECT_GE(2 * kMiB, mbr_paged_could_give(store, UINT64_MAX));
            EXPECT_GE(kMiB, mbr_paged_give(store, kMiB));
            EXPECT_EQ(MBR_OK, mbr_paged_end(store, sequence, &error));
            EXPECT_EQ(MBR_OK, mbr_paged_destroy(store, &error)) << error.text;
        }
    };
    Payer first(world, MBR_ROLE_KV, "first"), second(world, MBR_ROLE_KV, "second");
    std::thread one(come_and_go, std::cref(first)), other(come_and_go, std::cref(second));
    for (int round = 0; round < kRounds; round++) {
        mbr_graph_handle graph;
        ASSERT_EQ(MBR_OK, mbr_ep_capture_begin(world.manager, world.stream, kNever, &world.error));
        ASSERT_EQ(MBR_OK, mbr_ep_capture_end(world.manager, world.stream, &graph, &world.error));
        ASSERT_EQ(MBR_OK, mbr_ep_graph_retire(world.manager, graph, nullptr, 0, &world.error));
    }
    one.join();
    other.join();
    EXPECT_EQ(MBR_OK, world.drain());
    EXPECT_TRUE(world.clean());
}

} // namespace
} // namespace membrane
