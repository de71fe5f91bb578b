// The device stepped by hand: nothing runs by itself, and what the driver is silent about ends the
// process.
#include "tests/standin/fixture.h"

#include <csignal>
#include <unistd.h>

namespace standin
{
namespace
{

class Manual : public Standin
{
  protected:
    void SetUp() override
    {
        Standin::SetUp();
        OK(cuStreamCreate(&stream, MBR_CUDA_STREAM_NON_BLOCKING));
        OK(cuStreamCreate(&other, MBR_CUDA_STREAM_NON_BLOCKING));
        take(&place);
    }

    mbr_cuda_stream stream = nullptr;
    mbr_cuda_stream other = nullptr;
    Place place;
};

TEST_F(Manual, Work_RunsWhenItIsStepped)
{
    OK(cuMemsetD8Async(place.at, 1, 4, stream));
    OK(cuMemsetD8Async(place.at, 2, 4, stream));
    EXPECT_EQ(peek(place.at), 0xA5A5A5A5U);
    EXPECT_EQ(cuStreamQuery(stream), code(MBR_CUDA_NOT_READY));
    EXPECT_EQ(ledger().pending_count, 2U);
    EXPECT_EQ(standin_step(1), 1U);
    EXPECT_EQ(peek(place.at), 0x01010101U);
    EXPECT_EQ(standin_step(10), 1U);
    EXPECT_EQ(peek(place.at), 0x02020202U);
    EXPECT_EQ(cuStreamQuery(stream), code(MBR_CUDA_SUCCESS));
}

TEST_F(Manual, AWaitingStream_IsNotReadyBeforeTheOther)
{
    mbr_cuda_event event = nullptr;
    OK(cuEventCreate(&event, 0));
    OK(cuMemsetD8Async(place.at, 1, 4, other));
    OK(cuEventRecord(event, other));
    OK(cuStreamWaitEvent(stream, event, 0));
    OK(cuMemsetD8Async(place.at, 2, 4, stream));
    EXPECT_EQ(standin_step(1), 1U);
    EXPECT_EQ(peek(place.at), 0x01010101U);
    EXPECT_EQ(cuEventQuery(event), code(MBR_CUDA_NOT_READY));
    EXPECT_EQ(standin_step(1), 1U);
    EXPECT_EQ(cuEventQuery(event), code(MBR_CUDA_SUCCESS));
    EXPECT_EQ(standin_step(9), 1U);
    EXPECT_EQ(peek(place.at), 0x02020202U);
    OK(cuEventDestroy_v2(event));
}

TEST_F(Manual, ACallThatWaits_RunsWhatItWaitsFor)
{
    OK(cuMemsetD8Async(place.at, 3, 4, stream));
    OK(cuStreamSynchronize(stream));
    EXPECT_EQ(peek(place.at), 0x03030303U);
}

TEST_F(Manual, AnEventThatHangs_IsNeverDoneUntilItIsReleased)
{
    mbr_cuda_event event = nullptr;
    OK(cuEventCreate(&event, 0));
    standin_hang_event(1);
    OK(cuEventRecord(event, stream));
    standin_step(9);
    EXPECT_EQ(cuEventQuery(event), code(MBR_CUDA_NOT_READY));
    standin_release_events();
    EXPECT_EQ(cuEventQuery(event), code(MBR_CUDA_SUCCESS));
    OK(cuEventDestroy_v2(event));
}

TEST_F(Manual, ALazyDevice_GetsOnByEachQuery)
{
    options.mode = STANDIN_LAZY;
    start();
    OK(cuStreamCreate(&stream, MBR_CUDA_STREAM_NON_BLOCKING));
    take(&place);
    OK(cuMemsetD8Async(place.at, 1, 4, stream));
    OK(cuMemsetD8Async(place.at, 2, 4, stream));
    EXPECT_EQ(cuStreamQuery(stream), code(MBR_CUDA_NOT_READY));
    EXPECT_EQ(peek(place.at), 0x01010101U);
    EXPECT_EQ(cuStreamQuery(stream), code(MBR_CUDA_NOT_READY));
    EXPECT_EQ(cuStreamQuery(stream), code(MBR_CUDA_SUCCESS));
    EXPECT_EQ(peek(place.at), 0x02020202U);
}

TEST_F(Manual, AnUnmapUnderPendingWork_LosesTheContextWhenItRuns)
{
    OK(cuMemsetD8Async(place.at, 3, 4, stream));
    OK(cuMemUnmap(place.at, Granule));
    EXPECT_EQ(cuStreamQuery(stream), code(MBR_CUDA_NOT_READY));
    EXPECT_EQ(standin_step(9), 1U);
    EXPECT_EQ(cuStreamQuery(stream), code(MBR_CUDA_ILLEGAL_ADDRESS));
    EXPECT_EQ(cuMemsetD8Async(place.at, 3, 4, stream), code(MBR_CUDA_ILLEGAL_ADDRESS));
}

TEST_F(Manual, ACopyFromOrdinaryMemory_TakesItAlong)
{
    uint32_t word = 11;
    OK(cuMemcpyHtoDAsync_v2(place.at, &word, sizeof word, stream));
    word = 12;
    standin_step(9);
    EXPECT_EQ(peek(place.at), 11U);
}

TEST_F(Manual, ACopyFromPinnedMemory_ReadsItWhenItRuns)
{
    void *host = nullptr;
    OK(cuMemHostAlloc(&host, 64, 0));
    auto *word = static_cast<uint32_t *>(host);
    *word = 11;
    OK(cuMemcpyHtoDAsync_v2(place.at, word, sizeof *word, stream));
    *word = 12;
    standin_step(9);
    EXPECT_EQ(peek(place.at), 12U);
    OK(cuMemFreeHost(host));
}

TEST_F(Manual, MemoryFreedInAStreamsOrder_IsThereUntilThen)
{
    mbr_cuda_address plain = 0;
    OK(cuMemAllocAsync(&plain, 64, stream));
    OK(cuMemsetD8Async(plain, 4, 64, stream));
    OK(cuMemFreeAsync(plain, stream));
    EXPECT_EQ(standin_step(1), 1U);
    EXPECT_EQ(peek(plain), 0x04040404U);
    EXPECT_EQ(ledger().plain_count, 1U);
    EXPECT_EQ(standin_step(1), 1U);
    EXPECT_EQ(ledger().plain_count, 0U);
    EXPECT_EQ(cuStreamSynchronize(stream), code(MBR_CUDA_SUCCESS));
}

struct Inside {
    mbr_cuda_event event;
    mbr_cuda_result information;
    mbr_cuda_result query;
    bool is_run;
};

void call_inside(void *argument)
{
    Inside *inside = static_cast<Inside *>(argument);
    size_t bytes = 0;
    inside->information = cuMemGetInfo_v2(&bytes, &bytes);
    inside->query = cuEventQuery(inside->event);
    inside->is_run = true;
}

TEST_F(Manual, AHostFunction_MayQueryAnEventAndNothingElse)
{
    Inside inside = {};
    OK(cuEventCreate(&inside.event, 0));
    OK(cuLaunchHostFunc(stream, call_inside, &inside));
    OK(cuEventRecord(inside.event, stream));
    EXPECT_FALSE(inside.is_run);
    EXPECT_EQ(standin_step(1), 1U);
    EXPECT_TRUE(inside.is_run);
    EXPECT_EQ(inside.information, code(MBR_CUDA_NOT_PERMITTED));
    EXPECT_EQ(inside.query, code(MBR_CUDA_NOT_READY));
    standin_step(1);
    OK(cuEventDestroy_v2(inside.event));
}

TEST_F(Manual, AFillOfAGraph_IsLookedAtWhenItIsMadeReady)
{
    mbr_cuda_graph graph = nullptr;
    mbr_cuda_graph_exec exec = nullptr;
    OK(cuMemUnmap(place.at, Granule));
    OK(cuStreamBeginCapture_v2(stream, MBR_CUDA_CAPTURE_MODE_GLOBAL));
    OK(cuMemsetD8Async(place.at, 5, 4, stream));
    OK(cuStreamEndCapture(stream, &graph));
    EXPECT_EQ(cuGraphInstantiateWithFlags(&exec, graph, 0), code(MBR_CUDA_INVALID_VALUE));
    OK(cuMemMap(place.at, Granule, 0, place.handle, 0));
    OK(grant(place.at, MBR_CUDA_ACCESS_READ));
    EXPECT_EQ(cuGraphInstantiateWithFlags(&exec, graph, 0), code(MBR_CUDA_INVALID_VALUE));
    OK(grant(place.at));
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cuGraphLaunch(exec, stream));
    EXPECT_EQ(standin_step(1), 1U);
    EXPECT_EQ(peek(place.at), 0x05050505U);
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
}

TEST_F(Manual, AGraph_RunsPieceByPiece)
{
    mbr_cuda_graph graph = nullptr;
    mbr_cuda_graph_exec exec = nullptr;
    OK(cuStreamBeginCapture_v2(stream, MBR_CUDA_CAPTURE_MODE_GLOBAL));
    OK(cuMemsetD8Async(place.at, 5, 4, stream));
    OK(cuMemsetD8Async(place.at + 4, 6, 4, stream));
    EXPECT_EQ(standin_step(9), 0U);
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cuGraphLaunch(exec, stream));
    EXPECT_EQ(standin_step(1), 1U);
    EXPECT_EQ(peek(place.at), 0x05050505U);
    EXPECT_EQ(peek(place.at + 4), 0xA5A5A5A5U);
    EXPECT_EQ(standin_step(9), 1U);
    EXPECT_EQ(peek(place.at + 4), 0x06060606U);
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
}

