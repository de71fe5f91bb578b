// Caches against a release queue that is full, streams that go, and other threads.
#include "tests/unit/holder/kv_small_queue.h"

#include <atomic>
#include <thread>

namespace membrane
{

namespace
{

TEST(KvQueue, Destroy_QueueIsFull_LivesOnWholeOrIsDestroyedAgain)
{
    HostWorld world(64 * kMiB, nullptr, nullptr, plugin_under_test().page_granule);
    SmallQueue queue(world, 1);
    mbr_sequence *first = queue.create(100), *second = queue.create(100);
    {
        Gate gate(world, queue.native);
        EXPECT_EQ(MBR_QUEUE_FULL, mbr_sequence_destroy(first, nullptr, 0, &world.error))
            << "its first range was queued, the second not";
        EXPECT_EQ(MBR_STALE, mbr_sequence_append(first, 1, nullptr, &world.error));
        mbr_kv_prefix *prefix;
        EXPECT_EQ(MBR_STALE, mbr_kv_prefix_create(first, 100, &prefix, &world.error));
        EXPECT_EQ(MBR_QUEUE_FULL, mbr_sequence_destroy(first, nullptr, 0, &world.error));
        EXPECT_EQ(MBR_QUEUE_FULL, mbr_sequence_destroy(second, nullptr, 0, &world.error));
        EXPECT_EQ(MBR_OK, mbr_sequence_append(second, 1, nullptr, &world.error))
            << "nothing of the second was queued";
        auto figures = sized<mbr_kv_figures>();
        EXPECT_EQ(MBR_OK, mbr_kv_read(queue.kv, &figures, nullptr));
        EXPECT_EQ(2u, figures.sequence_count);
    }
    queue.settle();
    EXPECT_EQ(MBR_OK, mbr_sequence_destroy(first, nullptr, 0, &world.error)) << world.error.text;
    queue.settle();
    EXPECT_EQ(MBR_QUEUE_FULL, mbr_sequence_destroy(second, nullptr, 0, &world.error));
    queue.settle();
    EXPECT_EQ(MBR_OK, mbr_sequence_destroy(second, nullptr, 0, &world.error));
    queue.settle();
    EXPECT_TRUE(world.clean());
}

TEST(KvQueue, Window_QueueIsFull_GivesBackWithALaterGrowth)
{
    HostWorld world(64 * kMiB, nullptr, nullptr, plugin_under_test().page_granule);
    SmallQueue queue(world, 1);
    mbr_sequence *other = queue.create(40), *one = queue.create(500);
    uint64_t whole = queue.read(one).committed_bytes;
    {
        Gate gate(world, queue.native);
        EXPECT_EQ(MBR_QUEUE_FULL, mbr_sequence_destroy(other, nullptr, 0, &world.error));
        EXPECT_EQ(MBR_OK, mbr_sequence_append(one, 0, nullptr, &world.error));
        EXPECT_EQ(whole, queue.read(one).committed_bytes) << "nothing could be given back";
    }
    queue.settle();
    EXPECT_EQ(MBR_OK, mbr_sequence_append(one, 0, nullptr, &world.error));
    EXPECT_GT(whole, queue.read(one).committed_bytes);
    EXPECT_EQ(500u, queue.read(one).tokens);
    queue.settle();
    EXPECT_EQ(MBR_OK, mbr_sequence_destroy(other, nullptr, 0, &world.error)) << world.error.text;
    queue.settle();
    EXPECT_EQ(MBR_QUEUE_FULL, mbr_sequence_destroy(one, nullptr, 0, &world.error));
    queue.settle();
    EXPECT_EQ(MBR_OK, mbr_sequence_destroy(one, nullptr, 0, &world.error)) << world.error.text;
}

TEST(KvQueue, EagerCopy_QueueIsFull_OwesTheOldOneAndFreesItLater)
{
    HostWorld world(64 * kMiB, nullptr, nullptr, plugin_under_test().page_granule);
    SmallQueue queue(world, 1);
    auto request = sized<mbr_kv_request>();
    request.mode = MBR_KV_EAGER_COPY;
    request.binding = queue.binding;
    request.holder = world.holder;
    request.geometry = kTwoGroups;
    request.max_tokens = 1000;
    mbr_kv *kv;
    ASSERT_EQ(MBR_OK, mbr_kv_create(world.manager, &request, &kv, &world.error));
    auto wanted = sized<mbr_sequence_request>();
    wanted.stream = queue.stream;
    wanted.tokens = 10;
    mbr_sequence *one;
    ASSERT_EQ(MBR_OK, mbr_sequence_create(kv, &wanted, &one, &world.error));
    {
        Gate gate(world, queue.native);
        EXPECT_EQ(MBR_OK, mbr_sequence_append(one, 10, nullptr, &world.error));
        EXPECT_EQ(20u, queue.read(one).tokens);
        EXPECT_EQ(MBR_QUEUE_FULL, mbr_sequence_append(one, 100, nullptr, &world.error))
            << "one of two old allocations is still owed";
        EXPECT_EQ(20u, queue.read(one).tokens);
    }
    queue.settle();
    EXPECT_EQ(MBR_OK, mbr_sequence_append(one, 100, nullptr, &world.error)) << world.error.text;
    queue.settle();
    queue.destroy_in_turn(one);
    EXPECT_TRUE(world.clean());
    EXPECT_EQ(MBR_OK, mbr_kv_destroy(kv, &world.error));
}

/* What is made in a capture, or was given again, goes back through the queue and no other way. */
TEST(KvQueue, RefusedEagerCreation_QueueIsFull_OwesItsRoomAndFreesItLater)
{
    HostWorld world(64 * kMiB, nullptr, nullptr, plugin_under_test().page_granule);
    SmallQueue queue(world, 1);
    auto payer = world.holder_request(MBR_ROLE_KV, "short of one group");
    payer.allowance_bytes = 700 * 1024; /* the groups take 512 and 256 KiB */
    auto request = sized<mbr_kv_request>();
    ASSERT_EQ(
        MBR_OK, mbr_manager_create_holder(world.manager, &payer, &request.holder, &world.error));
    request.mode = MBR_KV_EAGER_WHOLE;
    request.binding = queue.binding;
    request.geometry = kTwoGroups;
    request.max_tokens = 1024;
    mbr_kv *kv;
    ASSERT_EQ(MBR_OK, mbr_kv_create(world.manager, &request, &kv, &world.error));
    auto charged = [&] { return world.paid(request.holder).charged_bytes; };
    auto wanted = sized<mbr_sequence_request>();
    wanted.stream = queue.stream;
    wanted.tokens = 10;
    mbr_sequence *refused;
    mbr_graph_handle graph;
    {
        Gate gate(world, queue.native);
        queue.take_entry(); /* the only one */
        ASSERT_EQ(MBR_OK, mbr_ep_capture_begin(world.manager, queue.stream, kNever, &world.error));
        EXPECT_EQ(MBR_OVER_BUDGET, mbr_sequence_create(kv, &wanted, &refused, &world.error));
        EXPECT_NE(0u, charged());
        EXPECT_EQ(MBR_QUEUE_FULL, mbr_kv_destroy(kv, &world.error));
        EXPECT_EQ(MBR_OK, mbr_ep_capture_end(world.manager, queue.stream, &graph, &world.error));
    }
    queue.settle();
    ASSERT_EQ(MBR_OK, mbr_ep_graph_retire(world.manager, graph, nullptr, 0, &world.error));
    queue.settle();
    EXPECT_NE(0u, charged());
    EXPECT_EQ(MBR_OK, mbr_kv_destroy(kv, &world.error)) << world.error.text;
    queue.settle();
    EXPECT_EQ(0u, charged());
    EXPECT_TRUE(world.clean());
    EXPECT_EQ(MBR_OK, mbr_manager_destroy_holder(world.manager, request.holder, &world.error));
}

/* Of a refused sharer in a capture the aliases stand, which only the queue gives back then. */
TEST(KvQueue, RefusedSharerInACapture_QueueIsFull_OwesItsRangesAndReleasesThemLater)
{
    HostWorld world(64 * kMiB, nullptr, nullptr, plugin_under_test().page_granule);
    SmallQueue queue(world, 1);
    auto payer = world.holder_request(MBR_ROLE_KV, "short of 1000 tokens");
    payer.allowance_bytes = 200 * 1024;
    auto request = sized<mbr_kv_request>();
    ASSERT_EQ(
        MBR_OK, mbr_manager_create_holder(world.manager, &payer, &request.holder, &world.error));
    request.binding = queue.binding;
    request.geometry = kTwoGroups;
    request.layout = "seq-major";
    request.max_tokens = 1024;
    request.extent_bytes = 4096;
    mbr_kv *kv;
    ASSERT_EQ(MBR_OK, mbr_kv_create(world.manager, &request, &kv, &world.error));
    auto wanted = sized<mbr_sequence_request>();
    wanted.stream = queue.stream;
    wanted.tokens = 200;
    mbr_sequence *source, *refused, *later;
    ASSERT_EQ(MBR_OK, mbr_sequence_create(kv, &wanted, &source, &world.error)) << world.error.text;
    mbr_kv_prefix *prefix;
    ASSERT_EQ(MBR_OK, mbr_kv_prefix_create(source, 200, &prefix, &world.error)) << world.error.text;
    auto ranges = [&] {
        auto figures = sized<mbr_binding_figures>();
        EXPECT_EQ(
            MBR_OK, mbr_manager_read_binding(world.manager, queue.binding, &figures, &world.error));
        return figures.range_count;
    };
    uint64_t before = ranges();
    wanted.prefix = prefix;
    wanted.prefix_tokens = 200;
    wanted.tokens = 1000;
    mbr_graph_handle graph;
    {
        Gate gate(world, queue.native);
        queue.take_entry(); /* the only one */
        ASSERT_EQ(MBR_OK, mbr_ep_capture_begin(world.manager, queue.stream, kNever, &world.error));
        EXPECT_EQ(MBR_OVER_BUDGET, mbr_sequence_create(kv, &wanted, &refused, &world.error))
            << world.error.text;
        EXPECT_EQ(nullptr, refused);
        EXPECT_LT(before, ranges()) << "owed";
        EXPECT_EQ(MBR_OK, mbr_ep_capture_end(world.manager, queue.stream, &graph, &world.error));
    }
    queue.settle();
    ASSERT_EQ(MBR_OK, mbr_ep_graph_retire(world.manager, graph, nullptr, 0, &world.error));
    queue.settle();
    EXPECT_LT(before, ranges());
    wanted.tokens = 200;
    EXPECT_EQ(MBR_OK, mbr_sequence_create(kv, &wanted, &later, &world.error)) << world.error.text;
    EXPECT_EQ(before + 2, ranges()) << "its own two; what was owed is paid";
    queue.settle();
    queue.destroy_in_turn(later);
    EXPECT_EQ(MBR_OK, mbr_kv_prefix_destroy(prefix, &world.error)) << world.error.text;
    queue.destroy_in_turn(source);
    EXPECT_TRUE(world.clean());
    EXPECT_EQ(MBR_OK, mbr_kv_destroy(kv, &world.error)) << world.error.text;
    EXPECT_EQ(MBR_OK, mbr_manager_destroy_holder(world.manager, request.holder, &world.error));
}

/* The window takes the extent in which the second fragment begins; the first one ends in it. The
 * append comes after what still uses it, on the same stream, so that it stays. */
TEST(KvQueue, Append_NeedsAnExtentThatIsStillLeaving_KeepsItOnItsStream)
{
    KvWorld world(
        {"layers=1,heads=1,dim=64,bytes=2,planes=2,window=16", "seq-major", 100, 0, 4096});
    Tracked one;
    ASSERT_EQ(MBR_OK, world.create(&one, 10));
    {
        Gate gate(world, world.native);
        mbr_status status = MBR_OK;
        while (status == MBR_OK && one.ids.size() < 100) {
            status = mbr_sequence_append(one.sequence, 1, nullptr, &world.error);
            if (status == MBR_OK) {
                one.before_append = one.ids.size();
                one.ids.push_back(0);
            }
        }
        EXPECT_EQ(MBR_OK, status) << world.error.text;
        EXPECT_EQ(one.ids.size(), world.read(one).tokens);
    }
    world.settle();
    EXPECT_EQ(100u, world.read(one).tokens);
    EXPECT_TRUE(world.clean());
    ASSERT_EQ(MBR_OK, world.destroy(&one));
}

TEST(KvQueue, SequenceOnACapturedStream_IsMadeWithoutTheBoundaryOfItsPrefix)
{
    KvWorld world({kTwoGroups, "seq-major", 400, 0, 4096});
    Tracked source, sharer;
    TrackedPrefix prefix;
    ASSERT_EQ(MBR_OK, world.create(&source, 200));
    ASSERT_EQ(MBR_OK, world.share(&source, 200, &prefix)) << world.error.text;
    ASSERT_EQ(MBR_OK, mbr_ep_capture_begin(world.manager, world.stream, kNever, &world.error));
    EXPECT_EQ(MBR_OK, world.create(&sharer, 200, &prefix, 200)) << world.error.text;
    EXPECT_GT(200u, world.read(sharer).valid_tokens);
    EXPECT_EQ(0u, world.read().copied_bytes);
    EXPECT_TRUE(world.holds(sharer)) << "written by the caller";
    mbr_graph_handle graph;
    ASSERT_EQ(MBR_OK, mbr_ep_capture_end(world.manager, world.stream, &graph, &world.error));
    EXPECT_EQ(MBR_OK, world.destroy(&sharer)) << world.error.text;
    ASSERT_EQ(MBR_OK, mbr_ep_graph_retire(world.manager, graph, nullptr, 0, &world.error));
    world.end(&prefix);
    EXPECT_EQ(MBR_OK, world.destroy(&source));
}

/* ---- Copies from a source that goes ---------------------------------------------------------- */

TEST(KvQueue, Source_EndsWhileASharerStillCopiesFromIt_ItsMemoryWaitsForThatStream)
{
    KvWorld world({kTwoGroups, "seq-major", 400, 0, 4096});
    Tracked source;
    TrackedPrefix prefix;
    ASSERT_EQ(MBR_OK, world.create(&source, 200));
    ASSERT_EQ(MBR_OK, world.share(&source, 200, &prefix)) << world.error.text;
    auto request = sized<mbr_sequence_request>();
    request.stream = world.streams[1];
    request.tokens = 200;
    request.prefix = prefix.prefix;
    request.prefix_tokens = 200;
    Tracked sharer;
    {
        Gate gate(world, world.natives[0]);
        ASSERT_EQ(MBR_OK, mbr_sequence_create(world.kv, &request, &sharer.sequence, &world.error));
        sharer.ids = prefix.ids;
        ASSERT_EQ(200u, world.read(sharer).valid_tokens);
        ASSERT_LT(0u, world.read().copied_bytes);
        uint64_t mapped = world.figures().mapped_bytes;
        ASSERT_EQ(MBR_OK, world.destroy(&source));
        world.await(world.native);
        mbr_manager_poll(world.manager);
        mbr_manager_poll(world.manager);
        EXPECT_EQ(mapped, world.figures().mapped_bytes) << "the copies have not run";
    }
    EXPECT_TRUE(world.holds(sharer));
    world.end(&prefix);
    ASSERT_EQ(MBR_OK, world.destroy(&sharer));
}

TEST(KvQueue, Source_EndsAfterTheReadersStreamWasDetached_Ends)
{
    KvWorld world({kTwoGroups, "seq-major", 400, 0, 4096});
    Tracked source, sharer;
    TrackedPrefix prefix;
    ASSERT_EQ(MBR_OK, world.create(&source, 200));
    ASSERT_EQ(MBR_OK, world.share(&source, 200, &prefix));
    mbr_native native;
    native = world.make_stream();
    world.streams.push_back({0});
    ASSERT_EQ(MBR_OK,
        mbr_ep_attach_stream(world.manager, world.ep, native, &world.streams.back(), &world.error));
    ASSERT_EQ(MBR_OK, world.create(&sharer, 200, &prefix, 200, world.streams.size() - 1));
    ASSERT_EQ(MBR_OK, world.destroy(&sharer));
    world.await(native);
    ASSERT_EQ(MBR_OK, mbr_ep_detach_stream(world.manager, world.streams.back(), &world.error));
    world.streams.pop_back();
    world.end_stream(native);
    EXPECT_EQ(MBR_OK, world.destroy(&source)) << world.error.text;
    world.end(&prefix);
}

TEST(KvQueue, Sequence_OfAnotherEpsStreamOrAnUnknownOne_IsRefused)
{
    KvWorld world({kTwoGroups, "seq-major", 400, 0, 4096});
    SmallQueue other(world, 8);
    world.streams.push_back(other.stream);
    world.streams.push_back({77});
    auto before = world.read();
    for (uint64_t tokens : {0, 10}) {
        Tracked one;
        EXPECT_EQ(MBR_INVALID_ARGUMENT, world.create(&one, tokens, nullptr, 0, 3));
        EXPECT_EQ(MBR_UNKNOWN_OBJECT, world.create(&one, tokens, nullptr, 0, 4));
    }
    auto after = world.read();
    EXPECT_EQ(0, std::memcmp(&before, &after, sizeof(before)));
    world.streams.resize(3);
}

TEST(KvQueue, Sequence_WhoseStreamWasDetached_CanStillBeDestroyed)
{
    KvWorld world({kTwoGroups, "seq-major", 400, 0, 4096});
    mbr_native native;
    Tracked one;
    world.streams.push_back({0});
    native = world.make_stream();
    ASSERT_EQ(MBR_OK,
        mbr_ep_attach_stream(world.manager, world.ep, native, &world.streams.back(), &world.error));
    ASSERT_EQ(MBR_OK, world.create(&one, 200, nullptr, 0, 3));
    ASSERT_EQ(MBR_OK, mbr_ep_detach_stream(world.manager, world.streams.back(), &world.error));
    world.end_stream(native);
    world.streams.pop_back();
    EXPECT_EQ(MBR_OK, world.destroy(&one)) << world.error.text;
}

TEST(KvQueue, Source_HasAsManyReadersAsItKnows_FurtherSharersAreLeftToTheCaller)
{
    KvWorld world({kTwoGroups, "seq-major", 400, 0, 4096});
    Tracked source;
    TrackedPrefix prefix;
    ASSERT_EQ(MBR_OK, world.create(&source, 200));
    ASSERT_EQ(MBR_OK, world.share(&source, 200, &prefix));
    std::vector<mbr_native> natives(17);
    std::vector<Tracked> sharers(17);
    size_t first = world.streams.size();
    for (size_t i = 0; i < natives.size(); i++) {
        world.streams.push_back({0});
        natives[i] = world.make_stream();
        ASSERT_EQ(MBR_OK,
            mbr_ep_attach_stream(
                world.manager, world.ep, natives[i], &world.streams.back(), &world.error));
        ASSERT_EQ(MBR_OK, world.create(&sharers[i], 200, &prefix, 200, first + i));
        world.await(natives[i]);
        EXPECT_EQ(i < 16 ? 200u : 0u, world.read(sharers[i]).valid_tokens) << i;
    }
    for (Tracked &sharer : sharers) {
        EXPECT_TRUE(world.holds(sharer));
        ASSERT_EQ(MBR_OK, world.destroy(&sharer));
    }
    ASSERT_EQ(MBR_OK, world.destroy(&source));
    world.end(&prefix);
    world.settle();
    for (size_t i = natives.size(); i-- > 0; world.streams.pop_back()) {
        ASSERT_EQ(MBR_OK, mbr_ep_detach_stream(world.manager, world.streams.back(), &world.error));
        world.end_stream(natives[i]);
    }
}

TEST(KvQueue, Sequence_WithoutAStream_IsTheHostsOwn)
{
    KvWorld world({kTwoGroups, "seq-major", 400, 0, 4096});
    Tracked source, sharer;
    TrackedPrefix prefix;
    world.streams.push_back({0});
    ASSERT_EQ(MBR_OK, world.create(&source, 200, nullptr, 0, world.streams.size() - 1));
    ASSERT_EQ(MBR_OK, world.share(&source, 200, &prefix));
    ASSERT_EQ(MBR_OK, world.create(&sharer, 200, &prefix, 200, world.streams.size() - 1));
    EXPECT_EQ(0u, world.read().copied_bytes);
    EXPECT_TRUE(world.holds(sharer));
    ASSERT_EQ(MBR_OK, world.append(&sharer, 150));
    ASSERT_EQ(MBR_OK, world.destroy(&source));
    ASSERT_EQ(MBR_OK, world.destroy(&sharer));
    world.end(&prefix);
    world.streams.pop_back();
}

/* ---- Threads --------------------------------------------------------------------------------- */

/* Sequences of several threads share one prefix while its source grows, slides and ends. Each
 * thread looks at rows of its own and of the prefix. */
TEST(KvThreads, SharersAndTheEndOfTheSource_ContentsAndBooksHold)
{
    KvWorld world({kTwoGroups, "seq-major", 600, 0, 4096}, 64 * kMiB);
    Tracked source;
    TrackedPrefix prefix;
    ASSERT_EQ(MBR_OK, world.create(&source, 200));
    ASSERT_EQ(MBR_OK, world.share(&source, 200, &prefix)) << world.error.text;
    auto row = [&](mbr_sequence *sequence, uint64_t token) {
        uint64_t address;
        EXPECT_EQ(MBR_OK, mbr_sequence_locate(sequence, 1, 0, 1, 0, token, &address, nullptr));
        return view_of(address);
    };
    std::vector<uint8_t> expected(128 * 200);
    for (uint64_t t = 0; t < 200; t++)
        std::memcpy(&expected[128 * t], row(source.sequence, t), 128);
    std::atomic<uint64_t> valid{0}, partly{0};
    auto live = [&](size_t stream, mbr_native native) {
        for (int i = 0; i < 60; i++) {
            auto request = sized<mbr_sequence_request>();
            request.stream = world.streams[stream];
            request.tokens = 200;
            request.prefix = prefix.prefix;
            request.prefix_tokens = 200;
            mbr_sequence *sequence;
            auto error = sized<mbr_error>();
            ASSERT_EQ(MBR_OK, mbr_sequence_create(world.kv, &request, &sequence, &error))
                << error.text;
            auto figures = sized<mbr_sequence_figures>();
            ASSERT_EQ(MBR_OK, mbr_sequence_read(sequence, &figures, nullptr));
            (figures.valid_tokens == 200 ? valid : partly)++;
            world.await(native);
            for (uint64_t t = 0; t < figures.valid_tokens; t++)
                ASSERT_EQ(0, std::memcmp(&expected[128 * t], row(sequence, t), 128)) << t;
            for (uint64_t t = 200; t < 260; t++) {
                ASSERT_EQ(MBR_OK, mbr_sequence_append(sequence, 1, nullptr, &error)) << error.text;
                std::memset(row(sequence, t), static_cast<int>(stream * 60 + t), 128);
            }
            for (uint64_t t = 200; t < 260; t++)
                ASSERT_EQ(static_cast<uint8_t>(stream * 60 + t), *row(sequence, t));
            ASSERT_EQ(MBR_OK, mbr_sequence_destroy(sequence, nullptr, 0, &error)) << error.text;
        }
    };
    std::thread first(live, 1, world.natives[0]), second(live, 2, world.natives[1]);
    for (int i = 0; i < 60; i++) {
        ASSERT_EQ(MBR_OK, mbr_sequence_append(source.sequence, 2, nullptr, &world.error));
        auto figures = world.read();
        EXPECT_LE(figures.live_bytes, figures.committed_bytes + figures.shared_bytes);
    }
    ASSERT_EQ(MBR_OK, world.destroy(&source));
    first.join();
    second.join();
    world.end(&prefix);
    world.settle();
    EXPECT_TRUE(world.clean());
    EXPECT_EQ(120u, valid + partly);
}

} // namespace

} // namespace membrane
