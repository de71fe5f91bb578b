// Lines over the driver's events: values, waits, and what is remembered when the device is lost.
#include "tests/unit/plugins_gpu/world.h"

#include <thread>

namespace gpu_test
{

namespace
{

class Order : public OverStandin
{
  protected:
    void begin(bool is_manual)
    {
        restart(is_manual);
        device = Device("device0");
        ASSERT_EQ(device.stream_create(&stream), MBR_OK);
        ASSERT_TRUE(device.line_open(1, stream).ok());
    }
    void end()
    {
        EXPECT_TRUE(device.line_close(1).ok());
        EXPECT_TRUE(device.stream_destroy(stream).ok());
        EXPECT_TRUE(device.close().ok());
    }

    Device device;
    mbr_native stream = {};
};

TEST_F(Order, WorkPending_ValuesRiseAsItIsDone)
{
    begin(true);
    for (uint64_t value = 1; value <= 40; value++)
        ASSERT_EQ(device.signal(1).outcome.value, value);
    EXPECT_EQ(device.reached(1).outcome.value, 0u);
    uint64_t before = 0;
    while (standin().step(1) != 0) {
        uint64_t now = device.reached(1).outcome.value;
        EXPECT_GE(now, before);
        EXPECT_LE(now, before + 1) << "one step, one value";
        before = now;
    }
    EXPECT_EQ(device.reached(1).outcome.value, 40u);
    uint64_t events = ledger().event_count;
    for (uint64_t value = 41; value <= 80; value++)
        ASSERT_EQ(device.signal(1).outcome.value, value);
    EXPECT_EQ(ledger().event_count, events) << "events that are done serve again";
    standin().step(UINT32_MAX);
    EXPECT_EQ(device.reached(1).outcome.value, 80u);
    end();
}

TEST_F(Order, EverythingReached_DriverIsNotAsked)
{
    begin(false);
    ASSERT_EQ(device.signal(1).outcome.value, 1u);
    ASSERT_TRUE(device.wait(1, 1, UINT64_MAX).ok());
    uint64_t asked = standin().calls(name().event_query);
    EXPECT_EQ(device.reached(1).outcome.value, 1u);
    EXPECT_TRUE(device.wait(1, 1, 0).ok());
    EXPECT_EQ(standin().calls(name().event_query), asked);
    end();
}

TEST_F(Order, EventHangs_WaitEndsAtItsDeadlineAndQuiesceAtIts)
{
    begin(false);
    standin().hang_event(1);
    ASSERT_EQ(device.signal(1).outcome.value, 1u);
    uint64_t deadline = now_ns() + 5000000;
    EXPECT_EQ(device.wait(1, 1, deadline).status, MBR_TIMED_OUT);
    EXPECT_GE(now_ns(), deadline);
    EXPECT_EQ(device.quiesce(now_ns() + 1000000).status, MBR_TIMED_OUT);
    EXPECT_EQ(device.wait(1, 2, 0).status, MBR_INVALID_ARGUMENT);
    standin().release_events();
    EXPECT_TRUE(device.quiesce(UINT64_MAX).ok());
    EXPECT_EQ(device.reached(1).outcome.value, 1u);
    end();
}

TEST_F(Order, AnotherThreadWaits_CloseIsBusyUntilItIsOut)
{
    begin(false);
    standin().hang_event(1);
    ASSERT_EQ(device.signal(1).outcome.value, 1u);
    uint64_t asked = standin().calls(name().event_query);
    std::thread waiter([&] { EXPECT_TRUE(device.wait(1, 1, UINT64_MAX).ok()); });
    while (standin().calls(name().event_query) == asked)
        std::this_thread::yield();
    EXPECT_EQ(device.line_close(1).status, MBR_BUSY);
    EXPECT_EQ(device.reached(1).outcome.value, 0u) << "while the other waits";
    standin().release_events();
    waiter.join();
    end();
}

TEST_F(Order, ClosedWithValuesPending_WhoWaitsOnTheStreamGoesOnWaiting)
{
    begin(true);
    mbr_native second;
    ASSERT_EQ(device.stream_create(&second), MBR_OK);
    Result taken = device.allocate(1, 4096);
    ASSERT_TRUE(taken.ok());
    char byte = 0;
    ASSERT_TRUE(device.fill(stream, taken.outcome.address, 4096, 9).ok());
    ASSERT_EQ(device.signal(1).outcome.value, 1u);
    ASSERT_TRUE(device.stream_wait(1, 1, second).ok());
    ASSERT_TRUE(
        device.copy(second, reinterpret_cast<uint64_t>(&byte), taken.outcome.address, 1).ok());
    ASSERT_TRUE(device.line_close(1).ok());
    ASSERT_TRUE(device.line_open(1, second).ok());
    ASSERT_EQ(device.signal(1).outcome.value, 1u); /* with the event of the line that is closed */
    standin().step(UINT32_MAX);
    EXPECT_EQ(byte, 9);
    EXPECT_EQ(device.reached(1).outcome.value, 1u);
    EXPECT_TRUE(device.release(1, taken.outcome.address).ok());
    EXPECT_TRUE(device.stream_destroy(second).ok());
    end();
}

// After a sticky error the driver says "lost" of every event, also of those that were done.
TEST_F(Order, DeviceLost_WhatWasSeenStaysAndTheRestIsLost)
{
    begin(false);
    ASSERT_TRUE(device.line_open(2, stream).ok());
    ASSERT_EQ(device.signal(1).outcome.value, 1u);
    ASSERT_TRUE(device.wait(1, 1, UINT64_MAX).ok());
    standin().hang_event(1);
    ASSERT_EQ(device.signal(2).outcome.value, 1u);
    standin().lose(0, 0, MBR_GPU_ILLEGAL_ADDRESS, false);
    EXPECT_EQ(device.reached(1).outcome.value, 1u);
    EXPECT_EQ(device.reached(2).status, MBR_DEVICE_LOST);
    EXPECT_EQ(device.wait(2, 1, UINT64_MAX).status, MBR_DEVICE_LOST);
    EXPECT_TRUE(device.quiesce(UINT64_MAX).ok()) << "nothing is in flight any more";
    EXPECT_EQ(device.signal(1).status, MBR_DEVICE_LOST);
    EXPECT_EQ(device.reached(1).outcome.value, 1u);
    EXPECT_EQ(device.stats().free_bytes, MBR_UNKNOWN_BYTES);
    give_up(device);
    restart(); /* a process ends here: what the device had goes with it */
}

// What manages virtual memory goes on after a sticky error, as the fact says.
TEST_F(Order, DeviceLost_VirtualMemoryIsGivenBack)
{
    restart();
    device = Device("device0");
    if (device.fact(MBR_FACT_RELEASABLE_AFTER_LOSS) != 1) {
        EXPECT_TRUE(device.close().ok());
        GTEST_SKIP() << "nobody promises it of this driver";
    }
    ASSERT_TRUE(device.reserve(1, 4 * G).ok());
    ASSERT_TRUE(device.create(2, G).ok());
    ASSERT_TRUE(device.map(1, 0, 2).ok());
    ASSERT_TRUE(device.protect(1, 0, G, MBR_ACCESS_READ_WRITE).ok());
    Result taken = device.allocate(3, 1);
    ASSERT_TRUE(taken.ok());
    standin().lose(0, 0, MBR_GPU_ILLEGAL_ADDRESS, false);
    EXPECT_EQ(device.release(3, taken.outcome.address).status, MBR_DEVICE_LOST);
    EXPECT_TRUE(device.unmap(1, 0, G).ok());
    EXPECT_TRUE(device.destroy(2).ok());
    EXPECT_TRUE(device.unreserve(1).ok());
    EXPECT_EQ(device.close().status, MBR_IN_USE) << "the allocation";
    give_up(device);
    restart();
}

// One way into the context and out of it, whatever the driver is asked inside.
TEST_F(Order, SignalAndStreamWait_EnterTheContextOnce)
{
    begin(true);
    ASSERT_EQ(device.signal(1).outcome.value, 1u); // makes the event
    standin().step(UINT32_MAX);
    ASSERT_EQ(device.reached(1).outcome.value, 1u);
    const char *enters = is_hip() ? "hipGetDevice" : "cuCtxPushCurrent_v2";
    uint64_t before = standin().calls(enters);
    ASSERT_EQ(device.signal(1).outcome.value, 2u);
    EXPECT_EQ(standin().calls(enters), before + 1);
    ASSERT_TRUE(device.stream_wait(1, 2, stream).ok());
    EXPECT_EQ(standin().calls(enters), before + 2);
    standin().step(UINT32_MAX);
    end();
}

// Every thread's own default stream: it waits like others, and no line stands on it, because a
// signal may come from any thread.
TEST_F(Order, ThreadsOwnDefaultStream_WaitsAndHasNoLine)
{
    begin(true);
    const auto stream_of = [](uint64_t value) { return mbr_native{stream_kind(), 0, value}; };
    EXPECT_EQ(device.line_open(2, stream_of(2)).status, MBR_INVALID_ARGUMENT);
    for (uint64_t value : {0, 1}) {
        EXPECT_TRUE(device.line_open(2, stream_of(value)).ok()) << value;
        EXPECT_TRUE(device.line_close(2).ok());
    }
    ASSERT_EQ(device.signal(1).outcome.value, 1u);
    EXPECT_TRUE(device.stream_wait(1, 1, stream_of(2)).ok());
    standin().step(UINT32_MAX);
    end();
}

// Else its first signal would fail, when a free waits behind it already.
TEST_F(Order, StreamOfAnotherDevice_HasNoLine)
{
    begin(true);
    mbr_gpu_stream foreign;
    Inside inside(1);
    ASSERT_EQ(driver().stream_create(&foreign, MBR_GPU_STREAM_NON_BLOCKING), MBR_GPU_SUCCESS);
    EXPECT_EQ(device.line_open(2, native(foreign)).status, MBR_INVALID_ARGUMENT);
    EXPECT_EQ(device.signal(2).status, MBR_UNKNOWN_OBJECT);
    EXPECT_EQ(device.signal(1).outcome.value, 1u);
    standin().step(UINT32_MAX);
    EXPECT_EQ(device.reached(1).outcome.value, 1u);
    ASSERT_EQ(driver().stream_destroy(foreign), MBR_GPU_SUCCESS);
    end();
}

// Value 0 is the legacy default stream, which waits for blocking streams of its context.
TEST_F(Order, LegacyDefaultStream_IsAStreamLikeOthers)
{
    begin(true);
    Inside inside(0);
    mbr_gpu_stream blocking;
    ASSERT_EQ(driver().stream_create(&blocking, 0), MBR_GPU_SUCCESS);
    ASSERT_TRUE(device.line_open(2, {stream_kind(), 0, 0}).ok());
    ASSERT_TRUE(device.line_open(3, native(blocking)).ok());
    ASSERT_EQ(device.signal(3).outcome.value, 1u);
    ASSERT_EQ(device.signal(2).outcome.value, 1u);
    EXPECT_EQ(device.reached(2).outcome.value, 0u);
    standin().step(UINT32_MAX);
    EXPECT_EQ(device.reached(2).outcome.value, 1u);
    EXPECT_EQ(device.reached(3).outcome.value, 1u);
    EXPECT_TRUE(device.line_close(2).ok());
    EXPECT_TRUE(device.line_close(3).ok());
    EXPECT_EQ(driver().stream_destroy(blocking), MBR_GPU_SUCCESS);
    end();
}

} // namespace

} // namespace gpu_test
