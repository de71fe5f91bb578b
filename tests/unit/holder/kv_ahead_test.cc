// Mapping ahead of need: what a pace is, that a step finds its extents mapped and calls nothing,
// that idle sequences, budgets and captures stop it, and that nothing of it shows in contents or
// books.
#include "tests/unit/holder/kv_world.h"

#include <atomic>
#include <cstdlib>
#include <functional>
#include <thread>
#include <utility>

extern "C" {
#include "host/holder/kv/pace.h"
}

namespace membrane
{

namespace
{

constexpr uint64_t kMs = 1000000;

/* ---- Paces
 * -------------------------------------------------------------------------------------- */

uint64_t soon_after(std::initializer_list<std::pair<uint64_t, uint64_t>> samples)
{
    mbr_kv_pace pace = {};
    uint64_t at = 1;
    for (auto [ms, tokens] : samples) {
        at += ms * kMs;
        mbr_kv_pace_see(&pace, tokens, at);
    }
    return mbr_kv_pace_soon(&pace, at);
}

TEST(KvPace, SteadySteps_AreLookedAheadOf)
{
    EXPECT_EQ(100u, soon_after({{0, 100}}));
    EXPECT_EQ(101u, soon_after({{0, 100}, {10, 101}})); // one step is no pace
    // 1 token in 10 ms: 5 in the next 50 ms, and the one under way.
    EXPECT_EQ(102u + 5 + 1, soon_after({{0, 100}, {10, 101}, {10, 102}}));
    // Looks in between, where nothing has come, change nothing.
    EXPECT_EQ(102u + 5 + 1, soon_after({{0, 100}, {5, 100}, {5, 101}, {5, 101}, {5, 102}}));
    // A slow one is looked ahead of by the next token alone.
    EXPECT_EQ(102u + 1, soon_after({{0, 100}, {500, 101}, {500, 102}}));
}

TEST(KvPace, OneLeap_IsNoRate)
{
    // A prompt of 4096 tokens between steps of one: the slower of the last two holds.
    EXPECT_EQ(4198u + 5 + 1, soon_after({{0, 100}, {10, 101}, {10, 102}, {10, 4198}}));
    EXPECT_EQ(4199u + 5 + 1, soon_after({{0, 100}, {10, 101}, {10, 102}, {10, 4198}, {10, 4199}}));
    // Chunk after chunk is one.
    EXPECT_EQ(1524u + 2560 + 1, soon_after({{0, 500}, {10, 1012}, {10, 1524}}));
}

// A chunk each 10 ms and a token in between, seen each 5 ms: every second step is slow, and yet the
// chunks come on.
TEST(KvPace, ChunksWithTokensInBetween_AreLookedAheadOf)
{
    mbr_kv_pace pace = {};
    uint64_t at = 1, tokens = 1;
    for (int i = 0; i < 12; i++) {
        mbr_kv_pace_see(&pace, tokens += 100, at += 5 * kMs);
        mbr_kv_pace_see(&pace, tokens += 1, at += 5 * kMs);
    }
    EXPECT_LE(tokens + 5 * 101, mbr_kv_pace_soon(&pace, at));
    EXPECT_GE(tokens + 6 * 101 + 1, mbr_kv_pace_soon(&pace, at));
    // Once the chunks are over, one among tokens is none, for as long as it may be seen.
    for (int i = 0; i < 80; i++) {
        mbr_kv_pace_see(&pace, tokens += i == 40 ? 1000 : 1, at += 5 * kMs);
        if (i >= 30) {
            EXPECT_GE(tokens + 12, mbr_kv_pace_soon(&pace, at)) << i;
        }
    }
}

TEST(KvPace, AfterARest_BeginsAnew)
{
    EXPECT_EQ(102u, soon_after({{0, 100}, {10, 101}, {10, 102}, {1001, 102}}));
    EXPECT_EQ(103u, soon_after({{0, 100}, {10, 101}, {10, 102}, {1001, 103}}));
    EXPECT_EQ(104u, soon_after({{0, 100}, {10, 101}, {10, 102}, {1001, 103}, {10, 104}}));
    EXPECT_EQ(
        105u + 6, soon_after({{0, 100}, {10, 101}, {10, 102}, {1001, 103}, {10, 104}, {10, 105}}));
}

TEST(KvPace, HugeNumbers_DoNotWrap)
{
    uint64_t huge = UINT64_C(1) << 40;
    uint64_t soon = soon_after({{0, 0}, {1, huge}, {1, 2 * huge}});
    EXPECT_LT(2 * huge, soon);
    EXPECT_LT(soon, UINT64_C(1) << 62);
}

/* ---- A cache
 * ------------------------------------------------------------------------------------ */

/* Time goes on as ever, and further by hand: the CPU EP's waits are real. */
struct HandClock {
    std::atomic<uint64_t> ahead_ns{0};
    mbr_clock clock = {[](void *context) {
                           return mbr_clock_now(&mbr_clock_monotonic) +
                               static_cast<HandClock *>(context)->ahead_ns.load();
                       },
        this};
    std::function<void()> meanwhile; // done once, in the next allocation of a record
    mbr_heap heap = {[](void *context, size_t bytes) {
                         auto *self = static_cast<HandClock *>(context);
                         if (self->meanwhile)
                             std::exchange(self->meanwhile, nullptr)();
                         return std::calloc(1, bytes);
                     },
        [](void *, void *memory) { std::free(memory); }, this};
    mbr_manager_seams seams = {};
    HandClock()
    {
        seams.clock = &clock;
        seams.heap = &heap;
    }
};

constexpr char kPlain[] = "layers=2,heads=2,dim=64,bytes=2,planes=2"; // 1 KiB a token
constexpr char kTwoGroups[] = "layers=2,heads=1,dim=64,bytes=2,planes=2,window=48+"
                              "layers=1,heads=1,dim=64,bytes=2,planes=2";

class AheadWorld : public HandClock, public KvWorld
{
  public:
    explicit AheadWorld(const char *geometry = kPlain, const char *layout = "window-major",
        uint64_t bound = 4 * kMiB, uint64_t limit = 64 * kMiB)
        : KvWorld({geometry, layout, 400, 16,
                      std::string(layout) == "window-major" ? UINT64_C(16384) : UINT64_C(4096),
                      MBR_KV_GROWING, bound},
              limit, &seams)
    {
    }
    void pass(uint64_t ms)
    {
        ahead_ns += ms * kMs;
        mbr_manager_poll(manager);
    }
    // Slots called, but for those that tell so.
    uint64_t calls()
    {
        uint64_t once = figures().call_count, twice = figures().call_count;
        asked_ += 2 * (twice - once);
        return twice - asked_ + (twice - once);
    }
    // A token every 10 ms; how many steps called a slot.
    uint64_t decode(Tracked *one, uint64_t tokens)
    {
        uint64_t slow = 0;
        for (uint64_t i = 0; i < tokens; i++) {
            uint64_t before = calls();
            EXPECT_EQ(MBR_OK, append(one, 1)) << error.text;
            slow += calls() != before;
            pass(5);
            pass(5);
        }
        return slow;
    }

