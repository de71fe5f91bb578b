// Workspace arenas: steps that take the same addresses again, sessions that last, what is given
// under pressure, and a steady state that calls nobody.
#include "tests/support/faulty/failing.h"
#include "tests/unit/bind/host_world.h"
#include "tests/unit/holder/meanwhile.h"
#include "tests/unit/holder/soon.h"

#include <atomic>
#include <random>
#include <thread>

namespace membrane
{
namespace
{

constexpr uint32_t kStep = MBR_WORKSPACE_STEP, kSession = MBR_WORKSPACE_SESSION;
constexpr uint64_t kUnit = 64 * 1024;

class WorkspaceWorld : public HostWorld
{
  public:
    explicit WorkspaceWorld(uint64_t limit = 64 * kMiB, const mbr_manager_seams *seams = nullptr,
        const char *plugin = nullptr, const std::vector<mbr_option> &options = {})
        : HostWorld(limit, seams, plugin, options)
    {
        auto request = this->request();
        EXPECT_EQ(MBR_OK, mbr_workspace_create(manager, &request, &workspace, &error))
            << error.text;
    }
    ~WorkspaceWorld()
    {
        EXPECT_EQ(MBR_OK, mbr_workspace_destroy(workspace, &error)) << error.text;
        EXPECT_EQ(MBR_OK, drain());
        EXPECT_EQ(0u, charged());
    }

    mbr_workspace *workspace = nullptr;

