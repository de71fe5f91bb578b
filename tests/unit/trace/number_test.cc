// The number parser against the C library's, where that one is exact.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>

extern "C" {
#include "tools/cli/trace/number.h"
}

namespace
{

mbr_number_status decimal(const std::string &text, int scale, uint64_t *out)
{
    *out = 77;
    return mbr_number_decimal(text.data(), text.size(), scale, UINT64_MAX, out);
}

TEST(Number, Decimal_Shapes_GiveTheirValue)
{
    struct {
        const char *text;
        int scale;
        uint64_t value;
    } rows[] = {{"0", 9, 0}, {"1", 9, 1000000000}, {"1.", 0, 1}, {".5", 1, 5}, {"1.5", 1, 15},
        {"1e3", 0, 1000}, {"1E+3", 0, 1000}, {"1.25e-05", 9, 12500}, {"-0", 9, 0},
        {"-0.000e5", 9, 0}, {"0.4", 0, 0}, {"0.5", 0, 1}, {"1.49999999999999999999999", 0, 1},
        {"00012", 0, 12}, {"9000000000000000001", 0, UINT64_C(9000000000000000001)},
        {"123456789012345678.9", 1, UINT64_C(1234567890123456789)}, {"0e999999999999", 9, 0},
        {"5e-999999999999", 9, 0}, {"0.0000000004", 9, 0}, {"0.0000000005", 9, 1}, {"1e-1", 0, 0},
        {"9.6e-2", 1, 1}, {"4.96e-3", 2, 0}};
    for (const auto &row : rows) {
        uint64_t value;
        EXPECT_EQ(decimal(row.text, row.scale, &value), MBR_NUMBER_OK) << row.text;
        EXPECT_EQ(value, row.value) << row.text << " scale " << row.scale;
    }
}

TEST(Number, Decimal_NotANumber_IsSaid)
{
    for (const char *text : {"-", ".", "e5", "-e5", "1e", "1e+", "1e-", "1.2.3", "1 ", " 1", "1a",
             "--1", "+1", "0x1", "nan", "inf", "1e5.5", "1_000"}) {
        uint64_t value;
        EXPECT_EQ(decimal(text, 0, &value), MBR_NUMBER_NOT_A_NUMBER) << text;
        EXPECT_EQ(value, 0u);
    }
    uint64_t value;
    EXPECT_EQ(decimal("", 0, &value), MBR_NUMBER_EMPTY);
    EXPECT_EQ(decimal("-1e-300", 0, &value), MBR_NUMBER_NEGATIVE);
    EXPECT_EQ(decimal("1e999999999999999999999", 0, &value), MBR_NUMBER_TOO_LARGE);
    EXPECT_EQ(decimal("18446744073709551620", 0, &value), MBR_NUMBER_TOO_LARGE);
    EXPECT_EQ(value, 0u);
}

TEST(Number, Decimal_RandomAgainstLongDouble_Agrees)
{
    const uint32_t seed = 90210;
    std::mt19937_64 random(seed);
    for (int i = 0; i < 200000; i++) {
        char text[64];
        double seconds = static_cast<double>(random() % 4000000000000) / 1e6;
        const char *const formats[] = {"%.6f", "%.9f", "%.17g", "%.9e"};
        snprintf(text, sizeof text, formats[i % 4], seconds);
        uint64_t value;
        ASSERT_EQ(decimal(text, 9, &value), MBR_NUMBER_OK) << text;
        long double exact = strtold(text, nullptr) * 1e9L;
        ASSERT_LE(fabsl(static_cast<long double>(value) - exact), 0.502L)
            << text << " seed " << seed;
    }
}

TEST(Number, Decimal_EndsAtItsLength)
{
    uint64_t value;
    EXPECT_EQ(mbr_number_decimal("123.4", 2, 0, UINT64_MAX, &value), MBR_NUMBER_OK);
    EXPECT_EQ(value, 12u);
    EXPECT_EQ(mbr_number_decimal("1.5e9", 4, 0, UINT64_MAX, &value), MBR_NUMBER_NOT_A_NUMBER);
    EXPECT_EQ(mbr_number_decimal("10", 2, 0, 10, &value), MBR_NUMBER_OK);
    EXPECT_EQ(mbr_number_decimal("10.5", 4, 0, 10, &value), MBR_NUMBER_TOO_LARGE);
}

TEST(Number, Whole_Shapes_AreTold)
{
    struct {
        const char *text;
        mbr_number_status status;
        uint64_t value;
    } rows[] = {{"0", MBR_NUMBER_OK, 0}, {"007", MBR_NUMBER_OK, 7}, {"1000", MBR_NUMBER_OK, 1000},
        {"1001", MBR_NUMBER_TOO_LARGE, 0}, {"18446744073709551616", MBR_NUMBER_TOO_LARGE, 0},
        {"99999999999999999999999999", MBR_NUMBER_TOO_LARGE, 0}, {"", MBR_NUMBER_EMPTY, 0},
        {"1.0", MBR_NUMBER_NOT_WHOLE, 0}, {"1e2", MBR_NUMBER_NOT_WHOLE, 0},
        {"1e99", MBR_NUMBER_NOT_WHOLE, 0}, {"-0", MBR_NUMBER_NOT_WHOLE, 0},
        {"-3", MBR_NUMBER_NEGATIVE, 0}, {"abc", MBR_NUMBER_NOT_A_NUMBER, 0},
        {"12a", MBR_NUMBER_NOT_A_NUMBER, 0}};
    for (const auto &row : rows) {
        uint64_t value = 77;
        EXPECT_EQ(mbr_number_whole(row.text, strlen(row.text), 1000, &value), row.status)
            << row.text;
        EXPECT_EQ(value, row.value) << row.text;
    }
    uint64_t value;
    EXPECT_EQ(mbr_number_whole("18446744073709551615", 20, UINT64_MAX, &value), MBR_NUMBER_OK);
    EXPECT_EQ(value, UINT64_MAX);
}

} // namespace