// ---- What no caller may do ----

class ManualDeath : public Manual
{
  protected:
    // From the start in the child: a forked one has no device memory.
    ManualDeath() { testing::FLAGS_gtest_death_test_style = "threadsafe"; }
};

TEST_F(ManualDeath, AWaitForNothing_IsSeen)
{
    mbr_cuda_event event = nullptr;
    OK(cuEventCreate(&event, 0));
    standin_hang_event(1);
    OK(cuEventRecord(event, stream));
    EXPECT_DEATH(cuEventSynchronize(event), "can never be done");
    standin_release_events();
    OK(cuEventDestroy_v2(event));
}

TEST_F(ManualDeath, ADestroyedEvent_IsNotUsed)
{
    mbr_cuda_event event = nullptr;
    OK(cuEventCreate(&event, 0));
    OK(cuEventDestroy_v2(event));
    EXPECT_DEATH(cuEventQuery(event), "event is used after it was destroyed");
    EXPECT_DEATH(cuEventDestroy_v2(event), "event is used after it was destroyed");
}

TEST_F(ManualDeath, ADestroyedStream_IsNotUsed)
{
    OK(cuStreamDestroy_v2(stream));
    EXPECT_DEATH(cuStreamQuery(stream), "stream is used after it was destroyed");
}

