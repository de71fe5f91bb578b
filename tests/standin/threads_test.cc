// Threaded mode with many threads, for ThreadSanitizer: each has a stream and memory of its own,
// and all share one device.
#include "tests/standin/fixture.h"

#include <atomic>
#include <thread>
#include <vector>

namespace standin
{
namespace
{

constexpr int ThreadCount = 8;
constexpr int RoundCount = 30;

class Threads : public Standin
{
  protected:
    void adjust() override { options.mode = STANDIN_THREADED; }

    template <typename Work> void run(Work work)
    {
        std::vector<std::thread> threads;
        for (int i = 0; i < ThreadCount; i++)
            threads.emplace_back([this, i, work] {
                OK(cuCtxSetCurrent(contexts[0]));
                work(i);
            });
        for (std::thread &thread : threads)
            thread.join();
    }
};

TEST_F(Threads, EachWritesAndReadsItsOwn)
{
    std::atomic<int> right{0};
    run([&](int i) {
        mbr_cuda_stream stream = nullptr;
        mbr_cuda_event event = nullptr;
        OK(cuStreamCreate(&stream, MBR_CUDA_STREAM_NON_BLOCKING));
        OK(cuEventCreate(&event, MBR_CUDA_EVENT_DISABLE_TIMING));
        for (int round = 0; round < RoundCount; round++) {
            Place place;
            uint32_t word = 0;
            take(&place);
            OK(cuMemsetD32Async(place.at, static_cast<uint32_t>(i * 1000 + round), 16, stream));
            OK(cuMemcpyDtoDAsync_v2(place.at + 64, place.at, 64, stream));
            OK(cuEventRecord(event, stream));
            OK(cuEventSynchronize(event));
            OK(cuMemcpyDtoHAsync_v2(&word, place.at + 64, sizeof word, stream));
            right += word == static_cast<uint32_t>(i * 1000 + round);
            give(place);
        }
        OK(cuEventDestroy_v2(event));
        OK(cuStreamDestroy_v2(stream));
    });
    EXPECT_EQ(right, ThreadCount * RoundCount);
    EXPECT_EQ(ledger().handle_count, 0U);
    EXPECT_EQ(ledger().pending_count, 0U);
}

TEST_F(Threads, ARing_PassesAWordOn)
{
    Place place;
    std::vector<mbr_cuda_stream> streams(ThreadCount);
    std::vector<mbr_cuda_event> events(ThreadCount);
    take(&place);
    for (int i = 0; i < ThreadCount; i++) {
        OK(cuStreamCreate(&streams[i], MBR_CUDA_STREAM_NON_BLOCKING));
        OK(cuEventCreate(&events[i], MBR_CUDA_EVENT_DISABLE_TIMING));
    }
    OK(cuMemsetD32Async(place.at, 77, 1, streams[0]));
    for (int step = 0; step < 10 * ThreadCount; step++) {
        mbr_cuda_address from = place.at + 4 * static_cast<unsigned>(step);
        OK(cuEventRecord(events[step % ThreadCount], streams[step % ThreadCount]));
        mbr_cuda_stream next = streams[(step + 1) % ThreadCount];
        OK(cuStreamWaitEvent(next, events[step % ThreadCount], 0));
        OK(cuMemcpyDtoDAsync_v2(from + 4, from, 4, next));
    }
    OK(cuCtxSynchronize());
    EXPECT_EQ(peek(place.at + 4 * 10 * ThreadCount), 77U);
    for (int i = 0; i < ThreadCount; i++) {
        OK(cuStreamDestroy_v2(streams[i]));
        OK(cuEventDestroy_v2(events[i]));
    }
    give(place);
}

TEST_F(Threads, CapturesOfTheirOwn_DoNotDisturbEachOther)
{
    std::atomic<int> right{0};
    run([&](int i) {
        Place place;
        mbr_cuda_stream stream = nullptr;
        mbr_cuda_graph graph = nullptr;
        mbr_cuda_graph_exec exec = nullptr;
        OK(cuStreamCreate(&stream, MBR_CUDA_STREAM_NON_BLOCKING));
        take(&place);
        for (int round = 0; round < RoundCount; round++) {
            OK(cuStreamBeginCapture_v2(stream, MBR_CUDA_CAPTURE_MODE_THREAD_LOCAL));
            OK(cuMemsetD32Async(place.at, static_cast<uint32_t>(i + round), 1, stream));
            OK(cuStreamEndCapture(stream, &graph));
            OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
            OK(cuGraphLaunch(exec, stream));
            OK(cuStreamSynchronize(stream));
            right += peek(place.at) == static_cast<uint32_t>(i + round);
            OK(cuGraphExecDestroy(exec));
            OK(cuGraphDestroy(graph));
        }
        OK(cuStreamDestroy_v2(stream));
        give(place);
    });
    EXPECT_EQ(right, ThreadCount * RoundCount);
}

// D24, as a race: the device is either done or lost, and nothing of the process is harmed.
TEST_F(Threads, AnUnmapBesideItsWork_IsSeenByNobodyButTheContext)
{
    for (int round = 0; round < RoundCount; round++) {
        start();
        mbr_cuda_stream stream = nullptr;
        Place place;
        OK(cuStreamCreate(&stream, MBR_CUDA_STREAM_NON_BLOCKING));
        take(&place);
        for (int i = 0; i < 10; i++)
            OK(cuMemsetD8Async(place.at, 1, Granule, stream));
        OK(cuMemUnmap(place.at, Granule));
        mbr_cuda_result ended = cuStreamSynchronize(stream);
        EXPECT_TRUE(ended == code(MBR_CUDA_SUCCESS) || ended == code(MBR_CUDA_ILLEGAL_ADDRESS));
        EXPECT_EQ(ledger().pending_count, 0U);
    }
}

TEST_F(Threads, StreamsDestroyedWithWork_EndByThemselves)
{
    Place place;
    take(&place);
    for (int round = 0; round < RoundCount; round++) {
        mbr_cuda_stream stream = nullptr;
        OK(cuStreamCreate(&stream, MBR_CUDA_STREAM_NON_BLOCKING));
        OK(cuMemsetD8Async(place.at, static_cast<unsigned char>(round), Granule, stream));
        OK(cuStreamDestroy_v2(stream));
    }
    OK(cuCtxSynchronize());
    EXPECT_EQ(ledger().pending_count, 0U);
    EXPECT_EQ(ledger().stream_count, 0U);
    give(place);
}

} // namespace
} // namespace standin
