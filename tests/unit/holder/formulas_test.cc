// The arithmetic of docs/kv-geometry.md, formula by formula, against enumerating: rows and granules
// of small geometries, ranges and pools one by one. Rows of 1152, 2560 and 6144 bytes among them,
// which no granule is a multiple of.
#include "tests/unit/holder/geometry_oracle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>

namespace
{

using oracle::Row;
using oracle::World;

mbr_layout LayOut(const World &world)
{
    mbr_layout layout;
    mbr_geometry_error error;
    EXPECT_EQ(mbr_layout_init(&layout, &world.group, &world.request, &error), MBR_GEOMETRY_OK)
        << error.text;
    return layout;
}

// The rows of one token, those that touch made one, in order of address.
std::vector<std::pair<uint64_t, uint64_t>> RunsOf(const std::vector<Row> &rows, uint64_t token)
{
    std::map<uint64_t, uint64_t> ends; // by start
    for (const auto &row : rows)
        if (row.token == token)
            ends[row.offset] = row.offset + row.bytes;
    std::vector<std::pair<uint64_t, uint64_t>> runs;
    for (const auto &[start, end] : ends) {
        if (!runs.empty() && runs.back().second == start)
            runs.back().second = end;
        else
            runs.emplace_back(start, end);
    }
    return runs;
}

TEST(Formulas, TokenFragmentsAndContiguousBytes_AreTheRunsOfOneToken)
{
    oracle::Generator draw(oracle::Seed());
    uint64_t compared = 0;
    for (int round = 0; round < 400; round++) {
        World world = draw.Next(round % MBR_LAYOUT_COUNT);
        mbr_layout layout = LayOut(world);
        SCOPED_TRACE(testing::Message() << "round " << round << ": " << world);
        auto rows = oracle::Rows(world, layout.window_tokens);
        uint64_t token = draw.Between(0, world.request.max_tokens - 1), bytes = 0;
        for (const auto &row : rows)
            bytes += row.token == token ? row.bytes : 0;
        ASSERT_EQ(mbr_layer_group_token_bytes(&world.group), bytes);
        ASSERT_EQ(layout.fragments * layout.row_bytes, bytes) << "F * c is the token";
        if (world.request.max_tokens == 1 || layout.window_tokens == 1)
            continue; // fragments touch
        auto runs = RunsOf(rows, token);
        ASSERT_EQ(runs.size(), layout.fragments);
        for (const auto &[start, end] : runs)
            ASSERT_EQ(end - start, layout.row_bytes);
        compared++;
    }
    EXPECT_GT(compared, 300u);
}

// The heads of a group that the devices divide between them, or that each has one of.
uint32_t DrawHeads(oracle::Generator &draw, uint64_t degree)
{
    if (draw.Between(0, 3) == 0)
        return static_cast<uint32_t>(draw.Between(1, degree));
    return static_cast<uint32_t>(degree * draw.Between(1, 4));
}

// Heads are dealt out, one device after another; a device without one has another's.
uint64_t HeadsOfADevice(uint64_t heads, uint64_t degree)
{
    uint64_t first = 0;
    for (uint64_t head = 0; head < heads; head++)
        first += head % degree == 0;
    return first;
}

TEST(Formulas, TensorParallel_EachDeviceHasItsPartOfTheToken)
{
    oracle::Generator draw(oracle::Seed());
    uint64_t several = 0, repeated = 0;
    for (int round = 0; round < 300; round++) {
        mbr_geometry whole = {}, part;
        uint64_t degree = draw.Between(1, 8), bytes = 0;
        whole.group_count = static_cast<uint32_t>(draw.Between(1, MBR_GEOMETRY_GROUPS_MAX));
        for (uint32_t i = 0; i < whole.group_count; i++) {
            whole.groups[i] = draw.Next(MBR_LAYOUT_SEQ_MAJOR).group;
            whole.groups[i].heads = DrawHeads(draw, degree);
            uint64_t heads = HeadsOfADevice(whole.groups[i].heads, degree);
            for (uint32_t row = 0; row < whole.groups[i].layers * whole.groups[i].planes; row++)
                bytes += heads * oracle::HeadBytes(whole.groups[i]);
            repeated += whole.groups[i].heads < degree;
        }
        mbr_geometry_error error;
        ASSERT_EQ(mbr_geometry_shard(&whole, degree, &part, &error), MBR_GEOMETRY_OK) << error.text;
        ASSERT_EQ(mbr_geometry_token_bytes(&part), bytes) << degree;
        for (uint32_t i = 0; i < whole.group_count; i++)
            ASSERT_EQ(part.groups[i].window_tokens, whole.groups[i].window_tokens);
        several += whole.group_count > 1;
    }
    EXPECT_GT(several, 100u);
    EXPECT_GT(repeated, 100u);
}

// ---- Granules of rows that divide none

struct OddWorld {
    World world;
    mbr_layout layout;
    mbr_extents extents; // of one granule, or of one window
    std::vector<Row> rows;
    uint64_t unit; // bytes of one of them
};

// Overlap of two stretches.
uint64_t Overlap(uint64_t a, uint64_t a_end, uint64_t b, uint64_t b_end)
{
    return std::min(a_end, b_end) > std::max(a, b) ? std::min(a_end, b_end) - std::max(a, b) : 0;
}

// Units that hold a byte of a live row, and those that hold nothing but rows of the prefix in one
// fragment: counted unit by unit, row by row.
std::pair<uint64_t, uint64_t> CountUnits(const OddWorld &odd, uint64_t tokens)
{
    bool heads = odd.layout.kind == MBR_LAYOUT_HEAD_MAJOR;
    bool one = odd.layout.kind == MBR_LAYOUT_TOKEN_MAJOR;
    uint64_t touched = 0, whole = 0;
    for (uint64_t start = 0; start < odd.layout.span_bytes; start += odd.unit) {
        std::map<std::tuple<uint64_t, uint64_t, uint64_t>, uint64_t> covered;
        bool live = false;
        for (const auto &row : odd.rows) {
            uint64_t bytes = Overlap(start, start + odd.unit, row.offset, row.offset + row.bytes);
            live = live || (bytes != 0 && row.token < tokens);
            if (row.token < tokens)
                covered[{one ? 0 : row.layer, one ? 0 : row.plane, heads ? row.head : 0}] += bytes;
        }
        touched += live;
        for (const auto &entry : covered)
            whole += entry.second == odd.unit;
    }
    return {touched, whole};
}

// What W tokens of one window have: all of them, or some.
std::pair<uint64_t, uint64_t> CountWindows(const OddWorld &odd, uint64_t tokens)
{
    uint64_t touched = 0, whole = 0;
    for (uint64_t first = 0; first < odd.world.request.max_tokens;
         first += odd.layout.window_tokens) {
        touched += first < tokens;
        whole += first + odd.layout.window_tokens <= tokens;
    }
    return {touched, whole};
}

class OddRows : public ::testing::TestWithParam<std::tuple<int, mbr_layer_group, uint64_t>>
{
  protected:
    OddWorld Make(uint64_t max_tokens, uint64_t more_stride) const
    {
        auto [kind, group, granule] = GetParam();
        OddWorld odd = {};
        odd.world.group = group;
        odd.world.request = {static_cast<mbr_layout_kind>(kind), max_tokens, granule, 5, 0};
        uint64_t row = oracle::HeadBytes(group) * (kind == MBR_LAYOUT_SEQ_MAJOR ? group.heads : 1);
        if (kind <= MBR_LAYOUT_SEQ_MAJOR && more_stride != 0)
            odd.world.request.fragment_stride_bytes = max_tokens * row + more_stride;
        odd.layout = LayOut(odd.world);
        odd.unit = kind == MBR_LAYOUT_WINDOW_MAJOR ? odd.layout.window_bytes : granule;
        EXPECT_EQ(mbr_extents_init(&odd.extents, &odd.layout, odd.unit, nullptr), MBR_GEOMETRY_OK);
        odd.rows = oracle::Rows(odd.world, odd.layout.window_tokens);
        return odd;
    }
};

TEST_P(OddRows, CommittedSharedMapsAndBoundary_AreCounted)
{
    for (uint64_t more_stride : {0, 2, 514})
        for (uint64_t tokens : {1, 4, 5, 9, 12}) {
            OddWorld odd = Make(12, more_stride);
            SCOPED_TRACE(testing::Message() << odd.world << " | " << tokens << " tokens");
            bool windows = odd.layout.kind == MBR_LAYOUT_WINDOW_MAJOR;
            auto [touched, whole] = windows ? CountWindows(odd, tokens) : CountUnits(odd, tokens);
            uint64_t token = mbr_layer_group_token_bytes(&odd.world.group);
            ASSERT_EQ(mbr_commit_granule_bytes(&odd.extents, {0, tokens}), touched * odd.unit);
            ASSERT_EQ(mbr_commit_bytes(&odd.extents, {0, tokens}), touched * odd.unit);
            mbr_sharing sharing;
            ASSERT_EQ(
                mbr_sharing_compute(&odd.extents, tokens, &sharing, nullptr), MBR_GEOMETRY_OK);
            uint64_t shared_rows =
                windows ? whole * odd.layout.window_tokens * token : whole * odd.unit;
            ASSERT_EQ(sharing.shared_extents, whole) << "map operations of a sharer";
            ASSERT_EQ(sharing.shared_bytes, whole * odd.unit);
            ASSERT_EQ(sharing.boundary_bytes, tokens * token - shared_rows);
        }
}

// floor(end / g) - ceil(start / g) of each fragment, added up, is what is mapped.
TEST_P(OddRows, SumOverFragments_IsWhatIsMapped)
{
    if (std::get<0>(GetParam()) == MBR_LAYOUT_WINDOW_MAJOR)
        return; // whose windows are counted above
    OddWorld odd = Make(12, 514);
    uint64_t granule = odd.layout.granule_bytes, tokens = 11, sum = 0, one = 0;
    for (uint64_t f = 0; f < odd.layout.fragments; f++) {
        uint64_t start = f * odd.layout.fragment_stride_bytes;
        ASSERT_EQ(mbr_sharing_whole_granules(
                      {start, start + tokens * odd.layout.row_bytes}, granule, &one, nullptr),
            MBR_GEOMETRY_OK);
        sum += one;
    }
    mbr_sharing sharing;
    ASSERT_EQ(mbr_sharing_compute(&odd.extents, tokens, &sharing, nullptr), MBR_GEOMETRY_OK);
    EXPECT_EQ(sharing.shared_extents, sum);
}

constexpr mbr_layer_group kLatent = {2, 1, 576, 2, 1, 0}; // rows of 1152 B, as DeepSeek-V3's
constexpr mbr_layer_group kPhi4 = {1, 10, 128, 2, 2, 0};  // of 2560 B
constexpr mbr_layer_group kPhi3 = {1, 32, 96, 2, 2, 0};   // of 6144 B

INSTANTIATE_TEST_SUITE_P(Rows, OddRows,
    ::testing::Combine(::testing::Range(0, static_cast<int>(MBR_LAYOUT_COUNT)),
        ::testing::Values(kLatent, kPhi4, kPhi3), ::testing::Values(4096, 3000, 8191)));

// ---- Ranges and pools

TEST(Formulas, WholeGranulesOfARange_AreThoseThatLieInIt)
{
    oracle::Generator draw(oracle::Seed());
    for (int round = 0; round < 5000; round++) {
        uint64_t start = draw.Between(0, 60), end = draw.Between(start, 120);
        uint64_t granule = draw.Between(1, 20), expected = 0, found;
        for (uint64_t at = 0; at + granule <= end; at += granule)
            expected += at >= start;
        ASSERT_EQ(
            mbr_sharing_whole_granules({start, end}, granule, &found, nullptr), MBR_GEOMETRY_OK);
        ASSERT_EQ(found, expected) << start << " " << end << " " << granule;
    }
}

TEST(Formulas, Saving_IsWhatTheOthersDoNotStore)
{
    oracle::Generator draw(oracle::Seed());
    for (int round = 0; round < 1000; round++) {
        uint64_t shared = draw.Between(0, 50), sequences = draw.Between(1, 30), found;
        uint64_t apart = 0, together = 0;
        for (uint64_t i = 0; i < sequences; i++) {
            apart += shared;
            together += i == 0 ? shared : 0;
        }
        ASSERT_EQ(mbr_sharing_saving(shared, sequences, &found, nullptr), MBR_GEOMETRY_OK);
        ASSERT_EQ(found, apart - together) << shared << " " << sequences;
    }
}

// Sequences are let into the pool until one does not fit; none of no bytes ever fails to.
TEST(Formulas, PoolCapacity_IsHowManyFit)
{
    oracle::Generator draw(oracle::Seed());
    uint64_t nobody = 0, unbounded = 0;
    for (int round = 0; round < 5000; round++) {
        uint64_t pool = draw.Between(0, 100), prefix = draw.Between(0, 40);
        uint64_t own = draw.Between(0, 12), apart = 0, together = 0;
        for (uint64_t used = prefix + own; used <= pool && apart < 1000; apart++)
            used += prefix + own;
        for (uint64_t used = prefix + own; used <= pool && together < 1000; together++)
            used += own;
        mbr_sharing_capacity found = mbr_sharing_pool_capacity(pool, prefix, own);
        ASSERT_EQ(found.unshared, apart == 1000 ? MBR_SHARING_UNBOUNDED : apart)
            << pool << " " << prefix << " " << own;
        ASSERT_EQ(found.shared, together == 1000 ? MBR_SHARING_UNBOUNDED : together)
            << pool << " " << prefix << " " << own;
        nobody += together == 0;
        unbounded += together == 1000;
    }
    EXPECT_GT(nobody, 100u);
    EXPECT_GT(unbounded, 100u);
}

} // namespace
