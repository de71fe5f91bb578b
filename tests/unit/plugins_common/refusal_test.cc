// What every plugin of this tree refuses in the same words, as tables: requests that make an
// object, options, mechanisms, errnos.
extern "C" {
#include "plugins/common/answer.h"
}

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>

namespace
{

template <typename T> T sized()
{
    T value;
    memset(&value, 0, sizeof(value));
    value.struct_size = sizeof(value);
    return value;
}

mbr_answer_ask good()
{
    mbr_answer_ask ask;
    memset(&ask, 0, sizeof(ask));
    ask.known_flags = 1;
    ask.id = 7;
    ask.bytes = 8192;
    ask.unit_bytes = 4096;
    ask.largest_bytes = 1 << 20;
    ask.max_owned_bytes = UINT64_MAX;
    return ask;
}

mbr_status check(mbr_answer_ask ask)
{
    auto error = sized<mbr_error>();
    mbr_status status = mbr_answer_check(&ask, &error);
    EXPECT_EQ(error.status, status);
    EXPECT_EQ(status == MBR_OK, error.text[0] == 0);
    return status;
}

struct Opening {
    uint64_t swap = 0, page = 4096;
    mbr_answer_option options[2] = {
        {"swap", {"off", "on"}, 0, 0, &swap}, {"page", {nullptr, nullptr}, 4096, 65536, &page}};
    mbr_mechanism_description described[2];
    mbr_error error;
    uint32_t index = 9;

    Opening()
    {
        memset(described, 0, sizeof(described));
        strcpy(described[0].name, "device0");
        strcpy(described[1].name, "device1");
    }
    mbr_status open(const char *mechanism, const mbr_option &option, uint32_t kind = 0)
    {
        mbr_answer_opening opening = {described, options, 2, 2, MBR_NATIVE_STREAM_CUDA};
        auto request = sized<mbr_open_request>();
        request.mechanism = mechanism;
        request.option_count = option.key ? 1 : 0;
        request.options = &option;
        request.native_context.kind = kind;
        auto outcome = sized<mbr_open_outcome>();
        error = sized<mbr_error>();
        return mbr_answer_open(&opening, &request, &outcome, &index, &error);
    }
};

} // namespace

TEST(Refusal, OneWrongFieldOfAnAsk_HasItsStatus)
{
    EXPECT_EQ(check(good()), MBR_OK);
    const struct {
        const char *what;
        void (*spoil)(mbr_answer_ask &);
        mbr_status status;
    } cases[] = {
        {"id", [](mbr_answer_ask &ask) { ask.id = 0; }, MBR_INVALID_ARGUMENT},
        {"size", [](mbr_answer_ask &ask) { ask.bytes = 0; }, MBR_INVALID_ARGUMENT},
        {"unit", [](mbr_answer_ask &ask) { ask.bytes = 8193; }, MBR_MISALIGNED},
        {"alignment", [](mbr_answer_ask &ask) { ask.align_bytes = 3; }, MBR_INVALID_ARGUMENT},
        {"critical flag", [](mbr_answer_ask &ask) { ask.flags = 2; }, MBR_UNSUPPORTED},
        {"known flag", [](mbr_answer_ask &ask) { ask.flags = 1; }, MBR_OK},
        {"optional flag", [](mbr_answer_ask &ask) { ask.flags = 1u << 16; }, MBR_OK},
        {"too large", [](mbr_answer_ask &ask) { ask.bytes = 2 << 20; }, MBR_INVALID_ARGUMENT},
        {"budget", [](mbr_answer_ask &ask) { ask.max_owned_bytes = 8191; }, MBR_OVER_BUDGET},
        {"whole budget", [](mbr_answer_ask &ask) { ask.max_owned_bytes = 8192; }, MBR_OK},
        {"sum", [](mbr_answer_ask &ask) { ask.bytes = -4096ull; }, MBR_OVERFLOW},
        {"rounding",
            [](mbr_answer_ask &ask) {
                ask.may_round = true;
                ask.bytes = UINT64_MAX;
            },
            MBR_OVERFLOW},
    };
    for (const auto &one : cases) {
        mbr_answer_ask ask = good();
        one.spoil(ask);
        EXPECT_EQ(check(ask), one.status) << one.what;
    }
}

TEST(Refusal, AskThatMayRound_IsRoundedAndAlignedToTheUnit)
{
    mbr_answer_ask ask = good();
    ask.may_round = true;
    ask.bytes = 4097;
    ask.max_owned_bytes = 8192;
    ASSERT_EQ(mbr_answer_check(&ask, nullptr), MBR_OK);
    EXPECT_EQ(ask.bytes, 8192u);
    EXPECT_EQ(ask.align_bytes, 4096u);
    ask.align_bytes = 1 << 20;
    ASSERT_EQ(mbr_answer_check(&ask, nullptr), MBR_OK);
    EXPECT_EQ(ask.align_bytes, 1u << 20);
}

