/* Holders that nobody wires, a ticket of somebody else, and what stands on a holder. */
#ifndef MEMBRANE_TESTS_UNIT_HOLDER_PRESSED_WORLD_H
#define MEMBRANE_TESTS_UNIT_HOLDER_PRESSED_WORLD_H

#include "tests/unit/bind/host_world.h"

#include <utility>
#include <vector>

namespace membrane
{

/* A holder without callbacks: whoever stands on it answers by itself. */
class Payer
{
  public:
    Payer(HostWorld &world, uint32_t role, const char *name) : world_(world)
    {
        auto request = world.holder_request(role, name);
        EXPECT_EQ(MBR_OK, mbr_manager_create_holder(world.manager, &request, &handle, &world.error))
            << world.error.text;
    }
    ~Payer()
    {
        EXPECT_EQ(MBR_OK, mbr_ep_drain(world_.manager, world_.ep, kNever, &world_.error));
        EXPECT_EQ(MBR_OK, mbr_manager_destroy_holder(world_.manager, handle, &world_.error))
            << world_.error.text;
    }
    mbr_holder_handle handle = {0};
    uint64_t leased()
    {
        mbr_holder_figures figures = world_.paid(handle);
        return figures.granted_bytes + figures.charged_bytes;
    }
    /* Since the last time. */
    uint64_t given()
    {
        uint64_t before = std::exchange(leased_, leased());
        return before - leased_;
    }

  private:
    HostWorld &world_;
    uint64_t leased_ = 0;
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
inline mbr_range_reserve_result fill(HostWorld &world, uint64_t limit = kLimit)
{
    EXPECT_EQ(MBR_OK, mbr_manager_trim(world.manager, world.mechanism, 0, nullptr, &world.error));
    uint64_t room = limit - world.books().claimed_bytes;
    auto range = world.reserve(limit, 64 * 1024);
    EXPECT_EQ(MBR_OK, world.grow(range.range, 0, room / (64 * 1024) * (64 * 1024)))
        << world.error.text;
    return range;
}

/* ---- Paged stores */

#define SKIP_WITHOUT_HOST_MEMORY(world)                                                            \
    if ((world).tier() != MBR_TIER_HOST)                                                           \
    GTEST_SKIP() << "a paged store is in memory that the processor reaches"

inline mbr_paged_request paged_request(HostWorld &world, mbr_holder_handle payer)
{
    auto request = sized<mbr_paged_request>();
    request.binding = world.binding;
    request.holder = payer;
    request.token_bytes = 4096;
    request.page_tokens = 4;
    request.extent_bytes = kMiB;
    request.max_pages = request.max_tokens = 1024;
    request.keep_bytes = UINT64_MAX;
    return request;
}

inline mbr_paged_sequence begin_paged(HostWorld &world, mbr_paged *store, uint64_t bytes)
{
    mbr_paged_sequence sequence = {0};
    EXPECT_EQ(MBR_OK, mbr_paged_begin(store, &sequence, &world.error));
    EXPECT_EQ(MBR_OK, mbr_paged_append(store, sequence, bytes / 4096, nullptr, &world.error))
        << world.error.text;
    return sequence;
}

/* Another authority of the same tier: what is saved there. */
class Elsewhere
{
  public:
    /* With a folder: a member of the ledger "saved" there. */
    Elsewhere(HostWorld &world, uint64_t limit, const char *shared_folder = nullptr) : world_(world)
    {
        auto request = sized<mbr_authority_request>();
        request.tier = MBR_TIER_HOST;
        request.name = "elsewhere";
        request.limit_bytes = limit;
        request.shared = shared_folder == nullptr ? nullptr : "saved";
        request.shared_folder = shared_folder;
        EXPECT_EQ(MBR_OK,
            mbr_manager_create_authority(world.manager, &request, &authority, &world.error));
        holder = create_holder("saved");
        auto bind = world.bind_request();
        bind.authority = authority;
        EXPECT_EQ(MBR_OK, mbr_manager_bind(world.manager, &bind, &binding, &world.error));
    }
    ~Elsewhere()
    {
        EXPECT_EQ(MBR_OK, world_.drain());
        EXPECT_EQ(MBR_OK, mbr_manager_unbind(world_.manager, binding, &world_.error))
            << world_.error.text;
        for (mbr_holder_handle each : holders_)
            EXPECT_EQ(MBR_OK, mbr_manager_destroy_holder(world_.manager, each, &world_.error));
        EXPECT_EQ(MBR_OK, mbr_manager_destroy_authority(world_.manager, authority, &world_.error));
    }
    mbr_holder_handle create_holder(
        const char *name, uint64_t allowance = MBR_NO_ALLOWANCE, uint32_t flags = 0)
    {
        auto request = world_.holder_request(MBR_ROLE_STAGING, name);
        request.authority = authority;
        request.allowance_bytes = allowance;
        request.flags = flags;
        holders_.emplace_back();
        EXPECT_EQ(MBR_OK,
            mbr_manager_create_holder(world_.manager, &request, &holders_.back(), &world_.error));
        return holders_.back();
    }
    void switch_binding()
    {
        auto bind = world_.bind_request();
        bind.authority = authority;
        mbr_binding_handle old = binding;
        EXPECT_EQ(MBR_OK, mbr_manager_switch(world_.manager, old, &bind, &binding, &world_.error));
    }
    uint64_t claimed()
    {
        auto books = sized<mbr_authority_figures>();
        EXPECT_EQ(
            MBR_OK, mbr_manager_read_authority(world_.manager, authority, &books, &world_.error));
        return books.claimed_bytes;
    }
    mbr_authority_handle authority = {0};
    mbr_holder_handle holder = {0};
    mbr_binding_handle binding = {0};

