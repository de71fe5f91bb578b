// Arenas over the real backing and the real context, on a mechanism that fails where a test says so
// and keeps books of its own: what was tested on the fakes holds on the parts themselves.
#include "tests/unit/backing/world.h"

extern "C" {
#include "host/alloc/arena.h"
}

#include <vector>

namespace membrane
{
namespace
{

constexpr uint64_t kMiB = UINT64_C(1) << 20;

class Whole : public World
{
  public:
    explicit Whole(uint64_t limit = 256 * kMiB, uint64_t keep_bytes = 32 * kMiB)
        : World(limit, keep_bytes)
    {
        EXPECT_EQ(MBR_OK, mbr_alloc_table_create(&heap.heap, &table, nullptr));
        mbr_arena_options options = {table, backing, context, 3, keep_bytes, &heap.heap};
        EXPECT_EQ(MBR_OK, mbr_arena_create(&options, &arena, nullptr));
    }

    ~Whole()
    {
        mbr_error error = {};
        error.struct_size = sizeof(error);
        fake.faults.clear();
        EXPECT_EQ(MBR_OK, mbr_arena_destroy(arena, &error)) << error.text;
        mbr_alloc_table_destroy(table);
    }

    mbr_status Alloc(uint64_t bytes, mbr_allocation_handle *handle, mbr_error *error = nullptr)
    {
        return AllocOn(stream, bytes, handle, error);
    }

    mbr_status AllocOn(uint64_t stream_id, uint64_t bytes, mbr_allocation_handle *handle,
        mbr_error *error = nullptr)
    {
        mbr_arena_request request = {kv, stream_id, bytes, 0, 0, 0, nullptr};
        mbr_alloc_result result = {};
        result.struct_size = sizeof(result);
        mbr_status status = mbr_arena_alloc(arena, &request, &result, error);
        *handle = result.allocation;
        return status;
    }

    mbr_status Free(mbr_allocation_handle handle, bool now)
    {
        return mbr_alloc_free(table, handle, 0, now, nullptr, 0, nullptr);
    }

    void Settle()
    {
        while (mbr_context_reap(context, true) != 0)
            ;
    }

    uint64_t ChargedHere()
    {
        mbr_arena_fold(arena);
        return charged(kv);
    }

    // Every oracle: arena, backing, governor, and the mechanism's own books.
    ::testing::AssertionResult Agree()
    {
        mbr_error error = {};
        error.struct_size = sizeof(error);
        if (mbr_arena_audit(arena, &error) != MBR_OK)
            return ::testing::AssertionFailure() << error.text;
        return agree();
    }

    // Several allocations, freed half at once and half through the queue. How many were refused.
    int Work()
    {
        std::vector<mbr_allocation_handle> handles;
        int refused = 0;
        for (uint64_t bytes : {UINT64_C(100), UINT64_C(5000), 3 * kMiB, 65 * kMiB, UINT64_C(100)}) {
            mbr_allocation_handle handle;
            mbr_error error = {};
            error.struct_size = sizeof(error);
            mbr_status status = Alloc(bytes, &handle, &error);
            if (status == MBR_OK) {
                handles.push_back(handle);
                continue;
            }
            refused++;
            EXPECT_EQ(status, error.status);
            EXPECT_NE('\0', error.text[0]);
        }
        EXPECT_TRUE(Agree());
        for (size_t i = 0; i < handles.size(); i++)
            EXPECT_EQ(MBR_OK, Free(handles[i], i % 2 == 0));
        Settle();
        mbr_arena_trim(arena, 0);
        EXPECT_EQ(0u, ChargedHere());
        EXPECT_TRUE(Agree());
        return refused;
    }

