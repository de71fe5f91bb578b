// What a graph owns and until when: releases that wait for its retirement and for its launches.
#include "tests/unit/ep/capture_world.h"

using namespace ep_test;

namespace
{

TEST(Graph, MadeInACapture_BelongsToTheCaptureOfItsStreamOrToAllThatAreOpen)
{
    CaptureWorld world;
    uint64_t one = world.attach(1), two = world.attach(2), three = world.attach(3);
    EXPECT_EQ(0u, mbr_context_graphs_now(world.context, one).first);
    Graph first, second;
    ASSERT_EQ(MBR_OK, world.begin(one, &first));
    ASSERT_EQ(MBR_OK, world.begin(two, &second));
    mbr_graphs of_two = mbr_context_graphs_now(world.context, two);
    EXPECT_EQ(second.serial, of_two.first);
    EXPECT_EQ(second.serial, of_two.last);
    for (uint64_t other : {three, UINT64_C(0)}) {
        mbr_graphs all = mbr_context_graphs_now(world.context, other);
        EXPECT_EQ(first.serial, all.first);
        EXPECT_EQ(second.serial, all.last);
    }
    ASSERT_EQ(MBR_OK, world.end_capture(one));
    EXPECT_EQ(second.serial, mbr_context_graphs_now(world.context, one).first);
    ASSERT_EQ(MBR_OK, world.end_capture(two));
    EXPECT_EQ(0u, mbr_context_graphs_now(world.context, two).first);
    EXPECT_TRUE(mbr_context_owns(world.context, of_two));
    EXPECT_EQ(MBR_OK, world.retire(&second, {}));
    EXPECT_TRUE(mbr_context_owns(world.context, of_two)); // until its launches are known to be done
    world.reap();
    EXPECT_FALSE(mbr_context_owns(world.context, of_two));
    EXPECT_EQ(MBR_OK, world.retire(&first, {}));
}

TEST(Graph, FreedWhatItOwns_WaitsForItsRetirementAndForItsLaunches)
{
    CaptureWorld world;
    uint64_t id = world.attach(1), launches = world.attach(2);
    Graph graph;
    world.capture(id, &graph);
    mbr_graphs owned = {graph.serial, graph.serial};
    Entry *early = world.defer_owned({id}, owned, 1000);
    Entry *at_once = world.defer_owned({}, owned, 200);
    Entry *other = world.defer({id});
    world.reap_all();
    EXPECT_EQ(1, other->settled);
    EXPECT_EQ(0, early->settled + at_once->settled);
    EXPECT_EQ(2u, world.read().held_count);
    EXPECT_EQ(1200u, world.read().held_bytes);
    EXPECT_EQ(2u, world.read().queued_count);
    uint64_t count, bytes;
    mbr_context_read_graph(world.context, &graph, &count, &bytes);
    EXPECT_EQ(2u, count);
    EXPECT_EQ(1200u, bytes);
    world.audit();
    EXPECT_EQ(MBR_OK, mbr_context_drain(world.context, kForever, nullptr)); // not what the client
                                                                            // itself holds back
    world.fake.submit(2);
    uint64_t launched = world.fake.submitted(2);
    for (Entry *entry : {early, at_once})
        entry->needs.push_back({2, launched});
    ASSERT_EQ(MBR_OK, world.retire(&graph, {launches}));
    EXPECT_EQ(MBR_BUSY, world.retire(&graph, {launches}));
    Entry *late = world.defer_owned({}, owned); // freed after the retirement, before its end
    late->needs.push_back({2, launched});
    world.reap();
    world.reap();
    EXPECT_EQ(0, early->settled + at_once->settled + late->settled + graph.gone_count);
    world.reap_all();
    EXPECT_EQ(1, graph.gone_count);
    EXPECT_EQ(3, early->settled + at_once->settled + late->settled);
    EXPECT_EQ(0u, world.read().held_count);
    Entry *after = world.defer_owned({}, owned);
    world.reap();
    EXPECT_EQ(1, after->settled); // an ordinary release again
}

TEST(Graph, MemoryOfTwo_IsHeldUntilBothAreRetired)
{
    CaptureWorld world;
    uint64_t one = world.attach(1), two = world.attach(2);
    Graph first, second;
    ASSERT_EQ(MBR_OK, world.begin(one, &first));
    ASSERT_EQ(MBR_OK, world.begin(two, &second));
    mbr_graphs both = mbr_context_graphs_now(world.context, 0);
    ASSERT_EQ(MBR_OK, world.end_capture(one));
    ASSERT_EQ(MBR_OK, world.end_capture(two));
    Entry *entry = world.defer_owned({}, both);
    world.reap_all();
    ASSERT_EQ(MBR_OK, world.retire(&first, {}));
    world.reap_all();
    EXPECT_EQ(1, first.gone_count);
    EXPECT_EQ(0, entry->settled);
    EXPECT_EQ(1u, world.read().held_count);
    ASSERT_EQ(MBR_OK, world.retire(&second, {}));
    world.reap_all();
    EXPECT_EQ(1, entry->settled);
}

TEST(Graph, EndedWithItsMemoryFreedInTheCapture_StillHoldsIt)
{
    CaptureWorld world;
    uint64_t id = world.attach(1);
    Graph graph;
    ASSERT_EQ(MBR_OK, world.begin(id, &graph));
    Entry *entry = world.defer_owned({}, mbr_context_graphs_now(world.context, id));
    EXPECT_EQ(1u, world.read().held_count);
    ASSERT_EQ(MBR_OK, world.end_capture(id));
    world.reap_all();
    EXPECT_EQ(0, entry->settled);
    ASSERT_EQ(MBR_OK, world.retire(&graph, {}));
    world.reap_all();
    EXPECT_EQ(1, entry->settled);
}

TEST(Graph, RetirementThatTheQueueRefuses_LeavesItAsItWas)
{
    CaptureWorld world({.queue_entries = 1});
    uint64_t id = world.attach(1);
    Graph graph;
    world.capture(id, &graph);
    Entry *entry = world.defer_owned({}, {graph.serial, graph.serial});
    EXPECT_EQ(MBR_UNKNOWN_OBJECT, world.retire(&graph, {id + 1}));
    EXPECT_EQ(MBR_QUEUE_FULL, world.retire(&graph, {}));
    EXPECT_EQ(1u, world.read().graph_count);
    EXPECT_EQ(0, entry->settled);
    mbr_context_lose(world.context); // the one way out of a queue of one
    EXPECT_EQ(MBR_SETTLED_LOST, entry->how);
    EXPECT_EQ(MBR_OK, world.retire(&graph, {}));
    EXPECT_EQ(1, graph.gone_count);
}

TEST(Graph, NotRetired_PinsTheContext)
{
    CaptureWorld world;
    uint64_t id = world.attach(1);
    Graph graph;
    ASSERT_EQ(MBR_OK, world.begin(id, &graph));
    EXPECT_EQ(MBR_IN_USE, mbr_context_destroy(world.context, nullptr));
    ASSERT_EQ(MBR_OK, world.end_capture(id));
    ASSERT_EQ(MBR_OK, mbr_context_retire(world.context, nullptr));
    EXPECT_EQ(uint32_t{MBR_CONTEXT_RETIRING}, world.state());
    EXPECT_EQ(MBR_IN_USE, mbr_context_destroy(world.context, nullptr));
    ASSERT_EQ(MBR_OK, world.retire(&graph, {}));
    world.reap();
    EXPECT_EQ(uint32_t{MBR_CONTEXT_TERMINATED}, world.state());
}

} // namespace
