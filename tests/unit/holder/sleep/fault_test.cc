// Every fallible call below a sleeper fails once, in every step of a scenario: the heap's, and the
// mechanism's slots. The step is refused and leaves the books as they were; then it works, and
// every content is there in the end.
#include "tests/unit/holder/sleep/world.h"

#include "tests/support/faulty/failing.h"

#include <functional>
#include <future>
#include <memory>
#include <thread>

namespace membrane
{
namespace
{

/* An extent, so that each one's copies are enqueued before the next is made. */
constexpr uint64_t kSmallChunk = 128 * 1024;
constexpr char kFaulty[] = "tests/support/libmembrane-faulty.so";

/* What is to be the same after a refusal. Free chunks may be more: they are taken one by one. */
struct Books {
    uint64_t charged, committed, asleep, tags, with_contents;
    bool operator==(const Books &other) const
    {
        return std::memcmp(this, &other, sizeof(*this)) == 0;
    }
};

struct Play {
    explicit Play(std::unique_ptr<SleepWorld> made, bool shares_middle = false)
        : world(std::move(made)), shares(shares_middle)
    {
    }
    std::unique_ptr<SleepWorld> world;
    bool shares; /* a prefix has the second extent of each range, which then stays */
    mbr_range_reserve_result ranges[2] = {};
    mbr_prefix_result prefix = sized<mbr_prefix_result>();

