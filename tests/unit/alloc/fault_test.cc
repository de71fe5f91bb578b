// Every call that can fail, failed: each allocation of the heap, each span, a mechanism that
// answers nonsense. The status is documented, the books are equal, and the same work then succeeds.
#include "tests/unit/alloc/world.h"

#include <thread>
#include <vector>

namespace alloc_test
{
namespace
{

const std::vector<Request> &Work()
{
    static const std::vector<Request> work = {{100}, {100}, {4096, 64 * kKiB}, {3 * kMiB},
        {65 * kMiB}, {64 * kMiB, 4 * kMiB}, {20000, 0, kStream, MBR_ALLOC_ZEROED, 3}, {0}};
    return work;
}

// Allocates everything, frees every second at once and the others through the queue; counts what
// was refused.
int DoWork(World *world, mbr_status *status)
{
    int refused = 0;
    std::vector<mbr_allocation_handle> handles;
    for (const Request &wanted : Work())
        for (mbr_holder *holder : {world->kv, world->weights}) {
            Request request = wanted;
            request.holder = holder;
            mbr_alloc_result result = {};
            mbr_error error = NewError();
            mbr_status answer = world->TryAlloc(request, &result, &error);
            if (answer == MBR_OK) {
                handles.push_back(result.allocation);
                continue;
            }
            refused++;
            *status = answer;
            EXPECT_EQ(result.allocation.value, 0u);
            EXPECT_EQ(error.status, answer);
            EXPECT_TRUE(world->Agree());
        }
    EXPECT_TRUE(world->Agree());
    for (size_t i = 0; i < handles.size(); i++)
        EXPECT_EQ(
            i % 2 == 0 ? world->Free(handles[i]) : world->FreeAfter(handles[i], {kStream}), MBR_OK);
    world->context.reap();
    EXPECT_TRUE(world->Agree());
    EXPECT_EQ(world->Charged(world->kv) + world->Charged(world->weights), 0u);
    return refused;
}

TEST(ArenaFault, Heap_EveryAllocationOnce_RefusesOneCallAndLeavesTheBooksEqual)
{
    const uint64_t first = World().heap.calls + 1;
    int refused_calls = 0;
    for (uint64_t fail_at = first;; fail_at++) {
        SCOPED_TRACE(fail_at);
        World world;
        world.heap.fail_at = fail_at;
        mbr_status status = MBR_OK;
        int refused = DoWork(&world, &status);
        EXPECT_LE(refused, 1);
        EXPECT_EQ(status, refused != 0 ? MBR_OUT_OF_HOST_MEMORY : MBR_OK);
        refused_calls += refused;
        if (world.heap.calls < fail_at) { // one page more or less of the address map each time
            EXPECT_GE(fail_at - first, 16u);
            EXPECT_EQ(refused, 0);
            break;
        }
        EXPECT_EQ(DoWork(&world, &status), 0) << "the same work then succeeds";
    }
    EXPECT_GE(refused_calls, 12) << "most sites cannot be done without";
}

TEST(ArenaFault, Heap_ExhaustedForGood_RefusesWhatNeedsItAndFreesAll)
{
    World world;
    mbr_status status = MBR_OK;
    world.heap.fail_all = true;
    EXPECT_EQ(DoWork(&world, &status), static_cast<int>(Work().size() * 2));
    EXPECT_EQ(status, MBR_OUT_OF_HOST_MEMORY);
    world.heap.fail_all = false;
    EXPECT_EQ(DoWork(&world, &status), 0);
}

TEST(ArenaFault, Heap_ExhaustedInAThreadThatOnlyFrees_StillFrees)
{
    World world;
    std::vector<mbr_allocation_handle> handles;
    for (int i = 0; i < 300; i++)
        handles.push_back(world.Alloc(static_cast<uint64_t>(i) * 1000).allocation);
    world.heap.fail_all = true;
    std::thread([&] {
        for (mbr_allocation_handle handle : handles)
            EXPECT_EQ(world.Free(handle), MBR_OK); // no cache, no tally
    }).join();
    EXPECT_EQ(world.Charged(world.kv), 0u);
    EXPECT_TRUE(world.Agree());
    world.heap.fail_all = false;
}

TEST(ArenaFault, Heap_WithoutACacheForTheThread_AllocatesAllTheSame)
{
    World world;
    world.Keep(world.Alloc(4096).allocation); // the slab and the holder are known
    world.heap.fail_all = true;
    std::thread([&] {
        for (int i = 0; i < 20; i++)
            world.Keep(world.Alloc(4096).allocation);
        mbr_holder *exact = world.Holder("exact", 4096);
        Request request{4096};
        request.holder = exact;
        world.Keep(world.Alloc(request).allocation);
        mbr_alloc_result result = {};
        EXPECT_EQ(world.TryAlloc(request, &result), MBR_OVER_BUDGET);
        request.holder = world.backing->cache;
        world.Keep(world.Alloc(request).allocation);
        EXPECT_EQ(world.Charged(world.kv), 21u * 4096);
        EXPECT_TRUE(world.Agree());
        world.FreeAll();
    }).join();
    EXPECT_TRUE(world.Agree());
    world.heap.fail_all = false;
}

TEST(ArenaFault, Create_WithoutHeap_IsRefusedAndLeavesNothing)
{
    World world;
    mbr_alloc_table *table = nullptr;
    world.heap.fail_all = true;
    EXPECT_EQ(mbr_alloc_table_create(&world.heap.seam, &table, nullptr), MBR_OUT_OF_HOST_MEMORY);
    EXPECT_EQ(table, nullptr);
    world.heap.fail_all = false;
    for (uint64_t nth : {1, 2}) {
        mbr_arena_options options = {
            world.table, world.backing.get(), &world.context, 0, 0, &world.heap.seam};
        mbr_arena *arena = reinterpret_cast<mbr_arena *>(1);
        int64_t before = world.heap.blocks_out;
        world.heap.fail_at = world.heap.calls + nth;
        EXPECT_EQ(mbr_arena_create(&options, &arena, nullptr), MBR_OUT_OF_HOST_MEMORY);
        EXPECT_EQ(arena, nullptr);
        EXPECT_EQ(world.heap.blocks_out, before);
    }
    mbr_alloc_table_destroy(nullptr);
}

TEST(ArenaFault, Span_EveryTakeOnceAndForGood_IsReportedOrGotAround)
{
    uint64_t takes;
    {
        World world;
        mbr_status status = MBR_OK;
        EXPECT_EQ(DoWork(&world, &status), 0);
        takes = world.backing->take_count;
    }
    EXPECT_GE(takes, 8u);
    for (uint64_t fail_at = 1; fail_at <= takes; fail_at++)
        for (uint64_t count : {UINT64_C(1), UINT64_C(1000)})
            for (mbr_status failure : {MBR_OUT_OF_MEMORY, MBR_OUT_OF_ADDRESSES, MBR_OUT_OF_MAPPINGS,
                     MBR_SYSTEM, MBR_RESIDUAL, MBR_DEVICE_LOST, MBR_BUSY}) {
                SCOPED_TRACE(testing::Message() << fail_at << " " << count << " " << failure);
                World world;
                world.backing->fail_at = fail_at;
                world.backing->fail_count = count;
                world.backing->fail_status = failure;
                mbr_status status = MBR_OK;
                int refused = DoWork(&world, &status);
                bool exhausted = MBR_STATUS_CLASS(failure) == MBR_CLASS_EXHAUSTED;
                if (count == 1) {
                    EXPECT_EQ(refused, exhausted ? 0 : 1);
                } else {
                    EXPECT_GE(refused, 1);
                }
                EXPECT_EQ(status, refused != 0 ? failure : MBR_OK);
                world.backing->fail_at = 0;
                EXPECT_EQ(DoWork(&world, &status), 0);
            }
}

TEST(ArenaFault, Span_ThatBreaksTheContract_IsGivenBackAndNamed)
{
    using Lie = mbr_backing::Lie;
    for (Lie lie : {Lie::kMisaligned, Lie::kTooSmall, Lie::kTaken, Lie::kOwnsNothing})
        for (uint64_t bytes : {UINT64_C(70000), 65 * kMiB}) {
            if (lie == Lie::kOwnsNothing && bytes > 64 * kMiB)
                continue; // nothing owned is nothing charged: strange, but no lie about memory
            World world;
            mbr_alloc_result other = world.Alloc(100), result = {};
            world.backing->lie = lie;
            mbr_error error = NewError();
            EXPECT_EQ(world.TryAlloc(Request{bytes}, &result, &error), MBR_CONTRACT_BROKEN)
                << static_cast<int>(lie) << " " << bytes;
            EXPECT_NE(std::string(error.text).find("mechanism gave"), std::string::npos);
            EXPECT_EQ(world.backing->span_count(), 1u);
            EXPECT_TRUE(world.Agree());
            EXPECT_EQ(world.State(other.allocation), uint32_t{MBR_ALLOCATION_LIVE});
            world.backing->lie = Lie::kNone;
            EXPECT_EQ(world.Free(world.Alloc(bytes).allocation), MBR_OK);
            EXPECT_EQ(world.Free(other.allocation), MBR_OK);
        }
}

TEST(ArenaFault, Heap_NoRoomForALargerMagazine_FreesAllTheSame)
{
    World world;
    std::vector<mbr_allocation_handle> handles;
    auto batch = [&] {
        handles.clear();
        for (int i = 0; i < 300; i++)
            handles.push_back(world.Alloc(512).allocation);
        for (mbr_allocation_handle handle : handles)
            EXPECT_EQ(world.Free(handle), MBR_OK);
    };
    world.Keep(world.Alloc(512).allocation);
    for (int i = 0; i < 300; i++)
        handles.push_back(world.Alloc(512).allocation);
    world.heap.fail_all = true;
    uint64_t asked = world.heap.calls;
    for (mbr_allocation_handle handle : handles)
        EXPECT_EQ(world.Free(handle), MBR_OK);
    EXPECT_GT(world.heap.calls, asked) << "it asked for a larger one";
    EXPECT_TRUE(world.Agree());
    batch();
    world.heap.fail_all = false;
    int64_t before = world.heap.blocks_out;
    batch();
    EXPECT_EQ(world.heap.blocks_out, before + 1) << "the outgrown ones are released";
    EXPECT_TRUE(world.Agree());
    world.FreeAll();
}

} // namespace
} // namespace alloc_test
