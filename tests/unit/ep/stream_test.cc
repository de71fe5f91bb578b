// A context's streams: ids, limits, lines that open and close, transfers, synchronizations.
#include "tests/unit/ep/world.h"

#include <thread>

using namespace ep_test;

namespace
{

// ---- streams ----

TEST(ContextStream, Ids_RiseAndAreNeverUsedAgain)
{
    World world({.first_stream_id = UINT64_C(7) << 40});
    std::set<uint64_t> ids;
    uint64_t last = (UINT64_C(7) << 40) - 1;
    for (int i = 0; i < 3000; i++) {
        uint64_t id = world.attach(9); // the native value is used again: a new stream each time
        EXPECT_GT(id, last);
        last = id;
        EXPECT_TRUE(ids.insert(id).second);
        EXPECT_TRUE(mbr_context_knows_stream(world.context, id));
        EXPECT_EQ(MBR_OK, mbr_context_detach_stream(world.context, id, nullptr));
        EXPECT_FALSE(mbr_context_knows_stream(world.context, id));
    }
    EXPECT_LT(last, UINT64_C(8) << 40);
    EXPECT_EQ(3000u, world.fake.count(kClose));
    EXPECT_FALSE(mbr_context_knows_stream(world.context, 0));
    EXPECT_FALSE(mbr_context_knows_stream(world.context, UINT64_MAX));
}

TEST(ContextStream, UnknownIds_RefusedByEveryCall)
{
    World world;
    uint64_t gone = world.attach(1), open = world.attach(2);
    EXPECT_EQ(MBR_OK, mbr_context_detach_stream(world.context, gone, nullptr));
    for (uint64_t id : {UINT64_C(0), gone, open + 1, open + MBR_CONTEXT_STREAM_COUNT, UINT64_MAX}) {
        EXPECT_EQ(MBR_UNKNOWN_OBJECT, mbr_context_detach_stream(world.context, id, nullptr));
        EXPECT_EQ(
            MBR_UNKNOWN_OBJECT, mbr_context_synchronize(world.context, id, kForever, nullptr));
        EXPECT_EQ(MBR_UNKNOWN_OBJECT, mbr_context_fill(world.context, id, 1, 1, 1, nullptr));
        EXPECT_EQ(MBR_UNKNOWN_OBJECT, mbr_context_copy(world.context, id, 1, 2, 1, nullptr));
        world.defer({id}, 1, MBR_UNKNOWN_OBJECT);
        world.defer({open, id}, 1, MBR_UNKNOWN_OBJECT);
    }
    EXPECT_EQ(0u, world.read().queued_count);
    world.audit();
}

TEST(ContextStream, AtTheLimitOfLines_RefusedUntilOneIsClosed)
{
    World world;
    std::vector<uint64_t> ids;
    for (uint64_t native = 1; native <= MBR_CONTEXT_STREAM_COUNT; native++)
        ids.push_back(world.attach(native));
    uint64_t id;
    mbr_error error = sized<mbr_error>();
    EXPECT_EQ(
        MBR_OUT_OF_DESCRIPTORS, mbr_context_attach_stream(world.context, {1, 0, 1}, &id, &error));
    EXPECT_NE(nullptr, strstr(error.text, "1024")) << error.text;
    // A detached stream's line counts until its entries are settled.
    world.defer({ids[500]});
    EXPECT_EQ(MBR_OK, mbr_context_detach_stream(world.context, ids[500], nullptr));
    EXPECT_EQ(
        MBR_OUT_OF_DESCRIPTORS, mbr_context_attach_stream(world.context, {1, 0, 1}, &id, nullptr));
    EXPECT_EQ(uint64_t{MBR_CONTEXT_STREAM_COUNT}, world.read().line_count);
    EXPECT_EQ(uint64_t{MBR_CONTEXT_STREAM_COUNT} - 1, world.read().stream_count);
    world.fake.reach_all();
    world.reap();
    EXPECT_EQ(uint64_t{MBR_CONTEXT_STREAM_COUNT} - 1, world.read().line_count);
    EXPECT_GT(world.attach(9999), ids.back());
}

TEST(ContextStream, RefusedLine_StatusComesThroughAndThePlaceIsFree)
{
    World world;
    uint64_t id = 5;
    world.fake.answer[kOpen] = MBR_UNSUPPORTED;
    EXPECT_EQ(MBR_UNSUPPORTED, mbr_context_attach_stream(world.context, {1, 0, 1}, &id, nullptr));
    EXPECT_EQ(0u, id);
    world.fake.answer[kOpen] = MBR_OK;
    world.fake.after = [](Slot, mbr_outcome *outcome) { outcome->state = MBR_STATE_UNCHANGED; };
    EXPECT_EQ(
        MBR_CONTRACT_BROKEN, mbr_context_attach_stream(world.context, {1, 0, 1}, &id, nullptr));
    world.fake.after = nullptr;
    EXPECT_EQ(1u, world.read().violation_count);
    EXPECT_EQ(0u, world.read().line_count);
    world.heap.fail_at = world.heap.calls + 1;
    world.attach(1); // the place of the refused ones needs no memory
    EXPECT_EQ(
        MBR_OUT_OF_HOST_MEMORY, mbr_context_attach_stream(world.context, {1, 0, 2}, &id, nullptr));
    world.attach(2);
    world.audit();
    // What the table kept of the broken answer is its own fault: forget it here.
    world.fake.answer[kClose] = MBR_OK;
    mbr_line_request request = sized<mbr_line_request>();
    request.line_id = 1 + MBR_CONTEXT_STREAM_COUNT;
    mbr_outcome outcome = sized<mbr_outcome>();
    EXPECT_EQ(MBR_OK, world.fake.order()->line_close(&world.fake, &request, &outcome, nullptr));
}

TEST(ContextStream, ContextEndsWhileALineOpens_TheLineIsClosedAgainOrLeftIfLost)
{
    {
        World world;
        world.fake.before = [&](Slot slot, uint64_t) {
            if (slot == kOpen) {
                EXPECT_EQ(MBR_OK, mbr_context_retire(world.context, nullptr));
            }
        };
        uint64_t id;
        EXPECT_EQ(MBR_BUSY, mbr_context_attach_stream(world.context, {1, 0, 1}, &id, nullptr));
        EXPECT_EQ(0u, id);
        EXPECT_EQ(0u, world.fake.open_lines());
        EXPECT_EQ(0u, world.read().line_count);
        world.fake.before = nullptr;
    }
    {
        World world;
        world.fake.before = [&](Slot slot, uint64_t) {
            if (slot == kOpen)
                mbr_context_lose(world.context);
        };
        uint64_t id;
        EXPECT_EQ(
            MBR_DEVICE_LOST, mbr_context_attach_stream(world.context, {1, 0, 1}, &id, nullptr));
        EXPECT_EQ(1u, world.read().line_count);
        EXPECT_EQ(0u, world.read().stream_count);
        world.fake.before = nullptr;
    }
}

TEST(ContextStream, DeviceLostByEachSlot_LosesTheContext)
{
    using Step = std::function<mbr_status(World &, uint64_t)>;
    const std::vector<std::pair<Slot, Step>> steps = {
        {kOpen,
            [](World &world, uint64_t) {
                uint64_t id;
                return mbr_context_attach_stream(world.context, {1, 0, 2}, &id, nullptr);
            }},
        {kSignal,
            [](World &world, uint64_t id) {
                return mbr_context_synchronize(world.context, id, kForever, nullptr);
            }},
        {kWait,
            [](World &world, uint64_t id) {
                return mbr_context_synchronize(world.context, id, kForever, nullptr);
            }},
        {kFill,
            [](World &world, uint64_t id) {
                return mbr_context_fill(world.context, id, 1, 1, 1, nullptr);
            }},
        {kCopy,
            [](World &world, uint64_t id) {
                return mbr_context_copy(world.context, id, 1, 2, 1, nullptr);
            }},
    };
    for (const auto &[slot, step] : steps) {
        World world;
        uint64_t id = world.attach(1);
        Entry *entry = world.defer({id});
        world.fake.answer[slot] = MBR_DEVICE_LOST;
        EXPECT_EQ(MBR_DEVICE_LOST, step(world, id)) << slot;
        EXPECT_EQ(uint32_t{MBR_CONTEXT_LOST}, world.state());
        EXPECT_EQ(0, entry->settled); // settled by a reap, not inside another call
        uint64_t calls = world.fake.calls();
        EXPECT_EQ(4096u, world.reap());
        EXPECT_EQ(1, entry->settled);
        EXPECT_EQ(MBR_SETTLED_LOST, entry->how);
        world.finish();
        EXPECT_EQ(calls, world.fake.calls());
    }
}

TEST(ContextStream, DetachWithEntriesQueued_SignalsThemFirstAndKeepsTheLine)
{
    World world;
    uint64_t one = world.attach(1), two = world.attach(2);
    world.fake.submit(1);
    Entry *entry = world.defer({one});
    Entry *both = world.defer({one, two});
    EXPECT_EQ(0u, world.fake.count(kSignal));
    EXPECT_EQ(MBR_OK, mbr_context_detach_stream(world.context, one, nullptr));
    EXPECT_EQ(1u, world.fake.signalled(1)); // the native stream may go now
    world.defer({one}, 1, MBR_UNKNOWN_OBJECT);
    EXPECT_EQ(2u, world.read().line_count);
    EXPECT_EQ(1u, world.read().stream_count);
    world.fake.reach(1, 1);
    world.reap();
    EXPECT_EQ(1, entry->settled);
    EXPECT_EQ(0, both->settled);
    EXPECT_EQ(1u, world.fake.open_lines()); // nothing refers to the first line any more
    EXPECT_EQ(1u, world.read().line_count);
    world.fake.reach_all();
    world.reap();
    EXPECT_EQ(1, both->settled);
    EXPECT_EQ(MBR_SETTLED_RELEASED, both->how);
}

TEST(ContextStream, DetachOfAnIdleStream_ClosesItsLineWithoutASignal)
{
    World world;
    uint64_t one = world.attach(1), two = world.attach(2);
    world.defer({two}); // another stream's epoch is not closed for it
    EXPECT_EQ(MBR_OK, mbr_context_detach_stream(world.context, one, nullptr));
    EXPECT_EQ(0u, world.fake.count(kSignal));
    EXPECT_EQ(1u, world.fake.open_lines());
}

TEST(ContextStream, DetachWhileCaptured_RefusedAndTheStreamStays)
{
    World world;
    uint64_t id = world.attach(1);
    Entry *entry = world.defer({id});
    world.fake.captured.insert(1);
    mbr_error error = sized<mbr_error>();
    EXPECT_EQ(MBR_BUSY, mbr_context_detach_stream(world.context, id, &error));
    EXPECT_NE(nullptr, strstr(error.text, "stays attached")) << error.text;
    EXPECT_TRUE(mbr_context_knows_stream(world.context, id));
    world.audit();
    world.fake.captured.clear();
    EXPECT_EQ(MBR_OK, mbr_context_detach_stream(world.context, id, nullptr));
    world.fake.reach_all();
    world.reap();
    EXPECT_EQ(1, entry->settled);
}

TEST(ContextStream, DeviceLostInDetach_DetachesAndEntriesAreLost)
{
    World world;
    uint64_t id = world.attach(1);
    Entry *entry = world.defer({id});
    world.fake.answer[kSignal] = MBR_DEVICE_LOST;
    EXPECT_EQ(MBR_OK, mbr_context_detach_stream(world.context, id, nullptr));
    EXPECT_EQ(uint32_t{MBR_CONTEXT_LOST}, world.state());
    EXPECT_EQ(4096u, world.reap());
    EXPECT_EQ(MBR_SETTLED_LOST, entry->how);
}

TEST(ContextStream, DetachAfterALoss_WorksAndCallsNoSlot)
{
    World world;
    uint64_t busy = world.attach(1), idle = world.attach(2);
    Entry *entry = world.defer({busy});
    world.fake.answer[kSignal] = world.fake.answer[kClose] = MBR_DEVICE_LOST;
    mbr_context_lose(world.context);
    EXPECT_EQ(MBR_SETTLED_LOST, entry->how);
    uint64_t calls = world.fake.calls();
    for (uint64_t id : {busy, idle}) {
        EXPECT_EQ(MBR_OK, mbr_context_detach_stream(world.context, id, nullptr));
        EXPECT_FALSE(mbr_context_knows_stream(world.context, id));
        EXPECT_EQ(MBR_UNKNOWN_OBJECT, mbr_context_detach_stream(world.context, id, nullptr));
    }
    EXPECT_EQ(0u, world.read().stream_count);
    EXPECT_EQ(2u, world.read().line_count) << "left open";
    EXPECT_EQ(calls, world.fake.calls());
    EXPECT_FALSE(mbr_context_has_ended(world.context));
    mbr_context_confirm_end(world.context);
    EXPECT_TRUE(mbr_context_has_ended(world.context));
}

TEST(ContextStream, LineCloseRefused_LeftOpenAndCounted)
{
    World world;
    uint64_t id = world.attach(1);
    world.fake.answer[kClose] = MBR_INTERNAL;
    EXPECT_EQ(MBR_OK, mbr_context_detach_stream(world.context, id, nullptr));
    EXPECT_EQ(1u, world.read().line_count);
    EXPECT_EQ(0u, world.read().stream_count);
    world.fake.answer[kClose] = MBR_OK;
    uint64_t next = world.attach(2); // the place is free for another line id
    EXPECT_NE(id, next);
    mbr_line_request request = sized<mbr_line_request>(); // the leak, for the fake's own sake
    request.line_id = id;
    mbr_outcome outcome = sized<mbr_outcome>();
    EXPECT_EQ(MBR_OK, world.fake.order()->line_close(&world.fake, &request, &outcome, nullptr));
}

TEST(ContextStream, DeviceLostByLineClose_LosesTheContext)
{
    World world;
    uint64_t one = world.attach(1);
    world.attach(2);
    world.fake.answer[kClose] = MBR_DEVICE_LOST;
    EXPECT_EQ(MBR_OK, mbr_context_detach_stream(world.context, one, nullptr));
    EXPECT_EQ(uint32_t{MBR_CONTEXT_LOST}, world.state());
    world.fake.answer[kClose] = MBR_OK;
    world.finish();
    EXPECT_EQ(1u, world.fake.count(kClose));
}

// ---- transfers ----

TEST(ContextTransfer, FillAndCopy_ReachTheTableAsAsked)
{
    World world;
    uint64_t id = world.attach(77);
    EXPECT_EQ(MBR_OK, mbr_context_fill(world.context, id, 0x1000, 0xfe, 64, nullptr));
    EXPECT_EQ(77u, world.fake.last_fill.stream.value);
    EXPECT_EQ(0x1000u, world.fake.last_fill.address);
    EXPECT_EQ(0xfeu, world.fake.last_fill.pattern);
    EXPECT_EQ(64u, world.fake.last_fill.bytes);
    EXPECT_EQ(MBR_OK, mbr_context_copy(world.context, id, 0x2000, 0x3000, 32, nullptr));
    EXPECT_EQ(77u, world.fake.last_copy.stream.value);
    EXPECT_EQ(0x2000u, world.fake.last_copy.to_address);
    EXPECT_EQ(0x3000u, world.fake.last_copy.from_address);
    EXPECT_EQ(32u, world.fake.last_copy.bytes);
    world.fake.answer[kFill] = MBR_INVALID_ARGUMENT;
    EXPECT_EQ(MBR_INVALID_ARGUMENT, mbr_context_fill(world.context, id, 1, 1, 0, nullptr));
    EXPECT_EQ(uint32_t{MBR_CONTEXT_ACTIVE}, world.state());
    EXPECT_EQ(MBR_OK, mbr_context_retire(world.context, nullptr));
}

TEST(ContextTransfer, WithoutATable_Unsupported)
{
    World world({.transfer = false});
    uint64_t id = world.attach(1);
    EXPECT_EQ(MBR_UNSUPPORTED, mbr_context_fill(world.context, id, 1, 1, 1, nullptr));
    EXPECT_EQ(MBR_UNSUPPORTED, mbr_context_copy(world.context, id, 1, 2, 1, nullptr));
    EXPECT_EQ(0u, world.fake.count(kFill) + world.fake.count(kCopy));
}

TEST(ContextTransfer, OkWithoutDone_IsABrokenContract)
{
    World world;
    uint64_t id = world.attach(1);
    world.fake.after = [](Slot, mbr_outcome *outcome) { outcome->state = MBR_STATE_UNCHANGED; };
    EXPECT_EQ(MBR_CONTRACT_BROKEN, mbr_context_fill(world.context, id, 1, 1, 1, nullptr));
    EXPECT_EQ(MBR_CONTRACT_BROKEN, mbr_context_copy(world.context, id, 1, 2, 1, nullptr));
    EXPECT_EQ(2u, world.read().violation_count);
    world.fake.after = nullptr;
}

// ---- synchronize ----

TEST(ContextSynchronize, AlwaysItsOwnSignalAndItsOwnWait)
{
    World world;
    uint64_t id = world.attach(1);
    world.fake.reach_at_once = true;
    for (uint64_t round = 1; round <= 3; round++) {
        EXPECT_EQ(MBR_OK, mbr_context_synchronize(world.context, id, kForever, nullptr));
        EXPECT_EQ(round, world.fake.count(kSignal));
        EXPECT_EQ(round, world.fake.count(kWait));
    }
    EXPECT_EQ(0u, world.read().signal_count); // the figure counts epochs only
}

TEST(ContextSynchronize, TimesOutWithItsDeadlineAndLaterWorks)
{
    World world;
    uint64_t id = world.attach(1);
    EXPECT_EQ(MBR_TIMED_OUT, mbr_context_synchronize(world.context, id, 5000, nullptr));
    EXPECT_EQ(5000u, world.clock.now);
    world.fake.finish_in_wait = true;
    EXPECT_EQ(MBR_OK, mbr_context_synchronize(world.context, id, 6000, nullptr));
}

TEST(ContextSynchronize, CapturedStream_Busy)
{
    World world;
    uint64_t id = world.attach(1);
    world.fake.captured.insert(1);
    EXPECT_EQ(MBR_BUSY, mbr_context_synchronize(world.context, id, kForever, nullptr));
    EXPECT_EQ(0u, world.fake.count(kWait));
}

TEST(ContextSynchronize, ItsWait_CoversWhatWasSignalledBefore)
{
    World world;
    uint64_t id = world.attach(1);
    Entry *entry = world.defer({id});
    world.reap();
    EXPECT_EQ(0, entry->settled);
    world.fake.finish_in_wait = true;
    EXPECT_EQ(MBR_OK, mbr_context_synchronize(world.context, id, kForever, nullptr));
    EXPECT_EQ(0, entry->settled); // settles nothing itself
    uint64_t asked = world.fake.count(kReached);
    EXPECT_EQ(4096u, world.reap());
    EXPECT_EQ(1, entry->settled);
    EXPECT_EQ(asked, world.fake.count(kReached)); // nothing was left to ask
}

TEST(ContextSynchronize, ValueThatDoesNotRise_IsABrokenContract)
{
    World world;
    uint64_t id = world.attach(1);
    world.fake.finish_in_wait = true;
    EXPECT_EQ(MBR_OK, mbr_context_synchronize(world.context, id, kForever, nullptr));
    for (uint64_t bad : {0, 1}) {
        world.fake.after = [bad](Slot slot, mbr_outcome *outcome) {
            if (slot == kSignal)
                outcome->value = bad;
        };
        EXPECT_EQ(
            MBR_CONTRACT_BROKEN, mbr_context_synchronize(world.context, id, kForever, nullptr));
    }
    world.fake.after = nullptr;
    EXPECT_EQ(2u, world.read().violation_count);
    EXPECT_EQ(1u, world.fake.count(kWait));
}

TEST(ContextSynchronize, WaitThatGivesUpEarly_IsABrokenContract)
{
    World world;
    uint64_t id = world.attach(1);
    world.fake.answer[kWait] = MBR_TIMED_OUT; // at once, whatever the deadline
    EXPECT_EQ(MBR_CONTRACT_BROKEN, mbr_context_synchronize(world.context, id, 1000000, nullptr));
    EXPECT_EQ(1u, world.read().violation_count);
}

TEST(ContextSynchronize, DetachedMeanwhile_TheLineIsClosedWhenItReturns)
{
    World world;
    uint64_t id = world.attach(1);
    world.fake.finish_in_wait = true;
    world.fake.before = [&](Slot slot, uint64_t) {
        if (slot != kWait)
            return;
        EXPECT_EQ(MBR_OK, mbr_context_detach_stream(world.context, id, nullptr));
        EXPECT_EQ(1u, world.fake.open_lines());
    };
    EXPECT_EQ(MBR_OK, mbr_context_synchronize(world.context, id, kForever, nullptr));
    world.fake.before = nullptr;
    EXPECT_EQ(0u, world.fake.open_lines());
}

TEST(ContextSynchronize, LostMeanwhile_SaysSoAndMakesNoFurtherCall)
{
    for (Slot slot : {kSignal, kWait}) {
        World world;
        uint64_t id = world.attach(1);
        world.fake.finish_in_wait = true;
        world.fake.before = [&](Slot now, uint64_t) {
            if (now == slot)
                mbr_context_lose(world.context);
        };
        EXPECT_EQ(MBR_DEVICE_LOST, mbr_context_synchronize(world.context, id, kForever, nullptr));
        world.fake.before = nullptr;
        EXPECT_EQ(slot == kWait ? 1u : 0u, world.fake.count(kWait));
    }
}

TEST(ContextSynchronize, TerminatedMeanwhile_StillReturnsWhatTheWaitSaid)
{
    World world;
    uint64_t id = world.attach(1);
    world.fake.finish_in_wait = true;
    world.fake.before = [&](Slot slot, uint64_t) {
        if (slot == kSignal) {
            EXPECT_EQ(MBR_OK, mbr_context_retire(world.context, nullptr));
        }
    };
    EXPECT_EQ(MBR_OK, mbr_context_synchronize(world.context, id, kForever, nullptr));
    EXPECT_EQ(uint32_t{MBR_CONTEXT_TERMINATED}, world.state());
    world.fake.before = nullptr;
}

TEST(ContextSynchronize, SecondThreadWhileOneSignals_WaitsForItsTurnOrTimesOut)
{
    World world;
    uint64_t id = world.attach(1);
    world.fake.finish_in_wait = true;
    Gate gate;
    std::atomic<bool> first{true};
    world.fake.before = [&](Slot slot, uint64_t) {
        if (slot == kSignal && first.exchange(false))
            gate.wait();
    };
    std::thread other(
        [&] { EXPECT_EQ(MBR_OK, mbr_context_synchronize(world.context, id, kForever, nullptr)); });
    gate.await_arrival();
    EXPECT_EQ(MBR_TIMED_OUT, mbr_context_synchronize(world.context, id, 1000, nullptr));
    std::thread third(
        [&] { EXPECT_EQ(MBR_OK, mbr_context_synchronize(world.context, id, kForever, nullptr)); });
    gate.open();
    other.join();
    third.join();
    EXPECT_EQ(2u, world.fake.count(kSignal));
    world.fake.before = nullptr;
}

} // namespace
