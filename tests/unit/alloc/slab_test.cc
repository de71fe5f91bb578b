// Slabs that become idle, and the holders that an arena knows.
#include "tests/unit/alloc/door.h"
#include "tests/unit/alloc/world.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <vector>

extern "C" {
#include "host/alloc/class.h"
}

namespace alloc_test
{
namespace
{

// ---- Slabs
TEST(Arena, Slabs_ThatBecomeIdle_StayUpToTheWatermark)
{
    World world(64 * kGiB, 6 * kMiB);
    std::vector<mbr_allocation_handle> handles;
    for (int i = 0; i < 32; i++)
        handles.push_back(world.Alloc(256 * kKiB).allocation);
    EXPECT_EQ(world.Figures().slab_bytes, 8 * kMiB);
    for (mbr_allocation_handle handle : handles)
        EXPECT_EQ(world.Free(handle), MBR_OK);
    mbr_arena_trim(world.arena, UINT64_MAX); // the thread's own blocks go back
    EXPECT_EQ(world.Figures().idle_bytes, 6 * kMiB);
    EXPECT_EQ(mbr_arena_trim(world.arena, UINT64_MAX), 0u) << "the watermark holds";
    EXPECT_EQ(mbr_arena_trim(world.arena, 3 * kMiB), 4 * kMiB);
    EXPECT_EQ(world.Figures().slab_bytes, 2 * kMiB);
    EXPECT_EQ(mbr_arena_trim(world.arena, 0), 2 * kMiB);
    EXPECT_EQ(mbr_arena_trim(world.arena, 0), 0u);
    EXPECT_EQ(world.backing->span_count(), 0u);
}

TEST(Arena, Slabs_AllocatedAndFreedInTurn_AskTheBackingOnce)
{
    World world;
    for (uint64_t bytes : {UINT64_C(300), 70 * kKiB, 2 * kMiB, 64 * kMiB}) {
        uint64_t before = world.backing->take_count;
        for (int i = 0; i < 1000; i++)
            EXPECT_EQ(world.Free(world.Alloc(bytes).allocation), MBR_OK);
        EXPECT_EQ(world.backing->take_count, before + 1) << bytes;
    }
}

TEST(Arena, Slabs_AHundredThousandLive_AreFewSpansAndAllDistinct)
{
    World world;
    std::vector<mbr_alloc_result> blocks;
    for (int i = 0; i < 100000; i++)
        blocks.push_back(world.Alloc(512));
    EXPECT_EQ(world.Figures().live_count, 100000u);
    EXPECT_EQ(world.Charged(world.kv), 100000u * 512);
    EXPECT_LE(world.backing->span_count(), 26u);
    EXPECT_TRUE(world.Agree());
    std::sort(blocks.begin(), blocks.end(),
        [](const auto &a, const auto &b) { return a.address < b.address; });
    for (size_t i = 1; i < blocks.size(); i++)
        ASSERT_GE(blocks[i].address, blocks[i - 1].address + 512);
    std::shuffle(blocks.begin(), blocks.end(), std::mt19937(3));
    for (size_t i = 0; i < blocks.size(); i++)
        ASSERT_EQ(i % 2 == 0 ? world.Free(blocks[i].allocation) : world.FreeAt(blocks[i].address),
            MBR_OK);
    EXPECT_EQ(world.Charged(world.kv), 0u);
    EXPECT_TRUE(world.Agree());
}

TEST(Arena, Slabs_AMechanismWithLargeGranules_UsesWhatItIsGiven)
{
    World world;
    world.backing->granule_bytes = 32 * kMiB;
    std::vector<mbr_allocation_handle> handles;
    for (uint64_t i = 0; i < 8192; i++)
        handles.push_back(world.Alloc(4096).allocation);
    EXPECT_EQ(world.backing->span_count(), 1u);
    EXPECT_TRUE(world.Agree());
    for (mbr_allocation_handle handle : handles)
        EXPECT_EQ(world.Free(handle), MBR_OK);
}

// Two threads that write to the records of one line wait for each other at each of them.
TEST(Arena, Slabs_TakenFromInTurn_GiveWholeLinesOfRecords)
{
    constexpr uint32_t kBatch = 32;
    World world;
    mbr_allocation_handle first = world.Alloc(512).allocation; // the slab is there
    auto take = [&](uint32_t count) {
        std::vector<uint32_t> blocks(count);
        EXPECT_EQ(door_take(world.arena, 512, blocks.data(), count), count);
        return blocks;
    };
    auto put = [&](const std::vector<uint32_t> &blocks) {
        door_put(world.arena, blocks.data(), static_cast<uint32_t>(blocks.size()));
    };
    auto lines = [](const std::vector<uint32_t> &blocks) {
        std::set<uint32_t> of;
        for (uint32_t block : blocks)
            of.insert(block / DOOR_LINE_RECORDS);
        return of;
    };
    std::vector<uint32_t> few = take(3); // a line that is not whole any more
    for (int round = 0; round < 20; round++) {
        std::vector<uint32_t> one = take(kBatch), other = take(kBatch);
        for (uint32_t line : lines(one))
            ASSERT_EQ(lines(other).count(line), 0u) << "line " << line << ", round " << round;
        std::vector<uint32_t> mixed; // come back in turns, and some do not
        for (uint32_t i = 0; i < kBatch; i++) {
            mixed.push_back(one[i]);
            mixed.push_back(other[kBatch - 1 - i]);
        }
        few.push_back(mixed.back());
        mixed.pop_back();
        put(mixed);
    }
    put(few);
    put(take(5));
    std::vector<uint32_t> rest = take(kBatch + 3); // what is no whole line comes from anywhere
    EXPECT_EQ(std::set<uint32_t>(rest.begin(), rest.end()).size(), kBatch + 3);
    put(rest);
    EXPECT_EQ(world.Free(first), MBR_OK);
}

// ---- Worn blocks
TEST(ArenaWorn, TheOnlyBlockOfASlab_ItsSpanGoesBack)
{
    for (uint64_t bytes : {64 * kMiB, 65 * kMiB}) { // of a class, and of a span of its own
        World world(64 * kGiB, kGiB);
        mbr_alloc_result block = world.Alloc(bytes);
        EXPECT_EQ(world.Free(door_wear(world.table, block.allocation, 0)), MBR_OK);
        mbr_alloc_result next = world.Alloc(bytes);
        EXPECT_EQ(world.backing->span_count(), 1u) << "the worn one is gone";
        EXPECT_EQ(world.Figures().slab_bytes, world.backing->span_bytes());
        EXPECT_NE(next.allocation.value & (MBR_ALLOCATION_LIMIT_COUNT - 1),
            block.allocation.value & (MBR_ALLOCATION_LIMIT_COUNT - 1));
        EXPECT_TRUE(world.Agree());
        EXPECT_EQ(world.Free(next.allocation), MBR_OK);
        mbr_arena_trim(world.arena, 0);
        EXPECT_EQ(world.backing->span_count(), 0u);
    }
}

TEST(ArenaWorn, OneBlockOfSeveral_TheOthersServeUntilAllAreHere)
{
    World world(64 * kGiB, kGiB);
    std::vector<mbr_alloc_result> blocks;
    for (int i = 0; i < 8; i++)
        blocks.push_back(world.Alloc(2 * kMiB));
    ASSERT_EQ(world.backing->span_count(), 1u) << "one slab holds eight";
    EXPECT_EQ(world.Free(door_wear(world.table, blocks[7].allocation, 0)), MBR_OK);
    mbr_alloc_result other = world.Alloc(2 * kMiB); // meets the worn one, and takes of a new slab
    EXPECT_EQ(world.backing->span_count(), 2u);
    for (int round = 0; round < 20; round++) { // the other seven go on
        EXPECT_EQ(world.Free(blocks[3].allocation), MBR_OK);
        blocks[3] = world.Alloc(2 * kMiB);
        EXPECT_NE(blocks[3].address, blocks[7].address);
    }
    EXPECT_TRUE(world.Agree());
    for (int i = 0; i < 7; i++)
        EXPECT_EQ(world.Free(blocks[i].allocation), MBR_OK);
    EXPECT_EQ(world.Free(other.allocation), MBR_OK);
    uint64_t given = mbr_arena_trim(world.arena, UINT64_MAX);
    EXPECT_EQ(given, 16 * kMiB) << "whatever is kept";
    EXPECT_EQ(world.backing->span_count(), 1u);
    EXPECT_EQ(world.Figures().idle_bytes, 16 * kMiB);
    EXPECT_TRUE(world.Agree());
    for (int i = 0; i < 16; i++)
        world.Keep(world.Alloc(2 * kMiB).allocation);
    EXPECT_EQ(world.backing->span_count(), 2u);
    EXPECT_TRUE(world.Agree());
    world.FreeAll();
}

TEST(ArenaWorn, EveryBlockOfASlab_NoneIsHandedOutAndTheSpanGoes)
{
    World world(64 * kGiB, kGiB);
    std::vector<mbr_alloc_result> blocks;
    for (int i = 0; i < 8; i++)
        blocks.push_back(world.Alloc(2 * kMiB));
    for (const mbr_alloc_result &block : blocks)
        EXPECT_EQ(world.Free(door_wear(world.table, block.allocation, 0)), MBR_OK);
    mbr_alloc_result next = world.Alloc(2 * kMiB);
    EXPECT_EQ(world.backing->span_count(), 1u);
    EXPECT_EQ(world.backing->give_count, 1u);
    EXPECT_TRUE(world.Agree());
    EXPECT_EQ(world.Free(next.allocation), MBR_OK);
}

// ---- Holders
TEST(Arena, Holders_ManyInTurn_ReuseThePlacesOfThoseThatAreGone)
{
    World world;
    for (int i = 0; i < 3000; i++) {
        mbr_holder *holder = world.Holder("h" + std::to_string(i));
        Request request{1000};
        request.holder = holder;
        mbr_alloc_result block = world.Alloc(request);
        EXPECT_EQ(world.Charged(holder), 1024u);
        EXPECT_EQ(world.Free(block.allocation), MBR_OK);
        mbr_arena_fold(world.arena);
        world.EndHolder(holder);
    }
    EXPECT_TRUE(world.Agree());
}

mbr_status Pay(World *world, mbr_holder *holder)
{
    mbr_alloc_result result = {};
    Request request{100};
    request.holder = holder;
    mbr_status status = world->TryAlloc(request, &result);
    if (status == MBR_OK)
        world->Keep(result.allocation);
    return status;
}

TEST(Arena, Holders_OneMoreThanAnArenaKnows_IsRefusedUntilOneIsForgotten)
{
    World world(kGiB, kMiB, Holders::kNeverAtTheSameAddress);
    std::vector<mbr_holder *> holders = {world.kv, world.weights};
    while (holders.size() < MBR_PAYER_LIMIT_COUNT - 1) // the cache is one, too
        holders.push_back(world.Holder("h" + std::to_string(holders.size())));
    for (mbr_holder *holder : holders)
        ASSERT_EQ(Pay(&world, holder), MBR_OK);
    world.FreeAll();
    mbr_arena_fold(world.arena);
    uint64_t gone_id = mbr_holder_id(holders.back());
    world.EndHolder(holders.back(), /* forget= */ false);
    mbr_holder *late = world.Holder("late");
    EXPECT_EQ(Pay(&world, late), MBR_OUT_OF_DESCRIPTORS);
    EXPECT_EQ(Pay(&world, world.kv), MBR_OK) << "those that are known pay as before";
    mbr_arena_forget_holder(world.arena, gone_id);
    EXPECT_EQ(Pay(&world, late), MBR_OK);
    EXPECT_EQ(world.Charged(late), 256u);
    world.FreeAll();
    EXPECT_TRUE(world.Agree());
}

TEST(Arena, Holders_AtTheAddressOfOneThatIsGone_TakesItsPlace)
{
    World world;
    mbr_holder *before = nullptr;
    int same_address_count = 0;
    for (int i = 0; i < 50; i++) {
        mbr_holder *holder = world.Holder("h" + std::to_string(i));
        same_address_count += holder == before;
        before = holder;
        ASSERT_EQ(Pay(&world, holder), MBR_OK);
        EXPECT_EQ(world.Charged(holder), 256u);
        world.FreeAll();
        mbr_arena_fold(world.arena);
        world.EndHolder(holder, /* forget= */ false);
    }
    EXPECT_TRUE(world.Agree());
    RecordProperty("same_address_count", same_address_count);
}

TEST(Arena, Holders_SeveralOfOneThread_PayForTheirOwn)
{
    World world;
    std::vector<mbr_holder *> holders;
    for (int i = 0; i < 40; i++)
        holders.push_back(world.Holder("h" + std::to_string(i)));
    for (size_t round = 0; round < 3; round++)
        for (size_t i = 0; i < holders.size(); i++) {
            Request request{256 * (i + 1)};
            request.holder = holders[i];
            world.Keep(world.Alloc(request).allocation);
        }
    mbr_arena_fold(world.arena);
    for (size_t i = 0; i < holders.size(); i++) {
        uint64_t rounded = mbr_class_bytes(mbr_class_of(256 * (i + 1)));
        EXPECT_EQ(world.Books(holders[i]).charged_bytes, 3 * rounded);
    }
    world.FreeAll();
    EXPECT_TRUE(world.Agree());
}

} // namespace
} // namespace alloc_test
