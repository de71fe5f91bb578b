// One thread, one arena: what an allocation answers, what it costs whom, and what is refused.
#include "tests/unit/alloc/door.h"
#include "tests/unit/alloc/world.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <vector>

extern "C" {
#include "host/alloc/class.h"
}

namespace alloc_test
{
namespace
{

void *At(uint64_t address)
{
    return reinterpret_cast<void *>(address);
}

// ---- What an allocation answers
TEST(Arena, Alloc_OneBlock_IsChargedMappedAndRefunded)
{
    World world;
    mbr_alloc_result block = world.Alloc(1000);
    EXPECT_EQ(block.usable_bytes, 1024u);
    EXPECT_EQ(block.charged_bytes, 1024u);
    EXPECT_EQ(block.content, uint32_t{MBR_CONTENT_ZERO});
    EXPECT_EQ(world.Charged(world.kv), 1024u);
    EXPECT_EQ(world.Books(world.kv).mapped_bytes, 1024u);
    EXPECT_EQ(world.Figures().live_count, 1u);
    EXPECT_EQ(world.Figures().live_bytes, 1024u);
    EXPECT_TRUE(world.Agree());
    EXPECT_EQ(world.Free(block.allocation), MBR_OK);
    EXPECT_EQ(world.Charged(world.kv), 0u);
    EXPECT_EQ(world.Books(world.kv).mapped_bytes, 0u);
    EXPECT_EQ(world.Figures().live_count, 0u);
    EXPECT_TRUE(world.Agree());
}

TEST(Arena, Alloc_EveryClassAndAlignment_IsAlignedDisjointAndWritable)
{
    World world;
    std::map<uint64_t, uint64_t> live; // address -> bytes
    std::vector<mbr_allocation_handle> handles;
    for (uint64_t bytes = 1; bytes <= 130 * kMiB; bytes = bytes * 3 + 1)
        for (uint64_t align = 0; align <= 4 * kMiB; align = align == 0 ? 1 : align * 8) {
            mbr_alloc_result block = world.Alloc(Request{bytes, align});
            uint64_t wanted = std::max<uint64_t>(align, 256);
            EXPECT_EQ(block.address % wanted, 0u) << bytes << " at " << align;
            EXPECT_GE(block.usable_bytes, bytes);
            EXPECT_GE(block.charged_bytes, block.usable_bytes);
            *static_cast<char *>(At(block.address)) = 1;
            *static_cast<char *>(At(block.address + block.usable_bytes - 1)) = 1;
            auto after = live.lower_bound(block.address);
            if (after != live.end()) {
                EXPECT_LE(block.address + block.usable_bytes, after->first);
            }
            if (after != live.begin()) {
                EXPECT_LE(std::prev(after)->first + std::prev(after)->second, block.address);
            }
            live[block.address] = block.usable_bytes;
            handles.push_back(block.allocation);
        }
    EXPECT_TRUE(world.Agree());
    for (mbr_allocation_handle handle : handles)
        EXPECT_EQ(world.Free(handle), MBR_OK);
    EXPECT_EQ(world.Charged(world.kv), 0u);
}

TEST(Arena, Alloc_SizeZero_IsUniqueAndReleasable)
{
    World world;
    mbr_alloc_result one = world.Alloc(0), other = world.Alloc(0);
    EXPECT_NE(one.address, 0u);
    EXPECT_NE(one.address, other.address);
    EXPECT_NE(one.allocation.value, other.allocation.value);
    EXPECT_EQ(world.Free(one.allocation), MBR_OK);
    EXPECT_EQ(world.FreeAt(other.address), MBR_OK);
    mbr_alloc_result aligned = world.Alloc(Request{0, 64 * kKiB});
    EXPECT_EQ(aligned.address % (64 * kKiB), 0u);
    EXPECT_EQ(world.Free(aligned.allocation), MBR_OK);
}

TEST(Arena, Alloc_100BytesAlignedTo64_IsChargedWhatItIsRefunded)
{
    World world;
    mbr_alloc_result block = world.Alloc(Request{100, 64});
    EXPECT_EQ(world.Charged(world.kv), block.charged_bytes);
    EXPECT_EQ(world.Free(block.allocation), MBR_OK);
    EXPECT_EQ(world.Charged(world.kv), 0u);
}

TEST(Arena, Alloc_NearTwoToThe64_IsRefusedWithoutWrapping)
{
    World world;
    mbr_alloc_result result = world.Alloc(1);
    EXPECT_EQ(world.Free(result.allocation), MBR_OK);
    for (uint64_t bytes : {UINT64_MAX, UINT64_MAX - 10, UINT64_MAX - 65535}) {
        mbr_error error = NewError();
        EXPECT_EQ(world.TryAlloc(Request{bytes}, &result, &error), MBR_OVERFLOW) << bytes;
        EXPECT_EQ(result.address, 0u);
        EXPECT_EQ(result.allocation.value, 0u);
        EXPECT_EQ(error.status, MBR_OVERFLOW);
    }
    EXPECT_EQ(world.TryAlloc(Request{UINT64_C(1) << 62, UINT64_C(1) << 62}, &result), MBR_OVERFLOW);
    EXPECT_EQ(world.TryAlloc(Request{UINT64_C(1) << 61}, &result), MBR_OVER_BUDGET);
    EXPECT_TRUE(world.Agree());
}

TEST(Arena, Alloc_BadRequests_AreRefusedByName)
{
    World world;
    mbr_alloc_result result = {};
    mbr_error error = NewError();
    EXPECT_EQ(world.TryAlloc(Request{100, 96}, &result, &error), MBR_INVALID_ARGUMENT);
    EXPECT_NE(std::string(error.text).find("96"), std::string::npos);
    EXPECT_EQ(world.TryAlloc(Request{100, 0, 0, 2}, &result, &error), MBR_UNSUPPORTED);
    EXPECT_EQ(world.TryAlloc(Request{100, 0, 0, 65536}, &result, &error), MBR_OK)
        << "unknown optional flags are ignored";
    EXPECT_EQ(world.Free(result.allocation), MBR_OK);

    mbr_authority_options options = {"other", MBR_TIER_HOST, kGiB, nullptr, 0, nullptr};
    mbr_authority *authority = nullptr;
    ASSERT_EQ(mbr_authority_create(world.governor, &options, &authority, nullptr), MBR_OK);
    mbr_holder_options holder_options = {"stranger", MBR_ROLE_KV, MBR_NO_ALLOWANCE, false, {}};
    mbr_holder *stranger = nullptr;
    ASSERT_EQ(mbr_holder_create(authority, &holder_options, &stranger, nullptr), MBR_OK);
    Request request{100};
    request.holder = stranger;
    EXPECT_EQ(world.TryAlloc(request, &result, &error), MBR_INVALID_ARGUMENT);
    EXPECT_EQ(mbr_holder_destroy(stranger, nullptr), MBR_OK);
    EXPECT_EQ(mbr_authority_destroy(authority, nullptr), MBR_OK);
    EXPECT_TRUE(world.Agree());
}

TEST(Arena, Alloc_UnlessTheContextIsActive_IsRefusedAlsoFromTheThreadsOwnBlocks)
{
    World world;
    mbr_alloc_result kept = world.Alloc(100), block = world.Alloc(100), result = {};
    EXPECT_EQ(world.Free(block.allocation), MBR_OK);
    world.context.move_to(MBR_CONTEXT_RETIRING);
    EXPECT_EQ(world.TryAlloc(Request{100}, &result), MBR_BUSY);
    world.context.move_to(MBR_CONTEXT_LOST);
    EXPECT_EQ(world.TryAlloc(Request{100}, &result), MBR_DEVICE_LOST);
    EXPECT_EQ(world.Free(kept.allocation), MBR_OK) << "releases go on";
    world.context.move_to(MBR_CONTEXT_ACTIVE);
}

TEST(Arena, Alloc_TheCacheIsTheHolder_MovesNothing)
{
    World world;
    Request request{4096};
    request.holder = world.backing->cache;
    mbr_alloc_result block = world.Alloc(request);
    EXPECT_EQ(world.Charged(world.backing->cache), world.backing->span_bytes());
    EXPECT_EQ(world.Figures().live_bytes, 4096u);
    EXPECT_TRUE(world.Agree());
    EXPECT_EQ(world.Free(block.allocation), MBR_OK);
    EXPECT_TRUE(world.Agree());
}

// ---- Large allocations
TEST(Arena, Alloc_AboveTheLargestClass_HasASpanOfItsOwnThatGoesBackAtOnce)
{
    World world;
    mbr_alloc_result block = world.Alloc(64 * kMiB + 1);
    EXPECT_EQ(world.backing->span_count(), 1u);
    EXPECT_EQ(block.usable_bytes, 64 * kMiB + 64 * kKiB);
    EXPECT_EQ(world.Charged(world.kv), block.charged_bytes);
    EXPECT_EQ(world.Figures().live_bytes, block.charged_bytes);
    EXPECT_TRUE(world.Agree());
    EXPECT_EQ(world.FreeAt(block.address), MBR_OK);
    EXPECT_EQ(world.backing->span_count(), 0u) << "whatever the watermark";
    EXPECT_EQ(world.Charged(world.kv), 0u);
}

TEST(Arena, Alloc_LargeAndOwnedBeyondWhatIsUsable_IsChargedWhatIsOwned)
{
    World world;
    world.backing->owned_extra_bytes = 12345;
    mbr_alloc_result large = world.Alloc(100 * kMiB), small = world.Alloc(100);
    EXPECT_EQ(large.charged_bytes, large.usable_bytes + 12345);
    EXPECT_TRUE(world.Agree());
    EXPECT_EQ(world.Free(large.allocation), MBR_OK);
    EXPECT_EQ(world.Free(small.allocation), MBR_OK);
    EXPECT_EQ(mbr_arena_trim(world.arena, 0), 2 * kMiB + 12345);
}

// ---- Content
TEST(Arena, Content_OfFreshAndUsedBlocks_IsHonest)
{
    for (uint32_t fresh : {MBR_CONTENT_ZERO, MBR_CONTENT_UNDEFINED, MBR_CONTENT_STALE}) {
        World world;
        world.backing->content = fresh;
        mbr_alloc_result block = world.Alloc(4096);
        EXPECT_EQ(block.content, fresh);
        EXPECT_EQ(
            *static_cast<unsigned char *>(At(block.address)), fresh == MBR_CONTENT_ZERO ? 0 : 0xDD);
        memset(At(block.address), 0xAB, 4096);
        EXPECT_EQ(world.Free(block.allocation), MBR_OK);
        mbr_alloc_result again = world.Alloc(4096);
        EXPECT_EQ(again.address, block.address);
        EXPECT_EQ(again.content, uint32_t{MBR_CONTENT_STALE});
        EXPECT_EQ(world.Free(again.allocation), MBR_OK);
        mbr_alloc_result neighbour = world.Alloc(4096), third = world.Alloc(4096);
        EXPECT_EQ(third.content, fresh) << "beside used ones, but never handed out";
        EXPECT_EQ(world.Free(neighbour.allocation), MBR_OK);
        EXPECT_EQ(world.Free(third.allocation), MBR_OK);
    }
}

bool IsZero(const mbr_alloc_result &block)
{
    const char *bytes = static_cast<const char *>(At(block.address));
    return *bytes == 0 && memcmp(bytes, bytes + 1, block.usable_bytes - 1) == 0;
}

void ExpectZeroed(uint64_t bytes, uint64_t stream, bool can_fill)
{
    World world;
    world.backing->content = MBR_CONTENT_UNDEFINED;
    world.context.can_fill = can_fill;
    for (int life = 0; life < 2; life++) {
        mbr_alloc_result block = world.Alloc(Request{bytes, 0, stream, MBR_ALLOC_ZEROED});
        EXPECT_EQ(block.content, uint32_t{MBR_CONTENT_ZERO});
        EXPECT_TRUE(IsZero(block));
        memset(At(block.address), 0xAB, block.usable_bytes);
        EXPECT_EQ(world.Free(block.allocation), MBR_OK);
    }
    EXPECT_EQ(world.context.fill_count, stream != 0 && can_fill ? 2u : 0u);
}

TEST(Arena, Zeroed_WhateverTheBlockHeld_IsZeroByStreamOrProcessor)
{
    for (uint64_t bytes : {UINT64_C(100), UINT64_C(5000), 300 * kKiB})
        for (uint64_t stream : {UINT64_C(0), kStream})
            for (bool can_fill : {true, false})
                ExpectZeroed(bytes, stream, can_fill);
    ExpectZeroed(65 * kMiB, kStream, true);
}

TEST(Arena, Zeroed_FreshAndZeroAlready_IsNotFilled)
{
    World world;
    mbr_alloc_result block = world.Alloc(Request{4096, 0, kStream, MBR_ALLOC_ZEROED});
    EXPECT_EQ(block.content, uint32_t{MBR_CONTENT_ZERO});
    EXPECT_EQ(world.context.fill_count, 0u);
    EXPECT_EQ(world.Free(block.allocation), MBR_OK);
}

TEST(Arena, Zeroed_WhereNobodyCanFill_IsRefusedAndChangesNothing)
{
    for (uint64_t bytes : {UINT64_C(100), 5 * kMiB}) {
        World world;
        world.backing->content = MBR_CONTENT_UNDEFINED;
        world.backing->port.mechanism.host_accessible = false;
        world.EndArena(world.arena);
        world.arena = world.Arena();
        mbr_alloc_result result = {};
        mbr_error error = NewError();
        Request request{bytes, 0, 0, MBR_ALLOC_ZEROED};
        EXPECT_EQ(world.TryAlloc(request, &result, &error), MBR_UNSUPPORTED);
        world.context.can_fill = false;
        request.stream_id = kStream;
        EXPECT_EQ(world.TryAlloc(request, &result, &error), MBR_UNSUPPORTED);
        EXPECT_NE(std::string(error.text).find("stream"), std::string::npos);
        world.context.can_fill = true;
        request.stream_id = 999;
        EXPECT_EQ(world.TryAlloc(request, &result, &error), MBR_UNKNOWN_OBJECT);
        EXPECT_EQ(world.Charged(world.kv), 0u);
        EXPECT_EQ(world.Figures().live_count, 0u);
        EXPECT_TRUE(world.Agree());
        request.stream_id = kStream;
        EXPECT_EQ(world.Free(world.Alloc(request).allocation), MBR_OK);
    }
}

// ---- Handles and addresses
TEST(Arena, Free_UnknownInteriorForeignOrTwice_IsRefusedAndChangesNothing)
{
    World world;
    mbr_alloc_result block = world.Alloc(4096), large = world.Alloc(65 * kMiB);
    int local = 0;
    mbr_error error = NewError();
    for (uint64_t address : {block.address + 1, block.address + 256, block.address + 4095,
             block.address - 1, block.address + 4096, large.address + 4096, UINT64_C(0), UINT64_MAX,
             reinterpret_cast<uint64_t>(&local)}) {
        EXPECT_EQ(world.FreeAt(address, &error), MBR_UNKNOWN_OBJECT) << address;
        EXPECT_NE(error.text[0], '\0');
    }
    const uint64_t generation = UINT64_C(1) << 26;
    for (uint64_t value : {block.allocation.value + generation, block.allocation.value - generation,
             block.allocation.value + 1, UINT64_C(1), UINT64_MAX, generation})
        EXPECT_EQ(world.Free({value}, &error), MBR_UNKNOWN_OBJECT) << value;
    EXPECT_EQ(world.Figures().live_count, 2u);
    EXPECT_TRUE(world.Agree());
    EXPECT_EQ(world.Free(block.allocation), MBR_OK);
    EXPECT_EQ(world.Free(block.allocation), MBR_UNKNOWN_OBJECT);
    EXPECT_EQ(world.FreeAt(block.address), MBR_UNKNOWN_OBJECT);
    EXPECT_EQ(world.FreeAt(large.address), MBR_OK);
    EXPECT_EQ(world.FreeAt(large.address), MBR_UNKNOWN_OBJECT);
    EXPECT_EQ(world.Free(large.allocation), MBR_UNKNOWN_OBJECT);
    EXPECT_TRUE(world.Agree());
}

TEST(Arena, Free_AnOldHandleOfABlockThatIsLiveAgain_IsRefused)
{
    World world;
    mbr_alloc_result first = world.Alloc(512);
    EXPECT_EQ(world.Free(first.allocation), MBR_OK);
    mbr_alloc_result second = world.Alloc(512);
    ASSERT_EQ(second.address, first.address);
    EXPECT_NE(second.allocation.value, first.allocation.value);
    EXPECT_EQ(world.Free(first.allocation), MBR_UNKNOWN_OBJECT);
    EXPECT_EQ(world.State(second.allocation), uint32_t{MBR_ALLOCATION_LIVE});
    EXPECT_EQ(world.Free(second.allocation), MBR_OK);
}

TEST(Arena, Free_OldHandlesAfterTheirSlabIsGone_AreRefusedForEver)
{
    World world;
    std::vector<mbr_allocation_handle> old;
    std::vector<uint64_t> values;
    for (int round = 0; round < 20; round++) {
        std::vector<mbr_allocation_handle> now;
        for (int i = 0; i < 200; i++)
            now.push_back(world.Alloc(1 + 700 * static_cast<uint64_t>(i)).allocation);
        for (mbr_allocation_handle handle : old)
            ASSERT_EQ(world.Free(handle), MBR_UNKNOWN_OBJECT);
        for (mbr_allocation_handle handle : now) {
            values.push_back(handle.value);
            ASSERT_EQ(world.Free(handle), MBR_OK);
        }
        old.insert(old.end(), now.begin(), now.end());
        EXPECT_GT(mbr_arena_trim(world.arena, 0), 0u);
        EXPECT_EQ(world.backing->span_count(), 0u);
    }
    std::sort(values.begin(), values.end());
    EXPECT_EQ(std::adjacent_find(values.begin(), values.end()), values.end());
}

TEST(Arena, Read_ByHandleAndByAnyAddressInside_IsTheAllocation)
{
    World world;
    for (uint64_t bytes : {UINT64_C(0), UINT64_C(1000), 5 * kMiB, 65 * kMiB}) {
        mbr_alloc_result block = world.Alloc(Request{bytes, 0, 0, 0, 77});
        mbr_allocation_figures figures = {};
        figures.struct_size = sizeof(figures);
        std::vector<std::pair<mbr_allocation_handle, uint64_t>> views = {{block.allocation, 0},
            {{0}, block.address}, {{0}, block.address + block.usable_bytes - 1},
            {{0}, block.address + block.usable_bytes / 2}};
        for (auto [handle, address] : views) {
            ASSERT_EQ(
                mbr_alloc_table_read(world.table, handle, address, &figures, nullptr), MBR_OK);
            EXPECT_EQ(figures.struct_size, sizeof(figures));
            EXPECT_EQ(figures.state, uint32_t{MBR_ALLOCATION_LIVE});
            EXPECT_EQ(figures.address, block.address);
            EXPECT_EQ(figures.bytes, bytes);
            EXPECT_EQ(figures.charged_bytes, block.charged_bytes);
            EXPECT_EQ(figures.tag, 77u);
            EXPECT_EQ(figures.allocation.value, block.allocation.value);
        }
        EXPECT_EQ(world.Free(block.allocation), MBR_OK);
        EXPECT_EQ(
            mbr_alloc_table_read(world.table, block.allocation, 0, &figures, nullptr), MBR_STALE);
        EXPECT_EQ(mbr_alloc_table_read(world.table, {0}, block.address, &figures, nullptr),
            MBR_UNKNOWN_OBJECT);
    }
    mbr_allocation_figures figures = {};
    mbr_error error = NewError();
    for (uint64_t value : {UINT64_C(1), UINT64_MAX, UINT64_C(5) << 26})
        EXPECT_EQ(
            mbr_alloc_table_read(world.table, {value}, 0, &figures, &error), MBR_UNKNOWN_OBJECT);
}

TEST(Arena, Handles_ARecordOutOfGenerations_IsNeverUsedAgain)
{
    World world;
    mbr_alloc_result block = world.Alloc(4096);
    mbr_allocation_handle worn = door_wear(world.table, block.allocation, 2);
    std::vector<uint64_t> values;
    for (int life = 0; life < 3; life++) {
        EXPECT_EQ(world.Free(worn), MBR_OK);
        mbr_alloc_result next = world.Alloc(4096);
        if (life < 2) {
            EXPECT_EQ(next.address, block.address);
        } else {
            EXPECT_NE(next.address, block.address) << "its generations are used up";
        }
        worn = next.allocation;
        values.push_back(worn.value);
    }
    EXPECT_TRUE(world.Agree());
    EXPECT_EQ(world.Free(worn), MBR_OK);
    EXPECT_GT(mbr_arena_trim(world.arena, 0), 0u) << "the slab is idle all the same";
    for (int i = 0; i < 2000; i++) { // no later slab uses the worn record
        mbr_alloc_result other = world.Alloc(4096);
        EXPECT_NE(
            other.allocation.value & ((1u << 26) - 1), block.allocation.value & ((1u << 26) - 1));
        world.Keep(other.allocation);
    }
    world.FreeAll();
}

// ---- Life
TEST(Arena, Destroy_WhileAnAllocationLives_IsRefusedWithCountsAndGoesOn)
{
    World world;
    mbr_alloc_result block = world.Alloc(100);
    mbr_error error = NewError();
    EXPECT_EQ(mbr_arena_destroy(world.arena, &error), MBR_IN_USE);
    EXPECT_NE(std::string(error.text).find("1 allocations live"), std::string::npos) << error.text;
    EXPECT_EQ(world.Free(world.Alloc(100).allocation), MBR_OK);
    EXPECT_EQ(world.Free(block.allocation), MBR_OK);
}

TEST(Arena, TwoArenas_OfOneTable_ShareNothingButTheLookup)
{
    World world;
    mbr_arena *other = world.Arena(0, 5);
    mbr_alloc_result mine = world.Alloc(4096), its = world.Alloc(Request{4096}, other);
    EXPECT_NE(mine.allocation.value, its.allocation.value);
    EXPECT_EQ(world.Free(its.allocation), MBR_OK);
    EXPECT_EQ(world.Free(mine.allocation), MBR_OK);
    EXPECT_EQ(world.Alloc(Request{4096}, other).address, its.address);
    EXPECT_EQ(world.FreeAt(its.address), MBR_OK);
    world.EndArena(other);
}

TEST(Arena, ManyArenas_OfOneThread_AreFoundAgainAfterCollisions)
{
    World world;
    std::vector<mbr_arena *> arenas;
    for (int i = 0; i < 40; i++)
        arenas.push_back(world.Arena());
    std::vector<uint64_t> first;
    for (int round = 0; round < 3; round++)
        for (size_t i = 0; i < arenas.size(); i++) {
            mbr_alloc_result block = world.Alloc(Request{700}, arenas[i]);
            if (round == 0)
                first.push_back(block.address);
            EXPECT_EQ(block.address, first[i]) << "its own cache, with the block it freed";
            EXPECT_EQ(world.Free(block.allocation), MBR_OK);
        }
    for (mbr_arena *arena : arenas)
        world.EndArena(arena);
}

// ---- The audit
TEST(Arena, Audit_EachFigureMadeWrong_IsNamed)
{
    World world;
    mbr_alloc_result block = world.Alloc(4096);
    world.Keep(world.Alloc(300).allocation);
    for (int figure = 0; figure < DOOR_FIGURE_COUNT; figure++) {
        mbr_error error = NewError();
        ASSERT_EQ(mbr_arena_audit(world.arena, &error), MBR_OK) << error.text;
        door_corrupt(world.arena, block.allocation, figure, 1);
        EXPECT_EQ(mbr_arena_audit(world.arena, &error), MBR_INTERNAL) << figure;
        EXPECT_NE(std::string(error.text).find("recomputed"), std::string::npos);
        door_corrupt(world.arena, block.allocation, figure, -1);
    }
    EXPECT_EQ(world.Free(block.allocation), MBR_OK);
    world.FreeAll();
}

} // namespace
} // namespace alloc_test
