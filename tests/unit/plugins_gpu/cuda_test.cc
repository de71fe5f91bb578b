// What is CUDA's alone: contexts of its user, and what its start may answer.
#include "plugins/cuda/driver.h"

#include "tests/unit/plugins_gpu/world.h"

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

} // namespace

} // namespace gpu_test
