// Requests and answers whose owners know fewer or more fields, against a guard of poisoned bytes.
extern "C" {
#include "membrane/membrane_plugin.h"
#include "plugins/common/answer.h"
}

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

namespace
{

const mbr_plugin_vtable plugin = {sizeof(mbr_plugin_vtable), MBR_KIND_PLUGIN, MBR_MINOR_0, "some",
    "1", nullptr, nullptr, nullptr, nullptr, nullptr, nullptr};

template <typename T> T sized()
{
    T value;
    memset(&value, 0, sizeof(value));
    value.struct_size = sizeof(value);
    return value;
}

mbr_hello offer(uint16_t minor_min, uint16_t minor_max)
{
    auto hello = sized<mbr_hello>();
    hello.minor_min = minor_min;
    hello.minor_max = minor_max;
    return hello;
}

} // namespace

TEST(Answer, ShortRequest_CountsMissingFieldsAsZero)
{
    auto request = sized<mbr_unmap_request>();
    request.reservation_id = 7;
    request.offset_bytes = 8;
    request.bytes = 9;
    request.struct_size = offsetof(mbr_unmap_request, bytes);
    mbr_unmap_request copy;
    ASSERT_TRUE(mbr_answer_read(&copy, sizeof(copy), &request));
    EXPECT_EQ(copy.reservation_id, 7u);
    EXPECT_EQ(copy.offset_bytes, 8u);
    EXPECT_EQ(copy.bytes, 0u);
}

TEST(Answer, CutField_CountsAsZeroWhole)
{
    auto request = sized<mbr_unmap_request>();
    request.reservation_id = request.offset_bytes = request.bytes = UINT64_MAX;
    for (uint32_t size = sizeof(uint32_t); size <= sizeof(request); size++) {
        mbr_unmap_request copy;
        request.struct_size = size;
        ASSERT_TRUE(mbr_answer_read(&copy, sizeof(copy), &request));
        EXPECT_EQ(copy.struct_size, size);
        EXPECT_EQ(copy.reservation_id,
            MBR_HAS(mbr_unmap_request, &request, reservation_id) ? UINT64_MAX : 0);
        EXPECT_EQ(
            copy.offset_bytes, MBR_HAS(mbr_unmap_request, &request, offset_bytes) ? UINT64_MAX : 0);
        EXPECT_EQ(copy.bytes, MBR_HAS(mbr_unmap_request, &request, bytes) ? UINT64_MAX : 0);
    }
}

TEST(Answer, LongRequest_IsReadUpToTheOwnSize)
{
    struct {
        mbr_release_request request;
        char newer[16];
    } grown;
    memset(&grown, 0x5A, sizeof(grown));
    grown.request.struct_size = sizeof(grown);
    mbr_release_request copy;
    ASSERT_TRUE(mbr_answer_read(&copy, sizeof(copy), &grown));
    EXPECT_EQ(copy.allocation_id, 0x5A5A5A5A5A5A5A5Au);
}

TEST(Answer, EveryOutcomeSize_IsNeverPassed)
{
    mbr_outcome answer;
    memset(&answer, 0x11, sizeof(answer));
    for (uint32_t size = 0; size <= sizeof(mbr_outcome) + 16; size++) {
        std::vector<unsigned char> room(sizeof(mbr_outcome) + 32, 0xEE);
        memcpy(room.data(), &size, sizeof(size));
        mbr_answer_write(room.data(), &answer, sizeof(answer));
        uint32_t kept;
        memcpy(&kept, room.data(), sizeof(kept));
        ASSERT_EQ(kept, size);
        for (size_t i = 4; i < room.size(); i++)
            ASSERT_EQ(room[i], i < size && i < sizeof(answer) ? 0x11 : 0xEE) << i << " of " << size;
    }
}

TEST(Answer, Begin_ClearsTheOutcomeAndNothingBehindIt)
{
    for (uint32_t size = 0; size <= sizeof(mbr_outcome) + 16; size++) {
        std::vector<unsigned char> room(sizeof(mbr_outcome) + 32, 0xEE);
        memcpy(room.data(), &size, sizeof(size));
        auto request = sized<mbr_trim_request>();
        mbr_trim_request copy;
        ASSERT_TRUE(mbr_answer_begin(
            &copy, sizeof(copy), &request, room.data(), sizeof(mbr_outcome), nullptr));
        for (size_t i = 4; i < room.size(); i++)
            ASSERT_EQ(room[i], i < size && i < sizeof(mbr_outcome) ? 0 : 0xEE) << size;
    }
}

