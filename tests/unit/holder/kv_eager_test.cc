// The eager ways of a cache, by the caller's choice alone: the maximum at once, or doubled by
// copying; on a mechanism that has nothing else, and on one that has.
#include "tests/unit/holder/kv_world.h"

namespace membrane
{

namespace
{

constexpr char kEager[] = "tests/support/libmembrane-eager.so";
constexpr char kUnevenGroups[] = "layers=2,heads=3,dim=24,bytes=2,planes=2,window=48+"
                                 "layers=1,heads=2,dim=64,bytes=2,planes=2";

const char *const kLayouts[] = {"head-major", "seq-major", "token-major", "window-major"};

class Eager : public ::testing::TestWithParam<const char *>
{
};

TEST_P(Eager, Whole_TakesTheMaximumAtOnceAndNeverMoves)
{
    KvWorld world(
        {kUnevenGroups, GetParam(), 300, 0, 0, MBR_KV_EAGER_WHOLE}, 64 * kMiB, nullptr, kEager, {});
    Tracked one;
    ASSERT_EQ(MBR_OK, world.create(&one, 10)) << world.error.text;
    auto before = world.read(one);
    EXPECT_EQ(300u, before.capacity_tokens);
    EXPECT_EQ(before.committed_bytes, world.paid(world.holder).charged_bytes);
    EXPECT_LE(world.read().max_sequence_bytes, before.committed_bytes);
    uint64_t need = 1;
    EXPECT_EQ(MBR_UNSUPPORTED, mbr_kv_need_bytes(world.kv, 10, &need, &world.error));
    EXPECT_EQ(0u, need);
    EXPECT_EQ(0u, world.read().reserved_bytes);
    uint64_t address, again;
    ASSERT_EQ(MBR_OK, mbr_sequence_locate(one.sequence, 1, 0, 1, 1, 9, &address, nullptr));
    for (uint64_t step : {1, 30, 200, 59})
        ASSERT_EQ(MBR_OK, world.append(&one, step)) << world.error.text;
    EXPECT_EQ(MBR_OUT_OF_RANGE, world.append(&one, 1));
    ASSERT_EQ(MBR_OK, mbr_sequence_locate(one.sequence, 1, 0, 1, 1, 9, &again, nullptr));
    EXPECT_EQ(address, again);
    EXPECT_EQ(before.committed_bytes, world.read(one).committed_bytes);
    EXPECT_EQ(0u, world.read().copied_bytes);
    EXPECT_TRUE(world.holds(one));
    ASSERT_EQ(MBR_OK, world.destroy(&one));
}

TEST_P(Eager, Copy_GrowsTokenByToken_DoublesAndKeepsEveryByte)
{
    for (const char *plugin : {kEager, (const char *)nullptr}) {
        KvWorld world({kUnevenGroups, GetParam(), 300, 0, 0, MBR_KV_EAGER_COPY}, 64 * kMiB, nullptr,
            plugin, {});
        Tracked one;
        ASSERT_EQ(MBR_OK, world.create(&one, 10)) << world.error.text;
        uint64_t growths = 0, copied = 0;
        while (one.ids.size() < 300) {
            auto before = world.read(one);
            ASSERT_EQ(MBR_OK, world.append(&one, 1)) << world.error.text;
            auto after = world.read(one);
            if (after.capacity_tokens == before.capacity_tokens)
                continue;
            growths++;
            EXPECT_EQ(std::min<uint64_t>(300, 2 * before.capacity_tokens), after.capacity_tokens);
            EXPECT_LT(copied, world.read().copied_bytes);
            copied = world.read().copied_bytes;
            EXPECT_TRUE(world.holds(one)) << one.ids.size();
        }
        EXPECT_EQ(5u, growths) << "10, 20, 40, 80, 160, 300";
        EXPECT_TRUE(world.holds(one));
        world.settle();
        EXPECT_EQ(world.read(one).committed_bytes, world.paid(world.holder).charged_bytes);
        ASSERT_EQ(MBR_OK, world.destroy(&one));
    }
}

INSTANTIATE_TEST_SUITE_P(All, Eager, ::testing::ValuesIn(kLayouts),
    [](const ::testing::TestParamInfo<const char *> &info) {
        std::string name = info.param;
        name[name.find('-')] = '_';
        return name;
    });

TEST(EagerKv, Copy_WhileTheStreamIsBusy_OldAndNewAreBothCharged)
{
    KvWorld world({kUnevenGroups, "token-major", 300, 0, 0, MBR_KV_EAGER_COPY}, 64 * kMiB, nullptr,
        kEager, {});
    Tracked one;
    ASSERT_EQ(MBR_OK, world.create(&one, 100)) << world.error.text;
    uint64_t old = world.read(one).committed_bytes;
    {
        Gate gate(world, world.native);
        ASSERT_EQ(MBR_OK, mbr_sequence_append(one.sequence, 1, nullptr, &world.error));
        EXPECT_EQ(old + world.read(one).committed_bytes, world.paid(world.holder).charged_bytes);
    }
    world.settle();
    EXPECT_EQ(world.read(one).committed_bytes, world.paid(world.holder).charged_bytes);
    one.ids.push_back(0); /* never written */
    ASSERT_EQ(MBR_OK, world.destroy(&one));
}

// Rows that were copied in a capture would be copied again at each launch, from memory that is
// freed.
TEST(EagerKv, Copy_WhileTheStreamIsCaptured_IsRefusedBeforeItTakesMemory)
{
    KvWorld world({kUnevenGroups, "token-major", 300, 0, 0, MBR_KV_EAGER_COPY});
    Tracked one;
    ASSERT_EQ(MBR_OK, world.create(&one, 100)) << world.error.text;
    uint64_t charged = world.paid(world.holder).charged_bytes;
    ASSERT_EQ(MBR_OK, mbr_ep_capture_begin(world.manager, world.stream, kNever, &world.error));
    EXPECT_EQ(MBR_BUSY, mbr_sequence_append(one.sequence, 1, nullptr, &world.error));
    mbr_graph_handle graph;
    ASSERT_EQ(MBR_OK, mbr_ep_capture_end(world.manager, world.stream, &graph, &world.error));
    ASSERT_EQ(MBR_OK, mbr_ep_graph_retire(world.manager, graph, nullptr, 0, &world.error));
    EXPECT_EQ(charged, world.paid(world.holder).charged_bytes);
    EXPECT_EQ(0u, world.read().copied_bytes);
    EXPECT_TRUE(world.holds(one));
    EXPECT_EQ(MBR_OK, world.append(&one, 1)) << world.error.text;
    EXPECT_TRUE(world.holds(one));
    ASSERT_EQ(MBR_OK, world.destroy(&one));
}

TEST(EagerKv, AppendOfNothing_CostsNothing)
{
    KvWorld world({kUnevenGroups, "token-major", 300, 0, 0, MBR_KV_EAGER_COPY}, 64 * kMiB, nullptr,
        kEager, {});
    Tracked one;
    ASSERT_EQ(MBR_OK, world.create(&one, 100)) << world.error.text;
    auto before = world.read(one);
    ASSERT_EQ(MBR_OK, world.append(&one, 0)) << world.error.text;
    auto after = world.read(one);
    EXPECT_EQ(0, std::memcmp(&before, &after, sizeof(before)));
    EXPECT_EQ(0u, world.read().copied_bytes);
    ASSERT_EQ(MBR_OK, world.destroy(&one));
}

TEST(EagerKv, SequenceWhoseStreamWasDetached_CanStillBeDestroyed)
{
    for (uint32_t mode : {MBR_KV_EAGER_WHOLE, MBR_KV_EAGER_COPY}) {
        KvWorld world(
            {kUnevenGroups, "token-major", 300, 0, 0, mode}, 64 * kMiB, nullptr, kEager, {});
        mbr_native native;
        Tracked one;
        world.streams.push_back({0});
        native = world.make_stream();
        ASSERT_EQ(MBR_OK,
            mbr_ep_attach_stream(
                world.manager, world.ep, native, &world.streams.back(), &world.error));
        ASSERT_EQ(MBR_OK, world.create(&one, 100, nullptr, 0, world.streams.size() - 1));
        world.await(native);
        ASSERT_EQ(MBR_OK, mbr_ep_detach_stream(world.manager, world.streams.back(), &world.error));
        world.end_stream(native);
        world.streams.pop_back();
        EXPECT_EQ(MBR_OK, world.destroy(&one)) << world.error.text;
        EXPECT_EQ(0u, world.paid(world.holder).charged_bytes);
    }
}

TEST(EagerKv, Growing_WithoutVirtual_IsRefusedWithTheReason)
{
    HostWorld world(64 * kMiB, nullptr, kEager);
    auto request = sized<mbr_kv_request>();
    request.binding = world.binding;
    request.holder = world.holder;
    request.geometry = "llama-3-8b";
    request.max_tokens = 1000;
    mbr_kv *kv;
    EXPECT_EQ(MBR_UNSUPPORTED, mbr_kv_create(world.manager, &request, &kv, &world.error));
    EXPECT_NE(nullptr, std::strstr(world.error.text, "no virtual memory"));
    EXPECT_NE(nullptr, std::strstr(world.error.text, "MBR_KV_EAGER_COPY would work"));
}

TEST(EagerKv, Share_IsRefusedWithTheReason)
{
    KvWorld world({kUnevenGroups, "token-major", 300, 0, 0, MBR_KV_EAGER_WHOLE}, 64 * kMiB, nullptr,
        kEager, {});
    Tracked one;
    TrackedPrefix prefix;
    ASSERT_EQ(MBR_OK, world.create(&one, 100));
    EXPECT_EQ(MBR_UNSUPPORTED, world.share(&one, 100, &prefix));
    EXPECT_NE(nullptr, std::strstr(world.error.text, "would work")) << world.error.text;
    ASSERT_EQ(MBR_OK, world.destroy(&one));
}

TEST(EagerKv, Budget_RefusesAGrowth_TheOldContentsHold)
{
    KvWorld world({kUnevenGroups, "window-major", 3000, 0, 0, MBR_KV_EAGER_COPY}, 512 * 1024,
        nullptr, kEager, {});
    Tracked one, other;
    ASSERT_EQ(MBR_OK, world.create(&one, 200)) << world.error.text;
    auto before = world.read(one);
    auto figures = world.read();
    auto refusal = sized<mbr_refusal>();
    EXPECT_EQ(MBR_OVER_BUDGET, world.append(&one, 1000, &refusal));
    EXPECT_NE(0u, refusal.reason);
    auto after = world.read(one);
    EXPECT_EQ(0, std::memcmp(&before, &after, sizeof(before)));
    EXPECT_EQ(MBR_OVER_BUDGET, world.create(&other, 2000));
    auto figures_after = world.read();
    EXPECT_EQ(0, std::memcmp(&figures, &figures_after, sizeof(figures)));
    EXPECT_TRUE(world.holds(one));
    EXPECT_TRUE(world.clean());
    ASSERT_EQ(MBR_OK, world.destroy(&one));
}

TEST(EagerKv, Copy_WithoutAStreamOrTransfer_IsRefused)
{
    KvWorld world({kUnevenGroups, "token-major", 300, 0, 0, MBR_KV_EAGER_COPY}, 64 * kMiB, nullptr,
        kEager, {});
    auto request = sized<mbr_sequence_request>();
    request.tokens = 10;
    mbr_sequence *sequence;
    EXPECT_EQ(
        MBR_INVALID_ARGUMENT, mbr_sequence_create(world.kv, &request, &sequence, &world.error));
    EXPECT_NE(nullptr, std::strstr(world.error.text, "stream"));

    /* An EP of lines alone: nothing can be copied on it. */
    auto ep_request = sized<mbr_ep_request>();
    ep_request.order = mbr_cpu_order(world.cpu);
    ep_request.instance = mbr_cpu_instance(world.cpu);
    mbr_ep_handle ep;
    ASSERT_EQ(MBR_OK, mbr_ep_create(world.manager, &ep_request, &ep, &world.error));
    mbr_native native;
    mbr_stream_handle stream;
    native = world.make_stream();
    ASSERT_EQ(MBR_OK, mbr_ep_attach_stream(world.manager, ep, native, &stream, &world.error));
    auto bind = world.bind_request();
    bind.ep = ep;
    mbr_binding_handle binding;
    ASSERT_EQ(MBR_OK, mbr_manager_bind(world.manager, &bind, &binding, &world.error));
    auto kv_request = sized<mbr_kv_request>();
    kv_request.mode = MBR_KV_EAGER_COPY;
    kv_request.binding = binding;
    kv_request.holder = world.holder;
    kv_request.geometry = kUnevenGroups;
    kv_request.max_tokens = 100;
    mbr_kv *kv;
    ASSERT_EQ(MBR_OK, mbr_kv_create(world.manager, &kv_request, &kv, &world.error));
    request.stream = stream;
    ASSERT_EQ(MBR_OK, mbr_sequence_create(kv, &request, &sequence, &world.error));
    auto figures = sized<mbr_sequence_figures>();
    ASSERT_EQ(MBR_OK, mbr_sequence_read(sequence, &figures, nullptr));
    EXPECT_EQ(MBR_UNSUPPORTED, mbr_sequence_append(sequence, 20, nullptr, &world.error))
        << world.error.text;
    auto after = sized<mbr_sequence_figures>();
    ASSERT_EQ(MBR_OK, mbr_sequence_read(sequence, &after, nullptr));
    EXPECT_EQ(0, std::memcmp(&figures, &after, sizeof(after)));
    ASSERT_EQ(MBR_OK, mbr_sequence_destroy(sequence, nullptr, 0, &world.error));
    ASSERT_EQ(MBR_OK, mbr_kv_destroy(kv, &world.error));
    ASSERT_EQ(MBR_OK, mbr_ep_drain(world.manager, ep, kNever, &world.error));
    ASSERT_EQ(MBR_OK, mbr_manager_unbind(world.manager, binding, &world.error)) << world.error.text;
    ASSERT_EQ(MBR_OK, mbr_ep_detach_stream(world.manager, stream, &world.error));
    ASSERT_EQ(MBR_OK, mbr_ep_destroy(world.manager, ep, kNever, &world.error));
    world.end_stream(native);
}

} // namespace

} // namespace membrane
