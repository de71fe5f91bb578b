// The computed comparison, against a walk over every instant of fifty random stays.
extern "C" {
#include "tools/cli/replay/compare.h"
}

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <vector>

namespace
{

constexpr uint64_t kTokenBytes = 12288;

/* Tokens of a stay at an instant, told again from the definition: even growth from decode to end.
 */
uint64_t tokens_at(const mbr_replay_stay &stay, uint64_t now)
{
    if (now < stay.decode_ns || stay.end_ns == stay.decode_ns)
        return stay.prompt_tokens;
    uint64_t grown = stay.end_tokens - stay.prompt_tokens, tokens = 0;
    /* The largest count whose moment has come, counted one by one. */
    for (uint64_t n = 1; n <= grown; n++) {
        double share = static_cast<double>(n) / static_cast<double>(grown);
        uint64_t at = stay.decode_ns +
            static_cast<uint64_t>(share * static_cast<double>(stay.end_ns - stay.decode_ns));
        if (at > now)
            break;
        tokens = n;
    }
    return stay.prompt_tokens + tokens;
}

uint64_t power_of_two(uint64_t tokens)
{
    uint64_t capacity = 16;
    while (capacity < tokens)
        capacity *= 2;
    return capacity;
}

struct Peaks {
    uint64_t max_prealloc = 0, grow_and_copy = 0, paged16 = 0;
};

Peaks walk(const std::vector<mbr_replay_stay> &stays, uint64_t end, uint64_t max_tokens)
{
    Peaks peaks;
    std::vector<uint64_t> capacity(stays.size(), 0);
    for (uint64_t now = 0; now <= end + 1; now++) {
        uint64_t prealloc = 0, paged = 0, copied = 0;
        for (size_t i = 0; i < stays.size(); i++) {
            const auto &stay = stays[i];
            bool lives = now >= stay.start_ns && now < stay.end_ns;
            bool last = now == stay.end_ns; /* its last block is given back an instant later */
            if (lives) {
                prealloc += max_tokens;
                paged += (tokens_at(stay, now) + 15) / 16 * 16;
            }
            if (!lives && !last)
                continue;
            uint64_t wanted = power_of_two(tokens_at(stay, now));
            if (now == stay.start_ns || capacity[i] == 0)
                capacity[i] = power_of_two(stay.prompt_tokens);
            copied += capacity[i];
            while (capacity[i] < wanted) { /* old and new together at this instant */
                capacity[i] *= 2;
                copied += capacity[i];
            }
        }
        peaks.max_prealloc = std::max(peaks.max_prealloc, prealloc * kTokenBytes);
        peaks.paged16 = std::max(peaks.paged16, paged * kTokenBytes);
        peaks.grow_and_copy = std::max(peaks.grow_and_copy, copied * kTokenBytes);
    }
    return peaks;
}

TEST(Compare, FiftyRandomStays_EqualAWalkOverEveryInstant)
{
    const char *given = std::getenv("MEMBRANE_SEED");
    uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 20231116;
    SCOPED_TRACE("MEMBRANE_SEED=" + std::to_string(seed));
    std::mt19937_64 random(seed);
    for (int round = 0; round < 20; round++) {
        std::vector<mbr_replay_stay> stays;
        uint64_t end = 0, longest = 1;
        for (int i = 0; i < 50; i++) {
            mbr_replay_stay stay = {};
            stay.start_ns = random() % 2000;
            stay.decode_ns = stay.start_ns + random() % 300;
            stay.prompt_tokens = 1 + random() % 200;
            uint64_t output = random() % 60;
            stay.end_tokens = stay.prompt_tokens + output;
            /* At least an instant a token: no two tokens come at once, as in the run. */
            stay.end_ns = stay.decode_ns + 2 * output + 2 + random() % 500;
            end = std::max(end, stay.end_ns);
            longest = std::max(longest, stay.end_tokens);
            stays.push_back(stay);
        }
        Peaks expected = walk(stays, end, longest);
        EXPECT_EQ(expected.max_prealloc,
            mbr_replay_max_prealloc(stays.data(), stays.size(), longest, kTokenBytes));
        EXPECT_EQ(expected.paged16, mbr_replay_paged16(stays.data(), stays.size(), kTokenBytes));
        EXPECT_EQ(expected.grow_and_copy,
            mbr_replay_grow_and_copy(stays.data(), stays.size(), kTokenBytes));
    }
}

TEST(Compare, OneStay_IsWhatOneSees)
{
    mbr_replay_stay stay = {0, 10, 1000, 100, 300};
    EXPECT_EQ(500 * kTokenBytes, mbr_replay_max_prealloc(&stay, 1, 500, kTokenBytes));
    EXPECT_EQ(304 * kTokenBytes, mbr_replay_paged16(&stay, 1, kTokenBytes));
    EXPECT_EQ((256 + 512) * kTokenBytes, mbr_replay_grow_and_copy(&stay, 1, kTokenBytes));
    EXPECT_EQ(0u, mbr_replay_paged16(nullptr, 0, kTokenBytes));
}

TEST(Compare, EndsBeforeStarts_AreNotAddedUp)
{
    mbr_replay_stay stays[] = {{0, 0, 100, 16, 16}, {100, 100, 200, 16, 16}};
    EXPECT_EQ(16 * kTokenBytes, mbr_replay_max_prealloc(stays, 2, 16, kTokenBytes));
    EXPECT_EQ(16 * kTokenBytes, mbr_replay_paged16(stays, 2, kTokenBytes));
}

} // namespace
