// What stands in a range, by runs of extents of one kind.
#include "tests/unit/bind/host_world.h"

namespace membrane
{
namespace
{

constexpr uint64_t kUnit = 2 * kMiB;

struct Told {
    uint32_t flags;
    uint64_t offset, bytes;
    bool operator==(const Told &other) const
    {
        return flags == other.flags && offset == other.offset && bytes == other.bytes;
    }
};

std::vector<Told> runs(HostWorld &world, mbr_range_handle range)
{
    std::vector<Told> all;
    auto run = sized<mbr_range_run>();
    for (uint64_t from = 0;; from = run.offset_bytes + run.bytes) {
        EXPECT_EQ(MBR_OK, mbr_range_next_run(world.manager, range, from, &run, &world.error))
            << world.error.text;
        if (run.bytes == 0)
            return all;
        all.push_back({run.flags, run.offset_bytes, run.bytes});
    }
}

TEST(Runs, HolesSharedAliasedAndLeaving_AreToldApart)
{
    HostWorld world;
    auto range = world.reserve(8 * kUnit, kUnit), sharer = world.reserve(8 * kUnit, kUnit);
    EXPECT_EQ(std::vector<Told>{}, runs(world, range.range));
    ASSERT_EQ(MBR_OK, world.grow(range.range, 0, 3 * kUnit));
    ASSERT_EQ(MBR_OK, world.grow(range.range, 5 * kUnit, kUnit));
    EXPECT_EQ(
        (std::vector<Told>{{0, 0, 3 * kUnit}, {0, 5 * kUnit, kUnit}}), runs(world, range.range));
    mbr_piece piece = {range.range, 0, 2 * kUnit};
    auto request = sized<mbr_prefix_request>();
    request.piece_count = 1;
    request.holder = world.holder;
    request.pieces = &piece;
    auto prefix = sized<mbr_prefix_result>();
    ASSERT_EQ(MBR_OK, mbr_prefix_create(world.manager, &request, &prefix, &world.error));
    EXPECT_EQ((std::vector<Told>{
                  {MBR_RUN_SHARED, 0, 2 * kUnit}, {0, 2 * kUnit, kUnit}, {0, 5 * kUnit, kUnit}}),
        runs(world, range.range));
    auto attach = sized<mbr_prefix_attach_request>();
    attach.target_count = 1;
    attach.prefix = prefix.prefix;
    attach.holder = world.holder;
    attach.targets = &sharer.range;
    auto attached = sized<mbr_prefix_attach_result>();
    ASSERT_EQ(MBR_OK, mbr_prefix_attach(world.manager, &attach, &attached, &world.error));
    EXPECT_EQ((std::vector<Told>{{MBR_RUN_SHARED | MBR_RUN_ALIAS, 0, 2 * kUnit}}),
        runs(world, sharer.range));
    EXPECT_EQ(MBR_OK, mbr_prefix_release(world.manager, prefix.prefix, &world.error));
    EXPECT_EQ(MBR_OK, world.release(sharer.range));
    {
        Gate gate(world);
        auto part = sized<mbr_range_release_request>();
        part.piece = {range.range, kUnit, 2 * kUnit};
        part.streams = &world.stream;
        part.stream_count = 1;
        auto gone = sized<mbr_range_decommit_result>();
        ASSERT_EQ(MBR_OK, mbr_range_decommit(world.manager, &part, &gone, &world.error));
        EXPECT_EQ((std::vector<Told>{
                      {0, 0, kUnit}, {MBR_RUN_LEAVING, kUnit, 2 * kUnit}, {0, 5 * kUnit, kUnit}}),
            runs(world, range.range));
    }
    ASSERT_EQ(MBR_OK, world.drain());
    EXPECT_EQ((std::vector<Told>{{0, 0, kUnit}, {0, 5 * kUnit, kUnit}}), runs(world, range.range));
    auto run = sized<mbr_range_run>();
    EXPECT_EQ(MBR_OUT_OF_RANGE,
        mbr_range_next_run(world.manager, range.range, 8 * kUnit + 1, &run, &world.error));
    EXPECT_EQ(MBR_OK, world.release(range.range));
    EXPECT_EQ(MBR_STALE, mbr_range_next_run(world.manager, range.range, 0, &run, &world.error));
    EXPECT_EQ(0u, run.bytes);
}

TEST(Runs, MadeInACapture_IsItsGraphsUntilTheRetirement)
{
    HostWorld world;
    auto range = world.reserve(2 * kUnit, kUnit);
    ASSERT_EQ(MBR_OK, mbr_ep_capture_begin(world.manager, world.stream, kNever, &world.error));
    ASSERT_EQ(MBR_OK, world.grow(range.range, 0, kUnit));
    EXPECT_EQ((std::vector<Told>{{MBR_RUN_OWNED, 0, kUnit}}), runs(world, range.range));
    mbr_graph_handle graph;
    ASSERT_EQ(MBR_OK, mbr_ep_capture_end(world.manager, world.stream, &graph, &world.error));
    EXPECT_EQ((std::vector<Told>{{MBR_RUN_OWNED, 0, kUnit}}), runs(world, range.range));
    ASSERT_EQ(MBR_OK, mbr_ep_graph_retire(world.manager, graph, nullptr, 0, &world.error));
    ASSERT_EQ(MBR_OK, world.drain());
    EXPECT_EQ((std::vector<Told>{{0, 0, kUnit}}), runs(world, range.range));
    EXPECT_EQ(MBR_OK, world.release(range.range));
}

} // namespace
} // namespace membrane
