// The prefix store: longest match, whole prefixes, least recently used first, none that is in use.
// The prefixes are numbers here; destroying one is noted.
#include "tests/unit/replay/numbers.h"

#include <gtest/gtest.h>

#include <deque>
#include <set>
#include <vector>

static std::multiset<const mbr_kv_prefix *> destroyed;

extern "C" mbr_status mbr_kv_prefix_destroy(mbr_kv_prefix *prefix, mbr_error *)
{
    destroyed.insert(prefix);
    return MBR_OK;
}

namespace
{

mbr_kv_prefix *prefix(uintptr_t number)
{
    return reinterpret_cast<mbr_kv_prefix *>(number);
}

class Store : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        destroyed.clear();
        replay_store_options options = {};
        store = replay_store_create(&options);
    }
    void TearDown() override { replay_store_destroy(store); }

    /* A request of whole blocks with these ids, and `rest` tokens more. */
    mbr_trace_request request(std::vector<uint64_t> ids, uint32_t rest = 0)
    {
        kept.push_back(std::move(ids));
        mbr_trace_request made = {};
        made.hash_ids = kept.back().data();
        made.hash_count = static_cast<uint32_t>(kept.back().size());
        made.prompt_tokens =
            (made.hash_count - (rest != 0 ? 1 : 0)) * MBR_TRACE_BLOCK_TOKENS + rest;
        return made;
    }
    bool put(const mbr_trace_request &request, uintptr_t number)
    {
        return replay_store_put(
            store, &request, request.prompt_tokens / MBR_TRACE_BLOCK_TOKENS, prefix(number));
    }

    replay_entry *acquire(const mbr_trace_request &request, uint64_t *tokens)
    {
        return replay_store_acquire(store, &request, &held, tokens);
    }

    replay_store *store = nullptr;
    const mbr_kv_prefix *held = nullptr;    /* of the last acquire */
    std::deque<std::vector<uint64_t>> kept; /* a deque never moves what is in it */
};

TEST_F(Store, LongestLeadingBlocks_AreFound)
{
    auto source = request({1, 2, 3, 4});
    ASSERT_TRUE(put(source, 100));
    uint64_t tokens;
    auto same = request({1, 2, 3, 9});
    replay_entry *entry = acquire(same, &tokens);
    ASSERT_NE(nullptr, entry);
    EXPECT_EQ(3u * 512, tokens);
    EXPECT_EQ(prefix(100), held);
    replay_store_release(store, entry);
    auto other = request({7, 2, 3});
    EXPECT_EQ(nullptr, acquire(other, &tokens));
    EXPECT_EQ(0u, tokens);
    auto shifted = request({2, 3, 4}); /* equal blocks at other places are no prefix */
    EXPECT_EQ(nullptr, acquire(shifted, &tokens));
}

TEST_F(Store, PartOfABlock_IsNoPrefix)
{
    auto source = request({1, 2, 3});
    ASSERT_TRUE(put(source, 100));
    auto shorter = request({1, 2}, 10);
    uint64_t tokens;
    replay_entry *entry = acquire(shorter, &tokens);
    EXPECT_EQ(512u, tokens);
    replay_store_release(store, entry);
}

TEST_F(Store, LongerOne_TakesOverWhatItCovers)
{
    auto shorter = request({1, 2});
    auto longer = request({1, 2, 3});
    ASSERT_TRUE(put(shorter, 100));
    EXPECT_TRUE(replay_store_covers(store, &shorter, 2));
    EXPECT_FALSE(replay_store_covers(store, &longer, 3));
    ASSERT_TRUE(put(longer, 200));
    EXPECT_EQ(1u, destroyed.count(prefix(100)));
    EXPECT_EQ(1u, replay_store_count(store));
    uint64_t tokens;
    replay_entry *entry = acquire(shorter, &tokens);
    EXPECT_EQ(prefix(200), held);
    EXPECT_EQ(1024u, tokens);
    replay_store_release(store, entry);
}

TEST_F(Store, CoveredWhileInUse_GoesWhenItIsReleased)
{
    auto shorter = request({1, 2});
    auto longer = request({1, 2, 3});
    ASSERT_TRUE(put(shorter, 100));
    uint64_t tokens;
    replay_entry *entry = acquire(shorter, &tokens);
    ASSERT_TRUE(put(longer, 200));
    EXPECT_EQ(0u, destroyed.count(prefix(100)));
    replay_store_release(store, entry);
    EXPECT_EQ(1u, destroyed.count(prefix(100)));
}

TEST_F(Store, Eviction_IsLeastRecentlyUsedAndNeverInUse)
{
    auto a = request({1}), b = request({2}), c = request({3});
    ASSERT_TRUE(put(a, 100));
    ASSERT_TRUE(put(b, 200));
    ASSERT_TRUE(put(c, 300));
    uint64_t tokens;
    replay_store_release(store, acquire(a, &tokens)); /* now b is the oldest */
    replay_entry *used = acquire(b, &tokens);
    EXPECT_TRUE(replay_store_evict(store));
    EXPECT_EQ(1u, destroyed.count(prefix(300)));
    EXPECT_TRUE(replay_store_evict(store));
    EXPECT_EQ(1u, destroyed.count(prefix(100)));
    EXPECT_FALSE(replay_store_evict(store)); /* b is in use */
    EXPECT_EQ(2u, replay_store_evicted(store));
    replay_store_release(store, used);
    EXPECT_TRUE(replay_store_evict(store));
    EXPECT_EQ(nullptr, acquire(b, &tokens));
    EXPECT_EQ(0u, replay_store_count(store));
}

TEST_F(Store, End_DestroysEachOnce)
{
    for (uint64_t i = 0; i < 50; i++) {
        auto source = request({i % 7, 100 + i, 200 + i});
        ASSERT_TRUE(put(source, 1000 + i));
    }
    replay_store_destroy(store);
    store = nullptr;
    EXPECT_EQ(50u, destroyed.size());
    for (uintptr_t i = 0; i < 50; i++)
        EXPECT_EQ(1u, destroyed.count(prefix(1000 + i)));
}

} // namespace
