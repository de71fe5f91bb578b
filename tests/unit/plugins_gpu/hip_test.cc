// What is HIP's alone: versions, what a probe finds out at open, and what the runtime does
// otherwise than CUDA's driver.
#include "plugins/hip/driver.h"

#include "tests/unit/plugins_gpu/world.h"

#include <sys/resource.h>

#include <cstdlib>

namespace gpu_test
{

namespace
{

constexpr uint64_t kMiB = UINT64_C(1) << 20;

class Hip : public OverStandin
{
  protected:
    // device0 of a plugin in a fresh process.
    void open(const Knobs &knobs)
    {
        standin().restart(&knobs);
        device = Device();
        mbr_error error;
        ASSERT_EQ(Device::try_open("device0", {}, &device, &error, {}, fresh_plugin()), MBR_OK)
            << error.text;
    }
    Knobs like(int version)
    {
        Knobs knobs = usual();
        knobs.device_count = 2;
        knobs.content = STANDIN_ZEROS;
        knobs.hip_version = version;
        return knobs;
    }

    Device device;
};

TEST_F(Hip, StartRefused_HasAClass)
{
    const struct {
        int code;
        mbr_status status;
    } cases[] = {
        {MBR_HIP_INVALID_DEVICE, MBR_NO_DEVICE},
        {MBR_HIP_NO_DEVICE, MBR_NO_DEVICE},
        {MBR_HIP_INSUFFICIENT_DRIVER, MBR_UNSUPPORTED},
        {MBR_HIP_UNKNOWN, MBR_SYSTEM},
    };
    for (const auto &it : cases) {
        Knobs knobs = usual();
        knobs.start_code = it.code;
        Told told = ask(knobs);
        EXPECT_EQ(told.status, it.status) << it.code;
        EXPECT_NE(told.text.find("hipInit"), std::string::npos) << told.text;
    }
}

TEST_F(Hip, LibraryIsConfigured_NoOtherIsTried)
{
    ASSERT_EQ(setenv(MBR_HIP_LIBRARY_VARIABLE, "/absent/libamdhip64.so", 1), 0);
    Told told = ask(usual());
    EXPECT_EQ(told.status, MBR_NO_DEVICE);
    EXPECT_NE(told.text.find("/absent/libamdhip64.so"), std::string::npos) << told.text;
    for (const char *works : {"libamdhip64.so.7", ""}) { // the empty one is none
        ASSERT_EQ(setenv(MBR_HIP_LIBRARY_VARIABLE, works, 1), 0);
        EXPECT_EQ(ask(usual()).status, MBR_OK) << works;
    }
    ASSERT_EQ(unsetenv(MBR_HIP_LIBRARY_VARIABLE), 0);
}

TEST_F(Hip, Versions_HaveTheirFacts)
{
    const struct {
        int version;
        uint64_t extent_max_bytes;
        uint64_t is_usable;
    } cases[] = {
        {MBR_HIP_VERSION(6, 1) + 40091, 2 * kMiB, 0},
        {MBR_HIP_VERSION(7, 0), 256 * kMiB, 0},
        {MBR_HIP_VERSION(7, 14), 1024 * kMiB, 1},
    };
    for (const auto &it : cases) {
        Knobs knobs = like(it.version);
        knobs.granule_told_bytes = 4096;
        open(knobs);
        EXPECT_EQ(device.fact(MBR_FACT_GRANULE_MIN_BYTES), 2 * kMiB);
        EXPECT_EQ(device.fact(MBR_FACT_GRANULE_RECOMMENDED_BYTES), 2 * kMiB);
        EXPECT_EQ(device.fact(MBR_FACT_EXTENT_MAX_BYTES), it.extent_max_bytes);
        EXPECT_EQ(device.fact(MBR_FACT_USABLE_AFTER_PROTECT), it.is_usable);
        EXPECT_EQ(device.fact(MBR_FACT_UNMAP_SPANS_MAPPINGS), 0u);
        EXPECT_EQ(device.fact(MBR_FACT_PROTECT_MAY_FAIL_SPURIOUSLY), 1u);
        EXPECT_EQ(device.fact(MBR_FACT_FRESH_CONTENT), (uint64_t)MBR_CONTENT_UNDEFINED);
        EXPECT_EQ(device.fact(MBR_FACT_RELEASABLE_AFTER_LOSS), 0u);
        EXPECT_EQ(device.fact(MBR_FACT_QUIRKS), (uint64_t)MBR_QUIRK_LOCAL_DEVICE_LAST);
        EXPECT_TRUE(device.close().ok());
    }
}

// Who knows that a version tells the truth says which granule is the least.
TEST_F(Hip, OptionGranule_IsTheLeastThatIsUsed)
{
    Knobs knobs = like(MBR_HIP_VERSION(7, 14));
    knobs.granule_min_bytes = knobs.granule_recommended_bytes = 65536;
    standin().restart(&knobs);
    const struct {
        const char *given;
        uint64_t used_bytes;
    } cases[] = {{"4096", 65536}, {"131072", 131072}, {"4194304", 2 * (2 * kMiB)}};
    for (const auto &it : cases) {
        Device opened;
        mbr_error error;
        ASSERT_EQ(Device::try_open("device0", {}, &opened, &error, {{"granule", it.given}}), MBR_OK)
            << error.text;
        EXPECT_EQ(opened.fact(MBR_FACT_GRANULE_MIN_BYTES), it.used_bytes);
        EXPECT_TRUE(opened.close().ok());
    }
    for (const char *wrong : {"2048", "65537", "", "2147483648"}) {
        Device opened;
        mbr_error error;
        EXPECT_EQ(Device::try_open("device0", {}, &opened, &error, {{"granule", wrong}}),
            MBR_INVALID_ARGUMENT)
            << wrong;
    }
}

// 6.x has extents of one such granule at most.
TEST_F(Hip, OptionGranule_AboveTheLargestExtent_IsRefused)
{
    Knobs knobs = like(MBR_HIP_VERSION(6, 1));
    standin().restart(&knobs);
    mbr_error error;
    EXPECT_EQ(
        Device::try_open("device0", {}, &device, &error, {{"granule", "4194304"}}, fresh_plugin()),
        MBR_INVALID_ARGUMENT);
    EXPECT_NE(std::string(error.text).find("above the largest extent"), std::string::npos)
        << error.text;
}

// Its answer for a stream that is none names a destroyed context; the device is not lost by it.
TEST_F(Hip, StreamIsNone_IsTheCallersMistake)
{
    open(like(MBR_HIP_VERSION(7, 14)));
    mbr_native stream = {}, ended = {};
    ASSERT_EQ(device.stream_create(&stream), MBR_OK);
    ASSERT_EQ(device.stream_create(&ended), MBR_OK);
    ASSERT_TRUE(device.line_open(1, stream).ok());
    ASSERT_TRUE(device.stream_destroy(ended).ok());
    mbr_native strange = stream;
    strange.value = 0x123450;
    for (const mbr_native &wrong : {strange, ended}) {
        Result refused = device.line_open(2, wrong);
        EXPECT_EQ(refused.status, MBR_INVALID_ARGUMENT);
        EXPECT_NE(strstr(refused.error.text, "hipStreamIsCapturing"), nullptr)
            << refused.error.text;
    }
    EXPECT_EQ(device.signal(1).outcome.value, 1u);
    EXPECT_TRUE(device.line_close(1).ok());
    EXPECT_TRUE(device.stream_destroy(stream).ok());
    EXPECT_TRUE(device.close().ok());
}

// Before 7.14 access may come after it was granted: the probe waits before it writes, but for no
// capture, which that would end.
TEST_F(Hip, AccessComesLate_ProbeWaitsForTheDefaultStream)
{
    open(like(MBR_HIP_VERSION(7, 14)));
    EXPECT_EQ(standin().calls("hipStreamSynchronize"), 1u);
    EXPECT_TRUE(device.close().ok());
    open(like(MBR_HIP_VERSION(7, 0)));
    EXPECT_EQ(standin().calls("hipStreamSynchronize"), 2u);
    EXPECT_EQ(device.fact(MBR_FACT_ALIASING), 1u);
    EXPECT_TRUE(device.close().ok());

    mbr_gpu_stream stream = nullptr;
    void *graph = nullptr;
    ASSERT_EQ(driver().stream_create(&stream, 0), MBR_GPU_SUCCESS);
    ASSERT_EQ(driver().capture_begin(stream, MBR_HIP_CAPTURE_MODE_GLOBAL), MBR_GPU_SUCCESS);
    Device opened;
    mbr_error error;
    EXPECT_EQ(Device::try_open("device0", {}, &opened, &error, {}, fresh_plugin()), MBR_OK)
        << error.text;
    EXPECT_EQ(opened.fact(MBR_FACT_ALIASING), 0u);
    EXPECT_TRUE(opened.close().ok());
    EXPECT_EQ(driver().capture_end(stream, &graph), MBR_GPU_SUCCESS);
    EXPECT_EQ(driver().graph_destroy(graph), MBR_GPU_SUCCESS);
    EXPECT_EQ(driver().stream_destroy(stream), MBR_GPU_SUCCESS);
}

// Unmapped below work that may still run, the device would be lost.
TEST_F(Hip, ProbesWorkDoesNotEnd_WhatItTouchesStays)
{
    EXPECT_TRUE(Device("device0").close().ok()); // the library is open from here on
    restart();
    const standin_fault fault = {"hipStreamSynchronize", 1, true, false, MBR_HIP_UNKNOWN};
    standin().plan_fault(&fault);
    mbr_error error;
    EXPECT_EQ(Device::try_open("device0", {}, &device, &error), MBR_SYSTEM);
    EXPECT_NE(strstr(error.text, "hipStreamSynchronize"), nullptr) << error.text;
    EXPECT_EQ(ledger().mapping_count, 2u);
    EXPECT_EQ(ledger().stream_count, 1u);
    standin().forget_faults();
    restart();
}

TEST_F(Hip, VersionBeforeVirtualMemory_PlainAllocationIsThere)
{
    open(like(MBR_HIP_VERSION(6, 0) + 32831));
    EXPECT_EQ(device.virtual_, nullptr);
    EXPECT_EQ(standin().calls("hipMemCreate"), 0u);
    Result taken = device.allocate(1, 4096);
    ASSERT_TRUE(taken.ok());
    EXPECT_TRUE(device.release(1, taken.outcome.address).ok());
    EXPECT_TRUE(device.close().ok());
}

TEST_F(Hip, HandleIsMappedOnceOnly_NothingIsShared)
{
    Knobs knobs = like(MBR_HIP_VERSION(7, 14));
    knobs.has_no_aliasing = true;
    open(knobs);
    EXPECT_EQ(device.fact(MBR_FACT_ALIASING), 0u);
    EXPECT_EQ(device.shared, nullptr);
    EXPECT_NE(device.virtual_, nullptr);
    EXPECT_TRUE(device.close().ok());
}

TEST_F(Hip, NoReadOnlyAccess_WhoMayReadMayWrite)
{
    Knobs knobs = like(MBR_HIP_VERSION(7, 14));
    knobs.has_no_read_only = true;
    open(knobs);
    EXPECT_EQ(device.fact(MBR_FACT_READ_ONLY_ENFORCED), 0u);
    EXPECT_EQ(device.fact(MBR_FACT_ALIASING), 1u);
    uint64_t base = device.reserve(1, G).outcome.address;
    ASSERT_TRUE(device.create(2, G).ok());
    ASSERT_TRUE(device.map(1, 0, 2).ok());
    EXPECT_TRUE(device.protect(1, 0, G, MBR_ACCESS_READ).ok());
    unsigned long long flags = 0;
    const mbr_gpu_location location = {MBR_GPU_LOCATION_DEVICE, 0};
    EXPECT_EQ(driver().get_access(&flags, &location, base), MBR_GPU_SUCCESS);
    EXPECT_EQ(flags, (unsigned long long)MBR_GPU_ACCESS_READ_WRITE);
    EXPECT_TRUE(device.unmap(1, 0, G).ok());
    EXPECT_TRUE(device.destroy(2).ok());
    EXPECT_TRUE(device.unreserve(1).ok());
    EXPECT_TRUE(device.close().ok());
}

// The runtime says "out of memory" where a descriptor is what is missing.
TEST_F(Hip, HandlesTakeDescriptors_NoneLeftIsSaid)
{
    Knobs knobs = like(MBR_HIP_VERSION(7, 14));
    open(knobs);
    EXPECT_EQ(device.fact(MBR_FACT_DESCRIPTORS_PER_EXTENT), 0u);
    EXPECT_TRUE(device.close().ok());
    knobs.takes_descriptors = true;
    open(knobs);
    EXPECT_EQ(device.fact(MBR_FACT_DESCRIPTORS_PER_EXTENT), 1u);
    rlimit before, few;
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = before;
    few.rlim_cur = 3; // all that are open stay so
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    EXPECT_EQ(device.create(1, G).status, MBR_OUT_OF_DESCRIPTORS);
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    EXPECT_TRUE(device.create(1, G).ok());
    EXPECT_EQ(device.create(2, 1024 * kMiB).status, MBR_OUT_OF_MEMORY);
    EXPECT_TRUE(device.destroy(1).ok());
    EXPECT_TRUE(device.close().ok());
}

// It is not asked for an alignment, and addresses are what was asked for all the same.
TEST_F(Hip, Alignment_IsMadeInALongerRange)
{
    open(like(MBR_HIP_VERSION(7, 14)));
    ASSERT_TRUE(device.reserve(1, G).ok());
    Result aligned = device.reserve(2, G, 64 * kMiB);
    ASSERT_TRUE(aligned.ok()) << aligned.error.text;
    EXPECT_EQ(aligned.outcome.address % (64 * kMiB), 0u);
    ASSERT_TRUE(device.create(3, G).ok());
    EXPECT_TRUE(device.map(2, 0, 3).ok());
    EXPECT_TRUE(device.protect(2, 0, G, MBR_ACCESS_READ_WRITE).ok());
    EXPECT_TRUE(device.unmap(2, 0, G).ok());
    EXPECT_TRUE(device.destroy(3).ok());
    EXPECT_TRUE(device.unreserve(2).ok());
    EXPECT_TRUE(device.unreserve(1).ok());
    EXPECT_EQ(ledger().reservation_count, 0u);
    EXPECT_TRUE(device.close().ok());
}

TEST_F(Hip, SeveralDevices_ItsOwnIsTheLastOfTheList)
{
    Knobs knobs = like(MBR_HIP_VERSION(7, 14));
    knobs.wants_own_last = true;
    open(knobs);
    ASSERT_TRUE(device.reserve(1, G).ok());
    ASSERT_TRUE(device.create(2, G).ok());
    ASSERT_TRUE(device.map(1, 0, 2).ok());
    const std::vector<mbr_access> both = {{0, MBR_ACCESS_READ_WRITE}, {1, MBR_ACCESS_READ}};
    EXPECT_TRUE(device.protect_all(1, 0, G, both).ok());
    EXPECT_TRUE(device.unmap(1, 0, G).ok());
    EXPECT_TRUE(device.destroy(2).ok());
    EXPECT_TRUE(device.unreserve(1).ok());
    EXPECT_TRUE(device.close().ok());
}

// Whatever of the probe fails, before its effect or after it: open says so or finds less.
TEST_F(Hip, EveryCallOfOpenFailsOnce_NothingIsMappedAndAtMostOneObjectWithheld)
{
    uint64_t struck_count = 0;
    EXPECT_TRUE(Device("device0").close().ok()); // the library is open from here on
    for (bool is_after : {false, true})
        for (uint64_t index = 1;; index++) {
            restart();
            mbr_error error;
            Device opened;
            const standin_fault fault = {"*", index, false, is_after, MBR_HIP_UNKNOWN};
            standin().plan_fault(&fault);
            uint64_t calls = ledger().call_count;
            mbr_status status = Device::try_open("device0", {}, &opened, &error);
            bool has_struck = ledger().call_count >= calls + index;
            standin().forget_faults();
            EXPECT_TRUE(status == MBR_OK || status == MBR_SYSTEM) << index;
            if (status == MBR_OK) {
                EXPECT_TRUE(opened.close().ok());
            }
            EXPECT_EQ(current(), 0u);
            /* What a give-back of the last resort refuses is withheld: a second one could take
             * what another thread was given since. */
            standin_ledger left = ledger();
            EXPECT_EQ(left.mapping_count, 0u) << index;
            EXPECT_LE(left.handle_count + left.reservation_count, is_after ? 0u : 1u) << index;
            if (!has_struck)
                break;
            struck_count++;
        }
    EXPECT_GE(struck_count, 50u);
    restart();
}

} // namespace

} // namespace gpu_test
