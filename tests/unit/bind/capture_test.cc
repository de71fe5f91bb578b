// Graph captures, graphs, pins and views at the client interface, over the real host plugin.
#include "tests/unit/bind/host_world.h"

#include <atomic>
#include <set>
#include <thread>

namespace membrane
{
namespace
{

class CaptureWorld : public HostWorld
{
  public:
    explicit CaptureWorld(uint64_t limit = 512 * kMiB) : HostWorld(limit) {}

    mbr_status begin(mbr_stream_handle captured)
    {
        return mbr_ep_capture_begin(manager, captured, kNever, &error);
    }
    mbr_graph_handle end_capture(mbr_stream_handle captured)
    {
        mbr_graph_handle graph = {0};
        EXPECT_EQ(MBR_OK, mbr_ep_capture_end(manager, captured, &graph, &error)) << error.text;
        EXPECT_NE(0u, graph.value);
        return graph;
    }
    mbr_status retire(mbr_graph_handle graph, std::vector<mbr_stream_handle> streams = {})
    {
        return mbr_ep_graph_retire(
            manager, graph, streams.data(), static_cast<uint32_t>(streams.size()), &error);
    }
    mbr_graph_figures read(mbr_graph_handle graph)
    {
        auto figures = sized<mbr_graph_figures>();
        EXPECT_EQ(MBR_OK, mbr_ep_graph_read(manager, graph, &figures, &error)) << error.text;
        return figures;
    }
    mbr_ep_figures read(mbr_ep_handle of)
    {
        auto figures = sized<mbr_ep_figures>();
        EXPECT_EQ(MBR_OK, mbr_ep_read(manager, of, &figures, &error)) << error.text;
        return figures;
    }
    mbr_status trim() { return mbr_manager_trim(manager, mechanism, 0, nullptr, &error); }
    bool said(const char *words) const { return std::strstr(error.text, words) != nullptr; }
};

// A further EP with one stream. A device's always names its mechanism.
class OtherEp
{
  public:
    OtherEp(HostWorld *world, bool names_mechanism) : world_(world), native_(world->make_stream())
    {
        mbr_ep_request request = world->ep_request("other");
        if (names_mechanism)
            request.mechanism = world->mechanism;
        EXPECT_EQ(MBR_OK, mbr_ep_create(world->manager, &request, &ep, nullptr));
        EXPECT_EQ(
            MBR_OK, mbr_ep_attach_stream(world->manager, ep, native_, &stream, &world->error));
    }
    ~OtherEp()
    {
        if (stream.value != 0) {
            EXPECT_EQ(MBR_OK, detach());
        }
        if (ep.value != 0) {
            EXPECT_EQ(MBR_OK, destroy()) << world_->error.text;
        }
        world_->end_stream(native_);
    }
    mbr_status detach()
    {
        mbr_status status = mbr_ep_detach_stream(world_->manager, stream, &world_->error);
        if (status == MBR_OK)
            stream.value = 0;
        return status;
    }
    mbr_status destroy()
    {
        mbr_status status = mbr_ep_destroy(world_->manager, ep, kNever, &world_->error);
        if (status == MBR_OK)
            ep.value = 0;
        return status;
    }

    // Once it is lost, and the second EP of its manager.
    void end_lost()
    {
        EXPECT_EQ(MBR_OK, detach());
        EXPECT_EQ(MBR_OK, destroy());
        world_->close_line(2);
    }

    mbr_ep_handle ep = {0};
    mbr_stream_handle stream = {0};

