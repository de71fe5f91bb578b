// Every fallible call below a paged store fails once, in every step of a scenario: the heap's, and
// the mechanism's slots. The step is refused and leaves everything as it was, or it did without;
// then it works, and the scenario goes on to its end.
#include "tests/unit/holder/paged_world.h"

#include "tests/support/faulty/failing.h"

#include <functional>

namespace membrane
{
namespace
{

constexpr char kFaulty[] = "tests/support/libmembrane-faulty.so";

struct Step {
    const char *name;
    std::function<mbr_status(PagedWorld &)> run;
};

// Long lists, so that they and the moves need the heap; several extents at once.
const Step kSteps[] = {
    {"begin", [](PagedWorld &w) { return w.begin(); }},
    {"append", [](PagedWorld &w) { return w.append(w.all[0].get(), 100); }},
    {"fork", [](PagedWorld &w) { return w.fork(w.all[0].get()); }},
    {"append to the shared page", [](PagedWorld &w) { return w.append(w.all[1].get(), 3); }},
    {"overwrite it all", [](PagedWorld &w) { return w.overwrite(w.all[1].get(), 0, 103); }},
    {"append many extents", [](PagedWorld &w) { return w.append(w.all[1].get(), 1800); }},
    {"preempt", [](PagedWorld &w) { return w.preempt(w.all[1].get()); }},
    {"restore", [](PagedWorld &w) { return w.restore(w.all[1].get()); }},
    {"rewind", [](PagedWorld &w) { return w.rewind(w.all[1].get(), 7); }},
};

PagedShape long_one()
{
    PagedShape shape;
    shape.max_tokens = 2000;
    shape.max_pages = shape.max_saved_pages = 512;
    return shape;
}

struct Fault {
    std::function<void(uint64_t)> arm;
    std::function<bool()> disarm; // whether it was met
};

// False if the step has no nth call.
bool run_with_fault(PagedWorld &world, size_t at, uint64_t nth, const Fault &fault)
{
    bool met = false;
    for (size_t i = 0; i < std::size(kSteps) && !::testing::Test::HasFailure(); i++) {
        if (i == at) {
            fault.arm(nth);
            world.may_fail = true;
        }
        mbr_status status = kSteps[i].run(world); // which compares the figures
        if (i == at) {
            met = fault.disarm();
            world.may_fail = false;
            EXPECT_TRUE(met || status == MBR_OK) << world.error.text;
            world.check();
            if (status != MBR_OK)
                status = kSteps[i].run(world);
        }
        EXPECT_EQ(MBR_OK, status) << kSteps[i].name << ": " << world.error.text;
    }
    world.check();
    return met;
}

TEST(PagedFault, Heap_FailsAtEachCallOfEachStep_TheStepIsRefusedWholeAndThenWorks)
{
    uint64_t met = 0;
    for (size_t at = 0; at < std::size(kSteps); at++) {
        bool more = true;
        for (uint64_t nth = 1; more && !HasFailure(); nth++) {
            SCOPED_TRACE(std::string(kSteps[at].name) + ", call " + std::to_string(nth));
            FailingHeap heap;
            mbr_manager_seams seams = {&heap.heap, nullptr, nullptr, nullptr, nullptr};
            {
                PagedWorld world(long_one(), 64 * kMiB, 64 * kMiB, &seams);
                more = run_with_fault(world, at, nth,
                    {[&](uint64_t n) { heap.fail_at = heap.calls + n; },
                        [&] { return heap.calls >= std::exchange(heap.fail_at, 0); }});
            }
            EXPECT_EQ(0, heap.live);
            met += more;
        }
    }
    EXPECT_LT(50u, met);
}

TEST(PagedFault, Slots_FailAtEachCallOfEachStep_TheStepIsRefusedWholeAndThenWorks)
{
    for (uint32_t slot : {FAULTY_EXTENT_CREATE, FAULTY_MAP, FAULTY_PROTECT}) {
        uint64_t met = 0;
        for (size_t at = 0; at < std::size(kSteps); at++) {
            bool more = true;
            for (uint64_t nth = 1; more && !HasFailure(); nth++) {
                SCOPED_TRACE(std::string(kSteps[at].name) + ", slot " + std::to_string(slot) +
                    ", call " + std::to_string(nth));
                Faulty faulty;
                PagedWorld world(
                    long_one(), 64 * kMiB, 64 * kMiB, nullptr, kFaulty, faulty.options());
                more = run_with_fault(world, at, nth,
                    {[&](uint64_t n) { faulty.fail(slot, n); }, [&] { return faulty.stop(); }});
                met += more;
            }
        }
        EXPECT_LE(5u, met) << slot;
    }
}

TEST(PagedFault, Create_FailsAtEachCall_NothingIsLeft)
{
    FailingHeap heap;
    mbr_manager_seams seams = {&heap.heap, nullptr, nullptr, nullptr, nullptr};
    Faulty faulty;
    PagedWorld world(long_one(), 64 * kMiB, 64 * kMiB, &seams, kFaulty, faulty.options());
    auto request = world.request();
    uint64_t refused = 0;
    for (uint64_t nth = 1;; nth++) {
        mbr_paged *store;
        int64_t live = heap.live;
        heap.fail_at = heap.calls + nth;
        mbr_status status = mbr_paged_create(world.manager, &request, &store, &world.error);
        bool met = heap.calls >= std::exchange(heap.fail_at, 0);
        if (!met) {
            ASSERT_EQ(MBR_OK, status);
            ASSERT_EQ(MBR_OK, mbr_paged_destroy(store, &world.error));
            break;
        }
        if (status == MBR_OK) {
            ASSERT_EQ(MBR_OK, mbr_paged_destroy(store, &world.error));
            continue;
        }
        refused++;
        EXPECT_EQ(MBR_OUT_OF_HOST_MEMORY, status);
        EXPECT_EQ(nullptr, store);
        EXPECT_GE(live + 4, heap.live) << "records of kept addresses may stay";
    }
    EXPECT_LT(5u, refused);
    for (uint64_t nth = 1; nth <= 2; nth++) { /* both areas' addresses */
        uint64_t released;
        mbr_paged *store;
        ASSERT_EQ(
            MBR_OK, mbr_manager_trim(world.manager, world.mechanism, 0, &released, &world.error));
        faulty.fail(FAULTY_RESERVE, nth);
        mbr_status status = mbr_paged_create(world.manager, &request, &store, &world.error);
        faulty.stop();
        if (status == MBR_OK) {
            ASSERT_EQ(MBR_OK, mbr_paged_destroy(store, &world.error)); /* kept addresses */
            continue;
        }
        EXPECT_EQ(MBR_SYSTEM, status);
        EXPECT_EQ(nullptr, store);
    }
}

/* A decommit that finds no host memory leaves an empty extent, which is given later. */
TEST(PagedFault, Decommit_Refused_LeavesTheExtentFreeAndChargedUntilTheNextTime)
{
    FailingHeap heap;
    mbr_manager_seams seams = {&heap.heap, nullptr, nullptr, nullptr, nullptr};
    PagedWorld world(long_one(), 64 * kMiB, 64 * kMiB, &seams);
    ASSERT_EQ(MBR_OK, world.begin());
    ASSERT_EQ(MBR_OK, world.append(world.all[0].get(), 3 * 16 * 6));
    heap.fail_at = heap.calls + 1;
    ASSERT_EQ(MBR_OK, world.rewind(world.all[0].get(), 1));
    heap.fail_at = 0;
    world.check();
    EXPECT_EQ(3u * 4096, world.read().committed_bytes) << "the first was refused";
    ASSERT_EQ(MBR_OK, world.rewind(world.all[0].get(), 0));
    world.check();
    EXPECT_EQ(4096u, world.read().committed_bytes) << "one empty extent is kept";
    EXPECT_EQ(4096u, world.give(UINT64_MAX));
    EXPECT_EQ(0u, world.paid(world.holder).charged_bytes);
}

// A store of 32 pages over a mechanism that refuses what a test says, and one sequence.
struct FewPages {
    Faulty faulty;
    PagedWorld world{shape(), 64 * kMiB, 64 * kMiB, nullptr, kFaulty, faulty.options()};
    Plain *plain = nullptr;

