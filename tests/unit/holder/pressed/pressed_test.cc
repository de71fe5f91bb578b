// A ticket of somebody else is served by what each kind of holder can give, in the stated order;
// one whose bytes are in use, pinned or in flight gives none, and the ticket waits until it can.
#include "tests/unit/bind/host_world.h"

#include <functional>

namespace membrane
{
namespace
{

/* A holder that answers through functions that the test sets later. */
class Asked
{
  public:
    Asked(HostWorld &world, uint32_t role, const char *name) : world_(world)
    {
        auto request = sized<mbr_holder_request>();
        request.role = role;
        request.authority = world.authority;
        request.name = name;
        request.allowance_bytes = MBR_NO_ALLOWANCE;
        request.pressed.ask = [](void *self, const mbr_pressure *pressure) {
            auto *it = static_cast<Asked *>(self);
            return it->could_give ? it->could_give(pressure->bytes) : 0;
        };
        request.pressed.give = [](void *self, const mbr_pressure *, uint64_t bytes) {
            static_cast<Asked *>(self)->given += static_cast<Asked *>(self)->give(bytes);
        };
        request.pressed.context = this;
        EXPECT_EQ(MBR_OK, mbr_manager_create_holder(world.manager, &request, &handle, &world.error))
            << world.error.text;
    }
    ~Asked()
    {
        EXPECT_EQ(MBR_OK, mbr_ep_drain(world_.manager, world_.ep, kNever, &world_.error));
        EXPECT_EQ(MBR_OK, mbr_manager_destroy_holder(world_.manager, handle, &world_.error))
            << world_.error.text;
    }
    mbr_holder_handle handle = {0};
    std::function<uint64_t(uint64_t)> could_give, give;
    uint64_t given = 0;

  private:
    HostWorld &world_;
};

/* The world's own holder waits for bytes. */
class Waiter
{
  public:
    Waiter(HostWorld &world, uint64_t bytes) : world_(world)
    {
        auto request = sized<mbr_ticket_request>();
        request.holder = world.holder;
        request.bytes = bytes;
        request.timeout_ns = UINT64_C(30000000000); /* a failure and not a hang */
        EXPECT_EQ(MBR_OK,
            mbr_manager_submit_ticket(world.manager, &request, &ticket_, nullptr, &world.error))
            << world.error.text;
    }
    ~Waiter() { EXPECT_EQ(MBR_OK, mbr_manager_end_ticket(world_.manager, ticket_, &world_.error)); }
    uint32_t state()
    {
        uint32_t state = MBR_TICKET_STATE_COUNT;
        EXPECT_EQ(MBR_OK, mbr_manager_read_ticket(world_.manager, ticket_, &state, &world_.error));
        return state;
    }
    /* Waiting asks the holders again. */
    void wait_and_return()
    {
        EXPECT_EQ(MBR_OK, mbr_manager_wait_ticket(world_.manager, ticket_, &world_.error))
            << world_.error.text;
        EXPECT_EQ(MBR_OK,
            mbr_manager_return_aside(world_.manager, world_.holder, nullptr, &world_.error));
    }

