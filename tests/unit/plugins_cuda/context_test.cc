// The calling thread's context and capture mode are the caller's, and other threads' captures are
// theirs.
#include "tests/unit/plugins_cuda/world.h"

namespace cuda_test
{

namespace
{

class Context : public OverStandin
{
  protected:
    // Every slot that reaches the driver; `check` after each.
    template <typename Check> void every_slot(Device &device, uint32_t index, Check check)
    {
        mbr_native stream = {};
        std::vector<char> host(4096);
        const uint64_t at = reinterpret_cast<uint64_t>(host.data());
        EXPECT_EQ(device.stream_create(&stream), MBR_OK), check("stream_create");
        uint64_t base = device.reserve(1, 4 * G).outcome.address;
        check("reserve");
        EXPECT_TRUE(device.create(2, G).ok()), check("extent_create");
        EXPECT_TRUE(device.map(1, 0, 2).ok()), check("map");
        EXPECT_TRUE(device.protect_all(1, 0, G, {{index, MBR_ACCESS_READ_WRITE}}).ok());
        check("protect");
        EXPECT_TRUE(device.share_with(1, G, 2, {{index, MBR_ACCESS_READ}}).ok());
        check("map_shared");
        Result taken = device.allocate(3, 1000);
        EXPECT_TRUE(taken.ok()), check("allocate");
        EXPECT_TRUE(device.fill(stream, base, 4096, 7).ok()), check("fill");
        EXPECT_TRUE(device.copy(stream, at, base + G, 4096).ok()), check("copy");
        EXPECT_TRUE(device.line_open(4, stream).ok()), check("line_open");
        EXPECT_EQ(device.signal(4).outcome.value, 1u), check("signal");
        EXPECT_TRUE(device.stream_wait(4, 1, stream).ok()), check("stream_wait");
        EXPECT_TRUE(device.wait(4, 1, UINT64_MAX).ok()), check("wait");
        EXPECT_EQ(device.reached(4).outcome.value, 1u), check("reached");
        EXPECT_EQ(host[4095], 7);
        EXPECT_LE(device.stats().free_bytes, UINT64_C(64) << 20), check("stats");
        EXPECT_TRUE(device.quiesce(UINT64_MAX).ok()), check("quiesce");
        EXPECT_TRUE(device.line_close(4).ok()), check("line_close");
        EXPECT_TRUE(device.release(3, taken.outcome.address).ok()), check("release");
        EXPECT_TRUE(device.unmap(1, 0, 2 * G).ok()), check("unmap");
        EXPECT_TRUE(device.destroy(2).ok()), check("extent_destroy");
        EXPECT_TRUE(device.unreserve(1).ok()), check("unreserve");
        EXPECT_TRUE(device.stream_destroy(stream).ok()), check("stream_destroy");
    }
};

TEST_F(Context, NoneIsCurrent_NoneIsAfterwards)
{
    Device device("device1");
    every_slot(device, 1, [](const char *slot) {
        mbr_cuda_context current = nullptr;
        EXPECT_EQ(driver().context_current(&current), MBR_CUDA_SUCCESS);
        EXPECT_EQ(current, nullptr) << slot;
    });
    EXPECT_TRUE(device.close().ok());
    EXPECT_EQ(ledger().retain_count, 0u);
}

TEST_F(Context, AnotherIsCurrent_ItStays)
{
    mbr_cuda_context other, popped;
    ASSERT_EQ(driver().primary_retain(&other, 0), MBR_CUDA_SUCCESS);
    ASSERT_EQ(driver().context_push(other), MBR_CUDA_SUCCESS);
    Device device("device1");
    every_slot(device, 1, [&](const char *slot) {
        mbr_cuda_context current = nullptr;
        EXPECT_EQ(driver().context_current(&current), MBR_CUDA_SUCCESS);
        EXPECT_EQ(current, other) << slot;
        uint32_t mode = MBR_CUDA_CAPTURE_MODE_THREAD_LOCAL; /* and puts back what is found */
        EXPECT_EQ(driver().exchange_capture_mode(&mode), MBR_CUDA_SUCCESS);
        EXPECT_EQ(mode, (uint32_t)MBR_CUDA_CAPTURE_MODE_GLOBAL) << slot;
        EXPECT_EQ(driver().exchange_capture_mode(&mode), MBR_CUDA_SUCCESS);
    });
    EXPECT_TRUE(device.close().ok());
    EXPECT_EQ(driver().context_pop(&popped), MBR_CUDA_SUCCESS);
    EXPECT_EQ(driver().primary_release(0), MBR_CUDA_SUCCESS);
}

// C1 and C3: another thread's question about an event would end a capture in the global mode.
TEST_F(Context, GlobalCaptureOpen_SurvivesEverySlot)
{
    Device device("device0");
    mbr_cuda_context context, popped;
    mbr_cuda_stream captured;
    mbr_cuda_graph graph;
    ASSERT_EQ(driver().primary_retain(&context, 0), MBR_CUDA_SUCCESS);
    ASSERT_EQ(driver().context_push(context), MBR_CUDA_SUCCESS);
    ASSERT_EQ(driver().stream_create(&captured, MBR_CUDA_STREAM_NON_BLOCKING), MBR_CUDA_SUCCESS);
    ASSERT_EQ(driver().capture_begin(captured, MBR_CUDA_CAPTURE_MODE_GLOBAL), MBR_CUDA_SUCCESS);
    every_slot(device, 0, [&](const char *slot) {
        uint32_t capture = MBR_CUDA_CAPTURE_NONE;
        EXPECT_EQ(driver().stream_capturing(captured, &capture), MBR_CUDA_SUCCESS);
        EXPECT_EQ(capture, (uint32_t)MBR_CUDA_CAPTURE_ACTIVE) << slot;
    });
    EXPECT_EQ(driver().capture_end(captured, &graph), MBR_CUDA_SUCCESS);
    EXPECT_EQ(driver().graph_destroy(graph), MBR_CUDA_SUCCESS);
    EXPECT_EQ(driver().stream_destroy(captured), MBR_CUDA_SUCCESS);
    EXPECT_EQ(driver().context_pop(&popped), MBR_CUDA_SUCCESS);
    EXPECT_EQ(driver().primary_release(0), MBR_CUDA_SUCCESS);
    EXPECT_TRUE(device.close().ok());
}

TEST_F(Context, StreamIsCaptured_SignalIsBusyAndTheCaptureStays)
{
    Device device("device0");
    mbr_native stream, second;
    ASSERT_EQ(device.stream_create(&stream), MBR_OK);
    ASSERT_EQ(device.stream_create(&second), MBR_OK);
    auto handle = reinterpret_cast<mbr_cuda_stream>(stream.value);
    ASSERT_TRUE(device.line_open(1, stream).ok());
    ASSERT_TRUE(device.line_open(2, second).ok());
    ASSERT_EQ(driver().capture_begin(handle, MBR_CUDA_CAPTURE_MODE_THREAD_LOCAL), MBR_CUDA_SUCCESS);
    EXPECT_EQ(device.signal(1).status, MBR_BUSY);
    standin().hang_event(1);
    EXPECT_EQ(device.signal(2).outcome.value, 1u);
    EXPECT_EQ(device.stream_wait(2, 1, stream).status, MBR_BUSY);
    standin().release_events();
    mbr_cuda_graph graph = nullptr;
    EXPECT_EQ(driver().capture_end(handle, &graph), MBR_CUDA_SUCCESS);
    EXPECT_EQ(driver().graph_destroy(graph), MBR_CUDA_SUCCESS);
    EXPECT_EQ(device.signal(1).outcome.value, 1u);
    EXPECT_TRUE(device.wait(1, 1, UINT64_MAX).ok());
    for (uint64_t id : {1, 2})
        EXPECT_TRUE(device.line_close(id).ok());
    for (mbr_native it : {stream, second})
        EXPECT_TRUE(device.stream_destroy(it).ok());
    EXPECT_TRUE(device.close().ok());
}

TEST_F(Context, NativeContextNamed_IsTakenIfItIsTheDevices)
{
    mbr_cuda_context context;
    ASSERT_EQ(driver().primary_retain(&context, 1), MBR_CUDA_SUCCESS);
    mbr_native named = {MBR_NATIVE_STREAM_CUDA, 0, reinterpret_cast<uint64_t>(context)};
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
    EXPECT_EQ(driver().primary_release(1), MBR_CUDA_SUCCESS);
}

} // namespace

} // namespace cuda_test
