// Sharing against counting, extent by extent, those that hold nothing but the prefix's rows.
#include "tests/unit/holder/geometry_oracle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

namespace
{

using oracle::Count;
using oracle::Counted;
using oracle::Stretches;
using oracle::World;

constexpr uint64_t kMiB = UINT64_C(1) << 20;

template <typename Body> void ForRandomWorlds(int rounds, Body body)
{
    oracle::Generator draw(oracle::Seed());
    for (int round = 0; round < rounds; round++) {
        World world = draw.Next(round % MBR_LAYOUT_COUNT);
        mbr_extents extents = oracle::RandomExtents(world, draw);
        const auto &rule = extents.rule;
        SCOPED_TRACE(testing::Message()
            << "round " << round << ": " << world << " | unit " << rule.unit_bytes << " max "
            << rule.max_bytes << " divisor " << rule.divisor);
        body(world, extents, draw);
        if (testing::Test::HasFailure())
            return;
    }
}

TEST(Sharing, RandomWorlds_EqualTheCountOfWholeExtents)
{
    uint64_t shared_worlds = 0;
    ForRandomWorlds(1000, [&](const World &world, const mbr_extents &extents, auto &draw) {
        auto rows = oracle::Rows(world, extents.layout.window_tokens);
        auto boundaries = oracle::Boundaries(extents.rule, extents.layout.span_bytes);
        uint64_t prefix = draw.Between(0, world.request.max_tokens);
        Counted expected = Count(world, extents.layout, rows, boundaries, prefix);
        mbr_sharing sharing;
        ASSERT_EQ(mbr_sharing_compute(&extents, prefix, &sharing, nullptr), MBR_GEOMETRY_OK);
        EXPECT_EQ(sharing.prefix_bytes, expected.live) << prefix;
        EXPECT_EQ(sharing.shared_extents, expected.extents) << prefix;
        EXPECT_EQ(sharing.shared_bytes, expected.bytes) << prefix;
        EXPECT_EQ(sharing.boundary_bytes, expected.boundary) << prefix;
        shared_worlds += expected.extents != 0;
    });
    EXPECT_GT(shared_worlds, 200u) << "the generator must reach both answers";
    EXPECT_LT(shared_worlds, 800u);
}

// The pieces of every span: private head, shared extents, private tail, with no byte twice.
TEST(Sharing, RandomWorlds_SpansSplitIntoPrivateAndSharedPieces)
{
    ForRandomWorlds(600, [](const World &, const mbr_extents &extents, auto &draw) {
        uint64_t prefix = draw.Between(0, extents.layout.max_tokens);
        mbr_sharing sharing;
        ASSERT_EQ(mbr_sharing_compute(&extents, prefix, &sharing, nullptr), MBR_GEOMETRY_OK);
        uint64_t shared = 0, copied = 0;
        for (uint64_t i = 0; i < mbr_layout_span_count(&extents.layout); i++) {
            mbr_sharing_span span = mbr_sharing_span_at(&extents, i, prefix);
            ASSERT_LE(span.shared.start, span.shared.end);
            ASSERT_LE(span.shared.end, span.live.end);
            shared += span.shared.end - span.shared.start;
            copied += span.live.end - span.shared.end;
            if (span.shared.start > span.live.start)
                copied += span.shared.start - span.live.start;
        }
        EXPECT_EQ(shared, sharing.shared_bytes);
        if (extents.layout.kind != MBR_LAYOUT_WINDOW_MAJOR) {
            EXPECT_EQ(copied, sharing.boundary_bytes);
        } else {
            EXPECT_GE(copied, sharing.boundary_bytes);
        }
    });
}

// What a sharer owns: the extents it holds but for those that Count takes as shared.
TEST(Sharing, RandomWorlds_PrivateBytesAreTheHeldExtentsWithoutTheShared)
{
    ForRandomWorlds(600, [](const World &world, const mbr_extents &extents, auto &draw) {
        const mbr_layout &layout = extents.layout;
        auto rows = oracle::Rows(world, layout.window_tokens);
        auto boundaries = oracle::Boundaries(extents.rule, layout.span_bytes);
        uint64_t prefix = draw.Between(0, layout.max_tokens);
        uint64_t tokens = draw.Between(prefix, layout.max_tokens);
        uint64_t window = world.group.window_tokens;
        auto held_at = [&](uint64_t count) {
            uint64_t first = window != 0 && count > window ? count - window : 0;
            return oracle::ExtentsOf(
                oracle::LiveBytes(world, layout, rows, first, count), boundaries);
        };
        auto held = held_at(tokens), at_attach = held_at(prefix);
        auto stretches = Stretches(world, layout, rows, prefix);
        uint64_t expected = 0;
        for (size_t e = 0; e < held.size(); e++) {
            bool shared = false;
            for (const auto &stretch : stretches)
                shared = shared ||
                    (at_attach[e] && boundaries[e] >= stretch.first &&
                        boundaries[e + 1] <= stretch.second);
            expected += held[e] && !shared ? boundaries[e + 1] - boundaries[e] : 0;
        }
        EXPECT_EQ(mbr_sharing_private_bytes(&extents, prefix, tokens), expected)
            << prefix << " " << tokens;
    });
}

// Which other layouts share the prefix with their default extents.
uint32_t OtherLayouts(const World &world, uint64_t prefix)
{
    uint32_t found = 0;
    for (int kind = 0; kind < MBR_LAYOUT_COUNT; kind++) {
        World other = world;
        other.request = {static_cast<mbr_layout_kind>(kind), world.request.max_tokens,
            world.request.granule_bytes, 0, 0};
        mbr_layout layout;
        mbr_extents extents;
        if (kind == world.request.kind ||
            mbr_layout_init(&layout, &other.group, &other.request, nullptr) != MBR_GEOMETRY_OK ||
            mbr_extents_init(&extents, &layout, 0, nullptr) != MBR_GEOMETRY_OK)
            continue;
        auto rows = oracle::Rows(other, layout.window_tokens);
        auto boundaries = oracle::Boundaries(extents.rule, layout.span_bytes);
        found |= uint32_t{Count(other, layout, rows, boundaries, prefix).extents != 0} << kind;
    }
    return found;
}

TEST(Sharing, RandomWorlds_RefusalNamesTheNextPrefixTheLargestExtentAndTheLayouts)
{
    uint64_t refused = 0, no_prefix = 0, no_extent = 0, other_layout = 0;
    ForRandomWorlds(400, [&](const World &world, const mbr_extents &extents, auto &draw) {
        const mbr_layout &layout = extents.layout;
        uint64_t prefix = draw.Between(0, layout.max_tokens);
        auto rows = oracle::Rows(world, layout.window_tokens);
        auto boundaries = oracle::Boundaries(extents.rule, layout.span_bytes);
        mbr_sharing_refusal refusal;
        bool shared = Count(world, layout, rows, boundaries, prefix).extents != 0;
        ASSERT_EQ(mbr_sharing_check(&extents, prefix, true, true, &refusal), shared);
        if (shared) {
            ASSERT_EQ(refusal.failed, 0u);
            ASSERT_STREQ(refusal.text, "");
            return;
        }
        refused++;
        ASSERT_EQ(refusal.failed, static_cast<uint32_t>(MBR_SHARING_EXTENT));
        uint64_t next = prefix + 1;
        while (
            next <= layout.max_tokens && Count(world, layout, rows, boundaries, next).extents == 0)
            next++;
        ASSERT_EQ(refusal.prefix_tokens, next <= layout.max_tokens ? next : 0) << prefix;
        ASSERT_EQ(refusal.layouts, OtherLayouts(world, prefix)) << prefix;
        other_layout += refusal.layouts != 0;
        no_prefix += refusal.prefix_tokens == 0;
        no_extent += refusal.extent_bytes == 0;
        uint64_t unit = layout.window_bytes != 0 ? layout.window_bytes : layout.granule_bytes;
        uint64_t largest = 0;
        for (uint64_t size = unit; size <= layout.span_bytes; size += unit) {
            auto fixed = oracle::Boundaries({1, size, 1, 0}, layout.span_bytes);
            if (Count(world, layout, rows, fixed, prefix).extents != 0 &&
                (world.group.window_tokens == 0 || size == refusal.extent_bytes))
                largest = size;
        }
        ASSERT_EQ(refusal.extent_bytes, largest) << prefix;
    });
    EXPECT_GT(refused, 100u);
    EXPECT_GT(no_prefix, 10u);
    EXPECT_GT(no_extent, 10u);
    EXPECT_GT(other_layout, 10u);
}

mbr_extents Extents(const char *model, mbr_layout_kind kind, uint64_t extent_bytes)
{
    mbr_geometry geometry;
    mbr_layout layout;
    mbr_extents extents;
    mbr_layout_request request = {kind, 131072, 2 * kMiB, 0, 0};
    EXPECT_EQ(mbr_geometry_parse(model, &geometry, nullptr), MBR_GEOMETRY_OK);
    EXPECT_EQ(mbr_layout_init(&layout, &geometry.groups[0], &request, nullptr), MBR_GEOMETRY_OK);
    EXPECT_EQ(mbr_extents_init(&extents, &layout, extent_bytes, nullptr), MBR_GEOMETRY_OK);
    return extents;
}

TEST(Sharing, Thresholds_AreThoseOfTheSpecification)
{
    struct {
        const char *model;
        mbr_layout_kind kind;
        uint64_t threshold_tokens;
    } rows[] = {
        {"qwen2.5-14b", MBR_LAYOUT_HEAD_MAJOR, 8192},
        {"llama-3-8b", MBR_LAYOUT_HEAD_MAJOR, 8192},
        {"qwen2.5-14b", MBR_LAYOUT_SEQ_MAJOR, 1024},
        {"qwen2.5-14b", MBR_LAYOUT_TOKEN_MAJOR, 11}, // 2 MiB / 192 KiB, rounded up
        {"llama-3-8b", MBR_LAYOUT_WINDOW_MAJOR, 16},
        {"phi-4", MBR_LAYOUT_SEQ_MAJOR, 820},      // 2 MiB / 2560 B, rounded up
        {"phi-3-mini", MBR_LAYOUT_SEQ_MAJOR, 342}, // 2 MiB / 6144 B, rounded up
        {"deepseek-v3", MBR_LAYOUT_SEQ_MAJOR, 1821},
    };
    for (const auto &row : rows) {
        mbr_extents extents = Extents(row.model, row.kind, 0);
        mbr_sharing_refusal refusal;
        EXPECT_FALSE(mbr_sharing_check(&extents, row.threshold_tokens - 1, true, true, &refusal));
        EXPECT_EQ(refusal.prefix_tokens, row.threshold_tokens) << row.model;
        EXPECT_NE(std::strstr(refusal.text, std::to_string(row.threshold_tokens).c_str()), nullptr)
            << refusal.text;
        EXPECT_TRUE(mbr_sharing_check(&extents, row.threshold_tokens, true, true, &refusal));
    }
}

TEST(Sharing, AlignedFragments_ShareTheFloorOfTheirBytes)
{
    mbr_extents extents = Extents("qwen2.5-14b", MBR_LAYOUT_SEQ_MAJOR, 0);
    mbr_sharing sharing;
    ASSERT_EQ(mbr_sharing_compute(&extents, 2500, &sharing, nullptr), MBR_GEOMETRY_OK);
    EXPECT_EQ(sharing.shared_extents, 96 * (2500 * 2048 / (2 * kMiB)));
    EXPECT_EQ(sharing.shared_bytes, sharing.shared_extents * 2 * kMiB);
    EXPECT_EQ(sharing.boundary_bytes, UINT64_C(2500) * 196608 - sharing.shared_bytes);
}

TEST(Sharing, LargerExtent_ReplacesTheGranule)
{
    mbr_extents extents = Extents("qwen2.5-14b", MBR_LAYOUT_SEQ_MAJOR, 16 * kMiB);
    mbr_sharing_refusal refusal;
    EXPECT_FALSE(mbr_sharing_check(&extents, 2500, true, true, &refusal));
    EXPECT_EQ(refusal.prefix_tokens, 8192u);
    EXPECT_EQ(refusal.extent_bytes, 4 * kMiB); // 2500 rows of 2 KiB are 4.88 MiB
    EXPECT_EQ(refusal.layouts, 1u << MBR_LAYOUT_TOKEN_MAJOR | 1u << MBR_LAYOUT_WINDOW_MAJOR);
    EXPECT_NE(std::strstr(refusal.text, "16 MiB"), nullptr) << refusal.text;
    EXPECT_NE(std::strstr(refusal.text, "extents of 4 MiB"), nullptr) << refusal.text;
    EXPECT_NE(std::strstr(refusal.text, "token-major, window-major"), nullptr) << refusal.text;
}

TEST(Sharing, WindowWiderThanThePrefix_EveryOtherLayoutIsProposed)
{
    mbr_geometry geometry;
    mbr_layout layout;
    mbr_extents extents;
    mbr_sharing_refusal refusal;
    mbr_layout_request request = {MBR_LAYOUT_WINDOW_MAJOR, 131072, 2 * kMiB, 20000, 0};
    ASSERT_EQ(mbr_geometry_parse("llama-3-8b", &geometry, nullptr), MBR_GEOMETRY_OK);
    ASSERT_EQ(mbr_layout_init(&layout, &geometry.groups[0], &request, nullptr), MBR_GEOMETRY_OK);
    ASSERT_EQ(mbr_extents_init(&extents, &layout, 0, nullptr), MBR_GEOMETRY_OK);
    EXPECT_FALSE(mbr_sharing_check(&extents, 8192, true, true, &refusal));
    EXPECT_EQ(refusal.layouts,
        1u << MBR_LAYOUT_HEAD_MAJOR | 1u << MBR_LAYOUT_SEQ_MAJOR | 1u << MBR_LAYOUT_TOKEN_MAJOR);
    EXPECT_EQ(refusal.prefix_tokens, 20000u);
    EXPECT_EQ(refusal.extent_bytes, 0u);
}

TEST(Sharing, Refusal_NamesEachFailedCondition)
{
    mbr_extents extents = Extents("llama-3-8b", MBR_LAYOUT_SEQ_MAJOR, 0);
    struct {
        uint64_t prefix;
        bool has_virtual, has_shared;
        uint32_t failed;
        const char *says, *says_not;
    } rows[] = {
        {4096, true, false, MBR_SHARING_MECHANISM, "lacks shared;", "prefix"},
        {4096, false, true, MBR_SHARING_MECHANISM, "lacks virtual;", "prefix"},
        {4096, false, false, MBR_SHARING_MECHANISM, "lacks virtual and shared;", "prefix"},
        {5, true, true, MBR_SHARING_EXTENT, "a prefix of 1024 tokens", "lacks"},
        {5, true, true, MBR_SHARING_EXTENT, "a prefix of 1024 tokens", "smaller granule"},
        {5, true, false, MBR_SHARING_MECHANISM | MBR_SHARING_EXTENT, "; and no whole extent", "xx"},
    };
    for (const auto &row : rows) {
        mbr_sharing_refusal refusal;
        EXPECT_FALSE(
            mbr_sharing_check(&extents, row.prefix, row.has_virtual, row.has_shared, &refusal));
        EXPECT_EQ(refusal.failed, row.failed);
        EXPECT_NE(std::strstr(refusal.text, row.says), nullptr) << refusal.text;
        EXPECT_EQ(std::strstr(refusal.text, row.says_not), nullptr) << refusal.text;
    }
}

TEST(Sharing, NothingHelps_AsksForMoreRoomOrASmallerGranule)
{
    mbr_layer_group group = {1, 1, 1, 1, 1, 0};
    mbr_layout_request request = {MBR_LAYOUT_TOKEN_MAJOR, 100, 1000, 0, 0};
    mbr_layout layout;
    mbr_extents extents;
    mbr_sharing_refusal refusal;
    ASSERT_EQ(mbr_layout_init(&layout, &group, &request, nullptr), MBR_GEOMETRY_OK);
    ASSERT_EQ(mbr_extents_init(&extents, &layout, 1000, nullptr), MBR_GEOMETRY_OK);
    EXPECT_FALSE(mbr_sharing_check(&extents, 100, true, true, &refusal));
    EXPECT_EQ(refusal.prefix_tokens, 0u);
    EXPECT_EQ(refusal.extent_bytes, 0u);
    EXPECT_EQ(refusal.layouts, 0u);
    EXPECT_NE(std::strstr(refusal.text, "smaller granule"), nullptr) << refusal.text;
}

// Padding a window to a granule near the limit does not fit a reservation: it is no proposal.
TEST(Sharing, LayoutThatCannotBeMade_IsNoProposal)
{
    mbr_layer_group group = {1, 1, 1, 1, 1, 0};
    mbr_layout_request request = {
        MBR_LAYOUT_TOKEN_MAJOR, (UINT64_C(1) << 62) - 2, (UINT64_C(1) << 62) - 1, 0, 0};
    mbr_layout layout;
    mbr_extents extents;
    mbr_sharing_refusal refusal;
    ASSERT_EQ(mbr_layout_init(&layout, &group, &request, nullptr), MBR_GEOMETRY_OK);
    ASSERT_EQ(mbr_extents_init(&extents, &layout, 0, nullptr), MBR_GEOMETRY_OK);
    EXPECT_FALSE(mbr_sharing_check(&extents, 5, true, true, &refusal));
    EXPECT_EQ(refusal.layouts, 0u);
}

TEST(Sharing, PrefixBeyondTheReservation_IsRefused)
{
    mbr_extents extents = Extents("llama-3-8b", MBR_LAYOUT_SEQ_MAJOR, 0);
    mbr_sharing sharing;
    mbr_geometry_error error;
    EXPECT_EQ(mbr_sharing_compute(&extents, 131073, &sharing, &error), MBR_GEOMETRY_OUT_OF_RANGE);
    EXPECT_STREQ(error.key, "prefix");
    EXPECT_EQ(error.would_work, 131072u);
    EXPECT_EQ(sharing.prefix_bytes, 0u);
}

TEST(Sharing, WholeGranules_NeverNegativeAndZeroGranuleRefused)
{
    struct {
        mbr_byte_range range;
        uint64_t granule, expected;
    } rows[] = {
        {{0, 0}, 2, 0},
        {{0, 10}, 5, 2},
        {{1, 10}, 5, 1},
        {{1, 9}, 5, 0},
        {{6, 9}, 5, 0}, // floor 1, ceil 2
        {{6, 16}, 5, 1},
        {{0, UINT64_MAX}, 1, UINT64_MAX},
        {{UINT64_MAX, UINT64_MAX}, 2, 0},
    };
    uint64_t granules;
    for (const auto &row : rows) {
        EXPECT_EQ(mbr_sharing_whole_granules(row.range, row.granule, &granules, nullptr),
            MBR_GEOMETRY_OK);
        EXPECT_EQ(granules, row.expected) << row.range.start << " " << row.range.end;
    }
    mbr_geometry_error error;
    EXPECT_EQ(mbr_sharing_whole_granules({0, 10}, 0, &granules, &error), MBR_GEOMETRY_OUT_OF_RANGE);
    EXPECT_EQ(granules, 0u);
    EXPECT_STREQ(error.key, "granule");
}

TEST(Sharing, Saving_IsEveryOtherSequence)
{
    uint64_t bytes;
    mbr_geometry_error error;
    EXPECT_EQ(mbr_sharing_saving(10, 1, &bytes, &error), MBR_GEOMETRY_OK);
    EXPECT_EQ(bytes, 0u);
    EXPECT_EQ(mbr_sharing_saving(10, 5, &bytes, &error), MBR_GEOMETRY_OK);
    EXPECT_EQ(bytes, 40u);
    EXPECT_EQ(mbr_sharing_saving(0, UINT64_MAX, &bytes, &error), MBR_GEOMETRY_OK);
    EXPECT_EQ(bytes, 0u);
    EXPECT_EQ(mbr_sharing_saving(10, 0, &bytes, &error), MBR_GEOMETRY_OUT_OF_RANGE);
    EXPECT_EQ(error.would_work, 1u);
    for (uint64_t shared : {UINT64_C(2), UINT64_C(3), UINT64_MAX}) {
        EXPECT_EQ(mbr_sharing_saving(shared, UINT64_MAX, &bytes, &error), MBR_GEOMETRY_OVERFLOW);
        EXPECT_EQ(bytes, 0u);
        uint64_t most = error.would_work;
        EXPECT_EQ(mbr_sharing_saving(shared, most, &bytes, &error), MBR_GEOMETRY_OK);
        EXPECT_EQ(mbr_sharing_saving(shared, most + 1, &bytes, &error), MBR_GEOMETRY_OVERFLOW);
    }
}

TEST(Sharing, PoolCapacity_FollowsTheFormulaAtItsEdges)
{
    constexpr uint64_t unbounded = MBR_SHARING_UNBOUNDED;
    struct {
        uint64_t pool, prefix, own, unshared, shared;
    } rows[] = {
        {100, 30, 10, 2, 7},
        {40, 30, 10, 1, 1},
        {39, 30, 10, 0, 0}, // below p + q
        {100, 30, 0, 3, unbounded},
        {29, 30, 0, 0, 0},
        {100, 0, 10, 10, 10},
        {100, 0, 0, unbounded, unbounded},
        {0, 0, 0, unbounded, unbounded},
        {UINT64_MAX, UINT64_MAX, 1, 0, 0}, // p + q overflows
        {UINT64_MAX, 1, UINT64_MAX - 1, 1, 1},
    };
    for (const auto &row : rows) {
        mbr_sharing_capacity found = mbr_sharing_pool_capacity(row.pool, row.prefix, row.own);
        EXPECT_EQ(found.unshared, row.unshared) << row.pool << " " << row.prefix << " " << row.own;
        EXPECT_EQ(found.shared, row.shared) << row.pool << " " << row.prefix << " " << row.own;
    }
}

TEST(Sharing, FormatBytes_IsExact)
{
    char text[32];
    EXPECT_STREQ(mbr_geometry_format_bytes(text, sizeof text, 0), "0 B");
    EXPECT_STREQ(mbr_geometry_format_bytes(text, sizeof text, 2560), "2560 B");
    EXPECT_STREQ(mbr_geometry_format_bytes(text, sizeof text, 6144), "6 KiB");
    EXPECT_STREQ(mbr_geometry_format_bytes(text, sizeof text, 2 * kMiB), "2 MiB");
    EXPECT_STREQ(mbr_geometry_format_bytes(text, sizeof text, UINT64_C(1) << 62), "4194304 TiB");
}

} // namespace