TEST_F(ManualDeath, ADestroyedGraph_IsNotLaunched)
{
    mbr_cuda_graph graph = nullptr;
    mbr_cuda_graph_exec exec = nullptr;
    OK(cuStreamBeginCapture_v2(stream, MBR_CUDA_CAPTURE_MODE_GLOBAL));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cuGraphExecDestroy(exec));
    EXPECT_DEATH(cuGraphLaunch(exec, stream), "graph is used after it was destroyed");
    OK(cuGraphDestroy(graph));
}

TEST_F(ManualDeath, AHandleAfterItsEnd_IsNotMapped)
{
    mbr_cuda_address at = 0;
    mbr_cuda_handle handle = 0;
    OK(cuMemAddressReserve(&at, Granule, 0, 0, 0));
    OK(create(&handle));
    OK(cuMemRelease(handle));
    EXPECT_DEATH(cuMemMap(at, Granule, 0, handle, 0), "D11");
}

TEST_F(ManualDeath, AnUnmapPastTheEnd_MayMeetNobody)
{
    Place next;
    take(&next);
    ASSERT_EQ(next.at, place.at + Granule);
    EXPECT_DEATH(cuMemUnmap(place.at, 2 * Granule), "D22: an unmap reaches past the end");
}

// ---- Whose fault a fault is ----

TEST_F(ManualDeath, AProcessorThatFollowsADevicesAddress_Dies)
{
    auto *word = reinterpret_cast<volatile uint32_t *>(place.at);
    EXPECT_DEATH(*word = 1, "");
}

TEST_F(ManualDeath, ACopyToMemoryOfNobody_IsACrash)
{
    auto *nowhere = reinterpret_cast<void *>(UINT64_C(0x10000000));
    EXPECT_DEATH(cuMemcpyDtoH_v2(nowhere, place.at, 4), "");
}

void on_signal(int)
{
    constexpr char text[] = "the handler before was asked\n";
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    _exit(1);
}

TEST_F(ManualDeath, AFaultElsewhere_IsHandedToTheHandlerBefore)
{
    EXPECT_DEATH(
        {
            signal(SIGSEGV, on_signal);
            standin_restart(&options);
            cuInit(0); // takes the signal over
            *reinterpret_cast<volatile uint32_t *>(UINT64_C(0x10000000)) = 1;
        },
        "the handler before was asked");
}

} // namespace
} // namespace standin
