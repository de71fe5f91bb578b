// While a capture is open on the device, whoever's it is, nothing goes back: no holder says that it
// could give, and none gives in vain. What a graph owns stays until the graph is retired.
#include "tests/unit/holder/captures.h"
#include "tests/unit/holder/meanwhile.h"
#include "tests/unit/holder/pressed/world.h"

#include <string>

namespace membrane
{
namespace
{

class Captured : public ::testing::TestWithParam<bool>
{
};

std::string capture_name(const ::testing::TestParamInfo<bool> &info)
{
    return info.param ? "OfAnotherEp" : "OfItsEp";
}

INSTANTIATE_TEST_SUITE_P(Each, Captured, ::testing::Bool(), capture_name);

/* What it says before, in and behind a capture; and that it has given nothing in it. */
template <typename CouldGive, typename Give>
void expect_held(
    HostWorld &world, Payer &payer, bool of_others, uint64_t could, CouldGive could_give, Give give)
{
    Captures captures(world, of_others);
    EXPECT_EQ(could, could_give());
    captures.begin();
    payer.given();
    EXPECT_EQ(0u, could_give());
    EXPECT_EQ(0u, give());
    EXPECT_EQ(0u, payer.given());
    captures.end();
    EXPECT_EQ(could, could_give());
    EXPECT_EQ(could, give());
    EXPECT_EQ(could, payer.given());
    EXPECT_EQ(0u, could_give());
}

TEST_P(Captured, PagedStore_GivesNeitherFreePagesNorSequences)
{
    HostWorld world(kLimit);
    SKIP_WITHOUT_HOST_MEMORY(world);
    Payer payer(world, MBR_ROLE_KV, "pages");
    Elsewhere elsewhere(world, kLimit);
    auto request = paged_request(world, payer.handle);
    request.saved_binding = elsewhere.binding;
    request.saved_holder = elsewhere.holder;
    mbr_paged *store;
    ASSERT_EQ(MBR_OK, mbr_paged_create(world.manager, &request, &store, &world.error))
        << world.error.text;
    mbr_paged_sequence offered = begin_paged(world, store, kMiB);
    ASSERT_EQ(MBR_OK, mbr_paged_end(store, begin_paged(world, store, 2 * kMiB), &world.error));
    ASSERT_EQ(MBR_OK, mbr_paged_offer(store, offered, &world.error));
    expect_held(
        world, payer, GetParam(), 3 * kMiB, [&] { return mbr_paged_could_give(store, UINT64_MAX); },
        [&] { return mbr_paged_give(store, UINT64_MAX); });
    auto figures = sized<mbr_paged_figures>();
    EXPECT_EQ(MBR_OK, mbr_paged_read(store, &figures, &world.error));
    EXPECT_EQ(1u, figures.preempted_count) << "behind the capture";
    EXPECT_EQ(MBR_OK, mbr_paged_end(store, offered, &world.error));
    EXPECT_EQ(MBR_OK, mbr_paged_destroy(store, &world.error));
}

/* A client's holder that knows of no captures, and gives its range. */
struct Giving {
    HostWorld &world;
    mbr_range_handle range;
    int call_count = 0;

