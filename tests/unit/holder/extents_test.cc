// Which extent rule a layout gets, and which sizes a caller may ask for.
#include "tests/unit/holder/geometry_oracle.h"

#include <gtest/gtest.h>

#include <cstring>

namespace
{

constexpr uint64_t kMiB = UINT64_C(1) << 20;
constexpr uint64_t kMost = MBR_LAYOUT_BYTES_MAX;

mbr_layout Made(const char *model, const mbr_layout_request &request)
{
    mbr_geometry geometry;
    mbr_layout layout;
    EXPECT_EQ(mbr_geometry_parse(model, &geometry, nullptr), MBR_GEOMETRY_OK);
    EXPECT_EQ(mbr_layout_init(&layout, &geometry.groups[0], &request, nullptr), MBR_GEOMETRY_OK);
    return layout;
}

TEST(Extents, Default_GrowsInWindowsAndIs2MiBElsewhere)
{
    for (int kind = 0; kind < MBR_LAYOUT_COUNT; kind++) {
        mbr_layout layout =
            Made("qwen2.5-7b", {static_cast<mbr_layout_kind>(kind), 100000, 2 * kMiB, 0, 0});
        mbr_extents extents;
        ASSERT_EQ(mbr_extents_init(&extents, &layout, 0, nullptr), MBR_GEOMETRY_OK);
        EXPECT_TRUE(mbr_extents_is_valid(&extents));
        bool windowed = kind == MBR_LAYOUT_WINDOW_MAJOR;
        EXPECT_EQ(extents.rule.unit_bytes, windowed ? layout.window_bytes : 2 * kMiB);
        EXPECT_EQ(extents.rule.divisor, windowed ? 16u : 0u);
        EXPECT_EQ(extents.rule.max_bytes, windowed ? 64 * kMiB : 2 * kMiB);
        EXPECT_EQ(
            extents.reservation_bytes, oracle::Boundaries(extents.rule, layout.span_bytes).back());
    }
}

TEST(Extents, SplitDefault_IsRoundedUpToAnOddGranule)
{
    for (uint64_t granule : {UINT64_C(1), UINT64_C(4096), 3 * kMiB, UINT64_C(1000003)}) {
        mbr_layout layout = Made("phi-4", {MBR_LAYOUT_SEQ_MAJOR, 100, granule, 0, 0});
        mbr_extents extents;
        ASSERT_EQ(mbr_extents_init(&extents, &layout, 0, nullptr), MBR_GEOMETRY_OK);
        EXPECT_EQ(extents.rule.unit_bytes, (2 * kMiB + granule - 1) / granule * granule);
    }
}

TEST(Extents, BadSize_NamesTheNextThatWorksAndItDoes)
{
    struct {
        mbr_layout_kind kind;
        uint64_t extent;
        mbr_geometry_status status;
        uint64_t would_work;
    } rows[] = {
        {MBR_LAYOUT_SEQ_MAJOR, 2 * kMiB - 1, MBR_GEOMETRY_NOT_DIVISIBLE, 2 * kMiB},
        {MBR_LAYOUT_SEQ_MAJOR, 2 * kMiB + 1, MBR_GEOMETRY_NOT_DIVISIBLE, 4 * kMiB},
        {MBR_LAYOUT_SEQ_MAJOR, 1, MBR_GEOMETRY_NOT_DIVISIBLE, 2 * kMiB},
        {MBR_LAYOUT_SEQ_MAJOR, kMost + 1, MBR_GEOMETRY_OUT_OF_RANGE, kMost},
        {MBR_LAYOUT_SEQ_MAJOR, UINT64_MAX, MBR_GEOMETRY_OUT_OF_RANGE, kMost},
        // Windows of 3 tokens of 192 KiB each: 576 KiB in one granule of 2 MiB.
        {MBR_LAYOUT_WINDOW_MAJOR, 3 * kMiB, MBR_GEOMETRY_NOT_DIVISIBLE, 4 * kMiB},
    };
    for (const auto &row : rows) {
        mbr_layout layout = Made("qwen2.5-14b", {row.kind, 1000, 2 * kMiB, 3, 0});
        mbr_extents extents;
        std::memset(&extents, 0x5a, sizeof extents);
        mbr_geometry_error error;
        EXPECT_EQ(mbr_extents_init(&extents, &layout, row.extent, &error), row.status);
        EXPECT_STREQ(error.key, "extent");
        EXPECT_EQ(error.value, std::to_string(row.extent));
        EXPECT_EQ(error.would_work, row.would_work) << error.text;
        EXPECT_NE(std::strstr(error.text, "would work"), nullptr);
        EXPECT_EQ(extents.reservation_bytes, 0u);
        EXPECT_EQ(mbr_extents_init(&extents, &layout, row.would_work, &error), MBR_GEOMETRY_OK);
        EXPECT_TRUE(mbr_extents_is_valid(&extents));
    }
}

TEST(Extents, WindowOfSeveralGranules_RefusesHalfAWindow)
{
    mbr_layout layout = Made("qwen2.5-14b", {MBR_LAYOUT_WINDOW_MAJOR, 1000, 2 * kMiB, 16, 0});
    ASSERT_EQ(layout.window_bytes, 4 * kMiB);
    mbr_extents extents;
    mbr_geometry_error error;
    EXPECT_EQ(mbr_extents_init(&extents, &layout, 6 * kMiB, &error), MBR_GEOMETRY_NOT_DIVISIBLE);
    EXPECT_NE(std::strstr(error.text, "windows"), nullptr) << error.text;
    EXPECT_EQ(error.would_work, 8 * kMiB);
}

TEST(Extents, LargestReservation_StillRoundsUp)
{
    mbr_layer_group group = {1, 1, 1, 1, 1, 0};
    mbr_layout layout;
    mbr_extents extents;
    mbr_layout_request request = {MBR_LAYOUT_TOKEN_MAJOR, kMost, 3, 0, 0};
    ASSERT_EQ(mbr_layout_init(&layout, &group, &request, nullptr), MBR_GEOMETRY_OK);
    ASSERT_EQ(mbr_extents_init(&extents, &layout, kMost - kMost % 3, nullptr), MBR_GEOMETRY_OK);
    EXPECT_EQ(extents.reservation_bytes, 2 * (kMost - kMost % 3));
    EXPECT_TRUE(mbr_extents_is_valid(&extents));
}

TEST(Extents, Validity_SeesEachBrokenPartOfTheEquation)
{
    mbr_layout layout = Made("qwen2.5-14b", {MBR_LAYOUT_WINDOW_MAJOR, 1000, 2 * kMiB, 16, 0});
    mbr_extents good;
    ASSERT_EQ(mbr_extents_init(&good, &layout, 0, nullptr), MBR_GEOMETRY_OK);
    auto broken = [&](auto change) {
        mbr_extents extents = good;
        change(extents);
        return !mbr_extents_is_valid(&extents);
    };
    EXPECT_TRUE(broken([](mbr_extents &e) { e.reservation_bytes++; }));
    EXPECT_TRUE(broken([](mbr_extents &e) { e.reservation_bytes = 0; }));
    EXPECT_TRUE(broken([](mbr_extents &e) { e.rule.unit_bytes = 2 * kMiB; }));
    EXPECT_TRUE(broken([](mbr_extents &e) { e.rule.granule_bytes = kMiB; }));
    EXPECT_TRUE(broken([](mbr_extents &e) { e.rule.max_bytes = 0; }));
    EXPECT_TRUE(broken([](mbr_extents &e) { e.layout.span_bytes = 1; }));
}

} // namespace
