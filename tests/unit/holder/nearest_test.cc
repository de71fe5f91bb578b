// The nearest name against a distance computed by plain recursion over all edits.
extern "C" {
#include "host/holder/geometry/nearest.h"
}

#include "tests/unit/holder/extent_oracle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace
{

const char *NameAt(const void *context, uint64_t index)
{
    return (*static_cast<const std::vector<std::string> *>(context))[index].c_str();
}

uint64_t Nearest(const std::string &text, const std::vector<std::string> &names)
{
    return mbr_nearest_name(text.c_str(), names.size(), NameAt, &names);
}

// Fewest edits that turn a[0, i) into b[0, j).
uint64_t Edits(const std::string &a, size_t i, const std::string &b, size_t j)
{
    if (i == 0 || j == 0)
        return i + j;
    uint64_t best = Edits(a, i - 1, b, j - 1) + (a[i - 1] != b[j - 1]);
    best = std::min({best, Edits(a, i - 1, b, j) + 1, Edits(a, i, b, j - 1) + 1});
    if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        best = std::min(best, Edits(a, i - 2, b, j - 2) + 1);
    return best;
}

TEST(Nearest, RandomNames_EqualTheRecursion)
{
    std::mt19937_64 random(oracle::Seed());
    auto word = [&] {
        std::string text(random() % 7, 'a');
        for (char &c : text)
            c = static_cast<char>('a' + random() % 3);
        return text;
    };
    uint64_t none = 0;
    for (int round = 0; round < 2000; round++) {
        std::vector<std::string> names = {word(), word(), word()};
        std::string text = word();
        uint64_t expected = names.size(), best = UINT64_MAX;
        for (size_t i = 0; i < names.size(); i++) {
            uint64_t edits = Edits(text, text.size(), names[i], names[i].size());
            if (2 * edits < std::max(text.size(), names[i].size()) && edits < best) {
                best = edits;
                expected = i;
            }
        }
        none += expected == names.size();
        ASSERT_EQ(Nearest(text, names), expected)
            << text << " among " << names[0] << " " << names[1] << " " << names[2];
    }
    EXPECT_GT(none, 100u);
    EXPECT_LT(none, 1900u);
}

TEST(Nearest, Case_IsIgnored)
{
    EXPECT_EQ(Nearest("SHARE", {"plugins", "share"}), 1u);
}

TEST(Nearest, FirstOfEquals_Wins)
{
    EXPECT_EQ(Nearest("abcx", {"zzzz", "abcd", "abce"}), 1u);
}

TEST(Nearest, NoNames_IsNothing)
{
    EXPECT_EQ(Nearest("share", {}), 0u);
}

TEST(Nearest, LongNames_CompareByTheirFirstCharacters)
{
    std::string start(MBR_NEAREST_NAME_MAX, 'n');
    EXPECT_EQ(Nearest(start + "left", {std::string(70, 'x'), start + "right"}), 1u);
    EXPECT_EQ(Nearest(std::string(100000, 'y'), {start}), 1u);
}

} // namespace
