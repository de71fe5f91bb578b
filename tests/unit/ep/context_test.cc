// A context's life: every edge of its states, its pins, what it takes in each state, its end.
#include "tests/unit/ep/world.h"

#include <fstream>

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

// The rows `| state | successors … |` of the document under the header `| machine | goes to`.
std::set<std::pair<std::string, std::string>> edges_in_document(
    const std::string &machine, const std::vector<std::string> &states)
{
    std::ifstream document("docs/ordering.md");
    EXPECT_TRUE(document.is_open());
    std::set<std::pair<std::string, std::string>> edges;
    std::string line;
    bool inside = false;
    while (std::getline(document, line)) {
        if (line.rfind("| " + machine + " | goes to", 0) == 0)
            inside = true;
        else if (line.empty())
            inside = false;
        for (const std::string &from : states) {
            std::string start = "| " + from + " | ";
            if (!inside || line.rfind(start, 0) != 0)
                continue;
            std::string successors =
                line.substr(start.size(), line.find(" |", start.size()) - start.size());
            for (const std::string &to : states)
                if (successors.find(to) != std::string::npos)
                    edges.insert({from, to});
        }
    }
    return edges;
}

TEST(Context, StateTablesInTheDocument_AreThoseOfTheCode)
{
    struct {
        const char *machine;
        const char *(*name)(uint32_t);
        bool (*may_move)(uint32_t, uint32_t);
    } const machines[] = {
        {"context", mbr_context_state_name, mbr_context_may_move},
        {"line", mbr_line_state_name, mbr_line_may_move},
        {"graph", mbr_graph_state_name, mbr_graph_may_move},
    };
    for (const auto &machine : machines) {
        std::vector<std::string> states;
        for (uint32_t state = 0; machine.name(state) != nullptr; state++)
            states.push_back(machine.name(state));
        std::set<std::pair<std::string, std::string>> edges;
        for (uint32_t from = 0; from < states.size(); from++)
            for (uint32_t to = 0; to < states.size(); to++)
                if (machine.may_move(from, to))
                    edges.insert({states[from], states[to]});
        EXPECT_FALSE(edges.empty());
        EXPECT_EQ(edges, edges_in_document(machine.machine, states)) << machine.machine;
    }
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

} // namespace
