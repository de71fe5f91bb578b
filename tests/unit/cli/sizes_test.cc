// Sizes and counts of the command line: every unit, every way a text can be wrong, both edges.
extern "C" {
#include "tools/cli/args.h"
}

#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace
{

constexpr uint64_t kHighest = INT64_MAX;

TEST(Sizes, EveryUnit_InAnyCase)
{
    struct {
        const char *text;
        uint64_t bytes;
    } rows[] = {
        {"0", 0},
        {"4096", 4096},
        {"007", 7},
        {"5B", 5},
        {"64KiB", 64 << 10},
        {"2MiB", 2 << 20},
        {"2mib", 2 << 20},
        {"2 MiB", 2 << 20},
        {"3GiB", UINT64_C(3) << 30},
        {"1TiB", UINT64_C(1) << 40},
        {"1KB", 1000},
        {"2MB", 2000000},
        {"3gb", 3000000000},
        {"4TB", 4000000000000},
        {"9223372036854775807", kHighest},
        {"8388607TiB", UINT64_C(8388607) << 40},
    };
    for (const auto &row : rows) {
        uint64_t bytes = 1;
        EXPECT_EQ(mbr_args_parse_size(row.text, &bytes), MBR_ARGS_OK) << row.text;
        EXPECT_EQ(bytes, row.bytes) << row.text;
    }
}

TEST(Sizes, BadText_HasItsOwnReasonAndNoResult)
{
    struct {
        const char *text;
        mbr_args_status status;
    } rows[] = {
        {"", MBR_ARGS_EMPTY},
        {"-1", MBR_ARGS_NEGATIVE},
        {"-", MBR_ARGS_NEGATIVE},
        {" 1", MBR_ARGS_NOT_A_NUMBER},
        {"+1", MBR_ARGS_NOT_A_NUMBER},
        {"MiB", MBR_ARGS_NOT_A_NUMBER},
        {"nan", MBR_ARGS_NOT_A_NUMBER},
        {".5", MBR_ARGS_NOT_A_NUMBER},
        {"1.5GiB", MBR_ARGS_NOT_WHOLE},
        {"1.", MBR_ARGS_NOT_WHOLE},
        {"2M", MBR_ARGS_UNKNOWN_UNIT},
        {"2MiBs", MBR_ARGS_UNKNOWN_UNIT},
        {"2  MiB", MBR_ARGS_UNKNOWN_UNIT},
        {"2 ", MBR_ARGS_UNKNOWN_UNIT},
        {"2\n", MBR_ARGS_UNKNOWN_UNIT},
        {"2 3", MBR_ARGS_UNKNOWN_UNIT},
        {"0x10", MBR_ARGS_UNKNOWN_UNIT},
        {"1e3", MBR_ARGS_UNKNOWN_UNIT},
        {"1,000", MBR_ARGS_UNKNOWN_UNIT},
        {"9223372036854775808", MBR_ARGS_TOO_LARGE},
        {"18446744073709551616", MBR_ARGS_TOO_LARGE},
        {"18446744073709551617MiB", MBR_ARGS_TOO_LARGE},
        {"8388608TiB", MBR_ARGS_TOO_LARGE},
        {"16777217TiB", MBR_ARGS_TOO_LARGE},
        {"99999999999999999999999999999999", MBR_ARGS_TOO_LARGE},
    };
    for (const auto &row : rows) {
        uint64_t bytes = 1;
        EXPECT_EQ(mbr_args_parse_size(row.text, &bytes), row.status) << row.text;
        EXPECT_EQ(bytes, 0u) << row.text;
    }
}

TEST(Counts, DigitsAlone)
{
    struct {
        const char *text;
        mbr_args_status status;
        uint64_t count;
    } rows[] = {
        {"0", MBR_ARGS_OK, 0},
        {"131072", MBR_ARGS_OK, 131072},
        {"9223372036854775807", MBR_ARGS_OK, kHighest},
        {"9223372036854775808", MBR_ARGS_TOO_LARGE, 0},
        {"", MBR_ARGS_EMPTY, 0},
        {"-3", MBR_ARGS_NEGATIVE, 0},
        {"3.0", MBR_ARGS_NOT_WHOLE, 0},
        {"32k", MBR_ARGS_UNKNOWN_UNIT, 0},
        {"2MiB", MBR_ARGS_UNKNOWN_UNIT, 0},
        {"many", MBR_ARGS_NOT_A_NUMBER, 0},
    };
    for (const auto &row : rows) {
        uint64_t count = 1;
        EXPECT_EQ(mbr_args_parse_count(row.text, &count), row.status) << row.text;
        EXPECT_EQ(count, row.count) << row.text;
    }
}

TEST(Sizes, EveryStatus_HasAText)
{
    std::string texts;
    for (int status = 0; status < MBR_ARGS_STATUS_COUNT; status++) {
        const char *text = mbr_args_status_text(static_cast<mbr_args_status>(status));
        ASSERT_NE(text, nullptr);
        EXPECT_EQ(texts.find(std::string(text) + ";"), std::string::npos) << text;
        texts += std::string(text) + ";";
    }
}

TEST(Sizes, Format_RoundsToOneDecimalBelow1024)
{
    struct {
        uint64_t bytes;
        const char *text;
    } rows[] = {
        {0, "0 B"},
        {1023, "1023 B"},
        {1024, "1 KiB"},
        {1536, "1.5 KiB"},
        {2 << 20, "2 MiB"},
        {(2 << 20) - 1, "2.0 MiB"},
        {(UINT64_C(1) << 30) - 1, "1.0 GiB"}, // never 1024.0 MiB
        {UINT64_C(5) << 40, "5 TiB"},
        {UINT64_C(5) << 50, "5 PiB"},
        {UINT64_C(1) << 63, "8 EiB"},
        {UINT64_MAX, "16 EiB"},
    };
    for (const auto &row : rows) {
        char text[32];
        EXPECT_STREQ(mbr_args_format_bytes(text, sizeof text, row.bytes), row.text);
    }
}

TEST(Args, Nearest_OrNothing)
{
    const char *names[] = {"replay", "share", "plugins"};
    EXPECT_STREQ(mbr_args_nearest("shrae", names, 3), "share");
    EXPECT_STREQ(mbr_args_nearest("REPLY", names, 3), "replay");
    EXPECT_EQ(mbr_args_nearest("x", names, 3), nullptr);
    EXPECT_EQ(mbr_args_nearest("", names, 3), nullptr);
}

} // namespace
