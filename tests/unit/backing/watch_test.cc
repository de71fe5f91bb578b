// Looking on while a growth is carried out: what is told stands, in order, before the next is made;
// and what the watch enqueued is waited for before anything of it is unmapped (I11, I21).
#include "tests/unit/backing/world.h"

#include <vector>

namespace membrane
{
namespace
{

struct Told {
    uint64_t from, to, creates, maps, protects;
    bool operator==(const Told &other) const
    {
        return from == other.from && to == other.to && creates == other.creates &&
            maps == other.maps && protects == other.protects;
    }
};

/* In granules. Writes each stretch on the world's stream, as a copy would. */
struct Watcher {
    explicit Watcher(World &of, uint64_t least) : world(of)
    {
        watch = {least * kGranule, stand, this};
        world.line.on_fill = [this](const ManualLine::Fill &fill) {
            done++;
            EXPECT_NE(0u, world.fake.extent_at(fill.address)) << "it was unmapped under the work";
        };
    }
    static mbr_status stand(void *context, uint64_t from, uint64_t to, bool *has_enqueued)
    {
        auto *self = static_cast<Watcher *>(context);
        FakeMechanism &fake = self->world.fake;
        self->told.push_back({from / kGranule, to / kGranule, fake.calls(Slot::kCreate),
            fake.calls(Slot::kMap), fake.calls(Slot::kProtect)});
        if (self->told.size() == self->refuse_at)
            return self->answer;
        for (uint64_t at = from; at < to; at += kGranule)
            self->world.line.fills.push_back({self->address_of(at), kGranule});
        *has_enqueued = true;
        return MBR_OK;
    }
    uint64_t address_of(uint64_t at) const
    {
        for (const mbr_range_part &part : parts) {
            if (at < part.bytes)
                return mbr_range_address(part.range) + part.offset_bytes + at;
            at -= part.bytes;
        }
        ADD_FAILURE() << "beyond the parts";
        return 0;
    }
    mbr_status grow(std::vector<mbr_range_part> of)
    {
        parts = std::move(of);
        mbr_grow_options options = {};
        options.holder = world.kv;
        options.stream_id = world.stream;
        options.parts = parts.data();
        options.part_count = static_cast<uint32_t>(parts.size());
        options.watch = &watch;
        result.struct_size = sizeof(result);
        return mbr_backing_grow(world.backing, &options, &result, nullptr);
    }

