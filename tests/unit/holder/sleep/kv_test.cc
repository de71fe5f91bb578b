// Sequences of a KV cache that sleep: their rows are the same afterwards, and nothing is appended
// to or ended meanwhile.
#include "tests/unit/holder/kv_world.h"

#include <atomic>
#include <future>

namespace membrane
{
namespace
{

class SleepingKv : public KvWorld
{
  public:
    SleepingKv() : KvWorld({kTwoGroups, "seq-major", 400, 0, 8192})
    {
        auto request = sized<mbr_sleeper_request>();
        request.arena = binding; /* of the same tier here: what matters is elsewhere tested */
        request.holder = prefix_holder;
        request.chunk_bytes = kMiB;
        EXPECT_EQ(MBR_OK, mbr_sleeper_create(manager, &request, &sleeper, &error)) << error.text;
    }
    ~SleepingKv() { EXPECT_EQ(MBR_OK, mbr_sleeper_destroy(sleeper, kNever, &error)) << error.text; }

    mbr_sleeper *sleeper = nullptr;

    std::vector<mbr_range_handle> lend(Tracked &tracked)
    {
        std::vector<mbr_range_handle> ranges(geometry.group_count);
        for (uint32_t g = 0; g < geometry.group_count; g++) {
            EXPECT_EQ(MBR_OK, mbr_sequence_lend(tracked.sequence, g, &ranges[g], &error));
            EXPECT_EQ(MBR_OK, mbr_sleeper_add(sleeper, ranges[g], holder, 1, &error)) << error.text;
        }
        return ranges;
    }
    mbr_sleep_result slept = sized<mbr_sleep_result>();
    mbr_status sleep(uint32_t level = MBR_SLEEP_KEEP)
    {
        auto request = sized<mbr_sleep_request>();
        request.level = level;
        request.tag = 1;
        request.stream = stream;
        request.deadline_ns = kNever;
        return mbr_sleeper_sleep(sleeper, &request, &slept, &error);
    }
    mbr_status wake()
    {
        auto request = sized<mbr_wake_request>();
        request.tag = 1;
        request.stream = stream;
        request.deadline_ns = kNever;
        auto result = sized<mbr_wake_result>();
        return mbr_sleeper_wake(sleeper, &request, &result, &error);
    }
    uint64_t arena_bytes()
    {
        auto figures = sized<mbr_sleeper_figures>();
        mbr_sleeper_read(sleeper, &figures);
        return figures.arena_bytes;
    }
    void take_back(const std::vector<mbr_range_handle> &ranges)
    {
        for (mbr_range_handle range : ranges)
            EXPECT_EQ(MBR_OK, mbr_sleeper_remove(sleeper, range, &error)) << error.text;
    }
};

TEST(SleepKv, SequenceAsleep_RefusesAppendsAndItsEndAndWakesWithItsRows)
{
    SleepingKv world;
    Tracked tracked;
    ASSERT_EQ(MBR_OK, world.create(&tracked, 100));
    auto ranges = world.lend(tracked);
    ASSERT_EQ(MBR_OK, world.append(&tracked, 10)) << "lent and awake";
    world.settle(); /* what its window left behind */
    uint64_t charged = world.paid(world.holder).charged_bytes;
    ASSERT_EQ(MBR_OK, world.sleep()) << world.error.text;
    EXPECT_EQ(0u, world.paid(world.holder).charged_bytes);
    auto before = world.read(tracked);
    for (uint64_t tokens : {UINT64_C(0), UINT64_C(1), UINT64_C(200)})
        EXPECT_EQ(MBR_BUSY, mbr_sequence_append(tracked.sequence, tokens, nullptr, &world.error))
            << tokens;
    EXPECT_EQ(MBR_BUSY, mbr_sequence_destroy(tracked.sequence, nullptr, 0, &world.error));
    mbr_kv_prefix *prefix;
    EXPECT_EQ(MBR_BUSY, mbr_kv_prefix_create(tracked.sequence, 100, &prefix, &world.error));
    auto after = world.read(tracked);
    EXPECT_EQ(0, std::memcmp(&before, &after, sizeof(before)));
    ASSERT_EQ(MBR_OK, world.wake()) << world.error.text;
    EXPECT_EQ(charged, world.paid(world.holder).charged_bytes);
    EXPECT_TRUE(world.holds(tracked));
    ASSERT_EQ(MBR_OK, world.append(&tracked, 150)) << world.error.text;
    EXPECT_TRUE(world.holds(tracked));
    world.take_back(ranges);
    ASSERT_EQ(MBR_OK, world.destroy(&tracked));
}

// The source of a prefix, and then a sharer: their own rows sleep, the shared ones stay, and both
// come back as they were.
TEST(SleepKv, SequencesOfAPrefix_SleepByWhatIsTheirOwn)
{
    for (uint32_t level : {MBR_SLEEP_KEEP, MBR_SLEEP_DROP}) {
        SleepingKv world;
        Tracked source, sharer;
        TrackedPrefix prefix;
        ASSERT_EQ(MBR_OK, world.create(&source, 200));
        ASSERT_EQ(MBR_OK, world.share(&source, 200, &prefix));
        ASSERT_EQ(MBR_OK, world.create(&sharer, 230, &prefix, 200));
        world.settle();
        uint64_t both = world.paid(world.holder).charged_bytes;
        uint64_t of_prefix = world.paid(world.prefix_holder).charged_bytes;
        auto figures = world.read(sharer);
        Tracked *all[] = {&source, &sharer};
        for (Tracked *one : all) {
            uint64_t own = world.read(*one).committed_bytes;
            auto ranges = world.lend(*one);
            ASSERT_EQ(MBR_OK, world.sleep(level)) << world.error.text;
            EXPECT_EQ(own, world.slept.slept_bytes);
            EXPECT_EQ(world.read(*one).shared_bytes, world.slept.shared_bytes);
            EXPECT_EQ(both - own, world.paid(world.holder).charged_bytes);
            EXPECT_TRUE(world.holds(one == &source ? sharer : source));
            ASSERT_EQ(MBR_OK, world.wake()) << world.error.text;
            EXPECT_EQ(both, world.paid(world.holder).charged_bytes);
            if (level == MBR_SLEEP_DROP)
                world.rewrite(one);
            EXPECT_TRUE(world.holds(source) && world.holds(sharer));
            world.take_back(ranges);
        }
        if (level == MBR_SLEEP_KEEP) // else there is no arena, which the same holder pays
            of_prefix += world.arena_bytes();
        EXPECT_EQ(of_prefix, world.paid(world.prefix_holder).charged_bytes);
        auto after = world.read(sharer);
        EXPECT_EQ(0, std::memcmp(&figures, &after, sizeof(figures)));
        world.end(&prefix);
        ASSERT_EQ(MBR_OK, world.destroy(&source));
        ASSERT_EQ(MBR_OK, world.append(&sharer, 50));
        EXPECT_TRUE(world.holds(sharer));
        ASSERT_EQ(MBR_OK, world.destroy(&sharer));
    }
}

// Told once more to sleep, it takes along what it shared, and is whole again.
TEST(SleepKv, PrefixAndSourceEndWhileASharerSleeps_ItWakesWithItsRows)
{
    for (bool again : {false, true}) {
        SleepingKv world;
        Tracked source, sharer;
        TrackedPrefix prefix;
        ASSERT_EQ(MBR_OK, world.create(&source, 200));
        ASSERT_EQ(MBR_OK, world.share(&source, 200, &prefix));
        ASSERT_EQ(MBR_OK, world.create(&sharer, 230, &prefix, 200));
        auto ranges = world.lend(sharer);
        ASSERT_EQ(MBR_OK, world.sleep()) << world.error.text;
        world.end(&prefix);
        ASSERT_EQ(MBR_OK, world.destroy(&source));
        world.settle();
        uint64_t shared = world.paid(world.holder).charged_bytes;
        EXPECT_EQ(world.read().shared_bytes, shared);
        if (again) {
            ASSERT_EQ(MBR_OK, world.sleep()) << world.error.text;
            EXPECT_LT(0u, shared);
            EXPECT_EQ(shared, world.slept.copied_bytes);
            EXPECT_EQ(0u, world.paid(world.holder).charged_bytes);
        }
        ASSERT_EQ(MBR_OK, world.wake()) << world.error.text;
        EXPECT_TRUE(world.holds(sharer));
        ASSERT_EQ(MBR_OK, world.append(&sharer, 50)) << world.error.text;
        EXPECT_TRUE(world.holds(sharer));
        world.take_back(ranges);
        ASSERT_EQ(MBR_OK, world.destroy(&sharer));
    }
}

// The last rows of a prefix are copied from its source while that is awake; while it sleeps they
// are the caller's to write, and nobody reads what is not there.
TEST(SleepKv, SharerOfASourceThatSleeps_HasTheWholeExtentsAndWritesTheRest)
{
    SleepingKv world;
    Tracked source, before, meanwhile, after;
    TrackedPrefix prefix;
    ASSERT_EQ(MBR_OK, world.create(&source, 190));
    ASSERT_EQ(MBR_OK, world.share(&source, 190, &prefix));
    auto ranges = world.lend(source);
    ASSERT_EQ(MBR_OK, world.create(&before, 200, &prefix, 190)) << world.error.text;
    EXPECT_EQ(190u, world.read(before).valid_tokens) << "lent, and awake";
    ASSERT_EQ(MBR_OK, world.sleep()) << world.error.text;
    ASSERT_EQ(MBR_OK, world.create(&meanwhile, 200, &prefix, 190)) << world.error.text;
    EXPECT_GT(190u, world.read(meanwhile).valid_tokens);
    EXPECT_LT(0u, world.read(meanwhile).shared_bytes);
    EXPECT_TRUE(world.holds(before) && world.holds(meanwhile));
    ASSERT_EQ(MBR_OK, world.wake()) << world.error.text;
    ASSERT_EQ(MBR_OK, world.create(&after, 200, &prefix, 190)) << world.error.text;
    EXPECT_EQ(190u, world.read(after).valid_tokens);
    for (Tracked *one : {&source, &before, &meanwhile, &after})
        EXPECT_TRUE(world.holds(*one));
    world.take_back(ranges);
    world.end(&prefix);
    for (Tracked *one : {&source, &before, &meanwhile, &after})
        ASSERT_EQ(MBR_OK, world.destroy(one));
}

// Sharers are made on one thread, with the last rows from a source that another thread puts to
// sleep and wakes: what was copied is right, and what was not is told.
TEST(SleepKv, SourceSleepsAndWakesWhileSharersAreMade_NobodyReadsWhatIsNotThere)
{
    SleepingKv world;
    Tracked source, sharer;
    TrackedPrefix prefix;
    ASSERT_EQ(MBR_OK, world.create(&source, 190));
    ASSERT_EQ(MBR_OK, world.share(&source, 190, &prefix));
    auto ranges = world.lend(source);
    std::atomic<bool> is_over{false};
    auto sleeper = std::async(std::launch::async, [&] {
        auto error = sized<mbr_error>();
        auto sleep = sized<mbr_sleep_request>();
        sleep.level = MBR_SLEEP_KEEP;
        sleep.tag = 1;
        sleep.stream = world.stream;
        sleep.streams = &world.streams[1];
        sleep.stream_count = 1;
        sleep.deadline_ns = kNever;
        auto wake = sized<mbr_wake_request>();
        wake.tag = 1;
        wake.stream = world.stream;
        wake.deadline_ns = kNever;
        while (!is_over) {
            auto slept = sized<mbr_sleep_result>();
            auto woken = sized<mbr_wake_result>();
            mbr_status status = mbr_sleeper_sleep(world.sleeper, &sleep, &slept, &error);
            EXPECT_TRUE(status == MBR_OK || status == MBR_BUSY) << error.text;
            if (status == MBR_OK) {
                EXPECT_EQ(MBR_OK, mbr_sleeper_wake(world.sleeper, &wake, &woken, &error))
                    << error.text;
            }
        }
    });
    for (uint64_t i = 0; i < 40; i++) {
        ASSERT_EQ(MBR_OK, world.create(&sharer, 200, &prefix, 190, 1)) << world.error.text;
        EXPECT_TRUE(world.holds(sharer)) << i;
        ASSERT_EQ(MBR_OK, world.destroy(&sharer));
    }
    is_over = true;
    sleeper.get();
    EXPECT_TRUE(world.holds(source));
    world.take_back(ranges);
    world.end(&prefix);
    ASSERT_EQ(MBR_OK, world.destroy(&source));
}

TEST(SleepKv, WrongGroupOrEagerCache_IsRefused)
{
    SleepingKv world;
    Tracked tracked;
    mbr_range_handle range;
    ASSERT_EQ(MBR_OK, world.create(&tracked, 10));
    EXPECT_EQ(MBR_OUT_OF_RANGE, mbr_sequence_lend(tracked.sequence, 2, &range, &world.error));
    ASSERT_EQ(MBR_OK, world.destroy(&tracked));
    KvWorld eager({kTwoGroups, "seq-major", 100, 0, 0, MBR_KV_EAGER_WHOLE});
    ASSERT_EQ(MBR_OK, eager.create(&tracked, 10));
    EXPECT_EQ(MBR_UNSUPPORTED, mbr_sequence_lend(tracked.sequence, 0, &range, &eager.error));
    EXPECT_EQ(0u, range.value);
    ASSERT_EQ(MBR_OK, eager.destroy(&tracked));
}

} // namespace
} // namespace membrane
