// Quarantine per axis: what a plugin refused to take back, with nothing changed, is tried again at
// trim and teardown; what is in an unknown state never is.
#include "tests/unit/backing/world.h"

namespace membrane
{
namespace
{

void refuse_next(World *world, Slot slot, FaultKind kind = FaultKind::kRefuse)
{
    world->fake.faults = {{slot, world->fake.calls(slot) + 1, kind, MBR_SYSTEM}};
}

mbr_status decommit(mbr_range *range, uint64_t offset, uint64_t bytes)
{
    mbr_range_decommit_result result = {};
    result.struct_size = sizeof(result);
    return mbr_range_give_back(range, offset, bytes, true, nullptr, 0, &result, nullptr);
}

TEST(Quarantine, RefusedUnmap_IsTriedAgainAtTrimAndThePlaceIsUsedAgain)
{
    World world;
    mbr_range *range = world.reserve(8 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(range, 0, 4 * kGranule));
    refuse_next(&world, Slot::kUnmap);
    ASSERT_EQ(MBR_OK, decommit(range, kGranule, kGranule));
    EXPECT_EQ(4 * kGranule, world.charged(world.kv)); // neither axis moved
    EXPECT_EQ(4 * kGranule, world.mapped_by(world.kv));
    EXPECT_EQ(kGranule, world.books().quarantined_bytes);
    EXPECT_EQ(1u, world.kept().quarantined_count);
    EXPECT_EQ(MBR_BUSY, world.grow(range, kGranule, kGranule));
    world.fake.faults = {{Slot::kUnmap, 1, FaultKind::kRefuse, MBR_SYSTEM, /* sticky */ true}};
    EXPECT_EQ(0u, mbr_backing_trim(world.backing, UINT64_MAX)); // once a trim, not for ever
    EXPECT_EQ(1u, world.kept().quarantined_count);
    world.fake.faults.clear();
    mbr_backing_trim(world.backing, UINT64_MAX);
    EXPECT_EQ(0u, world.kept().quarantined_count);
    EXPECT_EQ(0u, world.books().quarantined_bytes);
    EXPECT_EQ(3 * kGranule, world.charged(world.kv));
    EXPECT_EQ(3 * kGranule, world.mapped_by(world.kv));
    EXPECT_EQ(kGranule, world.kept().pooled_bytes);
    EXPECT_TRUE(world.agree());
    EXPECT_EQ(MBR_OK, world.grow(range, kGranule, kGranule));
    EXPECT_EQ(MBR_OK, world.end(range));
}

TEST(Quarantine, DecommitThatFailsHalfWay_KeepsWhatStayedChargedAndOutOfUse)
{
    for (FaultKind kind : {FaultKind::kRefuse, FaultKind::kQuarantine}) {
        World world;
        world.leaks = kind == FaultKind::kQuarantine;
        mbr_range *range = world.reserve(8 * kGranule);
        ASSERT_EQ(MBR_OK, world.grow(range, 0, 4 * kGranule));
        world.fake.faults = {{Slot::kUnmap, world.fake.calls(Slot::kUnmap) + 2, kind, MBR_SYSTEM}};
        ASSERT_EQ(MBR_OK, decommit(range, 0, 3 * kGranule));
        world.fake.faults.clear();
        EXPECT_EQ(2 * kGranule, world.mapped_by(world.kv)); // the stuck one, and what was kept
        EXPECT_EQ(2 * kGranule, world.charged(world.kv));
        EXPECT_EQ(kGranule, world.books().quarantined_bytes);
        EXPECT_EQ(kGranule, world.figures(range).committed_bytes); // not there for the client
        EXPECT_FALSE(mbr_range_is_committed_to(range, 1));
        EXPECT_EQ(MBR_BUSY, world.grow(range, 0, 3 * kGranule));
        EXPECT_EQ(MBR_OK, world.grow(range, 2 * kGranule, kGranule)); // beside it
        EXPECT_TRUE(world.agree());
        EXPECT_EQ(MBR_OK, world.end(range));
        EXPECT_TRUE(world.agree());
    }
}

TEST(Quarantine, UnknownOutcome_IsNeverTriedAgain)
{
    World world;
    world.leaks = true;
    mbr_range *range = world.reserve(8 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(range, 0, 2 * kGranule));
    refuse_next(&world, Slot::kUnmap, FaultKind::kQuarantine);
    ASSERT_EQ(MBR_OK, decommit(range, 0, kGranule));
    world.fake.faults.clear();
    uint64_t unmaps = world.fake.calls(Slot::kUnmap);
    mbr_backing_trim(world.backing, UINT64_MAX);
    EXPECT_EQ(unmaps, world.fake.calls(Slot::kUnmap));
    EXPECT_EQ(kGranule, world.books().quarantined_bytes);
    EXPECT_EQ(MBR_OK, world.end(range));
    EXPECT_TRUE(world.agree());
}

TEST(Quarantine, RetryWithAnUnknownOutcome_IsTheLastOne)
{
    World world;
    world.leaks = true;
    mbr_range *range = world.reserve(8 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(range, 0, 2 * kGranule));
    refuse_next(&world, Slot::kUnmap);
    ASSERT_EQ(MBR_OK, decommit(range, 0, kGranule));
    refuse_next(&world, Slot::kUnmap, FaultKind::kQuarantine);
    mbr_backing_trim(world.backing, UINT64_MAX);
    world.fake.faults.clear();
    uint64_t unmaps = world.fake.calls(Slot::kUnmap);
    mbr_backing_trim(world.backing, UINT64_MAX);
    EXPECT_EQ(unmaps, world.fake.calls(Slot::kUnmap));
    EXPECT_EQ(MBR_OK, world.end(range));
    EXPECT_TRUE(world.agree());
}

TEST(Quarantine, RangeKeptForAStuckPlace_IsInUseAgainAfterTheRetry)
{
    World world;
    mbr_range *range = world.reserve(8 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(range, 0, 2 * kGranule));
    refuse_next(&world, Slot::kUnmap);
    ASSERT_EQ(MBR_OK, decommit(range, 0, kGranule));
    world.fake.faults.clear();
    ASSERT_EQ(MBR_OK, world.end(range));
    EXPECT_EQ(kGranule, world.charged(world.kv));
    EXPECT_EQ(0u, world.kept().cached_range_count);
    mbr_range *next = world.reserve(8 * kGranule);
    EXPECT_NE(mbr_range_address(range), mbr_range_address(next)); // I10
    EXPECT_EQ(MBR_OK, world.end(next));
    mbr_backing_trim(world.backing, 0);
    EXPECT_EQ(2u, world.kept().cached_range_count);
    EXPECT_EQ(0u, world.fake.extents());
    EXPECT_EQ(0u, world.books().charged_bytes);
    EXPECT_TRUE(world.agree());
}

TEST(Quarantine, SharedExtentStuckAtOnePlace_GoesWhenItsOtherUsersAreGone)
{
    World world;
    mbr_range *source = world.reserve(8 * kGranule), *sharer = world.reserve(8 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(source, 0, kGranule));
    mbr_prefix *prefix = world.make_prefix(source, 0, kGranule);
    ASSERT_EQ(MBR_OK, world.attach(prefix, sharer));
    refuse_next(&world, Slot::kUnmap);
    ASSERT_EQ(MBR_OK, world.end(source));
    world.fake.faults.clear();
    mbr_backing_trim(world.backing, 0);
    EXPECT_EQ(1u, world.kept().quarantined_count); // others read it: its mark stays
    EXPECT_EQ(kGranule, world.books().quarantined_bytes);
    ASSERT_EQ(MBR_OK, world.end(sharer));
    EXPECT_EQ(1u, world.kept().quarantined_count);
    mbr_prefix_end(prefix); // nobody waits for a trim
    EXPECT_EQ(0u, world.kept().quarantined_count);
    mbr_backing_trim(world.backing, 0);
    EXPECT_EQ(0u, world.books().charged_bytes);
    EXPECT_EQ(0u, world.fake.mappings());
    EXPECT_TRUE(world.agree());
}

// The source of a prefix has it still, and a prefix is made of it once more.
TEST(Quarantine, SharedExtentStuckAtOnePlace_IsPaidByTheSameWhoeverKeepsItNext)
{
    World world;
    mbr_range *source = world.reserve(8 * kGranule), *sharer = world.reserve(8 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(source, 0, kGranule));
    mbr_prefix *prefix = world.make_prefix(source, 0, kGranule);
    ASSERT_EQ(MBR_OK, world.attach(prefix, sharer));
    mbr_prefix_end(prefix);
    refuse_next(&world, Slot::kUnmap);
    ASSERT_EQ(MBR_OK, world.end(sharer));
    world.fake.faults.clear();
    mbr_prefix *again = world.make_prefix(source, 0, kGranule);
    EXPECT_EQ(kGranule, world.charged(world.kv)); // where its mark is
    EXPECT_EQ(0u, world.charged(world.prefix));
    EXPECT_TRUE(world.agree());
    ASSERT_EQ(MBR_OK, world.end(source));
    mbr_prefix_end(again);
    mbr_backing_trim(world.backing, 0);
    EXPECT_EQ(0u, world.kept().quarantined_count);
    EXPECT_EQ(0u, world.books().charged_bytes);
    EXPECT_TRUE(world.agree());
}

TEST(Quarantine, SharedExtentStuckAtAllPlaces_GoesWithTheLastOfThem)
{
    World world;
    mbr_range *source = world.reserve(8 * kGranule), *sharer = world.reserve(8 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(source, 0, kGranule));
    mbr_prefix *prefix = world.make_prefix(source, 0, kGranule);
    ASSERT_EQ(MBR_OK, world.attach(prefix, sharer));
    mbr_prefix_end(prefix);
    world.fake.faults = {{Slot::kUnmap, world.fake.calls(Slot::kUnmap) + 1, FaultKind::kRefuse,
        MBR_SYSTEM, /* sticky */ true}};
    ASSERT_EQ(MBR_OK, world.end(source));
    ASSERT_EQ(MBR_OK, world.end(sharer));
    EXPECT_EQ(2u, world.kept().quarantined_count);
    EXPECT_EQ(kGranule, world.books().quarantined_bytes); // the extent, once
    uint64_t calls = world.fake.calls(Slot::kUnmap);      // all but the second are refused
    world.fake.faults = {{Slot::kUnmap, calls + 1, FaultKind::kRefuse, MBR_SYSTEM},
        {Slot::kUnmap, calls + 3, FaultKind::kRefuse, MBR_SYSTEM, /* sticky */ true}};
    mbr_backing_trim(world.backing, 0);
    world.fake.faults.clear();
    EXPECT_EQ(1u, world.kept().quarantined_count);
    EXPECT_EQ(kGranule, world.books().quarantined_bytes);
    EXPECT_EQ(1u, world.fake.mappings());
    EXPECT_TRUE(world.agree());
    mbr_backing_trim(world.backing, 0);
    EXPECT_EQ(0u, world.kept().quarantined_count);
    EXPECT_EQ(0u, world.books().charged_bytes);
    EXPECT_EQ(0u, world.fake.mappings());
    EXPECT_TRUE(world.agree());
}

// Each of two rounds tries again what the other has just tried.
TEST(Quarantine, TwoRoundsBesideEachOther_BothEnd)
{
    static World *inside;
    static decltype(mbr_virtual_vtable::unmap) unmap;
    static bool is_nested = false;
    World world;
    mbr_range *ranges[] = {world.reserve(8 * kGranule), world.reserve(8 * kGranule)};
    auto &slots = const_cast<mbr_mechanism *>(mbr_port_mechanism(world.port))->virtual_;
    world.fake.faults = {{Slot::kUnmap, 1, FaultKind::kRefuse, MBR_SYSTEM, /* sticky */ true}};
    for (mbr_range *range : ranges) {
        ASSERT_EQ(MBR_OK, world.grow(range, 0, kGranule));
        ASSERT_EQ(MBR_OK, decommit(range, 0, kGranule));
    }
    uint64_t before = world.fake.calls(Slot::kUnmap);
    inside = &world;
    unmap = slots.unmap;
    slots.unmap = [](mbr_instance *instance, const mbr_unmap_request *request, mbr_outcome *outcome,
                      mbr_error *error) -> mbr_status {
        if (!is_nested && inside->fake.calls(Slot::kUnmap) < 1000) {
            is_nested = true;
            mbr_backing_trim(inside->backing, UINT64_MAX);
            is_nested = false;
        }
        return unmap(instance, request, outcome, error);
    };
    mbr_backing_trim(world.backing, UINT64_MAX);
    slots.unmap = unmap;
    // Each place once in each round, and in the few looks at what the other round had in hand.
    EXPECT_LE(before + 4, world.fake.calls(Slot::kUnmap));
    EXPECT_GE(before + 32, world.fake.calls(Slot::kUnmap));
    world.fake.faults.clear();
    for (mbr_range *range : ranges)
        EXPECT_EQ(MBR_OK, world.end(range));
    mbr_backing_trim(world.backing, 0);
    EXPECT_EQ(0u, world.kept().quarantined_count);
    EXPECT_TRUE(world.agree());
}

TEST(Quarantine, RefusedRelease_IsTriedAgainAtTrim)
{
    World world;
    world.fake.mechanism.has_virtual = false;
    world.mechanism()->has_virtual = false;
    mbr_span span;
    ASSERT_EQ(MBR_OK,
        mbr_backing_take_span(world.backing, world.context, world.stream, 0, 16 * kGranule, 0,
            &span, nullptr, nullptr));
    refuse_next(&world, Slot::kRelease);
    mbr_backing_give_span(world.backing, &span);
    EXPECT_EQ(16 * kGranule, world.books().quarantined_bytes);
    world.fake.faults.clear();
    EXPECT_EQ(16 * kGranule, mbr_backing_trim(world.backing, UINT64_MAX));
    EXPECT_EQ(0u, world.books().charged_bytes);
    EXPECT_EQ(0u, world.kept().quarantined_count);
    EXPECT_TRUE(world.agree());
}

// The end of the backing is itself a retry: World asserts that nothing is left.
TEST(Quarantine, Teardown_TriesEverythingOnceMore)
{
    World world;
    mbr_range *range = world.reserve(8 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(range, 0, 4 * kGranule));
    refuse_next(&world, Slot::kUnmap);
    ASSERT_EQ(MBR_OK, decommit(range, 0, kGranule));
    world.fake.faults.clear();
    ASSERT_EQ(MBR_OK, world.end(range));
    refuse_next(&world, Slot::kDestroy);
    mbr_backing_evict(world.backing, kGranule);
    EXPECT_EQ(2u, world.kept().quarantined_count);
    EXPECT_EQ(2 * kGranule, world.books().quarantined_bytes);
    EXPECT_TRUE(world.agree());
}

} // namespace
} // namespace membrane
