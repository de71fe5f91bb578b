// The shared ledger in one process: leases to the byte, the limit while members run, members that
// are gone, and pages that are not to be trusted.
#include "tests/support/child.h"
#include "tests/unit/governor/shared_world.h"

using namespace governor_test;

namespace
{

TEST(Shared_Chunk, OfEachLimit_AsDocumented)
{
    const struct {
        uint64_t limit, chunk;
    } rows[] = {{0, 2 * kMiB}, {1, 2 * kMiB}, {128 * kMiB, 2 * kMiB}, {128 * kMiB + 64, 4 * kMiB},
        {kGiB, 16 * kMiB}, {4 * kGiB - 1, 64 * kMiB}, {4 * kGiB, 64 * kMiB}, {6 * kGiB, 64 * kMiB},
        {100 * kGiB, kGiB},
        {(UINT64_C(1) << 63) - 1, 92233720368547758 / kChunk * kChunk + kChunk}};
    for (const auto &row : rows)
        EXPECT_EQ(mbr_shared_chunk_bytes(row.limit), row.chunk) << row.limit;
}

TEST(Shared_Join, FirstAndLast_MakeAndRemoveAPrivateFile)
{
    SharedWorld world;
    mbr_shared *first = world.Join(kLimit);
    struct stat status;
    ASSERT_EQ(stat(world.folder.File(kLedger).c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777, 0600u);
    EXPECT_EQ(status.st_size, 4096);
    mbr_shared *second = world.Join(99 * kMiB); // the limit is there already
    mbr_shared_figures figures = world.Read();
    EXPECT_EQ(figures.member_count, 2u);
    EXPECT_EQ(figures.limit_bytes, kLimit);
    EXPECT_EQ(figures.leased_bytes, 0u);
    EXPECT_EQ(figures.uid, geteuid());
    EXPECT_EQ(figures.members[0].pid, static_cast<uint32_t>(getpid()));
    EXPECT_NE(figures.members[0].member, figures.members[1].member);
    EXPECT_TRUE(figures.members[1].lives);
    mbr_shared_leave(first);
    EXPECT_EQ(world.Read().member_count, 1u);
    mbr_shared_leave(second);
    EXPECT_TRUE(world.folder.Files().empty());
    mbr_shared *third = world.Join(99 * kMiB);
    EXPECT_EQ(world.Read().limit_bytes, 99 * kMiB);
    mbr_shared_leave(third);
    mbr_shared_leave(nullptr);
}

TEST(Shared_Join, NamesAndFolders_RefusedWithWhatWouldWork)
{
    SharedWorld world;
    const std::string longest(47, 'a'), longer(48, 'a'), deep(600, 'd');
    for (const char *name : {"", ".hidden", "a/b", "a b", "..", "a\n", longer.c_str()}) {
        mbr_shared_place place = world.Place(name);
        mbr_shared *shared;
        EXPECT_EQ(mbr_shared_join(&place, nullptr, 1, &shared, &world.error), MBR_INVALID_ARGUMENT);
        EXPECT_EQ(shared, nullptr);
        EXPECT_NE(strstr(world.error.text, "1 to 47 letters"), nullptr) << world.error.text;
    }
    mbr_shared *shared;
    mbr_shared_place place = world.Place(nullptr);
    EXPECT_EQ(mbr_shared_join(&place, nullptr, 1, &shared, nullptr), MBR_INVALID_ARGUMENT);
    place = world.Place();
    place.folder = deep.c_str();
    EXPECT_EQ(mbr_shared_join(&place, nullptr, 1, &shared, nullptr), MBR_INVALID_ARGUMENT);
    EXPECT_EQ(world.TryJoin(UINT64_C(1) << 63, &shared), MBR_INVALID_ARGUMENT);
    place = world.Place(longest.c_str());
    ASSERT_EQ(mbr_shared_join(&place, nullptr, 1, &shared, &world.error), MBR_OK);
    mbr_shared_leave(shared);
}

TEST(Shared_Join, AllPlacesTaken_RefusedUntilOneIsFree)
{
    SharedWorld world;
    std::vector<mbr_shared *> members;
    for (int i = 0; i < MBR_SHARED_MEMBER_LIMIT_COUNT; i++)
        members.push_back(world.Join(kLimit));
    mbr_shared *more;
    EXPECT_EQ(world.TryJoin(kLimit, &more), MBR_OUT_OF_DESCRIPTORS);
    EXPECT_NE(strstr(world.error.text, "63 members"), nullptr) << world.error.text;
    mbr_shared_leave(members[17]);
    members[17] = world.Join(kLimit);
    EXPECT_EQ(world.Read().members[17].member, 64u); // no number comes again
    for (mbr_shared *member : members)
        mbr_shared_leave(member);
    EXPECT_TRUE(world.folder.Files().empty());
}

TEST(Shared_Join, HeapExhausted_LeavesNothing)
{
    SharedWorld world;
    CountedHeap heap;
    heap.fail_at = 1;
    mbr_heap seam = heap.Seam();
    mbr_shared_place place = world.Place();
    mbr_shared *shared;
    EXPECT_EQ(mbr_shared_join(&place, &seam, 1, &shared, nullptr), MBR_OUT_OF_HOST_MEMORY);
    EXPECT_TRUE(world.folder.Files().empty());
    ASSERT_EQ(mbr_shared_join(&place, &seam, 1, &shared, nullptr), MBR_OK);
    mbr_shared_leave(shared);
    EXPECT_EQ(heap.blocks_out, 0);
}

// Exactly the limit, which is no multiple of the chunk, and one byte more.
TEST(Shared_Lease, WholeChunksThenTheRest_ToTheByte)
{
    SharedWorld world;
    constexpr uint64_t kOdd = 3 * kChunk + 5;
    mbr_shared *a = world.Join(kOdd), *b = world.Join(kOdd);
    mbr_shared_view view;
    ASSERT_EQ(mbr_shared_lease(a, 1, 1, &view, &world.error), MBR_OK);
    EXPECT_EQ(view.own_bytes, kChunk);
    ASSERT_EQ(mbr_shared_lease(b, kChunk + 1, 7, &view, &world.error), MBR_OK);
    EXPECT_EQ(view.own_bytes, 2 * kChunk);
    EXPECT_EQ(view.leased_bytes, 3 * kChunk);
    EXPECT_EQ(view.limit_bytes, kOdd);
    EXPECT_EQ(view.chunk_bytes, kChunk);
    EXPECT_EQ(mbr_shared_lease(a, 6, 1, &view, &world.error), MBR_OVER_BUDGET);
    EXPECT_NE(strstr(world.error.text, "5 of its limit"), nullptr) << world.error.text;
    EXPECT_EQ(world.error.asked_bytes, 6u);
    EXPECT_EQ(view.own_bytes, kChunk);
    EXPECT_EQ(mbr_shared_lease(a, 5, 1, &view, &world.error), MBR_OK);
    EXPECT_EQ(view.leased_bytes, kOdd);
    EXPECT_EQ(mbr_shared_lease(b, 1, 1, &view, &world.error), MBR_OVER_BUDGET);
    EXPECT_EQ(mbr_shared_lease(b, UINT64_MAX, 1, &view, &world.error), MBR_OVER_BUDGET);
    ASSERT_EQ(mbr_shared_return(a, 1, 3, &view, &world.error), MBR_OK);
    EXPECT_EQ(mbr_shared_lease(b, 1, 9, &view, &world.error), MBR_OK);
    EXPECT_EQ(world.Read().members[1].claimed_bytes, 9u);
    EXPECT_EQ(world.Read().leased_bytes, kOdd);
    uint64_t stored;
    EXPECT_EQ(mbr_shared_audit(b, &stored, &world.error), MBR_OK);
    EXPECT_EQ(stored, 2 * kChunk + 1);
    mbr_shared_leave(a);
    EXPECT_EQ(world.Read().leased_bytes, 2 * kChunk + 1);
    mbr_shared_leave(b);
}

TEST(Shared_Lease, WhatWasRefused_SeenByOthersUntilTheSecondLook)
{
    SharedWorld world;
    mbr_shared *a = world.Join(kLimit), *b = world.Join(kLimit);
    mbr_shared_view view;
    ASSERT_EQ(mbr_shared_lease(a, kLimit, 0, &view, nullptr), MBR_OK);
    EXPECT_EQ(view.wanted_bytes, 0u);
    ASSERT_EQ(mbr_shared_lease(b, 77, 0, &view, nullptr), MBR_OVER_BUDGET);
    EXPECT_EQ(view.wanted_bytes, 0u); // only by itself
    EXPECT_EQ(world.Read().members[1].wanted_bytes, 77u);
    ASSERT_EQ(mbr_shared_look(a, kAny, 0, &view, nullptr), MBR_OK);
    EXPECT_EQ(view.wanted_bytes, 77u);
    ASSERT_EQ(mbr_shared_look(b, kAny, 0, &view, nullptr), MBR_OK);
    ASSERT_EQ(mbr_shared_look(a, kAny, 0, &view, nullptr), MBR_OK);
    EXPECT_EQ(view.wanted_bytes, 77u);
    ASSERT_EQ(mbr_shared_look(b, kAny, 0, &view, nullptr), MBR_OK);
    ASSERT_EQ(mbr_shared_look(a, kAny, 0, &view, nullptr), MBR_OK);
    EXPECT_EQ(view.wanted_bytes, 0u);
    ASSERT_EQ(mbr_shared_lease(b, 77, 0, &view, nullptr), MBR_OVER_BUDGET);
    ASSERT_EQ(mbr_shared_return(a, kLimit, 0, &view, nullptr), MBR_OK);
    EXPECT_EQ(view.wanted_bytes, 0u); // it is there
    ASSERT_EQ(mbr_shared_lease(b, 77, 0, &view, nullptr), MBR_OK);
    ASSERT_EQ(mbr_shared_look(a, kAny, 0, &view, nullptr), MBR_OK);
    EXPECT_EQ(view.wanted_bytes, 0u); // it has it
    mbr_shared_leave(a);
    mbr_shared_leave(b);
}

TEST(Shared_Limit, LoweredAndRaised_RevokesNothingAndHoldsAtOnce)
{
    SharedWorld world;
    mbr_shared *a = world.Join(kLimit), *b = world.Join(kLimit);
    mbr_shared_view view;
    ASSERT_EQ(mbr_shared_lease(a, 5 * kChunk, 0, &view, nullptr), MBR_OK);
    uint64_t revision = world.Read().revision;
    EXPECT_EQ(world.SetLimit(2 * kChunk), 3 * kChunk);
    EXPECT_EQ(world.SetLimit(2 * kChunk), 3 * kChunk);
    EXPECT_EQ(world.Read().revision, revision + 1);
    EXPECT_EQ(world.Read().leased_bytes, 5 * kChunk);
    EXPECT_EQ(mbr_shared_lease(b, 1, 0, &view, nullptr), MBR_OVER_BUDGET);
    ASSERT_EQ(mbr_shared_look(a, kAny, 0, &view, nullptr), MBR_OK);
    EXPECT_GT(view.wanted_bytes, 0u);
    ASSERT_EQ(mbr_shared_look(b, kAny, 0, &view, nullptr), MBR_OK);
    ASSERT_EQ(mbr_shared_look(b, kAny, 0, &view, nullptr), MBR_OK);
    ASSERT_EQ(mbr_shared_look(a, kAny, 0, &view, nullptr), MBR_OK);
    EXPECT_GT(view.wanted_bytes, 0u); // the sum is still above the limit
    ASSERT_EQ(mbr_shared_return(a, 3 * kChunk + 1, 0, &view, nullptr), MBR_OK);
    EXPECT_EQ(view.wanted_bytes, 0u);
    EXPECT_EQ(mbr_shared_lease(b, 2, 0, &view, nullptr), MBR_OVER_BUDGET);
    EXPECT_EQ(mbr_shared_lease(b, 1, 0, &view, nullptr), MBR_OK);
    EXPECT_EQ(world.SetLimit(kLimit), 0u);
    EXPECT_EQ(mbr_shared_lease(b, 1, 0, &view, nullptr), MBR_OK);
    uint64_t over;
    mbr_shared_place place = world.Place();
    EXPECT_EQ(
        mbr_shared_set_limit(&place, UINT64_C(1) << 63, &over, nullptr), MBR_INVALID_ARGUMENT);
    mbr_shared_leave(a);
    mbr_shared_leave(b);
    EXPECT_EQ(mbr_shared_set_limit(&place, 1, &over, &world.error), MBR_UNKNOWN_OBJECT);
    mbr_shared_figures figures;
    EXPECT_EQ(mbr_shared_read(&place, &figures, &world.error), MBR_UNKNOWN_OBJECT);
    EXPECT_NE(strstr(world.error.text, "while a process is its member"), nullptr);
}

TEST(Shared_Lease, PastTheLimit_SeenAsOver)
{
    SharedWorld world;
    mbr_shared *a = world.Join(2 * kChunk), *b = world.Join(kLimit);
    mbr_shared_view view;
    ASSERT_EQ(mbr_shared_lease_past_limit(a, 1, 1, &view, nullptr), MBR_OK);
    EXPECT_EQ(view.own_bytes, kChunk); // there is room for a chunk
    ASSERT_EQ(mbr_shared_lease_past_limit(a, 2 * kChunk, 1, &view, nullptr), MBR_OK);
    EXPECT_EQ(view.own_bytes, 3 * kChunk);
    EXPECT_GT(view.wanted_bytes, 0u);
    EXPECT_EQ(mbr_shared_lease(b, 1, 0, &view, nullptr), MBR_OVER_BUDGET);
    ASSERT_EQ(mbr_shared_return(a, kChunk + 1, 0, &view, nullptr), MBR_OK);
    EXPECT_EQ(mbr_shared_lease(b, 1, 0, &view, nullptr), MBR_OK);
    mbr_shared_leave(a);
    mbr_shared_leave(b);
}

// ---- Members that are gone
TEST(Shared_Gone, WithoutAFreeFigure_AfterASecondAndNotBefore)
{
    SharedWorld world;
    mbr_shared *shared = world.Join(kLimit);
    LeaseAndDie(world, 3 * kChunk);
    mbr_shared_view view;
    mbr_shared_figures figures = world.Read();
    EXPECT_EQ(figures.member_count, 2u);
    EXPECT_FALSE(figures.members[1].lives);
    EXPECT_EQ(world.Leasable(shared), kLimit - 3 * kChunk); // noticed by this
    world.clock.now_ns += MBR_SHARED_GONE_NS - 1;
    EXPECT_EQ(mbr_shared_lease(shared, kLimit, 0, &view, nullptr), MBR_OVER_BUDGET);
    world.clock.now_ns += 1;
    EXPECT_EQ(mbr_shared_lease(shared, kLimit, 0, &view, nullptr), MBR_OK);
    EXPECT_EQ(world.Read().member_count, 1u);
    mbr_shared_leave(shared);
}

TEST(Shared_Gone, FreeFigureRisenByWhatItHad_AtOnce)
{
    for (bool measured_at_first : {true, false}) {
        SharedWorld world;
        mbr_shared *shared = world.Join(kLimit);
        LeaseAndDie(world, 5 * kChunk);
        mbr_shared_view view;
        constexpr uint64_t kHad = 3 * kChunk; // two chunks may have been idle
        if (!measured_at_first) {
            ASSERT_EQ(mbr_shared_look(shared, kAny, 0, &view, nullptr), MBR_OK);
        }
        for (uint64_t free : {100 * kMiB, 100 * kMiB + kHad - 1, 99 * kMiB, kAny}) {
            ASSERT_EQ(mbr_shared_look(shared, free, 0, &view, nullptr), MBR_OK);
            EXPECT_EQ(view.leased_bytes, 5 * kChunk);
        }
        ASSERT_EQ(mbr_shared_look(shared, 100 * kMiB + kHad, 0, &view, nullptr), MBR_OK);
        EXPECT_EQ(view.leased_bytes, 0u);
        EXPECT_EQ(world.Read().member_count, 1u);
        mbr_shared_leave(shared);
    }
}

TEST(Shared_Gone, LittleAtRisk_StillNeedsARise)
{
    SharedWorld world;
    mbr_shared *shared = world.Join(kLimit);
    LeaseAndDie(world, kChunk);
    mbr_shared_view view;
    for (int i = 0; i < 2; i++) {
        ASSERT_EQ(mbr_shared_look(shared, 100, 0, &view, nullptr), MBR_OK);
        EXPECT_EQ(view.leased_bytes, kChunk);
    }
    ASSERT_EQ(mbr_shared_look(shared, 101, 0, &view, nullptr), MBR_OK);
    EXPECT_EQ(view.leased_bytes, 0u);
    mbr_shared_leave(shared);
}

TEST(Shared_Gone, NothingLeased_GoneAtTheNextLook)
{
    SharedWorld world;
    mbr_shared *shared = world.Join(kLimit);
    ASSERT_EQ(membrane::in_child([&] {
        mbr_shared *mine;
        return world.TryJoin(kLimit, &mine) == MBR_OK ? 0 : 1;
    }),
        0);
    mbr_shared_view view;
    EXPECT_EQ(world.Read().member_count, 2u);
    ASSERT_EQ(mbr_shared_look(shared, kAny, 0, &view, nullptr), MBR_OK);
    EXPECT_EQ(world.Read().member_count, 1u);
    mbr_shared_leave(shared);
}

// A ledger's limit lives as long as a member; what the dead had leased is still waited for.
TEST(Shared_Gone, OnlyTheDeadLeft_NextOneBringsTheLimitAndWaitsForTheirs)
{
    SharedWorld world;
    LeaseAndDie(world, 3 * kChunk);
    mbr_shared *shared = world.Join(8 * kChunk - 1);
    EXPECT_EQ(world.Read().limit_bytes, 8 * kChunk - 1);
    EXPECT_EQ(world.Leasable(shared), 5 * kChunk - 1);
    world.clock.now_ns += MBR_SHARED_GONE_NS;
    mbr_shared_view view;
    ASSERT_EQ(mbr_shared_look(shared, kAny, 0, &view, nullptr), MBR_OK);
    EXPECT_EQ(world.Leasable(shared), 8 * kChunk - 1);
    mbr_shared_leave(shared);
    EXPECT_TRUE(world.folder.Files().empty());
}

// A clock that began anew, after a restart with the folder on a disk.
TEST(Shared_Gone, SeenInTheFuture_WaitsASecondFromNow)
{
    SharedWorld world;
    mbr_shared *shared = world.Join(kLimit);
    LeaseAndDie(world, kChunk);
    mbr_shared_view view;
    ASSERT_EQ(mbr_shared_look(shared, kAny, 0, &view, nullptr), MBR_OK);
    world.clock.now_ns = 0;
    ASSERT_EQ(mbr_shared_look(shared, kAny, 0, &view, nullptr), MBR_OK);
    EXPECT_EQ(view.leased_bytes, kChunk);
    world.clock.now_ns = MBR_SHARED_GONE_NS + 1;
    ASSERT_EQ(mbr_shared_look(shared, kAny, 0, &view, nullptr), MBR_OK);
    EXPECT_EQ(view.leased_bytes, 0u);
    mbr_shared_leave(shared);
}

TEST(Shared_Gone, WantedByTheDead_PressesNobody)
{
    SharedWorld world;
    mbr_shared *shared = world.Join(kLimit);
    mbr_shared_view view;
    ASSERT_EQ(mbr_shared_lease(shared, kLimit - 1, 0, &view, nullptr), MBR_OK);
    ASSERT_EQ(mbr_shared_return(shared, 2 * kChunk, 0, &view, nullptr), MBR_OK);
    ASSERT_EQ(membrane::in_child([&] {
        mbr_shared *mine;
        if (world.TryJoin(kLimit, &mine) != MBR_OK ||
            mbr_shared_lease(mine, 1, 0, &view, nullptr) != MBR_OK)
            return 1;
        return mbr_shared_lease(mine, kLimit, 0, &view, nullptr) == MBR_OVER_BUDGET ? 0 : 2;
    }),
        0);
    ASSERT_EQ(mbr_shared_look(shared, kAny, 0, &view, nullptr), MBR_OK);
    EXPECT_EQ(view.wanted_bytes, 0u);
    mbr_shared_leave(shared);
}

// ---- A forked child
TEST(Shared_Fork, ChildIsRefused_AndItsLeaveTakesNothingFromTheParent)
{
    SharedWorld world;
    mbr_shared *shared = world.Join(kLimit);
    mbr_shared_view view;
    ASSERT_EQ(mbr_shared_lease(shared, 1, 0, &view, nullptr), MBR_OK);
    EXPECT_EQ(membrane::in_child([&] {
        uint64_t stored;
        if (mbr_shared_lease(shared, 1, 0, &view, &world.error) != MBR_STALE ||
            mbr_shared_return(shared, 1, 0, &view, nullptr) != MBR_STALE ||
            mbr_shared_look(shared, 1, 0, &view, nullptr) != MBR_STALE ||
            mbr_shared_audit(shared, &stored, nullptr) != MBR_STALE)
            return 1;
        mbr_shared_leave(shared);
        mbr_shared *own;
        return world.TryJoin(kLimit, &own) == MBR_OK ? 0 : 2;
    }),
        0);
    mbr_shared_figures figures = world.Read();
    EXPECT_EQ(figures.leased_bytes, kChunk);
    EXPECT_TRUE(figures.members[0].lives);
    mbr_shared_leave(shared);
}

} // namespace
