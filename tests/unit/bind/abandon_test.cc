// Bindings that are abandoned with allocations alive: what becomes of those, of what the binding
// refers to, and when it ends after all. What the arena does is tests/unit/alloc/abandon_test.cc; a
// loss is in lost_test.cc.
#include "tests/unit/bind/host_world.h"

#include <string>
#include <thread>
#include <vector>

namespace membrane
{
namespace
{

class Abandon : public ::testing::Test
{
  protected:
    // `quarantined` are expected.
    void abandon(uint64_t quarantined)
    {
        uint64_t count = 99;
        EXPECT_EQ(MBR_OK, mbr_manager_abandon(world.manager, world.binding, &count, &world.error))
            << world.error.text;
        EXPECT_EQ(quarantined, count);
        old = world.binding;
        world.binding = {0};
    }

    uint32_t state(mbr_allocation_handle allocation)
    {
        auto figures = sized<mbr_allocation_figures>();
        EXPECT_EQ(MBR_OK, mbr_alloc_read(world.manager, allocation, 0, &figures, &world.error));
        return figures.state;
    }

    // Freed after all: behind the stream that it was allocated for, whatever the free says.
    void free_late(mbr_allocation_handle allocation)
    {
        EXPECT_EQ(MBR_OK, world.free_now(allocation)) << world.error.text;
        EXPECT_EQ(MBR_UNKNOWN_OBJECT, world.free_now(allocation));
        EXPECT_EQ(MBR_OK, world.drain());
    }

    uint64_t bindings_of_the_authority()
    {
        EXPECT_EQ(MBR_IN_USE,
            mbr_manager_destroy_authority(world.manager, world.authority, &world.error));
        std::string text = world.error.text;
        size_t at = text.find(" bindings");
        return std::stoull(text.substr(text.rfind(' ', at - 1) + 1));
    }