    World &world;
    mbr_growth_watch watch;
    std::vector<mbr_range_part> parts;
    std::vector<Told> told;
    size_t refuse_at = 0;
    mbr_status answer = MBR_SYSTEM;
    uint64_t done = 0;
    mbr_range_grow_result result = {};
};

TEST(Watch, EachStretch_IsToldBeforeTheNextIsMade)
{
    World world;
    Watcher watcher(world, 2);
    mbr_range *range = world.reserve(64 * kGranule);
    ASSERT_EQ(MBR_OK, watcher.grow({{range, 0, 0, 5 * kGranule}}));
    EXPECT_EQ((std::vector<Told>{{0, 2, 2, 2, 1}, {2, 4, 4, 4, 2}, {4, 5, 5, 5, 3}}), watcher.told);
    EXPECT_EQ(5 * kGranule, watcher.result.created_bytes);
    EXPECT_EQ(5 * kGranule, world.charged(world.kv));
    EXPECT_TRUE(world.agree());
    EXPECT_EQ(MBR_OK, world.end(range));
}

TEST(Watch, ManyPartsAndWhatIsThereAlready_AreCountedThroughInTheirOrder)
{
    World world;
    Watcher watcher(world, 2);
    mbr_range *a = world.reserve(64 * kGranule), *b = world.reserve(64 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(a, 0, 2 * kGranule));
    ASSERT_EQ(MBR_OK, world.grow(b, 3 * kGranule, 2 * kGranule));
    world.fake.reset_calls();
    ASSERT_EQ(MBR_OK, watcher.grow({{a, 0, 0, 3 * kGranule}, {b, 0, 2 * kGranule, 5 * kGranule}}));
    // a 2 and b 2 are new, and then b 5 and 6; b 3 and 4 stand before b 5 is made.
    EXPECT_EQ((std::vector<Told>{{0, 6, 2, 2, 2}, {6, 8, 4, 4, 3}}), watcher.told);
    watcher.told.clear();
    ASSERT_EQ(MBR_OK, watcher.grow({{b, 0, 2 * kGranule, 5 * kGranule}}));
    EXPECT_EQ((std::vector<Told>{{0, 5, 4, 4, 3}}), watcher.told) << "all was there";
    EXPECT_TRUE(world.agree());
    EXPECT_EQ(MBR_OK, world.end(a));
    EXPECT_EQ(MBR_OK, world.end(b));
}

TEST(Watch, ParkedExtents_AreToldTooAndMadeByNoCall)
{
    World world;
    Watcher watcher(world, 2);
    mbr_range *range = world.reserve(64 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(range, 0, 4 * kGranule));
    EXPECT_EQ(MBR_OK, world.end(range));
    range = world.reserve(64 * kGranule);
    world.fake.reset_calls();
    ASSERT_EQ(MBR_OK, watcher.grow({{range, 0, 0, 4 * kGranule}}));
    EXPECT_EQ((std::vector<Told>{{0, 2, 0, 0, 0}, {2, 4, 0, 0, 0}}), watcher.told);
    EXPECT_EQ(4 * kGranule, watcher.result.parked_bytes);
    EXPECT_EQ(0u, world.fake.all_calls());
    EXPECT_EQ(MBR_OK, world.end(range));
}

/* The whole budget first: a refusal comes before anything is made, or told. */
TEST(Watch, OverTheLimit_IsRefusedBeforeAnythingIsMade)
{
    World world(4 * kGranule);
    Watcher watcher(world, 1);
    mbr_range *range = world.reserve(64 * kGranule);
    EXPECT_EQ(MBR_OVER_BUDGET, watcher.grow({{range, 0, 0, 5 * kGranule}}));
    EXPECT_TRUE(watcher.told.empty());
    EXPECT_EQ(0u, world.fake.calls(Slot::kCreate) + world.fake.calls(Slot::kMap));
    EXPECT_TRUE(world.agree());
    EXPECT_EQ(MBR_OK, world.end(range));
}

TEST(Watch, CallThatFailsAfterAStretch_WaitsForItsWorkAndUndoesAll)
{
    for (Slot slot : {Slot::kCreate, Slot::kMap, Slot::kProtect})
        for (uint64_t nth = 1; nth <= 3; nth++) {
            SCOPED_TRACE(static_cast<int>(slot) * 10 + static_cast<int>(nth));
            World world;
            Watcher watcher(world, 1);
            world.line.automatic = false;
            world.line.works_while_waited = true;
            mbr_range *range = world.reserve(64 * kGranule);
            world.fake.faults = {{slot, nth, FaultKind::kRefuse, MBR_SYSTEM}};
            EXPECT_EQ(MBR_SYSTEM, watcher.grow({{range, 0, 0, 3 * kGranule}}));
            EXPECT_EQ(nth - 1, watcher.told.size());
            EXPECT_EQ(nth - 1, watcher.done) << "waited for";
            EXPECT_EQ(0u, world.fake.owned());
            EXPECT_EQ(0u, world.books().charged_bytes + world.books().granted_bytes);
            EXPECT_TRUE(world.agree());
            ASSERT_EQ(MBR_OK, watcher.grow({{range, 0, 0, 3 * kGranule}}));
            EXPECT_EQ(0u, watcher.told[nth - 1].from) << "all over again";
            world.line.reach_all();
            EXPECT_EQ(MBR_OK, world.end(range));
        }
}

TEST(Watch, ItsRefusal_UndoesAllAndPressesNobody)
{
    for (size_t at : {1, 2, 3}) {
        World world;
        Watcher watcher(world, 1);
        world.line.automatic = false;
        world.line.works_while_waited = true;
        mbr_range *range = world.reserve(64 * kGranule), *other = world.reserve(8 * kGranule);
        ASSERT_EQ(MBR_OK, world.grow(other, 0, 8 * kGranule));
        EXPECT_EQ(MBR_OK, world.end(other));
        watcher.refuse_at = at;
        watcher.answer = MBR_OUT_OF_MEMORY; // which elsewhere evicts what is cached
        EXPECT_EQ(MBR_OUT_OF_MEMORY, watcher.grow({{range, 0, 0, 3 * kGranule}}));
        EXPECT_EQ(at, watcher.told.size());
        EXPECT_EQ(at - 1, watcher.done);
        EXPECT_EQ(8 * kGranule, world.cached());
        EXPECT_EQ(0u, world.charged(world.kv));
        EXPECT_TRUE(world.agree());
        EXPECT_EQ(MBR_OK, world.end(range));
    }
}

TEST(Watch, WorkThatNobodySeesDone_KeepsItsExtentsUntilItIs)
{
    World world;
    Watcher watcher(world, 1);
    world.line.automatic = false;
    mbr_range *range = world.reserve(64 * kGranule);
    watcher.refuse_at = 3;
    EXPECT_EQ(MBR_RESIDUAL, watcher.grow({{range, 0, 0, 3 * kGranule}}));
    EXPECT_EQ(2 * kGranule, world.books().quarantined_bytes) << "the third was not written";
    EXPECT_EQ(2u, world.fake.mappings());
    EXPECT_TRUE(world.agree());
    world.line.works_while_waited = true;
    mbr_backing_trim(world.backing, UINT64_MAX);
    EXPECT_EQ(2u, watcher.done);
    EXPECT_EQ(0u, world.books().quarantined_bytes);
    EXPECT_TRUE(world.agree());
    EXPECT_EQ(MBR_OK, world.end(range));
}

/* I21: what was written into an extent that goes back to the pool is the group's that wrote it,
 * though the extent had been filled for it. */
TEST(Watch, WhatItWroteInVain_IsNotShownToAnotherGroup)
{
    World world;
    mbr_range *first = world.reserve(4 * kGranule, {kGranule, kGranule, 0}, 0, 1);
    ASSERT_EQ(MBR_OK, world.grow(first, 0, 4 * kGranule));
    EXPECT_EQ(MBR_OK, world.end(first));
    Watcher watcher(world, 1);
    mbr_range *second = world.reserve(64 * kGranule, {kGranule, kGranule, 0}, 0, 2);
    watcher.refuse_at = 4;
    EXPECT_EQ(MBR_SYSTEM, watcher.grow({{second, 0, 0, 4 * kGranule}}));
    EXPECT_EQ(4u, world.line.fill_count) << "filled for the second group";
    EXPECT_EQ(4 * kGranule, world.kept().pooled_bytes);
    mbr_range *third = world.reserve(32 * kGranule, {kGranule, kGranule, 0}, 0, 1);
    Watcher again(world, 1);
    ASSERT_EQ(MBR_OK, again.grow({{third, 0, 0, 4 * kGranule}}));
    EXPECT_EQ(7u, world.line.fill_count) << "but for the one that was filled and not written";
    EXPECT_TRUE(world.agree());
    EXPECT_EQ(MBR_OK, world.end(second));
    EXPECT_EQ(MBR_OK, world.end(third));
}

} // namespace
} // namespace membrane