    mbr_workspace_request request() const
    {
        auto request = sized<mbr_workspace_request>();
        request.binding = binding;
        request.holder = holder;
        request.stream = stream;
        request.most_bytes[kStep] = request.most_bytes[kSession] = 8 * kMiB;
        request.unit_bytes = kUnit;
        return request;
    }
    mbr_status try_take(uint32_t scope, uint64_t bytes, uint64_t *address, uint64_t align = 0)
    {
        return mbr_workspace_take(workspace, scope, bytes, align, address, nullptr, &error);
    }
    uint64_t take(uint32_t scope, uint64_t bytes, uint64_t align = 0)
    {
        uint64_t address;
        EXPECT_EQ(MBR_OK, try_take(scope, bytes, &address, align)) << error.text;
        return address;
    }
    void end(uint32_t scope) { mbr_workspace_end(workspace, scope); }
    mbr_workspace_figures read()
    {
        auto figures = sized<mbr_workspace_figures>();
        mbr_workspace_read(workspace, &figures);
        return figures;
    }
    uint64_t committed(uint32_t scope) { return read().committed_bytes[scope]; }
    uint64_t charged() { return paid(holder).charged_bytes; }
    void settle()
    {
        EXPECT_EQ(MBR_OK, mbr_ep_synchronize(manager, stream, kNever, &error)) << error.text;
        EXPECT_EQ(MBR_OK, drain()) << error.text;
    }
};

TEST(Workspace, Steps_TakeTheSameAddressesAgainAndASessionKeepsItsOwn)
{
    WorkspaceWorld world;
    uint64_t first = world.take(kStep, 1000), second = world.take(kStep, 10, 4096);
    uint64_t lasting = world.take(kSession, 5000);
    world.put(lasting, std::vector<uint8_t>(5000, 7));
    EXPECT_LE(first + 1000, second);
    EXPECT_EQ(0u, second % 4096);
    EXPECT_EQ(2 * kUnit, world.charged());
    world.end(kStep);
    EXPECT_EQ(first, world.take(kStep, 2000));
    EXPECT_EQ(std::vector<uint8_t>(5000, 7), world.get(lasting, 5000));
    EXPECT_NE(lasting, world.take(kSession, 1));
    world.end(kSession);
    world.settle();
    EXPECT_EQ(kUnit, world.charged()) << "the step's";
    EXPECT_EQ(lasting, world.take(kSession, 1)) << "of the next session";
}

TEST(Workspace, LiveTakes_NeverOverlapAndAreAllWritable)
{
    WorkspaceWorld world;
    std::mt19937 random(7);
    for (int step = 0; step < 20; step++) {
        uint64_t before[2] = {0, 0};
        for (int i = 0; i < 20; i++) {
            uint32_t scope = random() % 8 == 0;
            uint64_t bytes = random() % 20000, align = UINT64_C(1) << (random() % 13);
            uint64_t address = world.take(scope, bytes, align);
            EXPECT_EQ(0u, address % align);
            EXPECT_GE(address, before[scope]);
            before[scope] = address + std::max<uint64_t>(bytes, 1);
            if (bytes != 0)
                world.put(address + bytes - 1, {1});
        }
        auto figures = world.read();
        for (uint32_t scope : {kStep, kSession}) {
            EXPECT_LE(figures.used_bytes[scope], figures.committed_bytes[scope]);
            EXPECT_GT(figures.used_bytes[scope] + kUnit, figures.committed_bytes[scope] / 8);
        }
        world.end(kStep);
        if (step % 5 == 4)
            world.end(kSession);
    }
    world.settle();
    auto figures = world.read();
    EXPECT_EQ(figures.committed_bytes[0] + figures.committed_bytes[1], world.charged());
    EXPECT_EQ(20u, figures.step_count);
}

TEST(Workspace, SteadyState_TakesNoHeapAndCallsNoSlot)
{
    FailingHeap heap; /* which fails nothing here, and counts */
    mbr_manager_seams seams = {&heap.heap, nullptr, nullptr, nullptr, nullptr};
    WorkspaceWorld world(64 * kMiB, &seams);
    auto step = [&] {
        for (uint64_t bytes : {300000u, 10u, 70000u})
            world.take(kStep, bytes);
        world.end(kStep);
    };
    step();
    uint64_t heap_calls = heap.calls, slot_calls = world.figures().call_count;
    uint64_t grow_count = world.read().grow_count;
    for (int i = 0; i < 1000; i++)
        step();
    EXPECT_EQ(heap_calls, heap.calls);
    EXPECT_EQ(slot_calls + 1, world.figures().call_count) << "the figures ask themselves";
    EXPECT_EQ(grow_count, world.read().grow_count);
}

TEST(Workspace, MarkAfterASpike_FallsAndItsBytesGoBackBehindTheStream)
{
    WorkspaceWorld world;
    world.take(kStep, 4 * kMiB);
    world.end(kStep);
    EXPECT_EQ(4 * kMiB, world.read().mark_bytes);
    world.take(kStep, kMiB);
    world.end(kStep);
    EXPECT_EQ(4 * kMiB, world.committed(kStep)) << "one smaller step says little";
    for (int i = 0; i < 100; i++) {
        world.take(kStep, kMiB);
        world.end(kStep);
    }
    EXPECT_EQ(kMiB, world.read().mark_bytes);
    EXPECT_EQ(4 * kMiB, world.read().peak_bytes);
    EXPECT_LE(world.committed(kStep), kMiB + kMiB / 4);
    {
        Gate gate(world);
        world.take(kStep, 4 * kMiB);
        world.end(kStep);
        for (int i = 0; i < 100; i++)
            world.end(kStep);
        EXPECT_EQ(kUnit, world.committed(kStep));
        EXPECT_LT(kUnit, world.charged()) << "the stream still works there";
    }
    world.settle();
    EXPECT_EQ(kUnit, world.charged());
    EXPECT_TRUE(world.clean());
}

TEST(Workspace, WrongTakes_AreRefusedAndChangeNothing)
{
    WorkspaceWorld world(kMiB);
    uint64_t address;
    world.take(kStep, 1000);
    auto before = world.read();
    EXPECT_EQ(MBR_INVALID_ARGUMENT, world.try_take(2, 1, &address));
    EXPECT_EQ(MBR_INVALID_ARGUMENT, world.try_take(kStep, 1, &address, 3));
    EXPECT_EQ(MBR_INVALID_ARGUMENT, world.try_take(kStep, 1, &address, UINT64_C(1) << 40));
    EXPECT_EQ(MBR_OUT_OF_RANGE, world.try_take(kStep, 8 * kMiB, &address));
    EXPECT_EQ(MBR_OUT_OF_RANGE, world.try_take(kStep, UINT64_MAX, &address));
    EXPECT_EQ(MBR_OVER_BUDGET, world.try_take(kStep, 2 * kMiB, &address));
    EXPECT_EQ(0u, address);
    auto after = world.read();
    EXPECT_EQ(0, std::memcmp(&before, &after, sizeof(before)));
    EXPECT_EQ(kUnit, world.charged());
    mbr_workspace *other;
    auto request = world.request();
    request.unit_bytes = 1;
    EXPECT_EQ(MBR_MISALIGNED, mbr_workspace_create(world.manager, &request, &other, &world.error));
    request = world.request();
    request.most_bytes[kSession] = UINT64_MAX;
    EXPECT_NE(MBR_OK, mbr_workspace_create(world.manager, &request, &other, &world.error));
    EXPECT_EQ(nullptr, other);
    request.most_bytes[kSession] = 0;
    ASSERT_EQ(MBR_OK, mbr_workspace_create(world.manager, &request, &other, &world.error));
    EXPECT_EQ(MBR_OUT_OF_RANGE,
        mbr_workspace_take(other, kSession, 1, 0, &address, nullptr, &world.error));
    EXPECT_EQ(MBR_OK, mbr_workspace_destroy(other, &world.error));
}

TEST(Workspace, AskedForBytes_GivesWhatIsAboveTheStepAndNothingInFlight)
{
    WorkspaceWorld world;
    world.take(kStep, 2 * kMiB);
    world.take(kSession, kMiB);
    EXPECT_EQ(0u, mbr_workspace_could_give(world.workspace, UINT64_MAX)) << "all is taken";
    world.end(kStep);
    world.take(kStep, kUnit + 1);
    {
        Gate gate(world);
        EXPECT_EQ(0u, mbr_workspace_could_give(world.workspace, UINT64_MAX));
        EXPECT_EQ(0u, mbr_workspace_give(world.workspace, UINT64_MAX));
        EXPECT_EQ(3 * kMiB, world.charged());
    }
    ASSERT_EQ(MBR_OK, mbr_ep_synchronize(world.manager, world.stream, kNever, &world.error));
    EXPECT_EQ(2 * kMiB - 2 * kUnit, soon(2 * kMiB - 2 * kUnit, [&] {
        return mbr_workspace_could_give(world.workspace, UINT64_MAX);
    }));
    EXPECT_EQ(1u, soon(1u, [&] { return mbr_workspace_could_give(world.workspace, 1); }));
    EXPECT_EQ(kUnit, given_soon(1, [&](uint64_t n) {
        return mbr_workspace_give(world.workspace, n);
    })) << "whole extents";
    EXPECT_EQ(3 * kMiB - kUnit, world.charged());
    mbr_range_figures range = sized<mbr_range_figures>();
    uint64_t address = world.take(kStep, 1);
    ASSERT_EQ(MBR_OK, mbr_range_read(world.manager, {0}, address, &range, &world.error));
    ASSERT_EQ(MBR_OK, mbr_range_pin(world.manager, range.range, &world.error));
    EXPECT_EQ(0u, mbr_workspace_could_give(world.workspace, UINT64_MAX));
    EXPECT_EQ(0u, mbr_workspace_give(world.workspace, UINT64_MAX));
    ASSERT_EQ(MBR_OK, mbr_range_unpin(world.manager, range.range, &world.error));
    EXPECT_EQ(2 * kMiB - 3 * kUnit, given_soon(2 * kMiB - 3 * kUnit, [&](uint64_t n) {
        return mbr_workspace_give(world.workspace, n);
    }));
    EXPECT_EQ(kMiB + 2 * kUnit, world.charged());
    EXPECT_EQ(0u, mbr_workspace_could_give(world.workspace, UINT64_MAX));
    EXPECT_TRUE(world.clean());
    world.take(kStep, kMiB); /* it grows again */
}

TEST(Workspace, GraphThatOwnsAPart_GivesNothingUntilItIsRetired)
{
    WorkspaceWorld world;
    ASSERT_EQ(MBR_OK, mbr_ep_capture_begin(world.manager, world.stream, kNever, &world.error));
    world.take(kStep, kMiB);
    world.end(kStep);
    EXPECT_EQ(0u, mbr_workspace_could_give(world.workspace, UINT64_MAX)) << "being captured";
    mbr_graph_handle graph;
    ASSERT_EQ(MBR_OK, mbr_ep_capture_end(world.manager, world.stream, &graph, &world.error));
    EXPECT_EQ(0u, mbr_workspace_could_give(world.workspace, UINT64_MAX));
    EXPECT_EQ(0u, mbr_workspace_give(world.workspace, UINT64_MAX));
    ASSERT_EQ(MBR_OK, mbr_ep_graph_retire(world.manager, graph, nullptr, 0, &world.error));
    world.settle();
    EXPECT_EQ(
        kMiB, soon(kMiB, [&] { return mbr_workspace_could_give(world.workspace, UINT64_MAX); }));
    EXPECT_EQ(
        kMiB, given_soon(kMiB, [&](uint64_t n) { return mbr_workspace_give(world.workspace, n); }));
    EXPECT_EQ(0u, world.charged());
}

// On the EP whose next wait does what a test says.
mbr_workspace *create_watched(WorkspaceWorld &world, const Meanwhile &meanwhile)
{
    auto request = world.request();
    request.binding = meanwhile.binding;
    request.stream = meanwhile.stream;
    mbr_workspace *watched = nullptr;
    EXPECT_EQ(MBR_OK, mbr_workspace_create(world.manager, &request, &watched, &world.error))
        << world.error.text;
    return watched;
}

TEST(Workspace, TakenWhileItLooksWhatToGive_StaysCommitted)
{
    WorkspaceWorld world;
    SKIP_WITHOUT_CPU_EP(world);
    Meanwhile meanwhile(world);
    mbr_workspace *watched = create_watched(world, meanwhile);
    uint64_t address;
    auto take = [&](uint64_t bytes) {
        EXPECT_EQ(
            MBR_OK, mbr_workspace_take(watched, kStep, bytes, 0, &address, nullptr, &world.error))
            << world.error.text;
    };
    take(10 * kUnit);
    mbr_workspace_end(watched, kStep);
    for (auto ask : {mbr_workspace_could_give, mbr_workspace_give}) {
        meanwhile.in_next_wait([&] { take(9 * kUnit); });
        EXPECT_EQ(0u, ask(watched, 3 * kUnit)) << "two of the three are taken";
        EXPECT_EQ(10 * kUnit, world.charged());
        world.put(address + 9 * kUnit - 1, {1});
        mbr_workspace_end(watched, kStep);
    }
    meanwhile.in_next_wait([&] { take(7 * kUnit); });
    EXPECT_EQ(3 * kUnit, mbr_workspace_give(watched, 3 * kUnit)) << "below what goes";
    EXPECT_EQ(MBR_OK, mbr_workspace_destroy(watched, &world.error)) << world.error.text;
}

TEST(Workspace, DestroyedWhileItLooksWhatToGive_WaitsForTheLook)
{
    WorkspaceWorld world;
    SKIP_WITHOUT_CPU_EP(world);
    Meanwhile meanwhile(world);
    mbr_workspace *watched = create_watched(world, meanwhile);
    uint64_t address;
    ASSERT_EQ(
        MBR_OK, mbr_workspace_take(watched, kStep, 2 * kUnit, 0, &address, nullptr, &world.error));
    mbr_workspace_end(watched, kStep);
    std::future<mbr_status> destroyed;
    meanwhile.in_next_wait([&] {
        destroyed = call_meanwhile([&] { return mbr_workspace_destroy(watched, nullptr); });
    });
    EXPECT_EQ(kUnit, mbr_workspace_give(watched, kUnit));
    EXPECT_EQ(MBR_OK, destroyed.get());
}

TEST(Workspace, StreamOfAnotherEp_IsRefusedAtCreate)
{
    WorkspaceWorld world;
    SKIP_WITHOUT_CPU_EP(world);
    Meanwhile meanwhile(world);
    auto request = world.request();
    mbr_workspace *other;
    request.stream = meanwhile.stream;
    EXPECT_EQ(
        MBR_INVALID_ARGUMENT, mbr_workspace_create(world.manager, &request, &other, &world.error));
    EXPECT_EQ(nullptr, other);
}

TEST(Workspace, StreamThatIsNone_IsRefusedAtCreateAndLeavesNoRange)
{
    WorkspaceWorld world;
    auto request = world.request();
    mbr_workspace *other;
    mbr_native native = world.make_stream();
    ASSERT_EQ(MBR_OK,
        mbr_ep_attach_stream(world.manager, world.ep, native, &request.stream, &world.error));
    ASSERT_EQ(MBR_OK, mbr_ep_detach_stream(world.manager, request.stream, &world.error));
    world.end_stream(native);
    EXPECT_EQ(MBR_STALE, mbr_workspace_create(world.manager, &request, &other, &world.error));
    EXPECT_EQ(nullptr, other);
}

/* ---- Faults and threads */

TEST(WorkspaceFault, UnmapFails_WhatIsStuckIsNotGiven)
{
    Faulty faulty;
    WorkspaceWorld world(
        64 * kMiB, nullptr, "tests/support/libmembrane-faulty.so", faulty.options());
    world.take(kStep, 4 * kUnit);
    world.end(kStep);
    world.settle();
    faulty.fail(FAULTY_UNMAP, 1);
    EXPECT_EQ(1u, soon(1, [&] {
        EXPECT_EQ(0u, mbr_workspace_give(world.workspace, kUnit));
        return faulty.plan.met;
    }));
    EXPECT_TRUE(faulty.stop());
    EXPECT_EQ(4 * kUnit, world.charged());
    uint64_t released;
    ASSERT_EQ(MBR_OK, mbr_manager_trim(world.manager, world.mechanism, 0, &released, &world.error));
    EXPECT_EQ(3 * kUnit, world.charged());
    EXPECT_EQ(world.committed(kStep), world.charged());
}

TEST(WorkspaceFault, EachHeapCallOfASession_FailsOnceAndThenItWorks)
{
    uint64_t met = 0;
    bool more = true;
    for (uint64_t nth = 1; more && !::testing::Test::HasFailure(); nth++) {
        FailingHeap heap;
        mbr_manager_seams seams = {&heap.heap, nullptr, nullptr, nullptr, nullptr};
        {
            WorkspaceWorld world(64 * kMiB, &seams);
            heap.fail_at = heap.calls + nth;
            for (int step = 0; step < 40; step++) {
                uint64_t address, bytes = step == 0 ? 2 * kMiB : kUnit;
                auto before = world.read();
                mbr_status status = world.try_take(kStep, bytes, &address);
                if (status != MBR_OK) {
                    EXPECT_EQ(MBR_OUT_OF_HOST_MEMORY, status) << world.error.text;
                    auto after = world.read();
                    EXPECT_EQ(0, std::memcmp(&before, &after, sizeof(before)));
                    status = world.try_take(kStep, bytes, &address);
                }
                ASSERT_EQ(MBR_OK, status) << world.error.text;
                world.put(address + bytes - 1, {1});
                world.end(kStep);
            }
            world.settle();
            EXPECT_EQ(world.committed(kStep), world.charged());
            mbr_workspace *other;
            auto request = world.request();
            if (mbr_workspace_create(world.manager, &request, &other, &world.error) == MBR_OK) {
                EXPECT_EQ(MBR_OK, mbr_workspace_destroy(other, &world.error));
            }
            more = heap.calls >= std::exchange(heap.fail_at, 0);
            EXPECT_TRUE(world.clean());
        }
        EXPECT_EQ(0, heap.live);
        met += more;
    }
    EXPECT_LT(3u, met);
}

TEST(WorkspaceFault, SlotsFail_TheTakeIsRefusedAndTheNextOneWorks)
{
    for (uint32_t slot : {FAULTY_EXTENT_CREATE, FAULTY_MAP, FAULTY_PROTECT}) {
        Faulty faulty;
        WorkspaceWorld world(
            64 * kMiB, nullptr, "tests/support/libmembrane-faulty.so", faulty.options());
        uint64_t address, first = world.take(kStep, kUnit);
        for (uint64_t nth = 1; nth <= (slot == FAULTY_PROTECT ? 1u : 4u); nth++) {
            faulty.fail(slot, nth);
            EXPECT_EQ(MBR_SYSTEM, world.try_take(kStep, 4 * kUnit, &address)) << slot;
            EXPECT_TRUE(faulty.stop());
            EXPECT_EQ(kUnit, world.committed(kStep));
            EXPECT_EQ(kUnit, world.charged());
        }
        EXPECT_EQ(first + kUnit, world.take(kStep, 4 * kUnit));
        world.put(first + kUnit, std::vector<uint8_t>(4 * kUnit, 1));
        EXPECT_TRUE(world.clean());
    }
}

TEST(Workspace, PressedWhileStepsGoOn_NeverTakesWhatIsTaken)
{
    WorkspaceWorld world;
    std::atomic<bool> done{false};
    std::thread presser([&] {
        while (!done.load())
            mbr_workspace_give(
                world.workspace, mbr_workspace_could_give(world.workspace, 3 * kUnit));
    });
    for (uint64_t step = 0; step < 200; step++) {
        for (uint64_t bytes : {kUnit, 3 * kUnit, step % 7 * kUnit}) {
            uint64_t address = world.take(kStep, bytes);
            if (bytes != 0)
                world.put(address + bytes - 1, {static_cast<uint8_t>(step)});
        }
        world.end(kStep);
    }
    done = true;
    presser.join();
    world.settle();
    EXPECT_EQ(world.committed(kStep), world.charged());
    EXPECT_TRUE(world.clean());
}

} // namespace
} // namespace membrane
