// Prefixes that only tokens tell: the requests of a trace against a second opinion that keeps every
// prompt and compares all of it. One block in twenty gets a changed token, and one of five such has
// the hash that it had before. The prefixes are numbers here.
#include "tests/unit/replay/numbers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

extern "C" mbr_status mbr_kv_prefix_destroy(mbr_kv_prefix *, mbr_error *)
{
    return MBR_OK;
}

namespace
{

constexpr uint64_t kBlock = MBR_TRACE_BLOCK_TOKENS;

uint64_t mix(uint64_t value)
{
    value = (value ^ (value >> 31)) * UINT64_C(0x9E3779B97F4A7C15);
    return value ^ (value >> 29);
}

// Every prompt that was kept, as a tree of whole blocks that are compared byte by byte.
struct Opinion {
    std::map<std::string, std::unique_ptr<Opinion>> next;

    static std::string block(const std::vector<uint32_t> &tokens, uint64_t index)
    {
        return {reinterpret_cast<const char *>(&tokens[index * kBlock]), kBlock * sizeof(uint32_t)};
    }
    uint64_t longest(const std::vector<uint32_t> &tokens) const
    {
        const Opinion *here = this;
        uint64_t blocks = 0;
        for (; blocks < tokens.size() / kBlock; blocks++) {
            auto found = here->next.find(block(tokens, blocks));
            if (found == here->next.end())
                break;
            here = found->second.get();
        }
        return blocks * kBlock;
    }
    void keep(const std::vector<uint32_t> &tokens)
    {
        Opinion *here = this;
        for (uint64_t i = 0; i < tokens.size() / kBlock; i++) {
            auto &next = here->next[block(tokens, i)];
            if (!next)
                next = std::make_unique<Opinion>();
            here = next.get();
        }
    }
};

// What the store's seams do, and what it showed us on the way.
struct Changes {
    std::vector<uint32_t> seen; // the tokens of the last request, as changed
    uint64_t changed_count = 0;
    uint64_t collided_count = 0;

    static void change(
        void *context, const mbr_trace_request *request, uint32_t *tokens, uint64_t token_count)
    {
        auto *self = static_cast<Changes *>(context);
        for (uint64_t i = 0; i < token_count / kBlock; i++) {
            uint64_t die = mix(request->source_line * 4096 + i);
            if (die % 20 == 0) {
                tokens[i * kBlock + die / 20 % kBlock] ^= 1;
                self->changed_count++;
            }
        }
        self->seen.assign(tokens, tokens + token_count);
    }
    // In one block of five the hash does not see the bit that a change changes: every such block
    // that is changed has the hash of the one that is not, behind the same blocks.
    static uint64_t hash(
        void *context, uint64_t before, const uint32_t *tokens, uint64_t token_count)
    {
        auto *self = static_cast<Changes *>(context);
        uint64_t blind = before, whole = before;
        for (uint64_t i = 0; i < token_count; i++) {
            blind = mix(blind + tokens[i] / 2);
            whole = mix(whole + tokens[i]);
        }
        if (blind % 5 != 0)
            return whole;
        auto alike = self->first.emplace(blind, whole).first;
        self->collided_count += alike->second != whole;
        return blind;
    }

    std::unordered_map<uint64_t, uint64_t> first; // of a hash: what it stood for
};

class Auto : public ::testing::Test
{
  protected:
    void load(const std::string &path, uint64_t requests)
    {
        mbr_trace_error refused = {};
        mbr_trace_options options = {};
        options.path = path.c_str();
        options.max_requests = requests;
        ASSERT_EQ(mbr_trace_load(&options, &trace, &refused), MBR_TRACE_OK) << refused.text;
        ASSERT_TRUE(trace->has_hash_ids);
    }
    void TearDown() override { mbr_trace_destroy(trace); }

    // Every request is found as long as it can be, and then kept.
    void run()
    {
        Changes changes;
        replay_store_options options = {};
        options.whole_tokens = true;
        options.change = Changes::change;
        options.hash = Changes::hash;
        options.context = &changes;
        replay_store *store = replay_store_create(&options);
        ASSERT_NE(store, nullptr);
        Opinion opinion;
        std::vector<std::vector<uint32_t>> prompts; // kept ones; number i + 1 is prompts[i]
        uint64_t shared = 0;
        for (uint64_t i = 0; i < trace->request_count; i++) {
            const mbr_trace_request *request = &trace->requests[i];
            const mbr_kv_prefix *prefix;
            uint64_t tokens;
            replay_entry *entry = replay_store_acquire(store, request, &prefix, &tokens);
            ASSERT_EQ(tokens, opinion.longest(changes.seen)) << "request " << i;
            if (tokens != 0) { // whose prefix it is: one that begins like this
                const auto &held = prompts.at(reinterpret_cast<uintptr_t>(prefix) - 1);
                ASSERT_TRUE(std::equal(changes.seen.begin(),
                    changes.seen.begin() + static_cast<long>(tokens), held.begin()))
                    << "request " << i;
            }
            replay_store_release(store, entry);
            shared += tokens;
            auto blocks = static_cast<uint32_t>(changes.seen.size() / kBlock);
            if (blocks == 0)
                continue;
            std::vector<uint32_t> prompt = changes.seen;
            bool covered = replay_store_covers(store, request, blocks);
            ASSERT_EQ(covered, opinion.longest(prompt) == blocks * kBlock) << "request " << i;
            if (covered)
                continue;
            opinion.keep(prompt);
            prompts.push_back(std::move(prompt));
            ASSERT_TRUE(replay_store_put(
                store, request, blocks, reinterpret_cast<mbr_kv_prefix *>(prompts.size())));
        }
        std::printf("%llu requests, %llu blocks changed, %llu hashes alike, %llu tokens shared\n",
            static_cast<unsigned long long>(trace->request_count),
            static_cast<unsigned long long>(changes.changed_count),
            static_cast<unsigned long long>(changes.collided_count),
            static_cast<unsigned long long>(shared));
        EXPECT_GT(shared, 0U);
        EXPECT_GT(changes.changed_count, 0U);
        EXPECT_GT(changes.collided_count, 0U);
        replay_store_destroy(store);
    }

    mbr_trace *trace = nullptr;
};

TEST_F(Auto, SampleTrace_ChangedAndCollidingBlocks_AreSharedAsBruteForceDoes)
{
    load("tools/cli/trace/sample.jsonl", 0);
    run();
}

class PublicAuto : public Auto, public ::testing::WithParamInterface<const char *>
{
};

// All of a trace in the long stage.
TEST_P(PublicAuto, ChangedAndCollidingBlocks_AreSharedAsBruteForceDoes)
{
    const char *folder = std::getenv("MEMBRANE_TRACES"),
               *wanted = std::getenv("MEMBRANE_OPERATIONS");
    if (folder == nullptr || folder[0] == '\0')
        GTEST_SKIP() << "MEMBRANE_TRACES names no folder with public traces";
    load(std::string(folder) + "/" + GetParam(),
        wanted == nullptr ? 2000 : std::strtoull(wanted, nullptr, 10));
    run();
}

INSTANTIATE_TEST_SUITE_P(Traces, PublicAuto,
    ::testing::Values("mooncake_conversation.jsonl", "mooncake_synthetic.jsonl"),
    [](const auto &named) { return named.index == 0 ? "conversation" : "synthetic"; });

} // namespace
