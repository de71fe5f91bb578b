// Prefix registries against a second opinion that keeps every entry and compares it with every
// prompt. The prefixes are numbers with bytes; what the registry ends is seen as it ends it.
extern "C" {
#include "host/holder/registry/internal.h"
}

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <list>
#include <map>
#include <random>
#include <set>
#include <thread>
#include <vector>

struct mbr_kv_prefix {
    uint64_t salt = 0;
    std::vector<uint32_t> tokens;
    uint64_t exclusive_bytes = 0;
    uint32_t sharer_count = 0;
    std::atomic<bool> is_ended{false};
};

extern "C" mbr_status mbr_kv_prefix_destroy(mbr_kv_prefix *prefix, mbr_error *)
{
    EXPECT_FALSE(prefix->is_ended.exchange(true)) << "a prefix is ended once";
    return MBR_OK;
}

extern "C" mbr_status mbr_kv_prefix_read(
    const mbr_kv_prefix *prefix, mbr_kv_prefix_figures *figures, mbr_error *)
{
    EXPECT_FALSE(prefix->is_ended) << "nobody asks for what has ended";
    figures->exclusive_bytes = prefix->exclusive_bytes;
    figures->sharer_count = prefix->sharer_count;
    return MBR_OK;
}

// Nobody pays for them, and nobody is asked.
extern "C" mbr_holder_handle mbr_kv_prefix_payer(const mbr_kv_prefix *, mbr_manager **)
{
    return {0};
}

extern "C" bool mbr_kv_prefix_is_held(const mbr_kv_prefix *)
{
    return false;
}

extern "C" mbr_status mbr_giver_join(
    mbr_manager *, mbr_holder_handle, const void *, void *, void *, mbr_error *)
{
    return MBR_OK;
}

extern "C" void mbr_giver_leave(void *) {}

namespace
{

constexpr uint32_t kBlock = 4;

uint64_t hash_of(uint64_t before, const uint32_t *tokens, uint64_t count)
{
    uint64_t sum = before;
    for (uint64_t i = 0; i < count; i++)
        sum = (sum ^ tokens[i]) * UINT64_C(0x9E3779B97F4A7C15) + (sum >> 29);
    return sum ^ (sum >> 32);
}

uint64_t one_in_ten(void *, uint64_t before, const uint32_t *tokens, uint64_t count)
{
    uint64_t hash = hash_of(before, tokens, count);
    return hash % 10 == 0 ? 0 : hash;
}

uint64_t one_of_two(void *, uint64_t before, const uint32_t *tokens, uint64_t count)
{
    return hash_of(before, tokens, count) % 2;
}

struct Hash {
    const char *name;
    mbr_registry_hash function; // nullptr: the registry's own
    bool collides;
};

using Prompt = std::vector<uint32_t>;

Prompt draw_prompt(std::mt19937_64 &random)
{
    Prompt prompt;
    uint64_t blocks = 1 + random() % 9;
    for (uint64_t i = 0; i < blocks; i++)
        for (uint32_t t = 0, kind = static_cast<uint32_t>(random() % 3); t < kBlock; t++)
            prompt.push_back(random() % 20 == 0 && t == 0 ? 7 : kind); // one block in 20 is changed
    for (uint64_t more = random() % kBlock; more != 0; more--)
        prompt.push_back(9); // less than a block
    return prompt;
}

uint64_t common_blocks(const Prompt &a, const Prompt &b)
{
    uint64_t most = std::min(a.size(), b.size()) / kBlock, blocks = 0;
    while (blocks < most &&
        std::equal(a.begin() + static_cast<long>(blocks * kBlock),
            a.begin() + static_cast<long>((blocks + 1) * kBlock),
            b.begin() + static_cast<long>(blocks * kBlock)))
        blocks++;
    return blocks;
}

class RegistryModel : public ::testing::TestWithParam<Hash>
{
  protected:
    struct Entry {
        mbr_kv_prefix *prefix;
        uint64_t users;
    };

    mbr_registry *registry = nullptr;
    std::list<mbr_kv_prefix> prefixes; // all that ever were
    std::list<Entry> kept;             // the least recently used first
    std::vector<std::pair<mbr_registry_entry *, mbr_kv_prefix *>> used;
    std::mt19937_64 random{20261201};
    uint64_t found = 0, covered = 0, given = 0, spared = 0, refused = 0, collided = 0;

    void SetUp() override
    {
        mbr_registry_request request = {};
        request.struct_size = sizeof(request);
        request.block_tokens = kBlock;
        request.hash = GetParam().function;
        ASSERT_EQ(mbr_registry_create(&request, &registry, nullptr), MBR_OK);
    }

    uint64_t draw(uint64_t below) { return random() % below; }

