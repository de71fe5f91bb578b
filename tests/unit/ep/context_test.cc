// A context's life: every edge of its states, its pins, streams and lines, its transfers, its end.
#include "tests/unit/ep/world.h"

#include <thread>

using namespace ep_test;

namespace
{

TEST(Context, StateTable_HasExactlyTheseEdges)
{
    const std::set<std::pair<uint32_t, uint32_t>> edges = {
        {MBR_CONTEXT_ACTIVE, MBR_CONTEXT_RETIRING},
        {MBR_CONTEXT_ACTIVE, MBR_CONTEXT_LOST},
        {MBR_CONTEXT_RETIRING, MBR_CONTEXT_TERMINATED},
        {MBR_CONTEXT_RETIRING, MBR_CONTEXT_LOST},
    };
    for (uint32_t from = 0; from < 5; from++)
        for (uint32_t to = 0; to < 5; to++)
            EXPECT_EQ(edges.count({from, to}) == 1, mbr_context_may_move(from, to));
}

TEST(Context, LineTable_HasExactlyTheseEdges)
{
    const std::set<std::pair<std::string, std::string>> edges = {
        {"free", "opening"},
        {"opening", "attached"},
        {"opening", "detached"},
        {"opening", "closing"},
        {"opening", "free"},
        {"attached", "detached"},
        {"detached", "closing"},
        {"closing", "free"},
    };
    size_t found = 0;
    for (uint32_t from = 0; mbr_line_state_name(from) != nullptr; from++)
        for (uint32_t to = 0; mbr_line_state_name(to) != nullptr; to++) {
            bool allowed = mbr_line_may_move(from, to);
            found += allowed;
            EXPECT_EQ(
                edges.count({mbr_line_state_name(from), mbr_line_state_name(to)}) == 1, allowed);
        }
    EXPECT_EQ(edges.size(), found);
}

TEST(Context, BadTables_RefusedWithNothingMade)
{
    FakeOrder fake;
    Heap heap;
    mbr_context *context = reinterpret_cast<mbr_context *>(1);
    mbr_context_options options = {};
    options.heap = heap.seam();
    auto refused = [&](const mbr_order_vtable *order, const mbr_transfer_vtable *transfer,
                       uint32_t argument) {
        options.order = order;
        options.transfer = transfer;
        mbr_error error = sized<mbr_error>();
        EXPECT_EQ(MBR_INVALID_ARGUMENT, mbr_context_create(&options, &context, &error));
        EXPECT_EQ(argument, error.argument_index) << error.text;
        EXPECT_EQ(nullptr, context);
        EXPECT_EQ(0u, heap.calls);
    };
    refused(nullptr, nullptr, 2);
    mbr_order_vtable order = *fake.order();
    order.struct_size--;
    refused(&order, nullptr, 2);
    order = *fake.order();
    order.kind = MBR_KIND_TRANSFER;
    refused(&order, nullptr, 2);
    // Each slot in turn.
    for (size_t offset = offsetof(mbr_order_vtable, line_open); offset < sizeof order;
         offset += sizeof(void *)) {
        order = *fake.order();
        memset(reinterpret_cast<char *>(&order) + offset, 0, sizeof(void *));
        refused(&order, nullptr, 2);
    }
    mbr_transfer_vtable transfer = *fake.transfer();
    transfer.struct_size--;
    refused(fake.order(), &transfer, 3);
    transfer = *fake.transfer();
    transfer.kind = MBR_KIND_ORDER;
    refused(fake.order(), &transfer, 3);
    for (size_t offset = offsetof(mbr_transfer_vtable, stream_create); offset < sizeof transfer;
         offset += sizeof(void *)) {
        transfer = *fake.transfer();
        memset(reinterpret_cast<char *>(&transfer) + offset, 0, sizeof(void *));
        refused(fake.order(), &transfer, 3);
    }
}

TEST(Context, TablesAndName_AreCopied)
{
    FakeOrder fake;
    mbr_context_options options = {};
    mbr_order_vtable order = *fake.order();
    std::string name(100, 'n');
    options.name = name.c_str();
    options.order = &order;
    options.instance = &fake;
    mbr_context *context = nullptr;
    ASSERT_EQ(MBR_OK, mbr_context_create(&options, &context, nullptr));
    memset(&order, 0, sizeof order);
    name.assign(100, 'x');
    uint64_t id = 0;
    EXPECT_EQ(MBR_OK, mbr_context_attach_stream(context, {1, 0, 5}, &id, nullptr));
    mbr_error error = sized<mbr_error>();
    EXPECT_EQ(MBR_UNSUPPORTED, mbr_context_fill(context, id, 1, 1, 1, &error));
    EXPECT_NE(nullptr, strstr(error.text, std::string(47, 'n').c_str())) << error.text;
    EXPECT_EQ(MBR_OK, mbr_context_destroy(context, nullptr));
    EXPECT_EQ(0u, fake.open_lines());
}

TEST(Context, EachAllocationAndThreadStartRefused_TypedWithNothingLeft)
{
    FakeOrder fake;
    Heap heap;
    Threads threads;
    mbr_context *context = reinterpret_cast<mbr_context *>(1);
    mbr_context_options options = {};
    options.order = fake.order();
    options.heap = heap.seam();
    options.threads = threads.seam();
    options.reaper = true;
    mbr_error error = sized<mbr_error>();
    heap.fail_at = 1;
    EXPECT_EQ(MBR_OUT_OF_HOST_MEMORY, mbr_context_create(&options, &context, &error));
    EXPECT_EQ(nullptr, context);
    EXPECT_EQ(0, heap.live);
    threads.fail_at = 1;
    EXPECT_EQ(MBR_SYSTEM, mbr_context_create(&options, &context, &error));
    EXPECT_EQ(EAGAIN, error.native_code);
    EXPECT_EQ(nullptr, context);
    EXPECT_EQ(0, heap.live);
    ASSERT_EQ(MBR_OK, mbr_context_create(&options, &context, &error));
    EXPECT_EQ(MBR_OK, mbr_context_destroy(context, &error));
    EXPECT_EQ(0, heap.live);
}

// ---- pins and states ----

TEST(Context, Pins_CountedAndTakenWhileActiveOnly)
{
    World world;
    EXPECT_EQ(uint32_t{MBR_CONTEXT_ACTIVE}, world.state());
    EXPECT_EQ(MBR_OK, mbr_context_pin(world.context, nullptr));
    EXPECT_EQ(MBR_OK, mbr_context_pin(world.context, nullptr));
    EXPECT_EQ(2u, world.read().pin_count);
    EXPECT_EQ(MBR_OK, mbr_context_retire(world.context, nullptr));
    EXPECT_EQ(MBR_OK, mbr_context_retire(world.context, nullptr));
    EXPECT_EQ(uint32_t{MBR_CONTEXT_RETIRING}, world.state());
    mbr_error error = sized<mbr_error>();
    EXPECT_EQ(MBR_BUSY, mbr_context_pin(world.context, &error));
    EXPECT_NE(nullptr, strstr(error.text, "retiring")) << error.text;
    mbr_context_unpin(world.context);
    EXPECT_EQ(uint32_t{MBR_CONTEXT_RETIRING}, world.state());
    mbr_context_unpin(world.context);
    EXPECT_EQ(uint32_t{MBR_CONTEXT_TERMINATED}, world.state());
    EXPECT_EQ(MBR_OK, mbr_context_retire(world.context, nullptr));
    EXPECT_EQ(MBR_BUSY, mbr_context_pin(world.context, nullptr));
    mbr_context_lose(world.context); // terminated is final
    EXPECT_EQ(uint32_t{MBR_CONTEXT_TERMINATED}, world.state());
    EXPECT_EQ(0u, world.read().pin_count);
}

TEST(Context, PinGivenBackWhileActive_StaysActive)
{
    World world;
    EXPECT_EQ(MBR_OK, mbr_context_pin(world.context, nullptr));
    mbr_context_unpin(world.context);
    EXPECT_EQ(uint32_t{MBR_CONTEXT_ACTIVE}, world.state());
    EXPECT_EQ(MBR_OK, mbr_context_retire(world.context, nullptr)); // nothing left: at once
    EXPECT_EQ(uint32_t{MBR_CONTEXT_TERMINATED}, world.state());
}

TEST(Context, QueuedRelease_HoldsTerminationBack)
{
    World world;
    uint64_t id = world.attach(1);
    Entry *entry = world.defer({id});
    EXPECT_EQ(MBR_OK, mbr_context_retire(world.context, nullptr));
    EXPECT_EQ(uint32_t{MBR_CONTEXT_RETIRING}, world.state());
    Entry *later = world.defer({id}); // releases go on
    uint64_t other;
    EXPECT_EQ(MBR_BUSY, mbr_context_attach_stream(world.context, {1, 0, 2}, &other, nullptr));
    EXPECT_EQ(0u, other);
    world.reap();
    EXPECT_EQ(uint32_t{MBR_CONTEXT_RETIRING}, world.state());
    world.fake.reach_all();
    EXPECT_EQ(8192u, world.reap());
    EXPECT_EQ(1, entry->settled);
    EXPECT_EQ(1, later->settled);
    EXPECT_EQ(uint32_t{MBR_CONTEXT_TERMINATED}, world.state());
    world.defer({id}, 1, MBR_BUSY);
    EXPECT_EQ(MBR_BUSY, mbr_context_attach_stream(world.context, {1, 0, 2}, &other, nullptr));
    EXPECT_EQ(MBR_BUSY, mbr_context_synchronize(world.context, id, kForever, nullptr));
    EXPECT_EQ(MBR_BUSY, mbr_context_fill(world.context, id, 1, 1, 1, nullptr));
    EXPECT_EQ(MBR_OK, mbr_context_detach_stream(world.context, id, nullptr));
}

TEST(Context, LostWhileActiveOrRetiring_FinalAndNoCallIsMade)
{
    for (bool retiring : {false, true}) {
        World world;
        uint64_t id = world.attach(1);
        EXPECT_EQ(MBR_OK, mbr_context_pin(world.context, nullptr));
        if (retiring) {
            EXPECT_EQ(MBR_OK, mbr_context_retire(world.context, nullptr));
        }
        Entry *entry = world.defer({id});
        mbr_context_lose(world.context);
        EXPECT_EQ(1, entry->settled);
        EXPECT_EQ(MBR_SETTLED_LOST, entry->how);
        uint64_t calls = world.fake.calls();
        EXPECT_EQ(uint32_t{MBR_CONTEXT_LOST}, world.state());
        EXPECT_EQ(MBR_DEVICE_LOST, mbr_context_retire(world.context, nullptr));
        EXPECT_EQ(MBR_BUSY, mbr_context_pin(world.context, nullptr));
        world.defer({id}, 1, MBR_DEVICE_LOST);
        uint64_t other;
        EXPECT_EQ(
            MBR_DEVICE_LOST, mbr_context_attach_stream(world.context, {1, 0, 2}, &other, nullptr));
        EXPECT_EQ(MBR_DEVICE_LOST, mbr_context_synchronize(world.context, id, kForever, nullptr));
        EXPECT_EQ(MBR_DEVICE_LOST, mbr_context_fill(world.context, id, 1, 1, 1, nullptr));
        EXPECT_EQ(MBR_DEVICE_LOST, mbr_context_copy(world.context, id, 1, 2, 1, nullptr));
        EXPECT_EQ(0u, world.reap());
        EXPECT_EQ(MBR_OK, mbr_context_drain(world.context, 0, nullptr));
        EXPECT_EQ(MBR_OK, mbr_context_detach_stream(world.context, id, nullptr));
        mbr_context_lose(world.context);
        EXPECT_EQ(MBR_IN_USE, mbr_context_destroy(world.context, nullptr));
        mbr_context_unpin(world.context);
        EXPECT_EQ(uint32_t{MBR_CONTEXT_LOST}, world.state());
        mbr_ep_figures figures = world.read();
        EXPECT_EQ(1u, figures.lost_count);
        EXPECT_EQ(0u, figures.released_count);
        EXPECT_EQ(1u, figures.line_count); // left open: counted
        world.finish();
        EXPECT_EQ(calls, world.fake.calls());
        EXPECT_EQ(1u, world.fake.open_lines());
    }
}

TEST(Context, DestroyWithPinsOrEntries_InUseWithCountsAndGoesOn)
{
    World world;
    uint64_t id = world.attach(1);
    EXPECT_EQ(MBR_OK, mbr_context_pin(world.context, nullptr));
    world.defer({id});
    world.defer({id});
    mbr_error error = sized<mbr_error>();
    EXPECT_EQ(MBR_IN_USE, mbr_context_destroy(world.context, &error));
    EXPECT_STREQ("EP fake has 1 pins and 2 queued releases; release and drain first", error.text);
    mbr_context_unpin(world.context);
    EXPECT_EQ(MBR_IN_USE, mbr_context_destroy(world.context, &error));
    EXPECT_TRUE(mbr_context_knows_stream(world.context, id));
}

TEST(Context, DestroyWithStreamsAttached_ClosesTheirLines)
{
    World world;
    for (uint64_t native = 1; native <= 5; native++)
        world.attach(native);
    EXPECT_EQ(5u, world.fake.open_lines());
    world.finish();
    EXPECT_EQ(0u, world.fake.open_lines());
    EXPECT_EQ(5u, world.fake.count(kClose));
}

TEST(Context, FiguresOfAnOlderReader_NothingIsWrittenPastItsSize)
{
    World world;
    mbr_ep_figures figures;
    memset(&figures, 0xee, sizeof figures);
    figures.struct_size = offsetof(mbr_ep_figures, wake_count);
    mbr_context_read(world.context, &figures);
    EXPECT_EQ(offsetof(mbr_ep_figures, wake_count), figures.struct_size);
    EXPECT_EQ(0u, figures.signal_count);
    EXPECT_EQ(UINT64_C(0xeeeeeeeeeeeeeeee), figures.wake_count);
}

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
