// I21 above the ranges: small allocations out of slabs, large ones, and the eager memory of KV
// caches, through bindings of several isolation groups, by several holders, under two authorities
// of one mechanism. Whoever gets memory looks for what another group has written, and writes its
// own. On the plugin of the suite, and on one that has no virtual memory and clears nothing.
#include "tests/unit/bind/host_world.h"

#include <cstdlib>
#include <random>

namespace membrane
{
namespace
{

constexpr char kEager[] = "tests/support/libmembrane-eager.so";
constexpr uint64_t kWord = sizeof(uint64_t);
constexpr uint64_t kMark = UINT64_C(0x5AFE60D500000000); // and the group, and which world
constexpr uint64_t kLimit = 256 * kMiB;                  // slabs of every size for each tenant
constexpr uint32_t kGroupCount = 3;

// One group's way to memory: a binding under one of the authorities, and who pays.
struct Tenant {
    uint32_t group = 0;
    mbr_mechanism_handle mechanism = {0};
    mbr_binding_handle binding = {0};
    mbr_holder_handle holder = {0};
};

class Tenants : public HostWorld
{
  public:
    Tenants(const char *plugin, uint64_t keep_bytes) : HostWorld(kLimit, nullptr, plugin)
    {
        auto request = sized<mbr_authority_request>();
        request.tier = tier();
        request.name = "second";
        request.limit_bytes = kLimit;
        EXPECT_EQ(MBR_OK, mbr_manager_create_authority(manager, &request, &second, &error));
        for (mbr_authority_handle each : {authority, second})
            for (uint32_t group = 1; group <= kGroupCount; group++)
                tenants.push_back(make(mechanism, each, group, keep_bytes));
    }
    ~Tenants()
    {
        EXPECT_EQ(MBR_OK, drain());
        for (Tenant &each : tenants)
            EXPECT_EQ(MBR_OK, mbr_manager_unbind(manager, each.binding, &error)) << error.text;
        for (Tenant &each : tenants)
            EXPECT_EQ(MBR_OK, mbr_manager_destroy_holder(manager, each.holder, &error));
        EXPECT_EQ(MBR_OK, mbr_manager_destroy_authority(manager, second, &error)) << error.text;
    }

    // Of another group, on a mechanism that is opened once more.
    Tenant make_beside()
    {
        auto open = sized<mbr_mechanism_open_request>();
        open.plugin = plugin;
        mbr_mechanism_handle beside;
        EXPECT_EQ(MBR_OK, mbr_manager_open_mechanism(manager, &open, &beside, &error))
            << error.text;
        return make(beside, authority, 2, 0);
    }
    void end_beside(const Tenant &tenant)
    {
        EXPECT_EQ(MBR_OK, mbr_manager_unbind(manager, tenant.binding, &error)) << error.text;
        EXPECT_EQ(MBR_OK, mbr_manager_destroy_holder(manager, tenant.holder, &error));
        EXPECT_EQ(MBR_OK, mbr_manager_close_mechanism(manager, tenant.mechanism, &error))
            << error.text;
    }

    // Nothing there is another group's.
    void look(const Tenant &by, uint64_t address, uint64_t bytes)
    {
        std::vector<uint8_t> there = get(address, bytes / kWord * kWord);
        for (uint64_t at = 0; at < there.size(); at += kWord) {
            uint64_t word, group;
            std::memcpy(&word, &there[at], kWord);
            group = word ^ mark_;
            if (group == 0 || group > kGroupCount || group == by.group)
                continue;
            ADD_FAILURE() << "group " << by.group << " sees what group " << group << " wrote, at "
                          << at << " of " << bytes << " bytes";
            return;
        }
        looks++;
    }
    void write(const Tenant &by, uint64_t address, uint64_t bytes)
    {
        std::vector<uint8_t> own(bytes / kWord * kWord);
        uint64_t word = mark_ ^ by.group;
        for (uint64_t at = 0; at < own.size(); at += kWord)
            std::memcpy(&own[at], &word, kWord);
        put(address, own);
    }

    mbr_authority_handle second = {0};
    std::vector<Tenant> tenants;
    uint64_t looks = 0;

  private:
    // What the heap has of an earlier world is none of this one's.
    static uint64_t next_mark()
    {
        static uint64_t count;
        return kMark ^ ++count << 8;
    }
    const uint64_t mark_ = next_mark();

