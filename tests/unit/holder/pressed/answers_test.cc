// Who answers for a holder that is asked for bytes, for how long, and what comes of it where nobody
// can.
#include "tests/unit/holder/meanwhile.h"
#include "tests/unit/holder/pressed/world.h"

#include <atomic>
#include <thread>

namespace membrane
{
namespace
{

/* Several stand on one holder: the first that has something gives first. */
TEST(Answers, OneHolderOfTwoStores_HasBothGiveUntilItSuffices)
{
    HostWorld world(kLimit);
    SKIP_WITHOUT_HOST_MEMORY(world);
    Payer payer(world, MBR_ROLE_KV, "pages");
    auto request = paged_request(world, payer.handle);
    mbr_paged *stores[3];
    for (mbr_paged *&store : stores) {
        ASSERT_EQ(MBR_OK, mbr_paged_create(world.manager, &request, &store, &world.error));
        mbr_paged_sequence sequence = begin_paged(world, store, kMiB);
        ASSERT_EQ(MBR_OK, mbr_paged_end(store, sequence, &world.error));
    }
    ASSERT_EQ(MBR_OK, mbr_paged_destroy(stores[1], &world.error)); /* the one in the middle */
    auto rest = fill(world);
    auto committed = [&](mbr_paged *store) {
        auto figures = sized<mbr_paged_figures>();
        EXPECT_EQ(MBR_OK, mbr_paged_read(store, &figures, &world.error));
        return figures.committed_bytes;
    };
    for (uint64_t bytes : {kMiB / 2, kMiB}) {
        Waiter waiter(world, bytes);
        waiter.wait_and_return();
        EXPECT_EQ(0u, committed(stores[0]));
        EXPECT_EQ(bytes == kMiB ? 0 : kMiB, committed(stores[2]));
        EXPECT_EQ(MBR_OK, mbr_manager_trim(world.manager, world.mechanism, 0, nullptr, nullptr));
        EXPECT_EQ(MBR_OK, world.grow(rest.range, world.paid(world.holder).charged_bytes, kMiB));
    }
    for (mbr_paged *store : {stores[0], stores[2]})
        EXPECT_EQ(MBR_OK, mbr_paged_destroy(store, &world.error));
    EXPECT_EQ(MBR_OK, world.release(rest.range));
}

/* A registry of two caches: what one holder pays for is no answer to a question of the other's. */
TEST(Answers, RegistryOfTwoCaches_AnswersEachHolderForItsOwn)
{
    HostWorld world(kLimit);
    Payer first(world, MBR_ROLE_PREFIX, "first"), second(world, MBR_ROLE_PREFIX, "second");
    Kept one(world, first.handle), other(world, second.handle);
    std::swap(one.kv, other.kv);
    ASSERT_EQ(MBR_OK, one.put(0));
    std::swap(one.kv, other.kv);
    ASSERT_EQ(MBR_OK, one.put(1)); /* one registry, two caches */
    EXPECT_EQ(kEntry, first.leased());
    EXPECT_EQ(kEntry, second.leased());
    auto rest = fill(world);
    auto request = sized<mbr_ticket_request>();
    request.holder = second.handle;
    request.bytes = kEntry;
    request.timeout_ns = UINT64_C(30000000000);
    mbr_ticket_handle ticket; /* who wants bytes gives its own before others do */
    ASSERT_EQ(
        MBR_OK, mbr_manager_submit_ticket(world.manager, &request, &ticket, nullptr, &world.error));
    ASSERT_EQ(MBR_OK, mbr_manager_wait_ticket(world.manager, ticket, &world.error));
    EXPECT_EQ(MBR_OK, mbr_manager_end_ticket(world.manager, ticket, &world.error));
    EXPECT_EQ(kEntry, world.paid(second.handle).granted_bytes) << "the ticket's";
    EXPECT_EQ(0u, world.paid(second.handle).charged_bytes);
    EXPECT_EQ(kEntry, first.leased());
    EXPECT_EQ(
        MBR_OK, mbr_manager_return_aside(world.manager, second.handle, nullptr, &world.error));
    EXPECT_EQ(MBR_OK, world.release(rest.range));
}

/* The client's callbacks are the holder's whole answer. */
TEST(Answers, HolderWithCallbacks_IsAnsweredForByTheClientAlone)
{
    HostWorld world(kLimit);
    struct Client {
        mbr_weights *weights = nullptr;
        bool passes_on = false;
    } client;
    auto holder = world.holder_request(MBR_ROLE_WEIGHTS, "weights");
    holder.pressed.context = &client;
    holder.pressed.ask = [](void *context, const mbr_pressure *pressure) {
        auto *it = static_cast<Client *>(context);
        return it->passes_on ? mbr_weights_could_give(it->weights, pressure->bytes) : 0;
    };
    holder.pressed.give = [](void *context, const mbr_pressure *, uint64_t bytes) {
        mbr_weights_give(static_cast<Client *>(context)->weights, bytes);
    };
    mbr_holder_handle payer;
    ASSERT_EQ(MBR_OK, mbr_manager_create_holder(world.manager, &holder, &payer, &world.error));
    std::vector<uint8_t> source(kMiB, 3);
    mbr_weight item = {reinterpret_cast<uint64_t>(source.data()), source.size()};
    auto request = sized<mbr_weights_request>();
    request.item_count = 1;
    request.items = &item;
    request.binding = world.binding;
    request.holder = payer;
    request.budget_bytes = kMiB;
    ASSERT_EQ(MBR_OK, mbr_weights_create(world.manager, &request, &client.weights, &world.error));
    uint64_t address;
    ASSERT_EQ(
        MBR_OK, mbr_weights_use(client.weights, 0, world.stream, &address, nullptr, &world.error));
    mbr_weights_done(client.weights, 0, world.stream);
    ASSERT_EQ(MBR_OK, mbr_ep_synchronize(world.manager, world.stream, kNever, &world.error));
    auto rest = fill(world);
    {
        Waiter waiter(world, kMiB);
        EXPECT_EQ(MBR_TICKET_WAITING, waiter.state()) << "the client keeps it";
        EXPECT_LE(kMiB, world.paid(payer).charged_bytes);
        client.passes_on = true;
        waiter.wait_and_return();
        EXPECT_EQ(0u, world.paid(payer).charged_bytes);
    }
    EXPECT_EQ(MBR_OK, mbr_weights_destroy(client.weights, &world.error));
    EXPECT_EQ(MBR_OK, world.drain());
    EXPECT_EQ(MBR_OK, mbr_manager_destroy_holder(world.manager, payer, &world.error));
    EXPECT_EQ(MBR_OK, world.release(rest.range));
}

/* The end of what gives waits for the call in which it gives. */
TEST(Answers, Destroy_AwaitsACallThatRuns)
{
    HostWorld world(kLimit);
    Payer payer(world, MBR_ROLE_CACHE, "kernel caches");
    struct Drop {
        std::promise<void> begun;
        std::promise<void> may_end;
        std::atomic<bool> is_over{false};
    } drop;
    auto request = sized<mbr_kernel_cache_request>();
    request.holder = payer.handle;
    request.context = &drop;
    request.drop = [](void *context, uint64_t) {
        auto *it = static_cast<Drop *>(context);
        it->begun.set_value();
        it->may_end.get_future().wait();
        it->is_over = true;
    };
    mbr_kernel_cache *cache;
    ASSERT_EQ(MBR_OK, mbr_kernel_cache_create(world.manager, &request, &cache, &world.error));
    ASSERT_EQ(MBR_OK, mbr_kernel_cache_declare(cache, 1, kMiB, nullptr, &world.error));
    mbr_kernel_cache_release(cache, 1, {0});
    auto rest = fill(world);
    std::thread asker([&] {
        Waiter waiter(world, kMiB);
        waiter.wait_and_return();
    });
    drop.begun.get_future().wait();
    auto ended = call_meanwhile([&] {
        mbr_status status = mbr_kernel_cache_destroy(cache, nullptr);
        EXPECT_TRUE(drop.is_over);
        return status;
    });
    drop.may_end.set_value();
    EXPECT_EQ(MBR_OK, ended.get());
    asker.join();
    EXPECT_EQ(MBR_OK, world.release(rest.range));
}

/* A holder that has ended is not looked for by what stood on it. */
TEST(Answers, HolderThatEndsFirst_LeavesWhatStoodOnItWithoutOne)
{
    HostWorld world(kLimit);
    mbr_kernel_cache *cache;
    {
        Payer payer(world, MBR_ROLE_CACHE, "kernel caches");
        auto request = sized<mbr_kernel_cache_request>();
        request.holder = payer.handle;
        request.drop = [](void *, uint64_t) {};
        ASSERT_EQ(MBR_OK, mbr_kernel_cache_create(world.manager, &request, &cache, &world.error));
    }
    EXPECT_EQ(MBR_STALE, mbr_kernel_cache_declare(cache, 1, kMiB, nullptr, &world.error));
    EXPECT_EQ(MBR_OK, mbr_kernel_cache_destroy(cache, &world.error));
}

template <typename Request, typename Made>
void expect_no_place(HostWorld &world,
    mbr_status (*create)(mbr_manager *, const Request *, Made **, mbr_error *),
    const Request &request)
{
    Made *made;
    EXPECT_EQ(MBR_OUT_OF_DESCRIPTORS, create(world.manager, &request, &made, &world.error));
    EXPECT_EQ(nullptr, made);
}

/* What cannot be asked is not made, and a refusal undoes all of it: the world ends without ranges.
 */
TEST(Answers, AuthorityWithAsManyAnsweringHoldersAsItCan_RefusesToMakeOneMore)
{
    HostWorld world(kLimit);
    Payer payer(world, MBR_ROLE_WEIGHTS, "one too many");
    auto holder = world.holder_request(MBR_ROLE_KV, "asked");
    holder.pressed.ask = [](void *, const mbr_pressure *) { return UINT64_C(0); };
    holder.pressed.give = [](void *, const mbr_pressure *, uint64_t) {};
    std::vector<mbr_holder_handle> asked;
    mbr_holder_handle made;
    while (mbr_manager_create_holder(world.manager, &holder, &made, &world.error) == MBR_OK)
        asked.push_back(made);
    auto workspace_request = sized<mbr_workspace_request>();
    workspace_request.binding = world.binding;
    workspace_request.holder = payer.handle;
    workspace_request.stream = world.stream;
    workspace_request.most_bytes[MBR_WORKSPACE_STEP] = kMiB;
    expect_no_place(world, mbr_workspace_create, workspace_request);
    mbr_weight item = {1, kMiB};
    auto weights_request = sized<mbr_weights_request>();
    weights_request.item_count = 1;
    weights_request.items = &item;
    weights_request.binding = world.binding;
    weights_request.holder = payer.handle;
    weights_request.budget_bytes = kMiB;
    expect_no_place(world, mbr_weights_create, weights_request);
    auto cache_request = sized<mbr_kernel_cache_request>();
    cache_request.holder = payer.handle;
    cache_request.drop = [](void *, uint64_t) {};
    expect_no_place(world, mbr_kernel_cache_create, cache_request);
    auto sleeper_request = sized<mbr_sleeper_request>();
    sleeper_request.arena = world.binding;
    sleeper_request.holder = payer.handle;
    expect_no_place(world, mbr_sleeper_create, sleeper_request);
    if (world.tier() == MBR_TIER_HOST) {
        auto request = paged_request(world, payer.handle);
        request.saved_binding = world.binding;
        request.saved_holder = payer.handle;
        expect_no_place(world, mbr_paged_create, request);
    }
    {
        Kept kept(world, payer.handle);
        EXPECT_EQ(MBR_OUT_OF_DESCRIPTORS, kept.put(0)) << "the prefix stays the caller's";
        EXPECT_EQ(MBR_OK, mbr_manager_destroy_holder(world.manager, asked.back(), &world.error));
        asked.pop_back();
        EXPECT_EQ(MBR_OK, kept.put(0)) << world.error.text;
    }
    EXPECT_TRUE(world.clean());
    for (mbr_holder_handle each : asked)
        EXPECT_EQ(MBR_OK, mbr_manager_destroy_holder(world.manager, each, &world.error));
}

/* Stores come and go while another thread has tickets, which ask whoever is there. */
TEST(Answers, StoresThatComeAndGoBesideTickets_EndCleanly)
{
    constexpr int kRounds = 100;
    HostWorld world(kLimit);
    SKIP_WITHOUT_HOST_MEMORY(world);
    Payer payer(world, MBR_ROLE_KV, "pages");
    auto rest = fill(world, kLimit - 2 * kMiB);
    std::atomic<bool> is_over{false};
    std::thread asker([&] {
        while (!is_over) {
            auto request = sized<mbr_ticket_request>();
            request.holder = world.holder;
            request.bytes = 2 * kMiB;
            request.timeout_ns = MBR_NO_DEADLINE;
            mbr_ticket_handle ticket;
            auto error = sized<mbr_error>();
            EXPECT_EQ(MBR_OK,
                mbr_manager_submit_ticket(world.manager, &request, &ticket, nullptr, &error))
                << error.text;
            EXPECT_EQ(MBR_OK, mbr_manager_end_ticket(world.manager, ticket, &error));
        }
    });
    for (int round = 0; round < kRounds; round++) {
        auto request = paged_request(world, payer.handle);
        mbr_paged *store;
        ASSERT_EQ(MBR_OK, mbr_paged_create(world.manager, &request, &store, &world.error));
        mbr_paged_sequence sequence;
        EXPECT_EQ(MBR_OK, mbr_paged_begin(store, &sequence, &world.error));
        mbr_status status = mbr_paged_append(store, sequence, 4, nullptr, &world.error);
        EXPECT_TRUE(status == MBR_OK || status == MBR_OVER_BUDGET) << world.error.text;
        EXPECT_EQ(MBR_OK, mbr_paged_end(store, sequence, &world.error));
        EXPECT_EQ(MBR_OK, mbr_paged_destroy(store, &world.error));
    }
    is_over = true;
    asker.join();
    EXPECT_EQ(0u, payer.leased());
    EXPECT_TRUE(world.clean());
    EXPECT_EQ(MBR_OK, world.release(rest.range));
}

} // namespace
} // namespace membrane
