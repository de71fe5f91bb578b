/* Rule 25 for instances: however many threads close one mechanism, the plugin's quiesce and close
 * are called by one of them alone. And what keeps from being closed: a leak nothing, a release that
 * waits in the queue what it is of. */
#include "tests/support/faulty/faults.h"
#include "tests/unit/bind/host_world.h"
#include "tests/unit/loader/specimen.h"
#include "tests/unit/loader/support.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <string>
#include <thread>
#include <vector>

namespace membrane
{
namespace
{

constexpr char kSpecimen[] = "tests/unit/loader/specimen_good.so";
constexpr int kThreads = 4, kRounds = 50;

struct Plugin {
    Plugin()
    {
        auto options = sized<mbr_manager_options>();
        EXPECT_EQ(MBR_OK, mbr_manager_create(&options, &manager, &error)) << error.text;
        auto open = sized<mbr_plugin_open_request>();
        open.name = kSpecimen;
        open.flags = MBR_PLUGIN_TRUSTED;
        EXPECT_EQ(MBR_OK, mbr_manager_open_plugin(manager, &open, &plugin, &error)) << error.text;
        void *file = dlopen(kSpecimen, RTLD_NOW | RTLD_NOLOAD);
        counts = static_cast<specimen_counts *>(dlsym(file, "specimen_count"));
        dlclose(file);
    }
    ~Plugin()
    {
        EXPECT_EQ(MBR_OK, mbr_manager_close_plugin(manager, plugin, &error)) << error.text;
        EXPECT_EQ(MBR_OK, mbr_manager_destroy(manager, &error)) << error.text;
    }
    mbr_mechanism_handle open()
    {
        auto request = sized<mbr_mechanism_open_request>();
        request.plugin = plugin;
        mbr_mechanism_handle mechanism = {};
        EXPECT_EQ(MBR_OK, mbr_manager_open_mechanism(manager, &request, &mechanism, &error))
            << error.text;
        return mechanism;
    }

