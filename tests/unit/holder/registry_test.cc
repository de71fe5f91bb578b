// Prefix registries over real prefixes, against a second opinion that compares every prompt with
// every entry; hashes that collide almost always among them.
#include "tests/unit/holder/kv_world.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>

extern "C" {
#include "host/holder/registry/internal.h"
}

namespace membrane
{
namespace
{

constexpr uint32_t kBlock = 4;
constexpr uint64_t kTokensMax = 12 * kBlock;

using Prompt = std::vector<uint32_t>;

uint64_t poor_hash(void *context, uint64_t before, const uint32_t *tokens, uint64_t count)
{
    auto *calls = static_cast<uint64_t *>(context);
    ++*calls;
    uint64_t sum = before;
    for (uint64_t i = 0; i < count; i++)
        sum += tokens[i];
    return sum % 2;
}

// A heap that fails its Nth allocation from now on, and counts what is out.
struct ScarceHeap {
    int64_t left = INT64_MAX;
    int64_t out = 0;
    mbr_heap heap = {allocate, release, this};

    static void *allocate(void *context, size_t bytes)
    {
        auto *self = static_cast<ScarceHeap *>(context);
        if (self->left-- <= 0)
            return nullptr;
        self->out++;
        return std::calloc(1, bytes);
    }
    static void release(void *context, void *memory)
    {
        static_cast<ScarceHeap *>(context)->out -= memory != nullptr;
        std::free(memory);
    }
};

class Registry : public ::testing::Test
{
  protected:
    // One token of the geometry is one granule: every whole block is shareable.
    KvWorld world{{"layers=1,heads=8,dim=128,bytes=2,planes=2", "token-major", kTokensMax, 0, 4096},
        256 * kMiB};
    ScarceHeap heap;
    mbr_registry *registry = nullptr;
    uint64_t hash_calls = 0;

    void open(mbr_registry_hash hash = nullptr)
    {
        mbr_registry_request request = sized<mbr_registry_request>();
        request.block_tokens = kBlock;
        request.hash = hash;
        request.hash_context = &hash_calls;
        ASSERT_EQ(mbr_registry_create_on(&heap.heap, &request, &registry, &world.error), MBR_OK)
            << world.error.text;
    }

    void TearDown() override
    {
        if (registry != nullptr) {
            EXPECT_EQ(mbr_registry_destroy(registry, &world.error), MBR_OK) << world.error.text;
        }
        EXPECT_EQ(heap.out, 0) << "blocks or entries are left";
        world.settle();
    }

    // What a model computes for each token of a prompt: of all tokens up to it.
    static std::vector<uint64_t> rows_of(uint64_t salt, const Prompt &prompt)
    {
        std::vector<uint64_t> ids;
        for (uint32_t token : prompt)
            ids.push_back(salt = (salt ^ token) * UINT64_C(0x9E3779B97F4A7C15) + 1);
        return ids;
    }

    mbr_kv_prefix *prefix(uint64_t salt, const Prompt &prompt)
    {
        Tracked source;
        TrackedPrefix made;
        EXPECT_EQ(world.create(&source, prompt.size()), MBR_OK) << world.error.text;
        source.ids = rows_of(salt, prompt);
        world.rewrite(&source);
        world.settle();
        EXPECT_EQ(world.share(&source, prompt.size(), &made), MBR_OK) << world.error.text;
        EXPECT_EQ(world.destroy(&source), MBR_OK);
        world.settle(); // until then the source still has its extents
        return made.prefix;
    }

    mbr_status put(uint64_t salt, const Prompt &prompt)
    {
        mbr_kv_prefix *made = prefix(salt, prompt);
        mbr_status status =
            mbr_registry_put(registry, salt, prompt.data(), prompt.size(), made, &world.error);
        if (status != MBR_OK) {
            EXPECT_EQ(mbr_kv_prefix_destroy(made, nullptr), MBR_OK);
        }
        return status;
    }

    mbr_registry_match find(uint64_t salt, const Prompt &prompt)
    {
        mbr_registry_match match = sized<mbr_registry_match>();
        mbr_registry_find(registry, salt, prompt.data(), prompt.size(), &match);
        return match;
    }

