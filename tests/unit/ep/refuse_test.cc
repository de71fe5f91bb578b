// How a refusal fills the caller's error: whole fields only, in any room, or not at all.
#include "tests/unit/ep/seams.h"

extern "C" {
#include "host/ep/refuse.h"
}

#include <gtest/gtest.h>

#include <string>

using namespace ep_test;

namespace
{

TEST(Refuse, WholeError_EveryFieldIsSet)
{
    mbr_error error;
    memset(&error, 0xee, sizeof error);
    error.struct_size = sizeof error;
    EXPECT_EQ(MBR_BUSY, mbr_ep_refuse(&error, MBR_BUSY, 3, "%s %d", "value", 7));
    EXPECT_EQ(MBR_BUSY, error.status);
    EXPECT_EQ(3u, error.argument_index);
    EXPECT_EQ(uint32_t{MBR_NATIVE_NONE}, error.native_domain);
    EXPECT_EQ(0, error.native_code);
    EXPECT_EQ(0u, error.asked_bytes);
    EXPECT_EQ(0u, error.free_bytes);
    EXPECT_STREQ("value 7", error.text);
    EXPECT_EQ(MBR_SYSTEM, mbr_ep_refuse_system(&error, MBR_SYSTEM, EAGAIN, "no %s", "thread"));
    EXPECT_EQ(uint32_t{MBR_NATIVE_ERRNO}, error.native_domain);
    EXPECT_EQ(EAGAIN, error.native_code);
    EXPECT_EQ(0u, error.argument_index);
}

TEST(Refuse, NoError_OnlyTheStatus)
{
    EXPECT_EQ(MBR_BUSY, mbr_ep_refuse(nullptr, MBR_BUSY, 1, "%d", 1));
    EXPECT_EQ(MBR_SYSTEM, mbr_ep_refuse_system(nullptr, MBR_SYSTEM, EAGAIN, "%d", 1));
}

TEST(Refuse, ShortError_NothingPastItsSize)
{
    for (uint32_t bytes = 4; bytes <= sizeof(mbr_error); bytes++) {
        mbr_error error;
        memset(&error, 0xee, sizeof error);
        error.struct_size = bytes;
        mbr_ep_refuse_system(&error, MBR_SYSTEM, EAGAIN, "%s", "text");
        const unsigned char *raw = reinterpret_cast<unsigned char *>(&error);
        for (size_t at = bytes; at < sizeof error; at++)
            ASSERT_EQ(0xee, raw[at]) << bytes << " " << at;
        EXPECT_EQ(bytes == sizeof error, strcmp(error.text, "text") == 0);
    }
}

TEST(Refuse, LongText_IsCutAndTerminated)
{
    mbr_error error = sized<mbr_error>();
    mbr_ep_refuse(&error, MBR_BUSY, 0, "%s", std::string(1000, 'x').c_str());
    EXPECT_EQ(MBR_ERROR_TEXT_BYTES - 1u, strlen(error.text));
}

} // namespace
