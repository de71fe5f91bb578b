// Checked arithmetic against 128-bit arithmetic, on every pair of edge values and on random ones.
extern "C" {
#include "abi/base/checked.h"
}

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <vector>

namespace
{

using Wide = unsigned __int128;

constexpr uint64_t kUntouched = 0xDEADBEEFCAFEF00D;
constexpr uint64_t kSeed = 20240117;
constexpr int kRandomPairs = 300000;

// Every power of two and its neighbours, and the ends of the range: where carries change.
std::vector<uint64_t> EdgeValues()
{
    std::vector<uint64_t> values;
    for (int shift = 0; shift < 64; shift++) {
        uint64_t power = UINT64_C(1) << shift;
        for (uint64_t near : {power - 2, power - 1, power, power + 1, power + 2})
            values.push_back(near);
    }
    for (uint64_t small = 0; small < 20; small++) {
        values.push_back(small);
        values.push_back(UINT64_MAX - small);
    }
    for (uint64_t odd : {3u, 5u, 7u, 641u, 6700417u, 65535u})
        values.push_back(UINT64_MAX / odd);
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
    return values;
}

void ForEachPair(const std::function<void(uint64_t, uint64_t)> &visit)
{
    const std::vector<uint64_t> edges = EdgeValues();
    for (uint64_t a : edges)
        for (uint64_t b : edges)
            visit(a, b);
    std::mt19937_64 random(kSeed);
    for (int i = 0; i < kRandomPairs; i++) {
        // Shifts make small numbers as likely as large ones; otherwise every product overflows.
        uint64_t a = random() >> (random() % 64);
        uint64_t b = random() >> (random() % 64);
        visit(a, b);
    }
}

using Operation = bool (*)(uint64_t, uint64_t, uint64_t *);

// `fits` says whether the exact result is in range, `exact` is that result.
void ExpectSame(
    const char *name, Operation operation, uint64_t a, uint64_t b, bool fits, Wide exact)
{
    uint64_t out = kUntouched;
    bool answer = operation(a, b, &out);
    ASSERT_EQ(answer, fits) << name << "(" << a << ", " << b << "), seed " << kSeed;
    ASSERT_EQ(out, fits ? static_cast<uint64_t>(exact) : kUntouched)
        << name << "(" << a << ", " << b << "), seed " << kSeed;
}

TEST(Checked, Sum_EqualsWideSumOrIsRefused)
{
    ForEachPair([](uint64_t a, uint64_t b) {
        Wide exact = Wide{a} + b;
        ExpectSame("mbr_add", mbr_add, a, b, exact <= UINT64_MAX, exact);
    });
}

TEST(Checked, Difference_EqualsWideDifferenceOrIsRefused)
{
    ForEachPair(
        [](uint64_t a, uint64_t b) { ExpectSame("mbr_sub", mbr_sub, a, b, a >= b, Wide{a} - b); });
}

TEST(Checked, Product_EqualsWideProductOrIsRefused)
{
    ForEachPair([](uint64_t a, uint64_t b) {
        Wide exact = Wide{a} * b;
        ExpectSame("mbr_mul", mbr_mul, a, b, exact <= UINT64_MAX, exact);
    });
}

TEST(Checked, RoundingUp_IsTheSmallestMultipleNotBelowOrIsRefused)
{
    ForEachPair([](uint64_t value, uint64_t unit) {
        if (unit == 0)
            return;
        Wide exact = (Wide{value} + unit - 1) / unit * unit;
        ExpectSame("mbr_align_up", mbr_align_up, value, unit, exact <= UINT64_MAX, exact);
    });
}

TEST(Checked, RoundingDown_IsTheLargestMultipleNotAbove)
{
    ForEachPair([](uint64_t value, uint64_t unit) {
        if (unit == 0)
            return;
        uint64_t down = mbr_align_down(value, unit);
        ASSERT_EQ(down % unit, 0u) << value << " to " << unit;
        ASSERT_LE(down, value);
        ASSERT_LT(value - down, unit) << value << " to " << unit;
    });
}

TEST(Checked, MinAndMax_AreThePair)
{
    ForEachPair([](uint64_t a, uint64_t b) {
        ASSERT_EQ(mbr_min(a, b), std::min(a, b));
        ASSERT_EQ(mbr_max(a, b), std::max(a, b));
    });
}

TEST(Checked, PowerOfTwo_HasOneBit)
{
    for (uint64_t value : EdgeValues())
        EXPECT_EQ(mbr_is_power_of_two(value), __builtin_popcountll(value) == 1) << value;
    EXPECT_FALSE(mbr_is_power_of_two(0));
}

TEST(Checked, OutMayBeAnInput_ResultIsTheSame)
{
    uint64_t value = 40;
    EXPECT_TRUE(mbr_add(value, 2, &value));
    EXPECT_EQ(value, 42u);
    EXPECT_TRUE(mbr_mul(value, value, &value));
    EXPECT_EQ(value, 1764u);
    EXPECT_TRUE(mbr_sub(value, 64, &value));
    EXPECT_EQ(value, 1700u);
    EXPECT_TRUE(mbr_align_up(value, value - 1, &value));
    EXPECT_EQ(value, 3398u);
}

} // namespace