    uint64_t best(uint64_t salt, const Prompt &prompt) const
    {
        uint64_t blocks = 0;
        for (const auto &entry : kept)
            if (entry.prefix->salt == salt)
                blocks = std::max(blocks, common_blocks(prompt, entry.prefix->tokens));
        return blocks;
    }

    std::list<Entry>::iterator entry_of(const mbr_kv_prefix *prefix)
    {
        return std::find_if(
            kept.begin(), kept.end(), [&](const Entry &e) { return e.prefix == prefix; });
    }

    // All of it stands in others that are kept, too.
    bool is_covered(const Entry &entry) const
    {
        uint64_t blocks = entry.prefix->tokens.size() / kBlock, most = 0;
        for (const auto &other : kept)
            if (other.prefix != entry.prefix && other.prefix->salt == entry.prefix->salt &&
                !other.prefix->is_ended)
                most = std::max(most, common_blocks(entry.prefix->tokens, other.prefix->tokens));
        return most == blocks;
    }

    // Who has gone had nobody that used it, and left nothing that others do not hold.
    void take_out_covered()
    {
        for (auto at = kept.begin(); at != kept.end();) {
            if (!at->prefix->is_ended) {
                ++at;
                continue;
            }
            ASSERT_EQ(at->users, 0U);
            ASSERT_TRUE(is_covered(*at));
            covered++;
            at = kept.erase(at);
        }
    }

    void find()
    {
        uint64_t salt = draw(2);
        Prompt prompt = draw_prompt(random);
        mbr_registry_match match = {};
        match.struct_size = sizeof(match);
        mbr_registry_find(registry, salt, prompt.data(), prompt.size(), &match);
        ASSERT_EQ(match.tokens, best(salt, prompt) * kBlock);
        ASSERT_EQ(match.entry != nullptr, match.tokens != 0);
        if (match.entry == nullptr)
            return;
        found++;
        auto entry = entry_of(match.prefix);
        ASSERT_NE(entry, kept.end());
        ASSERT_EQ(entry->prefix->salt, salt);
        ASSERT_GE(common_blocks(prompt, entry->prefix->tokens) * kBlock, match.tokens);
        entry->users++;
        kept.splice(kept.end(), kept, entry);
        used.emplace_back(match.entry, entry->prefix);
    }

    void release()
    {
        if (used.empty())
            return;
        std::swap(used[draw(used.size())], used.back());
        entry_of(used.back().second)->users--;
        mbr_registry_release(registry, used.back().first);
        used.pop_back();
        take_out_covered();
    }

    void put()
    {
        prefixes.emplace_back();
        mbr_kv_prefix *prefix = &prefixes.back();
        prefix->salt = draw(2);
        prefix->tokens = draw_prompt(random);
        prefix->exclusive_bytes = draw(4) * 100; // 0: live sequences keep all of it
        prefix->sharer_count = static_cast<uint32_t>(draw(2));
        uint64_t known = best(prefix->salt, prefix->tokens);
        uint64_t blocks = prefix->tokens.size() / kBlock;
        mbr_status status = mbr_registry_put(
            registry, prefix->salt, prefix->tokens.data(), prefix->tokens.size(), prefix, nullptr);
        ASSERT_EQ(status, known == blocks ? MBR_ALREADY_EXISTS : MBR_OK);
        if (status != MBR_OK) {
            refused++;
            return;
        }
        kept.push_back({prefix, 0});
        for (const auto &old : kept) { // what the new one holds whole goes at once
            if (old.prefix == prefix || old.users != 0 || old.prefix->salt != prefix->salt)
                continue;
            bool is_whole = common_blocks(old.prefix->tokens, prefix->tokens) ==
                old.prefix->tokens.size() / kBlock;
            ASSERT_TRUE(old.prefix->is_ended || !is_whole);
        }
        take_out_covered();
    }

    // Whole entries, the least recently used first, never one that is used, none of which nothing
    // would come free.
    void give()
    {
        uint64_t wanted = draw(500), expected = 0, could = 0;
        for (const auto &entry : kept)
            could += entry.users == 0 ? entry.prefix->exclusive_bytes : 0;
        ASSERT_EQ(mbr_registry_could_give(registry, wanted), std::min(could, wanted));
        std::vector<const mbr_kv_prefix *> going;
        for (const auto &entry : kept) {
            bool is_worth = entry.prefix->exclusive_bytes != 0 || entry.prefix->sharer_count == 0;
            spared += entry.users == 0 && !is_worth;
            if (expected < wanted && entry.users == 0 && is_worth) {
                going.push_back(entry.prefix);
                expected += entry.prefix->exclusive_bytes;
            }
        }
        ASSERT_EQ(mbr_registry_give(registry, wanted), expected);
        for (const auto *prefix : going) {
            ASSERT_TRUE(prefix->is_ended);
            kept.erase(entry_of(prefix));
            given++;
        }
        for (const auto &entry : kept)
            ASSERT_FALSE(entry.prefix->is_ended);
    }

