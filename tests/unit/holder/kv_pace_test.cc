// How fast a sequence grows, what it will soon reach and what is due: from samples of its length.
#include <gtest/gtest.h>

#include <initializer_list>
#include <utility>

extern "C" {
#include "host/holder/kv/pace.h"
}

namespace membrane
{

namespace
{

constexpr uint64_t kMs = 1000000;

// Each so many ms after the one before it.
using Samples = std::initializer_list<std::pair<uint64_t, uint64_t>>;

uint64_t see(mbr_kv_pace *pace, Samples samples)
{
    uint64_t at = 1;
    for (auto [ms, tokens] : samples) {
        at += ms * kMs;
        mbr_kv_pace_see(pace, tokens, at);
    }
    return at;
}

uint64_t soon_after(Samples samples)
{
    mbr_kv_pace pace = {};
    uint64_t at = see(&pace, samples);
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
    EXPECT_EQ(tokens + 5 * 101 + 1, mbr_kv_pace_soon(&pace, at)); // five times both in 50 ms
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

uint64_t due_after(Samples samples, uint64_t later_ms, uint64_t within_ms)
{
    mbr_kv_pace pace = {};
    uint64_t at = see(&pace, samples);
    return mbr_kv_pace_due(&pace, at + later_ms * kMs, within_ms * kMs);
}

TEST(KvPace, WhatIsDue_ComesNearWithTimeAndStaysWithinTheLook)
{
    EXPECT_EQ(101u, due_after({{0, 100}, {10, 101}}, 0, 1000)); // no pace, nothing is due
    // A token in 40 ms: none within 15 ms of the last one, one within 15 ms of the next.
    EXPECT_EQ(102u, due_after({{0, 100}, {40, 101}, {40, 102}}, 0, 15));
    EXPECT_EQ(102u, due_after({{0, 100}, {40, 101}, {40, 102}}, 24, 15));
    EXPECT_EQ(103u, due_after({{0, 100}, {40, 101}, {40, 102}}, 25, 15));
    // One that is late is awaited, and no second one.
    EXPECT_EQ(103u, due_after({{0, 100}, {40, 101}, {40, 102}}, 900, 15));
    EXPECT_EQ(102u, due_after({{0, 100}, {40, 101}, {40, 102}}, 1001, 15)); // it rests
    // Of chunks as much as comes within the time, and no more when they stop.
    EXPECT_EQ(1700u + 1200, due_after({{0, 100}, {10, 900}, {10, 1700}}, 0, 15));
    EXPECT_EQ(1700u + 1200, due_after({{0, 100}, {10, 900}, {10, 1700}}, 500, 15));
    uint64_t huge = UINT64_C(1) << 40;
    EXPECT_LT(due_after({{0, 0}, {1, huge}, {1, 2 * huge}}, 1000, UINT64_MAX / kMs / 2),
        UINT64_C(1) << 62);
}

} // namespace

} // namespace membrane
