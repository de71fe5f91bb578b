// The extent rule against a literal walk of its equation: one boundary after another, every power
// of two tried at each. The walk shares no code and no closed form with the rule.
#include "tests/unit/holder/extent_oracle.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <limits>
#include <random>

namespace
{

constexpr uint64_t kMiB = UINT64_C(1) << 20;
constexpr uint64_t kHighest = std::numeric_limits<uint64_t>::max();

// Compares every function of the rule with the walk, at every offset of [0, bytes).
void ExpectEqualsWalk(const mbr_extent_rule &rule, uint64_t bytes)
{
    SCOPED_TRACE(testing::Message()
        << "granule " << rule.granule_bytes << " unit " << rule.unit_bytes << " max "
        << rule.max_bytes << " divisor " << rule.divisor);
    std::vector<uint64_t> boundaries = oracle::Boundaries(rule, bytes);
    uint64_t index = 0;
    for (uint64_t offset = 0; offset < bytes; offset++) {
        while (boundaries[index + 1] <= offset)
            index++;
        uint64_t start = boundaries[index], next = boundaries[index + 1];
        uint64_t found = 1;
        ASSERT_EQ(mbr_extent_rule_size_at(&rule, offset), next - start) << offset;
        ASSERT_EQ(mbr_extent_rule_start_at(&rule, offset), start) << offset;
        ASSERT_TRUE(mbr_extent_rule_next_boundary(&rule, offset, &found));
        ASSERT_EQ(found, offset == start ? start : next) << offset;
        ASSERT_EQ(mbr_extent_rule_count(&rule, offset), offset == start ? index : index + 1);
        ASSERT_TRUE(mbr_extent_rule_offset_of(&rule, index, &found));
        ASSERT_EQ(found, start) << index;
    }
}

TEST(ExtentRule, Growing_EqualsItsEquation)
{
    for (uint64_t divisor : std::initializer_list<uint64_t>{1, 2, 3, 10, 16, 17})
        for (uint64_t max : std::initializer_list<uint64_t>{1, 6, 7, 12, 13, 48, 96, 100, 4000})
            ExpectEqualsWalk({1, 6, max, divisor}, 6000);
}

TEST(ExtentRule, RandomRules_EqualTheirEquation)
{
    std::mt19937_64 random(oracle::Seed());
    for (int round = 0; round < 300; round++) {
        uint64_t granule = 1 + random() % 9;
        mbr_extent_rule rule = {
            granule, granule * (1 + random() % 7), 1 + random() % 2000, random() % 40};
        ExpectEqualsWalk(rule, 4000);
    }
}

TEST(ExtentRule, Fixed_IsTheUnitEverywhere)
{
    mbr_extent_rule rule = mbr_extent_rule_fixed(2 * kMiB, 6 * kMiB);
    for (uint64_t offset : {UINT64_C(0), UINT64_C(1), 6 * kMiB, UINT64_C(1) << 40})
        EXPECT_EQ(mbr_extent_rule_size_at(&rule, offset), 6 * kMiB);
    EXPECT_EQ(mbr_extent_rule_count(&rule, 18 * kMiB + 1), 4u);
    ExpectEqualsWalk(mbr_extent_rule_fixed(3, 9), 300);
}

// Llama-3-8B: a window of 16 tokens is 2 MiB, so classes change at 16 * 2 MiB * 2^k.
TEST(ExtentRule, DefaultGrowth_Llama3Window_GrowsFromOneWindowTo64MiB)
{
    mbr_extent_rule rule = mbr_extent_rule_growing(2 * kMiB, 2 * kMiB);
    EXPECT_EQ(mbr_extent_rule_size_at(&rule, 0), 2 * kMiB);
    EXPECT_EQ(mbr_extent_rule_size_at(&rule, 62 * kMiB), 2 * kMiB);
    EXPECT_EQ(mbr_extent_rule_size_at(&rule, 64 * kMiB), 4 * kMiB);
    EXPECT_EQ(mbr_extent_rule_size_at(&rule, 1020 * kMiB), 32 * kMiB);
    EXPECT_EQ(mbr_extent_rule_size_at(&rule, 1024 * kMiB), 64 * kMiB);
    EXPECT_EQ(mbr_extent_rule_size_at(&rule, UINT64_C(1) << 50), 64 * kMiB);
    // 32 of 2 MiB, then 16 each of 4, 8, 16 and 32 MiB up to 1 GiB.
    EXPECT_EQ(mbr_extent_rule_count(&rule, 1024 * kMiB), 96u);
}

TEST(ExtentRule, UnitAboveTheLimit_StaysOneUnit)
{
    mbr_extent_rule rule = mbr_extent_rule_growing(2 * kMiB, 100 * kMiB);
    EXPECT_EQ(mbr_extent_rule_size_at(&rule, 0), 100 * kMiB);
    EXPECT_EQ(mbr_extent_rule_size_at(&rule, UINT64_C(1) << 45), 100 * kMiB);
}

TEST(ExtentRule, TopOfTheAddressSpace_OverflowIsRefusedAndTheResultIsZero)
{
    mbr_extent_rule rule = mbr_extent_rule_growing(2 * kMiB, 2 * kMiB);
    uint64_t boundary = 7;
    EXPECT_FALSE(mbr_extent_rule_next_boundary(&rule, kHighest, &boundary));
    EXPECT_EQ(boundary, 0u);
    EXPECT_TRUE(mbr_extent_rule_next_boundary(&rule, kHighest - 64 * kMiB, &boundary));
    EXPECT_EQ(boundary, kHighest - 64 * kMiB + 1);
    uint64_t offset = 7;
    EXPECT_FALSE(mbr_extent_rule_offset_of(&rule, kHighest, &offset));
    EXPECT_EQ(offset, 0u);
    uint64_t last = mbr_extent_rule_count(&rule, kHighest) - 1;
    EXPECT_TRUE(mbr_extent_rule_offset_of(&rule, last, &offset));
    EXPECT_EQ(offset, kHighest - 64 * kMiB + 1);
    EXPECT_FALSE(mbr_extent_rule_offset_of(&rule, last + 1, &offset));
}

// Each step of the inverse overflows on its own: the class's start, the way inside, and their sum.
TEST(ExtentRule, OffsetOfAnIndexBeyondTheAddressSpace_IsRefusedAtEveryStep)
{
    struct {
        mbr_extent_rule rule;
        uint64_t index;
    } rows[] = {
        {{1, 1, 8, UINT64_C(1) << 62}, UINT64_C(3) << 62},
        {{1, 1, 8, 1}, kHighest},
        {{1, 1, 2, 16}, (UINT64_C(1) << 63) + 20},
        {{1, 2, 2, 0}, UINT64_C(1) << 63},
    };
    for (const auto &row : rows) {
        uint64_t offset = 7;
        EXPECT_FALSE(mbr_extent_rule_offset_of(&row.rule, row.index, &offset));
        EXPECT_EQ(offset, 0u);
    }
}

TEST(ExtentRule, EdgesOfEveryArgument_NoStepOverflows)
{
    for (uint64_t divisor : {UINT64_C(0), UINT64_C(1), UINT64_C(16), UINT64_C(1) << 62, kHighest})
        for (uint64_t unit : {UINT64_C(1), UINT64_C(3), UINT64_C(1) << 63, kHighest})
            for (uint64_t max : {UINT64_C(1), UINT64_C(1) << 63, kHighest}) {
                mbr_extent_rule rule = {1, unit, max, divisor};
                for (uint64_t offset : {UINT64_C(0), UINT64_C(1) << 63, kHighest - 1}) {
                    uint64_t start = mbr_extent_rule_start_at(&rule, offset);
                    uint64_t index = mbr_extent_rule_count(&rule, offset + 1) - 1;
                    uint64_t found = 0;
                    EXPECT_LE(start, offset);
                    EXPECT_LT(offset - start, mbr_extent_rule_size_at(&rule, offset));
                    ASSERT_TRUE(mbr_extent_rule_offset_of(&rule, index, &found));
                    EXPECT_EQ(found, start) << unit << " " << max << " " << divisor;
                }
            }
}

TEST(ExtentRule, Validity_NamesWhatARuleMustHold)
{
    struct {
        mbr_extent_rule rule;
        bool valid;
    } rows[] = {
        {{2, 4, 8, 16}, true},
        {{2, 4, 1, 0}, true},
        {{0, 4, 8, 16}, false},
        {{2, 0, 8, 16}, false},
        {{2, 4, 0, 16}, false},
        {{2, 5, 8, 16}, false},
        {{4, 2, 8, 16}, false},
    };
    for (const auto &row : rows)
        EXPECT_EQ(mbr_extent_rule_is_valid(&row.rule), row.valid)
            << row.rule.granule_bytes << " " << row.rule.unit_bytes;
}

} // namespace
