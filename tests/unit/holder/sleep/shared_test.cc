// Ranges with extents of a prefix, in the range that it was made of and in those that share it:
// what they have alone sleeps, what is shared stays, whoever else ends meanwhile; and a refused
// wake changes nothing.
#include "tests/unit/holder/sleep/world.h"

#include "tests/support/faulty/failing.h"

#include <algorithm>
#include <functional>
#include <thread>
#include <utility>

namespace membrane
{
namespace
{

constexpr uint64_t kUnit = 64 * 1024;
constexpr uint64_t kShared = 4 * kUnit, kOwn = 2 * kUnit, kAll = kShared + kOwn;
constexpr uint64_t kTag = 1;
/* A chunk ends in the middle of what is shared. */
constexpr uint64_t kPart = 3 * kUnit;
constexpr uint32_t kLevels[] = {MBR_SLEEP_KEEP, MBR_SLEEP_DROP};

/* A source and a sharer of one prefix, with bytes of their own behind it. One of them,
 * `sleeper_of`, has the tag; the prefix has a holder of its own. */
class SharedWorld : public SleepWorld
{
  public:
    explicit SharedWorld(bool source_sleeps, uint64_t limit = 64 * kMiB,
        const char *plugin_path = nullptr, const std::vector<mbr_option> &options = {},
        const mbr_manager_seams *seams = nullptr)
        : SleepWorld(limit, 64 * kMiB, seams, plugin_path, options, UINT64_MAX, kPart)
    {
        auto request = holder_request(MBR_ROLE_PREFIX, "prefixes");
        EXPECT_EQ(MBR_OK, mbr_manager_create_holder(manager, &request, &prefix_holder, &error));
        source = reserve(16 * kUnit, kUnit);
        EXPECT_EQ(MBR_OK, grow(source.range, 0, kAll)) << error.text;
        put(source.address, pattern(kShared, 1));
        put(source.address + kShared, pattern(kOwn, 2));
        share();
        sharer = reserve(16 * kUnit, kUnit);
        EXPECT_EQ(MBR_OK, attach(sharer.range)) << error.text;
        EXPECT_EQ(MBR_OK, grow(sharer.range, 0, kAll)) << error.text;
        put(sharer.address + kShared, pattern(kOwn, 3));
        tagged = source_sleeps ? source : sharer;
        other = source_sleeps ? sharer : source;
        own_seed = source_sleeps ? 2 : 3;
        EXPECT_EQ(MBR_OK, add(tagged.range, kTag)) << error.text;
    }
    ~SharedWorld()
    {
        end(tagged.range);
        end_prefix();
        end_other();
        EXPECT_EQ(MBR_OK, mbr_ep_drain(manager, ep, kNever, &error)) << error.text;
        EXPECT_EQ(0u, paid(prefix_holder).charged_bytes);
        EXPECT_EQ(MBR_OK, mbr_manager_destroy_holder(manager, prefix_holder, &error));
    }
    mbr_status attach(mbr_range_handle range)
    {
        auto request = sized<mbr_prefix_attach_request>();
        request.target_count = 1;
        request.prefix = prefix;
        request.holder = holder;
        request.targets = &range;
        auto result = sized<mbr_prefix_attach_result>();
        return mbr_prefix_attach(manager, &request, &result, &error);
    }
    void end_prefix()
    {
        if (prefix.value != 0) {
            EXPECT_EQ(MBR_OK, mbr_prefix_release(manager, prefix, &error)) << error.text;
        }
        prefix.value = 0;
    }
    void end_other()
    {
        if (other.range.value != 0) {
            EXPECT_EQ(MBR_OK, release(other.range)) << error.text;
        }
        other.range.value = 0;
    }
    void end_one(bool is_prefix)
    {
        if (is_prefix)
            end_prefix();
        else
            end_other();
    }
    void limit_arena(uint64_t bytes)
    {
        EXPECT_EQ(MBR_OK, mbr_manager_set_limit(manager, arena_authority, bytes, nullptr, &error))
            << error.text;
    }
    /* Until there is no room for one more chunk. */
    std::vector<mbr_allocation_handle> fill_arena()
    {
        auto request = sized<mbr_alloc_request>();
        request.binding = arena;
        request.holder = arena_holder;
        request.bytes = kPart;
        std::vector<mbr_allocation_handle> all;
        auto result = sized<mbr_alloc_result>();
        limit_arena(2 * kMiB);
        while (mbr_alloc(manager, &request, &result, &error) == MBR_OK)
            all.push_back(result.allocation);
        return all;
    }
    void expect_all_asleep()
    {
        EXPECT_EQ(kAll + beside, SleepWorld::read().asleep_bytes);
        EXPECT_EQ((std::pair<uint64_t, uint64_t>{0, 0}), bill());
        EXPECT_EQ(0u, read(tagged.range).committed_bytes);
        EXPECT_TRUE(clean());
    }
    /* The others have ended: it may write all of it. */
    void expect_wake_with_all()
    {
        ASSERT_EQ(MBR_OK, wake(kTag)) << error.text;
        EXPECT_EQ(kAll + beside, woken.woken_bytes);
        EXPECT_EQ((std::pair<uint64_t, uint64_t>{kAll + beside, 0}), bill());
        EXPECT_TRUE(shares() && owns() && clean());
        EXPECT_EQ(0u, read(tagged.range).shared_bytes);
        put(tagged.address, pattern(kAll, 9));
        EXPECT_TRUE(holds(tagged.address, kAll, 9));
    }
    /* Bytes that both holders pay for. */
    std::pair<uint64_t, uint64_t> bill()
    {
        return {paid(holder).charged_bytes, paid(prefix_holder).charged_bytes};
    }
    bool shares() { return holds(tagged.address, kShared, 1); }
    bool owns() { return holds(tagged.address + kShared, kOwn, own_seed); }
    /* After level 2 there is nothing but what the client writes there again. */
    void write_own() { put(tagged.address + kShared, pattern(kOwn, own_seed)); }