    FewPages() { EXPECT_EQ(MBR_OK, world.begin(&plain)); }
    static PagedShape shape()
    {
        PagedShape shape;
        shape.max_pages = 32;
        return shape;
    }
};

/* What a refused unmap has stuck stays charged: it is no byte given, and others' places come first.
 */
TEST(PagedFault, Unmap_Fails_NoBytesAreGivenAndItsPlaceIsTakenLast)
{
    FewPages few;
    auto &[faulty, world, plain] = few;
    ASSERT_EQ(MBR_OK, world.append(plain, 1));
    ASSERT_EQ(MBR_OK, world.rewind(plain, 0));
    faulty.fail(FAULTY_UNMAP, 1);
    EXPECT_EQ(0u, mbr_paged_give(world.store, UINT64_MAX));
    EXPECT_TRUE(faulty.stop());
    EXPECT_EQ(0u, world.read().committed_bytes);
    EXPECT_EQ(4096u, world.paid(world.holder).charged_bytes);
    ASSERT_EQ(MBR_OK, mbr_paged_append(world.store, plain->handle, 96, nullptr, &world.error))
        << world.error.text;
    EXPECT_EQ(4096u, world.read().committed_bytes) << "the other place";
    ASSERT_EQ(MBR_OK, mbr_paged_rewind(world.store, plain->handle, 0, &world.error));
    uint64_t released;
    ASSERT_EQ(MBR_OK, mbr_manager_trim(world.manager, world.mechanism, 0, &released, &world.error));
    EXPECT_EQ(4096u, world.paid(world.holder).charged_bytes);
}

/* The undo of a growth fails as well: what is stuck is charged and out of use, the store goes on in
 * other places, and after a trim that one works again. */
TEST(PagedFault, Growth_WhoseUndoFails_StuckPlaceIsTakenLastAndTheStoreGoesOn)
{
    FewPages few;
    auto &[faulty, world, plain] = few;
    auto before = world.read();
    faulty.fail(FAULTY_PROTECT, 1);
    faulty.fail(FAULTY_UNMAP, 1);
    EXPECT_EQ(MBR_RESIDUAL, mbr_paged_append(world.store, plain->handle, 1, nullptr, &world.error));
    faulty.stop();
    auto after = world.read();
    EXPECT_EQ(0, std::memcmp(&before, &after, sizeof(before)));
    EXPECT_EQ(4096u, world.paid(world.holder).charged_bytes) << "what is left is said";
    ASSERT_EQ(MBR_OK, mbr_paged_append(world.store, plain->handle, 96, nullptr, &world.error));
    EXPECT_EQ(MBR_BUSY, mbr_paged_append(world.store, plain->handle, 1, nullptr, &world.error));
    EXPECT_EQ(4096u, world.read().committed_bytes);
    uint64_t released;
    ASSERT_EQ(MBR_OK, mbr_manager_trim(world.manager, world.mechanism, 0, &released, &world.error));
    ASSERT_EQ(MBR_OK, mbr_paged_append(world.store, plain->handle, 1, nullptr, &world.error))
        << world.error.text;
    EXPECT_EQ(8192u, world.read().committed_bytes);
    EXPECT_EQ(8192u, world.paid(world.holder).charged_bytes);
}

} // namespace
} // namespace membrane
