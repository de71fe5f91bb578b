// What a trim keeps and what it says it gave: in total over all arenas and backings of the
// mechanism, to the byte.
#include "tests/unit/bind/host_world.h"

#include "tests/support/faulty/faults.h"

#include <cstdio>
#include <vector>

namespace membrane
{
namespace
{

/* The system has less by what the trim says, at any watermark. */
uint64_t trim(HostWorld &world, uint64_t keep_bytes)
{
    uint64_t owned = world.figures().plugin_owned_bytes, released = 77;
    EXPECT_EQ(MBR_OK,
        mbr_manager_trim(world.manager, world.mechanism, keep_bytes, &released, &world.error));
    EXPECT_EQ(owned - world.figures().plugin_owned_bytes, released);
    EXPECT_TRUE(world.clean());
    return released;
}

void make_idle_slabs(HostWorld &world)
{
    std::vector<mbr_alloc_result> blocks;
    for (int i = 0; i < 64; i++)
        blocks.push_back(world.alloc(kMiB / 4));
    for (const auto &block : blocks)
        EXPECT_EQ(MBR_OK, world.free_now(block.allocation));
}

TEST(Trim, IdleSlabs_StayUpToWhatIsKept)
{
    for (const char *plugin : {(const char *)nullptr, "tests/support/libmembrane-eager.so"}) {
        HostWorld world(64 * kMiB, nullptr, plugin);
        make_idle_slabs(world);
        uint64_t owned = world.figures().plugin_owned_bytes;
        ASSERT_LE(16 * kMiB, owned);
        EXPECT_EQ(0u, trim(world, owned));
        uint64_t kept = world.figures().plugin_owned_bytes;
        EXPECT_LE(owned / 4, owned - trim(world, owned / 2)); /* whole slabs, not all of them */
        EXPECT_GE(owned / 2, world.figures().plugin_owned_bytes);
        EXPECT_EQ(owned, kept);
        trim(world, 0);
        EXPECT_EQ(0u, world.figures().plugin_owned_bytes);
    }
}

TEST(Trim, GrowthThatLacksBytes_HasTheIdleSlabsGiven)
{
    HostWorld world;
    make_idle_slabs(world);
    ASSERT_LE(16 * kMiB, world.figures().plugin_owned_bytes);
    auto range = world.reserve(64 * kMiB, 2 * kMiB);
    EXPECT_EQ(MBR_OK, world.grow(range.range, 0, 64 * kMiB)) << world.error.text;
    EXPECT_TRUE(world.clean());
    EXPECT_EQ(MBR_OK, world.release(range.range));
}

TEST(Trim, BelowAWatermark_SaysWhatTheWatermarkGaveToo)
{
    HostWorld world;
    auto request = world.bind_request();
    request.cache_keep_bytes = 4 * kMiB;
    mbr_binding_handle first = world.binding;
    ASSERT_EQ(MBR_OK, mbr_manager_bind(world.manager, &request, &world.binding, &world.error));
    make_idle_slabs(world);
    ASSERT_NE(0u, world.figures().plugin_owned_bytes);
    trim(world, 0);
    EXPECT_EQ(0u, world.figures().plugin_owned_bytes);
    EXPECT_EQ(MBR_OK, mbr_manager_unbind(world.manager, world.binding, &world.error));
    world.binding = first;
}

/* A range that grows and is released, again and again: with nothing kept its extents are made and
 * destroyed each time, which the count of slots shows; with a watermark above it they are made
 * once.
 */
TEST(Trim, WatermarkOfZero_IsAStormThatTheCountersShow)
{
    uint64_t calls[2];
    for (int kept : {0, 1}) {
        HostWorld world;
        auto request = world.bind_request();
        request.cache_keep_bytes = kept != 0 ? 32 * kMiB : 0;
        EXPECT_EQ(MBR_OK, mbr_manager_unbind(world.manager, world.binding, &world.error));
        ASSERT_EQ(MBR_OK, mbr_manager_bind(world.manager, &request, &world.binding, &world.error));
        auto round = [&] {
            auto range = world.reserve(16 * kMiB);
            EXPECT_EQ(MBR_OK, world.grow(range.range, 0, 16 * kMiB));
            EXPECT_EQ(MBR_OK, world.release(range.range));
        };
        round();
        EXPECT_EQ(kept != 0 ? 16 * kMiB : 0, world.figures().plugin_owned_bytes);
        uint64_t before = world.figures().call_count;
        for (int i = 0; i < 10; i++)
            round();
        calls[kept] = world.figures().call_count - before;
    }
    EXPECT_LE(10 * 4u, calls[0]); /* of each round: create and map, unmap and destroy */
    EXPECT_LT(calls[1] * 2, calls[0]);
}

TEST(Trim, AfterADriverSaidOutOfMemory_GrowthIsTriedAgain)
{
    faulty_plan plan = {};
    plan.fail_from[FAULTY_EXTENT_CREATE] = 1;
    plan.fail_count[FAULTY_EXTENT_CREATE] = 1;
    plan.status = MBR_OUT_OF_MEMORY;
    char text[32];
    std::snprintf(text, sizeof(text), "%llx",
        static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(&plan)));
    const mbr_clock stopped = {[](void *) -> uint64_t { return 1; }, nullptr};
    const mbr_manager_seams seams = {
        nullptr, &stopped, nullptr, nullptr, nullptr}; /* no sample is due by time */
    HostWorld world(64 * kMiB, &seams, "tests/support/libmembrane-faulty.so", {{"faults", text}});
    auto range = world.reserve(8 * kMiB);
    ASSERT_EQ(MBR_OUT_OF_MEMORY, world.grow(range.range, 0, kMiB));
    ASSERT_EQ(MBR_OVER_BUDGET, world.grow(range.range, 0, kMiB));
    trim(world, 0);
    EXPECT_EQ(MBR_OK, world.grow(range.range, 0, kMiB)) << world.error.text;
    EXPECT_EQ(1u, plan.met);
    EXPECT_EQ(MBR_OK, world.release(range.range));
}

/* Of an allocation that the plugin makes whole, only what is missing is asked of other caches. */
TEST(Trim, AllocationThatLacksBytes_AsksOtherCachesForThoseAlone)
{
    HostWorld world(32 * kMiB, nullptr, "tests/support/libmembrane-eager.so");
    struct Cache {
        HostWorld *world;
        mbr_holder_handle holder;
        uint64_t asked;
    } cache = {&world, {0}, 0};
    auto request = world.holder_request(MBR_ROLE_CACHE, "cache");
    request.pressed.context = &cache;
    request.pressed.ask = [](void *context, const mbr_pressure *pressure) -> uint64_t {
        static_cast<Cache *>(context)->asked = pressure->bytes;
        return 8 * kMiB;
    };
    request.pressed.give = [](void *context, const mbr_pressure *, uint64_t) {
        auto *own = static_cast<Cache *>(context);
        mbr_manager_return_aside(own->world->manager, own->holder, nullptr, nullptr);
    };
    ASSERT_EQ(
        MBR_OK, mbr_manager_create_holder(world.manager, &request, &cache.holder, &world.error));
    auto wish = sized<mbr_ticket_request>();
    wish.holder = cache.holder;
    wish.bytes = 8 * kMiB;
    wish.timeout_ns = MBR_NO_DEADLINE;
    mbr_ticket_handle ticket;
    ASSERT_EQ(
        MBR_OK, mbr_manager_submit_ticket(world.manager, &wish, &ticket, nullptr, &world.error));
    ASSERT_EQ(MBR_OK, mbr_manager_claim_ticket(world.manager, ticket, &world.error));
    ASSERT_EQ(MBR_OK, mbr_manager_end_ticket(world.manager, ticket, &world.error));
    mbr_status status;
    auto made = world.alloc(28 * kMiB, &status); /* 24 are free, and the cache has 8 */
    ASSERT_EQ(MBR_OK, status) << world.error.text;
    EXPECT_EQ(4 * kMiB, cache.asked);
    EXPECT_EQ(MBR_OK, world.free_now(made.allocation));
    trim(world, 0);
    EXPECT_EQ(MBR_OK, mbr_manager_destroy_holder(world.manager, cache.holder, &world.error));
}

TEST(Trim, OfTwoAuthorities_KeepsTheBytesInTotal)
{
    HostWorld world;
    auto authority_request = sized<mbr_authority_request>();
    authority_request.tier = world.tier();
    authority_request.name = "other";
    authority_request.limit_bytes = 64 * kMiB;
    mbr_authority_handle authority, first_authority = world.authority;
    ASSERT_EQ(MBR_OK,
        mbr_manager_create_authority(world.manager, &authority_request, &authority, &world.error));
    auto holder_request = world.holder_request(MBR_ROLE_KV, "other");
    holder_request.authority = authority;
    mbr_holder_handle holder, first_holder = world.holder;
    ASSERT_EQ(
        MBR_OK, mbr_manager_create_holder(world.manager, &holder_request, &holder, &world.error));
    mbr_binding_handle first_binding = world.binding;
    for (bool other : {false, true}) {
        if (other) {
            world.authority = authority;
            world.holder = holder;
            auto request = world.bind_request();
            ASSERT_EQ(
                MBR_OK, mbr_manager_bind(world.manager, &request, &world.binding, &world.error));
        }
        auto range = world.reserve(8 * kMiB, kMiB);
        ASSERT_EQ(MBR_OK, world.grow(range.range, 0, 8 * kMiB));
        ASSERT_EQ(MBR_OK, world.release(range.range));
    }
    EXPECT_EQ(10 * kMiB, trim(world, 6 * kMiB));
    EXPECT_EQ(6 * kMiB, world.figures().plugin_owned_bytes);
    EXPECT_EQ(MBR_OK, mbr_manager_unbind(world.manager, world.binding, &world.error));
    EXPECT_EQ(MBR_OK, mbr_manager_destroy_holder(world.manager, holder, &world.error));
    EXPECT_EQ(MBR_OK, mbr_manager_destroy_authority(world.manager, authority, &world.error));
    world.binding = first_binding;
    world.holder = first_holder;
    world.authority = first_authority;
}

} // namespace
} // namespace membrane