    mbr_alloc_table *table = nullptr;
    mbr_arena *arena = nullptr;
};

TEST(ArenaWhole, Work_OverVirtualMemory_LeavesNothingBehind)
{
    Whole whole;
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(0, whole.Work());
    EXPECT_GT(whole.fake.calls(Slot::kMap), 0u);
}

TEST(ArenaWhole, Work_OnAnAllocatorAlone_LeavesNothingBehind)
{
    Whole whole;
    mbr_mechanism *mechanism =
        const_cast<mbr_mechanism *>(mbr_port_mechanism(mbr_backing_port(whole.backing)));
    mechanism->has_virtual = mechanism->has_shared = false;
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(0, whole.Work());
    EXPECT_EQ(0u, whole.fake.calls(Slot::kMap));
    EXPECT_EQ(whole.fake.calls(Slot::kAllocate), whole.fake.calls(Slot::kRelease));
}

TEST(ArenaWhole, Pairs_InTheSteadyState_CallNoSlot)
{
    Whole whole;
    auto pairs = [&] {
        for (int i = 0; i < 100; i++)
            for (uint64_t bytes : {UINT64_C(100), UINT64_C(70000), 3 * kMiB, 20 * kMiB}) {
                mbr_allocation_handle handle;
                EXPECT_EQ(MBR_OK, whole.Alloc(bytes, &handle));
                EXPECT_EQ(MBR_OK, whole.Free(handle, true));
            }
    };
    pairs();
    uint64_t calls = whole.fake.all_calls();
    pairs();
    EXPECT_EQ(calls, whole.fake.all_calls());
}

// The bytes that arena and backing keep, which one watermark bounds.
uint64_t Kept(Whole *whole)
{
    mbr_arena_figures figures;
    mbr_arena_read(whole->arena, &figures);
    return figures.idle_bytes + whole->kept().pooled_bytes + whole->kept().parked_bytes;
}

TEST(ArenaWhole, Watermark_HoldsOverIdleSlabsAndWhatTheBackingKeeps)
{
    constexpr uint64_t kKeep = 32 * kMiB;
    Whole whole(256 * kMiB, kKeep);
    auto park = [&](uint64_t bytes) {
        mbr_range *range = whole.reserve(bytes, {kMiB, kMiB, 0});
        ASSERT_EQ(MBR_OK, whole.grow(range, 0, bytes));
        ASSERT_EQ(MBR_OK, whole.end(range));
    };
    auto idle = [&](bool now) { // three slabs of 16 MiB and one of 20
        std::vector<mbr_allocation_handle> handles(25);
        for (size_t i = 0; i < handles.size(); i++)
            ASSERT_EQ(MBR_OK, whole.Alloc(i == 24 ? 20 * kMiB : 2 * kMiB, &handles[i]));
        for (mbr_allocation_handle handle : handles)
            ASSERT_EQ(MBR_OK, whole.Free(handle, now));
        whole.Settle();
    };
    park(40 * kMiB);
    EXPECT_EQ(kKeep, whole.kept().parked_bytes);
    for (bool now : {true, false, true, false}) {
        idle(now);
        EXPECT_LE(Kept(&whole), kKeep) << now;
        mbr_arena_trim(whole.arena, UINT64_MAX); // the thread's blocks make their slabs idle
        EXPECT_LE(Kept(&whole), kKeep) << now;
        EXPECT_GE(Kept(&whole), kKeep / 2) << "and is used";
        park(40 * kMiB);
        EXPECT_LE(Kept(&whole), kKeep) << now;
        EXPECT_TRUE(whole.Agree());
    }
    mbr_arena_trim(whole.arena, 0);
    park(40 * kMiB);
    EXPECT_EQ(kKeep, whole.kept().parked_bytes) << "what no slab takes is the backing's again";
}

TEST(ArenaWhole, Watermark_ThatHoldsABatchOfBlocks_CallsNoSlotInTheSteadyState)
{
    Whole whole(512 * kMiB, 200 * kMiB); // 96 blocks are 12 slabs of 16 MiB
    auto batch = [&] {
        std::vector<mbr_allocation_handle> handles(96);
        for (mbr_allocation_handle &handle : handles)
            ASSERT_EQ(MBR_OK, whole.Alloc(2 * kMiB, &handle));
        for (mbr_allocation_handle handle : handles)
            ASSERT_EQ(MBR_OK, whole.Free(handle, true));
    };
    batch();
    uint64_t calls = whole.fake.all_calls();
    for (int i = 0; i < 5; i++)
        batch();
    EXPECT_EQ(calls, whole.fake.all_calls());
}

TEST(ArenaWhole, Faults_EachSlotAtEachCall_LeaveTheBooksEqual)
{
    uint64_t met = 0;
    for (int slot = 0; slot < static_cast<int>(Slot::kCount); slot++) {
        uint64_t ordinals;
        {
            Whole whole;
            whole.Work();
            ordinals = whole.fake.calls(static_cast<Slot>(slot));
        }
        for (uint64_t ordinal = 1; ordinal <= ordinals; ordinal++)
            for (bool sticky : {false, true}) {
                SCOPED_TRACE(testing::Message() << slot << " " << ordinal << " " << sticky);
                Whole whole;
                whole.fake.faults.push_back({static_cast<Slot>(slot), ordinal, FaultKind::kRefuse,
                    MBR_OUT_OF_MEMORY, sticky});
                whole.Work();
                met += whole.fake.faults_met() != 0;
                whole.fake.faults.clear();
                mbr_authority_sample(whole.authority, true); /* ends the limit of an exhaustion */
                EXPECT_EQ(0, whole.Work()) << "the same work then succeeds";
                mbr_backing_trim(whole.backing, 0); /* what a destroy refused is tried once more */
                whole.leaks = whole.kept().quarantined_count != 0 ||
                    whole.kept().retained_bytes != 0; // an undo that failed
            }
    }
    EXPECT_GT(met, 20u);
}

TEST(ArenaWhole, Frees_ThatWaitForALine_KeepTheirBlocksUntilItIsReached)
{
    Whole whole;
    whole.line.automatic = false;
    mbr_allocation_handle first, second;
    ASSERT_EQ(MBR_OK, whole.Alloc(16 * kMiB, &first));
    ASSERT_EQ(MBR_OK, whole.Free(first, false));
    ASSERT_EQ(MBR_OK, whole.AllocOn(0, 16 * kMiB, &second)); // by the host, which cannot wait
    whole.Settle();
    EXPECT_EQ(2 * 16 * kMiB, whole.ChargedHere());
    EXPECT_TRUE(whole.Agree());
    whole.line.reached = UINT64_MAX;
    whole.Settle();
    EXPECT_EQ(16 * kMiB, whole.ChargedHere());
    EXPECT_EQ(MBR_OK, whole.Free(second, true));
    EXPECT_TRUE(whole.Agree());
}

// A training step: the same sizes are freed and allocated again on one stream, whose work is never
// done in time. Nothing new is made, nobody waits and the mechanism is not called (XLA#44174).
TEST(ArenaWhole, Steps_OnABusyStream_TakeTheirQueuedMemoryAgainWithoutACall)
{
    Whole whole;
    whole.line.automatic = false;
    const uint64_t sizes[] = {100, 70000, 3 * kMiB, 20 * kMiB, 70 * kMiB};
    auto step = [&] {
        mbr_allocation_handle handles[5];
        for (int i = 0; i < 5; i++)
            ASSERT_EQ(MBR_OK, whole.Alloc(sizes[i], &handles[i]));
        for (mbr_allocation_handle handle : handles)
            ASSERT_EQ(MBR_OK, whole.Free(handle, false));
    };
    for (int i = 0; i < 600; i++) // until what the thread had is queued, too
        step();
    uint64_t slots = whole.fake.all_calls(), signals = whole.line.signalled;
    mbr_ep_figures before = {}, after = {};
    before.struct_size = after.struct_size = sizeof(before);
    mbr_context_read(whole.context, &before);
    for (int i = 0; i < 1000; i++)
        step();
    mbr_context_read(whole.context, &after);
    EXPECT_EQ(slots, whole.fake.all_calls());
    EXPECT_EQ(before.queued_bytes, after.queued_bytes);
    EXPECT_EQ(5000u, after.reactivated_count - before.reactivated_count);
    EXPECT_EQ(0u, after.stream_wait_count);
    EXPECT_EQ(1000u, whole.line.signalled - signals) << "64 MiB close an epoch";
    EXPECT_TRUE(whole.Agree());
    whole.line.reached = UINT64_MAX;
    whole.Settle();
    EXPECT_EQ(0u, whole.ChargedHere());
}

TEST(ArenaWhole, Budget_FullOfQueuedReleases_IsReapedBeforeARefusal)
{
    Whole whole(96 * kMiB);
    for (int i = 0; i < 20; i++) {
        mbr_allocation_handle handle;
        ASSERT_EQ(MBR_OK, whole.Alloc(i % 2 == 0 ? 40 * kMiB : 90 * kMiB, &handle)) << i;
        EXPECT_EQ(MBR_OK, whole.Free(handle, false));
    }
    whole.Settle();
    EXPECT_TRUE(whole.Agree());
}

// A caller that tries again and again, for which addresses are reserved once: wherever in an
// attempt the device is done, the memory is had as it was left, and nothing is unmapped for it.
TEST(ArenaWhole, Budget_FullOfOneReleaseThatCompletesInsideAnAttempt_IsHadAsItStands)
{
    auto work_slots = [](const Whole &whole) {
        return whole.fake.all_calls() - whole.fake.calls(Slot::kReserve);
    };
    for (uint64_t bytes : {90 * kMiB, 40 * kMiB}) {
        for (uint64_t question = 0; question < 4; question++) {
            Whole whole(bytes + 6 * kMiB, 256 * kMiB);
            whole.line.automatic = false;
            mbr_allocation_handle first, second;
            ASSERT_EQ(MBR_OK, whole.Alloc(bytes, &first));
            ASSERT_EQ(MBR_OK, whole.Free(first, false));
            uint64_t slots = work_slots(whole);
            whole.line.asked_count = 0;
            whole.line.reached_when_asked = question;
            mbr_status status;
            do
                status = whole.AllocOn(0, bytes, &second);
            while (status == MBR_OVER_BUDGET);
            EXPECT_EQ(MBR_OK, status);
            EXPECT_EQ(slots, work_slots(whole)) << bytes << " bytes, question " << question;
            EXPECT_EQ(MBR_OK, whole.Free(second, true));
            EXPECT_TRUE(whole.Agree());
        }
    }
}

TEST(ArenaWhole, Loss_OfTheDevice_KeepsTheChargeUntilTheEndIsConfirmed)
{
    Whole whole;
    whole.line.automatic = false;
    mbr_allocation_handle queued, live;
    ASSERT_EQ(MBR_OK, whole.Alloc(3 * kMiB, &queued));
    ASSERT_EQ(MBR_OK, whole.Alloc(65 * kMiB, &live));
    ASSERT_EQ(MBR_OK, whole.Free(queued, false));
    uint64_t charged = whole.ChargedHere(), calls = whole.fake.all_calls();
    mbr_context_lose(whole.context);
    EXPECT_EQ(MBR_OK, whole.Free(live, false));
    mbr_arena_trim(whole.arena, 0);
    EXPECT_EQ(charged, whole.ChargedHere());
    EXPECT_EQ(calls, whole.fake.all_calls()) << "I12";
    EXPECT_EQ(MBR_IN_USE, mbr_arena_destroy(whole.arena, nullptr));
    EXPECT_EQ(charged, mbr_arena_confirm_lost(whole.arena));
    EXPECT_EQ(0u, whole.ChargedHere());
    mbr_backing_confirm_lost(whole.backing, whole.context);
    EXPECT_EQ(calls, whole.fake.all_calls());
    EXPECT_EQ(0u, whole.books().charged_bytes) << "refunded once";
    whole.fake.forget_all();
}

} // namespace
} // namespace membrane
