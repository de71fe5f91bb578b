/* Rule 6: where the host branches on a plugin's status, it reads the class from the number, so that
 * a code that it does not know counts like the known ones of its class. */
#include "tests/unit/backing/world.h"

namespace membrane
{
namespace
{

constexpr mbr_status unknown_of(int32_t status_class)
{
    return status_class * 65536 + 999;
}

TEST(StatusClass, UnknownExhaustion_PressesTheCacheAndTriesAgain)
{
    for (int32_t status_class : {MBR_CLASS_EXHAUSTED, MBR_CLASS_BROKEN, MBR_CLASS_CALLER}) {
        SCOPED_TRACE(status_class);
        World world;
        mbr_range *former = world.reserve(16 * kGranule, {4 * kGranule, 4 * kGranule, 0});
        ASSERT_EQ(MBR_OK, world.grow(former, 0, 16 * kGranule));
        ASSERT_EQ(MBR_OK, world.end(former)); /* parked, in extents that do not fit the next */
        mbr_range *range = world.reserve(8 * kGranule);
        uint64_t limit = world.books().limit_bytes;
        world.fake.faults.push_back({Slot::kCreate, world.fake.calls(Slot::kCreate) + 1,
            FaultKind::kRefuse, unknown_of(status_class)});
        bool is_exhausted = status_class == MBR_CLASS_EXHAUSTED;
        EXPECT_EQ(
            is_exhausted ? MBR_OK : unknown_of(status_class), world.grow(range, 0, 2 * kGranule));
        EXPECT_EQ((is_exhausted ? 12 : 16) * kGranule, world.cached());
        EXPECT_EQ(limit, world.books().limit_bytes); /* nobody said that it was memory */
        EXPECT_TRUE(world.agree());
        EXPECT_EQ(MBR_OK, world.end(range));
    }
}

mbr_status map_shared_answer;
uint32_t map_shared_state;

mbr_status refuse_map_shared(
    mbr_instance *, const mbr_map_shared_request *, mbr_outcome *outcome, mbr_error *)
{
    outcome->state = map_shared_state;
    return map_shared_answer;
}

TEST(StatusClass, UnknownCallersBugOfMapShared_TriesMapOnce)
{
    const struct {
        int32_t status_class;
        uint32_t state;
        uint64_t tries;
    } rows[] = {{MBR_CLASS_CALLER, MBR_STATE_UNCHANGED, 1},
        {MBR_CLASS_CALLER, MBR_STATE_QUARANTINED, 0}, /* nobody knows: never named again */
        {MBR_CLASS_EXHAUSTED, MBR_STATE_UNCHANGED, 0}, {MBR_CLASS_RETRY, MBR_STATE_UNCHANGED, 0}};
    for (const auto &row : rows) {
        World world;
        world.leaks = row.state == MBR_STATE_QUARANTINED;
        mbr_range *source = world.reserve(8 * kGranule), *target = world.reserve(8 * kGranule);
        ASSERT_EQ(MBR_OK, world.grow(source, 0, kGranule));
        mbr_prefix *prefix = world.make_prefix(source, 0, kGranule);
        auto *mechanism = world.mechanism();
        mechanism->shared.map_shared = refuse_map_shared;
        map_shared_answer = unknown_of(row.status_class);
        map_shared_state = row.state;
        mbr_port_figures before, after;
        mbr_port_read(world.port, &before);
        EXPECT_NE(MBR_OK, world.attach(prefix, target));
        mbr_port_read(world.port, &after);
        EXPECT_EQ(1 + row.tries, after.call_count - before.call_count) << row.status_class;
        mbr_prefix_end(prefix);
        EXPECT_EQ(MBR_OK, world.end(target));
        EXPECT_EQ(MBR_OK, world.end(source));
    }
}

TEST(StatusClass, UnknownNotNowOfAWaitPastItsDeadline_IsATimeout)
{
    World world;
    world.line.automatic = false;
    world.line.table.wait = [](mbr_instance *, const mbr_line_wait_request *, mbr_outcome *,
                                mbr_error *) -> mbr_status { return unknown_of(MBR_CLASS_RETRY); };
    SecondContext other(world, &world.line);
    EXPECT_EQ(MBR_TIMED_OUT, mbr_context_synchronize(other.context, other.stream, 1, nullptr));
    EXPECT_EQ(unknown_of(MBR_CLASS_RETRY),
        mbr_context_synchronize(other.context, other.stream, UINT64_MAX, nullptr));
}

} // namespace
} // namespace membrane
