// A capture of an EP that works on two devices closes the gates of both, one after the other.
#include "tests/unit/bind/host_world.h"
#include "tests/unit/plugins_gpu/world.h"

#include <functional>
#include <thread>

namespace gpu_test
{

namespace
{

using membrane::HostWorld;
using membrane::kMiB;
using membrane::kNever;

// A clock that calls back, once, on the thread that set it.
struct Alarm {
    int calls_left = 0;
    std::function<void()> ring;
    std::thread::id owner = std::this_thread::get_id();

    static uint64_t now_ns(void *context)
    {
        auto *alarm = static_cast<Alarm *>(context);
        if (std::this_thread::get_id() == alarm->owner && alarm->calls_left > 0 &&
            --alarm->calls_left == 0)
            alarm->ring();
        return gpu_test::now_ns();
    }
};

// An EP with one stream.
struct Worker {
    Worker(HostWorld *world, const char *name, mbr_mechanism_handle mechanism) : world(world)
    {
        auto request = membrane::sized<mbr_ep_request>();
        request.name = name;
        request.mechanism = mechanism;
        EXPECT_EQ(mbr_ep_create(world->manager, &request, &ep, &world->error), MBR_OK)
            << world->error.text;
        EXPECT_EQ(mbr_ep_create_stream(world->manager, ep, &native, &world->error), MBR_OK)
            << world->error.text;
        EXPECT_EQ(mbr_ep_attach_stream(world->manager, ep, native, &stream, &world->error), MBR_OK)
            << world->error.text;
    }
    ~Worker()
    {
        EXPECT_EQ(mbr_ep_detach_stream(world->manager, stream, &world->error), MBR_OK);
        EXPECT_EQ(mbr_ep_destroy_stream(world->manager, ep, native, &world->error), MBR_OK);
        EXPECT_EQ(mbr_ep_destroy(world->manager, ep, kNever, &world->error), MBR_OK)
            << world->error.text;
    }
    mbr_binding_handle bind(mbr_mechanism_handle mechanism)
    {
        auto request = world->bind_request();
        request.ep = ep;
        request.mechanism = mechanism;
        request.cache_keep_bytes = 0;
        mbr_binding_handle binding = {0};
        EXPECT_EQ(mbr_manager_bind(world->manager, &request, &binding, &world->error), MBR_OK)
            << world->error.text;
        return binding;
    }
    mbr_status begin_at_once()
    {
        return mbr_ep_capture_begin(world->manager, stream, 0, &world->error);
    }
    void end_capture()
    {
        mbr_graph_handle graph = {0};
        EXPECT_EQ(mbr_ep_capture_end(world->manager, stream, &graph, &world->error), MBR_OK);
        EXPECT_EQ(mbr_ep_graph_retire(world->manager, graph, nullptr, 0, &world->error), MBR_OK);
    }

    HostWorld *world;
    mbr_ep_handle ep = {0};
    mbr_native native = {};
    mbr_stream_handle stream = {0};
};

mbr_mechanism_handle open_second(HostWorld *world)
{
    auto open = membrane::sized<mbr_mechanism_open_request>();
    open.plugin = world->plugin;
    open.mechanism = "device1";
    mbr_mechanism_handle opened = {0};
    EXPECT_EQ(mbr_manager_open_mechanism(world->manager, &open, &opened, &world->error), MBR_OK)
        << world->error.text;
    return opened;
}

// The first device's gate is closed while somebody is inside the second's, and then open again.
TEST(Gates, SecondDeviceIsInUse_WhatTheFirstOnesGateRefusedIsMadeUpFor)
{
    restart();
    Alarm alarm;
    const mbr_clock clock = {Alarm::now_ns, &alarm};
    mbr_manager_seams seams = {};
    seams.clock = &clock;
    HostWorld world(64 * kMiB, &seams);
    mbr_mechanism_handle second = open_second(&world);
    {
        Worker both(&world, "both", world.mechanism), there(&world, "there", second);
        mbr_binding_handle on_second = both.bind(second), lowered = {0};
        auto range = world.reserve(4 * kMiB, 2 * kMiB);
        ASSERT_EQ(world.grow(range.range, 0, 4 * kMiB), MBR_OK) << world.error.text;
        ASSERT_EQ(world.release(range.range), MBR_OK);
        ASSERT_EQ(world.figures().parked_bytes, 4 * kMiB);
        membrane::Gate held(world, there.native);
        std::thread inside([&] {
            auto own = membrane::sized<mbr_error>();
            mbr_status status;
            do { // busy while one of the captures below is open
                status = mbr_ep_synchronize(world.manager, there.stream, kNever, &own);
            } while (status == MBR_BUSY);
            EXPECT_EQ(status, MBR_OK) << own.text;
        });
        while (both.begin_at_once() == MBR_OK) // until that one is inside
            both.end_capture();
        alarm.ring = [&] {
            EXPECT_EQ(mbr_manager_trim(world.manager, world.mechanism, 0, nullptr, &world.error),
                MBR_BUSY);
            lowered = both.bind(world.mechanism); // the watermark of what both share
            EXPECT_EQ(world.figures().parked_bytes, 4 * kMiB) << "the gate is closed";
        };
        alarm.calls_left = 5; // two for each gate: its own, the first device's, the second's
        EXPECT_EQ(both.begin_at_once(), MBR_TIMED_OUT);
        EXPECT_NE(lowered.value, 0u);
        EXPECT_EQ(world.figures().parked_bytes + world.figures().pooled_bytes, 0u);
        held.open();
        inside.join();
        for (mbr_binding_handle binding : {on_second, lowered})
            EXPECT_EQ(mbr_manager_unbind(world.manager, binding, &world.error), MBR_OK)
                << world.error.text;
    }
    EXPECT_EQ(mbr_manager_close_mechanism(world.manager, second, &world.error), MBR_OK)
        << world.error.text;
}

} // namespace

} // namespace gpu_test