    // Attached to what is found, a sequence reads what the prompt's own tokens would have written.
    void expect_own_bytes(uint64_t salt, const Prompt &prompt, const mbr_registry_match &match)
    {
        Tracked sharer;
        TrackedPrefix held = {const_cast<mbr_kv_prefix *>(match.prefix), rows_of(salt, prompt)};
        ASSERT_EQ(world.create(&sharer, match.tokens, &held, match.tokens), MBR_OK)
            << world.error.text;
        EXPECT_EQ(world.read(sharer).valid_tokens, match.tokens);
        EXPECT_TRUE(world.holds(sharer));
        EXPECT_EQ(world.destroy(&sharer), MBR_OK);
    }

    uint64_t found_tokens(uint64_t salt, const Prompt &prompt)
    {
        mbr_registry_match match = find(salt, prompt);
        mbr_registry_release(registry, match.entry);
        return match.tokens;
    }

    mbr_registry_figures figures()
    {
        mbr_registry_figures now = sized<mbr_registry_figures>();
        mbr_registry_read(registry, &now);
        return now;
    }
};

Prompt prompt_of(std::initializer_list<uint32_t> blocks)
{
    Prompt prompt;
    for (uint32_t block : blocks)
        for (uint32_t i = 0; i < kBlock; i++)
            prompt.push_back(block * 100 + i);
    return prompt;
}

TEST_F(Registry, Find_OfAPromptThatGoesOn_GivesItsWholeBlocks)
{
    open();
    ASSERT_EQ(put(0, prompt_of({1, 2, 3})), MBR_OK) << world.error.text;
    EXPECT_EQ(found_tokens(0, prompt_of({1, 2, 3, 4})), 3 * kBlock);
    EXPECT_EQ(found_tokens(0, prompt_of({1, 2, 9})), 2 * kBlock);
    EXPECT_EQ(found_tokens(0, prompt_of({2, 1})), 0U);
    Prompt cut = prompt_of({1, 2});
    cut.pop_back();
    EXPECT_EQ(found_tokens(0, cut), kBlock) << "a block that is not whole is not found";
    EXPECT_EQ(figures().block_count, 3U);
}

TEST_F(Registry, Find_UnderAnotherSalt_FindsNothing)
{
    open();
    ASSERT_EQ(put(7, prompt_of({1, 2})), MBR_OK);
    EXPECT_EQ(found_tokens(8, prompt_of({1, 2})), 0U);
    EXPECT_EQ(found_tokens(7, prompt_of({1, 2})), 2 * kBlock);
}

TEST_F(Registry, Find_BehindACollision_ComparesTheTokens)
{
    open(poor_hash);
    Prompt one = prompt_of({1, 2, 3});
    ASSERT_EQ(put(0, one), MBR_OK);
    Prompt other = one;
    std::swap(other[0], other[1]); // the same sum
    EXPECT_EQ(found_tokens(0, other), 0U);
    EXPECT_GE(figures().collision_count, 1U);
    ASSERT_EQ(put(0, other), MBR_OK);
    EXPECT_EQ(found_tokens(0, other), 3 * kBlock);
    EXPECT_EQ(found_tokens(0, one), 3 * kBlock);
}

TEST_F(Registry, Put_OfWhatIsThere_IsRefusedAndOfALongerOneReplaces)
{
    open();
    ASSERT_EQ(put(0, prompt_of({1, 2})), MBR_OK);
    EXPECT_EQ(put(0, prompt_of({1, 2})), MBR_ALREADY_EXISTS);
    EXPECT_EQ(put(0, prompt_of({1})), MBR_ALREADY_EXISTS);
    ASSERT_EQ(put(0, prompt_of({1, 2, 3})), MBR_OK);
    EXPECT_EQ(figures().entry_count, 1U) << "the older one is all in the newer one";
    Prompt short_one = {1, 2};
    EXPECT_EQ(put(0, short_one), MBR_INVALID_ARGUMENT);
}

TEST_F(Registry, Give_TakesTheLeastRecentlyUsedAndNeverOneInUse)
{
    open();
    ASSERT_EQ(put(0, prompt_of({1})), MBR_OK);
    ASSERT_EQ(put(0, prompt_of({2})), MBR_OK);
    ASSERT_EQ(put(0, prompt_of({3})), MBR_OK);
    mbr_registry_match used = find(0, prompt_of({1}));
    EXPECT_EQ(found_tokens(0, prompt_of({2})), kBlock); // 3 is the oldest now
    uint64_t one_entry = kBlock * 4096;
    EXPECT_EQ(mbr_registry_could_give(registry, UINT64_MAX), 2 * one_entry);
    EXPECT_EQ(mbr_registry_could_give(registry, 1), 1U);
    EXPECT_EQ(mbr_registry_give(registry, 1), one_entry);
    EXPECT_EQ(found_tokens(0, prompt_of({3})), 0U);
    EXPECT_EQ(found_tokens(0, prompt_of({2})), kBlock);
    EXPECT_EQ(mbr_registry_give(registry, UINT64_MAX), one_entry);
    EXPECT_EQ(found_tokens(0, prompt_of({1})), kBlock) << "it is in use";
    EXPECT_EQ(figures().given_count, 2U);
    EXPECT_EQ(mbr_registry_destroy(registry, &world.error), MBR_IN_USE);
    mbr_registry_release(registry, used.entry);
}

TEST_F(Registry, Give_OfAnEntry_LeavesWhatAnotherHoldsToo)
{
    open();
    ASSERT_EQ(put(0, prompt_of({1, 2, 3})), MBR_OK);
    ASSERT_EQ(put(0, prompt_of({1, 2, 4})), MBR_OK);
    mbr_registry_match used = find(0, prompt_of({1, 2, 3}));
    EXPECT_EQ(used.tokens, 3 * kBlock);
    mbr_registry_give(registry, UINT64_MAX); // the newer one, which named blocks 1 and 2
    EXPECT_EQ(found_tokens(0, prompt_of({1, 2, 4})), 2 * kBlock);
    EXPECT_EQ(figures().block_count, 3U);
    mbr_registry_release(registry, used.entry);
}

// Its prefixes' holder is pressed for what a ticket wants, and passes the question on.
TEST_F(Registry, Ticket_PressesTheHolder_WhichGivesColdPrefixesAndKeepsWhatIsUsed)
{
    open();
    auto holder = world.holder_request(MBR_ROLE_PREFIX, "prefixes");
    holder.pressed.context = &registry;
    holder.pressed.ask = [](void *context, const mbr_pressure *pressure) {
        return mbr_registry_could_give(*static_cast<mbr_registry **>(context), pressure->bytes);
    };
    holder.pressed.give = [](void *context, const mbr_pressure *, uint64_t bytes) {
        mbr_registry_give(*static_cast<mbr_registry **>(context), bytes);
    };
    mbr_holder_handle cold;
    ASSERT_EQ(mbr_manager_create_holder(world.manager, &holder, &cold, &world.error), MBR_OK);
    auto cache = sized<mbr_kv_request>();
    cache.binding = world.binding;
    cache.holder = world.holder;
    cache.prefix_holder = cold;
    cache.geometry = world.shape.geometry.c_str();
    cache.layout = "token-major";
    cache.max_tokens = kTokensMax;
    cache.extent_bytes = 4096;
    mbr_kv *kv;
    ASSERT_EQ(mbr_kv_create(world.manager, &cache, &kv, &world.error), MBR_OK);
    for (uint32_t i = 1; i <= 4; i++) {
        auto request = sized<mbr_sequence_request>();
        request.tokens = kBlock;
        mbr_sequence *source;
        mbr_kv_prefix *made;
        ASSERT_EQ(mbr_sequence_create(kv, &request, &source, &world.error), MBR_OK);
        ASSERT_EQ(mbr_kv_prefix_create(source, kBlock, &made, &world.error), MBR_OK);
        ASSERT_EQ(mbr_sequence_destroy(source, nullptr, 0, &world.error), MBR_OK);
        Prompt prompt = prompt_of({i});
        ASSERT_EQ(mbr_registry_put(registry, 0, prompt.data(), kBlock, made, nullptr), MBR_OK);
    }
    world.settle();
    uint64_t one_entry = kBlock * 4096, freed = 0;
    ASSERT_EQ(world.paid(cold).charged_bytes, 4 * one_entry);
    mbr_registry_match used = find(0, prompt_of({2}));
    ASSERT_EQ(mbr_manager_trim(world.manager, world.mechanism, 0, &freed, &world.error), MBR_OK);
    ASSERT_EQ(
        mbr_manager_set_limit(world.manager, world.authority, 4 * one_entry, nullptr, &world.error),
        MBR_OK);
    auto wish = sized<mbr_ticket_request>();
    wish.holder = world.holder;
    wish.timeout_ns = MBR_NO_DEADLINE;
    mbr_ticket_handle ticket;
    for (uint64_t entries : {4, 2}) { // one is used
        wish.bytes = entries * one_entry;
        ASSERT_EQ(mbr_manager_submit_ticket(world.manager, &wish, &ticket, nullptr, &world.error),
            MBR_OK);
        world.settle();
        EXPECT_EQ(mbr_manager_claim_ticket(world.manager, ticket, &world.error),
            entries == 4 ? MBR_NOT_READY : MBR_OK);
        EXPECT_EQ(figures().entry_count, entries == 4 ? 4U : 2U) << "all that suffice, or none";
        EXPECT_EQ(mbr_manager_end_ticket(world.manager, ticket, &world.error), MBR_OK);
    }
    EXPECT_EQ(mbr_manager_return_aside(world.manager, world.holder, &freed, &world.error), MBR_OK);
    EXPECT_EQ(freed, 2 * one_entry);
    EXPECT_EQ(found_tokens(0, prompt_of({1})), 0U) << "the least recently used";
    EXPECT_EQ(found_tokens(0, prompt_of({3})), 0U);
    EXPECT_EQ(found_tokens(0, prompt_of({2})), kBlock);
    EXPECT_EQ(found_tokens(0, prompt_of({4})), kBlock);
    mbr_registry_release(registry, used.entry);
    ASSERT_EQ(mbr_registry_destroy(registry, &world.error), MBR_OK);
    registry = nullptr;
    world.settle();
    EXPECT_EQ(mbr_kv_destroy(kv, &world.error), MBR_OK) << world.error.text;
    EXPECT_EQ(mbr_manager_destroy_holder(world.manager, cold, &world.error), MBR_OK);
}

TEST_F(Registry, Release_OfAnEntryThatNewerOnesHold_GivesItUp)
{
    open();
    ASSERT_EQ(put(0, prompt_of({1})), MBR_OK);
    mbr_registry_match used = find(0, prompt_of({1}));
    ASSERT_EQ(put(0, prompt_of({1, 2})), MBR_OK);
    EXPECT_EQ(figures().entry_count, 2U);
    mbr_registry_release(registry, used.entry);
    EXPECT_EQ(figures().entry_count, 1U);
}

TEST_F(Registry, Put_WithoutMemory_ChangesNothing)
{
    open(poor_hash);
    ASSERT_EQ(put(0, prompt_of({1, 2})), MBR_OK);
    mbr_registry_figures before = figures();
    Prompt longer = prompt_of({1, 2, 3, 4});
    mbr_kv_prefix *made = prefix(0, longer);
    int64_t allowed = 0;
    for (;; allowed++) {
        heap.left = allowed;
        mbr_status status =
            mbr_registry_put(registry, 0, longer.data(), longer.size(), made, &world.error);
        heap.left = INT64_MAX;
        if (status == MBR_OK)
            break;
        ASSERT_EQ(status, MBR_OUT_OF_HOST_MEMORY);
        mbr_registry_figures after = figures();
        EXPECT_EQ(after.block_count, before.block_count);
        EXPECT_EQ(after.entry_count, before.entry_count);
        EXPECT_EQ(found_tokens(0, longer), 2 * kBlock);
    }
    EXPECT_EQ(allowed, 3) << "an entry and two blocks";
    EXPECT_EQ(found_tokens(0, longer), 4 * kBlock);
}

TEST_F(Registry, Create_WithBlocksThatAreTooLong_IsRefused)
{
    mbr_registry_request request = sized<mbr_registry_request>();
    request.block_tokens = 65537;
    mbr_registry *none;
    EXPECT_EQ(mbr_registry_create(&request, &none, &world.error), MBR_OUT_OF_RANGE);
    EXPECT_EQ(none, nullptr);
    ASSERT_EQ(mbr_registry_create(nullptr, &none, &world.error), MBR_OK);
    mbr_registry_figures figures = sized<mbr_registry_figures>();
    mbr_registry_read(none, &figures);
    EXPECT_EQ(figures.block_tokens, 512U);
    EXPECT_EQ(mbr_registry_destroy(none, &world.error), MBR_OK);
}

// ---- Against a second opinion

class RegistryRandom : public Registry, public ::testing::WithParamInterface<bool>
{
  protected:
    // What is there, by comparing everything with everything.
    std::vector<std::pair<uint64_t, Prompt>> kept;
    std::mt19937_64 random{20261130};