  private:
    HostWorld &world_;
    mbr_ticket_handle ticket_ = {0};
};

constexpr uint64_t kLimit = 8 * kMiB;

/* All but what the holder under test has. */
mbr_range_reserve_result fill(HostWorld &world, uint64_t limit = kLimit)
{
    EXPECT_EQ(MBR_OK, mbr_manager_trim(world.manager, world.mechanism, 0, nullptr, &world.error));
    uint64_t room = limit - world.books().claimed_bytes;
    auto range = world.reserve(limit, 64 * 1024);
    EXPECT_EQ(MBR_OK, world.grow(range.range, 0, room / (64 * 1024) * (64 * 1024)))
        << world.error.text;
    return range;
}

TEST(Pressed, Workspace_GivesWhatIsAboveItsStepToATicket)
{
    HostWorld world(kLimit);
    Asked asked(world, MBR_ROLE_WORKSPACE, "workspace");
    auto request = sized<mbr_workspace_request>();
    request.binding = world.binding;
    request.holder = asked.handle;
    request.stream = world.stream;
    request.most_bytes[MBR_WORKSPACE_STEP] = kLimit;
    request.unit_bytes = 64 * 1024;
    mbr_workspace *workspace;
    ASSERT_EQ(MBR_OK, mbr_workspace_create(world.manager, &request, &workspace, &world.error));
    asked.could_give = [&](uint64_t n) { return mbr_workspace_could_give(workspace, n); };
    asked.give = [&](uint64_t n) { return mbr_workspace_give(workspace, n); };
    uint64_t address;
    auto take = [&](uint64_t bytes) {
        return mbr_workspace_take(
            workspace, MBR_WORKSPACE_STEP, bytes, 0, &address, nullptr, &world.error);
    };
    ASSERT_EQ(MBR_OK, take(4 * kMiB));
    auto rest = fill(world);
    {
        Waiter waiter(world, 2 * kMiB);
        EXPECT_EQ(MBR_TICKET_WAITING, waiter.state()) << "all of it is taken";
        EXPECT_EQ(0u, asked.given);
        mbr_workspace_end(workspace, MBR_WORKSPACE_STEP);
        ASSERT_EQ(MBR_OK, take(kMiB));
        waiter.wait_and_return();
        EXPECT_LE(2 * kMiB, asked.given);
        EXPECT_TRUE(world.clean());
    }
    EXPECT_EQ(MBR_OK, mbr_workspace_destroy(workspace, &world.error));
    EXPECT_EQ(MBR_OK, world.release(rest.range));
}

TEST(Pressed, Weights_GiveItemsThatNobodyUsesToATicket)
{
    HostWorld world(kLimit);
    Asked asked(world, MBR_ROLE_WEIGHTS, "weights");
    std::vector<std::vector<uint8_t>> sources(4, std::vector<uint8_t>(kMiB, 3));
    std::vector<mbr_weight> items;
    for (auto &source : sources)
        items.push_back({reinterpret_cast<uint64_t>(source.data()), source.size()});
    auto request = sized<mbr_weights_request>();
    request.item_count = 4;
    request.items = items.data();
    request.binding = world.binding;
    request.holder = asked.handle;
    request.budget_bytes = 4 * kMiB;
    mbr_weights *weights;
    ASSERT_EQ(MBR_OK, mbr_weights_create(world.manager, &request, &weights, &world.error));
    asked.could_give = [&](uint64_t n) { return mbr_weights_could_give(weights, n); };
    asked.give = [&](uint64_t n) { return mbr_weights_give(weights, n); };
    uint64_t address;
    for (uint32_t i = 0; i < 4; i++)
        ASSERT_EQ(
            MBR_OK, mbr_weights_use(weights, i, world.stream, &address, nullptr, &world.error))
            << world.error.text;
    auto rest = fill(world);
    {
        Waiter waiter(world, kMiB);
        EXPECT_EQ(MBR_TICKET_WAITING, waiter.state()) << "all are used";
        EXPECT_EQ(0u, asked.given);
        for (uint32_t i = 0; i < 3; i++)
            mbr_weights_done(weights, i, world.stream);
        waiter.wait_and_return();
        EXPECT_LE(kMiB, asked.given);
        EXPECT_TRUE(world.clean());
    }
    mbr_weights_done(weights, 3, world.stream);
    EXPECT_EQ(MBR_OK, mbr_weights_destroy(weights, &world.error));
    EXPECT_EQ(MBR_OK, world.release(rest.range));
}

TEST(Pressed, KernelCache_IsAskedFirstAndGivesWhatItsRoleSays)
{
    HostWorld world(kLimit);
    Asked asked(world, MBR_ROLE_CACHE, "kernel caches");
    auto request = sized<mbr_kernel_cache_request>();
    request.holder = asked.handle;
    request.drop = [](void *, uint64_t) {};
    mbr_kernel_cache *cache;
    ASSERT_EQ(MBR_OK, mbr_kernel_cache_create(world.manager, &request, &cache, &world.error));
    for (uint64_t key = 1; key <= 2; key++)
        ASSERT_EQ(MBR_OK, mbr_kernel_cache_declare(cache, key, 2 * kMiB, nullptr, &world.error));
    auto rest = fill(world);
    asked.could_give = [&](uint64_t n) { return mbr_kernel_cache_could_give(cache, n); };
    asked.give = [&](uint64_t n) { return mbr_kernel_cache_give(cache, n); };
    {
        Waiter waiter(world, 2 * kMiB);
        EXPECT_EQ(MBR_TICKET_WAITING, waiter.state()) << "both are used";
        mbr_kernel_cache_release(cache, 2, {0});
        waiter.wait_and_return();
        EXPECT_EQ(2 * kMiB, asked.given);
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
    Asked asked(world, MBR_ROLE_STAGING, "arena");
    auto request = sized<mbr_sleeper_request>();
    request.arena = world.binding;
    request.holder = asked.handle;
    request.chunk_bytes = kLarge;
    request.keep_bytes = UINT64_MAX;
    mbr_sleeper *sleeper;
    ASSERT_EQ(MBR_OK, mbr_sleeper_create(world.manager, &request, &sleeper, &world.error));
    asked.could_give = [&](uint64_t n) { return mbr_sleeper_could_give(sleeper, n); };
    asked.give = [&](uint64_t n) { return mbr_sleeper_give(sleeper, n); };
    auto range = world.reserve(kMiB, 64 * 1024);
    ASSERT_EQ(MBR_OK, world.grow(range.range, 0, kMiB));
    ASSERT_EQ(MBR_OK, mbr_sleeper_add(sleeper, range.range, world.holder, 1, &world.error));
    auto sleep = sized<mbr_sleep_request>();
    sleep.level = MBR_SLEEP_KEEP;
    sleep.tag = 1;
    sleep.stream = world.stream;
    sleep.deadline_ns = kNever;
    auto slept = sized<mbr_sleep_result>();
    ASSERT_EQ(MBR_OK, mbr_sleeper_sleep(sleeper, &sleep, &slept, &world.error)) << world.error.text;
    EXPECT_EQ(0u, asked.could_give(kRoom)) << "contents";
    auto wake = sized<mbr_wake_request>();
    wake.tag = 1;
    wake.stream = world.stream;
    wake.deadline_ns = kNever;
    auto woken = sized<mbr_wake_result>();
    ASSERT_EQ(MBR_OK, mbr_sleeper_wake(sleeper, &wake, &woken, &world.error)) << world.error.text;
    auto rest = fill(world, kRoom);
    {
        Waiter waiter(world, kLarge / 2);
        waiter.wait_and_return();
        EXPECT_EQ(kLarge, asked.given);
        EXPECT_TRUE(world.clean());
    }
    EXPECT_EQ(MBR_OK, mbr_sleeper_destroy(sleeper, kNever, &world.error));
    EXPECT_EQ(MBR_OK, world.release(range.range));
    EXPECT_EQ(MBR_OK, world.release(rest.range));
}

} // namespace
} // namespace membrane