    Tenant make(
        mbr_mechanism_handle on, mbr_authority_handle under, uint32_t group, uint64_t keep_bytes)
    {
        Tenant made;
        made.group = group;
        made.mechanism = on;
        auto bind = bind_request();
        bind.mechanism = on;
        bind.authority = under;
        bind.isolation_group = group;
        bind.cache_keep_bytes = keep_bytes;
        EXPECT_EQ(MBR_OK, mbr_manager_bind(manager, &bind, &made.binding, &error)) << error.text;
        auto payer = holder_request(MBR_ROLE_KV, "tenant");
        payer.authority = under;
        EXPECT_EQ(MBR_OK, mbr_manager_create_holder(manager, &payer, &made.holder, &error));
        return made;
    }
};

struct Way {
    const char *name;
    const char *plugin; // NULL: the suite's
    uint64_t keep_bytes;
};

class Isolation : public ::testing::TestWithParam<Way>
{
  protected:
    Isolation() : world(GetParam().plugin, GetParam().keep_bytes) {}

    Tenants world;
};

// ---- Slabs and large allocations

struct Block {
    size_t tenant;
    mbr_allocation_handle allocation;
    uint64_t address, bytes;
};

class Blocks
{
  public:
    Blocks(Tenants &world, uint64_t seed) : world_(world), random_(seed) {}

    uint64_t between(uint64_t low, uint64_t high) { return low + random_() % (high - low + 1); }

    void take()
    {
        Block made = {between(0, world_.tenants.size() - 1), {0}, 0, 0};
        const Tenant &by = world_.tenants[made.tenant];
        auto request = sized<mbr_alloc_request>();
        request.binding = by.binding;
        request.holder = by.holder;
        request.stream = world_.stream;
        // Mostly small: many of one slab, whose neighbours live on.
        request.bytes =
            between(0, 15) == 0 ? between(1, 8) << 17 : UINT64_C(64) << 3 * between(0, 3);
        auto result = sized<mbr_alloc_result>();
        ASSERT_EQ(MBR_OK, mbr_alloc(world_.manager, &request, &result, &world_.error))
            << world_.error.text;
        made.allocation = result.allocation;
        made.address = result.address;
        made.bytes = result.usable_bytes;
        world_.look(by, made.address, made.bytes);
        world_.write(by, made.address, made.bytes);
        live_.push_back(made);
    }
    void give(size_t index, bool now)
    {
        Block gone = live_[index];
        live_[index] = live_.back();
        live_.pop_back();
        EXPECT_EQ(
            MBR_OK, now ? world_.free_now(gone.allocation) : world_.free_queued(gone.allocation))
            << world_.error.text;
    }
    void give_some(uint64_t keep)
    {
        while (live_.size() > keep)
            give(between(0, live_.size() - 1), between(0, 3) != 0);
    }
    // To the plugin, and to whoever asks next.
    void trim()
    {
        EXPECT_EQ(MBR_OK, world_.drain());
        EXPECT_EQ(
            MBR_OK, mbr_manager_trim(world_.manager, world_.mechanism, 0, nullptr, &world_.error));
    }

  private:
    Tenants &world_;
    std::mt19937_64 random_;
    std::vector<Block> live_;
};

TEST_P(Isolation, SmallAndLargeAllocations_NobodySeesAnotherGroupsBytes)
{
    const char *given = std::getenv("MEMBRANE_SEED");
    uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 20261130;
    SCOPED_TRACE("MEMBRANE_SEED=" + std::to_string(seed));
    Blocks blocks(world, seed);
    for (int round = 0; round < 24 && !HasFailure(); round++) {
        for (int i = 0; i < 50; i++)
            ASSERT_NO_FATAL_FAILURE(blocks.take());
        blocks.give_some(round % 4 == 3 ? 0 : blocks.between(0, 30));
        if (round % 2 == 1)
            blocks.trim();
    }
    blocks.give_some(0);
    EXPECT_EQ(24u * 50, world.looks);
}

// By turns, and all goes back to the plugin in between.
void pass_on(Tenants &world, const Tenant &first, const Tenant &other)
{
    constexpr uint64_t kBytes = 4 * kMiB; // no slab's, which a thread would keep
    ASSERT_NE(first.group, other.group);
    for (int round = 0; round < 8; round++) {
        for (const Tenant *by : {&first, &other}) {
            auto request = sized<mbr_alloc_request>();
            request.binding = by->binding;
            request.holder = by->holder;
            request.stream = world.stream;
            request.bytes = kBytes;
            auto result = sized<mbr_alloc_result>();
            ASSERT_EQ(MBR_OK, mbr_alloc(world.manager, &request, &result, &world.error))
                << world.error.text;
            // Whether the plugin's heap hands out what it was given is chance.
            if (by == &other || round > 0) {
                EXPECT_EQ(uint32_t{MBR_CONTENT_ZERO}, result.content);
            }
            world.look(*by, result.address, kBytes);
            world.write(*by, result.address, kBytes);
            ASSERT_EQ(MBR_OK, world.free_now(result.allocation));
            ASSERT_EQ(
                MBR_OK, mbr_manager_trim(world.manager, by->mechanism, 0, nullptr, &world.error));
        }
    }
}

// Two authorities keep books of their own over the one memory that the plugin has.
TEST_P(Isolation, GroupsUnderAuthoritiesOfTheirOwn_NeverShowEachOthersBytes)
{
    pass_on(world, world.tenants[0], world.tenants[kGroupCount + 1]);
}

// And so do two mechanisms of one device.
TEST_P(Isolation, GroupsOnMechanismsOfTheirOwn_NeverShowEachOthersBytes)
{
    Tenant other = world.make_beside();
    pass_on(world, world.tenants[0], other);
    world.end_beside(other);
}

// ---- KV caches on plain allocations

// A sequence's whole memory: rows of one layer, one behind the other.
struct Eager {
    Tenants &world;
    const Tenant &by;
    mbr_kv *kv = nullptr;
    mbr_sequence *sequence = nullptr;

