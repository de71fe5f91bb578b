// The places of those that are away: kept once, given back to their owner alone, gone in time.
#include "docs/examples/server/line.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>

namespace
{

class Line : public testing::Test
{
  protected:
    uint64_t Keep(double work, uint64_t return_ns, uint64_t random = 7)
    {
        place given{};
        given.number = line_join(at.get());
        given.work_byte_seconds = work;
        given.return_ns = return_ns;
        return line_keep(at.get(), &given, random);
    }

    std::unique_ptr<line> at{new line()};
    place taken{};
};

TEST_F(Line, PlaceKept_IsItsOwnersOnce)
{
    uint64_t first = Keep(2, 10), second = Keep(3, 10);
    EXPECT_EQ(at->work_byte_seconds, 5);
    ASSERT_TRUE(line_take(at.get(), second, &taken));
    EXPECT_EQ(taken.number, 2u);
    EXPECT_EQ(taken.work_byte_seconds, 3);
    EXPECT_FALSE(line_take(at.get(), second, &taken));
    EXPECT_EQ(at->work_byte_seconds, 2);
    EXPECT_EQ(at->away_count, 1u);
    EXPECT_TRUE(line_take(at.get(), first, &taken));
    EXPECT_EQ(at->away_count, 0u);
}

TEST_F(Line, KeyOfNobody_IsNoPlace)
{
    uint64_t key = Keep(1, 10, 0); // whatever the random number, a key is not 0
    EXPECT_GE(key, (uint64_t)PLACE_LIMIT_COUNT);
    EXPECT_FALSE(line_take(at.get(), 0, &taken));
    EXPECT_FALSE(line_take(at.get(), key % PLACE_LIMIT_COUNT, &taken));
    EXPECT_FALSE(line_take(at.get(), key + 2 * PLACE_LIMIT_COUNT, &taken));
    EXPECT_EQ(at->away_count, 1u);
}

TEST_F(Line, NewPlaceOfAnOldNumber_KeepsItsTurn)
{
    uint64_t key = Keep(1, 10);
    ASSERT_TRUE(line_take(at.get(), key, &taken));
    Keep(1, 10);
    uint64_t again = line_keep(at.get(), &taken, 8);
    ASSERT_TRUE(line_take(at.get(), again, &taken));
    EXPECT_EQ(taken.number, 1u);
}

TEST_F(Line, Full_NoPlaceIsGivenAndNoneIsLost)
{
    std::set<uint64_t> keys;
    for (uint32_t i = 0; i < PLACE_LIMIT_COUNT; i++)
        keys.insert(Keep(1, i < 2 ? 5 : 10));
    EXPECT_EQ(keys.size(), (size_t)PLACE_LIMIT_COUNT);
    EXPECT_EQ(Keep(1, 10), 0u);
    line_expire(at.get(), 4);
    EXPECT_EQ(at->away_count, (uint32_t)PLACE_LIMIT_COUNT);
    line_expire(at.get(), 5);
    EXPECT_EQ(at->away_count, (uint32_t)PLACE_LIMIT_COUNT - 2);
    EXPECT_NE(Keep(1, 10), 0u); // the second of those that are gone
    line_expire(at.get(), 10);
    EXPECT_EQ(at->away_count, 0u);
    EXPECT_EQ(at->work_byte_seconds, 0);
}

TEST_F(Line, Guess_IsTheFirstOfTheTimeWithAsMuchWorkAndOnce)
{
    Keep(1, 30);
    uint64_t early = Keep(1, 10);
    Keep(2, 20);
    Keep(1, 20);
    auto guess = [this](double work, uint64_t from_ns, uint64_t until_ns) {
        return line_guess(at.get(), work, from_ns, until_ns, &taken) ? taken.number : 0;
    };
    EXPECT_EQ(guess(1, 5, 9), 0u);
    EXPECT_EQ(guess(3, 0, 99), 0u);
    EXPECT_EQ(at->work_byte_seconds, 5);
    EXPECT_EQ(guess(1, 10, 30), 2u);
    EXPECT_EQ(guess(2, 0, 20), 3u);
    EXPECT_EQ(guess(2, 0, 20), 0u);
    EXPECT_EQ(guess(1, 0, 29), 4u);
    EXPECT_EQ(guess(1, 0, 30), 1u);
    EXPECT_EQ(at->work_byte_seconds, 0);
    // The owner of a place that was guessed has it all the same.
    ASSERT_TRUE(line_take(at.get(), early, &taken));
    EXPECT_EQ(taken.number, 2u);
    line_expire(at.get(), 29);
    EXPECT_EQ(at->first->next, nullptr);
    EXPECT_EQ(at->away_count, 1u);
    line_expire(at.get(), 30);
    EXPECT_EQ(at->work_byte_seconds, 0);
}

} // namespace
