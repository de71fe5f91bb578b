// Commit ranges against marking every live byte of every row and asking each extent whether it
// holds one.
#include "tests/unit/holder/geometry_oracle.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace
{

using oracle::World;

constexpr uint64_t kMiB = UINT64_C(1) << 20;

// A world with all that the brute force needs.
struct Stage {
    World world;
    mbr_extents extents;
    std::vector<oracle::Row> rows;
    std::vector<uint64_t> boundaries;

    Stage(oracle::Generator &draw, int kind) : world(draw.Next(kind))
    {
        extents = oracle::RandomExtents(world, draw);
        rows = oracle::Rows(world, extents.layout.window_tokens);
        boundaries = oracle::Boundaries(extents.rule, extents.layout.span_bytes);
    }

    std::vector<bool> Set(uint64_t first, uint64_t end) const
    {
        return oracle::ExtentsOf(
            oracle::LiveBytes(world, extents.layout, rows, first, end), boundaries);
    }

    uint64_t FirstLive(uint64_t tokens) const
    {
        uint64_t window = world.group.window_tokens;
        return window != 0 && tokens > window ? tokens - window : 0;
    }

    uint64_t Bytes(const std::vector<bool> &set) const
    {
        uint64_t bytes = 0;
        for (size_t e = 0; e < set.size(); e++)
            bytes += set[e] ? boundaries[e + 1] - boundaries[e] : 0;
        return bytes;
    }
};

// Turns ranges into one flag an extent and checks their form: whole extents, ascending, merged.
class RangeSet
{
  public:
    explicit RangeSet(const Stage &stage) : stage_(stage), set_(stage.boundaries.size() - 1) {}

    void Add(mbr_byte_range range)
    {
        const auto &b = stage_.boundaries;
        ASSERT_LT(range.start, range.end);
        ASSERT_TRUE(std::binary_search(b.begin(), b.end(), range.start)) << range.start;
        ASSERT_TRUE(std::binary_search(b.begin(), b.end(), range.end)) << range.end;
        ASSERT_TRUE(first_ || range.start > last_end_) << range.start << " after " << last_end_;
        first_ = false;
        last_end_ = range.end;
        for (size_t e = 0; e < set_.size(); e++)
            if (b[e] >= range.start && b[e] < range.end)
                set_[e] = true;
    }

    const std::vector<bool> &Flags() const { return set_; }

  private:
    const Stage &stage_;
    std::vector<bool> set_;
    bool first_ = true;
    uint64_t last_end_ = 0;
};

std::vector<bool> Collect(const Stage &stage, mbr_commit_cursor cursor)
{
    RangeSet set(stage);
    mbr_byte_range range;
    while (mbr_commit_next(&cursor, &range))
        set.Add(range);
    EXPECT_EQ(range.start, range.end);
    EXPECT_FALSE(mbr_commit_next(&cursor, &range)) << "the end stays the end";
    return set.Flags();
}

std::vector<bool> Collect(const Stage &stage, mbr_commit_delta delta)
{
    RangeSet set(stage);
    mbr_byte_range range;
    while (mbr_commit_delta_next(&delta, &range))
        set.Add(range);
    EXPECT_EQ(range.start, range.end);
    EXPECT_FALSE(mbr_commit_delta_next(&delta, &range)) << "the end stays the end";
    return set.Flags();
}

std::vector<bool> Minus(std::vector<bool> a, const std::vector<bool> &b)
{
    for (size_t i = 0; i < a.size(); i++)
        a[i] = a[i] && !b[i];
    return a;
}

void ForRandomStages(int rounds, void (*body)(const Stage &, oracle::Generator &))
{
    oracle::Generator draw(oracle::Seed());
    for (int round = 0; round < rounds; round++) {
        Stage stage(draw, round % MBR_LAYOUT_COUNT);
        const auto &rule = stage.extents.rule;
        SCOPED_TRACE(testing::Message()
            << "round " << round << ": " << stage.world << " | unit " << rule.unit_bytes << " max "
            << rule.max_bytes << " divisor " << rule.divisor);
        ASSERT_TRUE(mbr_extents_is_valid(&stage.extents));
        body(stage, draw);
        if (testing::Test::HasFailure())
            return;
    }
}

TEST(Commit, RandomWorlds_RangesAreTheExtentsThatHoldALiveByte)
{
    ForRandomStages(600, [](const Stage &stage, oracle::Generator &draw) {
        uint64_t first = draw.Between(0, stage.world.request.max_tokens);
        uint64_t end = draw.Between(first, stage.world.request.max_tokens);
        auto expected = stage.Set(first, end);
        mbr_token_range tokens = {first, end};
        EXPECT_EQ(Collect(stage, mbr_commit_begin(&stage.extents, tokens)), expected);
        EXPECT_EQ(mbr_commit_bytes(&stage.extents, tokens), stage.Bytes(expected));
        EXPECT_EQ(mbr_commit_extent_count(&stage.extents, tokens),
            static_cast<uint64_t>(std::count(expected.begin(), expected.end(), true)));
    });
}

TEST(Commit, RandomWorlds_DeltaIsTheDifferenceOfTheSets)
{
    ForRandomStages(600, [](const Stage &stage, oracle::Generator &draw) {
        uint64_t most = stage.world.request.max_tokens;
        uint64_t a = draw.Between(0, most), b = draw.Between(a, most);
        uint64_t c = draw.Between(0, most), d = draw.Between(c, most);
        auto delta = mbr_commit_between(&stage.extents, {a, b}, {c, d});
        EXPECT_EQ(Collect(stage, delta), Minus(stage.Set(c, d), stage.Set(a, b)));
    });
}

// What grows and slides step by step holds, after every step, exactly what its live tokens need.
TEST(Commit, RandomWorlds_GrowingAndSlidingKeepsExactlyTheLiveSet)
{
    ForRandomStages(300, [](const Stage &stage, oracle::Generator &draw) {
        uint64_t most = stage.world.request.max_tokens;
        std::vector<bool> held(stage.boundaries.size() - 1);
        for (uint64_t tokens = 0; tokens < most;) {
            uint64_t next = draw.Between(tokens + 1, std::min(most, tokens + 9));
            auto fresh = Collect(stage, mbr_commit_grow(&stage.extents, tokens, next));
            for (size_t e = 0; e < held.size(); e++) {
                ASSERT_FALSE(held[e] && fresh[e]) << "extent " << e << " committed twice";
                held[e] = held[e] || fresh[e];
            }
            ASSERT_EQ(held, stage.Set(stage.FirstLive(tokens), next));
            auto gone = Collect(stage, mbr_commit_behind_window(&stage.extents, tokens, next));
            for (size_t e = 0; e < held.size(); e++) {
                ASSERT_FALSE(gone[e] && !held[e]) << "extent " << e << " given back but not held";
                held[e] = held[e] && !gone[e];
            }
            ASSERT_EQ(held, stage.Set(stage.FirstLive(next), next));
            tokens = next;
        }
    });
}

TEST(Commit, RandomWorlds_GranuleBytesCountGranulesWithALiveByte)
{
    ForRandomStages(300, [](const Stage &stage, oracle::Generator &draw) {
        const mbr_layout &layout = stage.extents.layout;
        uint64_t end = draw.Between(0, layout.max_tokens);
        auto live = oracle::LiveBytes(stage.world, layout, stage.rows, 0, end);
        uint64_t unit = layout.window_bytes != 0 ? layout.window_bytes : layout.granule_bytes;
        auto granules =
            oracle::ExtentsOf(live, oracle::Boundaries({1, unit, 1, 0}, layout.span_bytes));
        uint64_t expected =
            unit * static_cast<uint64_t>(std::count(granules.begin(), granules.end(), true));
        EXPECT_EQ(mbr_commit_granule_bytes(&stage.extents, {0, end}), expected);
        EXPECT_LE(expected, mbr_commit_bytes(&stage.extents, {0, end}));
    });
}

TEST(Commit, RandomWorlds_CapacityIsEveryTokenWhoseRowsAreCommitted)
{
    ForRandomStages(600, [](const Stage &stage, oracle::Generator &draw) {
        uint64_t most = stage.world.request.max_tokens;
        uint64_t tokens = draw.Between(0, most), first = stage.FirstLive(tokens);
        auto held = stage.Set(first, tokens);
        uint64_t capacity = tokens == 0 ? 0 : most;
        for (const auto &row : stage.rows)
            for (size_t e = 0; tokens != 0 && e < held.size(); e++)
                if (!held[e] && row.token >= first && row.offset < stage.boundaries[e + 1] &&
                    row.offset + row.bytes > stage.boundaries[e])
                    capacity = std::min(capacity, row.token);
        EXPECT_EQ(mbr_commit_capacity_tokens(&stage.extents, tokens), capacity) << tokens;
        EXPECT_GE(capacity, tokens);
    });
}

TEST(Commit, RandomWorlds_FloorIsWhatTheFirstTokenTakes)
{
    ForRandomStages(300, [](const Stage &stage, oracle::Generator &) {
        EXPECT_EQ(mbr_commit_floor_bytes(&stage.extents), stage.Bytes(stage.Set(0, 1)));
    });
}

mbr_extents Extents(const char *model, const mbr_layout_request &request)
{
    mbr_geometry geometry;
    mbr_layout layout;
    mbr_extents extents;
    EXPECT_EQ(mbr_geometry_parse(model, &geometry, nullptr), MBR_GEOMETRY_OK);
    EXPECT_EQ(mbr_layout_init(&layout, &geometry.groups[0], &request, nullptr), MBR_GEOMETRY_OK);
    EXPECT_EQ(mbr_extents_init(&extents, &layout, 0, nullptr), MBR_GEOMETRY_OK);
    return extents;
}

TEST(Commit, Floors_AreThoseOfTheSpecification)
{
    struct {
        mbr_layout_kind kind;
        uint64_t floor_mib;
    } rows[] = {
        {MBR_LAYOUT_TOKEN_MAJOR, 2}, {MBR_LAYOUT_SEQ_MAJOR, 192}, {MBR_LAYOUT_HEAD_MAJOR, 1536},
        {MBR_LAYOUT_WINDOW_MAJOR, 6}, // 32 tokens of 192 KiB fill 3 granules
    };
    for (const auto &row : rows) {
        mbr_extents extents = Extents("qwen2.5-14b", {row.kind, 131072, 2 * kMiB, 0, 0});
        EXPECT_EQ(mbr_commit_floor_bytes(&extents), row.floor_mib * kMiB)
            << mbr_layout_name(row.kind);
    }
}

// 50 packed fragments of 40 KiB: unaligned starts share granules, and the floor says so.
TEST(Commit, UnalignedFragments_ShareGranules)
{
    mbr_geometry geometry;
    mbr_layout layout;
    mbr_extents extents;
    ASSERT_EQ(mbr_geometry_parse("layers=25,heads=1,dim=20,bytes=2,planes=2", &geometry, nullptr),
        MBR_GEOMETRY_OK);
    mbr_layout_request request = {MBR_LAYOUT_SEQ_MAJOR, 1024, 1 << 16, 0, 0};
    ASSERT_EQ(mbr_layout_init(&layout, &geometry.groups[0], &request, nullptr), MBR_GEOMETRY_OK);
    ASSERT_EQ(mbr_extents_init(&extents, &layout, 1 << 16, nullptr), MBR_GEOMETRY_OK);
    EXPECT_EQ(mbr_commit_floor_bytes(&extents), 31u << 16);
    // The last fragment starts at 1960 KiB and the 31 granules end at 1984 KiB.
    EXPECT_EQ(mbr_commit_capacity_tokens(&extents, 1), 24u * 1024 / 40);
}

TEST(Commit, SlidingGroup_HoldsTheWindowAndOneExtent)
{
    mbr_extents extents = Extents("gemma-3-4b", {MBR_LAYOUT_SEQ_MAJOR, 131072, 2 * kMiB, 0, 0});
    ASSERT_EQ(extents.layout.group.window_tokens, 1024u);
    // 2048 B a row: 1024 tokens are exactly one extent in each of 58 fragments.
    EXPECT_EQ(mbr_commit_bytes(&extents, mbr_commit_live(&extents, 1024)), 58 * 2 * kMiB);
    EXPECT_EQ(mbr_commit_bytes(&extents, mbr_commit_live(&extents, 1025)), 58 * 4 * kMiB);
    EXPECT_EQ(mbr_commit_bytes(&extents, mbr_commit_live(&extents, 102400)), 58 * 2 * kMiB);
}

// Llama-3-8B with growing windows: about 47 handles a sequence of a few hundred MiB.
TEST(Commit, GrowingWindows_KeepHandlesFewAndWasteLow)
{
    mbr_extents extents = Extents("llama-3-8b", {MBR_LAYOUT_WINDOW_MAJOR, 131072, 2 * kMiB, 0, 0});
    EXPECT_EQ(mbr_commit_extent_count(&extents, {0, 1024}), 48u); // 128 MiB: 32 of 2, 16 of 4
    for (uint64_t tokens = 1; tokens <= 131072; tokens += 997) {
        uint64_t live = tokens * 128 * 1024;
        uint64_t owned = mbr_commit_bytes(&extents, {0, tokens});
        EXPECT_LE(owned, live + live / 16 + 2 * kMiB) << tokens;
    }
}

} // namespace
