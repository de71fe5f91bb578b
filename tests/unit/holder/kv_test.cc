// KV caches over the real host plugin: growth, figures, sharing, windows, refusals.
#include "tests/unit/holder/kv_world.h"

#include <algorithm>
#include <array>

namespace membrane
{

namespace
{

// Two layers of the rows of known models, small enough to be looked at byte by byte.
constexpr char kPlain[] = "layers=2,heads=2,dim=64,bytes=2,planes=2";
constexpr char kPhi4[] = "layers=2,heads=10,dim=128,bytes=2,planes=2";    // rows of 2560 B
constexpr char kPhi3Mini[] = "layers=1,heads=32,dim=96,bytes=2,planes=2"; // rows of 6144 B
constexpr char kLatent[] = "layers=3,heads=1,dim=576,bytes=2,planes=1";   // rows of 1152 B
constexpr char kSliding[] = "layers=3,heads=1,dim=64,bytes=2,planes=2,window=48+"
                            "layers=1,heads=1,dim=64,bytes=2,planes=2";

const char *const kLayouts[] = {"head-major", "seq-major", "token-major", "window-major"};

std::vector<Shape> all_shapes()
{
    std::vector<Shape> shapes;
    for (const char *layout : kLayouts) {
        bool windowed = std::string(layout) == "window-major";
        for (const char *geometry : {kPlain, kPhi4, kPhi3Mini, kLatent, kSliding})
            shapes.push_back({geometry, layout, 400, 0, windowed ? 0u : 4096u});
    }
    shapes.push_back({kPlain, "token-major", 333, 0, 3 * 4096});
    shapes.push_back({kPhi4, "window-major", 300, 5, 0});
    return shapes;
}

/* Shared and private parts do not overlap, and the shared ones are as large as is said. */
void expect_parts_apart(const Tracked &one, uint64_t shared)
{
    std::vector<std::pair<uint64_t, uint64_t>> parts;
    uint64_t bytes = 1, start, seen = 0;
    for (uint64_t cursor = 0; bytes != 0; seen += bytes) {
        ASSERT_EQ(MBR_OK, mbr_sequence_next_shared(one.sequence, &cursor, &start, &bytes, nullptr));
        parts.push_back({start, start + bytes});
    }
    EXPECT_EQ(shared, seen);
    bytes = 1;
    for (uint64_t cursor = 0; bytes != 0;) {
        ASSERT_EQ(
            MBR_OK, mbr_sequence_next_private(one.sequence, &cursor, &start, &bytes, nullptr));
        parts.push_back({start, start + bytes});
    }
    std::sort(parts.begin(), parts.end());
    for (size_t i = 1; i < parts.size(); i++)
        ASSERT_LE(parts[i - 1].second, parts[i].first);
}

class KvShapes : public ::testing::TestWithParam<Shape>
{
};

std::string name_of(const ::testing::TestParamInfo<Shape> &info)
{
    std::string name = info.param.layout + std::to_string(info.index);
    for (char &letter : name)
        letter = letter == '-' ? '_' : letter;
    return name;
}

TEST_P(KvShapes, Append_TokenByToken_CommitsExactlyTheArithmeticAndNeverMoves)
{
    KvWorld world(GetParam());
    Tracked one;
    ASSERT_EQ(MBR_OK, world.create(&one, 3)) << world.error.text;
    auto strides = sized<mbr_kv_strides>();
    ASSERT_EQ(MBR_OK, mbr_sequence_strides(one.sequence, 0, &strides, &world.error));
    uint64_t address = strides.address;
    uint64_t largest = 0;
    for (const mbr_extents &group : world.extents)
        largest =
            std::max(largest, mbr_extent_rule_size_at(&group.rule, group.reservation_bytes - 1));
    EXPECT_EQ(largest, world.read().largest_extent_bytes);
    while (one.ids.size() < GetParam().max_tokens) {
        uint64_t step =
            std::min<uint64_t>(1 + one.ids.size() % 7, GetParam().max_tokens - one.ids.size());
        ASSERT_EQ(MBR_OK, world.append(&one, step)) << world.error.text;
        auto figures = world.read(one);
        ASSERT_EQ(one.ids.size(), figures.tokens);
        ASSERT_LE(figures.tokens, figures.capacity_tokens);
        ASSERT_EQ(world.committed_by_arithmetic(one), figures.committed_bytes)
            << one.ids.size() << " tokens";
        uint64_t need;
        ASSERT_EQ(MBR_OK, mbr_kv_need_bytes(world.kv, one.ids.size(), &need, nullptr));
        ASSERT_LE(figures.committed_bytes, need);
        if (GetParam().geometry != kSliding) {
            ASSERT_EQ(figures.committed_bytes, need) << one.ids.size() << " tokens";
        }
    }
    ASSERT_EQ(MBR_OK, mbr_sequence_strides(one.sequence, 0, &strides, &world.error));
    EXPECT_EQ(address, strides.address);
    EXPECT_TRUE(world.holds(one));
    world.settle();
    EXPECT_EQ(world.read(one).committed_bytes, world.paid(world.holder).charged_bytes);
    EXPECT_EQ(MBR_OUT_OF_RANGE, world.append(&one, 1));
    uint64_t past = 1;
    EXPECT_EQ(MBR_OUT_OF_RANGE,
        mbr_kv_need_bytes(world.kv, GetParam().max_tokens + 1, &past, &world.error));
    EXPECT_EQ(0u, past);
    EXPECT_EQ(MBR_OUT_OF_RANGE, mbr_sequence_append(one.sequence, UINT64_MAX, nullptr, nullptr));
    EXPECT_EQ(GetParam().max_tokens, world.read(one).tokens);
    ASSERT_EQ(MBR_OK, world.destroy(&one));
}

TEST_P(KvShapes, Append_UpToTheCapacity_CommitsNothing)
{
    KvWorld world(GetParam());
    Tracked one;
    ASSERT_EQ(MBR_OK, world.create(&one, 10));
    auto before = world.read(one);
    uint64_t calls = world.figures().call_count;
    if (before.capacity_tokens > 10 && before.capacity_tokens < 48) {
        ASSERT_EQ(MBR_OK, world.append(&one, before.capacity_tokens - 10));
        EXPECT_EQ(before.committed_bytes, world.read(one).committed_bytes);
        EXPECT_EQ(calls, world.figures().call_count - 1) << "only this reading called a slot";
    }
    if (before.capacity_tokens < GetParam().max_tokens && GetParam().geometry != kSliding) {
        uint64_t more = before.capacity_tokens + 1 - one.ids.size();
        ASSERT_EQ(MBR_OK, world.append(&one, more));
        EXPECT_LT(before.committed_bytes, world.read(one).committed_bytes);
    }
    ASSERT_EQ(MBR_OK, world.destroy(&one));
}

TEST_P(KvShapes, Share_AllOfIt_SharersReadTheSameBytesPaidOnce)
{
    KvWorld world(GetParam());
    const uint64_t tokens = 210;
    Tracked source, first, second;
    TrackedPrefix prefix;
    ASSERT_EQ(MBR_OK, world.create(&source, tokens));
    ASSERT_EQ(MBR_OK, world.append(&source, 1));
    mbr_status status = world.share(&source, tokens, &prefix);
    if (world.shared_by_arithmetic(tokens) == 0) {
        EXPECT_EQ(MBR_INVALID_ARGUMENT, status);
        EXPECT_NE(nullptr, std::strstr(world.error.text, "would work")) << world.error.text;
        ASSERT_EQ(MBR_OK, world.destroy(&source));
        return;
    }
    ASSERT_EQ(MBR_OK, status) << world.error.text;
    uint64_t shared = world.shared_by_arithmetic(tokens);
    EXPECT_EQ(shared, world.read(prefix).shared_bytes);
    EXPECT_EQ(shared, world.read().shared_bytes);
    EXPECT_EQ(shared, world.read(source).shared_bytes);
    world.settle();
    EXPECT_EQ(shared, world.paid(world.prefix_holder).charged_bytes);
    EXPECT_EQ(world.read(source).committed_bytes, world.paid(world.holder).charged_bytes);

    ASSERT_EQ(MBR_OK, world.create(&first, tokens, &prefix, tokens, 1)) << world.error.text;
    ASSERT_EQ(MBR_OK, world.create(&second, tokens + 30, &prefix, tokens, 2)) << world.error.text;
    EXPECT_EQ(tokens, world.read(first).valid_tokens) << "the rest was copied from the source";
    EXPECT_EQ(shared, world.read(first).shared_bytes);
    expect_parts_apart(first, shared);
    EXPECT_EQ(world.committed_by_arithmetic(first) - shared, world.read(first).committed_bytes);
    EXPECT_EQ(shared, world.read().shared_bytes) << "once";
    EXPECT_EQ(3u, world.read(prefix).sharer_count);
    EXPECT_EQ(0u, world.read(prefix).exclusive_bytes);
    EXPECT_TRUE(world.holds(source) && world.holds(first) && world.holds(second));
    world.end(&prefix);
    EXPECT_EQ(world.physical_live_bytes({&source, &first, &second}), world.read().live_bytes);

    /* The owner leaves first, and the memory lives on for the others. */
    ASSERT_EQ(MBR_OK, world.destroy(&source));
    ASSERT_EQ(MBR_OK, world.append(&first, 25));
    world.settle();
    EXPECT_TRUE(world.clean());
    EXPECT_TRUE(world.holds(first) && world.holds(second));
    EXPECT_EQ(world.physical_live_bytes({&first, &second}), world.read().live_bytes);
    auto figures = world.read();
    EXPECT_EQ(figures.committed_bytes + figures.shared_bytes,
        world.paid(world.holder).charged_bytes + world.paid(world.prefix_holder).charged_bytes);
    ASSERT_EQ(MBR_OK, world.destroy(&first));
    EXPECT_TRUE(world.holds(second));
    ASSERT_EQ(MBR_OK, world.destroy(&second));
}

TEST_P(KvShapes, Share_PartOfIt_SharesByWholeExtentsAndCopiesTheRest)
{
    KvWorld world(GetParam());
    Tracked source, other;
    TrackedPrefix prefix;
    ASSERT_EQ(MBR_OK, world.create(&source, 210));
    if (world.share(&source, 210, &prefix) == MBR_OK) {
        for (uint64_t tokens : {1, 16, 47, 100, 209}) {
            ASSERT_EQ(MBR_OK, world.create(&other, 220, &prefix, tokens)) << world.error.text;
            auto figures = world.read(other);
            EXPECT_EQ(tokens, figures.valid_tokens);
            EXPECT_LE(figures.shared_tokens, tokens);
            EXPECT_EQ(world.committed_by_arithmetic(other),
                figures.committed_bytes + figures.shared_bytes);
            EXPECT_TRUE(world.holds(other)) << tokens;
            ASSERT_EQ(MBR_OK, world.append(&other, 40));
            EXPECT_TRUE(world.holds(other) && world.holds(source)) << tokens;
            ASSERT_EQ(MBR_OK, world.destroy(&other));
            world.settle();
            EXPECT_TRUE(world.clean());
        }
        world.end(&prefix);
    }
    ASSERT_EQ(MBR_OK, world.destroy(&source));
}

TEST_P(KvShapes, Share_AfterTheSourceEnded_SaysWhatIsValidAndTheRestIsTheCallers)
{
    KvWorld world(GetParam());
    Tracked source, other;
    TrackedPrefix prefix;
    ASSERT_EQ(MBR_OK, world.create(&source, 210));
    if (world.share(&source, 210, &prefix) == MBR_OK) {
        uint64_t copied = world.read().copied_bytes;
        ASSERT_EQ(MBR_OK, world.destroy(&source));
        world.settle();
        EXPECT_EQ(world.read(prefix).shared_bytes, world.read(prefix).exclusive_bytes);
        ASSERT_EQ(MBR_OK, world.create(&other, 230, &prefix, 210)) << world.error.text;
        EXPECT_EQ(copied, world.read().copied_bytes);
        auto figures = world.read(other);
        EXPECT_LE(figures.valid_tokens, figures.shared_tokens);
        EXPECT_TRUE(world.holds(other));
        world.end(&prefix);
        EXPECT_TRUE(world.holds(other));
        ASSERT_EQ(MBR_OK, world.destroy(&other));
    } else {
        ASSERT_EQ(MBR_OK, world.destroy(&source));
    }
}

INSTANTIATE_TEST_SUITE_P(All, KvShapes, ::testing::ValuesIn(all_shapes()), name_of);

/* ---- Chains of prefixes ---------------------------------------------------------------------- */

TEST(Kv, Chain_EachTurnSharesTheLast_EveryExtentIsCountedOnce)
{
    KvWorld world({kPlain, "window-major", 800});
    std::vector<Tracked> turns(4);
    std::vector<TrackedPrefix> prefixes(4);
    uint64_t tokens = 150, before = 0;
    for (size_t i = 0; i < turns.size(); i++, tokens += 150) {
        const TrackedPrefix *last = i == 0 ? nullptr : &prefixes[i - 1];
        ASSERT_EQ(MBR_OK, world.create(&turns[i], tokens, last, i == 0 ? 0 : tokens - 150));
        ASSERT_EQ(MBR_OK, world.share(&turns[i], tokens, &prefixes[i])) << world.error.text;
        EXPECT_LT(before, world.read().shared_bytes);
        before = world.read().shared_bytes;
        EXPECT_EQ(world.shared_by_arithmetic(tokens), before) << "the longest holds all others";
    }
    for (const Tracked &turn : turns)
        EXPECT_TRUE(world.holds(turn));
    world.settle();
    EXPECT_EQ(before, world.paid(world.prefix_holder).charged_bytes);
    for (TrackedPrefix &prefix : prefixes)
        world.end(&prefix);
    EXPECT_EQ(world.physical_live_bytes({&turns[0], &turns[1], &turns[2], &turns[3]}),
        world.read().live_bytes);
    for (Tracked &turn : turns)
        ASSERT_EQ(MBR_OK, world.destroy(&turn));
}

/* ---- Windows --------------------------------------------------------------------------------- */

TEST(Kv, SlidingWindow_Slides_GivesWholeExtentsBack)
{
    for (const char *layout : kLayouts) {
        bool windowed = std::string(layout) == "window-major";
        KvWorld world({kSliding, layout, 2000, windowed ? 16u : 0, windowed ? 0 : UINT64_C(4096)});
        Tracked one;
        ASSERT_EQ(MBR_OK, world.create(&one, 1));
        while (one.ids.size() < 1900)
            ASSERT_EQ(MBR_OK, world.append(&one, 1)) << world.error.text;
        world.settle();
        EXPECT_EQ(world.committed_by_arithmetic(one), world.read(one).committed_bytes);
        EXPECT_EQ(world.read(one).committed_bytes, world.paid(world.holder).charged_bytes);
        uint64_t full = mbr_commit_bytes(&world.extents[0], {0, one.ids.size()});
        uint64_t held =
            mbr_commit_bytes(&world.extents[0], mbr_commit_live(&world.extents[0], one.ids.size()));
        EXPECT_LT(held, full / 2) << layout;
        EXPECT_TRUE(world.holds(one));
        uint64_t live = 48 * mbr_layer_group_token_bytes(&world.geometry.groups[0]) +
            one.ids.size() * mbr_layer_group_token_bytes(&world.geometry.groups[1]);
        EXPECT_EQ(live, world.read().live_bytes);
        ASSERT_EQ(MBR_OK, world.destroy(&one));
    }
}

TEST(Kv, SlidingWindow_PassesThePrefix_GivesTheSharedExtentsBackAndKeepsTheOthers)
{
    KvWorld world({kSliding, "window-major", 2000, 16});
    Tracked source, other;
    TrackedPrefix prefix;
    ASSERT_EQ(MBR_OK, world.create(&source, 300));
    ASSERT_EQ(MBR_OK, world.share(&source, 300, &prefix)) << world.error.text;
    ASSERT_EQ(MBR_OK, world.create(&other, 300, &prefix, 300)) << world.error.text;
    uint64_t shared = world.read(other).shared_bytes;
    for (int i = 0; i < 200; i++)
        ASSERT_EQ(MBR_OK, world.append(&other, 3)) << world.error.text;
    EXPECT_LT(world.read(other).shared_bytes, shared);
    EXPECT_EQ(shared, world.read(source).shared_bytes);
    world.settle();
    EXPECT_TRUE(world.clean());
    EXPECT_TRUE(world.holds(source) && world.holds(other));
    world.end(&prefix);
    EXPECT_EQ(world.physical_live_bytes({&source, &other}), world.read().live_bytes);
    ASSERT_EQ(MBR_OK, world.destroy(&source));
    auto figures = world.read();
    world.settle();
    EXPECT_EQ(figures.committed_bytes + figures.shared_bytes,
        world.paid(world.holder).charged_bytes + world.paid(world.prefix_holder).charged_bytes);
    ASSERT_EQ(MBR_OK, world.destroy(&other));
}

TEST(Kv, SlidingWindow_LeftThePrefixBehind_IsRefusedWithWhatWouldWork)
{
    KvWorld world({kSliding, "window-major", 2000, 16});
    Tracked source;
    TrackedPrefix prefix;
    ASSERT_EQ(MBR_OK, world.create(&source, 10));
    for (int i = 0; i < 400; i++)
        ASSERT_EQ(MBR_OK, world.append(&source, 1));
    EXPECT_EQ(MBR_INVALID_ARGUMENT, world.share(&source, 100, &prefix));
    EXPECT_NE(nullptr, std::strstr(world.error.text, "one of 410 tokens would work"))
        << world.error.text;
    ASSERT_EQ(MBR_OK, world.share(&source, 410, &prefix)) << world.error.text;
    world.end(&prefix);
    ASSERT_EQ(MBR_OK, world.destroy(&source));
}

/* ---- Budget ---------------------------------------------------------------------------------- */

TEST(Kv, Budget_RefusesACreate_EveryFigureIsAsBeforeAndItWorksAfterARelease)
{
    KvWorld world({kPlain, "seq-major", 400, 0, 4096}, 300 * 1024);
    Tracked first, second, sharer;
    TrackedPrefix prefix;
    ASSERT_EQ(MBR_OK, world.create(&first, 200)) << world.error.text;
    ASSERT_EQ(MBR_OK, world.share(&first, 200, &prefix)) << world.error.text;
    world.settle();
    auto before = world.read();
    auto books = world.books();
    auto mechanism = world.figures();
    auto refusal = sized<mbr_refusal>();
    EXPECT_EQ(MBR_OVER_BUDGET, world.create(&second, 250, nullptr, 0, 0, &refusal));
    EXPECT_EQ(uint32_t{MBR_REFUSED_LIMIT}, refusal.reason);
    EXPECT_EQ(nullptr, std::strchr(world.error.text, '\n'));
    EXPECT_EQ(MBR_OVER_BUDGET, world.create(&sharer, 400, &prefix, 200));
    auto after = world.read();
    EXPECT_EQ(0, std::memcmp(&before, &after, sizeof(before)));
    auto books_after = world.books();
    EXPECT_EQ(books.charged_bytes, books_after.charged_bytes);
    EXPECT_EQ(books.claimed_bytes, books_after.claimed_bytes);
    EXPECT_EQ(books.mapped_bytes, books_after.mapped_bytes);
    EXPECT_EQ(mechanism.mapped_bytes, world.figures().mapped_bytes);
    EXPECT_EQ(mechanism.owned_bytes, world.figures().owned_bytes);
    EXPECT_TRUE(world.clean());
    world.end(&prefix);
    ASSERT_EQ(MBR_OK, world.destroy(&first));
    EXPECT_EQ(MBR_OVER_BUDGET, world.create(&second, 400, nullptr, 0, 0, &refusal))
        << "above the limit, whatever is released";
    world.await(world.native);
    EXPECT_EQ(MBR_OK, world.create(&second, 250)) << "completed releases are reaped first";
    ASSERT_EQ(MBR_OK, world.destroy(&second));
}

TEST(Kv, Budget_RefusesAnAppend_TheOldLengthHolds)
{
    KvWorld world({kPhi4, "head-major", 400, 0, 4096}, 640 * 1024);
    Tracked one;
    ASSERT_EQ(MBR_OK, world.create(&one, 30)) << world.error.text;
    auto before = world.read(one);
    auto refusal = sized<mbr_refusal>();
    EXPECT_EQ(MBR_OVER_BUDGET, world.append(&one, 300, &refusal));
    auto after = world.read(one);
    EXPECT_EQ(0, std::memcmp(&before, &after, sizeof(before)));
    EXPECT_TRUE(world.holds(one));
    EXPECT_TRUE(world.clean());
    ASSERT_EQ(MBR_OK,
        mbr_manager_set_limit(world.manager, world.authority, 64 * kMiB, nullptr, &world.error));
    EXPECT_EQ(MBR_OK, world.append(&one, 300)) << world.error.text;
    EXPECT_TRUE(world.holds(one));
    ASSERT_EQ(MBR_OK, world.destroy(&one));
}

TEST(Kv, Budget_BelowOneGranule_IsRefusedInOneLine)
{
    KvWorld world({kPlain, "window-major", 400}, 4095);
    Tracked one;
    auto refusal = sized<mbr_refusal>();
    EXPECT_EQ(MBR_OVER_BUDGET, world.create(&one, 1, nullptr, 0, 0, &refusal));
    EXPECT_EQ(uint32_t{MBR_REFUSED_CAPACITY}, refusal.reason);
    EXPECT_EQ(nullptr, std::strchr(world.error.text, '\n'));
    EXPECT_EQ(MBR_OK, world.create(&one, 0)) << "no tokens cost nothing";
    EXPECT_EQ(0u, world.read(one).committed_bytes);
    EXPECT_LT(0u, world.read().reserved_bytes);
    ASSERT_EQ(MBR_OK, world.destroy(&one));
}

/* ---- Bad input ------------------------------------------------------------------------------- */

TEST(Kv, Create_BadInput_IsRefusedInOneLineThatNamesIt)
{
    HostWorld world(64 * kMiB, nullptr, nullptr, plugin_under_test().page_granule);
    struct Row {
        const char *geometry, *layout;
        uint64_t max_tokens, window_tokens, extent_bytes, tensor_parallel;
        mbr_status status;
        const char *says;
    };
    const Row rows[] = {
        {"layers=2,heads=0,dim=64,bytes=2,planes=2", nullptr, 100, 0, 0, 0, MBR_INVALID_ARGUMENT,
            "heads"},
        {"layers=2,heads=2,dim=64,bytes=2", nullptr, 100, 0, 0, 0, MBR_INVALID_ARGUMENT, "planes"},
        {"layers=2,heads=2,dim=64,bytes=2,planes=3", nullptr, 100, 0, 0, 0, MBR_INVALID_ARGUMENT,
            "planes"},
        {"lama-3-8b", nullptr, 100, 0, 0, 0, MBR_INVALID_ARGUMENT, "llama-3-8b"},
        {nullptr, nullptr, 100, 0, 0, 0, MBR_INVALID_ARGUMENT, "geometry"},
        {kPlain, "token-mayor", 100, 0, 0, 0, MBR_INVALID_ARGUMENT, "token-major"},
        {kPlain, nullptr, 0, 0, 0, 0, MBR_INVALID_ARGUMENT, "max-tokens"},
        {kPlain, nullptr, UINT64_MAX, 0, 0, 0, MBR_OVERFLOW, "max-tokens"},
        {kPlain, "head-major", UINT64_C(1) << 60, 0, 0, 0, MBR_OVERFLOW, "max-tokens"},
        {kPlain, "token-major", UINT64_C(1) << 50, 0, 0, 0, MBR_INVALID_ARGUMENT, "addresses"},
        {kPlain, nullptr, 100, UINT64_MAX, 0, 0, MBR_OVERFLOW, "window"},
        {kPlain, "token-major", 100, 0, 100, 0, MBR_INVALID_ARGUMENT, "extent 100"},
        {kPlain, nullptr, 100, 0, 4096 * 5, 0, MBR_INVALID_ARGUMENT, "windows"},
        {kPlain, "token-major", 100, 0, UINT64_C(1) << 50, 0, MBR_INVALID_ARGUMENT, "largest"},
        {kPhi4, nullptr, 100, 0, 0, 3, MBR_INVALID_ARGUMENT, "3"},
    };
    for (const Row &row : rows) {
        auto request = sized<mbr_kv_request>();
        request.binding = world.binding;
        request.holder = world.holder;
        request.geometry = row.geometry;
        request.layout = row.layout;
        request.max_tokens = row.max_tokens;
        request.window_tokens = row.window_tokens;
        request.extent_bytes = row.extent_bytes;
        request.tensor_parallel = row.tensor_parallel;
        mbr_kv *kv = reinterpret_cast<mbr_kv *>(1);
        EXPECT_EQ(row.status, mbr_kv_create(world.manager, &request, &kv, &world.error))
            << row.says;
        EXPECT_EQ(nullptr, kv);
        EXPECT_NE(nullptr, std::strstr(world.error.text, row.says)) << world.error.text;
        EXPECT_EQ(nullptr, std::strchr(world.error.text, '\n'));
    }
}

TEST(Kv, Create_BadHandlesAndWords_AreRefused)
{
    HostWorld world;
    auto request = sized<mbr_kv_request>();
    request.binding = world.binding;
    request.holder = world.holder;
    request.geometry = kPlain;
    request.max_tokens = 100;
    mbr_kv *kv;
    request.struct_size = 8;
    EXPECT_EQ(MBR_INVALID_ARGUMENT, mbr_kv_create(world.manager, &request, &kv, &world.error));
    EXPECT_NE(nullptr, std::strstr(world.error.text, "struct_size"));
    request.struct_size = sizeof(request);
    request.mode = 3;
    EXPECT_EQ(MBR_INVALID_ARGUMENT, mbr_kv_create(world.manager, &request, &kv, &world.error));
    request.mode = MBR_KV_GROWING;
    request.binding.value = 77;
    EXPECT_EQ(MBR_UNKNOWN_OBJECT, mbr_kv_create(world.manager, &request, &kv, &world.error));
    request.binding = world.binding;
    request.holder.value = 77;
    EXPECT_EQ(MBR_UNKNOWN_OBJECT, mbr_kv_create(world.manager, &request, &kv, &world.error));
    request.holder = world.holder;
    request.prefix_holder.value = 77;
    EXPECT_EQ(MBR_UNKNOWN_OBJECT, mbr_kv_create(world.manager, &request, &kv, &world.error));
}

TEST(Kv, Sequence_BadInput_IsRefusedAndNothingIsLeft)
{
    KvWorld world({kPlain, "window-major", 400});
    Tracked source, other;
    TrackedPrefix prefix;
    ASSERT_EQ(MBR_OK, world.create(&source, 200));
    EXPECT_EQ(MBR_OUT_OF_RANGE, world.share(&source, 201, &prefix));
    ASSERT_EQ(MBR_OK, world.share(&source, 200, &prefix));
    EXPECT_EQ(MBR_OUT_OF_RANGE, world.create(&other, 401));
    EXPECT_EQ(MBR_INVALID_ARGUMENT, world.create(&other, 100, nullptr, 50));
    EXPECT_EQ(MBR_OUT_OF_RANGE, world.create(&other, 300, &prefix, 201));
    EXPECT_EQ(MBR_OUT_OF_RANGE, world.create(&other, 100, &prefix, 150));
    {
        KvWorld another({kPlain, "window-major", 400});
        EXPECT_EQ(MBR_INVALID_ARGUMENT, another.create(&other, 300, &prefix, 200));
    }
    uint64_t address;
    EXPECT_EQ(MBR_OK, mbr_sequence_locate(source.sequence, 0, 1, 1, 1, 199, &address, nullptr));
    for (auto [group, layer, plane, head, token] : {std::array<uint64_t, 5>{1, 0, 0, 0, 0},
             {0, 2, 0, 0, 0}, {0, 0, 2, 0, 0}, {0, 0, 0, 2, 0}, {0, 0, 0, 0, 200}}) {
        EXPECT_EQ(MBR_OUT_OF_RANGE,
            mbr_sequence_locate(source.sequence, static_cast<uint32_t>(group),
                static_cast<uint32_t>(layer), static_cast<uint32_t>(plane),
                static_cast<uint32_t>(head), token, &address, &world.error));
        EXPECT_EQ(0u, address);
    }
    auto strides = sized<mbr_kv_strides>();
    EXPECT_EQ(MBR_OUT_OF_RANGE, mbr_sequence_strides(source.sequence, 1, &strides, nullptr));
    mbr_stream_handle none = {0};
    EXPECT_EQ(MBR_INVALID_ARGUMENT, mbr_sequence_destroy(source.sequence, &none, 1, &world.error));
    EXPECT_EQ(MBR_OUT_OF_RANGE, mbr_sequence_destroy(source.sequence, &none, 60, &world.error));
    mbr_stream_handle unknown = {77};
    EXPECT_EQ(MBR_UNKNOWN_OBJECT, mbr_sequence_destroy(source.sequence, &unknown, 1, &world.error));
    EXPECT_TRUE(world.holds(source)) << "it lives on";
    EXPECT_EQ(MBR_IN_USE, mbr_kv_destroy(world.kv, &world.error));
    EXPECT_NE(nullptr, std::strstr(world.error.text, "1 sequences and 1 prefixes"));
    ASSERT_EQ(MBR_OK, world.append(&source, 5));
    world.end(&prefix);
    ASSERT_EQ(MBR_OK, world.destroy(&source));
}

TEST(Kv, Share_LayoutThatCannot_IsRefusedWithWhatWould)
{
    KvWorld world({kPlain, "head-major", 64, 0, 64 * 1024});
    Tracked source;
    TrackedPrefix prefix;
    ASSERT_EQ(MBR_OK, world.create(&source, 60));
    EXPECT_EQ(MBR_INVALID_ARGUMENT, world.share(&source, 60, &prefix));
    EXPECT_NE(nullptr, std::strstr(world.error.text, "no whole extent")) << world.error.text;
    EXPECT_NE(nullptr, std::strstr(world.error.text, "would work")) << world.error.text;
    EXPECT_EQ(MBR_INVALID_ARGUMENT, world.share(&source, 0, &prefix));
    EXPECT_EQ(nullptr, prefix.prefix);
    ASSERT_EQ(MBR_OK, world.destroy(&source));
}

/* ---- Strides --------------------------------------------------------------------------------- */

TEST(Kv, Strides_OfEveryElement_AreWhereLocateSays)
{
    for (const char *layout : kLayouts) {
        KvWorld world({kSliding, layout, 100});
        Tracked one;
        ASSERT_EQ(MBR_OK, world.create(&one, 100));
        for (uint32_t g = 0; g < 2; g++) {
            auto s = sized<mbr_kv_strides>();
            ASSERT_EQ(MBR_OK, mbr_sequence_strides(one.sequence, g, &s, nullptr));
            EXPECT_EQ(2u, s.element_bytes);
            for (uint32_t l = 0; l < world.geometry.groups[g].layers; l++)
                for (uint32_t p = 0; p < 2; p++)
                    for (uint64_t t = 0; t < 100; t += 9) {
                        uint64_t address;
                        ASSERT_EQ(MBR_OK,
                            mbr_sequence_locate(one.sequence, g, l, p, 0, t, &address, nullptr));
                        EXPECT_EQ(s.address + t / s.window_tokens * s.window_bytes +
                                t % s.window_tokens * s.token_bytes + l * s.layer_bytes +
                                p * s.plane_bytes,
                            address);
                    }
        }
        ASSERT_EQ(MBR_OK, world.destroy(&one));
    }
}

} // namespace

} // namespace membrane
