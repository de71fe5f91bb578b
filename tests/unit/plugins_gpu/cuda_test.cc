// What is CUDA's alone: contexts of its user, and what its start may answer.
#include "plugins/cuda/driver.h"

#include "tests/unit/plugins_gpu/world.h"

#include <cstring>
#include <map>
#include <vector>

namespace gpu_test
{

namespace
{

using Cuda = OverStandin;

TEST_F(Cuda, StartRefused_HasAClass)
{
    const struct {
        int code;
        mbr_status status;
    } cases[] = {
        {MBR_CUDA_STUB_LIBRARY, MBR_NO_DEVICE},
        {MBR_CUDA_SYSTEM_DRIVER_MISMATCH, MBR_UNSUPPORTED},
        {MBR_CUDA_SYSTEM_NOT_READY, MBR_NOT_READY},
        {MBR_CUDA_UNKNOWN, MBR_SYSTEM},
    };
    for (const auto &it : cases) {
        Knobs options = usual();
        options.start_code = it.code;
        Told told = ask(options);
        EXPECT_EQ(told.status, it.status) << it.code;
        EXPECT_NE(told.text.find("cuInit"), std::string::npos) << told.text;
    }
}

TEST_F(Cuda, NativeContextNamed_IsTakenIfItIsTheDevices)
{
    Inside inside(1);
    mbr_native named = {MBR_NATIVE_STREAM_CUDA, 0, current()};
    Device device("device1", named);
    EXPECT_EQ(ledger().retain_count, 1u) << "the caller's alone";
    Result taken = device.allocate(1, 1);
    EXPECT_TRUE(taken.ok());
    EXPECT_TRUE(device.release(1, taken.outcome.address).ok());
    EXPECT_TRUE(device.close().ok());
    Device other;
    mbr_error error;
    EXPECT_EQ(Device::try_open("device0", named, &other, &error), MBR_INVALID_ARGUMENT);
    named.value = 0;
    EXPECT_EQ(Device::try_open("device0", named, &other, &error), MBR_INVALID_ARGUMENT);
}

// Every answer that the driver's header has, by its class; what is not named here tells nothing of
// what would work.
TEST_F(Cuda, Results_HaveTheirClass)
{
    std::map<int, mbr_status> expected;
    expected[2] = MBR_OUT_OF_MEMORY;
    expected[400] = MBR_INVALID_ARGUMENT;
    for (int code : {34, 100})
        expected[code] = MBR_NO_DEVICE;
    for (int code : {46, 900, 901, 903, 905, 906, 907, 908})
        expected[code] = MBR_BUSY;
    for (int code : {101, 801, 803, 804})
        expected[code] = MBR_UNSUPPORTED;
    for (int code : {600, 802})
        expected[code] = MBR_NOT_READY;
    for (int code :
        {4, 201, 214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 810, 911})
        expected[code] = MBR_DEVICE_LOST;
    std::vector<int> codes;
#define CODE_OF(ours, theirs, value)                                                               \
    if (std::strncmp(#theirs, "CUDA_ERROR", 10) == 0)                                              \
        codes.push_back(value);
    MBR_CUDA_CONSTANTS(CODE_OF)
#undef CODE_OF
    Device device("device0");
    for (int code : codes) {
        const standin_fault fault = {"cuMemCreate", 1, false, false, code};
        standin().plan_fault(&fault);
        Result failed = device.create(1, G);
        auto known = expected.find(code);
        EXPECT_EQ(failed.status, known != expected.end() ? known->second : MBR_SYSTEM)
            << failed.error.text;
        EXPECT_EQ(failed.error.native_code, code);
        EXPECT_EQ(failed.error.native_domain, (uint32_t)MBR_NATIVE_CUDA);
        standin().forget_faults();
        expected.erase(code);
    }
    EXPECT_TRUE(expected.empty()) << expected.begin()->first << " is none of the driver's";
    EXPECT_EQ(MBR_STATUS_CLASS(MBR_OUT_OF_MEMORY), MBR_CLASS_EXHAUSTED);
    EXPECT_EQ(MBR_STATUS_CLASS(MBR_OUT_OF_ADDRESSES), MBR_CLASS_EXHAUSTED);
    EXPECT_EQ(MBR_STATUS_CLASS(MBR_DEVICE_LOST), MBR_CLASS_LOST);
    EXPECT_TRUE(device.close().ok());
}

TEST_F(Cuda, Facts_AreTheDriversOfEachMechanism)
{
    Device device("device0"), pinned("pinned0"), unified("unified0");
    const std::map<uint32_t, uint64_t> expected = {
        {MBR_FACT_GRANULE_MIN_BYTES, G},
        {MBR_FACT_GRANULE_RECOMMENDED_BYTES, G},
        {MBR_FACT_EXTENT_MAX_BYTES, kCapacity},
        {MBR_FACT_RESERVATION_MAX_BYTES, UINT64_C(1) << 46},
        {MBR_FACT_FRESH_CONTENT, MBR_CONTENT_UNDEFINED},
        {MBR_FACT_USABLE_AFTER_PROTECT, 1},
        {MBR_FACT_UNMAP_SPANS_MAPPINGS, 1},
        {MBR_FACT_PROTECT_MAY_FAIL_SPURIOUSLY, 0},
        {MBR_FACT_ALIASING, 1},
        {MBR_FACT_READ_ONLY_ENFORCED, 1},
        {MBR_FACT_UNMAP_WAITS_FOR_DEVICE, 0},
        {MBR_FACT_PAST_PHYSICAL_SIZE, MBR_PAST_REFUSE},
        {MBR_FACT_RELEASABLE_AFTER_LOSS, 1},
        {MBR_FACT_HOST_ACCESSIBLE, 0},
        {MBR_FACT_FORK_SAFE, 0},
        {MBR_FACT_DESCRIPTORS_PER_EXTENT, 0},
        {MBR_FACT_POPULATED, 1},
        {MBR_FACT_QUIRKS, 0},
    };
    for (const auto &[number, value] : expected)
        EXPECT_EQ(device.fact(number), value) << number;
    for (Device *it : {&device, &pinned, &unified}) {
        EXPECT_EQ(it->fact(MBR_FACT_ALLOCATION_ALIGN_BYTES), 256u);
        EXPECT_EQ(it->fact(MBR_FACT_ALLOCATION_ROUND_BYTES), 256u);
    }
    for (Device *it : {&pinned, &unified}) {
        EXPECT_EQ(it->virtual_, nullptr);
        EXPECT_EQ(it->fact(MBR_FACT_HOST_ACCESSIBLE), 1u);
        EXPECT_EQ(it->fact(MBR_FACT_RELEASABLE_AFTER_LOSS), 0u);
    }
    EXPECT_EQ(pinned.fact(MBR_FACT_PAST_PHYSICAL_SIZE), (uint64_t)MBR_PAST_KILL);
    EXPECT_EQ(unified.fact(MBR_FACT_PAST_PHYSICAL_SIZE), (uint64_t)MBR_PAST_PAGES_SILENTLY);
    EXPECT_EQ(unified.fact(MBR_FACT_POPULATED), 0u);
    for (Device *it : {&device, &pinned, &unified})
        EXPECT_TRUE(it->close().ok());
}

} // namespace

} // namespace gpu_test