  private:
    uint64_t asked_ = 0;
};

TEST(KvAhead, StepsOfASteadyPace_CallNothing)
{
    for (const char *layout : {"head-major", "seq-major", "token-major", "window-major"})
        for (const char *geometry : {kPlain, kTwoGroups}) {
            SCOPED_TRACE(std::string(layout) + " " + geometry);
            AheadWorld world(geometry, layout);
            Tracked one;
            ASSERT_EQ(MBR_OK, world.create(&one, 15));
            world.decode(&one, 4); // it is seen that it grows
            uint64_t calls = world.calls();
            uint64_t slow = world.decode(&one, 200);
            EXPECT_LT(calls, world.calls()); // somebody did
            // What windows leave behind may be unmapped in a step: the two-group cache alone calls.
            EXPECT_TRUE(geometry == kTwoGroups || slow == 0) << slow;
            EXPECT_TRUE(world.holds(one));
            world.settle();
            auto figures = world.read();
            EXPECT_EQ(figures.committed_bytes, world.paid(world.holder).charged_bytes);
            EXPECT_EQ(world.committed_by_arithmetic(one), figures.committed_bytes);
            EXPECT_TRUE(world.clean());
            EXPECT_EQ(MBR_OK, world.destroy(&one));
        }
}

TEST(KvAhead, WithoutABound_NothingStandsAhead)
{
    AheadWorld world(kPlain, "window-major", 0);
    Tracked one;
    ASSERT_EQ(MBR_OK, world.create(&one, 15));
    EXPECT_NE(0u, world.decode(&one, 100));
    EXPECT_EQ(0u, world.figures().ahead_bytes);
    EXPECT_EQ(MBR_OK, world.destroy(&one));
}

TEST(KvAhead, SequenceThatRests_IsNotLookedAheadOf)
{
    AheadWorld world;
    Tracked one;
    ASSERT_EQ(MBR_OK, world.create(&one, 15));
    world.decode(&one, 30);
    while (world.read(one).capacity_tokens != world.read(one).tokens)
        ASSERT_EQ(MBR_OK, world.append(&one, 1));
    world.pass(1001);
    world.pass(5);
    uint64_t calls = world.calls();
    for (int i = 0; i < 100; i++)
        world.pass(50);
    EXPECT_EQ(calls, world.calls());
    EXPECT_EQ(MBR_OK, world.append(&one, 1)); // which wakes it
    world.decode(&one, 4);
    EXPECT_EQ(0u, world.decode(&one, 100));
    EXPECT_EQ(MBR_OK, world.destroy(&one));
}

// It is looked at in the middle of the growth that wakes it, and has not grown yet.
TEST(KvAhead, GrowthDuringALook_IsNotSleptOver)
{
    AheadWorld world;
    Tracked one;
    ASSERT_EQ(MBR_OK, world.create(&one, 15));
    while (world.read(one).capacity_tokens != world.read(one).tokens)
        ASSERT_EQ(MBR_OK, world.append(&one, 1));
    world.pass(1001);
    world.pass(1001);
    bool polled = false;
    world.meanwhile = [&] {
        polled = true;
        world.pass(5);
    };
    ASSERT_EQ(MBR_OK, world.append(&one, 1));
    EXPECT_TRUE(polled);
    EXPECT_EQ(0u, world.decode(&one, 100)); // its next growth comes when its pace is known
    EXPECT_EQ(MBR_OK, world.destroy(&one));
}

TEST(KvAhead, WhatStands_IsTheCachesAndGoesToWhoeverIsRefused)
{
    AheadWorld world(kPlain, "window-major", 4 * kMiB, 160 * 1024);
    Tracked one, other;
    ASSERT_EQ(MBR_OK, world.create(&one, 10));
    ASSERT_EQ(0u, world.decode(&one, 6));
    uint64_t ahead = world.figures().ahead_bytes;
    ASSERT_EQ(16384u, ahead);
    EXPECT_EQ(16384u, world.paid(world.holder).charged_bytes);
    // The rest of the limit to the byte, and what stands ahead.
    ASSERT_EQ(MBR_OK, world.create(&other, (160 * 1024 - 16384) / 1024)) << world.error.text;
    EXPECT_EQ(0u, world.figures().ahead_bytes);
    EXPECT_EQ(MBR_OVER_BUDGET, world.append(&one, 16));
    for (int i = 0; i < 10; i++)
        world.pass(5); // refused: it presses nobody
    EXPECT_TRUE(world.holds(one));
    EXPECT_TRUE(world.holds(other));
    EXPECT_TRUE(world.clean());
    EXPECT_EQ(MBR_OK, world.destroy(&other));
    world.settle();
    EXPECT_EQ(MBR_OK, world.append(&one, 16));
    EXPECT_EQ(MBR_OK, world.destroy(&one));
}

TEST(KvAhead, UpToMaxTokens_AndNotBehind)
{
    AheadWorld world;
    Tracked one;
    ASSERT_EQ(MBR_OK, world.create(&one, 380));
    world.decode(&one, 20);
    for (int i = 0; i < 20; i++)
        world.pass(5);
    EXPECT_EQ(0u, world.figures().ahead_bytes);
    EXPECT_EQ(MBR_OK, world.destroy(&one));
}

TEST(KvAhead, CacheThatMapsAhead_PinsItsEpUntilItEnds)
{
    AheadWorld world;
    auto figures = sized<mbr_ep_figures>();
    ASSERT_EQ(MBR_OK, mbr_ep_read(world.manager, world.ep, &figures, &world.error));
    EXPECT_EQ(1u, figures.pin_count);
    auto request = sized<mbr_kv_request>();
    request.binding = world.binding;
    request.holder = world.holder;
    request.geometry = kPlain;
    request.max_tokens = 100;
    mbr_kv *another;
    ASSERT_EQ(MBR_OK, mbr_kv_create(world.manager, &request, &another, &world.error));
    ASSERT_EQ(MBR_OK, mbr_ep_read(world.manager, world.ep, &figures, &world.error));
    EXPECT_EQ(2u, figures.pin_count);
    ASSERT_EQ(MBR_OK, mbr_kv_destroy(another, &world.error));
    ASSERT_EQ(MBR_OK, mbr_ep_read(world.manager, world.ep, &figures, &world.error));
    EXPECT_EQ(1u, figures.pin_count);
}

/* ---- Aliases that a sharer leaves
 * --------------------------------------------------------------- */

TEST(KvAlias, SharerAfterAnEndedOne_CallsNothingInAnyLayout)
{
    for (const char *layout : {"head-major", "seq-major", "token-major", "window-major"})
        for (const char *geometry : {kPlain, kTwoGroups}) {
            SCOPED_TRACE(std::string(layout) + " " + geometry);
            AheadWorld world(geometry, layout, 0);
            Tracked source, first, second, third;
            TrackedPrefix prefix;
            ASSERT_EQ(MBR_OK, world.create(&source, 200));
            ASSERT_EQ(MBR_OK, world.share(&source, 200, &prefix)) << world.error.text;
            ASSERT_EQ(MBR_OK, world.create(&first, 230, &prefix, 200, 1));
            ASSERT_EQ(MBR_OK, world.destroy(&first));
            world.settle();
            uint64_t calls = world.calls();
            ASSERT_EQ(MBR_OK, world.create(&second, 230, &prefix, 200, 1));
            EXPECT_EQ(calls, world.calls());
            EXPECT_TRUE(world.holds(second));
            EXPECT_TRUE(world.holds(source));
            ASSERT_EQ(MBR_OK, world.create(&third, 230, &prefix, 150, 2)); // beside it: afresh
            EXPECT_TRUE(world.holds(third));
            EXPECT_TRUE(world.clean());
            ASSERT_EQ(MBR_OK, world.destroy(&second));
            ASSERT_EQ(MBR_OK, world.destroy(&third));
            world.settle();
            // A shorter one takes what it needs; the rest makes room for its own rows.
            ASSERT_EQ(MBR_OK, world.create(&first, 230, &prefix, 120, 1));
            ASSERT_EQ(MBR_OK, world.append(&first, 100));
            EXPECT_TRUE(world.holds(first));
            EXPECT_TRUE(world.holds(source));
            world.end(&prefix);
            EXPECT_TRUE(world.holds(first));
            EXPECT_TRUE(world.clean());
            EXPECT_EQ(MBR_OK, world.destroy(&first));
            EXPECT_EQ(MBR_OK, world.destroy(&source));
        }
}

TEST(KvAlias, TrimToNothing_GivesUpTheAliasesToo)
{
    AheadWorld world(kPlain, "window-major", 0);
    Tracked source, first;
    TrackedPrefix prefix;
    ASSERT_EQ(MBR_OK, world.create(&source, 200));
    ASSERT_EQ(MBR_OK, world.share(&source, 200, &prefix)) << world.error.text;
    world.settle();
    uint64_t mapped = world.figures().mapped_bytes, released = 0;
    ASSERT_EQ(MBR_OK, world.create(&first, 200, &prefix, 200, 1));
    ASSERT_EQ(MBR_OK, world.destroy(&first));
    world.settle();
    EXPECT_LT(mapped, world.figures().mapped_bytes);
    EXPECT_EQ(MBR_OK, mbr_manager_trim(world.manager, world.mechanism, 0, &released, nullptr));
    EXPECT_EQ(mapped, world.figures().mapped_bytes);
    EXPECT_TRUE(world.holds(source));
    world.end(&prefix);
    EXPECT_EQ(MBR_OK, world.destroy(&source));
    EXPECT_TRUE(world.clean());
}

/* One thread maps ahead while others grow, share and end: contents are their own throughout. */
TEST(KvAhead, BesideGrowingSharingAndEnding_NothingOfItShows)
{
    KvWorld world({kPlain, "window-major", 400, 16, 16384, MBR_KV_GROWING, 2 * kMiB});
    std::atomic<bool> done{false};
    std::atomic<uint64_t> looks{0};
    std::thread poller([&] {
        while (!done) {
            mbr_manager_poll(world.manager);
            looks++;
            std::this_thread::yield();
        }
    });
    auto until_looked = [&] {
        for (uint64_t seen = looks; looks == seen;)
            std::this_thread::yield();
    };
    Tracked source;
    TrackedPrefix prefix;
    ASSERT_EQ(MBR_OK, world.create(&source, 40));
    ASSERT_EQ(MBR_OK, world.share(&source, 40, &prefix));
    for (int life = 0; life < 4; life++) {
        Tracked sharer;
        ASSERT_EQ(MBR_OK, world.create(&sharer, 50, &prefix, 40, 1)) << world.error.text;
        for (int i = 0; i < 60; i++) {
            ASSERT_EQ(MBR_OK, world.append(&sharer, 1 + i % 3));
            ASSERT_EQ(MBR_OK, world.append(&source, 1));
            until_looked();
        }
        EXPECT_TRUE(world.holds(sharer));
        EXPECT_TRUE(world.holds(source));
        ASSERT_EQ(MBR_OK, world.destroy(&sharer));
    }
    done = true;
    poller.join();
    world.settle();
    auto figures = world.read();
    EXPECT_EQ(figures.committed_bytes + figures.shared_bytes,
        world.paid(world.holder).charged_bytes + world.paid(world.prefix_holder).charged_bytes);
    EXPECT_TRUE(world.clean());
    world.end(&prefix);
    EXPECT_EQ(MBR_OK, world.destroy(&source));
}

} // namespace

} // namespace membrane
