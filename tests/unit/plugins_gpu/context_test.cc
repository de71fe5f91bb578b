// The calling thread's context and capture mode are the caller's, and other threads' captures are
// theirs.
#include "tests/unit/plugins_gpu/world.h"

namespace gpu_test
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
        EXPECT_EQ(device.stream_create(&stream), MBR_OK);
        check("stream_create");
        uint64_t base = device.reserve(1, 4 * G).outcome.address;
        check("reserve");
        EXPECT_TRUE(device.create(2, G).ok());
        check("extent_create");
        EXPECT_TRUE(device.map(1, 0, 2).ok());
        check("map");
        EXPECT_TRUE(device.protect_all(1, 0, G, {{index, MBR_ACCESS_READ_WRITE}}).ok());
        check("protect");
        EXPECT_TRUE(device.share_with(1, G, 2, {{index, MBR_ACCESS_READ}}).ok());
        check("map_shared");
        Result taken = device.allocate(3, 1000);
        EXPECT_TRUE(taken.ok());
        check("allocate");
        EXPECT_TRUE(device.fill(stream, base, 4096, 7).ok());
        check("fill");
        EXPECT_TRUE(device.copy(stream, at, base + G, 4096).ok());
        check("copy");
        EXPECT_TRUE(device.line_open(4, stream).ok());
        check("line_open");
        EXPECT_EQ(device.signal(4).outcome.value, 1u);
        check("signal");
        EXPECT_TRUE(device.stream_wait(4, 1, stream).ok());
        check("stream_wait");
        EXPECT_TRUE(device.wait(4, 1, UINT64_MAX).ok());
        check("wait");
        EXPECT_EQ(device.reached(4).outcome.value, 1u);
        check("reached");
        EXPECT_EQ(host[4095], 7);
        EXPECT_LE(device.stats().free_bytes, kCapacity);
        check("stats");
        EXPECT_TRUE(device.quiesce(UINT64_MAX).ok());
        check("quiesce");
        EXPECT_TRUE(device.line_close(4).ok());
        check("line_close");
        EXPECT_TRUE(device.release(3, taken.outcome.address).ok());
        check("release");
        bool spans = device.fact(MBR_FACT_UNMAP_SPANS_MAPPINGS) == 1;
        Result both = device.unmap(1, 0, 2 * G);
        EXPECT_EQ(both.status, spans ? MBR_OK : MBR_INVALID_ARGUMENT);
        check("unmap");
        for (uint64_t offset : {UINT64_C(0), G}) {
            EXPECT_EQ(device.unmap(1, offset, G).ok(), !spans);
            check("unmap");
        }
        EXPECT_TRUE(device.destroy(2).ok());
        check("extent_destroy");
        EXPECT_TRUE(device.unreserve(1).ok());
        check("unreserve");
        EXPECT_TRUE(device.stream_destroy(stream).ok());
        check("stream_destroy");
    }
};

TEST_F(Context, NoneIsCurrent_NoneIsAfterwards)
{
    Device device("device1");
    uint64_t before = current();
    every_slot(device, 1, [&](const char *slot) { EXPECT_EQ(current(), before) << slot; });
    EXPECT_TRUE(device.close().ok());
    EXPECT_EQ(ledger().retain_count, 0u);
}

TEST_F(Context, AnotherIsCurrent_ItStays)
{
    Inside inside(1);
    uint64_t before = current();
    Device device("device0");
    every_slot(device, 0, [&](const char *slot) {
        EXPECT_EQ(current(), before) << slot;
        uint32_t mode = MBR_GPU_CAPTURE_MODE_THREAD_LOCAL; /* and puts back what is found */
        EXPECT_EQ(driver().exchange_capture_mode(&mode), MBR_GPU_SUCCESS);
        EXPECT_EQ(mode, (uint32_t)MBR_GPU_CAPTURE_MODE_GLOBAL) << slot;
        EXPECT_EQ(driver().exchange_capture_mode(&mode), MBR_GPU_SUCCESS);
    });
    EXPECT_TRUE(device.close().ok());
}

// C1 and C3: another thread's question about an event would end a capture in the global mode.
TEST_F(Context, GlobalCaptureOpen_SurvivesEverySlot)
{
    Device device("device0");
    Inside inside(0);
    mbr_gpu_stream captured;
    void *graph;
    ASSERT_EQ(driver().stream_create(&captured, MBR_GPU_STREAM_NON_BLOCKING), MBR_GPU_SUCCESS);
    ASSERT_EQ(driver().capture_begin(captured, MBR_GPU_CAPTURE_MODE_GLOBAL), MBR_GPU_SUCCESS);
    every_slot(device, 0, [&](const char *slot) {
        uint32_t capture = MBR_GPU_CAPTURE_NONE;
        EXPECT_EQ(driver().stream_capturing(captured, &capture), MBR_GPU_SUCCESS);
        EXPECT_EQ(capture, (uint32_t)MBR_GPU_CAPTURE_ACTIVE) << slot;
    });
    EXPECT_EQ(driver().capture_end(captured, &graph), MBR_GPU_SUCCESS);
    EXPECT_EQ(driver().graph_destroy(graph), MBR_GPU_SUCCESS);
    EXPECT_EQ(driver().stream_destroy(captured), MBR_GPU_SUCCESS);
    EXPECT_TRUE(device.close().ok());
}

TEST_F(Context, StreamIsCaptured_SignalIsBusyAndTheCaptureStays)
{
    Device device("device0");
    mbr_native stream, second;
    ASSERT_EQ(device.stream_create(&stream), MBR_OK);
    ASSERT_EQ(device.stream_create(&second), MBR_OK);
    auto handle = reinterpret_cast<mbr_gpu_stream>(stream.value);
    ASSERT_TRUE(device.line_open(1, stream).ok());
    ASSERT_TRUE(device.line_open(2, second).ok());
    ASSERT_EQ(driver().capture_begin(handle, MBR_GPU_CAPTURE_MODE_THREAD_LOCAL), MBR_GPU_SUCCESS);
    EXPECT_EQ(device.signal(1).status, MBR_BUSY);
    standin().hang_event(1);
    EXPECT_EQ(device.signal(2).outcome.value, 1u);
    EXPECT_EQ(device.stream_wait(2, 1, stream).status, MBR_BUSY);
    standin().release_events();
    void *graph = nullptr;
    EXPECT_EQ(driver().capture_end(handle, &graph), MBR_GPU_SUCCESS);
    EXPECT_EQ(driver().graph_destroy(graph), MBR_GPU_SUCCESS);
    EXPECT_EQ(device.signal(1).outcome.value, 1u);
    EXPECT_TRUE(device.wait(1, 1, UINT64_MAX).ok());
    for (uint64_t id : {1, 2})
        EXPECT_TRUE(device.line_close(id).ok());
    for (mbr_native it : {stream, second})
        EXPECT_TRUE(device.stream_destroy(it).ok());
    EXPECT_TRUE(device.close().ok());
}

// CUDA's contexts are CUDA's alone (cuda_test.cc).
TEST_F(Context, NativeContextOfAnotherKind_IsRefused)
{
    Device device;
    mbr_error error;
    mbr_native named = {MBR_NATIVE_STREAM_CPU, 0, 1};
    EXPECT_EQ(Device::try_open("device0", named, &device, &error), MBR_INVALID_ARGUMENT);
    if (!is_hip())
        return;
    named.kind = MBR_NATIVE_STREAM_HIP;
    EXPECT_EQ(Device::try_open("device0", named, &device, &error), MBR_INVALID_ARGUMENT);
}

} // namespace

} // namespace gpu_test