  private:
    HostWorld &world_;
    std::vector<mbr_holder_handle> holders_;
};

/* ---- Sleepers */

inline mbr_sleeper_request arena_request(
    HostWorld &world, mbr_holder_handle payer, uint64_t chunk_bytes)
{
    auto request = sized<mbr_sleeper_request>();
    request.arena = world.binding;
    request.holder = payer;
    request.chunk_bytes = chunk_bytes;
    request.keep_bytes = UINT64_MAX;
    return request;
}

/* The arena has free chunks then. */
inline void sleep_and_wake(HostWorld &world, mbr_sleeper *sleeper, uint64_t tag)
{
    auto sleep = sized<mbr_sleep_request>();
    sleep.level = MBR_SLEEP_KEEP;
    sleep.tag = tag;
    sleep.stream = world.stream;
    sleep.deadline_ns = kNever;
    auto slept = sized<mbr_sleep_result>();
    EXPECT_EQ(MBR_OK, mbr_sleeper_sleep(sleeper, &sleep, &slept, &world.error)) << world.error.text;
    EXPECT_EQ(0u, mbr_sleeper_could_give(sleeper, UINT64_MAX)) << "contents";
    auto wake = sized<mbr_wake_request>();
    wake.tag = tag;
    wake.stream = world.stream;
    wake.deadline_ns = kNever;
    auto woken = sized<mbr_wake_result>();
    EXPECT_EQ(MBR_OK, mbr_sleeper_wake(sleeper, &wake, &woken, &world.error)) << world.error.text;
}

/* ---- Prefix registries */

constexpr uint64_t kRow = 64 * 1024;
constexpr uint32_t kBlock = 4;
constexpr uint64_t kEntry = kBlock * kRow;

/* A KV cache whose prefixes `payer` pays for, all of them a registry's. */
class Kept
{
  public:
    Kept(HostWorld &world, mbr_holder_handle payer) : world_(world)
    {
        auto options = sized<mbr_registry_request>();
        options.block_tokens = kBlock;
        EXPECT_EQ(MBR_OK, mbr_registry_create(&options, &registry, &world.error));
        auto request = sized<mbr_kv_request>();
        request.binding = world.binding;
        request.holder = world.holder;
        request.prefix_holder = payer;
        request.geometry = "layers=1,heads=8,dim=4096,bytes=1,planes=2";
        request.layout = "token-major";
        request.max_tokens = 4 * kBlock;
        request.extent_bytes = kRow;
        EXPECT_EQ(MBR_OK, mbr_kv_create(world.manager, &request, &kv, &world.error))
            << world.error.text;
    }
    ~Kept()
    {
        EXPECT_EQ(MBR_OK, mbr_registry_destroy(registry, &world_.error)) << world_.error.text;
        EXPECT_EQ(MBR_OK, world_.drain());
        EXPECT_EQ(MBR_OK, mbr_kv_destroy(kv, &world_.error)) << world_.error.text;
    }
    mbr_status put(uint32_t first)
    {
        auto request = sized<mbr_sequence_request>();
        request.tokens = kBlock;
        mbr_sequence *source;
        mbr_kv_prefix *made;
        EXPECT_EQ(MBR_OK, mbr_sequence_create(kv, &request, &source, &world_.error))
            << world_.error.text;
        EXPECT_EQ(MBR_OK, mbr_kv_prefix_create(source, kBlock, &made, &world_.error))
            << world_.error.text;
        EXPECT_EQ(MBR_OK, mbr_sequence_destroy(source, nullptr, 0, &world_.error));
        std::vector<uint32_t> prompt(kBlock, first);
        mbr_status status =
            mbr_registry_put(registry, 0, prompt.data(), kBlock, made, &world_.error);
        if (status != MBR_OK) {
            EXPECT_EQ(MBR_OK, mbr_kv_prefix_destroy(made, &world_.error));
        }
        EXPECT_EQ(MBR_OK, world_.drain());
        return status;
    }
    mbr_registry_entry *find(uint32_t first)
    {
        std::vector<uint32_t> prompt(kBlock, first);
        auto match = sized<mbr_registry_match>();
        mbr_registry_find(registry, 0, prompt.data(), kBlock, &match);
        return match.entry;
    }
    mbr_registry *registry;
    mbr_kv *kv;

  private:
    HostWorld &world_;
};

} // namespace membrane

#endif
