// Errors stay within the size that their owner states, on one line, with whole characters.
extern "C" {
#include "abi/base/error.h"
}

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

namespace
{

TEST(Error, Fail_NoError_ReturnsStatus)
{
    EXPECT_EQ(mbr_fail(nullptr, MBR_MISALIGNED, "offset %d", 7), MBR_MISALIGNED);
}

TEST(Error, Fail_FullSize_AllFields)
{
    mbr_error error = {};
    error.struct_size = sizeof error;
    error.asked_bytes = 99;
    EXPECT_EQ(
        mbr_fail_native(&error, MBR_SYSTEM, MBR_NATIVE_ERRNO, 12, "open %s", "/x"), MBR_SYSTEM);
    EXPECT_EQ(error.struct_size, sizeof error);
    EXPECT_EQ(error.status, MBR_SYSTEM);
    EXPECT_EQ(error.native_domain, (uint32_t)MBR_NATIVE_ERRNO);
    EXPECT_EQ(error.native_code, 12);
    EXPECT_EQ(error.asked_bytes, 0u);
    EXPECT_STREQ(error.text, "open /x");
    mbr_fail_bytes(&error, MBR_OUT_OF_MEMORY, 100, 40, "no");
    EXPECT_EQ(error.asked_bytes, 100u);
    EXPECT_EQ(error.free_bytes, 40u);
    EXPECT_EQ(error.native_domain, (uint32_t)MBR_NATIVE_NONE);
}

TEST(Error, FailArgument_NamesTheField)
{
    mbr_error error;
    memset(&error, 0xee, sizeof error);
    error.struct_size = sizeof error;
    EXPECT_EQ(mbr_fail_argument(&error, MBR_BUSY, 3, "%s %d", "value", 7), MBR_BUSY);
    EXPECT_EQ(error.status, MBR_BUSY);
    EXPECT_EQ(error.argument_index, 3u);
    EXPECT_EQ(error.native_domain, (uint32_t)MBR_NATIVE_NONE);
    EXPECT_EQ(error.native_code, 0);
    EXPECT_STREQ(error.text, "value 7");
    mbr_fail(&error, MBR_STALE, "no field");
    EXPECT_EQ(error.argument_index, 0u);
    EXPECT_EQ(mbr_fail_argument(nullptr, MBR_BUSY, 1, "%d", 1), MBR_BUSY);
}

TEST(Error, Fail_EveryStatedSize_NothingBeyondIt)
{
    for (uint32_t stated = 0; stated <= sizeof(mbr_error) + 16; stated++) {
        std::vector<unsigned char> memory(sizeof(mbr_error) + 64, 0xA5);
        memcpy(memory.data(), &stated, sizeof stated);
        mbr_fail((mbr_error *)memory.data(), MBR_STALE, "%s", std::string(300, 'x').c_str());
        size_t written = std::min<size_t>(std::max<size_t>(stated, 4), sizeof(mbr_error));
        for (size_t at = written; at < memory.size(); at++)
            ASSERT_EQ(memory[at], 0xA5) << "stated " << stated << " wrote byte " << at;
        uint32_t kept;
        memcpy(&kept, memory.data(), sizeof kept);
        ASSERT_EQ(kept, stated);
        size_t text = offsetof(mbr_error, text);
        if (written > text) {
            ASSERT_NE(memchr(memory.data() + text, 0, written - text), nullptr) << stated;
        }
    }
}

TEST(Error, Fail_LongText_CutBetweenCharacters)
{
    for (size_t pad = 0; pad < 8; pad++) {
        mbr_error error = {};
        error.struct_size = sizeof error;
        std::string text(pad, 'a');
        while (text.size() < 400)
            text += "€ä𝄞";
        mbr_fail(&error, MBR_STALE, "%s", text.c_str());
        std::string got = error.text;
        ASSERT_GE(got.size(), sizeof error.text - 5);
        ASSERT_EQ(text.compare(0, got.size(), got), 0);
        ASSERT_NE((unsigned char)text[got.size()] & 0xC0, 0x80) << "cut inside a character";
    }
}

TEST(Error, Fail_ControlCharacters_OneLine)
{
    mbr_error error = {};
    error.struct_size = sizeof error;
    mbr_fail(&error, MBR_STALE, "%s", "a\nb\x1b[31mc\x7f\td");
    EXPECT_STREQ(error.text, "a b [31mc  d");
    char line[] = "\x1f\x20\x7e\x7f\xc2\xa0";
    mbr_text_one_line(line);
    EXPECT_STREQ(line, " \x20\x7e \xc2\xa0");
}

TEST(Error, Utf8_WholeBytes_Edges)
{
    EXPECT_EQ(mbr_utf8_whole_bytes("", 0), 0u);
    EXPECT_EQ(mbr_utf8_whole_bytes("abc", 3), 3u);
    EXPECT_EQ(mbr_utf8_whole_bytes("\xE2\x82\xAC", 3), 3u);
    EXPECT_EQ(mbr_utf8_whole_bytes("\xE2\x82\xAC", 2), 0u);
    EXPECT_EQ(mbr_utf8_whole_bytes("x\xE2\x82", 3), 1u);
    EXPECT_EQ(mbr_utf8_whole_bytes("x\xF0", 2), 1u);
    EXPECT_EQ(mbr_utf8_whole_bytes("\x80\x80", 2), 0u);
}

} // namespace
