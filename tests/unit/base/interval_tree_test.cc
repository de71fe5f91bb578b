// The tree of intervals against a std::map that is searched from end to end.
extern "C" {
#include "abi/base/interval_tree.h"
}

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>

namespace
{

using Model = std::map<uint64_t, std::unique_ptr<mbr_interval>>;

mbr_interval *floor_of(const Model &model, uint64_t position)
{
    mbr_interval *best = nullptr;
    for (const auto &[start, interval] : model)
        if (start <= position)
            best = interval.get();
    return best;
}

mbr_interval *ceiling_of(const Model &model, uint64_t position)
{
    for (const auto &[start, interval] : model)
        if (start >= position)
            return interval.get();
    return nullptr;
}

mbr_interval *first_fit_of(const Model &model, uint64_t bytes)
{
    for (const auto &[start, interval] : model)
        if (interval->bytes >= bytes)
            return interval.get();
    return nullptr;
}

} // namespace

TEST(IntervalTree, RandomEdits_EqualALinearSearch)
{
    const uint64_t seed = 20260102;
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    mbr_interval *root = nullptr;
    Model model;
    for (int i = 0; i < 30000; i++) {
        uint64_t start = random() % 200 * 100;
        auto known = model.find(start);
        if (known == model.end()) {
            auto interval = std::make_unique<mbr_interval>();
            interval->start = start;
            interval->bytes = random() % 100 + 1;
            mbr_interval_tree_insert(&root, interval.get());
            model[start] = std::move(interval);
        } else {
            mbr_interval_tree_remove(&root, known->second.get());
            model.erase(known);
        }
        ASSERT_TRUE(mbr_interval_tree_is_valid(root));
        uint64_t position = random() % 20100, bytes = random() % 110 + 1;
        ASSERT_EQ(mbr_interval_tree_floor(root, position), floor_of(model, position));
        ASSERT_EQ(mbr_interval_tree_ceiling(root, position), ceiling_of(model, position));
        ASSERT_EQ(mbr_interval_tree_first_fit(root, bytes), first_fit_of(model, bytes));
    }
    while (root)
        mbr_interval_tree_remove(&root, model[root->start].get());
}

TEST(IntervalTree, RisingStarts_StayShallow)
{
    std::vector<mbr_interval> intervals(100000);
    mbr_interval *root = nullptr;
    for (size_t i = 0; i < intervals.size(); i++) {
        intervals[i].start = i * 2;
        intervals[i].bytes = 1;
        mbr_interval_tree_insert(&root, &intervals[i]);
    }
    size_t deepest = 0;
    for (size_t i = 0; i < intervals.size(); i++) {
        size_t depth = 1;
        for (const mbr_interval *at = root; at->start != i * 2; depth++)
            at = i * 2 < at->start ? at->left : at->right;
        deepest = std::max(deepest, depth);
    }
    EXPECT_LE(deepest, 60u); // about 3 log2 n; a list would be 100 000 deep
}

TEST(IntervalTree, BrokenEquations_AreNoticed)
{
    mbr_interval low = {}, high = {};
    low.bytes = 10;
    high.start = 10;
    high.bytes = 10;
    mbr_interval *root = nullptr;
    mbr_interval_tree_insert(&root, &low);
    mbr_interval_tree_insert(&root, &high);
    ASSERT_TRUE(mbr_interval_tree_is_valid(root));
    low.bytes = 11; // overlaps, and the tree's largest is wrong
    EXPECT_FALSE(mbr_interval_tree_is_valid(root));
    low.bytes = 10;
    std::swap(low.priority, high.priority);
    EXPECT_FALSE(mbr_interval_tree_is_valid(root));
}