    void open(uint32_t mode)
    {
        auto request = sized<mbr_kv_request>();
        request.binding = by.binding;
        request.holder = by.holder;
        request.geometry = "layers=1,heads=2,dim=64,bytes=2,planes=2";
        request.layout = "token-major";
        request.max_tokens = 512;
        request.mode = mode;
        ASSERT_EQ(MBR_OK, mbr_kv_create(world.manager, &request, &kv, &world.error))
            << world.error.text;
        auto begin = sized<mbr_sequence_request>();
        begin.tokens = 40;
        begin.stream = world.stream;
        ASSERT_EQ(MBR_OK, mbr_sequence_create(kv, &begin, &sequence, &world.error))
            << world.error.text;
    }
    void look_and_write()
    {
        auto rows = sized<mbr_sequence_figures>();
        auto cache = sized<mbr_kv_figures>();
        ASSERT_EQ(MBR_OK, mbr_sequence_read(sequence, &rows, &world.error));
        ASSERT_EQ(MBR_OK, mbr_kv_read(kv, &cache, &world.error));
        uint64_t address, bytes = rows.capacity_tokens * cache.token_bytes;
        ASSERT_EQ(MBR_OK, mbr_sequence_locate(sequence, 0, 0, 0, 0, 0, &address, &world.error));
        ASSERT_EQ(MBR_OK, mbr_ep_synchronize(world.manager, world.stream, kNever, &world.error));
        world.look(by, address, bytes);
        world.write(by, address, bytes);
    }
    void close()
    {
        ASSERT_EQ(MBR_OK, mbr_sequence_destroy(sequence, nullptr, 0, &world.error));
        ASSERT_EQ(MBR_OK, world.drain());
        ASSERT_EQ(MBR_OK, mbr_kv_destroy(kv, &world.error)) << world.error.text;
    }
};

TEST_P(Isolation, EagerKv_NeverShowsAnotherGroupsRows)
{
    for (int round = 0; round < 3; round++) {
        for (uint32_t mode : {MBR_KV_EAGER_WHOLE, MBR_KV_EAGER_COPY}) {
            for (const Tenant &by : world.tenants) {
                Eager one = {world, by};
                ASSERT_NO_FATAL_FAILURE(one.open(mode));
                ASSERT_NO_FATAL_FAILURE(one.look_and_write());
                for (uint64_t tokens : {30, 100, 300}) { // by copying: twice as large each time
                    ASSERT_EQ(
                        MBR_OK, mbr_sequence_append(one.sequence, tokens, nullptr, &world.error))
                        << world.error.text;
                    ASSERT_NO_FATAL_FAILURE(one.look_and_write());
                }
                ASSERT_NO_FATAL_FAILURE(one.close());
            }
        }
    }
    EXPECT_EQ(3u * 2 * world.tenants.size() * 4, world.looks);
}

INSTANTIATE_TEST_SUITE_P(Ways, Isolation,
    ::testing::Values(Way{"Kept", nullptr, UINT64_MAX}, Way{"GivenBack", nullptr, 0},
        Way{"EagerKept", kEager, UINT64_MAX}, Way{"EagerGivenBack", kEager, 0}),
    [](const ::testing::TestParamInfo<Way> &info) { return info.param.name; });

} // namespace
} // namespace membrane