    void compare_figures()
    {
        mbr_registry_figures now = {};
        now.struct_size = sizeof(now);
        mbr_registry_read(registry, &now);
        std::set<std::pair<uint64_t, Prompt>> blocks;
        uint64_t users = 0;
        for (const auto &entry : kept) {
            const Prompt &tokens = entry.prefix->tokens;
            users += entry.users != 0;
            for (uint64_t end = kBlock; end <= tokens.size(); end += kBlock)
                blocks.insert({entry.prefix->salt,
                    Prompt(tokens.begin(), tokens.begin() + static_cast<long>(end))});
        }
        ASSERT_EQ(now.entry_count, kept.size());
        ASSERT_EQ(now.used_count, users);
        ASSERT_EQ(now.given_count, given);
        collided = now.collision_count;
        if (GetParam().collides) { // the first of a place outlives what it held
            ASSERT_GE(now.block_count, blocks.size());
        } else {
            ASSERT_EQ(now.block_count, blocks.size());
        }
        ASSERT_EQ(now.block_count == 0, kept.empty());
    }
};

TEST_P(RegistryModel, RandomCalls_AgreeWithTheSecondOpinion)
{
    for (int step = 0; step < 2000; step++) {
        SCOPED_TRACE(testing::Message() << "step " << step);
        uint64_t die = draw(100);
        if (die < 35)
            put();
        else if (die < 65)
            find();
        else if (die < 94)
            release();
        else
            give();
        if (HasFatalFailure())
            return;
        if (step % 25 == 0)
            compare_figures();
        if (HasFatalFailure())
            return;
    }
    EXPECT_GT(found, 200U);
    EXPECT_GT(covered, 20U);
    EXPECT_GT(given, 50U);
    EXPECT_GT(spared, 50U);
    EXPECT_GT(refused, 50U);
    EXPECT_EQ(collided != 0, GetParam().collides);
    while (!used.empty())
        release();
    EXPECT_EQ(mbr_registry_destroy(registry, nullptr), MBR_OK);
    for (const auto &entry : kept)
        EXPECT_TRUE(entry.prefix->is_ended);
}

// What is found by one thread while others put and give is whole, of the prompt, and there until it
// is released.
TEST_P(RegistryModel, EightThreads_WhatIsFoundStaysUntilItIsReleased)
{
    std::vector<std::thread> threads;
    std::vector<std::list<mbr_kv_prefix>> made(8);
    std::atomic<uint64_t> matches{0};
    for (uint64_t number = 0; number < 8; number++)
        threads.emplace_back([&, number] {
            std::mt19937_64 own(number);
            for (int step = 0; step < 1500; step++) {
                Prompt prompt = draw_prompt(own);
                uint64_t salt = own() % 2;
                if (own() % 3 == 0) {
                    made[number].emplace_back();
                    mbr_kv_prefix *prefix = &made[number].back();
                    prefix->salt = salt;
                    prefix->tokens = prompt;
                    prefix->exclusive_bytes = 100;
                    if (mbr_registry_put(registry, salt, prompt.data(), prompt.size(), prefix,
                            nullptr) != MBR_OK)
                        prefix->is_ended = true;
                    continue;
                }
                if (own() % 8 == 0) {
                    mbr_registry_could_give(registry, 1000);
                    mbr_registry_give(registry, 100 * (own() % 8));
                    continue;
                }
                mbr_registry_match match = {};
                match.struct_size = sizeof(match);
                mbr_registry_find(registry, salt, prompt.data(), prompt.size(), &match);
                if (match.entry == nullptr)
                    continue;
                EXPECT_EQ(match.prefix->salt, salt);
                EXPECT_GE(common_blocks(prompt, match.prefix->tokens) * kBlock, match.tokens);
                std::this_thread::yield();
                EXPECT_FALSE(match.prefix->is_ended);
                mbr_registry_release(registry, match.entry);
                matches++;
            }
        });
    for (auto &thread : threads)
        thread.join();
    EXPECT_GT(matches, 1000U);
    EXPECT_EQ(mbr_registry_destroy(registry, nullptr), MBR_OK);
    for (const auto &list : made)
        for (const auto &prefix : list)
            EXPECT_TRUE(prefix.is_ended) << "kept by nobody";
}

INSTANTIATE_TEST_SUITE_P(Hashes, RegistryModel,
    ::testing::Values(Hash{"xxh3", nullptr, false}, Hash{"one_in_ten", one_in_ten, true},
        Hash{"one_of_two", one_of_two, true}),
    [](const auto &tested) { return tested.param.name; });

} // namespace