    mbr_error error = sized<mbr_error>();
    mbr_manager *manager = nullptr;
    mbr_plugin_handle plugin = {};
    specimen_counts *counts = nullptr;
};

TEST(Close, OfThePluginFromManyThreads_IsOneClose)
{
    mbr_error error = sized<mbr_error>();
    auto options = sized<mbr_manager_options>();
    mbr_manager *manager = nullptr;
    ASSERT_EQ(MBR_OK, mbr_manager_create(&options, &manager, &error)) << error.text;
    auto open = sized<mbr_plugin_open_request>();
    open.name = kSpecimen;
    open.flags = MBR_PLUGIN_TRUSTED;
    for (uint64_t round = 1; round <= kRounds; round++) {
        mbr_plugin_handle plugin = {};
        ASSERT_EQ(MBR_OK, mbr_manager_open_plugin(manager, &open, &plugin, &error)) << error.text;
        std::atomic<int> ready{0}, closed{0}, stale{0};
        std::vector<std::thread> threads;
        for (int i = 0; i < kThreads; i++) {
            threads.emplace_back([&] {
                for (ready++; ready != kThreads;) {
                }
                mbr_status status = mbr_manager_close_plugin(manager, plugin, nullptr);
                closed += status == MBR_OK;
                stale += status == MBR_STALE;
            });
        }
        for (std::thread &thread : threads)
            thread.join();
        ASSERT_EQ(1, closed);
        ASSERT_EQ(kThreads - 1, stale);
    }
    EXPECT_EQ(MBR_OK, mbr_manager_destroy(manager, &error)) << error.text;
}

TEST(Close, FromManyThreads_IsOneCloseOfTheInstance)
{
    Plugin plugin;
    ASSERT_NE(nullptr, plugin.counts);
    for (uint64_t round = 1; round <= kRounds; round++) {
        mbr_mechanism_handle mechanism = plugin.open();
        std::atomic<int> ready{0}, closed{0}, refused{0};
        std::vector<std::thread> threads;
        for (int i = 0; i < kThreads; i++) {
            threads.emplace_back([&] {
                for (ready++; ready != kThreads;) {
                }
                mbr_status status = mbr_manager_close_mechanism(plugin.manager, mechanism, nullptr);
                closed += status == MBR_OK;
                /* Meanwhile closed by another thread, or about to be. */
                refused += MBR_STATUS_CLASS(status) == MBR_CLASS_CALLER;
            });
        }
        for (std::thread &thread : threads)
            thread.join();
        ASSERT_EQ(1, closed);
        ASSERT_EQ(kThreads - 1, refused);
        ASSERT_EQ(round, plugin.counts->quiesces);
        ASSERT_EQ(round, plugin.counts->closes);
        ASSERT_EQ(0u, plugin.counts->live);
    }
}

/* The host has no memory for a mechanism that is open already, and the plugin refuses to close it.
 */
TEST(Close, OfWhatIsRefusedAfterItsOpenFails_IsGivenUpAndThePluginCanBeClosed)
{
    for (uint64_t nth = 1;; nth++) {
        CountedHeap heap;
        mbr_manager_seams seams = {&heap.heap, nullptr, nullptr, nullptr, nullptr};
        mbr_manager *manager;
        auto options = sized<mbr_manager_options>();
        auto error = sized<mbr_error>();
        ASSERT_EQ(MBR_OK, mbr_manager_create_with_seams(&options, &seams, &manager, &error));
        auto open = sized<mbr_plugin_open_request>();
        open.name = kSpecimen;
        open.flags = MBR_PLUGIN_TRUSTED;
        auto request = sized<mbr_mechanism_open_request>();
        ASSERT_EQ(MBR_OK, mbr_manager_open_plugin(manager, &open, &request.plugin, &error));
        mbr_mechanism_handle mechanism;
        heap.fail_at = heap.call_count + nth;
        mbr_status status;
        {
            Fault fault("report-fails");
            status = mbr_manager_open_mechanism(manager, &request, &mechanism, &error);
        }
        heap.fail_at = 0;
        if (status == MBR_OK) {
            EXPECT_EQ(MBR_OK, mbr_manager_close_mechanism(manager, mechanism, &error));
        }
        EXPECT_EQ(MBR_OK, mbr_manager_close_plugin(manager, request.plugin, &error)) << nth;
        EXPECT_EQ(MBR_OK, mbr_manager_destroy(manager, &error)) << error.text;
        if (status == MBR_OK) {
            EXPECT_LE(4u, nth);
            return;
        }
        EXPECT_EQ(MBR_OUT_OF_HOST_MEMORY, status);
    }
}

// The books outlive the manager, in reach of a leak checker.
std::vector<void *> &books_blocks = *new std::vector<void *>;
const mbr_heap kBooksHeap = {[](void *, size_t bytes) -> void * {
                                 books_blocks.push_back(std::calloc(1, bytes));
                                 return books_blocks.back();
                             },
    [](void *, void *block) {
        books_blocks.erase(
            std::remove(books_blocks.begin(), books_blocks.end(), block), books_blocks.end());
        std::free(block);
    },
    nullptr};

TEST(Close, AfterALeakUnderAnAuthorityThatMeasures_EverythingButTheAuthorityCloses)
{
    faulty_plan plan = {};
    plan.status = MBR_SYSTEM;
    char text[24];
    std::snprintf(text, sizeof(text), "%llx",
        static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(&plan)));
    mbr_manager_seams seams = {&kBooksHeap, nullptr, nullptr, nullptr, nullptr};
    HostWorld world(64 * kMiB, &seams, "tests/support/libmembrane-faulty.so", {{"faults", text}});
    auto request = sized<mbr_authority_request>();
    request.tier = world.tier();
    request.name = "measuring";
    request.limit_bytes = 64 * kMiB;
    request.measured = world.mechanism;
    mbr_authority_handle measuring = {}, first_authority = world.authority;
    ASSERT_EQ(
        MBR_OK, mbr_manager_create_authority(world.manager, &request, &measuring, &world.error))
        << world.error.text;
    auto holder_request = world.holder_request(MBR_ROLE_KV, "of it");
    holder_request.authority = measuring;
    mbr_holder_handle first_holder = world.holder;
    mbr_binding_handle first_binding = world.binding;
    ASSERT_EQ(MBR_OK,
        mbr_manager_create_holder(world.manager, &holder_request, &world.holder, &world.error));
    world.authority = measuring;
    auto bind = world.bind_request();
    ASSERT_EQ(MBR_OK, mbr_manager_bind(world.manager, &bind, &world.binding, &world.error));
    mbr_range_handle range = world.reserve(8 * kMiB).range;
    ASSERT_EQ(MBR_OK, world.grow(range, 0, kMiB)) << world.error.text;
    ASSERT_EQ(MBR_OK, world.release(range));
    plan.fail_from[FAULTY_UNMAP] = 1;
    plan.fail_count[FAULTY_UNMAP] = UINT64_MAX;
    EXPECT_EQ(MBR_RESIDUAL, mbr_manager_unbind(world.manager, world.binding, &world.error));
    EXPECT_EQ(MBR_OK, mbr_manager_destroy_holder(world.manager, world.holder, &world.error));
    EXPECT_EQ(MBR_IN_USE, mbr_manager_destroy_authority(world.manager, measuring, &world.error));
    EXPECT_EQ(MBR_IN_USE, mbr_manager_destroy_authority(world.manager, measuring, &world.error));
    world.authority = first_authority;
    world.holder = first_holder;
    world.binding = first_binding;
} /* the world's end closes the mechanism, the plugin and the manager */

TEST(Close, ReleaseOfTheOnlyRangeThatIsQueued_HoldsItsBindingOpen)
{
    HostWorld world;
    Gate gate(world);
    auto range = world.reserve(8 * kMiB);
    ASSERT_EQ(MBR_OK, world.grow(range.range, 0, kMiB));
    ASSERT_EQ(MBR_OK, world.release(range.range, false));
    EXPECT_EQ(MBR_IN_USE, mbr_manager_unbind(world.manager, world.binding, &world.error));
    EXPECT_NE(std::string(world.error.text).find("1 are queued"), std::string::npos);
    gate.open();
    EXPECT_EQ(MBR_OK, world.drain());
    EXPECT_TRUE(world.clean());
}

// A decommit is queued, and then the end of its range, which waits for it.
TEST(Close, ReleaseThatWaitsForADecommit_HoldsItsBindingOpen)
{
    HostWorld world;
    Gate gate(world);
    auto range = world.reserve(8 * kMiB);
    ASSERT_EQ(MBR_OK, world.grow(range.range, 0, 8 * kMiB));
    auto part = sized<mbr_range_release_request>();
    part.piece = {range.range, 0, 8 * kMiB};
    part.streams = &world.stream;
    part.stream_count = 1;
    auto result = sized<mbr_range_decommit_result>();
    ASSERT_EQ(MBR_OK, mbr_range_decommit(world.manager, &part, &result, &world.error));
    ASSERT_EQ(8 * kMiB, result.decommitted_bytes);
    ASSERT_EQ(MBR_OK, world.release(range.range, true));
    EXPECT_EQ(MBR_IN_USE, mbr_manager_unbind(world.manager, world.binding, &world.error));
    gate.open();
    EXPECT_EQ(MBR_OK, world.drain());
    EXPECT_TRUE(world.clean());
}

} // namespace
} // namespace membrane