    uint64_t draw(uint64_t below) { return random() % below; }

    Prompt draw_prompt()
    {
        Prompt prompt;
        uint64_t blocks = 1 + draw(6);
        for (uint64_t i = 0; i < blocks; i++) {
            uint32_t kind = static_cast<uint32_t>(draw(3));
            for (uint32_t j = 0; j < kBlock; j++)
                prompt.push_back(kind + j);
        }
        if (draw(4) == 0) // one changed token
            prompt[draw(prompt.size())] += 1;
        return prompt;
    }

    uint64_t best(uint64_t salt, const Prompt &prompt)
    {
        uint64_t most = 0;
        for (const auto &[of, held] : kept) {
            uint64_t blocks = 0;
            uint64_t common = std::min(prompt.size(), held.size()) / kBlock;
            while (of == salt && blocks < common &&
                std::equal(prompt.begin() + static_cast<long>(blocks * kBlock),
                    prompt.begin() + static_cast<long>((blocks + 1) * kBlock),
                    held.begin() + static_cast<long>(blocks * kBlock)))
                blocks++;
            most = std::max(most, blocks * kBlock);
        }
        return most;
    }
};

TEST_P(RegistryRandom, FindAndPut_AgreeWithComparingEverything)
{
    open(GetParam() ? poor_hash : nullptr);
    uint64_t found = 0, read = 0;
    for (int step = 0; step < 3000; step++) {
        uint64_t salt = draw(2);
        Prompt prompt = draw_prompt();
        uint64_t expected = best(salt, prompt);
        mbr_registry_match match = find(salt, prompt);
        ASSERT_EQ(match.tokens, expected) << "step " << step;
        if (match.entry != nullptr && step % 8 == 0) {
            ASSERT_NO_FATAL_FAILURE(expect_own_bytes(salt, prompt, match));
            read++;
        }
        mbr_registry_release(registry, match.entry);
        found += expected;
        if (draw(3) != 0 || kept.size() > 200)
            continue;
        mbr_status status = put(salt, prompt);
        bool is_held = expected == prompt.size();
        ASSERT_EQ(status, is_held ? MBR_ALREADY_EXISTS : MBR_OK) << "step " << step;
        if (!is_held)
            kept.emplace_back(salt, prompt);
    }
    EXPECT_GT(found, 0U);
    EXPECT_GT(read, 100U);
    EXPECT_EQ(figures().collision_count > 0, GetParam());
}

// Bytes are taken from it while entries are used: what is used is found whole, and the rest of the
// tree is no larger than what is left.
TEST_P(RegistryRandom, Give_WhileEntriesAreUsed_KeepsWhatIsUsed)
{
    open(GetParam() ? poor_hash : nullptr);
    std::vector<std::pair<mbr_registry_match, std::pair<uint64_t, Prompt>>> used;
    for (int step = 0; step < 1500; step++) {
        uint64_t salt = draw(2);
        Prompt prompt = draw_prompt();
        switch (draw(5)) {
        case 0:
        case 1:
            put(salt, prompt);
            break;
        case 2: {
            mbr_registry_match match = find(salt, prompt);
            if (match.entry != nullptr)
                used.push_back({match, {salt, prompt}});
            break;
        }
        case 3:
            if (!used.empty()) {
                std::swap(used[draw(used.size())], used.back());
                mbr_registry_release(registry, used.back().first.entry);
                used.pop_back();
            }
            break;
        default:
            mbr_registry_give(registry, 4096 * draw(64));
        }
        for (const auto &[match, asked] : used)
            ASSERT_GE(found_tokens(asked.first, asked.second), match.tokens) << "step " << step;
        mbr_registry_figures now = figures();
        ASSERT_LE(now.used_count, now.entry_count);
        ASSERT_EQ(now.entry_count == 0, now.block_count == 0) << "step " << step;
    }
    for (const auto &[match, asked] : used)
        mbr_registry_release(registry, match.entry);
    mbr_registry_give(registry, UINT64_MAX);
    EXPECT_EQ(figures().block_count, 0U);
}

INSTANTIATE_TEST_SUITE_P(Hashes, RegistryRandom, ::testing::Bool(),
    [](const auto &tested) { return tested.param ? "collide" : "xxh3"; });

} // namespace
} // namespace membrane
