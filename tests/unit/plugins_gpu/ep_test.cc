// membrane/device.h: a device as an EP with a stream that the client made with the driver itself.
#include "membrane/device.h"
#include "membrane/membrane.h"
#include "tests/unit/plugins_gpu/world.h"

namespace gpu_test
{

namespace
{

constexpr uint64_t kMiB = UINT64_C(1) << 20;

class DeviceEp : public testing::Test
{
  protected:
    void SetUp() override
    {
        restart(true);
        ASSERT_EQ(mbr_manager_create(nullptr, &manager, &error), MBR_OK) << error.text;
        auto open = sized<mbr_plugin_open_request>();
        open.name = plugin_path();
        open.flags = MBR_PLUGIN_TRUSTED;
        ASSERT_EQ(mbr_manager_open_plugin(manager, &open, &plugin, &error), MBR_OK) << error.text;
    }
    void TearDown() override
    {
        EXPECT_EQ(mbr_manager_close_plugin(manager, plugin, &error), MBR_OK) << error.text;
        EXPECT_EQ(mbr_manager_destroy(manager, &error), MBR_OK) << error.text;
        standin().assert_clean();
    }

    mbr_manager *manager = nullptr;
    mbr_plugin_handle plugin = {0};
    mbr_error error = sized<mbr_error>();
};

TEST_F(DeviceEp, StreamOfTheClients_OrdersWhatItsReleasesWaitFor)
{
    mbr_device device;
    ASSERT_EQ(mbr_device_open(manager, plugin, 1, nullptr, 0, &device, &error), MBR_OK)
        << error.text;
    Inside inside(1);
    mbr_gpu_stream own;
    ASSERT_EQ(driver().stream_create(&own, MBR_GPU_STREAM_NON_BLOCKING), MBR_GPU_SUCCESS);
    mbr_stream_handle stream;
    ASSERT_EQ(mbr_ep_attach_stream(manager, device.ep,
                  is_hip() ? mbr_hip_native(own) : mbr_cuda_native(own), &stream, &error),
        MBR_OK)
        << error.text;
    mbr_gpu_address taken;
    char byte = 0;
    ASSERT_EQ(driver().device_allocate(&taken, kMiB), MBR_GPU_SUCCESS);
    ASSERT_EQ(driver().fill_async(taken, 7, kMiB, own), MBR_GPU_SUCCESS);
    EXPECT_EQ(mbr_ep_synchronize(manager, stream, 0, &error), MBR_TIMED_OUT) << "nothing has run";
    /* To memory that is not pinned: the driver waits for all that the stream has. */
    ASSERT_EQ(
        mbr_ep_copy(manager, stream, reinterpret_cast<uint64_t>(&byte), taken, 1, &error), MBR_OK)
        << error.text;
    standin().step(UINT32_MAX);
    EXPECT_EQ(byte, 7);
    EXPECT_EQ(mbr_device_close(manager, &device, UINT64_MAX, &error), MBR_IN_USE) << "the stream";
    EXPECT_EQ(mbr_ep_detach_stream(manager, stream, &error), MBR_OK) << error.text;
    EXPECT_EQ(driver().device_free(taken), MBR_GPU_SUCCESS);
    EXPECT_EQ(driver().stream_destroy(own), MBR_GPU_SUCCESS);
    EXPECT_EQ(mbr_device_close(manager, &device, UINT64_MAX, &error), MBR_OK) << error.text;
    EXPECT_EQ(device.mechanism.value, 0u);
    EXPECT_EQ(ledger().retain_count, is_hip() ? 0u : 1u) << "the client's own";
}

TEST_F(DeviceEp, NoSuchDevice_IsRefusedAndLeavesNothing)
{
    mbr_device device;
    EXPECT_EQ(mbr_device_open(manager, plugin, 7, nullptr, 0, &device, &error), MBR_UNKNOWN_OBJECT);
    EXPECT_EQ(device.mechanism.value, 0u);
    EXPECT_EQ(device.ep.value, 0u);
}

TEST(DeviceStream, Null_IsTheLegacyDefaultStream)
{
    mbr_native one = mbr_cuda_native(nullptr), other = mbr_hip_native(nullptr);
    EXPECT_EQ(one.kind, (uint32_t)MBR_NATIVE_STREAM_CUDA);
    EXPECT_EQ(other.kind, (uint32_t)MBR_NATIVE_STREAM_HIP);
    EXPECT_EQ(one.value, 0u);
    EXPECT_EQ(other.value, 0u);
}

} // namespace

} // namespace gpu_test