    static uint64_t ask(void *self, const mbr_pressure *)
    {
        return static_cast<Giving *>(self)->call_count == 0 ? kMiB : 0;
    }
    static void give(void *self, const mbr_pressure *, uint64_t)
    {
        auto *giving = static_cast<Giving *>(self);
        giving->call_count++;
        EXPECT_EQ(MBR_OK, giving->world.release(giving->range));
    }
};

/* Nor does anybody give beside it for what it keeps. */
TEST_P(Captured, Cache_IsNotCountedOn)
{
    HostWorld world(kLimit);
    auto rest = world.reserve(kLimit, kMiB), kept = world.reserve(kLimit, kMiB);
    Giving client = {world, world.reserve(kMiB, kMiB).range};
    auto request = world.holder_request(MBR_ROLE_STAGING, "client");
    request.pressed = {Giving::ask, Giving::give, &client};
    mbr_holder_handle gives;
    ASSERT_EQ(MBR_OK, mbr_manager_create_holder(world.manager, &request, &gives, &world.error));
    ASSERT_EQ(MBR_OK, world.grow(rest.range, 0, 5 * kMiB));
    ASSERT_EQ(MBR_OK, world.grow(client.range, 0, kMiB));
    ASSERT_EQ(MBR_OK, world.grow(kept.range, 0, 2 * kMiB));
    ASSERT_EQ(MBR_OK, world.release(kept.range));
    ASSERT_EQ(kLimit, world.books().claimed_bytes);
    {
        Captures captures(world, GetParam());
        captures.begin();
        Waiter waiter(world, 3 * kMiB);
        EXPECT_EQ(MBR_TICKET_WAITING, waiter.state());
        EXPECT_EQ(0, client.call_count) << "in vain";
        captures.end();
        waiter.wait_and_return();
        EXPECT_EQ(1, client.call_count);
    }
    EXPECT_EQ(MBR_OK, world.release(rest.range));
    EXPECT_EQ(MBR_OK, mbr_manager_destroy_holder(world.manager, gives, &world.error));
}

/* Which has it whole, since it was made larger meanwhile. */
TEST(CapturedStore, OfAGraph_GivesNothingUntilThatIsRetired)
{
    HostWorld world(kLimit);
    SKIP_WITHOUT_HOST_MEMORY(world);
    Payer payer(world, MBR_ROLE_KV, "pages");
    auto request = paged_request(world, payer.handle);
    mbr_paged *store;
    ASSERT_EQ(MBR_OK, mbr_paged_create(world.manager, &request, &store, &world.error));
    Captures captures(world, false);
    captures.begin();
    ASSERT_EQ(MBR_OK, mbr_paged_end(store, begin_paged(world, store, kMiB), &world.error));
    captures.end();
    EXPECT_EQ(0u, mbr_paged_could_give(store, UINT64_MAX));
    EXPECT_EQ(0u, mbr_paged_give(store, UINT64_MAX));
    captures.retire();
    EXPECT_EQ(MBR_OK, world.drain());
    EXPECT_EQ(kMiB, mbr_paged_could_give(store, UINT64_MAX));
    EXPECT_EQ(kMiB, mbr_paged_give(store, UINT64_MAX));
    EXPECT_EQ(MBR_OK, mbr_paged_destroy(store, &world.error));
}

/* No handle names the generation that the store was made by; its pages are of it all the same. */
TEST(CapturedStore, OfABindingThatWasSwitched_GivesNothing)
{
    HostWorld world(kLimit);
    SKIP_WITHOUT_HOST_MEMORY(world);
    Payer payer(world, MBR_ROLE_KV, "pages");
    auto request = paged_request(world, payer.handle);
    mbr_paged *store;
    ASSERT_EQ(MBR_OK, mbr_paged_create(world.manager, &request, &store, &world.error));
    ASSERT_EQ(MBR_OK, mbr_paged_end(store, begin_paged(world, store, kMiB), &world.error));
    auto bind = world.bind_request();
    ASSERT_EQ(MBR_OK,
        mbr_manager_switch(world.manager, world.binding, &bind, &world.binding, &world.error));
    expect_held(
        world, payer, false, kMiB, [&] { return mbr_paged_could_give(store, UINT64_MAX); },
        [&] { return mbr_paged_give(store, UINT64_MAX); });
    EXPECT_EQ(MBR_OK, mbr_paged_destroy(store, &world.error));
}

/* The arena's own tier. */
TEST_P(Captured, SleepersArena_GivesNoChunks)
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
    expect_held(
        world, payer, GetParam(), kLarge,
        [&] { return mbr_sleeper_could_give(sleeper, UINT64_MAX); },
        [&] { return mbr_sleeper_give(sleeper, UINT64_MAX); });
    EXPECT_EQ(MBR_OK, mbr_sleeper_destroy(sleeper, kNever, &world.error));
    EXPECT_EQ(MBR_OK, world.release(range.range));
}

/* Of the host's own work alone: there is no stream that could not be asked. */
TEST_P(Captured, WorkspaceWithoutAStream_GivesNothing)
{
    HostWorld world(kLimit);
    Payer payer(world, MBR_ROLE_WORKSPACE, "workspace");
    auto request = sized<mbr_workspace_request>();
    request.binding = world.binding;
    request.holder = payer.handle;
    request.most_bytes[MBR_WORKSPACE_STEP] = kLimit;
    mbr_workspace *workspace;
    ASSERT_EQ(MBR_OK, mbr_workspace_create(world.manager, &request, &workspace, &world.error));
    uint64_t address;
    ASSERT_EQ(MBR_OK,
        mbr_workspace_take(
            workspace, MBR_WORKSPACE_STEP, 2 * kMiB, 0, &address, nullptr, &world.error));
    mbr_workspace_end(workspace, MBR_WORKSPACE_STEP);
    expect_held(
        world, payer, GetParam(), 2 * kMiB,
        [&] { return mbr_workspace_could_give(workspace, UINT64_MAX); },
        [&] { return mbr_workspace_give(workspace, UINT64_MAX); });
    EXPECT_EQ(MBR_OK, mbr_workspace_destroy(workspace, &world.error));
}

/* Of an EP whose streams are waited for as long as it takes, but for a capture. */
TEST(CapturedWeights, WhileAnotherEpOfTheDeviceCaptures_PageNothingOut)
{
    HostWorld world(kLimit);
    SKIP_WITHOUT_CPU_EP(world);
    Meanwhile later(world);
    later.be_patient();
    Payer payer(world, MBR_ROLE_WEIGHTS, "weights");
    std::vector<uint8_t> source(2 * kMiB, 3);
    mbr_weight item = {reinterpret_cast<uint64_t>(source.data()), source.size()};
    auto request = sized<mbr_weights_request>();
    request.item_count = 1;
    request.items = &item;
    request.binding = later.binding;
    request.holder = payer.handle;
    request.budget_bytes = source.size();
    mbr_weights *weights;
    ASSERT_EQ(MBR_OK, mbr_weights_create(world.manager, &request, &weights, &world.error));
    uint64_t address;
    ASSERT_EQ(MBR_OK, mbr_weights_use(weights, 0, later.stream, &address, nullptr, &world.error));
    mbr_weights_done(weights, 0, later.stream);
    expect_held(
        world, payer, false, 2 * kMiB, [&] { return mbr_weights_could_give(weights, UINT64_MAX); },
        [&] { return mbr_weights_give(weights, UINT64_MAX); });
    EXPECT_EQ(MBR_OK, mbr_weights_destroy(weights, &world.error));
}

TEST_P(Captured, Registry_EndsNoPrefix)
{
    HostWorld world(kLimit);
    Payer payer(world, MBR_ROLE_PREFIX, "prefixes");
    Kept kept(world, payer.handle);
    for (uint32_t i = 0; i < 2; i++)
        ASSERT_EQ(MBR_OK, kept.put(i));
    expect_held(
        world, payer, GetParam(), 2 * kEntry,
        [&] { return mbr_registry_could_give(kept.registry, UINT64_MAX); },
        [&] { return mbr_registry_give(kept.registry, UINT64_MAX); });
}

} // namespace
} // namespace membrane