    Books books()
    {
        auto figures = world->read();
        uint64_t committed = 0;
        for (const auto &range : ranges)
            committed += range.range.value != 0 ? world->read(range.range).committed_bytes : 0;
        return {world->paid(world->holder).charged_bytes, committed, figures.asleep_bytes,
            figures.range_count, figures.arena_bytes - figures.free_bytes};
    }
    void prepare()
    {
        for (uint8_t i = 0; i < 2; i++) {
            ranges[i] = world->reserve(512 * 1024, 128 * 1024);
            ASSERT_EQ(MBR_OK, world->grow(ranges[i].range, 0, 384 * 1024));
            world->put(ranges[i].address, SleepWorld::pattern(384 * 1024, i));
        }
        if (shares)
            share();
    }
    void share()
    {
        mbr_piece pieces[2];
        for (int i = 0; i < 2; i++)
            pieces[i] = {ranges[i].range, 128 * 1024, 128 * 1024};
        auto request = sized<mbr_prefix_request>();
        request.piece_count = 2;
        request.holder = world->holder;
        request.pieces = pieces;
        ASSERT_EQ(MBR_OK, mbr_prefix_create(world->manager, &request, &prefix, &world->error));
    }
    /* Then its extents are the ranges' own. */
    void unshare()
    {
        if (shares) {
            EXPECT_EQ(MBR_OK, mbr_prefix_release(world->manager, prefix.prefix, &world->error));
        }
    }
    void finish()
    {
        for (uint8_t i = 0; i < 2; i++) {
            EXPECT_TRUE(world->holds(ranges[i].address, 384 * 1024, i));
            world->end(ranges[i].range);
        }
    }
};

const std::function<mbr_status(Play &)> kSteps[] = {
    [](Play &p) { return p.world->add(p.ranges[0].range, 1); },
    [](Play &p) { return p.world->add(p.ranges[1].range, 1); },
    [](Play &p) { return p.world->sleep(1); },
    [](Play &p) { return p.world->sleep(1); }, /* what was shared at the first one */
    [](Play &p) { return p.world->wake(1); },
};
constexpr size_t kFirstSleep = 2, kSecondSleep = 3;

struct Fault {
    std::function<void(uint64_t)> arm;
    std::function<bool()> disarm; /* whether it was met */
    mbr_status status;
};

/* False: the step has no nth call. */
bool play(Play &play, size_t at, uint64_t nth, const Fault &fault)
{
    bool met = false;
    play.prepare();
    for (size_t i = 0; i < std::size(kSteps); i++) {
        if (i == kSecondSleep)
            play.unshare();
        Books before = play.books();
        if (i == at)
            fault.arm(nth);
        mbr_status status = kSteps[i](play);
        if (i == at) {
            met = fault.disarm();
            EXPECT_TRUE(met || status == MBR_OK) << play.world->error.text;
        }
        if (i == at && status == MBR_RESIDUAL) { /* it sleeps: once more gives back the rest */
            EXPECT_EQ(1u, play.world->read().asleep_count);
            EXPECT_LT(0u, play.world->slept.residual_bytes);
        } else if (i == at && status != MBR_OK) {
            EXPECT_EQ(fault.status, status) << play.world->error.text;
            EXPECT_TRUE(before == play.books()) << play.world->error.text;
        }
        EXPECT_TRUE(play.world->clean());
        if (i == at && status != MBR_OK)
            status = kSteps[i](play);
        EXPECT_EQ(MBR_OK, status) << i << ": " << play.world->error.text;
    }
    play.finish();
    return met;
}

TEST(SleepFault, Heap_FailsAtEachCallOfEachStep_NothingIsLostAndThenItWorks)
{
    uint64_t met = 0;
    for (size_t at = 0; at < 2 * std::size(kSteps); at++) {
        bool more = true;
        for (uint64_t nth = 1; more && !::testing::Test::HasFailure(); nth++) {
            SCOPED_TRACE("step " + std::to_string(at) + ", call " + std::to_string(nth));
            FailingHeap heap;
            mbr_manager_seams seams = {&heap.heap, nullptr, nullptr, nullptr, nullptr};
            {
                Play one(std::make_unique<SleepWorld>(8 * kMiB, 64 * kMiB, &seams, nullptr,
                             std::vector<mbr_option>(), UINT64_MAX, kSmallChunk),
                    at % 2 != 0);
                more = play(one, at / 2, nth,
                    {[&](uint64_t n) { heap.fail_at = heap.calls + n; },
                        [&] { return heap.calls >= std::exchange(heap.fail_at, 0); },
                        MBR_OUT_OF_HOST_MEMORY});
            }
            EXPECT_EQ(0, heap.live);
            met += more;
        }
    }
    EXPECT_LT(12u, met);
}

TEST(SleepFault, Slots_FailAtEachCallOfEachStep_NothingIsLostAndThenItWorks)
{
    const uint32_t slots[] = {FAULTY_RESERVE, FAULTY_EXTENT_CREATE, FAULTY_MAP, FAULTY_PROTECT};
    uint64_t met[FAULTY_SLOT_COUNT] = {};
    for (uint32_t slot : slots)
        for (size_t at = 2 * kFirstSleep; at < 2 * std::size(kSteps); at++) {
            bool more = true;
            for (uint64_t nth = 1; more && !::testing::Test::HasFailure(); nth++) {
                SCOPED_TRACE("slot " + std::to_string(slot) + ", step " + std::to_string(at) +
                    ", call " + std::to_string(nth));
                Faulty faulty;
                Play one(std::make_unique<SleepWorld>(8 * kMiB, 64 * kMiB, nullptr, kFaulty,
                             faulty.options(), UINT64_MAX, kSmallChunk),
                    at % 2 != 0);
                more = play(one, at / 2, nth,
                    {[&](uint64_t n) { faulty.fail(slot, n); }, [&] { return faulty.stop(); },
                        MBR_SYSTEM});
                met[slot] += more;
            }
        }
    for (uint32_t slot : slots)
        EXPECT_LT(0u, met[slot]) << slot;
}

/* Nothing is unmapped under copies that run (I11): the refused wake waits for its stream. */
TEST(SleepFault, LastMapRefusedWhileCopiesRun_WaitsForThemAndSleepsOn)
{
    Faulty faulty;
    Play one(std::make_unique<SleepWorld>(
        8 * kMiB, 64 * kMiB, nullptr, kFaulty, faulty.options(), UINT64_MAX, kSmallChunk));
    SleepWorld &world = *one.world;
    one.prepare();
    for (const auto &range : one.ranges)
        ASSERT_EQ(MBR_OK, world.add(range.range, 1));
    ASSERT_EQ(MBR_OK, world.sleep(1)) << world.error.text;
    auto books = one.books();
    faulty.fail(FAULTY_MAP, 6); /* of six extents */
    uint64_t unmaps = faulty.plan.calls[FAULTY_UNMAP];
    std::promise<mbr_status> woken;
    std::future<mbr_status> answer = woken.get_future();
    std::thread waker;
    {
        Gate stalled(world);
        waker = std::thread([&] { woken.set_value(world.wake(1)); });
        while (__atomic_load_n(&faulty.plan.met, __ATOMIC_ACQUIRE) == 0)
            std::this_thread::yield();
        EXPECT_EQ(unmaps, __atomic_load_n(&faulty.plan.calls[FAULTY_UNMAP], __ATOMIC_ACQUIRE));
        EXPECT_NE(std::future_status::ready, answer.wait_for(std::chrono::seconds(0)));
    }
    EXPECT_EQ(MBR_SYSTEM, answer.get()) << world.error.text;
    waker.join();
    faulty.stop();
    EXPECT_EQ(unmaps + 5, faulty.plan.calls[FAULTY_UNMAP]);
    EXPECT_TRUE(books == one.books());
    EXPECT_TRUE(world.clean());
    ASSERT_EQ(MBR_OK, world.wake(1)) << world.error.text;
    one.finish();
}

TEST(SleepFault, LevelTwoThatLeftAPieceCommitted_WakesToZeroAllTheSame)
{
    uint64_t residual = 0;
    bool more = true;
    for (uint64_t nth = 1; more && !::testing::Test::HasFailure(); nth++) {
        FailingHeap heap;
        mbr_manager_seams seams = {&heap.heap, nullptr, nullptr, nullptr, nullptr};
        SleepWorld world(8 * kMiB, 64 * kMiB, &seams);
        auto a = world.make(1, 128 * 1024, 1), b = world.make(1, 128 * 1024, 2);
        heap.fail_at = heap.calls + nth;
        mbr_status status = world.sleep(1, MBR_SLEEP_DROP);
        more = heap.calls >= std::exchange(heap.fail_at, 0);
        if (status == MBR_RESIDUAL) {
            residual++;
            EXPECT_EQ(128 * 1024u, world.slept.residual_bytes);
        } else if (status != MBR_OK) {
            status = world.sleep(1, MBR_SLEEP_DROP);
        }
        ASSERT_EQ(MBR_OK, world.wake(1, MBR_WAKE_ZEROED)) << world.error.text;
        EXPECT_EQ(MBR_CONTENT_ZERO, world.woken.content);
        ASSERT_EQ(MBR_OK, mbr_ep_synchronize(world.manager, world.stream, kNever, &world.error));
        for (const auto &range : {a, b}) {
            EXPECT_EQ(std::vector<uint8_t>(128 * 1024), world.get(range.address, 128 * 1024));
            world.end(range.range);
        }
    }
    EXPECT_LT(0u, residual);
}

TEST(SleepFault, UnmapRefused_SaysWhatStaysChargedAndSleepingAgainTriesOnceMore)
{
    Faulty faulty;
    Play one(std::make_unique<SleepWorld>(8 * kMiB, 64 * kMiB, nullptr, kFaulty, faulty.options()));
    SleepWorld &world = *one.world;
    one.prepare();
    for (const auto &range : one.ranges)
        ASSERT_EQ(MBR_OK, world.add(range.range, 1));
    faulty.fail(FAULTY_UNMAP, 2, 100); /* the sleep itself tries once more, too */
    EXPECT_EQ(MBR_RESIDUAL, world.sleep(1));
    EXPECT_EQ(768 * 1024u, world.slept.slept_bytes);
    EXPECT_LT(0u, world.slept.residual_bytes);
    EXPECT_EQ(world.slept.residual_bytes, world.paid(world.holder).charged_bytes);
    EXPECT_TRUE(world.said("refused to unmap")) << world.error.text;
    EXPECT_EQ(MBR_BUSY, world.wake(1)) << "its place is not empty";
    EXPECT_EQ(768 * 1024u, world.read().asleep_bytes);
    faulty.stop();
    EXPECT_EQ(MBR_OK, world.sleep(1)) << world.error.text;
    EXPECT_EQ(0u, world.paid(world.holder).charged_bytes);
    EXPECT_TRUE(world.clean());
    ASSERT_EQ(MBR_OK, world.wake(1)) << world.error.text;
    one.finish();
}

/* The wake itself tries once more what was refused before. */
TEST(SleepFault, UnmapRefusedOnce_WakesWithoutAnotherSleep)
{
    for (uint32_t level : {MBR_SLEEP_KEEP, MBR_SLEEP_DROP}) {
        Faulty faulty;
        SleepWorld world(8 * kMiB, 64 * kMiB, nullptr, kFaulty, faulty.options());
        auto range = world.make(1, 256 * 1024, 1);
        faulty.fail(FAULTY_UNMAP, 1, 100);
        ASSERT_EQ(MBR_RESIDUAL, world.sleep(1, level));
        faulty.stop();
        ASSERT_EQ(MBR_OK, world.wake(1, MBR_WAKE_ZEROED)) << world.error.text;
        ASSERT_EQ(MBR_OK, mbr_ep_synchronize(world.manager, world.stream, kNever, &world.error));
        EXPECT_EQ(level == MBR_SLEEP_KEEP ? SleepWorld::pattern(256 * 1024, 1)
                                          : std::vector<uint8_t>(256 * 1024),
            world.get(range.address, 256 * 1024));
        EXPECT_TRUE(world.clean());
        world.end(range.range);
    }
}

} // namespace
} // namespace membrane
