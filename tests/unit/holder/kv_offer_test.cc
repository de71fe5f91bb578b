// What is offered to sequences beside captures, and beside the bound of what stands ahead.
#include "tests/unit/holder/captures.h"
#include "tests/unit/holder/kv_ahead_world.h"
#include "tests/unit/holder/kv_small_queue.h"

namespace membrane
{

namespace
{

// Nothing is adopted while a graph is captured, nor given back: it may be touched at its launches.
TEST(KvOffer, WhileACaptureIsOpen_NothingChangesHands)
{
    AheadWorld world;
    Tracked one;
    ASSERT_EQ(MBR_OK, world.create(&one, 10));
    ASSERT_EQ(0u, world.decode(&one, 5));
    ASSERT_EQ(MBR_OK, world.append(&one, 1));
    mbr_graph_handle first, second;
    ASSERT_EQ(MBR_OK, mbr_ep_capture_begin(world.manager, world.stream, kNever, &world.error));
    for (int i = 0; i < 10; i++)
        world.pass(5);
    EXPECT_EQ(0u, world.offered(one));
    EXPECT_EQ(kExtent, world.figures().ahead_bytes);
    ASSERT_EQ(MBR_OK, mbr_ep_capture_end(world.manager, world.stream, &first, &world.error));
    world.pass(5);
    EXPECT_EQ(kExtent, world.offered(one));
    ASSERT_EQ(MBR_OK, mbr_ep_capture_begin(world.manager, world.stream, kNever, &world.error));
    world.rest();
    EXPECT_EQ(kExtent, world.offered(one));
    ASSERT_EQ(MBR_OK, mbr_ep_capture_end(world.manager, world.stream, &second, &world.error));
    EXPECT_EQ(MBR_OK, mbr_ep_graph_retire(world.manager, first, nullptr, 0, &world.error));
    EXPECT_EQ(MBR_OK, mbr_ep_graph_retire(world.manager, second, nullptr, 0, &world.error));
    EXPECT_TRUE(world.append_is_quiet(&one, 1)); // takes it
    EXPECT_EQ(0u, world.offered(one));
    EXPECT_TRUE(world.holds(one));
    EXPECT_EQ(MBR_OK, world.destroy(&one));
}

// What is grown in a capture is its graph's, also where it was adopted before the capture began.
TEST(KvOffer, OfferThatIsTakenInACapture_IsItsGraphs)
{
    AheadWorld world;
    Tracked one;
    ASSERT_NO_FATAL_FAILURE(world.offer(&one));
    mbr_graph_handle graph;
    ASSERT_EQ(MBR_OK, mbr_ep_capture_begin(world.manager, world.stream, kNever, &world.error));
    EXPECT_EQ(MBR_OK, mbr_sequence_append(one.sequence, 1, nullptr, &world.error));
    ASSERT_EQ(MBR_OK, mbr_ep_capture_end(world.manager, world.stream, &graph, &world.error));
    EXPECT_EQ(MBR_OK, mbr_sequence_destroy(one.sequence, nullptr, 0, &world.error));
    world.settle();
    EXPECT_EQ(2 * kExtent, world.paid(world.holder).charged_bytes); // held
    EXPECT_EQ(MBR_OK, mbr_ep_graph_retire(world.manager, graph, nullptr, 0, &world.error));
    world.settle();
    EXPECT_EQ(0u, world.paid(world.holder).charged_bytes);
    EXPECT_TRUE(world.clean());
}

TEST(KvOffer, OfGrowthThatIsRefused_NoMoreThanItNeedsGoesBack)
{
    AheadWorld world(kPlain, "window-major", 4 * kMiB, 64 * 1024);
    Tracked one, two, three;
    ASSERT_EQ(MBR_OK, world.create(&one, 10));
    ASSERT_EQ(MBR_OK, world.create(&two, 10));
    for (int i = 0; i < 6; i++) {
        ASSERT_EQ(MBR_OK, world.append(&one, 1));
        ASSERT_EQ(MBR_OK, world.append(&two, 1));
        world.pass(10);
    }
    ASSERT_EQ(kExtent, world.offered(one));
    ASSERT_EQ(kExtent, world.offered(two));
    EXPECT_EQ(MBR_OK, world.create(&three, 10)) << world.error.text;
    EXPECT_EQ(kExtent, world.offered(one) + world.offered(two));
    EXPECT_TRUE(world.holds(one) && world.holds(two) && world.holds(three));
    EXPECT_EQ(MBR_OK, world.destroy(&one));
    EXPECT_EQ(MBR_OK, world.destroy(&two));
    EXPECT_EQ(MBR_OK, world.destroy(&three));
    EXPECT_TRUE(world.clean());
}

// What a prefix brings along is there already.
TEST(KvOffer, OfSequenceWithAPrefixThatIsRefused_NoMoreThanItsOwnGoesBack)
{
    AheadWorld world(kPlain, "window-major", 4 * kMiB, 96 * 1024);
    Tracked source, one, two, three;
    TrackedPrefix prefix;
    ASSERT_EQ(MBR_OK, world.create(&source, 32));
    ASSERT_EQ(MBR_OK, world.share(&source, 32, &prefix)) << world.error.text;
    ASSERT_EQ(MBR_OK, world.destroy(&source));
    ASSERT_EQ(MBR_OK, world.create(&one, 10));
    ASSERT_EQ(MBR_OK, world.create(&two, 10));
    for (int i = 0; i < 6; i++) {
        ASSERT_EQ(MBR_OK, world.append(&one, 1));
        ASSERT_EQ(MBR_OK, world.append(&two, 1));
        world.pass(10);
    }
    ASSERT_EQ(2 * kExtent, world.offered(one) + world.offered(two));
    EXPECT_EQ(MBR_OK, world.create(&three, 42, &prefix, 32)) << world.error.text;
    EXPECT_EQ(kExtent, world.offered(one) + world.offered(two));
    EXPECT_TRUE(world.holds(one) && world.holds(two) && world.holds(three));
    for (Tracked *each : {&one, &two, &three})
        EXPECT_EQ(MBR_OK, world.destroy(each));
    world.end(&prefix);
    EXPECT_TRUE(world.clean());
}

// It could not give it: nobody is to give in vain beside it.
TEST(KvOffer, WhatACaptureKeeps_AnswersNoTicket)
{
    AheadWorld world(kPlain, "window-major", 4 * kMiB, kTight);
    Tracked one;
    ASSERT_NO_FATAL_FAILURE(world.offer(&one));
    uint64_t given_bytes = 0;
    mbr_holder_handle another = world.create_giver(&given_bytes, kExtent);
    mbr_graph_handle graph;
    ASSERT_EQ(MBR_OK, mbr_ep_capture_begin(world.manager, world.stream, kNever, &world.error));
    auto wanted = sized<mbr_ticket_request>();
    wanted.holder = another;
    wanted.bytes = kTight; // what the sequence needs, the other one says that it can give
    wanted.timeout_ns = kMs;
    mbr_ticket_handle ticket;
    ASSERT_EQ(
        MBR_OK, mbr_manager_submit_ticket(world.manager, &wanted, &ticket, nullptr, &world.error))
        << world.error.text;
    EXPECT_EQ(0u, given_bytes);
    EXPECT_EQ(kExtent, world.offered(one));
    ASSERT_EQ(MBR_OK, mbr_ep_capture_end(world.manager, world.stream, &graph, &world.error));
    EXPECT_EQ(MBR_OK, mbr_manager_end_ticket(world.manager, ticket, &world.error));
    EXPECT_EQ(MBR_OK, mbr_ep_graph_retire(world.manager, graph, nullptr, 0, &world.error));
    EXPECT_EQ(MBR_OK, world.destroy(&one));
    EXPECT_EQ(MBR_OK, mbr_manager_destroy_holder(world.manager, another, &world.error));
    EXPECT_TRUE(world.clean());
}

// It goes with the sequence alone from then on: nobody is to give in vain beside it.
TEST(KvOffer, OfSequenceThatHasEndedInPart_AnswersNoTicket)
{
    AheadWorld world;
    SmallQueue queue(world, 1, 4 * kMiB);
    mbr_sequence *sequence = queue.create(10);
    uint64_t needed_bytes = 0, offered_bytes = 0;
    for (uint64_t tokens = 11; tokens < 100 && offered_bytes == 0; tokens++) {
        ASSERT_EQ(MBR_OK, mbr_sequence_append(sequence, 1, nullptr, &world.error));
        world.pass(10);
        ASSERT_EQ(MBR_OK, mbr_kv_need_bytes(queue.kv, tokens, &needed_bytes, &world.error));
        offered_bytes = queue.read(sequence).committed_bytes - needed_bytes;
    }
    ASSERT_NE(0u, offered_bytes);
    Gate gate(world, queue.native);
    ASSERT_EQ(MBR_QUEUE_FULL, mbr_sequence_destroy(sequence, nullptr, 0, &world.error));
    uint64_t given_bytes = 0;
    mbr_holder_handle another = world.create_giver(&given_bytes, needed_bytes);
    auto wanted = sized<mbr_ticket_request>();
    wanted.holder = another;
    wanted.bytes = 64 * kMiB; // what the sequence needs, the other one says that it can give
    wanted.timeout_ns = kMs;
    mbr_ticket_handle ticket;
    ASSERT_EQ(
        MBR_OK, mbr_manager_submit_ticket(world.manager, &wanted, &ticket, nullptr, &world.error))
        << world.error.text;
    EXPECT_EQ(0u, given_bytes);
    EXPECT_EQ(MBR_OK, mbr_manager_end_ticket(world.manager, ticket, &world.error));
    gate.open();
    queue.settle();
    EXPECT_EQ(MBR_OK, mbr_sequence_destroy(sequence, nullptr, 0, &world.error));
    queue.settle();
    EXPECT_EQ(MBR_OK, mbr_manager_destroy_holder(world.manager, another, &world.error));
    EXPECT_TRUE(world.clean());
}

// Else it might be adopted again before whoever was refused has tried once more.
TEST(KvOffer, WhatWasTakenBackForAnother_IsNotOfferedAgainBeforeItIsPassed)
{
    AheadWorld world(kPlain, "window-major", 4 * kMiB, kTight);
    Tracked one, other;
    ASSERT_NO_FATAL_FAILURE(world.offer(&one));
    EXPECT_EQ(MBR_OVER_BUDGET, world.create(&other, 161));
    EXPECT_EQ(0u, world.offered(one));
    for (int i = 0; i < 10; i++)
        world.pass(5);
    EXPECT_EQ(0u, world.offered(one));
    uint64_t called = world.calls();
    EXPECT_EQ(MBR_OK, world.append(&one, 1));
    EXPECT_EQ(called, world.calls()); // it stands there still
    EXPECT_EQ(0u, world.decode(&one, 15));
    EXPECT_EQ(kExtent, world.offered(one));
    EXPECT_EQ(MBR_OK, world.destroy(&one));
    EXPECT_TRUE(world.clean());
}

// Nobody grows any more, and so nobody wakes who looks: it goes back all the same.
TEST(KvOffer, OfferThatACaptureKept_GoesBackBehindIt)
{
    AheadWorld world;
    Tracked one;
    ASSERT_NO_FATAL_FAILURE(world.offer(&one));
    mbr_graph_handle graph;
    ASSERT_EQ(MBR_OK, mbr_ep_capture_begin(world.manager, world.stream, kNever, &world.error));
    world.rest();
    EXPECT_EQ(kExtent, world.offered(one));
    ASSERT_EQ(MBR_OK, mbr_ep_capture_end(world.manager, world.stream, &graph, &world.error));
    world.rest();
    EXPECT_EQ(0u, world.offered(one));
    EXPECT_EQ(MBR_OK, mbr_ep_graph_retire(world.manager, graph, nullptr, 0, &world.error));
    EXPECT_EQ(MBR_OK, world.destroy(&one));
    EXPECT_TRUE(world.clean());
}

// Others have mapped ahead up to the bound meanwhile.
TEST(KvOffer, WhatGoesBackAboveTheBound_IsParkedAndNotAhead)
{
    constexpr uint64_t kBound = kExtent;
    AheadWorld world(kPlain, "window-major", kBound);
    Tracked one, other;
    ASSERT_EQ(MBR_OK, world.create(&one, 10));
    ASSERT_EQ(MBR_OK, world.create(&other, 13));
    ASSERT_EQ(0u, world.decode(&one, 6));
    ASSERT_EQ(kExtent, world.offered(one));
    for (int i = 0; i < 3; i++) { // a slow one: its next extent is ahead of it, but not due
        world.pass(300);
        ASSERT_EQ(MBR_OK, world.append(&other, 1));
    }
    world.pass(10);
    ASSERT_EQ(kBound, world.figures().ahead_bytes);
    world.pass(150); // the first one rests
    EXPECT_EQ(world.committed_by_arithmetic(one) + world.committed_by_arithmetic(other),
        world.paid(world.holder).charged_bytes);
    EXPECT_EQ(kBound, world.figures().ahead_bytes);
    EXPECT_EQ(MBR_OK, world.append(&one, 1));
    EXPECT_TRUE(world.holds(one));
    EXPECT_EQ(MBR_OK, world.destroy(&one));
    EXPECT_EQ(MBR_OK, world.destroy(&other));
    EXPECT_TRUE(world.clean());
}

// A client that answers for the holder itself, and passes the question on or not.
struct Client {
    mbr_kv *kv = nullptr;
    bool passes_on = false;
    static mbr_pressure_callbacks callbacks(Client *self)
    {
        return {[](void *context, const mbr_pressure *pressure) -> uint64_t {
                    auto *it = static_cast<Client *>(context);
                    return it->passes_on ? mbr_kv_could_give(it->kv, pressure->bytes) : 0;
                },
            [](void *context, const mbr_pressure *, uint64_t bytes) {
                mbr_kv_give(static_cast<Client *>(context)->kv, bytes);
            },
            self};
    }
};

TEST(KvOffer, OnAHolderWithCallbacks_IsTheClientsToGive)
{
    AheadWorld world(kPlain, "window-major", 4 * kMiB, kTight);
    Client client;
    mbr_holder_handle another = world.holder;
    mbr_kv *others = world.kv;
    auto holder = world.holder_request(MBR_ROLE_KV, "answered for");
    holder.pressed = Client::callbacks(&client);
    ASSERT_EQ(
        MBR_OK, mbr_manager_create_holder(world.manager, &holder, &world.holder, &world.error));
    auto request = sized<mbr_kv_request>();
    request.binding = world.binding;
    request.holder = world.holder;
    request.geometry = kPlain;
    request.max_tokens = world.shape.max_tokens;
    request.window_tokens = world.shape.window_tokens;
    request.extent_bytes = kExtent;
    ASSERT_EQ(MBR_OK, mbr_kv_create(world.manager, &request, &world.kv, &world.error))
        << world.error.text;
    client.kv = world.kv;
    Tracked one;
    ASSERT_NO_FATAL_FAILURE(world.offer(&one));
    EXPECT_EQ(kExtent, mbr_kv_could_give(client.kv, UINT64_MAX));
    EXPECT_EQ(1u, mbr_kv_could_give(client.kv, 1));
    EXPECT_EQ(0u, mbr_kv_could_give(others, UINT64_MAX));
    EXPECT_EQ(0u, mbr_kv_give(others, UINT64_MAX));
    auto wanted = sized<mbr_ticket_request>();
    wanted.holder = another;
    wanted.bytes = kTight - kExtent; // all but what the sequence needs
    wanted.timeout_ns = kMs;
    for (bool passes_on : {false, true}) {
        client.passes_on = passes_on;
        mbr_ticket_handle ticket;
        ASSERT_EQ(MBR_OK,
            mbr_manager_submit_ticket(world.manager, &wanted, &ticket, nullptr, &world.error))
            << world.error.text;
        EXPECT_EQ(passes_on ? MBR_OK : MBR_NOT_READY,
            mbr_manager_claim_ticket(world.manager, ticket, &world.error));
        EXPECT_EQ(passes_on ? 0 : kExtent, world.offered(one));
        EXPECT_EQ(MBR_OK, mbr_manager_end_ticket(world.manager, ticket, &world.error));
    }
    EXPECT_EQ(MBR_OK, mbr_manager_return_aside(world.manager, another, nullptr, &world.error));
    EXPECT_EQ(0u, mbr_kv_could_give(client.kv, UINT64_MAX));
    EXPECT_TRUE(world.holds(one));
    EXPECT_EQ(MBR_OK, world.destroy(&one));
    EXPECT_TRUE(world.clean());
    world.settle();
    EXPECT_EQ(MBR_OK, mbr_kv_destroy(std::exchange(world.kv, others), &world.error));
    EXPECT_EQ(MBR_OK,
        mbr_manager_destroy_holder(
            world.manager, std::exchange(world.holder, another), &world.error));
}

// What it could give would be cache that cannot go.
TEST(KvOffer, WhileAnotherEpOfItsDeviceCaptures_NothingCouldBeGiven)
{
    AheadWorld world;
    Captures captures(world, true, 4 * kMiB);
    Tracked one;
    ASSERT_NO_FATAL_FAILURE(world.offer(&one));
    EXPECT_EQ(kExtent, mbr_kv_could_give(world.kv, UINT64_MAX));
    captures.begin();
    EXPECT_EQ(0u, mbr_kv_could_give(world.kv, UINT64_MAX));
    captures.end();
    EXPECT_EQ(kExtent, mbr_kv_could_give(world.kv, UINT64_MAX));
    EXPECT_EQ(kExtent, mbr_kv_give(world.kv, UINT64_MAX));
    EXPECT_EQ(MBR_OK, world.destroy(&one));
    EXPECT_TRUE(world.clean());
}

// Its range is the graph's as a whole from then on, what is adopted later included.
TEST(KvOffer, OfSequenceThatGrewInACapture_IsGivenOnceItsGraphIsRetired)
{
    AheadWorld world;
    Captures captures(world, false);
    Tracked one;
    ASSERT_EQ(MBR_OK, world.create(&one, 16));
    captures.begin();
    EXPECT_EQ(MBR_OK, mbr_sequence_append(one.sequence, 1, nullptr, &world.error));
    captures.end();
    uint64_t needed_bytes = 2 * kExtent, tokens = 17;
    auto committed = [&] {
        auto figures = sized<mbr_sequence_figures>();
        EXPECT_EQ(MBR_OK, mbr_sequence_read(one.sequence, &figures, &world.error));
        return figures.committed_bytes;
    };
    for (; tokens < 32 && committed() == needed_bytes; tokens++) {
        EXPECT_EQ(MBR_OK, mbr_sequence_append(one.sequence, 1, nullptr, &world.error));
        world.pass(5);
        world.pass(5);
    }
    ASSERT_EQ(needed_bytes + kExtent, committed());
    EXPECT_EQ(0u, mbr_kv_could_give(world.kv, UINT64_MAX));
    EXPECT_EQ(0u, mbr_kv_give(world.kv, UINT64_MAX));
    captures.retire();
    world.settle();
    EXPECT_EQ(kExtent, mbr_kv_could_give(world.kv, UINT64_MAX));
    EXPECT_EQ(kExtent, mbr_kv_give(world.kv, UINT64_MAX));
    EXPECT_EQ(needed_bytes, committed());
    EXPECT_EQ(MBR_OK, mbr_sequence_destroy(one.sequence, nullptr, 0, &world.error));
    world.settle();
}

// There is nothing to ask for where nothing is mapped ahead.
TEST(KvOffer, OfCachesThatMapNothingAhead_NothingCouldBeGiven)
{
    for (uint32_t mode : {MBR_KV_GROWING, MBR_KV_EAGER_WHOLE, MBR_KV_EAGER_COPY}) {
        KvWorld world(
            {kPlain, "window-major", 400, 16, mode == MBR_KV_GROWING ? kExtent : 0, mode});
        Tracked one;
        ASSERT_EQ(MBR_OK, world.create(&one, 40));
        EXPECT_EQ(0u, mbr_kv_could_give(world.kv, UINT64_MAX));
        EXPECT_EQ(0u, mbr_kv_give(world.kv, UINT64_MAX));
        EXPECT_TRUE(world.holds(one));
        EXPECT_EQ(MBR_OK, world.destroy(&one));
    }
}

} // namespace

} // namespace membrane
