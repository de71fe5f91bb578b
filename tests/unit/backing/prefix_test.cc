// Sharing: charged once, read-only, alive until the last user in any order, the bill moves to a
// survivor (I8); an attach is one transaction.
#include "tests/unit/backing/world.h"

#include <algorithm>
#include <vector>

namespace membrane
{
namespace
{

constexpr mbr_growth kFour = {4 * kGranule, 4 * kGranule, 0};

mbr_prefix *make(World &world, mbr_range *source, uint64_t bytes,
    mbr_prefix_result *result = nullptr, mbr_error *error = nullptr)
{
    mbr_range_part part = {source, 0, 0, bytes};
    mbr_prefix_result ignored = {};
    ignored.struct_size = sizeof(ignored);
    mbr_prefix *prefix = nullptr;
    mbr_backing_make_prefix(world.backing, &part, 1, world.prefix, &prefix,
        result != nullptr ? result : &ignored, error);
    return prefix;
}

mbr_status attach(World &world, mbr_prefix *prefix, mbr_range *target,
    mbr_prefix_attach_result *result = nullptr, const uint64_t *limit = nullptr)
{
    mbr_prefix_attach_result ignored = {};
    ignored.struct_size = sizeof(ignored);
    return mbr_prefix_map_into(
        prefix, &target, 1, limit, world.kv, result != nullptr ? result : &ignored, nullptr);
}

TEST(Prefix, WholeExtentsInside_AreSharedAndPaidOnce)
{
    World world;
    mbr_range *source = world.reserve(64 * kGranule, kFour);
    ASSERT_EQ(MBR_OK, world.grow(source, 0, 12 * kGranule));
    mbr_prefix_result result = {};
    result.struct_size = sizeof(result);
    mbr_prefix *prefix = make(world, source, 10 * kGranule, &result);
    ASSERT_NE(nullptr, prefix);
    EXPECT_EQ(2u, result.extent_count);
    EXPECT_EQ(8 * kGranule, result.shared_bytes);
    EXPECT_EQ(2 * kGranule, result.boundary_bytes);
    EXPECT_EQ(8 * kGranule, world.charged(world.prefix));
    EXPECT_EQ(4 * kGranule, world.charged(world.kv));

    mbr_range *sharer = world.reserve(64 * kGranule, kFour);
    mbr_prefix_attach_result attached = {};
    attached.struct_size = sizeof(attached);
    ASSERT_EQ(MBR_OK, attach(world, prefix, sharer, &attached));
    EXPECT_EQ(8 * kGranule, attached.shared_bytes);
    EXPECT_EQ(12 * kGranule, world.fake.owned()); /* the n-th sharer adds 0 */
    EXPECT_EQ(world.fake.extent_at(mbr_range_address(source)),
        world.fake.extent_at(mbr_range_address(sharer)));
    EXPECT_EQ(
        static_cast<uint32_t>(MBR_ACCESS_READ), world.fake.access_at(mbr_range_address(sharer)));
    EXPECT_EQ(static_cast<uint32_t>(MBR_ACCESS_READ_WRITE),
        world.fake.access_at(mbr_range_address(source)));
    EXPECT_TRUE(mbr_range_is_committed_to(sharer, 8 * kGranule));
    EXPECT_EQ(8 * kGranule, world.figures(sharer).shared_bytes);
    /* Divergence is private growth behind the prefix. */
    ASSERT_EQ(MBR_OK, world.grow(sharer, 0, 11 * kGranule));
    EXPECT_EQ(16 * kGranule, world.fake.owned());
    EXPECT_TRUE(world.agree());
    world.end(sharer);
    world.end(source);
    mbr_prefix_end(prefix);
    EXPECT_TRUE(world.agree());
}

TEST(Prefix, AnyOrderOfEnds_LastOneReturnsIt)
{
    std::vector<int> order = {0, 1, 2, 3}; /* source, prefix, two sharers */
    do {
        World world;
        mbr_range *source = world.reserve(64 * kGranule, kFour);
        ASSERT_EQ(MBR_OK, world.grow(source, 0, 8 * kGranule));
        mbr_prefix *prefix = make(world, source, 8 * kGranule);
        mbr_range *sharers[2];
        for (auto &sharer : sharers) {
            sharer = world.reserve(64 * kGranule, kFour);
            ASSERT_EQ(MBR_OK, attach(world, prefix, sharer));
        }
        for (size_t i = 0; i < order.size(); i++) {
            EXPECT_EQ(8 * kGranule, world.fake.owned());
            bool prefix_lives =
                std::find(order.begin() + static_cast<long>(i), order.end(), 1) != order.end();
            EXPECT_EQ(prefix_lives ? 8 * kGranule : 0, world.charged(world.prefix));
            EXPECT_EQ(prefix_lives ? 0 : 8 * kGranule, world.charged(world.kv));
            EXPECT_TRUE(world.agree());
            switch (order[i]) {
            case 0:
                world.end(source);
                break;
            case 1:
                mbr_prefix_end(prefix);
                break;
            default:
                world.end(sharers[order[i] - 2]);
                break;
            }
        }
        EXPECT_EQ(0u, world.charged(world.kv));
        EXPECT_EQ(0u, world.charged(world.prefix));
        EXPECT_EQ(8 * kGranule, world.cached());
        EXPECT_TRUE(world.agree());
    } while (std::next_permutation(order.begin(), order.end()));
}

/* I8: who is left cannot refuse the bill, and gets nothing more until it is below its allowance. */
TEST(Prefix, SurvivorPastItsAllowance_PaysAllTheSame)
{
    World world;
    mbr_holder *poor = nullptr;
    mbr_holder_options options = {"poor", MBR_ROLE_KV, 2 * kGranule, false, {}};
    ASSERT_EQ(MBR_OK, mbr_holder_create(world.authority, &options, &poor, nullptr));
    mbr_range *source = world.reserve(64 * kGranule, kFour);
    ASSERT_EQ(MBR_OK, world.grow(source, 0, 8 * kGranule));
    mbr_prefix *prefix = make(world, source, 8 * kGranule);
    mbr_range *sharer = world.reserve(64 * kGranule, kFour);
    mbr_prefix_attach_result result = {};
    result.struct_size = sizeof(result);
    ASSERT_EQ(MBR_OK, mbr_prefix_map_into(prefix, &sharer, 1, nullptr, poor, &result, nullptr));
    world.end(source);
    EXPECT_EQ(0u, world.charged(poor));
    mbr_prefix_end(prefix);
    mbr_holder_figures bill = {};
    bill.struct_size = sizeof(bill);
    mbr_holder_figures_read(poor, &bill);
    EXPECT_EQ(8 * kGranule, bill.charged_bytes);
    EXPECT_EQ(6 * kGranule, bill.oversubscribed_bytes);
    EXPECT_EQ(8 * kGranule, world.fake.owned());
    EXPECT_TRUE(world.agree());
    mbr_range_part part = {sharer, 0, 8 * kGranule, 4 * kGranule};
    mbr_grow_options by_it = {};
    by_it.holder = poor;
    EXPECT_EQ(MBR_OVER_BUDGET, world.grow_with(by_it, part));
    EXPECT_TRUE(mbr_range_is_committed_to(sharer, 8 * kGranule));
    world.end(sharer);
    EXPECT_EQ(0u, world.charged(poor));
    EXPECT_TRUE(world.agree());
    EXPECT_EQ(MBR_OK, mbr_holder_destroy(poor, nullptr));
}

TEST(Prefix, HeldAlone_CanBeMappedAgain)
{
    World world;
    mbr_range *source = world.reserve(64 * kGranule, kFour);
    ASSERT_EQ(MBR_OK, world.grow(source, 0, 8 * kGranule));
    mbr_prefix *prefix = make(world, source, 8 * kGranule);
    world.end(source);
    EXPECT_EQ(8 * kGranule, world.kept().held_bytes);
    EXPECT_EQ(0u, world.fake.mappings());
    mbr_range *sharer = world.reserve(64 * kGranule, kFour);
    ASSERT_EQ(MBR_OK, attach(world, prefix, sharer));
    EXPECT_EQ(
        static_cast<uint32_t>(MBR_ACCESS_READ), world.fake.access_at(mbr_range_address(sharer)));
    EXPECT_EQ(0u, world.kept().held_bytes);
    EXPECT_TRUE(world.agree());
    mbr_prefix_end(prefix);
    EXPECT_EQ(8 * kGranule, world.charged(world.kv)); /* the survivor pays */
    world.end(sharer);
    EXPECT_TRUE(world.agree());
}

TEST(Prefix, Limit_SharesOnlyWholeExtentsBeforeIt)
{
    World world;
    mbr_range *source = world.reserve(64 * kGranule, kFour);
    ASSERT_EQ(MBR_OK, world.grow(source, 0, 16 * kGranule));
    mbr_prefix *prefix = make(world, source, 16 * kGranule);
    mbr_range *sharer = world.reserve(64 * kGranule, kFour);
    uint64_t limit = 11 * kGranule;
    mbr_prefix_attach_result result = {};
    result.struct_size = sizeof(result);
    ASSERT_EQ(MBR_OK, attach(world, prefix, sharer, &result, &limit));
    EXPECT_EQ(8 * kGranule, result.shared_bytes);
    world.end(sharer);
    world.end(source);
    mbr_prefix_end(prefix);
    EXPECT_TRUE(world.agree());
}

TEST(Prefix, ParkedInTheWay_IsMovedOut)
{
    World world;
    mbr_range *source = world.reserve(64 * kGranule, kFour);
    ASSERT_EQ(MBR_OK, world.grow(source, 0, 8 * kGranule));
    mbr_prefix *prefix = make(world, source, 8 * kGranule);
    mbr_range *former = world.reserve(64 * kGranule, kFour);
    ASSERT_EQ(MBR_OK, world.grow(former, 0, 8 * kGranule));
    world.end(former);
    mbr_range *sharer = world.reserve(64 * kGranule, kFour); /* adopts the parked one */
    EXPECT_EQ(8 * kGranule, world.figures(sharer).parked_bytes);
    ASSERT_EQ(MBR_OK, attach(world, prefix, sharer));
    EXPECT_EQ(8 * kGranule, world.kept().pooled_bytes);
    EXPECT_TRUE(world.agree());
    world.end(sharer);
    world.end(source);
    mbr_prefix_end(prefix);
}

TEST(Prefix, Refusals_NameTheReason)
{
    World world;
    mbr_error error = {};
    error.struct_size = sizeof(error);
    mbr_range *source = world.reserve(64 * kGranule, kFour);
    ASSERT_EQ(MBR_OK, world.grow(source, 0, 8 * kGranule));
    EXPECT_EQ(nullptr, make(world, source, 3 * kGranule, nullptr, &error));
    EXPECT_EQ(MBR_INVALID_ARGUMENT, error.status);
    EXPECT_NE(nullptr, std::strstr(error.text, "16384")); /* from which length on it works */
    EXPECT_EQ(nullptr, make(world, source, 12 * kGranule, nullptr, &error));
    EXPECT_NE(nullptr, std::strstr(error.text, "not committed"));
    EXPECT_EQ(nullptr, make(world, source, UINT64_MAX, nullptr, &error));
    EXPECT_EQ(MBR_OUT_OF_RANGE, error.status);

    mbr_prefix *prefix = make(world, source, 8 * kGranule);
    mbr_range *other_rule = world.reserve(64 * kGranule);
    EXPECT_EQ(MBR_INVALID_ARGUMENT, attach(world, prefix, other_rule));
    mbr_range *other_group = world.reserve(64 * kGranule, kFour, 0, 7);
    EXPECT_EQ(MBR_INVALID_ARGUMENT, attach(world, prefix, other_group));
    mbr_range *committed = world.reserve(64 * kGranule, kFour);
    ASSERT_EQ(MBR_OK, world.grow(committed, 0, kGranule));
    uint64_t calls = world.fake.all_calls();
    EXPECT_EQ(MBR_ALREADY_EXISTS, attach(world, prefix, committed));
    EXPECT_EQ(calls, world.fake.all_calls());
    EXPECT_TRUE(world.agree());
    world.end(other_rule);
    world.end(other_group);
    world.end(committed);
    world.end(source);
    EXPECT_EQ(nullptr, make(world, source, 8 * kGranule, nullptr, &error)); /* dead */
    mbr_prefix_end(prefix);

    auto *mechanism = world.mechanism();
    mechanism->has_shared = false;
    EXPECT_EQ(nullptr, make(world, source, 8 * kGranule, nullptr, &error));
    EXPECT_EQ(MBR_UNSUPPORTED, error.status);
}

/* S103: nothing is called for it, and the target can still be used for what fits. */
TEST(Prefix, MisalignedForeignOrDead_IsRefusedAndTheTargetIsUnchanged)
{
    World world, elsewhere; /* another device, under another authority */
    mbr_error error = {};
    error.struct_size = sizeof(error);
    mbr_range *source = world.reserve(64 * kGranule, kFour);
    ASSERT_EQ(MBR_OK, world.grow(source, 0, 8 * kGranule));
    mbr_range_part off = {source, 0, kGranule, 4 * kGranule}; /* no whole extent lies inside */
    mbr_range_part parts[] = {{source, 0, 0, 4 * kGranule}, {nullptr, 0, 0, 4 * kGranule}};
    mbr_range *foreign = elsewhere.reserve(64 * kGranule, kFour);
    ASSERT_EQ(MBR_OK, elsewhere.grow(foreign, 0, 4 * kGranule));
    parts[1].range = foreign;
    mbr_prefix *none = nullptr;
    mbr_prefix_result result = {};
    result.struct_size = sizeof(result);
    EXPECT_EQ(MBR_INVALID_ARGUMENT,
        mbr_backing_make_prefix(world.backing, &off, 1, world.prefix, &none, &result, &error));
    EXPECT_NE(nullptr, std::strstr(error.text, "no whole extent")) << error.text;
    EXPECT_EQ(MBR_INVALID_ARGUMENT,
        mbr_backing_make_prefix(world.backing, parts, 2, world.prefix, &none, &result, &error));
    EXPECT_NE(nullptr, std::strstr(error.text, "another device or authority")) << error.text;

    mbr_prefix *prefix = make(world, source, 8 * kGranule);
    mbr_range *target = elsewhere.reserve(64 * kGranule, kFour);
    mbr_range *dead = world.reserve(64 * kGranule, kFour);
    ASSERT_EQ(MBR_OK, world.end(dead));
    uint64_t calls = world.fake.all_calls(), calls_elsewhere = elsewhere.fake.all_calls();
    EXPECT_EQ(MBR_INVALID_ARGUMENT, attach(world, prefix, target));
    EXPECT_EQ(MBR_STALE, attach(world, prefix, dead));
    EXPECT_EQ(calls, world.fake.all_calls());
    EXPECT_EQ(calls_elsewhere, elsewhere.fake.all_calls());
    EXPECT_EQ(0u, elsewhere.figures(target).committed_bytes);
    EXPECT_EQ(MBR_OK, elsewhere.grow(target, 0, 4 * kGranule));
    EXPECT_TRUE(world.agree());
    EXPECT_TRUE(elsewhere.agree());
    mbr_prefix_end(prefix);
    world.end(source);
    elsewhere.end(target);
    elsewhere.end(foreign);
}

void sweep_attach(Slot slot, FaultKind kind, bool held)
{
    for (uint64_t ordinal = 1; ordinal < 50; ordinal++) {
        World world;
        mbr_range *source = world.reserve(64 * kGranule, kFour);
        ASSERT_EQ(MBR_OK, world.grow(source, 0, 12 * kGranule));
        mbr_prefix *prefix = make(world, source, 12 * kGranule);
        if (held)
            world.end(source);
        mbr_range *sharer = world.reserve(64 * kGranule, kFour, MBR_RANGE_UNPARKED);
        world.fake.reset_calls();
        world.fake.faults.push_back({slot, ordinal, kind, MBR_OUT_OF_MAPPINGS});
        mbr_prefix_attach_result result = {};
        result.struct_size = sizeof(result);
        mbr_status status = attach(world, prefix, sharer, &result);
        bool met = world.fake.faults_met() != 0;
        EXPECT_EQ(!met, status == MBR_OK);
        EXPECT_TRUE(world.agree()) << ordinal;
        world.fake.faults.clear();
        if (status != MBR_OK && status != MBR_RESIDUAL) {
            EXPECT_EQ(0u, world.figures(sharer).committed_bytes);
            EXPECT_EQ(MBR_OK, attach(world, prefix, sharer, &result)); /* or private: both work */
        }
        world.leaks = status == MBR_RESIDUAL;
        world.end(sharer);
        if (!held)
            world.end(source);
        mbr_prefix_end(prefix);
        EXPECT_TRUE(world.agree()) << ordinal;
        if (!met)
            return;
    }
    FAIL() << "the sweep has no end";
}

TEST(PrefixFaults, MapShared)
{
    sweep_attach(Slot::kMapShared, FaultKind::kRefuse, false);
}
TEST(PrefixFaults, MapOfHeld)
{
    sweep_attach(Slot::kMap, FaultKind::kRefuse, true);
}
TEST(PrefixFaults, ProtectOfHeld)
{
    sweep_attach(Slot::kProtect, FaultKind::kRefuse, true);
}

TEST(PrefixFaults, UndoFails_PrivatePathIsForbiddenAndTheExtentStays)
{
    World world; /* whose end tries the unmap once more */
    mbr_range *source = world.reserve(64 * kGranule, kFour);
    ASSERT_EQ(MBR_OK, world.grow(source, 0, 12 * kGranule));
    mbr_prefix *prefix = make(world, source, 12 * kGranule);
    mbr_range *sharer = world.reserve(64 * kGranule, kFour);
    world.fake.reset_calls();
    world.fake.faults.push_back({Slot::kMapShared, 3});
    world.fake.faults.push_back({Slot::kUnmap, 1});
    mbr_prefix_attach_result result = {};
    result.struct_size = sizeof(result);
    EXPECT_EQ(MBR_RESIDUAL, attach(world, prefix, sharer, &result));
    EXPECT_EQ(4 * kGranule, result.residual_bytes);
    world.fake.faults.clear();
    EXPECT_EQ(MBR_BUSY, world.grow(sharer, 4 * kGranule, 4 * kGranule));
    EXPECT_TRUE(world.agree());
    world.end(sharer);
    world.end(source);
    mbr_prefix_end(prefix);
    EXPECT_TRUE(world.agree()); /* the aliased extent is never pooled: somebody can still read it */
    EXPECT_EQ(0u, world.kept().prefix_count);
}

TEST(PrefixFaults, HeapFailsAtEachCall_NothingIsLeft)
{
    for (uint64_t at = 1; at < 10; at++) {
        World world;
        mbr_range *source = world.reserve(64 * kGranule, kFour);
        ASSERT_EQ(MBR_OK, world.grow(source, 0, 12 * kGranule));
        world.heap.fail_at = world.heap.allocations + at;
        mbr_prefix *prefix = make(world, source, 12 * kGranule);
        bool met = world.heap.allocations >= world.heap.fail_at;
        EXPECT_EQ(met, prefix == nullptr);
        EXPECT_EQ(met ? 0 : 12 * kGranule, world.charged(world.prefix));
        EXPECT_TRUE(world.agree());
        world.heap.fail_at = 0;
        if (prefix != nullptr)
            mbr_prefix_end(prefix);
        world.end(source);
        if (!met)
            return;
    }
    FAIL() << "the sweep has no end";
}

TEST(Prefix, AttachToALostOrRetiringContext_IsRefusedWithoutACall)
{
    for (bool lost : {true, false}) {
        World world;
        auto *mechanism = world.mechanism();
        mechanism->releasable_after_loss = true; /* so that the world ends whole */
        mbr_range *source = world.reserve(64 * kGranule, kFour);
        ASSERT_EQ(MBR_OK, world.grow(source, 0, 8 * kGranule));
        mbr_prefix *prefix = make(world, source, 8 * kGranule);
        mbr_range *sharer = world.reserve(64 * kGranule, kFour);
        if (lost)
            mbr_context_lose(world.context);
        else
            ASSERT_EQ(MBR_OK, mbr_context_retire(world.context, nullptr));
        uint64_t calls = world.fake.all_calls();
        EXPECT_EQ(lost ? MBR_DEVICE_LOST : MBR_BUSY, attach(world, prefix, sharer));
        EXPECT_EQ(calls, world.fake.all_calls());
        EXPECT_EQ(MBR_OK, world.end(sharer));
        EXPECT_EQ(MBR_OK, world.end(source));
        mbr_prefix_end(prefix);
        if (lost) {
            mbr_backing_confirm_lost(world.backing, world.context);
        }
        EXPECT_TRUE(world.agree());
    }
}

} // namespace
} // namespace membrane
