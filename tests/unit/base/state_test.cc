// State tables: which edges are allowed, who wins a race, and what an illegal edge does.
#include "tests/unit/base/door.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>
#include <utility>
#include <vector>

namespace
{

const std::set<std::pair<uint32_t, uint32_t>> kEdges = {
    {DOOR_CLOSED, DOOR_OPEN},
    {DOOR_OPEN, DOOR_CLOSED},
    {DOOR_CLOSED, DOOR_LOCKED},
    {DOOR_LOCKED, DOOR_CLOSED},
    {DOOR_LOCKED, DOOR_BROKEN},
};

TEST(State, EveryPair_AllowedExactlyWhereTheTableSaysSo)
{
    for (uint32_t from = 0; from < DOOR_COUNT; from++)
        for (uint32_t to = 0; to < DOOR_COUNT; to++)
            EXPECT_EQ(door_allows(from, to), kEdges.count({from, to}) == 1) << from << "->" << to;
}

TEST(State, NumberOutsideTheTable_NeverAllowed)
{
    for (uint32_t outside : {uint32_t{DOOR_COUNT}, 31u, 32u, 33u, 64u, UINT32_MAX}) {
        for (uint32_t inside = 0; inside < DOOR_COUNT; inside++) {
            EXPECT_FALSE(door_allows(outside, inside)) << outside;
            EXPECT_FALSE(door_allows(inside, outside)) << outside;
        }
        EXPECT_FALSE(door_allows(outside, outside)) << outside;
    }
}

TEST(State, TableOf32States_EveryBitCounts)
{
    for (uint32_t from = 0; from < 33; from++)
        for (uint32_t to = 0; to < 33; to++)
            EXPECT_EQ(ring_allows(from, to), from < 32 && to == (from + 1) % 32)
                << from << "->" << to;
}

TEST(State, LegalEdge_Moves)
{
    for (auto [from, to] : kEdges) {
        door_set(from);
        EXPECT_TRUE(door_try_move(from, to));
        EXPECT_EQ(door_get(), to);
        door_set(from);
        door_move(from, to);
        EXPECT_EQ(door_get(), to);
    }
}

TEST(State, TryMoveFromAnotherState_FalseAndUnchanged)
{
    door_set(DOOR_OPEN);
    EXPECT_FALSE(door_try_move(DOOR_CLOSED, DOOR_LOCKED));
    EXPECT_EQ(door_get(), uint32_t{DOOR_OPEN});
}

TEST(State, RaceForOneEdge_ExactlyOneWins)
{
    constexpr int kThreads = 4;
    constexpr int kRounds = 200;
    for (int round = 0; round < kRounds; round++) {
        door_set(DOOR_CLOSED);
        std::atomic<int> winners{0};
        std::atomic<int> ready{0};
        std::vector<std::thread> threads;
        for (int i = 0; i < kThreads; i++) {
            threads.emplace_back([&, i] {
                ready++;
                while (ready.load() < kThreads)
                    std::this_thread::yield();
                winners += door_try_move(DOOR_CLOSED, i % 2 == 0 ? DOOR_OPEN : DOOR_LOCKED);
            });
        }
        for (std::thread &thread : threads)
            thread.join();
        ASSERT_EQ(winners.load(), 1);
        ASSERT_NE(door_get(), uint32_t{DOOR_CLOSED});
    }
}

TEST(StateDeathTest, IllegalEdge_EndsTheProcess)
{
    for (uint32_t from = 0; from < DOOR_COUNT; from++) {
        for (uint32_t to = 0; to < DOOR_COUNT; to++) {
            if (kEdges.count({from, to}) != 0)
                continue;
            door_set(from);
            EXPECT_DEBUG_DEATH(door_move(from, to), "assertion failed: mbr_state_allows")
                << from << "->" << to;
        }
    }
}

TEST(StateDeathTest, MoveOfAStateThatIsNotThere_EndsTheProcess)
{
    door_set(DOOR_BROKEN);
    EXPECT_DEATH(door_move(DOOR_CLOSED, DOOR_OPEN), "assertion failed: moved");
    EXPECT_EQ(door_get(), uint32_t{DOOR_BROKEN});
}

} // namespace