  private:
    HostWorld *world_;
    mbr_native native_;
};

TEST(Capture, WhatIsMadeInIt_ComesBackAfterTheGraph)
{
    CaptureWorld world;
    ASSERT_EQ(MBR_OK, world.begin(world.stream));
    mbr_allocation_handle small = world.alloc(1000).allocation;
    mbr_allocation_handle large = world.alloc(66 * kMiB).allocation;
    mbr_range_handle range = world.reserve(8 * kMiB).range;
    EXPECT_EQ(MBR_OK, world.grow(range, 0, 4 * kMiB));
    auto figures = sized<mbr_allocation_figures>();
    ASSERT_EQ(MBR_OK, mbr_alloc_read(world.manager, small, 0, &figures, nullptr));
    EXPECT_EQ(uint32_t{MBR_ALLOCATION_CAPTURED}, figures.state);
    EXPECT_EQ(MBR_OK, world.free_now(small)); // in the capture
    mbr_graph_handle graph = world.end_capture(world.stream);
    EXPECT_EQ(MBR_OK, world.free_queued(large));
    EXPECT_EQ(MBR_OK, world.release(range));
    EXPECT_EQ(MBR_OK, world.drain()) << world.error.text;
    EXPECT_EQ(3u, world.read(graph).held_count);
    EXPECT_EQ(world.ep.value, world.read(graph).ep.value);
    EXPECT_EQ(3u, world.read(world.ep).held_count);
    EXPECT_EQ(1u, world.read(world.ep).graph_count);
    EXPECT_LT(70 * kMiB, world.read(world.ep).held_bytes);
    mbr_holder_figures holder = sized<mbr_holder_figures>();
    ASSERT_EQ(MBR_OK, mbr_manager_read_holder(world.manager, world.holder, &holder, nullptr));
    EXPECT_LT(70 * kMiB, holder.charged_bytes);
    EXPECT_TRUE(world.clean());
    ASSERT_EQ(MBR_OK, world.retire(graph, {world.stream})) << world.error.text;
    EXPECT_EQ(MBR_STALE, world.retire(graph, {world.stream}));
    EXPECT_EQ(MBR_OK, world.drain());
    EXPECT_EQ(MBR_OK, world.drain()); // what the graph's end let go
    ASSERT_EQ(MBR_OK, mbr_manager_read_holder(world.manager, world.holder, &holder, nullptr));
    EXPECT_EQ(0u, holder.charged_bytes);
    EXPECT_EQ(0u, world.read(world.ep).held_count);
    EXPECT_TRUE(world.clean());
}

// Whoever ends the last capture gives back what the undo left: nobody trims, polls or frees.
TEST(Capture, GrowthRefusedInIt_IsGivenBackByItsEnd)
{
    CaptureWorld world;
    auto range = world.reserve(8 * kMiB, 2 * kMiB);
    ASSERT_EQ(MBR_OK, world.grow(range.range, 0, 2 * kMiB));
    auto before = world.books();
    uint64_t owned_bytes = world.figures().owned_bytes;
    ASSERT_EQ(MBR_OK, world.begin(world.stream));
    mbr_piece piece = {range.range, 2 * kMiB, 4 * kMiB};
    auto request = sized<mbr_range_grow_request>();
    request.holder = world.holder;
    request.pieces = &piece;
    request.piece_count = 1;
    request.publish = [](void *) -> mbr_status { return MBR_NOT_READY; };
    auto result = sized<mbr_range_grow_result>();
    EXPECT_EQ(MBR_RESIDUAL, mbr_range_grow(world.manager, &request, &result, &world.error));
    EXPECT_EQ(4 * kMiB, result.residual_bytes);
    EXPECT_EQ(before.charged_bytes + 4 * kMiB, world.books().charged_bytes);
    EXPECT_EQ(4 * kMiB, world.books().quarantined_bytes);
    EXPECT_EQ(MBR_BUSY, world.grow(range.range, 2 * kMiB, 4 * kMiB));
    mbr_graph_handle graph = world.end_capture(world.stream);
    EXPECT_EQ(0u, world.books().quarantined_bytes);
    EXPECT_EQ(2 * kMiB, world.paid(world.holder).charged_bytes);
    EXPECT_EQ(2 * kMiB, world.paid(world.holder).mapped_bytes);
    EXPECT_EQ(4 * kMiB, world.figures().pooled_bytes); // made in vain, and kept
    EXPECT_EQ(MBR_OK, world.trim());
    EXPECT_EQ(before.charged_bytes, world.books().charged_bytes);
    EXPECT_EQ(owned_bytes, world.figures().owned_bytes);
    EXPECT_TRUE(world.clean());
    EXPECT_EQ(MBR_OK, world.grow(range.range, 2 * kMiB, 4 * kMiB)); // the places are in use again
    EXPECT_EQ(MBR_OK, world.retire(graph));
    EXPECT_EQ(MBR_OK, world.release(range.range));
    EXPECT_EQ(MBR_OK, world.drain());
}

TEST(Capture, WhileItIsOpen_WhatWouldDestroyItIsRefusedForAllOfTheDevice)
{
    CaptureWorld world;
    OtherEp other(&world, false);
    auto request = world.bind_request();
    request.ep = other.ep;
    mbr_binding_handle binding;
    ASSERT_EQ(MBR_OK, mbr_manager_bind(world.manager, &request, &binding, &world.error));
    mbr_allocation_handle before = world.alloc(3 * kMiB).allocation;
    ASSERT_EQ(MBR_OK, world.free_queued(before));
    ASSERT_EQ(MBR_OK, world.begin(other.stream)); // another EP's
    EXPECT_EQ(MBR_BUSY, world.drain());
    EXPECT_TRUE(world.said("captured")) << world.error.text;
    EXPECT_EQ(MBR_BUSY, world.trim());
    EXPECT_EQ(MBR_BUSY, mbr_manager_unbind(world.manager, binding, &world.error));
    EXPECT_EQ(MBR_BUSY, mbr_manager_audit(world.manager, &world.error));
    EXPECT_EQ(UINT64_MAX, world.figures().free_bytes); // MBR_UNKNOWN_BYTES: not asked
    mbr_manager_poll(world.manager);
    EXPECT_EQ(1u, world.read(world.ep).queued_count);
    world.free_now(world.alloc(3 * kMiB).allocation); // of the EP that does not capture
    mbr_graph_handle graph = world.end_capture(other.stream);
    EXPECT_NE(UINT64_MAX, world.figures().free_bytes);
    EXPECT_EQ(MBR_OK, world.drain()) << world.error.text;
    EXPECT_EQ(MBR_OK, world.trim());
    EXPECT_TRUE(world.clean());
    EXPECT_EQ(MBR_OK, world.retire(graph));
    EXPECT_EQ(MBR_OK, mbr_manager_unbind(world.manager, binding, &world.error));
}

// Lines of its own, never bound: the mechanism that its request names says where it captures.
TEST(Capture, OfAnEpThatNamesItsMechanism_ClosesThatDevice)
{
    CaptureWorld world;
    SKIP_WITHOUT_CPU_EP(world);
    OtherEp unnamed(&world, false), named(&world, true);
    ASSERT_EQ(MBR_OK, world.begin(unnamed.stream));
    EXPECT_EQ(MBR_OK, world.trim());
    mbr_graph_handle graph = world.end_capture(unnamed.stream);
    EXPECT_EQ(MBR_OK, world.retire(graph));
    ASSERT_EQ(MBR_OK, world.begin(named.stream));
    EXPECT_EQ(MBR_BUSY, world.trim());
    graph = world.end_capture(named.stream);
    EXPECT_EQ(MBR_OK, world.trim());
    EXPECT_EQ(MBR_OK, world.retire(graph));
}

TEST(Capture, BindingToAFurtherDeviceMeanwhile_IsRefused)
{
    CaptureWorld world;
    SKIP_WITHOUT_CPU_EP(world);
    OtherEp other(&world, false);
    ASSERT_EQ(MBR_OK, world.begin(other.stream)); // of no device yet
    auto request = world.bind_request();
    request.ep = other.ep;
    mbr_binding_handle binding;
    EXPECT_EQ(MBR_BUSY, mbr_manager_bind(world.manager, &request, &binding, &world.error));
    EXPECT_TRUE(world.said("end the capture")) << world.error.text;
    mbr_graph_handle graph = world.end_capture(other.stream);
    ASSERT_EQ(MBR_OK, mbr_manager_bind(world.manager, &request, &binding, &world.error));
    EXPECT_EQ(MBR_OK, mbr_manager_unbind(world.manager, binding, &world.error));
    EXPECT_EQ(MBR_OK, world.retire(graph));
}

TEST(Capture, EpDestroyed_WithOneOpenOrAGraphLeft_IsInUseWithCounts)
{
    CaptureWorld world;
    OtherEp other(&world, false);
    ASSERT_EQ(MBR_OK, world.begin(other.stream));
    EXPECT_EQ(MBR_ALREADY_EXISTS, world.begin(other.stream));
    EXPECT_EQ(MBR_BUSY, other.detach());
    EXPECT_EQ(MBR_IN_USE, other.destroy());
    EXPECT_TRUE(world.said("1 open captures")) << world.error.text;
    mbr_graph_handle graph = world.end_capture(other.stream);
    mbr_graph_handle none = {0};
    EXPECT_EQ(
        MBR_UNKNOWN_OBJECT, mbr_ep_capture_end(world.manager, other.stream, &none, &world.error));
    EXPECT_EQ(MBR_OK, other.detach());
    EXPECT_EQ(MBR_IN_USE, other.destroy());
    EXPECT_TRUE(world.said("1 graphs")) << world.error.text;
    EXPECT_EQ(MBR_OK, world.retire(graph));
    EXPECT_EQ(MBR_OK, other.destroy()) << world.error.text; // it settles the retirement itself
}

TEST(Graph, Handles_AreNeverUsedAgain)
{
    CaptureWorld world;
    std::set<uint64_t> handles;
    for (int i = 0; i < 100; i++) {
        ASSERT_EQ(MBR_OK, world.begin(world.stream));
        mbr_graph_handle graph = world.end_capture(world.stream);
        EXPECT_TRUE(handles.insert(graph.value).second);
        ASSERT_EQ(MBR_OK, world.retire(graph));
        mbr_manager_poll(world.manager);
    }
    auto figures = sized<mbr_graph_figures>();
    for (uint64_t value : handles) {
        EXPECT_EQ(MBR_STALE, world.retire({value}));
        EXPECT_EQ(MBR_STALE, mbr_ep_graph_read(world.manager, {value}, &figures, nullptr));
    }
    EXPECT_EQ(MBR_UNKNOWN_OBJECT, world.retire({0}));
}

TEST(Graph, RetiredBehindAWrongStream_IsAsItWas)
{
    CaptureWorld world;
    OtherEp other(&world, false);
    ASSERT_EQ(MBR_OK, world.begin(world.stream));
    mbr_graph_handle graph = world.end_capture(world.stream);
    EXPECT_EQ(MBR_INVALID_ARGUMENT, world.retire(graph, {other.stream}));
    mbr_stream_handle gone = other.stream;
    EXPECT_EQ(MBR_OK, other.detach());
    EXPECT_EQ(MBR_STALE, world.retire(graph, {gone}));
    EXPECT_EQ(1u, world.read(world.ep).graph_count);
    EXPECT_EQ(MBR_OK, world.retire(graph, {world.stream}));
}

TEST(Capture, EpLostWhileItIsOpen_EndsItAndGoesWithItsGraphs)
{
    CaptureWorld world;
    OtherEp other(&world, false);
    ASSERT_EQ(MBR_OK, world.begin(world.stream));
    mbr_graph_handle kept = world.end_capture(world.stream);
    ASSERT_EQ(MBR_OK, world.begin(world.stream));
    mbr_allocation_handle made = world.alloc(3 * kMiB).allocation;
    EXPECT_EQ(MBR_OK, world.free_now(made));
    EXPECT_EQ(MBR_BUSY, world.trim());
    world.lost = true;
    ASSERT_EQ(MBR_OK, mbr_ep_lost(world.manager, world.ep, &world.error));
    EXPECT_EQ(MBR_OK, world.trim()); // the gate is open
    mbr_graph_handle none = {0};
    EXPECT_EQ(
        MBR_DEVICE_LOST, mbr_ep_capture_end(world.manager, world.stream, &none, &world.error));
    EXPECT_EQ(0u, none.value);
    EXPECT_EQ(MBR_OK, world.retire(kept));
    EXPECT_EQ(MBR_DEVICE_LOST, world.begin(world.stream));
    EXPECT_EQ(MBR_IN_USE, mbr_ep_destroy(world.manager, world.ep, 0, &world.error)); // confirms
}

TEST(Capture, GraphsOfALostEp_GoWithIt)
{
    CaptureWorld world;
    mbr_graph_handle kept;
    {
        OtherEp other(&world, false);
        ASSERT_EQ(MBR_OK, world.begin(other.stream));
        kept = world.end_capture(other.stream);
        ASSERT_EQ(MBR_OK, world.begin(other.stream));
        ASSERT_EQ(MBR_OK, mbr_ep_lost(world.manager, other.ep, &world.error));
        other.end_lost();
    }
    EXPECT_EQ(MBR_STALE, world.retire(kept));
}

TEST(Capture, EndedByALoss_WhatItsGateKeptIsMadeUpForAtItsEnd)
{
    CaptureWorld world;
    auto range = world.reserve(4 * kMiB, 2 * kMiB);
    ASSERT_EQ(MBR_OK, world.grow(range.range, 0, 4 * kMiB));
    ASSERT_EQ(MBR_OK, world.release(range.range));
    ASSERT_EQ(4 * kMiB, world.figures().parked_bytes);
    OtherEp other(&world, true);
    ASSERT_EQ(MBR_OK, world.begin(other.stream));
    auto request = world.bind_request(); // lowers the watermark of what both share
    request.cache_keep_bytes = 0;
    mbr_binding_handle binding;
    ASSERT_EQ(MBR_OK, mbr_manager_bind(world.manager, &request, &binding, &world.error));
    EXPECT_EQ(4 * kMiB, world.figures().parked_bytes);
    ASSERT_EQ(MBR_OK, mbr_ep_lost(world.manager, other.ep, &world.error));
    mbr_graph_handle none = {0};
    EXPECT_EQ(
        MBR_DEVICE_LOST, mbr_ep_capture_end(world.manager, other.stream, &none, &world.error));
    EXPECT_EQ(0u, world.figures().parked_bytes + world.figures().pooled_bytes);
    EXPECT_EQ(MBR_OK, mbr_manager_unbind(world.manager, binding, &world.error));
    other.end_lost();
}

// ---- Pins and views ----

TEST(Pin, PinnedRange_StaysUntilItIsUnpinned)
{
    CaptureWorld world;
    mbr_range_handle range = world.reserve(8 * kMiB).range;
    ASSERT_EQ(MBR_OK, world.grow(range, 0, 4 * kMiB));
    ASSERT_EQ(MBR_OK, mbr_range_pin(world.manager, range, &world.error));
    EXPECT_EQ(MBR_BUSY, world.release(range));
    EXPECT_TRUE(world.said("1 pins")) << world.error.text;
    EXPECT_EQ(MBR_BUSY, world.release(range, false));
    EXPECT_EQ(MBR_OK, mbr_range_unpin(world.manager, range, &world.error));
    EXPECT_EQ(MBR_INVALID_ARGUMENT, mbr_range_unpin(world.manager, range, &world.error));
    EXPECT_EQ(MBR_OK, world.release(range));
    EXPECT_EQ(MBR_STALE, mbr_range_pin(world.manager, range, &world.error));
    EXPECT_EQ(MBR_STALE, mbr_range_unpin(world.manager, range, &world.error));
}

TEST(View, OfARange_IsStaleOnceItIsRemappedOrGone)
{
    CaptureWorld world;
    mbr_range_reserve_result reserved = world.reserve(8 * kMiB, kMiB);
    mbr_range_handle range = reserved.range;
    ASSERT_EQ(MBR_OK, world.grow(range, 0, 4 * kMiB));
    mbr_range_view view;
    ASSERT_EQ(MBR_OK, mbr_range_view_take(world.manager, range, &view, &world.error));
    ASSERT_EQ(MBR_OK, world.grow(range, 4 * kMiB, kMiB));
    EXPECT_EQ(MBR_OK, mbr_range_view_check(world.manager, view, &world.error));
    auto request = sized<mbr_range_release_request>();
    request.flags = MBR_FREE_NOW;
    request.piece = {range, kMiB, kMiB};
    auto result = sized<mbr_range_decommit_result>();
    ASSERT_EQ(MBR_OK, mbr_range_decommit(world.manager, &request, &result, &world.error));
    ASSERT_EQ(MBR_OK, world.grow(range, kMiB, kMiB)); // other memory at the same address
    EXPECT_EQ(MBR_STALE, mbr_range_view_check(world.manager, view, &world.error));
    EXPECT_TRUE(world.said("generation")) << world.error.text;
    mbr_range_view next;
    ASSERT_EQ(MBR_OK, mbr_range_view_take(world.manager, range, &next, &world.error));
    auto figures = sized<mbr_range_figures>();
    ASSERT_EQ(MBR_OK, mbr_range_read(world.manager, range, 0, &figures, &world.error));
#ifndef NDEBUG
    EXPECT_EQ(2u, figures.view_count);
#else
    EXPECT_EQ(0u, figures.view_count);
#endif
    EXPECT_EQ(next.generation, figures.remap_epoch);
    EXPECT_EQ(MBR_OK, mbr_range_view_drop(world.manager, next, &world.error));
    ASSERT_EQ(MBR_OK, world.release(range));
    EXPECT_EQ(MBR_STALE, mbr_range_view_check(world.manager, next, &world.error));
    mbr_range_handle reused = world.reserve(8 * kMiB, kMiB).range; // the same addresses
    EXPECT_EQ(MBR_STALE, mbr_range_view_check(world.manager, next, &world.error));
    EXPECT_EQ(MBR_STALE, mbr_range_view_drop(world.manager, next, &world.error));
    EXPECT_EQ(MBR_OK, world.release(reused));
}

// ---- Beside others ----

TEST(Capture, BesideThreadsThatAllocateAndGiveBack_BooksAreExactAtTheEnd)
{
    CaptureWorld world;
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; i++)
        threads.emplace_back([&, i] {
            mbr_error error = sized<mbr_error>();
            while (!stop) {
                auto request = sized<mbr_alloc_request>();
                request.binding = world.binding;
                request.holder = world.holder;
                request.stream = world.stream;
                request.bytes = i == 0 ? 1000 : 3 * kMiB;
                auto made = sized<mbr_alloc_result>();
                ASSERT_EQ(MBR_OK, mbr_alloc(world.manager, &request, &made, &error)) << error.text;
                auto free = sized<mbr_free_request>();
                free.allocation = made.allocation;
                free.flags = i == 0 ? MBR_FREE_NOW : 0;
                mbr_status status = mbr_free(world.manager, &free, &error);
                ASSERT_TRUE(status == MBR_OK || status == MBR_QUEUE_FULL) << error.text;
                while (status == MBR_QUEUE_FULL) {
                    mbr_manager_poll(world.manager);
                    status = mbr_free(world.manager, &free, &error);
                }
            }
        });
    mbr_error error = sized<mbr_error>();
    for (int round = 0; round < 50; round++) {
        ASSERT_EQ(MBR_OK, mbr_ep_capture_begin(world.manager, world.stream, kNever, &error));
        std::this_thread::yield();
        mbr_graph_handle graph = {0};
        ASSERT_EQ(MBR_OK, mbr_ep_capture_end(world.manager, world.stream, &graph, &error));
        mbr_status status;
        do { // the others may have filled the queue
            status = mbr_ep_graph_retire(world.manager, graph, nullptr, 0, &error);
            mbr_manager_poll(world.manager);
        } while (status == MBR_QUEUE_FULL);
        ASSERT_EQ(MBR_OK, status) << error.text;
    }
    stop = true;
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(MBR_OK, world.drain());
    EXPECT_EQ(MBR_OK, world.drain());
    mbr_holder_figures holder = sized<mbr_holder_figures>();
    ASSERT_EQ(MBR_OK, mbr_manager_read_holder(world.manager, world.holder, &holder, nullptr));
    EXPECT_EQ(0u, holder.charged_bytes);
    EXPECT_TRUE(world.clean());
}

} // namespace
} // namespace membrane