    mbr_holder_handle prefix_holder = {0};
    mbr_prefix_handle prefix = {0};
    mbr_range_reserve_result source, sharer, tagged, other;
    uint8_t own_seed = 0;
    uint64_t beside = 0; /* bytes of other ranges of the tag */

  private:
    void share()
    {
        mbr_piece piece = {source.range, 0, kShared};
        auto request = sized<mbr_prefix_request>();
        request.piece_count = 1;
        request.holder = prefix_holder;
        request.pieces = &piece;
        auto result = sized<mbr_prefix_result>();
        EXPECT_EQ(MBR_OK, mbr_prefix_create(manager, &request, &result, &error)) << error.text;
        prefix = result.prefix;
    }
};

using Bill = std::pair<uint64_t, uint64_t>;

TEST(SleepShared, WhatIsItsOwn_SleepsAndTheSharedExtentsStay)
{
    for (bool source_sleeps : {true, false}) {
        for (uint32_t level : kLevels) {
            SCOPED_TRACE(source_sleeps ? "source" : "sharer");
            SharedWorld world(source_sleeps);
            auto before = world.read(world.tagged.range);
            ASSERT_EQ((Bill{2 * kOwn, kShared}), world.bill());
            ASSERT_EQ(MBR_OK, world.sleep(kTag, level)) << world.error.text;
            EXPECT_EQ(kOwn, world.slept.slept_bytes);
            EXPECT_EQ(kOwn, world.slept.released_bytes);
            EXPECT_EQ(kShared, world.slept.shared_bytes);
            EXPECT_EQ(level == MBR_SLEEP_KEEP ? kOwn : 0, world.slept.copied_bytes);
            EXPECT_EQ(0u, world.slept.residual_bytes + world.slept.deferred_bytes);
            EXPECT_EQ(kOwn, world.SleepWorld::read().asleep_bytes);
            EXPECT_EQ((Bill{kOwn, kShared}), world.bill());
            EXPECT_TRUE(world.shares()) << "nobody took it away";
            EXPECT_TRUE(world.clean());
            EXPECT_EQ(MBR_BUSY, world.grow(world.tagged.range, 0, kAll + kUnit));
            ASSERT_EQ(MBR_OK, world.sleep(kTag, level)) << "once more: " << world.error.text;
            EXPECT_EQ(kShared, world.slept.shared_bytes);
            ASSERT_EQ(MBR_OK, world.wake(kTag)) << world.error.text;
            EXPECT_EQ(kOwn, world.woken.woken_bytes);
            EXPECT_EQ((Bill{2 * kOwn, kShared}), world.bill());
            EXPECT_TRUE(world.shares());
            EXPECT_TRUE(level == MBR_SLEEP_DROP || world.owns());
            auto after = world.read(world.tagged.range);
            EXPECT_EQ(before.address, after.address);
            EXPECT_EQ(before.committed_bytes, after.committed_bytes);
            EXPECT_EQ(before.shared_bytes, after.shared_bytes);
            world.write_own();
            EXPECT_TRUE(world.owns() && world.shares());
        }
    }
}

/* Whoever goes first while it sleeps: the bytes live, and the last bill is the sleeper's holder's.
 */
TEST(SleepShared, OthersEndMeanwhile_TheBillMovesAndTheWakeFindsThePrefix)
{
    for (bool source_sleeps : {true, false}) {
        for (uint32_t level : kLevels) {
            for (bool prefix_first : {true, false}) {
                SharedWorld world(source_sleeps);
                ASSERT_EQ(MBR_OK, world.sleep(kTag, level)) << world.error.text;
                if (prefix_first)
                    world.end_prefix();
                else
                    world.end_other();
                EXPECT_EQ(
                    prefix_first ? (Bill{kOwn + kShared, 0}) : (Bill{0, kShared}), world.bill());
                EXPECT_TRUE(world.shares() && world.clean());
                world.end_prefix();
                world.end_other();
                EXPECT_EQ((Bill{kShared, 0}), world.bill()) << "the sleeper is the last one";
                EXPECT_TRUE(world.shares() && world.clean());
                ASSERT_EQ(MBR_OK, world.wake(kTag)) << world.error.text;
                EXPECT_EQ((Bill{kAll, 0}), world.bill());
                EXPECT_TRUE(level == MBR_SLEEP_DROP || world.owns());
                world.write_own();
                /* Now it is all its own, and sleeps as such. */
                ASSERT_EQ(MBR_OK, world.sleep(kTag)) << world.error.text;
                EXPECT_EQ(kAll, world.slept.slept_bytes);
                EXPECT_EQ(0u, world.slept.shared_bytes);
                EXPECT_EQ((Bill{0, 0}), world.bill());
                ASSERT_EQ(MBR_OK, world.wake(kTag)) << world.error.text;
                EXPECT_TRUE(world.shares() && world.owns() && world.clean());
                EXPECT_EQ(0u, world.read(world.tagged.range).shared_bytes);
                world.put(
                    world.tagged.address, SleepWorld::pattern(kShared, 1)); /* also an alias */
            }
        }
    }
}

/* Told once more to sleep: what has become its own goes, too, at level 1 with its contents. */
TEST(SleepShared, SleepsOnceMoreAfterTheOthersEnded_TakesWhatIsItsOwnNow)
{
    for (bool source_sleeps : {true, false}) {
        for (bool prefix_first : {true, false}) {
            SharedWorld world(source_sleeps);
            ASSERT_EQ(MBR_OK, world.sleep(kTag)) << world.error.text;
            world.end_one(prefix_first);
            ASSERT_EQ(MBR_OK, world.sleep(kTag)) << "one has it still: " << world.error.text;
            EXPECT_EQ(kShared, world.slept.shared_bytes);
            EXPECT_EQ(0u, world.slept.copied_bytes);
            world.end_one(!prefix_first);
            ASSERT_EQ(MBR_OK, world.sleep(kTag)) << world.error.text;
            EXPECT_EQ(kAll, world.slept.slept_bytes);
            EXPECT_EQ(kShared, world.slept.copied_bytes);
            EXPECT_EQ(kShared, world.slept.released_bytes);
            EXPECT_EQ(0u, world.slept.shared_bytes + world.slept.residual_bytes);
            world.expect_all_asleep();
            EXPECT_EQ(kAll, world.SleepWorld::read().copied_bytes);
            ASSERT_EQ(MBR_OK, world.sleep(kTag)) << "nothing is left: " << world.error.text;
            EXPECT_EQ(0u, world.slept.copied_bytes + world.slept.released_bytes);
            world.expect_wake_with_all();
            EXPECT_EQ(kAll, world.woken.copied_bytes);
            EXPECT_EQ(2 * kAll, world.SleepWorld::read().copied_bytes);
        }
    }
}

TEST(SleepShared, DroppedOnceMoreAfterTheOthersEnded_GivesUpWhatIsItsOwnNow)
{
    for (bool source_sleeps : {true, false}) {
        for (uint32_t level : kLevels) {
            SharedWorld world(source_sleeps);
            ASSERT_EQ(MBR_OK, world.sleep(kTag, level)) << world.error.text;
            world.end_prefix();
            world.end_other();
            ASSERT_EQ(MBR_OK, world.sleep(kTag, MBR_SLEEP_DROP)) << world.error.text;
            EXPECT_EQ(kAll, world.slept.slept_bytes);
            EXPECT_EQ(kShared, world.slept.released_bytes);
            EXPECT_EQ(0u, world.slept.copied_bytes);
            EXPECT_EQ(0u, world.slept.shared_bytes + world.slept.residual_bytes);
            world.expect_all_asleep();
            ASSERT_EQ(MBR_OK, world.wake(kTag, MBR_WAKE_ZEROED)) << world.error.text;
            EXPECT_EQ(kAll, world.woken.woken_bytes);
            world.await(world.native); /* the fills */
            EXPECT_TRUE(std::vector<uint8_t>(kAll) == world.get(world.tagged.address, kAll));
            EXPECT_EQ((Bill{kAll, 0}), world.bill());
            EXPECT_EQ(0u, world.read(world.tagged.range).shared_bytes);
        }
    }
}

/* Each look sees what has been given up so far, and nothing is copied twice. */
TEST(SleepShared, SleepsAgainAndAgainWhileTheOthersEnd_TakesAllOfItOnce)
{
    for (int round = 0; round < 20; round++) {
        SharedWorld world(round % 2 != 0);
        ASSERT_EQ(MBR_OK, world.sleep(kTag)) << world.error.text;
        mbr_prefix_handle prefix = std::exchange(world.prefix, {0});
        mbr_range_handle other = std::exchange(world.other.range, {0});
        std::thread others([&] {
            auto request = sized<mbr_range_release_request>();
            request.flags = MBR_FREE_NOW;
            request.piece.range = other;
            EXPECT_EQ(MBR_OK, mbr_prefix_release(world.manager, prefix, nullptr));
            EXPECT_EQ(MBR_OK, mbr_range_release(world.manager, &request, nullptr));
        });
        do {
            EXPECT_EQ(MBR_OK, world.sleep(kTag)) << world.error.text;
        } while (world.slept.shared_bytes != 0 && !::testing::Test::HasFailure());
        others.join();
        EXPECT_EQ(kAll, world.SleepWorld::read().copied_bytes);
        world.expect_all_asleep();
        world.expect_wake_with_all();
    }
}

/* No room in the arena, a stream that takes no copies, and one that is too late: it sleeps on as it
 * did, and takes the rest along when it is told again. */
TEST(SleepShared, SleepsOnceMoreAndIsRefused_SleepsAsBefore)
{
    using Refuse = std::function<mbr_status(SharedWorld &)>;
    const std::pair<mbr_status, Refuse> refusals[] = {
        {MBR_OVER_BUDGET,
            [](SharedWorld &world) {
                auto all = world.fill_arena();
                mbr_status status = world.sleep(kTag);
                for (const auto &allocation : all)
                    EXPECT_EQ(MBR_OK, world.free_now(allocation)) << world.error.text;
                world.limit_arena(64 * kMiB);
                return status;
            }},
        {MBR_BUSY,
            [](SharedWorld &world) {
                mbr_graph_handle graph;
                EXPECT_EQ(MBR_OK,
                    mbr_ep_capture_begin(world.manager, world.stream, kNever, &world.error));
                mbr_status status = world.sleep(kTag);
                EXPECT_EQ(
                    MBR_OK, mbr_ep_capture_end(world.manager, world.stream, &graph, &world.error));
                EXPECT_EQ(
                    MBR_OK, mbr_ep_graph_retire(world.manager, graph, nullptr, 0, &world.error));
                EXPECT_EQ(MBR_OK, world.drain());
                return status;
            }},
        {MBR_TIMED_OUT,
            [](SharedWorld &world) {
                Gate stalled(world);
                return world.sleep(kTag, MBR_SLEEP_KEEP, 1);
            }},
        {MBR_TIMED_OUT, [](SharedWorld &world) {
             Gate stalled(world);
             return world.sleep(kTag, MBR_SLEEP_DROP, 1);
         }}};
    for (bool source_sleeps : {true, false}) {
        for (const auto &[expected, refuse] : refusals) {
            SharedWorld world(source_sleeps);
            ASSERT_EQ(MBR_OK, world.sleep(kTag)) << world.error.text;
            world.end_prefix();
            world.end_other();
            auto before = world.read(world.tagged.range);
            ASSERT_EQ(expected, refuse(world)) << world.error.text;
            auto after = world.read(world.tagged.range);
            EXPECT_EQ(0, std::memcmp(&before, &after, sizeof(before)));
            EXPECT_EQ(kOwn, world.SleepWorld::read().asleep_bytes);
            EXPECT_EQ(0u, world.slept.slept_bytes + world.slept.copied_bytes);
            EXPECT_EQ((Bill{kShared, 0}), world.bill());
            EXPECT_TRUE(world.shares() && world.clean());
            ASSERT_EQ(MBR_OK, world.sleep(kTag)) << world.error.text;
            world.expect_all_asleep();
            world.expect_wake_with_all();
        }
    }
}

/* Copies that came too late still write chunks: no other call gives these away, and a wake without
 * another sleep finds what the first one kept. */
TEST(SleepShared, SleepsOnceMoreTooLate_WakesAsTheFirstSleepLeftIt)
{
    for (bool source_sleeps : {true, false}) {
        SharedWorld world(source_sleeps);
        ASSERT_EQ(MBR_OK, world.sleep(kTag)) << world.error.text;
        world.end_prefix();
        world.end_other();
        {
            Gate stalled(world);
            EXPECT_EQ(MBR_TIMED_OUT, world.sleep(kTag, MBR_SLEEP_KEEP, 1));
            EXPECT_EQ(MBR_TIMED_OUT, world.sleep(kTag, MBR_SLEEP_KEEP, 1));
            EXPECT_EQ(0u, mbr_sleeper_could_give(world.sleeper, kMiB));
            EXPECT_EQ(MBR_TIMED_OUT, world.wake(kTag, 0, 1));
        }
        ASSERT_EQ(MBR_OK, world.wake(kTag)) << world.error.text;
        EXPECT_EQ(kOwn, world.woken.woken_bytes);
        EXPECT_EQ((Bill{kAll, 0}), world.bill());
        EXPECT_TRUE(world.shares() && world.owns() && world.clean());
        auto figures = world.SleepWorld::read();
        EXPECT_EQ(figures.arena_bytes, figures.free_bytes);
    }
}

/* What an earlier sleep could not give back lies beside what has become its own: it is not copied a
 * second time, and the rest goes along. */
TEST(SleepShared, SleepsOnceMoreBesideWhatWasNotGivenBack_CopiesTheRestAlone)
{
    uint64_t left_count = 0;
    bool more = true;
    for (uint64_t nth = 1; more && !::testing::Test::HasFailure(); nth++) {
        FailingHeap heap;
        mbr_manager_seams seams = {&heap.heap, nullptr, nullptr, nullptr, nullptr};
        SharedWorld world(true, 64 * kMiB, nullptr, {}, &seams);
        auto another = world.make(kTag, kUnit, 5);
        world.beside = kUnit;
        world.end_other();
        heap.fail_at = heap.calls + nth;
        mbr_status status = world.sleep(kTag);
        more = heap.calls >= std::exchange(heap.fail_at, 0);
        if (status == MBR_RESIDUAL && world.slept.residual_bytes == kOwn) {
            left_count++;
            world.end_prefix();
            ASSERT_EQ((Bill{kAll, 0}), world.bill());
            ASSERT_EQ(MBR_OK, world.sleep(kTag)) << world.error.text;
            EXPECT_EQ(kShared, world.slept.copied_bytes);
            EXPECT_EQ(0u, world.slept.shared_bytes + world.slept.residual_bytes);
            world.expect_all_asleep();
            world.expect_wake_with_all();
        } else if (status == MBR_OK || status == MBR_RESIDUAL) {
            EXPECT_EQ(MBR_OK, world.wake(kTag)) << world.error.text;
        }
        EXPECT_TRUE(world.holds(another.address, kUnit, 5));
        world.end(another.range);
    }
    EXPECT_LT(0u, left_count);
}

TEST(SleepShared, WakeIsRefused_ItSleepsOnAndEveryFigureIsAsBefore)
{
    for (bool source_sleeps : {true, false}) {
        SharedWorld world(source_sleeps, 12 * kUnit); /* all of it takes 8 */
        ASSERT_EQ(MBR_OK, world.sleep(kTag)) << world.error.text;
        auto hog = world.reserve(8 * kUnit, kUnit);
        ASSERT_EQ(MBR_OK, world.grow(hog.range, 0, 5 * kUnit)) << world.error.text;
        auto before = world.read(world.tagged.range);
        auto bill = world.bill();
        auto asleep = world.SleepWorld::read();
        EXPECT_EQ(MBR_OVER_BUDGET, world.wake(kTag));
        auto after = world.read(world.tagged.range);
        EXPECT_EQ(0, std::memcmp(&before, &after, sizeof(before)));
        EXPECT_EQ(bill, world.bill());
        EXPECT_EQ(asleep.asleep_bytes, world.SleepWorld::read().asleep_bytes);
        EXPECT_TRUE(world.shares() && world.clean());
        ASSERT_EQ(MBR_OK, world.release(hog.range));
        ASSERT_EQ(MBR_OK, world.wake(kTag)) << world.error.text;
        EXPECT_TRUE(world.shares() && world.owns());
    }
}

/* The prefix of a source that sleeps is shared on. */
TEST(SleepShared, AnotherSharerComesMeanwhile_ReadsTheSameBytes)
{
    for (bool source_sleeps : {true, false}) {
        SharedWorld world(source_sleeps);
        ASSERT_EQ(MBR_OK, world.sleep(kTag)) << world.error.text;
        world.end_other();
        auto late = world.reserve(16 * kUnit, kUnit);
        ASSERT_EQ(MBR_OK, world.attach(late.range)) << world.error.text;
        EXPECT_TRUE(world.holds(late.address, kShared, 1));
        ASSERT_EQ(MBR_OK, world.wake(kTag)) << world.error.text;
        EXPECT_EQ((Bill{kOwn, kShared}), world.bill());
        EXPECT_TRUE(world.shares() && world.owns() && world.clean());
        ASSERT_EQ(MBR_OK, world.release(late.range));
    }
}

TEST(SleepShared, Dropped_IsAwakeWithWhatIsShared)
{
    SharedWorld world(false);
    ASSERT_EQ(MBR_OK, world.sleep(kTag)) << world.error.text;
    ASSERT_EQ(MBR_OK, mbr_sleeper_drop(world.sleeper, kTag, kNever, &world.error));
    EXPECT_EQ(kShared, world.read(world.tagged.range).committed_bytes);
    EXPECT_TRUE(world.shares());
    ASSERT_EQ(MBR_OK, world.grow(world.tagged.range, 0, kAll));
    world.write_own();
    EXPECT_TRUE(world.shares() && world.owns() && world.clean());
}

/* Protected against its source, which sleeps while the others end: it may write again. */
TEST(SleepShared, ProtectedPrefixEndsWhileItsSourceSleeps_WritableAfterwards)
{
    SharedWorld world(true);
    auto request = sized<mbr_prefix_protect_request>();
    request.stream_count = 1;
    request.prefix = world.prefix;
    request.streams = &world.stream;
    request.deadline_ns = kNever;
    ASSERT_EQ(MBR_OK, mbr_prefix_protect(world.manager, &request, &world.error))
        << world.error.text;
    ASSERT_EQ(MBR_OK, world.sleep(kTag)) << world.error.text;
    EXPECT_EQ(kShared, world.slept.shared_bytes);
    world.end_prefix();
    world.end_other();
    ASSERT_EQ(MBR_OK, world.wake(kTag)) << world.error.text;
    EXPECT_TRUE(world.shares() && world.owns());
    world.put(world.tagged.address, SleepWorld::pattern(kShared, 1));
    EXPECT_TRUE(world.shares() && world.clean());
}

/* What was refused is told apart from what stays. */
TEST(SleepShared, UnmapRefused_SaysWhatIsLeftBesideWhatIsShared)
{
    for (bool source_sleeps : {true, false}) {
        Faulty faulty;
        SharedWorld world(
            source_sleeps, 64 * kMiB, "tests/support/libmembrane-faulty.so", faulty.options());
        faulty.fail(FAULTY_UNMAP, 1, 100);
        EXPECT_EQ(MBR_RESIDUAL, world.sleep(kTag));
        faulty.stop();
        EXPECT_EQ(kOwn, world.slept.residual_bytes);
        EXPECT_EQ(kShared, world.slept.shared_bytes);
        ASSERT_EQ(MBR_OK, world.sleep(kTag)) << world.error.text;
        EXPECT_EQ(0u, world.slept.residual_bytes);
        EXPECT_EQ((Bill{kOwn, kShared}), world.bill());
        ASSERT_EQ(MBR_OK, world.wake(kTag)) << world.error.text;
        EXPECT_TRUE(world.shares() && world.owns() && world.clean());
    }
}

/* An alias that was left alone with its extent may be what a sleep could not give back: the wake
 * writes contents into memory of its own, and not where it may only read. */
TEST(SleepShared, AliasThatIsItsOwnAndWasNotGivenBack_WakesWithItsContents)
{
    for (bool once_more : {false, true}) {
        uint64_t left_count = 0;
        bool more = true;
        for (uint64_t nth = 1; more && !::testing::Test::HasFailure(); nth++) {
            FailingHeap heap;
            mbr_manager_seams seams = {&heap.heap, nullptr, nullptr, nullptr, nullptr};
            SharedWorld world(false, 64 * kMiB, nullptr, {}, &seams);
            if (once_more) {
                ASSERT_EQ(MBR_OK, world.sleep(kTag)) << world.error.text;
            }
            world.end_prefix();
            world.end_other();
            heap.fail_at = heap.calls + nth;
            mbr_status status = world.sleep(kTag);
            more = heap.calls >= std::exchange(heap.fail_at, 0);
            left_count += status == MBR_RESIDUAL && world.slept.residual_bytes == kShared;
            bool has_slept = status == MBR_OK || status == MBR_RESIDUAL;
            if (!has_slept && !once_more)
                continue;
            EXPECT_EQ((Bill{has_slept ? world.slept.residual_bytes : kShared, 0}), world.bill());
            ASSERT_EQ(MBR_OK, world.wake(kTag)) << world.error.text;
            EXPECT_EQ((Bill{kAll, 0}), world.bill());
            EXPECT_TRUE(world.shares() && world.owns() && world.clean());
            EXPECT_EQ(has_slept ? 0 : kShared, world.read(world.tagged.range).shared_bytes);
        }
        EXPECT_LT(0u, left_count);
    }
}

/* What the range could not give back before is no part of what sleeps, nor in its way. */
TEST(SleepShared, StuckElsewhereInTheRange_IsNoConcernOfTheTag)
{
    for (uint32_t level : kLevels) {
        Faulty faulty;
        SharedWorld world(
            false, 64 * kMiB, "tests/support/libmembrane-faulty.so", faulty.options());
        ASSERT_EQ(MBR_OK, world.grow(world.tagged.range, kAll, kUnit)) << world.error.text;
        auto request = sized<mbr_range_release_request>();
        request.flags = MBR_FREE_NOW;
        request.piece = {world.tagged.range, kAll, kUnit};
        auto result = sized<mbr_range_decommit_result>();
        faulty.fail(FAULTY_UNMAP, 1, 100);
        ASSERT_EQ(MBR_OK, mbr_range_decommit(world.manager, &request, &result, &world.error));
        ASSERT_EQ((Bill{2 * kOwn + kUnit, kShared}), world.bill()) << "it is stuck";
        faulty.fail(FAULTY_UNMAP, kOwn / kUnit + 1, 100);
        EXPECT_EQ(MBR_OK, world.sleep(kTag, level)) << world.error.text;
        EXPECT_EQ(kOwn, world.slept.slept_bytes);
        EXPECT_EQ(kShared, world.slept.shared_bytes);
        EXPECT_EQ(0u, world.slept.residual_bytes);
        EXPECT_EQ((Bill{kOwn + kUnit, kShared}), world.bill());
        EXPECT_EQ(MBR_OK, world.wake(kTag)) << world.error.text;
        faulty.stop();
        world.write_own();
        EXPECT_TRUE(world.shares() && world.owns() && world.clean());
    }
}

} // namespace
} // namespace membrane
