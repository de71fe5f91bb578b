// The four layouts against a walk of memory in the order that their names spell, and the default
// window against trying every W.
#include "tests/unit/holder/geometry_oracle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>

namespace
{

using oracle::World;

constexpr uint64_t kMiB = UINT64_C(1) << 20;
constexpr uint64_t kMost = MBR_LAYOUT_BYTES_MAX;
constexpr uint64_t kHighest = std::numeric_limits<uint64_t>::max();

mbr_layer_group Model(const char *name)
{
    mbr_geometry geometry;
    EXPECT_EQ(mbr_geometry_parse(name, &geometry, nullptr), MBR_GEOMETRY_OK);
    return geometry.groups[0];
}

mbr_layout Made(const mbr_layer_group &group, const mbr_layout_request &request)
{
    mbr_layout layout;
    mbr_geometry_error error;
    EXPECT_EQ(mbr_layout_init(&layout, &group, &request, &error), MBR_GEOMETRY_OK) << error.text;
    EXPECT_TRUE(mbr_layout_is_valid(&layout));
    return layout;
}

uint64_t ByDescriptor(const mbr_layout_strides &s, const oracle::Row &row)
{
    return row.token / s.window_tokens * s.window_bytes +
        row.token % s.window_tokens * s.token_bytes + row.layer * s.layer_bytes +
        row.plane * s.plane_bytes + row.head * s.head_bytes;
}

void ExpectOffsetsEqualTheWalk(const World &world)
{
    mbr_layout layout = Made(world.group, world.request);
    auto rows = oracle::Rows(world, layout.window_tokens);
    ASSERT_EQ(rows.size(),
        world.group.layers * world.group.planes * world.group.heads * world.request.max_tokens);
    uint64_t last = 0;
    for (const auto &row : rows) {
        ASSERT_EQ(mbr_layout_offset(&layout, row.layer, row.plane, row.head, row.token), row.offset)
            << row.layer << " " << row.plane << " " << row.head << " " << row.token;
        ASSERT_EQ(ByDescriptor(layout.strides, row), row.offset);
        last = std::max(last, row.offset + row.bytes);
    }
    EXPECT_EQ(layout.strides.element_bytes, world.group.element_bytes);
    ASSERT_LE(last, layout.span_bytes);
    if (world.request.kind != MBR_LAYOUT_WINDOW_MAJOR) {
        EXPECT_EQ(last, layout.span_bytes);
    }
}

void ExpectSpansEqualTheWalk(const World &world, oracle::Generator &draw)
{
    mbr_layout layout = Made(world.group, world.request);
    auto rows = oracle::Rows(world, layout.window_tokens);
    uint64_t first = draw.Between(0, world.request.max_tokens);
    uint64_t end = draw.Between(first, world.request.max_tokens);
    auto live = oracle::LiveBytes(world, layout, rows, first, end);
    std::vector<bool> spans(layout.span_bytes), filled(layout.span_bytes);
    for (uint64_t i = 0; i < mbr_layout_span_count(&layout); i++) {
        mbr_byte_range touched = mbr_layout_span_touched(&layout, i, first, end);
        mbr_byte_range full = mbr_layout_span_filled(&layout, i, end);
        ASSERT_LE(touched.start, touched.end);
        ASSERT_LE(full.start, full.end);
        std::fill(spans.begin() + static_cast<ptrdiff_t>(touched.start),
            spans.begin() + static_cast<ptrdiff_t>(touched.end), true);
        std::fill(filled.begin() + static_cast<ptrdiff_t>(full.start),
            filled.begin() + static_cast<ptrdiff_t>(full.end), true);
    }
    for (const auto &row : rows)
        for (uint64_t i = row.offset; i < row.offset + row.bytes; i++) {
            ASSERT_EQ(spans[i], live[i]) << i;
            bool before = row.token < end;
            if (world.request.kind == MBR_LAYOUT_WINDOW_MAJOR)
                before = (row.token / layout.window_tokens + 1) * layout.window_tokens <= end;
            ASSERT_EQ(filled[i], before) << i;
        }
}

uint64_t OracleStraddling(
    const mbr_layout &layout, const std::vector<oracle::Row> &rows, uint64_t tokens)
{
    // A row of one token is the heads that lie together, found by its first byte.
    std::set<uint64_t> cut;
    for (const auto &row : rows) {
        if (row.token >= tokens)
            continue;
        bool whole = layout.kind == MBR_LAYOUT_TOKEN_MAJOR;
        uint64_t head = layout.kind == MBR_LAYOUT_HEAD_MAJOR ? row.head : 0;
        uint64_t start = UINT64_MAX, end = 0;
        for (const auto &other : rows)
            if (other.token == row.token &&
                (whole || (other.layer == row.layer && other.plane == row.plane)) &&
                (layout.kind != MBR_LAYOUT_HEAD_MAJOR || other.head == head)) {
                start = std::min(start, other.offset);
                end = std::max(end, other.offset + other.bytes);
            }
        if (start / layout.granule_bytes != (end - 1) / layout.granule_bytes)
            cut.insert(start);
    }
    return cut.size();
}

TEST(Layout, RandomWorlds_OffsetsAndDescriptorEqualTheWalk)
{
    oracle::Generator draw(oracle::Seed());
    for (int round = 0; round < 400; round++) {
        World world = draw.Next(round % MBR_LAYOUT_COUNT);
        SCOPED_TRACE(testing::Message() << "round " << round << ": " << world);
        ExpectOffsetsEqualTheWalk(world);
        if (HasFatalFailure())
            return;
    }
}

TEST(Layout, RandomWorlds_SpansEqualTheWalk)
{
    oracle::Generator draw(oracle::Seed());
    for (int round = 0; round < 400; round++) {
        World world = draw.Next(round % MBR_LAYOUT_COUNT);
        SCOPED_TRACE(testing::Message() << "round " << round << ": " << world);
        ExpectSpansEqualTheWalk(world, draw);
        if (HasFatalFailure())
            return;
    }
}

TEST(Layout, RandomWorlds_StraddlingRowsEqualTheWalk)
{
    oracle::Generator draw(oracle::Seed());
    uint64_t strided = 0;
    for (int round = 0; round < 120; round++) {
        World world = draw.Next(round % MBR_LAYOUT_COUNT);
        /* Never more than were drawn: the stride was drawn for those. */
        world.request.max_tokens = 1 + (world.request.max_tokens - 1) % 24;
        SCOPED_TRACE(testing::Message() << "round " << round << ": " << world);
        mbr_layout layout = Made(world.group, world.request);
        strided += world.request.fragment_stride_bytes != 0;
        auto rows = oracle::Rows(world, layout.window_tokens);
        for (uint64_t tokens : {UINT64_C(0), layout.max_tokens / 2, layout.max_tokens})
            ASSERT_EQ(
                mbr_layout_straddling_rows(&layout, tokens), OracleStraddling(layout, rows, tokens))
                << tokens;
    }
    EXPECT_GT(strided, 5u); /* a quarter of them: 30 or so */
}

// 2 MiB / 2560 B leaves 512 B: of 4096 rows (5 granules) a boundary cuts 4.
TEST(Layout, OddRows_StraddleGranules)
{
    mbr_layer_group one_layer = {1, 10, 128, 2, 1, 0};
    mbr_layout layout = Made(one_layer, {MBR_LAYOUT_SEQ_MAJOR, 4096, 2 * kMiB, 0, 0});
    EXPECT_EQ(layout.row_bytes, 2560u);
    EXPECT_EQ(mbr_layout_straddling_rows(&layout, 4096), 4u);
    mbr_layer_group llama = Model("llama-3-8b");
    mbr_layout even = Made(llama, {MBR_LAYOUT_SEQ_MAJOR, 8192, 2 * kMiB, 0, 0});
    EXPECT_EQ(mbr_layout_straddling_rows(&even, 8192), 0u);
}

TEST(Layout, EveryModel_FragmentsTimesRowIsTheTokenInEveryLayout)
{
    for (uint64_t i = 0; i < mbr_geometry_model_count(); i++) {
        const mbr_geometry *model = mbr_geometry_model(i);
        for (uint32_t g = 0; g < model->group_count; g++)
            for (int kind = 0; kind < MBR_LAYOUT_COUNT; kind++) {
                mbr_layout layout = Made(
                    model->groups[g], {static_cast<mbr_layout_kind>(kind), 4096, 2 * kMiB, 0, 0});
                EXPECT_EQ(layout.fragments * layout.row_bytes,
                    mbr_layer_group_token_bytes(&model->groups[g]))
                    << model->name << " " << mbr_layout_name(layout.kind);
            }
    }
}

TEST(Layout, Fragments_AreThoseOfTheSpecification)
{
    mbr_layer_group group = Model("qwen2.5-14b");
    struct {
        mbr_layout_kind kind;
        uint64_t fragments, row_bytes;
    } rows[] = {
        {MBR_LAYOUT_HEAD_MAJOR, 2 * 48 * 8, 256},
        {MBR_LAYOUT_SEQ_MAJOR, 2 * 48, 2048},
        {MBR_LAYOUT_TOKEN_MAJOR, 1, 192 * 1024},
        {MBR_LAYOUT_WINDOW_MAJOR, 2 * 48, 2048},
    };
    for (const auto &row : rows) {
        mbr_layout layout = Made(group, {row.kind, 1000, 2 * kMiB, 0, 0});
        EXPECT_EQ(layout.fragments, row.fragments);
        EXPECT_EQ(layout.row_bytes, row.row_bytes);
    }
}

TEST(Layout, DefaultWindow_IsTheSmallestThatWastesAtMostOnePercent)
{
    oracle::Generator draw(oracle::Seed());
    for (int round = 0; round < 3000; round++) {
        uint64_t token = draw.Between(1, round % 2 == 0 ? 40 : 4000);
        uint64_t granule = draw.Between(1, round % 3 == 0 ? 30 : 5000);
        uint64_t expected = 16;
        for (;; expected++) {
            uint64_t used = expected * token, padded = (used + granule - 1) / granule * granule;
            if ((padded - used) * 100 <= padded)
                break;
        }
        ASSERT_EQ(mbr_layout_default_window(token, granule), expected) << token << " " << granule;
    }
}

TEST(Layout, DefaultWindow_OfPublishedModels)
{
    EXPECT_EQ(mbr_layout_default_window(128 << 10, 2 * kMiB), 16u);
    EXPECT_EQ(mbr_layout_default_window(12 << 10, 2 * kMiB), 169u); // 2028 of 2048 KiB
    EXPECT_EQ(mbr_layout_default_window(1, kHighest), kHighest - kHighest / 100);
    EXPECT_EQ(mbr_layout_default_window(MBR_GEOMETRY_TOKEN_BYTES_MAX, 1), 16u);
    EXPECT_EQ(mbr_layout_default_window(MBR_GEOMETRY_TOKEN_BYTES_MAX, 4096), 16u);
    uint64_t huge = mbr_layout_default_window(MBR_GEOMETRY_TOKEN_BYTES_MAX, kHighest);
    EXPECT_LE(huge, kHighest / MBR_GEOMETRY_TOKEN_BYTES_MAX);
}

TEST(Layout, Names_ReadBack)
{
    for (int kind = 0; kind < MBR_LAYOUT_COUNT; kind++) {
        mbr_layout_kind read;
        EXPECT_EQ(
            mbr_layout_parse(mbr_layout_name(static_cast<mbr_layout_kind>(kind)), &read, nullptr),
            MBR_GEOMETRY_OK);
        EXPECT_EQ(read, kind);
    }
}

TEST(Layout, UnknownName_ListsTheNamesAndTheNearest)
{
    mbr_layout_kind kind;
    mbr_geometry_error error;
    EXPECT_EQ(mbr_layout_parse("tokens-major", &kind, &error), MBR_GEOMETRY_OUT_OF_RANGE);
    EXPECT_NE(std::strstr(error.text, "nearest: token-major"), nullptr) << error.text;
    EXPECT_NE(std::strstr(error.text, "window-major would work"), nullptr) << error.text;
    EXPECT_EQ(mbr_layout_parse("", &kind, &error), MBR_GEOMETRY_OUT_OF_RANGE);
    EXPECT_EQ(std::strstr(error.text, "nearest"), nullptr) << error.text;
    EXPECT_EQ(kind, MBR_LAYOUT_HEAD_MAJOR);
}

TEST(Layout, FragmentStride_IsIgnoredWhereThereIsOneSpan)
{
    mbr_layer_group group = {2, 2, 4, 2, 2, 0};
    for (mbr_layout_kind kind : {MBR_LAYOUT_TOKEN_MAJOR, MBR_LAYOUT_WINDOW_MAJOR}) {
        mbr_layout with = Made(group, {kind, 40, 64, 0, 5});
        mbr_layout without = Made(group, {kind, 40, 64, 0, 0});
        EXPECT_EQ(with.span_bytes, without.span_bytes);
        EXPECT_EQ(with.fragment_stride_bytes, without.fragment_stride_bytes);
    }
}

TEST(Layout, BadRequest_NamesWhatWouldWorkAndThatWorks)
{
    mbr_layer_group group = {32, 8, 128, 2, 2, 0};
    const uint64_t token = 128 << 10;
    struct {
        mbr_layout_request request;
        mbr_geometry_status status;
        const char *key;
        uint64_t would_work;
    } rows[] = {
        {{MBR_LAYOUT_TOKEN_MAJOR, 0, 4096, 0, 0}, MBR_GEOMETRY_OUT_OF_RANGE, "max-tokens", 1},
        {{MBR_LAYOUT_TOKEN_MAJOR, 9, 0, 0, 0}, MBR_GEOMETRY_OUT_OF_RANGE, "granule", 1},
        {{MBR_LAYOUT_TOKEN_MAJOR, 9, kMost + 1, 0, 0}, MBR_GEOMETRY_OUT_OF_RANGE, "granule", kMost},
        {{MBR_LAYOUT_TOKEN_MAJOR, kHighest, 4096, 0, 0}, MBR_GEOMETRY_OVERFLOW, "max-tokens",
            kMost / token},
        {{MBR_LAYOUT_HEAD_MAJOR, kMost / token + 1, 4096, 0, 0}, MBR_GEOMETRY_OVERFLOW,
            "max-tokens", kMost / token},
        {{MBR_LAYOUT_SEQ_MAJOR, kHighest / 2048, 4096, 0, 0}, MBR_GEOMETRY_OVERFLOW, "max-tokens",
            kMost / token},
        {{MBR_LAYOUT_WINDOW_MAJOR, kHighest, 2 * kMiB, 0, 0}, MBR_GEOMETRY_OVERFLOW, "max-tokens",
            kMost / (2 * kMiB) * 16},
        {{MBR_LAYOUT_WINDOW_MAJOR, kMost / token + 1, 2 * kMiB, 0, 0}, MBR_GEOMETRY_OVERFLOW,
            "max-tokens", kMost / (2 * kMiB) * 16},
        {{MBR_LAYOUT_WINDOW_MAJOR, 9, 4096, kHighest, 0}, MBR_GEOMETRY_OVERFLOW, "window",
            kMost / token},
        {{MBR_LAYOUT_WINDOW_MAJOR, 9, kMost / 2 + 1, kHighest / token, 0}, MBR_GEOMETRY_OVERFLOW,
            "window", (kMost / 2 + 1) / token},
        {{MBR_LAYOUT_WINDOW_MAJOR, 9, kMost / 2 + 1, kMost / token, 0}, MBR_GEOMETRY_OVERFLOW,
            "window", (kMost / 2 + 1) / token},
        {{MBR_LAYOUT_SEQ_MAJOR, 100, 4096, 0, 204799}, MBR_GEOMETRY_OUT_OF_RANGE, "fragment-stride",
            204800},
        {{MBR_LAYOUT_SEQ_MAJOR, 100, 4096, 0, 204801}, MBR_GEOMETRY_NOT_DIVISIBLE,
            "fragment-stride", 204800},
        {{MBR_LAYOUT_SEQ_MAJOR, 100, 4096, 0, kHighest - 1}, MBR_GEOMETRY_OVERFLOW,
            "fragment-stride", kMost / 64},
        {{MBR_LAYOUT_SEQ_MAJOR, 100, 4096, 0, kMost / 64 + 2}, MBR_GEOMETRY_OVERFLOW,
            "fragment-stride", kMost / 64},
    };
    for (const auto &row : rows) {
        mbr_layout layout;
        std::memset(&layout, 0x5a, sizeof layout);
        mbr_geometry_error error;
        ASSERT_EQ(mbr_layout_init(&layout, &group, &row.request, &error), row.status) << error.text;
        EXPECT_STREQ(error.key, row.key);
        EXPECT_EQ(error.would_work, row.would_work) << error.text;
        EXPECT_NE(std::strstr(error.text, std::to_string(row.would_work).c_str()), nullptr);
        EXPECT_EQ(layout.max_tokens, 0u);
        mbr_layout_request again = row.request;
        std::string key = row.key;
        (key == "max-tokens"       ? again.max_tokens
                : key == "granule" ? again.granule_bytes
                : key == "window"  ? again.window_tokens
                                   : again.fragment_stride_bytes) = row.would_work;
        EXPECT_EQ(mbr_layout_init(&layout, &group, &again, &error), MBR_GEOMETRY_OK) << error.text;
        EXPECT_TRUE(mbr_layout_is_valid(&layout));
    }
}

TEST(Layout, Validity_SeesEachBrokenPartOfTheEquation)
{
    mbr_layer_group group = {2, 2, 4, 2, 2, 0};
    mbr_layout split = Made(group, {MBR_LAYOUT_SEQ_MAJOR, 10, 7, 0, 0});
    mbr_layout windowed = Made(group, {MBR_LAYOUT_WINDOW_MAJOR, 10, 7, 3, 0});
    auto broken = [](mbr_layout layout, auto change) {
        change(layout);
        return !mbr_layout_is_valid(&layout);
    };
    EXPECT_TRUE(broken(split, [](mbr_layout &l) { l.span_bytes++; }));
    EXPECT_TRUE(broken(split, [](mbr_layout &l) {
        l.fragment_stride_bytes = kMost / 2;
        l.span_bytes = (l.fragments - 1) * (kMost / 2) + l.max_tokens * l.row_bytes;
    }));
    EXPECT_TRUE(broken(split, [](mbr_layout &l) { l.fragment_stride_bytes = 1; }));
    EXPECT_TRUE(broken(split, [](mbr_layout &l) { l.row_bytes++; }));
    EXPECT_TRUE(broken(split, [](mbr_layout &l) { l.window_tokens = 1; }));
    EXPECT_TRUE(broken(split, [](mbr_layout &l) { l.max_tokens = 0; }));
    EXPECT_TRUE(broken(split, [](mbr_layout &l) { l.granule_bytes = 0; }));
    EXPECT_TRUE(broken(split, [](mbr_layout &l) { l.group.layers = 0; }));
    EXPECT_TRUE(broken(split, [](mbr_layout &l) { l.kind = MBR_LAYOUT_COUNT; }));
    EXPECT_TRUE(broken(windowed, [](mbr_layout &l) { l.span_bytes++; }));
    EXPECT_TRUE(broken(windowed, [](mbr_layout &l) { l.window_bytes++; }));
    EXPECT_TRUE(broken(windowed, [](mbr_layout &l) { l.window_bytes += 7; }));
    EXPECT_TRUE(broken(windowed, [](mbr_layout &l) { l.window_tokens = 0; }));
    mbr_layout unpadded = Made(group, {MBR_LAYOUT_WINDOW_MAJOR, 10, 64, 3, 0});
    ASSERT_EQ(unpadded.window_bytes, 3u * 64);
    EXPECT_TRUE(broken(unpadded, [](mbr_layout &l) {
        l.window_bytes += 64;
        l.span_bytes = 4 * l.window_bytes;
    }));
}

} // namespace