    HostWorld world;
    mbr_binding_handle old = {0};
};

TEST_F(Abandon, WithAllocationsAlive_TheyAreQuarantinedAndNothingUnderThemIsRemoved)
{
    mbr_allocation_handle small = world.alloc(1000).allocation;
    mbr_allocation_handle large = world.alloc(20 * kMiB).allocation;
    uint64_t charged = world.books().charged_bytes;
    EXPECT_EQ(MBR_IN_USE, mbr_manager_unbind(world.manager, world.binding, &world.error));
    EXPECT_NE(nullptr, std::strstr(world.error.text, "2 allocations live")) << world.error.text;

    abandon(2);
    EXPECT_EQ(uint32_t{MBR_ALLOCATION_QUARANTINED}, state(small));
    EXPECT_EQ(uint32_t{MBR_ALLOCATION_QUARANTINED}, state(large));
    EXPECT_EQ(charged, world.books().charged_bytes);
    EXPECT_EQ(20 * kMiB + 1024, world.books().quarantined_bytes);
    EXPECT_TRUE(world.clean());
    auto request = sized<mbr_alloc_request>();
    request.binding = old;
    request.holder = world.holder;
    request.bytes = 1000;
    auto result = sized<mbr_alloc_result>();
    EXPECT_EQ(MBR_STALE, mbr_alloc(world.manager, &request, &result, &world.error));
    EXPECT_EQ(MBR_STALE, mbr_manager_unbind(world.manager, old, &world.error));
    EXPECT_EQ(MBR_STALE, mbr_manager_abandon(world.manager, old, nullptr, &world.error));

    EXPECT_EQ(MBR_IN_USE, mbr_ep_destroy(world.manager, world.ep, kNever, &world.error));
    EXPECT_NE(nullptr, std::strstr(world.error.text, "1 bindings")) << world.error.text;
    EXPECT_EQ(
        MBR_IN_USE, mbr_manager_close_mechanism(world.manager, world.mechanism, &world.error));
    EXPECT_NE(nullptr,
        std::strstr(world.error.text, world.brings_ep ? "1 bindings, 1 EPs" : "1 bindings, 0 EPs"))
        << world.error.text;
    EXPECT_EQ(MBR_IN_USE, mbr_manager_destroy_holder(world.manager, world.holder, &world.error));
    EXPECT_EQ(1u, bindings_of_the_authority());
    EXPECT_EQ(MBR_IN_USE, mbr_manager_destroy(world.manager, &world.error));
    EXPECT_NE(nullptr, std::strstr(world.error.text, "1 bindings")) << world.error.text;

    free_late(small);
    EXPECT_EQ(1u, bindings_of_the_authority());
    free_late(large);
    EXPECT_EQ(0u, bindings_of_the_authority()) << "the call looked for it";
    EXPECT_EQ(0u, world.books().charged_bytes + world.books().quarantined_bytes);
} /* the world's end: everything is removed */

TEST_F(Abandon, WithNothingAlive_EndsAtOnce)
{
    EXPECT_EQ(MBR_OK, world.free_now(world.alloc(20 * kMiB).allocation));
    abandon(0);
    EXPECT_EQ(0u, bindings_of_the_authority());
    EXPECT_EQ(0u, world.figures().owned_bytes);
}

TEST_F(Abandon, QueuedReleases_GoOnAndAPollEndsTheBinding)
{
    auto request = sized<mbr_free_request>();
    request.allocation = world.alloc(20 * kMiB).allocation;
    request.streams = &world.stream;
    request.stream_count = 1;
    ASSERT_EQ(MBR_OK, mbr_free(world.manager, &request, &world.error));
    abandon(0);
    EXPECT_EQ(MBR_OK, world.drain());
    mbr_manager_poll(world.manager);
    EXPECT_EQ(0u, world.figures().owned_bytes);
    EXPECT_EQ(MBR_OK, mbr_manager_destroy_holder(world.manager, world.holder, &world.error));
    EXPECT_EQ(MBR_OK, mbr_manager_destroy_authority(world.manager, world.authority, &world.error))
        << world.error.text;
    auto authority = sized<mbr_authority_request>(); /* for the world's end */
    authority.name = "next";
    authority.tier = world.tier();
    authority.limit_bytes = kMiB;
    ASSERT_EQ(MBR_OK,
        mbr_manager_create_authority(world.manager, &authority, &world.authority, &world.error));
    auto holder = world.holder_request(MBR_ROLE_KV, "next");
    ASSERT_EQ(
        MBR_OK, mbr_manager_create_holder(world.manager, &holder, &world.holder, &world.error));
}

TEST_F(Abandon, RangesAndPrefixes_StayUntilTheirHandlesEndThem)
{
    mbr_range_handle range = world.reserve(16 * kMiB).range;
    ASSERT_EQ(MBR_OK, world.grow(range, 0, 4 * kMiB));
    std::vector<uint8_t> bytes(4096, 0x5A);
    auto read = sized<mbr_range_figures>();
    ASSERT_EQ(MBR_OK, mbr_range_read(world.manager, range, 0, &read, &world.error));
    world.put(read.address, bytes);
    abandon(0);
    EXPECT_EQ(bytes, world.get(read.address, bytes.size()));
    EXPECT_EQ(MBR_OK, world.grow(range, 0, 8 * kMiB)) << "as one of a superseded binding";
    EXPECT_EQ(1u, bindings_of_the_authority());
    mbr_piece piece = {range, 0, 4 * kMiB};
    auto request = sized<mbr_prefix_request>();
    request.holder = world.holder;
    request.pieces = &piece;
    request.piece_count = 1;
    auto prefix = sized<mbr_prefix_result>();
    ASSERT_EQ(MBR_OK, mbr_prefix_create(world.manager, &request, &prefix, &world.error));
    EXPECT_EQ(MBR_OK, world.release(range));
    EXPECT_EQ(1u, bindings_of_the_authority());
    EXPECT_EQ(MBR_OK, mbr_prefix_release(world.manager, prefix.prefix, &world.error));
    EXPECT_EQ(0u, bindings_of_the_authority());
}

TEST_F(Abandon, SupersededGenerations_AreAbandonedWithIt)
{
    mbr_allocation_handle first = world.alloc(20 * kMiB).allocation;
    auto request = world.bind_request();
    request.isolation_group = 1;
    mbr_binding_handle next;
    ASSERT_EQ(
        MBR_OK, mbr_manager_switch(world.manager, world.binding, &request, &next, &world.error));
    world.binding = next;
    mbr_allocation_handle second = world.alloc(1000).allocation;
    abandon(2);
    EXPECT_EQ(uint32_t{MBR_ALLOCATION_QUARANTINED}, state(first));
    EXPECT_EQ(2u, bindings_of_the_authority());
    free_late(first);
    EXPECT_EQ(1u, bindings_of_the_authority()) << "the older one is gone";
    free_late(second);
    EXPECT_EQ(0u, bindings_of_the_authority());
}

TEST_F(Abandon, WhileACaptureIsOpen_TheBindingEndsOnceItIsOver)
{
    ASSERT_EQ(MBR_OK, mbr_ep_capture_begin(world.manager, world.stream, kNever, &world.error));
    mbr_allocation_handle made = world.alloc(1000).allocation;
    ASSERT_EQ(uint32_t{MBR_ALLOCATION_CAPTURED}, state(made));
    abandon(1);
    EXPECT_EQ(MBR_OK, world.free_now(made));
    EXPECT_EQ(uint32_t{MBR_ALLOCATION_QUEUED}, state(made)) << "the graph's";
    mbr_graph_handle graph;
    ASSERT_EQ(MBR_OK, mbr_ep_capture_end(world.manager, world.stream, &graph, &world.error));
    EXPECT_EQ(1u, bindings_of_the_authority());
    ASSERT_EQ(MBR_OK, mbr_ep_graph_retire(world.manager, graph, nullptr, 0, &world.error));
    ASSERT_EQ(MBR_OK, world.drain());
    EXPECT_EQ(0u, bindings_of_the_authority());
}

TEST_F(Abandon, NothingAliveInACapture_TheBindingEndsAfterIt)
{
    ASSERT_EQ(MBR_OK, mbr_ep_capture_begin(world.manager, world.stream, kNever, &world.error));
    abandon(0);
    EXPECT_EQ(1u, bindings_of_the_authority()) << "its caches cannot be given back now";
    mbr_graph_handle graph;
    ASSERT_EQ(MBR_OK, mbr_ep_capture_end(world.manager, world.stream, &graph, &world.error));
    EXPECT_EQ(0u, bindings_of_the_authority());
    ASSERT_EQ(MBR_OK, mbr_ep_graph_retire(world.manager, graph, nullptr, 0, &world.error));
}

TEST_F(Abandon, BesideFreesAndPollsOfOtherThreads_TheBindingEndsOnce)
{
    std::vector<mbr_allocation_handle> made;
    for (int i = 0; i < 2000; i++)
        made.push_back(world.alloc(i % 100 == 0 ? 65536 : 1000).allocation);
    std::vector<std::thread> threads;
    for (size_t thread = 0; thread < 4; thread++)
        threads.emplace_back([&, thread] {
            for (size_t i = thread; i < made.size(); i += 4) {
                EXPECT_EQ(MBR_OK, world.free_now(made[i]));
                if (i % 64 == thread)
                    mbr_manager_poll(world.manager);
            }
        });
    EXPECT_EQ(MBR_OK, mbr_manager_abandon(world.manager, world.binding, nullptr, nullptr));
    world.binding = {0};
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(MBR_OK, world.drain());
    EXPECT_EQ(0u, bindings_of_the_authority());
    EXPECT_EQ(0u, world.books().charged_bytes);
}

} // namespace
} // namespace membrane
