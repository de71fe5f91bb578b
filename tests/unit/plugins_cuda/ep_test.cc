// membrane/cuda.h: a device as an EP with a stream that the client made with the driver itself.
#include "membrane/cuda.h"
#include "membrane/membrane.h"
#include "tests/unit/plugins_cuda/world.h"

namespace cuda_test
{

namespace
{

constexpr uint64_t kMiB = UINT64_C(1) << 20;

class CudaEp : public testing::Test
{
  protected:
    void SetUp() override
    {
        restart(true);
        ASSERT_EQ(mbr_manager_create(nullptr, &manager, &error), MBR_OK) << error.text;
        auto open = sized<mbr_plugin_open_request>();
        open.name = "plugins/cuda/libmembrane-cuda.so";
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

TEST_F(CudaEp, StreamOfTheClients_OrdersWhatItsReleasesWaitFor)
{
    mbr_cuda cuda;
    ASSERT_EQ(mbr_cuda_open(manager, plugin, 1, nullptr, 0, &cuda, &error), MBR_OK) << error.text;
    mbr_cuda_context context, popped;
    mbr_cuda_stream own;
    ASSERT_EQ(driver().primary_retain(&context, 1), MBR_CUDA_SUCCESS);
    ASSERT_EQ(driver().context_push(context), MBR_CUDA_SUCCESS);
    ASSERT_EQ(driver().stream_create(&own, MBR_CUDA_STREAM_NON_BLOCKING), MBR_CUDA_SUCCESS);
    mbr_stream_handle stream;
    ASSERT_EQ(mbr_ep_attach_stream(manager, cuda.ep, mbr_cuda_native(own), &stream, &error), MBR_OK)
        << error.text;
    mbr_cuda_address taken;
    char byte = 0;
    ASSERT_EQ(driver().device_allocate(&taken, kMiB), MBR_CUDA_SUCCESS);
    ASSERT_EQ(driver().fill_async(taken, 7, kMiB, own), MBR_CUDA_SUCCESS);
    EXPECT_EQ(mbr_ep_synchronize(manager, stream, 0, &error), MBR_TIMED_OUT) << "nothing has run";
    /* To memory that is not pinned: the driver waits for all that the stream has. */
    ASSERT_EQ(
        mbr_ep_copy(manager, stream, reinterpret_cast<uint64_t>(&byte), taken, 1, &error), MBR_OK)
        << error.text;
    standin().step(UINT32_MAX);
    EXPECT_EQ(byte, 7);
    EXPECT_EQ(mbr_cuda_close(manager, &cuda, UINT64_MAX, &error), MBR_IN_USE) << "the stream";
    EXPECT_EQ(mbr_ep_detach_stream(manager, stream, &error), MBR_OK) << error.text;
    EXPECT_EQ(driver().device_free(taken), MBR_CUDA_SUCCESS);
    EXPECT_EQ(driver().stream_destroy(own), MBR_CUDA_SUCCESS);
    EXPECT_EQ(mbr_cuda_close(manager, &cuda, UINT64_MAX, &error), MBR_OK) << error.text;
    EXPECT_EQ(cuda.mechanism.value, 0u);
    EXPECT_EQ(ledger().retain_count, 1u) << "the client's own, after the EP's was given back";
    EXPECT_EQ(driver().context_pop(&popped), MBR_CUDA_SUCCESS);
    EXPECT_EQ(driver().primary_release(1), MBR_CUDA_SUCCESS);
}

TEST_F(CudaEp, NoSuchDevice_IsRefusedAndLeavesNothing)
{
    mbr_cuda cuda;
    EXPECT_EQ(mbr_cuda_open(manager, plugin, 7, nullptr, 0, &cuda, &error), MBR_UNKNOWN_OBJECT);
    EXPECT_EQ(cuda.mechanism.value, 0u);
    EXPECT_EQ(cuda.ep.value, 0u);
}

TEST(CudaStream, Null_IsTheLegacyDefaultStream)
{
    mbr_native native = mbr_cuda_native(nullptr);
    EXPECT_EQ(native.kind, (uint32_t)MBR_NATIVE_STREAM_CUDA);
    EXPECT_EQ(native.value, 0u);
}

} // namespace

} // namespace cuda_test
