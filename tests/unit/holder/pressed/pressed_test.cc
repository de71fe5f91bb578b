// A ticket of somebody else is served by what each kind of holder can give, in the stated order,
// and the client does nothing for it; one whose bytes are in use, pinned or in flight gives none,
// and the ticket waits until it can.
#include "tests/unit/holder/pressed/world.h"

namespace membrane
{
namespace
{

TEST(Pressed, Workspace_GivesWhatIsAboveItsStepToATicket)
{
    HostWorld world(kLimit);
    Payer payer(world, MBR_ROLE_WORKSPACE, "workspace");
    auto request = sized<mbr_workspace_request>();
    request.binding = world.binding;
    request.holder = payer.handle;
    request.stream = world.stream;
    request.most_bytes[MBR_WORKSPACE_STEP] = kLimit;
    request.unit_bytes = 64 * 1024;
    mbr_workspace *workspace;
    ASSERT_EQ(MBR_OK, mbr_workspace_create(world.manager, &request, &workspace, &world.error));
    uint64_t address;
    auto take = [&](uint64_t bytes) {
        return mbr_workspace_take(
            workspace, MBR_WORKSPACE_STEP, bytes, 0, &address, nullptr, &world.error);
    };
    ASSERT_EQ(MBR_OK, take(4 * kMiB));
    auto rest = fill(world);
    payer.given();
    {
        Waiter waiter(world, 2 * kMiB);
        EXPECT_EQ(MBR_TICKET_WAITING, waiter.state()) << "all of it is taken";
        EXPECT_EQ(0u, payer.given());
        mbr_workspace_end(workspace, MBR_WORKSPACE_STEP);
        ASSERT_EQ(MBR_OK, take(kMiB));
        waiter.wait_and_return();
        EXPECT_LE(2 * kMiB, payer.given());
        EXPECT_TRUE(world.clean());
    }
    EXPECT_EQ(MBR_OK, mbr_workspace_destroy(workspace, &world.error));
    EXPECT_EQ(MBR_OK, world.release(rest.range));
}

TEST(Pressed, Weights_GiveItemsThatNobodyUsesToATicket)
{
    HostWorld world(kLimit);
    Payer payer(world, MBR_ROLE_WEIGHTS, "weights");
    std::vector<std::vector<uint8_t>> sources(4, std::vector<uint8_t>(kMiB, 3));
    std::vector<mbr_weight> items;
    for (auto &source : sources)
        items.push_back({reinterpret_cast<uint64_t>(source.data()), source.size()});
    auto request = sized<mbr_weights_request>();
    request.item_count = 4;
    request.items = items.data();
    request.binding = world.binding;
    request.holder = payer.handle;
    request.budget_bytes = 4 * kMiB;
    mbr_weights *weights;
    ASSERT_EQ(MBR_OK, mbr_weights_create(world.manager, &request, &weights, &world.error));
    uint64_t address;
    for (uint32_t i = 0; i < 4; i++)
        ASSERT_EQ(
            MBR_OK, mbr_weights_use(weights, i, world.stream, &address, nullptr, &world.error))
            << world.error.text;
    auto rest = fill(world);
    payer.given();
    {
        Waiter waiter(world, kMiB);
        EXPECT_EQ(MBR_TICKET_WAITING, waiter.state()) << "all are used";
        EXPECT_EQ(0u, payer.given());
        for (uint32_t i = 0; i < 3; i++)
            mbr_weights_done(weights, i, world.stream);
        waiter.wait_and_return();
        EXPECT_LE(kMiB, payer.given());
        EXPECT_TRUE(world.clean());
    }
    mbr_weights_done(weights, 3, world.stream);
    EXPECT_EQ(MBR_OK, mbr_weights_destroy(weights, &world.error));
    EXPECT_EQ(MBR_OK, world.release(rest.range));
}

TEST(Pressed, KernelCache_IsAskedFirstAndGivesWhatItsRoleSays)
{
    HostWorld world(kLimit);
    Payer payer(world, MBR_ROLE_CACHE, "kernel caches");
    auto request = sized<mbr_kernel_cache_request>();
    request.holder = payer.handle;
    request.drop = [](void *, uint64_t) {};
    mbr_kernel_cache *cache;
    ASSERT_EQ(MBR_OK, mbr_kernel_cache_create(world.manager, &request, &cache, &world.error));
    for (uint64_t key = 1; key <= 2; key++)
        ASSERT_EQ(MBR_OK, mbr_kernel_cache_declare(cache, key, 2 * kMiB, nullptr, &world.error));
    auto rest = fill(world);
    payer.given();
    {
        Waiter waiter(world, 2 * kMiB);
        EXPECT_EQ(MBR_TICKET_WAITING, waiter.state()) << "both are used";
        mbr_kernel_cache_release(cache, 2, {0});
        waiter.wait_and_return();
        EXPECT_EQ(2 * kMiB, payer.given());
    }
    mbr_kernel_cache_release(cache, 1, {0});
    EXPECT_EQ(MBR_OK, mbr_kernel_cache_destroy(cache, &world.error));
    EXPECT_EQ(MBR_OK, world.release(rest.range));
}

/* The arena's own tier. */
TEST(Pressed, SleepersArena_GivesFreeChunksAndNoContents)
{
    constexpr uint64_t kRoom = 64 * kMiB, kLarge = 16 * kMiB;
    HostWorld world(kRoom);
    SKIP_WITHOUT_CPU_EP(world); /* where the arena is of the same authority */
    Payer payer(world, MBR_ROLE_STAGING, "arena");
    auto request = arena_request(world, payer.handle, kLarge);
    mbr_sleeper *sleeper;
    ASSERT_EQ(MBR_OK, mbr_sleeper_create(world.manager, &request, &sleeper, &world.error));
    auto range = world.reserve(kMiB, 64 * 1024);
    ASSERT_EQ(MBR_OK, world.grow(range.range, 0, kMiB));
    ASSERT_EQ(MBR_OK, mbr_sleeper_add(sleeper, range.range, world.holder, 1, &world.error));
    sleep_and_wake(world, sleeper, 1);
    auto rest = fill(world, kRoom);
    payer.given();
    {
        Waiter waiter(world, kLarge / 2);
        waiter.wait_and_return();
        EXPECT_EQ(kLarge, payer.given());
        EXPECT_TRUE(world.clean());
    }
    EXPECT_EQ(MBR_OK, mbr_sleeper_destroy(sleeper, kNever, &world.error));
    EXPECT_EQ(MBR_OK, world.release(range.range));
    EXPECT_EQ(MBR_OK, world.release(rest.range));
}

/* Whoever has to give saves and destroys; nobody answers for it. */
TEST(Pressed, State_GivesNothingUntilItIsDestroyed)
{
    HostWorld world(kLimit);
    Payer payer(world, MBR_ROLE_KV, "states");
    const uint64_t buffers[] = {2 * kMiB, kMiB};
    auto request = sized<mbr_states_request>();
    request.buffer_count = 2;
    request.buffer_bytes = buffers;
    request.binding = world.binding;
    request.holder = payer.handle;
    mbr_states *states;
    ASSERT_EQ(MBR_OK, mbr_states_create(world.manager, &request, &states, &world.error));
    mbr_state *state;
    ASSERT_EQ(MBR_OK, mbr_state_create(states, world.stream, 0, nullptr, &state, &world.error))
        << world.error.text;
    auto rest = fill(world);
    payer.given();
    {
        Waiter waiter(world, 2 * kMiB);
        EXPECT_EQ(MBR_TICKET_WAITING, waiter.state());
        EXPECT_EQ(0u, payer.given());
        ASSERT_EQ(MBR_OK, mbr_state_destroy(state, nullptr, 0, &world.error));
        waiter.wait_and_return();
        EXPECT_TRUE(world.clean());
    }
    EXPECT_EQ(MBR_OK, mbr_states_destroy(states, &world.error)) << world.error.text;
    EXPECT_EQ(MBR_OK, world.release(rest.range));
}

/* ---- Paged stores */

TEST(Pressed, PagedStore_GivesFreePagesAndNoneInUse)
{
    HostWorld world(kLimit);
    SKIP_WITHOUT_HOST_MEMORY(world);
    Payer payer(world, MBR_ROLE_KV, "pages");
    auto request = paged_request(world, payer.handle);
    mbr_paged *store;
    ASSERT_EQ(MBR_OK, mbr_paged_create(world.manager, &request, &store, &world.error));
    mbr_paged_sequence stays = begin_paged(world, store, kMiB);
    mbr_paged_sequence goes = begin_paged(world, store, 2 * kMiB);
    auto rest = fill(world);
    payer.given();
    {
        Waiter waiter(world, 2 * kMiB);
        EXPECT_EQ(MBR_TICKET_WAITING, waiter.state()) << "all pages are in use";
        EXPECT_EQ(0u, payer.given());
        ASSERT_EQ(MBR_OK, mbr_paged_end(store, goes, &world.error));
        waiter.wait_and_return();
        EXPECT_EQ(2 * kMiB, payer.given());
        EXPECT_TRUE(world.clean());
    }
    auto left = sized<mbr_paged_figures>();
    ASSERT_EQ(MBR_OK, mbr_paged_read(store, &left, &world.error));
    EXPECT_EQ(kMiB, left.committed_bytes);
    EXPECT_EQ(0u, left.free_page_count);
    ASSERT_EQ(MBR_OK, mbr_paged_end(store, stays, &world.error));
    EXPECT_EQ(MBR_OK, mbr_paged_destroy(store, &world.error));
    EXPECT_EQ(MBR_OK, world.release(rest.range));
}

/* ---- Prefix registries */

TEST(Pressed, Registry_GivesColdPrefixesAndNoneInUse)
{
    HostWorld world(kLimit);
    Payer payer(world, MBR_ROLE_PREFIX, "prefixes");
    Kept kept(world, payer.handle);
    for (uint32_t i = 0; i < 4; i++)
        ASSERT_EQ(MBR_OK, kept.put(i));
    mbr_registry_entry *used[4];
    for (uint32_t i = 0; i < 4; i++)
        used[i] = kept.find(i);
    auto rest = fill(world);
    payer.given();
    {
        Waiter waiter(world, 2 * kEntry);
        EXPECT_EQ(MBR_TICKET_WAITING, waiter.state()) << "all are used";
        EXPECT_EQ(0u, payer.given());
        for (uint32_t i : {0, 2, 3})
            mbr_registry_release(kept.registry, used[i]);
        waiter.wait_and_return();
        EXPECT_EQ(2 * kEntry, payer.given());
        EXPECT_TRUE(world.clean());
    }
    EXPECT_EQ(nullptr, kept.find(0)) << "the least recently used";
    EXPECT_EQ(nullptr, kept.find(2));
    mbr_registry_entry *left = kept.find(3);
    EXPECT_NE(nullptr, left);
    mbr_registry_release(kept.registry, left);
    mbr_registry_release(kept.registry, used[1]);
    EXPECT_EQ(MBR_OK, world.release(rest.range));
}

} // namespace
} // namespace membrane
