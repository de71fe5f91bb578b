// Every fallible call below a KV cache fails once, in every step of a scenario: the heap's, and the
// mechanism's slots. The step is refused and leaves the books as they were, or it did without;
// then it works, and the scenario goes on to its end with every content intact.
#include "tests/unit/holder/kv_world.h"
#include "tests/unit/holder/meanwhile.h"

#include "tests/support/faulty/failing.h"

#include <functional>
#include <future>

namespace membrane
{

namespace
{

constexpr char kFaulty[] = "tests/support/libmembrane-faulty.so";

struct Cast {
    Tracked source, sharer, third;
    TrackedPrefix prefix, longer;
};

struct Step {
    const char *name;
    bool trims; // gives back before it asks: a refusal may leave less than there was
    std::function<mbr_status(KvWorld &, Cast &)> run;
};

const Step kSteps[] = {
    {"create", false, [](KvWorld &w, Cast &c) { return w.create(&c.source, 60); }},
    {"append", true, [](KvWorld &w, Cast &c) { return w.append(&c.source, 100); }},
    {"share", false, [](KvWorld &w, Cast &c) { return w.share(&c.source, 160, &c.prefix); }},
    {"attach", false,
        [](KvWorld &w, Cast &c) { return w.create(&c.sharer, 200, &c.prefix, 160, 1); }},
    {"append to a sharer", true, [](KvWorld &w, Cast &c) { return w.append(&c.sharer, 120); }},
    {"share what is shared", false,
        [](KvWorld &w, Cast &c) { return w.share(&c.sharer, 320, &c.longer); }},
    {"attach a chain", false,
        [](KvWorld &w, Cast &c) { return w.create(&c.third, 330, &c.longer, 320, 2); }},
    {"destroy", false, [](KvWorld &w, Cast &c) { return w.destroy(&c.source); }},
    {"append once more", true, [](KvWorld &w, Cast &c) { return w.append(&c.third, 60); }},
};

void check_contents(KvWorld &world, const Cast &cast)
{
    for (const Tracked *one : {&cast.source, &cast.sharer, &cast.third}) {
        if (one->sequence != nullptr) {
            ASSERT_TRUE(world.holds(*one));
        }
    }
}

void check_books(KvWorld &world)
{
    world.settle();
    auto figures = world.read();
    ASSERT_TRUE(world.clean());
    ASSERT_EQ(figures.committed_bytes + figures.shared_bytes,
        world.paid(world.holder).charged_bytes + world.paid(world.prefix_holder).charged_bytes);
}

void finish(KvWorld &world, Cast &cast)
{
    for (Tracked *one : {&cast.source, &cast.sharer, &cast.third}) {
        if (one->sequence != nullptr) {
            ASSERT_EQ(MBR_OK, world.destroy(one)) << world.error.text;
        }
    }
    for (TrackedPrefix *prefix : {&cast.prefix, &cast.longer}) {
        if (prefix->prefix != nullptr)
            world.end(prefix);
    }
}

struct Fault {
    std::function<void(uint64_t)> arm; // the n-th call from now on fails
    std::function<bool()> disarm;      // whether it was met
    mbr_status status;
};

/* Runs the scenario with the n-th call of one step failing. False if the step has no n-th call. */
bool run_with_fault(KvWorld &world, size_t at, uint64_t nth, const Fault &fault)
{
    Cast cast;
    bool met = false;
    for (size_t i = 0; i < std::size(kSteps); i++) {
        mbr_kv_figures before = world.read();
        if (i == at)
            fault.arm(nth);
        mbr_status status = kSteps[i].run(world, cast);
        if (i == at) {
            met = fault.disarm();
            EXPECT_TRUE(met || status == MBR_OK) << world.error.text;
        }
        if (i == at && status != MBR_OK) {
            mbr_kv_figures after = world.read();
            EXPECT_EQ(fault.status, status) << world.error.text;
            if (kSteps[i].trims)
                before.committed_bytes = std::min(before.committed_bytes, after.committed_bytes);
            EXPECT_EQ(0, std::memcmp(&before, &after, sizeof(before)));
            check_books(world);
            check_contents(world, cast);
            status = kSteps[i].run(world, cast);
        }
        EXPECT_EQ(MBR_OK, status) << kSteps[i].name << ": " << world.error.text;
        if (status != MBR_OK)
            break;
    }
    check_books(world);
    check_contents(world, cast);
    finish(world, cast);
    return met;
}

/* ---- The heap -------------------------------------------------------------------------------- */

TEST(KvFault, Heap_FailsAtEachCallOfEachStep_TheStepIsRefusedWholeAndThenWorks)
{
    uint64_t met = 0;
    for (size_t at = 0; at < std::size(kSteps); at++) {
        bool more = true;
        for (uint64_t nth = 1; more && !::testing::Test::HasFailure(); nth++) {
            SCOPED_TRACE(std::string(kSteps[at].name) + ", call " + std::to_string(nth));
            FailingHeap heap;
            mbr_manager_seams seams = {&heap.heap, nullptr, nullptr, nullptr, nullptr};
            {
                KvWorld world({kTwoGroups, "seq-major", 400, 0, 8192}, 64 * kMiB, &seams);
                more = run_with_fault(world, at, nth,
                    {[&](uint64_t n) { heap.fail_at = heap.calls + n; },
                        [&] { return heap.calls >= std::exchange(heap.fail_at, 0); },
                        MBR_OUT_OF_HOST_MEMORY});
            }
            EXPECT_EQ(0, heap.live);
            met += more;
        }
    }
    EXPECT_LT(80u, met);
}

TEST(KvFault, Heap_FailsAtEachCallOfCreate_NothingIsLeft)
{
    FailingHeap heap;
    mbr_manager_seams seams = {&heap.heap, nullptr, nullptr, nullptr, nullptr};
    {
        HostWorld world(64 * kMiB, &seams);
        auto request = sized<mbr_kv_request>();
        request.binding = world.binding;
        request.holder = world.holder;
        request.geometry = kTwoGroups;
        request.max_tokens = 100;
        mbr_kv *kv;
        int64_t live = heap.live;
        heap.fail_at = heap.calls + 1;
        EXPECT_EQ(
            MBR_OUT_OF_HOST_MEMORY, mbr_kv_create(world.manager, &request, &kv, &world.error));
        EXPECT_EQ(nullptr, kv);
        EXPECT_EQ(live, heap.live);
        ASSERT_EQ(MBR_OK, mbr_kv_create(world.manager, &request, &kv, &world.error));
        EXPECT_EQ(MBR_OK, mbr_kv_destroy(kv, &world.error));
        EXPECT_EQ(live, heap.live);
    }
    EXPECT_EQ(0, heap.live);
}

/* ---- The mechanism --------------------------------------------------------------------------- */

TEST(KvFault, Slots_FailAtEachCallOfEachStep_TheStepIsRefusedWholeAndThenWorks)
{
    const uint32_t slots[] = {
        FAULTY_RESERVE, FAULTY_EXTENT_CREATE, FAULTY_MAP, FAULTY_PROTECT, FAULTY_MAP_SHARED};
    uint64_t met[FAULTY_SLOT_COUNT] = {};
    for (uint32_t slot : slots)
        for (size_t at = 0; at < std::size(kSteps); at++) {
            bool more = true;
            for (uint64_t nth = 1; more && !::testing::Test::HasFailure(); nth++) {
                SCOPED_TRACE(std::string(kSteps[at].name) + ", slot " + std::to_string(slot) +
                    ", call " + std::to_string(nth));
                Faulty faulty;
                KvWorld world({kTwoGroups, "seq-major", 400, 0, 8192}, 64 * kMiB, nullptr, kFaulty,
                    faulty.options());
                more = run_with_fault(world, at, nth,
                    {[&](uint64_t n) { faulty.fail(slot, n); }, [&] { return faulty.stop(); },
                        MBR_SYSTEM});
                met[slot] += more;
            }
        }
    for (uint32_t slot : slots)
        EXPECT_LT(0u, met[slot]) << slot;
}

/* S104: the second group's alias is refused, and the first one's cannot be taken back. The private
 * path at these addresses is forbidden, what stays is charged and said, and the rest goes on. The
 * world is left as it is: nobody may give back what nobody knows. */
TEST(KvFault, Attach_UndoFails_ResidueIsReportedAndTheOthersAreUndisturbed)
{
    static Faulty faulty; /* lives as long as what it leaks */
    auto *world = new KvWorld(
        {kTwoGroups, "seq-major", 400, 0, 8192}, 64 * kMiB, nullptr, kFaulty, faulty.options());
    static KvWorld *volatile kept; /* reachable: a leak on purpose is no leak by mistake */
    kept = world;
    ASSERT_NE(nullptr, kept);
    Tracked source, sharer;
    TrackedPrefix prefix;
    ASSERT_EQ(MBR_OK, world->create(&source, 200));
    ASSERT_EQ(MBR_OK, world->share(&source, 200, &prefix));
    auto before = world->read();
    auto books = world->books();
    faulty.fail(FAULTY_MAP_SHARED, 5);
    faulty.fail(FAULTY_UNMAP, 1, 1);
    EXPECT_EQ(MBR_RESIDUAL, world->create(&sharer, 220, &prefix, 200));
    EXPECT_NE(nullptr, std::strstr(world->error.text, "private path is forbidden"))
        << world->error.text;
    EXPECT_EQ(nullptr, sharer.sequence);
    EXPECT_TRUE(faulty.stop());
    auto after = world->read();
    EXPECT_EQ(0, std::memcmp(&before, &after, sizeof(before)));
    EXPECT_EQ(books.charged_bytes, world->books().charged_bytes) << "an alias is charged once";
    EXPECT_LT(0u, world->figures().quarantined_count);
    EXPECT_TRUE(world->holds(source));
    ASSERT_EQ(MBR_OK, world->create(&sharer, 220, &prefix, 200, 1)) << world->error.text;
    EXPECT_TRUE(world->holds(sharer));
    ASSERT_EQ(MBR_OK, world->destroy(&sharer));
    ASSERT_EQ(MBR_OK, world->create(&sharer, 220)) << "and so may a private one";
    EXPECT_TRUE(world->holds(sharer) && world->holds(source));
}

// Watches what of a cache still counts while one of its records is taken apart. Where somebody asks
// for it meanwhile and is told that nothing does, he could end the cache under the call. Who waits
// for its lock is answered later.
struct AskingHeap {
    explicit AskingHeap(uint64_t mbr_kv_figures::*counted) : count(counted)
    {
        heap.allocate = [](void *, size_t bytes) { return std::calloc(1, bytes); };
        heap.release = [](void *context, void *memory) {
            auto *self = static_cast<AskingHeap *>(context);
            if (self->kv != nullptr && memory != nullptr)
                self->ask();
            std::free(memory);
        };
        heap.context = this;
    }
    void ask()
    {
        auto answer = call_beside([cache = kv, counted = count] {
            auto figures = sized<mbr_kv_figures>();
            EXPECT_EQ(MBR_OK, mbr_kv_read(cache, &figures, nullptr));
            return figures.*counted;
        });
        asked++;
        if (is_back(answer))
            early += answer.get() == 0;
        else
            later.push_back(std::move(answer));
    }
    mbr_heap heap;
    mbr_kv *kv = nullptr; // of which it asks
    uint64_t mbr_kv_figures::*count;
    uint64_t asked = 0, early = 0;
    std::vector<std::future<uint64_t>> later;
};

TEST(KvFault, WhatEndsOnOneThread_CountsUntilNothingOfItIsLeft)
{
    for (bool is_prefix : {true, false}) {
        AskingHeap heap(
            is_prefix ? &mbr_kv_figures::prefix_count : &mbr_kv_figures::sequence_count);
        mbr_manager_seams seams = {&heap.heap, nullptr, nullptr, nullptr, nullptr};
        KvWorld world({kTwoGroups, "window-major", 400, 0, 8192}, 64 * kMiB, &seams);
        Tracked source;
        TrackedPrefix prefix;
        ASSERT_EQ(MBR_OK, world.create(&source, 160));
        ASSERT_EQ(MBR_OK, world.share(&source, 160, &prefix)) << world.error.text;
        heap.kv = is_prefix ? world.kv : nullptr;
        world.end(&prefix);
        heap.kv = is_prefix ? nullptr : world.kv;
        EXPECT_EQ(MBR_OK, world.destroy(&source)) << world.error.text;
        heap.kv = nullptr;
        EXPECT_LT(0u, heap.asked);
        EXPECT_EQ(0u, heap.early) << (is_prefix ? "prefix" : "sequence");
        for (auto &answer : heap.later)
            EXPECT_EQ(0u, answer.get());
    }
}

} // namespace

} // namespace membrane