TEST(Answer, CheckRoom_RefusesAnOutcomeThatEndsBeforeWhatIsHandedOut)
{
    const uint32_t least = offsetof(mbr_outcome, address) + sizeof(uint64_t);
    auto outcome = sized<mbr_outcome>();
    auto error = sized<mbr_error>();
    EXPECT_EQ(mbr_answer_check_room(&outcome, least, &error), MBR_OK);
    outcome.struct_size = least;
    EXPECT_EQ(mbr_answer_check_room(&outcome, least, &error), MBR_OK);
    outcome.struct_size = least - 1;
    EXPECT_EQ(mbr_answer_check_room(&outcome, least, &error), MBR_INVALID_ARGUMENT);
    EXPECT_NE(strstr(error.text, "23 bytes has no room"), nullptr) << error.text;
}

TEST(Answer, NullRequestOrOutcome_IsRefusedWithAText)
{
    auto request = sized<mbr_trim_request>();
    auto outcome = sized<mbr_outcome>();
    auto error = sized<mbr_error>();
    mbr_trim_request copy;
    outcome.state = MBR_STATE_DONE;
    EXPECT_FALSE(mbr_answer_begin(&copy, sizeof(copy), nullptr, &outcome, sizeof(outcome), &error));
    EXPECT_EQ(outcome.state, (uint32_t)MBR_STATE_UNCHANGED);
    EXPECT_EQ(error.status, MBR_INVALID_ARGUMENT);
    EXPECT_NE(strstr(error.text, "request"), nullptr);
    EXPECT_FALSE(mbr_answer_begin(&copy, sizeof(copy), &request, nullptr, sizeof(outcome), &error));
    EXPECT_NE(strstr(error.text, "outcome"), nullptr);
    request.struct_size = 3;
    EXPECT_FALSE(
        mbr_answer_begin(&copy, sizeof(copy), &request, &outcome, sizeof(outcome), &error));
}

TEST(Answer, Quote_IsShortPrintableAndTerminated)
{
    char quoted[64];
    EXPECT_STREQ(mbr_answer_quote(quoted, "granule"), "granule");
    EXPECT_STREQ(mbr_answer_quote(quoted, nullptr), "(NULL)");
    EXPECT_STREQ(mbr_answer_quote(quoted, ""), "");
    EXPECT_STREQ(mbr_answer_quote(quoted, "a\xff\n\x7f~"), "a???~");
    EXPECT_EQ(strlen(mbr_answer_quote(quoted, std::string(200, 'x').c_str())), 63u);
}

TEST(Hello, OfferedMinorZero_IsAgreed)
{
    auto hello = offer(0, 9);
    auto reply = sized<mbr_reply>();
    reply.minor = 77;
    auto error = sized<mbr_error>();
    ASSERT_EQ(mbr_answer_hello(&plugin, &hello, &reply, &error), MBR_OK);
    EXPECT_EQ(reply.plugin, &plugin);
    EXPECT_EQ(reply.minor, 0);
    EXPECT_EQ(reply.minor_min, 0);
    EXPECT_EQ(reply.minor_max, 0);
    EXPECT_EQ(error.status, MBR_OK);
}

TEST(Hello, NoCommonMinor_IsRefusedWithBothRanges)
{
    auto hello = offer(2, 5);
    auto reply = sized<mbr_reply>();
    auto error = sized<mbr_error>();
    reply.plugin = &plugin;
    reply.minor_max = 9;
    EXPECT_EQ(mbr_answer_hello(&plugin, &hello, &reply, &error), MBR_VERSION_MISMATCH);
    EXPECT_EQ(reply.plugin, nullptr);
    EXPECT_EQ(reply.minor_max, 0);
    EXPECT_NE(strstr(error.text, "0 to 0"), nullptr);
    EXPECT_NE(strstr(error.text, "2 to 5"), nullptr);
}

TEST(Hello, BadOffersAndShortReplies_AreRefused)
{
    auto hello = offer(1, 0);
    auto reply = sized<mbr_reply>();
    EXPECT_EQ(mbr_answer_hello(&plugin, &hello, &reply, nullptr), MBR_INVALID_ARGUMENT);
    EXPECT_EQ(mbr_answer_hello(&plugin, nullptr, &reply, nullptr), MBR_INVALID_ARGUMENT);
    hello = offer(0, 0);
    EXPECT_EQ(mbr_answer_hello(&plugin, &hello, nullptr, nullptr), MBR_INVALID_ARGUMENT);
    hello.struct_size = 4;
    EXPECT_EQ(mbr_answer_hello(&plugin, &hello, &reply, nullptr), MBR_INVALID_ARGUMENT);
    hello = offer(0, 0);
    reply.struct_size = offsetof(mbr_reply, plugin);
    EXPECT_EQ(mbr_answer_hello(&plugin, &hello, &reply, nullptr), MBR_INVALID_ARGUMENT);
}