TEST(Refusal, OpeningThatEndsInsideOfItsContext_HasNone)
{
    const mbr_mechanism_description described = {};
    const mbr_answer_opening opening = {&described, nullptr, 1, 0, MBR_NATIVE_STREAM_CUDA};
    auto request = sized<mbr_open_request>();
    auto outcome = sized<mbr_open_outcome>();
    uint32_t index;
    request.mechanism = "";
    request.native_context.kind = MBR_NATIVE_STREAM_HIP;
    EXPECT_EQ(mbr_answer_open(&opening, &request, &outcome, &index, nullptr), MBR_INVALID_ARGUMENT);
    request.struct_size = offsetof(mbr_open_request, native_context) + offsetof(mbr_native, value);
    EXPECT_EQ(mbr_answer_open(&opening, &request, &outcome, &index, nullptr), MBR_OK);
}

TEST(Refusal, Opening_ReadsOptionsAndFindsTheMechanism)
{
    Opening opening;
    EXPECT_EQ(opening.open("device1", {"swap", "on"}, MBR_NATIVE_STREAM_CUDA), MBR_OK);
    EXPECT_EQ(opening.index, 1u);
    EXPECT_EQ(opening.swap, 1u);
    EXPECT_EQ(opening.page, 4096u); // its default
    EXPECT_EQ(opening.open("device0", {"page", "65536"}), MBR_OK);
    EXPECT_EQ(opening.index, 0u);
    EXPECT_EQ(opening.page, 65536u);
    EXPECT_EQ(opening.open("device0", {"swap", "off"}), MBR_OK);
    EXPECT_EQ(opening.swap, 0u);
}

TEST(Refusal, OpeningWithWrongArguments_SaysWhatWouldWork)
{
    const struct {
        const char *mechanism;
        mbr_option option;
        uint32_t kind;
        mbr_status status;
        const char *in_text;
    } cases[] = {
        {"device2", {nullptr, nullptr}, 0, MBR_INVALID_ARGUMENT, "device0"},
        {nullptr, {nullptr, nullptr}, 0, MBR_INVALID_ARGUMENT, "device0"},
        {"device0", {nullptr, nullptr}, MBR_NATIVE_STREAM_HIP, MBR_INVALID_ARGUMENT, "kind"},
        {"device0", {"Swap", "on"}, 0, MBR_UNKNOWN_KEY, "swap, page"},
        {"device0", {"swap", "maybe"}, 0, MBR_INVALID_ARGUMENT, "off or on"},
        {"device0", {"swap", nullptr}, 0, MBR_INVALID_ARGUMENT, "off or on"},
        {"device0", {"page", "8193"}, 0, MBR_INVALID_ARGUMENT, "power of two from 4096 to 65536"},
        {"device0", {"page", "131072"}, 0, MBR_INVALID_ARGUMENT, "power of two"},
        {"device0", {"page", ""}, 0, MBR_INVALID_ARGUMENT, "power of two"},
        {"device0", {"page", nullptr}, 0, MBR_INVALID_ARGUMENT, "power of two"},
    };
    for (const auto &one : cases) {
        Opening opening;
        EXPECT_EQ(opening.open(one.mechanism, one.option, one.kind), one.status) << one.in_text;
        EXPECT_NE(strstr(opening.error.text, one.in_text), nullptr) << opening.error.text;
        EXPECT_EQ(opening.swap, 0u);
        EXPECT_EQ(opening.page, 4096u);
    }
}

TEST(Refusal, Errnos_HaveTheirStatusAndStayReadable)
{
    const struct {
        int code;
        mbr_status status;
    } cases[] = {{0, MBR_OK}, {ENOMEM, MBR_OUT_OF_ADDRESSES}, {ENOSPC, MBR_OUT_OF_MEMORY},
        {EMFILE, MBR_OUT_OF_DESCRIPTORS}, {ENFILE, MBR_OUT_OF_DESCRIPTORS},
        {EFBIG, MBR_FILE_SIZE_LIMIT}, {EPERM, MBR_SYSTEM}, {12345, MBR_SYSTEM}};
    for (const auto &one : cases) {
        auto error = sized<mbr_error>();
        EXPECT_EQ(mbr_answer_errno(&error, one.code, MBR_OUT_OF_ADDRESSES, "mmap", 99), one.status);
        EXPECT_EQ(error.native_code, one.code);
        EXPECT_EQ(error.asked_bytes, one.code ? 99u : 0u);
        EXPECT_EQ(strstr(error.text, "mmap") != nullptr, one.code != 0);
    }
}
