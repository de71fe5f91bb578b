// Growable structs of every size (rule 12) and flag words (rule 15).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

extern "C" {
#include "abi/base/growable.h"
}

namespace membrane
{
namespace
{

struct Sample {
    uint32_t struct_size;
    uint32_t small;
    uint64_t first_version;
    uint64_t second_version;
};

TEST(Growable, RequestOfEverySize_IsReadToItsEndOrRefused)
{
    for (uint32_t bytes = 0; bytes <= sizeof(Sample) + 16; bytes++) {
        std::vector<unsigned char> room(sizeof(Sample) + 16, 0x11);
        std::memcpy(room.data(), &bytes, sizeof(bytes));
        Sample own;
        std::memset(&own, 0xA5, sizeof(own));
        mbr_status status = MBR_TAKE(&own, struct Sample, first_version, room.data(), nullptr);
        bool fits = bytes >= offsetof(Sample, second_version);
        ASSERT_EQ(fits ? MBR_OK : MBR_INVALID_ARGUMENT, status) << bytes;
        EXPECT_EQ(fits ? UINT64_C(0x1111111111111111) : 0, own.first_version) << bytes;
        uint64_t second = 0;
        if (bytes > offsetof(Sample, second_version))
            std::memset(
                &second, 0x11, std::min<size_t>(8, bytes - offsetof(Sample, second_version)));
        EXPECT_EQ(fits ? second : 0, own.second_version) << bytes;
    }
}

TEST(Growable, NoRequest_IsRefusedByItsName)
{
    Sample own;
    mbr_error error = {};
    error.struct_size = sizeof(error);
    EXPECT_EQ(MBR_INVALID_ARGUMENT,
        mbr_growable_take(&own, sizeof(own), nullptr, 16, "mbr_sample", &error));
    EXPECT_NE(nullptr, std::strstr(error.text, "mbr_sample"));
}

TEST(Growable, AnswerIntoEverySize_WritesItsOwnBytesAndZerosBehind)
{
    const Sample full = {
        99, 0x22222222, UINT64_C(0x2222222222222222), UINT64_C(0x2222222222222222)};
    for (const Sample *from : {&full, static_cast<const Sample *>(nullptr)}) {
        for (uint32_t bytes = 0; bytes <= sizeof(Sample) + 16; bytes++) {
            std::vector<unsigned char> room(sizeof(Sample) + 32, 0xA5);
            std::memcpy(room.data(), &bytes, sizeof(bytes));
            mbr_growable_give(room.data(), from, sizeof(full));
            uint32_t stated;
            std::memcpy(&stated, room.data(), sizeof(stated));
            EXPECT_EQ(bytes, stated);
            for (size_t i = sizeof(stated); i < room.size(); i++) {
                unsigned expected = i >= bytes              ? 0xA5
                    : i < sizeof(Sample) && from != nullptr ? 0x22
                                                            : 0;
                ASSERT_EQ(expected, room[i]) << i << " of " << bytes;
            }
        }
    }
}

TEST(Flags, UnknownCriticalBits_AreNamed_OptionalOnesPass)
{
    mbr_error error = {};
    error.struct_size = sizeof(error);
    EXPECT_EQ(MBR_OK, mbr_flags_check(0, 0, "mbr_sample", &error));
    EXPECT_EQ(MBR_OK, mbr_flags_check(0xFFFF0005, 7, "mbr_sample", &error));
    EXPECT_EQ(MBR_UNSUPPORTED, mbr_flags_check(0x80000015, 5, "mbr_sample", &error));
    EXPECT_NE(nullptr, std::strstr(error.text, "0x10 ")) << error.text;
}

} // namespace
} // namespace membrane
