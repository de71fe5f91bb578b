// The client interface over the real host plugin: identities, generations (I22), refused removals
// with counts, growth that keeps address and contents (I9), and books that are empty at the end
// (I18).
#include "tests/unit/bind/host_world.h"

#include "tests/support/faulty/failing.h"

#include <cstdio>
#include <string>
#include <thread>
#include <vector>

namespace membrane
{
namespace
{

std::vector<uint8_t> image(uint64_t bytes, uint8_t seed)
{
    std::vector<uint8_t> made(bytes);
    for (uint64_t i = 0; i < bytes; i += 4096)
        made[i] = static_cast<uint8_t>(seed + i / 4096);
    return made;
}

void fill(HostWorld &world, uint64_t address, uint64_t bytes, uint8_t seed)
{
    world.put(address, image(bytes, seed));
}

bool holds(HostWorld &world, uint64_t address, uint64_t bytes, uint8_t seed)
{
    return world.get(address, bytes) == image(bytes, seed);
}

TEST(Manager, OpenAndClose_LeavesNothing)
{
    HostWorld world;
    EXPECT_TRUE(world.clean());
    EXPECT_EQ(0u, world.books().charged_bytes);
}

TEST(Manager, RangeGrows_AddressAndContentsStay)
{
    HostWorld world;
    auto range = world.reserve(48 * kMiB);
    ASSERT_EQ(MBR_OK, world.grow(range.range, 0, 4 * kMiB));
    fill(world, range.address, 4 * kMiB, 7);
    for (uint64_t step = 1; step < 12; step++) {
        ASSERT_EQ(MBR_OK, world.grow(range.range, 0, (step + 1) * 4 * kMiB)) << world.error.text;
        EXPECT_TRUE(holds(world, range.address, 4 * kMiB, 7));
    }
    fill(world, range.address, 48 * kMiB, 9);
    EXPECT_TRUE(holds(world, range.address, 48 * kMiB, 9));
    EXPECT_EQ(48 * kMiB, world.books().charged_bytes);
    EXPECT_EQ(48 * kMiB, world.figures().owned_bytes);
    EXPECT_EQ(48 * kMiB, world.figures().plugin_owned_bytes);
    EXPECT_TRUE(world.clean());
    EXPECT_EQ(MBR_OK, world.release(range.range));
    EXPECT_EQ(MBR_STALE, world.release(range.range));
    EXPECT_EQ(MBR_STALE, world.grow(range.range, 0, 1));
}

TEST(Manager, FailedGrowth_KeepsWhatWasCommitted)
{
    HostWorld world(16 * kMiB);
    auto range = world.reserve(48 * kMiB);
    ASSERT_EQ(MBR_OK, world.grow(range.range, 0, 12 * kMiB));
    fill(world, range.address, 12 * kMiB, 3);
    EXPECT_EQ(MBR_OVER_BUDGET, world.grow(range.range, 0, 40 * kMiB));
    EXPECT_TRUE(holds(world, range.address, 12 * kMiB, 3));
    EXPECT_EQ(12 * kMiB, world.books().charged_bytes);
    EXPECT_TRUE(world.clean());
    EXPECT_EQ(MBR_OK, world.grow(range.range, 0, 16 * kMiB));
    EXPECT_EQ(MBR_OK, world.release(range.range));
}

TEST(Manager, ReleaseBehindAStream_WaitsForItsWork)
{
    HostWorld world;
    auto range = world.reserve(8 * kMiB);
    ASSERT_EQ(MBR_OK, world.grow(range.range, 0, 8 * kMiB));
    fill(world, range.address, 8 * kMiB, 1);
    struct Look {
        const uint8_t *at;
        uint8_t seen = 0;
    } look{view_of(range.address)};
    Gate gate(world);
    world.submit(
        world.native,
        [](void *context) {
            auto *look = static_cast<Look *>(context);
            look->seen = *look->at;
        },
        &look);
    ASSERT_EQ(MBR_OK, world.release(range.range, false)) << world.error.text;
    mbr_manager_poll(world.manager);
    auto figures = sized<mbr_ep_figures>();
    ASSERT_EQ(MBR_OK, mbr_ep_read(world.manager, world.ep, &figures, &world.error));
    EXPECT_EQ(1u, figures.queued_count);
    EXPECT_EQ(8 * kMiB, world.books().charged_bytes);
    gate.open();
    ASSERT_EQ(MBR_OK, world.drain());
    EXPECT_EQ(1, look.seen); /* the memory was there when the stream came to it */
    EXPECT_EQ(8 * kMiB, world.figures().parked_bytes);
}

TEST(Manager, Prefix_IsOneCopyReadableByAll)
{
    HostWorld world;
    auto source = world.reserve(16 * kMiB);
    ASSERT_EQ(MBR_OK, world.grow(source.range, 0, 8 * kMiB));
    fill(world, source.address, 8 * kMiB, 5);
    mbr_piece piece = {source.range, 0, 7 * kMiB};
    auto request = sized<mbr_prefix_request>();
    request.holder = world.holder;
    request.pieces = &piece;
    request.piece_count = 1;
    auto prefix = sized<mbr_prefix_result>();
    ASSERT_EQ(MBR_OK, mbr_prefix_create(world.manager, &request, &prefix, &world.error))
        << world.error.text;
    EXPECT_EQ(6 * kMiB, prefix.shared_bytes);
    EXPECT_EQ(1 * kMiB, prefix.boundary_bytes);
    std::vector<mbr_range_handle> sharers;
    for (int i = 0; i < 5; i++) {
        auto sharer = world.reserve(16 * kMiB);
        auto attach = sized<mbr_prefix_attach_request>();
        attach.prefix = prefix.prefix;
        attach.holder = world.holder;
        attach.targets = &sharer.range;
        attach.target_count = 1;
        auto attached = sized<mbr_prefix_attach_result>();
        ASSERT_EQ(MBR_OK, mbr_prefix_attach(world.manager, &attach, &attached, &world.error))
            << world.error.text;
        EXPECT_TRUE(holds(world, sharer.address, 6 * kMiB, 5));
        sharers.push_back(sharer.range);
    }
    EXPECT_EQ(8 * kMiB, world.figures().owned_bytes);
    EXPECT_TRUE(world.clean());
    EXPECT_EQ(MBR_OK, world.release(source.range));
    EXPECT_EQ(MBR_OK, mbr_prefix_release(world.manager, prefix.prefix, &world.error));
    EXPECT_EQ(MBR_STALE, mbr_prefix_release(world.manager, prefix.prefix, &world.error));
    EXPECT_TRUE(world.clean());
    for (mbr_range_handle sharer : sharers)
        EXPECT_EQ(MBR_OK, world.release(sharer));
}

TEST(Binding, Switch_OldHandleIsStaleAndOldMemoryGoesHome)
{
    HostWorld world;
    auto range = world.reserve(8 * kMiB);
    auto allocation = world.alloc(1000);
    ASSERT_EQ(MBR_OK, world.grow(range.range, 0, 2 * kMiB));
    auto request = world.bind_request();
    request.isolation_group = 1;
    mbr_binding_handle old = world.binding, next;
    ASSERT_EQ(MBR_OK, mbr_manager_switch(world.manager, old, &request, &next, &world.error));
    EXPECT_NE(old.value, next.value);
    mbr_binding_handle newest = next;
    auto reserve = sized<mbr_range_reserve_request>();
    reserve.binding = old;
    reserve.bytes = kMiB;
    auto refused = sized<mbr_range_reserve_result>();
    EXPECT_EQ(MBR_STALE, mbr_range_reserve(world.manager, &reserve, &refused, &world.error));
    mbr_status status;
    world.alloc(1000, &status);
    EXPECT_EQ(MBR_STALE, status);
    EXPECT_EQ(MBR_STALE, mbr_manager_switch(world.manager, old, &request, &next, &world.error));
    ASSERT_EQ(0u, next.value);
    /* What came from the old generation still grows and goes home. */
    EXPECT_EQ(MBR_OK, world.grow(range.range, 0, 4 * kMiB)) << world.error.text;
    EXPECT_TRUE(world.clean());
    EXPECT_EQ(MBR_OK, world.free_now(allocation.allocation));
    EXPECT_EQ(MBR_OK, world.release(range.range));
    world.binding = newest; /* the world ends it, and the older generation with it */
}

/* A heap that uses no address twice, so that no holder stands where another one stood. */
struct HoardingHeap {
    mbr_heap heap;
    std::vector<void *> hoard;
    HoardingHeap()
    {
        heap.allocate = [](void *, size_t bytes) { return std::calloc(1, bytes); };
        heap.release = [](void *context, void *memory) {
            static_cast<HoardingHeap *>(context)->hoard.push_back(memory);
        };
        heap.context = this;
    }
    ~HoardingHeap()
    {
        for (void *memory : hoard)
            std::free(memory);
    }
};

TEST(Manager, MoreHoldersInTurnThanABindingKnows_TheirPlacesAreUsedAgain)
{
    HoardingHeap heap;
    mbr_manager_seams seams = {&heap.heap, nullptr, nullptr, nullptr, nullptr};
    HostWorld world(64 * kMiB, &seams);
    auto next = world.bind_request();
    mbr_binding_handle older = world.binding;
    auto kept = world.alloc(1000);
    ASSERT_EQ(
        MBR_OK, mbr_manager_switch(world.manager, older, &next, &world.binding, &world.error));
    for (int i = 0; i < 1100; i++) { /* above the 1024 of a binding */
        std::string name = "h" + std::to_string(i);
        auto request = world.holder_request(MBR_ROLE_WORKSPACE, name.c_str());
        mbr_holder_handle holder, first = world.holder;
        ASSERT_EQ(
            MBR_OK, mbr_manager_create_holder(world.manager, &request, &holder, &world.error));
        world.holder = holder;
        mbr_status status;
        auto block = world.alloc(1000, &status);
        ASSERT_EQ(MBR_OK, status) << i << ": " << world.error.text;
        ASSERT_EQ(MBR_OK, world.free_now(block.allocation));
        ASSERT_EQ(MBR_OK, mbr_manager_destroy_holder(world.manager, holder, &world.error));
        world.holder = first;
    }
    EXPECT_EQ(MBR_OK, world.free_now(kept.allocation));
    EXPECT_TRUE(world.clean());
}

TEST(Manager, RemovalOfWhatIsReferredTo_IsRefusedWithCounts)
{
    HostWorld world;
    auto said = [&](const char *words) { return std::strstr(world.error.text, words) != nullptr; };
    auto range = world.reserve(8 * kMiB);
    EXPECT_EQ(MBR_IN_USE, mbr_manager_close_plugin(world.manager, world.plugin, &world.error));
    EXPECT_TRUE(said("1 mechanisms")) << world.error.text;
    EXPECT_EQ(
        MBR_IN_USE, mbr_manager_close_mechanism(world.manager, world.mechanism, &world.error));
    EXPECT_TRUE(said("1 bindings, ")) << world.error.text;
    EXPECT_EQ(
        MBR_IN_USE, mbr_manager_destroy_authority(world.manager, world.authority, &world.error));
    EXPECT_TRUE(said("1 holders and 1 bindings")) << world.error.text;
    EXPECT_EQ(MBR_IN_USE, mbr_ep_destroy(world.manager, world.ep, kNever, &world.error));
    EXPECT_TRUE(said("1 bindings, 1 streams, 0 open captures and 0 graphs")) << world.error.text;
    EXPECT_EQ(MBR_IN_USE, mbr_manager_unbind(world.manager, world.binding, &world.error));
    EXPECT_TRUE(said("1 ranges or prefixes and 0 allocations live, 0 are queued"))
        << world.error.text;
    EXPECT_EQ(MBR_IN_USE, mbr_manager_destroy(world.manager, &world.error));
    EXPECT_TRUE(said("1 plugins, 1 EPs, 1 bindings, 1 ranges, 0 prefixes, 1 authorities"));
    ASSERT_EQ(MBR_OK, world.grow(range.range, 0, kMiB));
    EXPECT_EQ(MBR_IN_USE, mbr_manager_destroy_holder(world.manager, world.holder, &world.error));
    EXPECT_EQ(MBR_OK, world.release(range.range));
}

// Code stays while a release is queued (I3): nothing below the queue can be closed, whoever is
// asked.
TEST(Manager, ReleasesThatAreQueued_HoldEverythingBelowThemOpen)
{
    HostWorld world;
    Gate gate(world);
    auto range = world.reserve(8 * kMiB);
    ASSERT_EQ(MBR_OK, world.grow(range.range, 0, kMiB));
    ASSERT_EQ(MBR_OK, world.release(range.range, false));
    auto block = world.alloc(4096);
    ASSERT_EQ(MBR_OK, world.free_queued(block.allocation));
    uint64_t calls = world.figures().call_count;
    EXPECT_EQ(MBR_IN_USE, mbr_manager_unbind(world.manager, world.binding, &world.error));
    EXPECT_EQ(MBR_IN_USE, mbr_ep_destroy(world.manager, world.ep, 0, &world.error));
    EXPECT_EQ(
        MBR_IN_USE, mbr_manager_close_mechanism(world.manager, world.mechanism, &world.error));
    EXPECT_EQ(MBR_IN_USE, mbr_manager_close_plugin(world.manager, world.plugin, &world.error));
    EXPECT_EQ(MBR_IN_USE, mbr_manager_destroy(world.manager, &world.error));
    auto figures = sized<mbr_ep_figures>();
    ASSERT_EQ(MBR_OK, mbr_ep_read(world.manager, world.ep, &figures, &world.error));
    EXPECT_EQ(2u, figures.queued_count);
    EXPECT_GE(figures.pin_count, 2u);
    EXPECT_GE(world.figures().call_count, calls) << "it still answers";
    gate.open();
    EXPECT_EQ(MBR_OK, world.drain());
}

// Who frees at once what was given again knows of his own work alone.
TEST(Manager, GivenAgainAndFreedNow_GoesToOthersAfterTheOldWork)
{
    HostWorld world;
    Gate gate(world);
    auto request = sized<mbr_alloc_request>();
    request.binding = world.binding;
    request.holder = world.holder;
    request.stream = world.stream;
    request.bytes = 16 * kMiB;
    auto first = sized<mbr_alloc_result>(), again = sized<mbr_alloc_result>();
    EXPECT_EQ(MBR_OK, mbr_alloc(world.manager, &request, &first, &world.error));
    auto behind = sized<mbr_free_request>();
    behind.allocation = first.allocation;
    EXPECT_EQ(MBR_OK, mbr_free(world.manager, &behind, &world.error));
    EXPECT_EQ(MBR_OK, mbr_alloc(world.manager, &request, &again, &world.error));
    EXPECT_EQ(first.address, again.address);
    EXPECT_EQ(MBR_OK, world.free_now(again.allocation)) << world.error.text;
    mbr_manager_poll(world.manager);
    request.stream = {0};
    auto other = sized<mbr_alloc_result>();
    EXPECT_EQ(MBR_OK, mbr_alloc(world.manager, &request, &other, &world.error));
    EXPECT_NE(again.address, other.address);
    gate.open();
    EXPECT_EQ(MBR_OK, world.drain());
    EXPECT_EQ(MBR_OK, world.free_now(other.allocation));
    EXPECT_TRUE(world.clean());
}

// The end of an EP: retired, it takes nothing new and its frees go on; it is destroyed once its
// queue is drained, and a deadline that passes leaves everything as it was.
TEST(Manager, RetiredEp_FreesGoOnUntilItIsDrainedAndDestroyed)
{
    HostWorld world;
    mbr_native native = world.make_stream();
    auto request = world.ep_request("further");
    mbr_ep_handle ep = {};
    ASSERT_EQ(MBR_OK, mbr_ep_create(world.manager, &request, &ep, &world.error));
    mbr_stream_handle stream = {};
    ASSERT_EQ(MBR_OK, mbr_ep_attach_stream(world.manager, ep, native, &stream, &world.error));
    auto bind = world.bind_request();
    bind.ep = ep;
    mbr_binding_handle binding = {};
    ASSERT_EQ(MBR_OK, mbr_manager_bind(world.manager, &bind, &binding, &world.error));
    auto ask = sized<mbr_alloc_request>();
    ask.binding = binding;
    ask.holder = world.holder;
    ask.stream = stream;
    ask.bytes = kMiB;
    auto block = sized<mbr_alloc_result>(), refused = sized<mbr_alloc_result>();
    ASSERT_EQ(MBR_OK, mbr_alloc(world.manager, &ask, &block, &world.error));
    Gate gate(world, native);
    ASSERT_EQ(MBR_OK, mbr_ep_retire(world.manager, ep, &world.error));
    EXPECT_EQ(MBR_BUSY, mbr_alloc(world.manager, &ask, &refused, &world.error));
    auto give = sized<mbr_free_request>();
    give.allocation = block.allocation;
    EXPECT_EQ(MBR_OK, mbr_free(world.manager, &give, &world.error));
    EXPECT_EQ(MBR_BUSY, mbr_alloc(world.manager, &ask, &refused, &world.error))
        << "also what waits is not taken again";
    EXPECT_EQ(MBR_TIMED_OUT, mbr_ep_drain(world.manager, ep, 0, &world.error));
    EXPECT_EQ(MBR_IN_USE, mbr_manager_unbind(world.manager, binding, &world.error));
    gate.open();
    EXPECT_EQ(MBR_OK, mbr_ep_drain(world.manager, ep, kNever, &world.error));
    EXPECT_EQ(MBR_OK, mbr_manager_unbind(world.manager, binding, &world.error));
    EXPECT_EQ(MBR_OK, mbr_ep_detach_stream(world.manager, stream, &world.error));
    EXPECT_EQ(MBR_OK, mbr_ep_destroy(world.manager, ep, kNever, &world.error));
    EXPECT_EQ(MBR_STALE, mbr_ep_drain(world.manager, ep, kNever, &world.error));
    world.end_stream(native);
}

// The world's end is the test: every object is closed once, and nothing refers to the instance.
TEST(Manager, MechanismWhoseCloseAnswersWhatIsForbidden_IsGivenUpOnce)
{
    faulty_plan plan = {};
    plan.fail_from[FAULTY_CLOSE] = 1;
    plan.fail_count[FAULTY_CLOSE] = 1;
    char text[24];
    std::snprintf(text, sizeof(text), "%llx",
        static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(&plan)));
    {
        HostWorld world(
            64 * kMiB, nullptr, "tests/support/libmembrane-faulty.so", {{"faults", text}});
        world.free_now(world.alloc(1000).allocation);
    }
    EXPECT_EQ(1u, plan.met);
}

TEST(Manager, ForeignAndUnknownHandles_AreRefused)
{
    HostWorld world;
    HostWorld other;
    mbr_status status;
    mbr_range_handle nothing = {0}, garbage = {UINT64_C(0xDEADBEEFDEADBEEF)};
    EXPECT_EQ(MBR_UNKNOWN_OBJECT, world.release(nothing));
    EXPECT_EQ(MBR_UNKNOWN_OBJECT, world.release(garbage));
    auto request = sized<mbr_free_request>();
    EXPECT_EQ(MBR_UNKNOWN_OBJECT, mbr_free(world.manager, &request, &world.error));
    auto allocation = world.alloc(100, &status);
    ASSERT_EQ(MBR_OK, status);
    EXPECT_NE(MBR_OK, other.free_now(allocation.allocation));
    EXPECT_EQ(MBR_OK, world.free_now(allocation.allocation));
    EXPECT_NE(MBR_OK, world.free_now(allocation.allocation));
}

TEST(Manager, TrimAfterRelease_GivesTheSystemItsBytesBack)
{
    HostWorld world;
    auto range = world.reserve(32 * kMiB);
    ASSERT_EQ(MBR_OK, world.grow(range.range, 0, 32 * kMiB));
    ASSERT_EQ(MBR_OK, world.release(range.range));
    EXPECT_EQ(32 * kMiB, world.figures().owned_bytes);
    uint64_t released = 0;
    ASSERT_EQ(MBR_OK,
        mbr_manager_trim(world.manager, world.mechanism, 8 * kMiB, &released, &world.error));
    EXPECT_EQ(24 * kMiB, released);
    EXPECT_EQ(8 * kMiB, world.figures().plugin_owned_bytes);
    EXPECT_TRUE(world.clean());
}

// What is given back beside others' bytes takes none of them along.
TEST(Manager, UnalignedTailIsDecommitted_WhatIsBeforeItKeepsItsContents)
{
    HostWorld world;
    auto range = world.reserve(8 * kMiB, 2 * kMiB);
    ASSERT_EQ(MBR_OK, world.grow(range.range, 0, 6 * kMiB));
    fill(world, range.address, 6 * kMiB, 7);
    auto request = sized<mbr_range_release_request>();
    request.flags = MBR_FREE_NOW;
    request.piece = {range.range, 3 * kMiB, 3 * kMiB};
    auto result = sized<mbr_range_decommit_result>();
    ASSERT_EQ(MBR_OK, mbr_range_decommit(world.manager, &request, &result, &world.error));
    EXPECT_EQ(2 * kMiB, result.decommitted_bytes);
    EXPECT_EQ(kMiB, result.kept_bytes);
    EXPECT_EQ(MBR_OK, mbr_manager_trim(world.manager, world.mechanism, 0, nullptr, &world.error));
    EXPECT_EQ(4 * kMiB, world.figures().plugin_owned_bytes);
    EXPECT_TRUE(holds(world, range.address, 4 * kMiB, 7));
    EXPECT_EQ(MBR_OK, world.release(range.range));
}

TEST(Manager, TwoAllocationsInOneGranule_TheOtherKeepsItsContents)
{
    HostWorld world;
    mbr_alloc_result first = world.alloc(1000), second = world.alloc(1000);
    ASSERT_EQ(first.address / 4096, second.address / 4096) << "the smallest granule there is";
    fill(world, first.address, 1000, 7);
    fill(world, second.address, 1000, 9);
    EXPECT_EQ(MBR_OK, world.free_now(first.allocation));
    EXPECT_EQ(MBR_OK, mbr_manager_trim(world.manager, world.mechanism, 0, nullptr, &world.error));
    EXPECT_TRUE(holds(world, second.address, 1000, 9));
    EXPECT_EQ(MBR_OK, world.free_now(second.allocation));
    EXPECT_EQ(MBR_OK, mbr_manager_trim(world.manager, world.mechanism, 0, nullptr, &world.error));
    EXPECT_EQ(0u, world.figures().plugin_owned_bytes);
}

TEST(Manager, IsolationGroups_NeverShowEachOthersBytes)
{
    HostWorld world;
    auto request = world.bind_request();
    request.isolation_group = 9;
    mbr_binding_handle other;
    ASSERT_EQ(MBR_OK, mbr_manager_bind(world.manager, &request, &other, &world.error));
    auto range = world.reserve(32 * kMiB);
    ASSERT_EQ(MBR_OK, world.grow(range.range, 0, 16 * kMiB));
    fill(world, range.address, 16 * kMiB, 0xA5);
    ASSERT_EQ(MBR_OK, world.release(range.range));
    uint64_t owned = world.figures().owned_bytes;
    mbr_binding_handle mine = world.binding;
    world.binding = other;
    auto theirs = world.reserve(32 * kMiB);
    ASSERT_EQ(MBR_OK, world.grow(theirs.range, 0, 16 * kMiB)) << world.error.text;
    EXPECT_EQ(owned, world.figures().owned_bytes); /* the same extents, filled in between */
    EXPECT_EQ(world.get(theirs.address, 16 * kMiB), std::vector<uint8_t>(16 * kMiB));
    ASSERT_EQ(MBR_OK, world.release(theirs.range));
    world.binding = mine;
    EXPECT_EQ(MBR_OK, mbr_manager_unbind(world.manager, other, &world.error)) << world.error.text;
}

/* Creating a whole manager and using it, with each heap call failing in turn: an error, and nothing
 * is left. */
TEST(Manager, HeapFailsAtEachCallInUse_TheNextAttemptWorks)
{
    for (uint64_t at = 1; at < 200; at++) {
        FailingHeap heap;
        mbr_manager_seams seams = {&heap.heap, nullptr, nullptr, nullptr, nullptr};
        bool met;
        {
            HostWorld world(64 * kMiB, &seams);
            heap.fail_at = heap.calls + at;
            auto reserve = sized<mbr_range_reserve_request>();
            reserve.binding = world.binding;
            reserve.bytes = 8 * kMiB;
            auto range = sized<mbr_range_reserve_result>();
            mbr_status status = mbr_range_reserve(world.manager, &reserve, &range, &world.error);
            if (status == MBR_OK)
                status = world.grow(range.range, 0, 2 * kMiB);
            mbr_status allocated = MBR_OK;
            mbr_alloc_result allocation = {};
            if (status == MBR_OK)
                allocation = world.alloc(5000, &allocated);
            met = heap.calls >= heap.fail_at;
            heap.fail_at = 0;
            /* A call that can do without may also succeed: a thread's tally, say. */
            EXPECT_TRUE(met || (status == MBR_OK && allocated == MBR_OK)) << at;
            EXPECT_TRUE(world.clean()) << at;
            if (range.range.value != 0) {
                EXPECT_EQ(MBR_OK, world.release(range.range));
            }
            if (allocation.allocation.value != 0) {
                EXPECT_EQ(MBR_OK, world.free_now(allocation.allocation));
            }
        }
        EXPECT_EQ(0, heap.live) << at;
        if (!met)
            return;
    }
    FAIL() << "the sweep has no end";
}

TEST(Manager, HeapFailsAtEachCallOfCreate_NothingIsLeft)
{
    for (uint64_t at = 1; at < 50; at++) {
        FailingHeap heap;
        heap.fail_at = at;
        mbr_manager_seams seams = {&heap.heap, nullptr, nullptr, nullptr, nullptr};
        auto options = sized<mbr_manager_options>();
        options.plugin_path = "/nowhere";
        mbr_manager *manager = nullptr;
        mbr_status status = mbr_manager_create_with_seams(&options, &seams, &manager, nullptr);
        bool met = heap.calls >= at;
        EXPECT_EQ(met ? MBR_OUT_OF_HOST_MEMORY : MBR_OK, status);
        if (manager != nullptr) {
            EXPECT_EQ(MBR_OK, mbr_manager_destroy(manager, nullptr));
        }
        EXPECT_EQ(0, heap.live) << at;
        if (!met)
            return;
    }
    FAIL() << "the sweep has no end";
}

TEST(Manager, EightThreadsOfRangesAndAllocations_BooksAreEmptyAtTheEnd)
{
    HostWorld world(256 * kMiB);
    std::vector<std::thread> threads;
    std::atomic<uint64_t> wrong{0};
    for (int t = 0; t < 8; t++) {
        threads.emplace_back([&world, &wrong, t] {
            auto error = sized<mbr_error>();
            for (int round = 0; round < 30; round++) {
                auto reserve = sized<mbr_range_reserve_request>();
                reserve.binding = world.binding;
                reserve.bytes = 8 * kMiB;
                reserve.growth = {256 * 1024, 256 * 1024, 0};
                auto range = sized<mbr_range_reserve_result>();
                wrong += mbr_range_reserve(world.manager, &reserve, &range, &error) != MBR_OK;
                mbr_piece piece = {range.range, 0, static_cast<uint64_t>(1 + round % 4) << 18};
                auto grow = sized<mbr_range_grow_request>();
                grow.holder = world.holder;
                grow.pieces = &piece;
                grow.piece_count = 1;
                auto grown = sized<mbr_range_grow_result>();
                wrong += mbr_range_grow(world.manager, &grow, &grown, &error) != MBR_OK;
                fill(world, range.address, piece.bytes, static_cast<uint8_t>(t));
                auto request = sized<mbr_alloc_request>();
                request.binding = world.binding;
                request.holder = world.holder;
                request.stream = world.stream;
                request.bytes = static_cast<uint64_t>(64 + round * 97);
                auto allocation = sized<mbr_alloc_result>();
                wrong += mbr_alloc(world.manager, &request, &allocation, &error) != MBR_OK;
                world.put(allocation.address, std::vector<uint8_t>(request.bytes));
                wrong += !holds(world, range.address, piece.bytes, static_cast<uint8_t>(t));
                auto release = sized<mbr_range_release_request>();
                release.piece.range = range.range;
                release.streams = &world.stream;
                release.stream_count = 1;
                wrong += mbr_range_release(world.manager, &release, &error) != MBR_OK;
                auto free_request = sized<mbr_free_request>();
                free_request.allocation = allocation.allocation;
                wrong += mbr_free(world.manager, &free_request, &error) != MBR_OK;
                mbr_manager_poll(world.manager);
            }
        });
    }
    for (auto &thread : threads)
        thread.join();
    EXPECT_EQ(0u, wrong.load());
    ASSERT_EQ(MBR_OK, world.drain());
    EXPECT_TRUE(world.clean());
    auto figures = sized<mbr_holder_figures>();
    ASSERT_EQ(MBR_OK, mbr_manager_read_holder(world.manager, world.holder, &figures, &world.error));
    EXPECT_EQ(0u, figures.charged_bytes);
    EXPECT_EQ(0u, figures.mapped_bytes);
}

} // namespace
} // namespace membrane
