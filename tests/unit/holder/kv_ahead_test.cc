// Mapping ahead of need: that a step finds its extents mapped and its own, that idle sequences,
// budgets and captures stop it, that what a sequence does not take goes back, and that nothing of
// it shows in contents or books.
#include "tests/unit/holder/kv_ahead_world.h"

#include <atomic>
#include <thread>

namespace membrane
{

namespace
{

// With layers of one group, and of two.
template <typename Body> void in_each_layout(Body body)
{
    for (const char *layout : {"head-major", "seq-major", "token-major", "window-major"})
        for (const char *geometry : {kPlain, kTwoGroups}) {
            SCOPED_TRACE(std::string(layout) + " " + geometry);
            body(geometry, layout);
        }
}

TEST(KvAhead, StepsOfASteadyPace_CallNothingAndMoveNothing)
{
    in_each_layout([](const char *geometry, const char *layout) {
        AheadWorld world(geometry, layout);
        Tracked one;
        ASSERT_EQ(MBR_OK, world.create(&one, 15));
        world.decode(&one, 4); // it is seen that it grows
        uint64_t calls = world.calls();
        uint64_t slow = world.decode(&one, 200);
        EXPECT_LT(calls, world.calls()); // somebody did
        // What windows leave behind may be unmapped in a step: the two-group cache alone calls.
        EXPECT_TRUE(geometry == kTwoGroups || slow == 0) << slow;
        EXPECT_TRUE(world.holds(one));
        world.rest();
        world.settle();
        auto figures = world.read();
        EXPECT_EQ(figures.committed_bytes, world.paid(world.holder).charged_bytes);
        EXPECT_EQ(world.committed_by_arithmetic(one), figures.committed_bytes);
        EXPECT_TRUE(world.clean());
        EXPECT_EQ(MBR_OK, world.destroy(&one));
    });
}

TEST(KvAhead, GrowthThatTakesAnOffer_IsCountedAsOne)
{
    AheadWorld world;
    Tracked one;
    ASSERT_EQ(MBR_OK, world.create(&one, 10));
    ASSERT_EQ(0u, world.decode(&one, 200));
    auto figures = world.read();
    EXPECT_EQ(1u + 210 / 16, figures.growth_count); // the prompt, and each extent
    EXPECT_EQ(210u / 16, figures.adopted_count);
    EXPECT_EQ(MBR_OK, world.destroy(&one));
    figures = world.read();
    EXPECT_EQ(1u + 210 / 16, figures.growth_count);
    EXPECT_EQ(210u / 16, figures.adopted_count);
}

// A step of some extents each 10 ms: what comes within the look's time is offered in one.
TEST(KvAhead, StepOverSomeExtents_TakesOneOffer)
{
    AheadWorld world;
    Tracked one;
    ASSERT_EQ(MBR_OK, world.create(&one, 16));
    for (int i = 0; i < 10; i++) {
        bool quiet = world.append_is_quiet(&one, 32);
        EXPECT_TRUE(quiet || i < 3) << i;
        world.pass(5);
        world.pass(5);
    }
    EXPECT_TRUE(world.holds(one));
    EXPECT_EQ(11u, world.read().growth_count);
    EXPECT_EQ(MBR_OK, world.destroy(&one));
    EXPECT_TRUE(world.clean());
}

TEST(KvAhead, WhatARestingSequenceIsOffered_GoesBackAndStaysMapped)
{
    in_each_layout([](const char *geometry, const char *layout) {
        AheadWorld world(geometry, layout);
        Tracked one;
        ASSERT_EQ(MBR_OK, world.create(&one, 15));
        uint64_t most = 0;
        for (int i = 0; i < 40 && most == 0; i++) {
            world.decode(&one, 1);
            most = world.offered(one);
        }
        EXPECT_NE(0u, most);
        world.settle();
        uint64_t capacity = world.read(one).capacity_tokens;
        uint64_t mapped = world.figures().mapped_bytes;
        world.rest();
        EXPECT_EQ(0u, world.offered(one));
        EXPECT_EQ(capacity, world.read(one).capacity_tokens); // it had never been promised
        EXPECT_EQ(mapped, world.figures().mapped_bytes);
        EXPECT_TRUE(world.clean());
        uint64_t called = world.calls();
        ASSERT_EQ(MBR_OK, world.append(&one, capacity + 1 - one.ids.size()));
        EXPECT_EQ(called, world.calls()); // it stands there still
        EXPECT_TRUE(world.holds(one));
        EXPECT_EQ(MBR_OK, world.destroy(&one));
    });
}

// Another sequence takes the rest of the limit to the byte, and what is ready for this one, which
// needs it for its next tokens.
void another_takes_what_is_ready(AheadWorld &world, Tracked *one, uint64_t next_tokens)
{
    Tracked other;
    ASSERT_EQ(MBR_OK, world.create(&other, (kTight - kExtent) / 1024)) << world.error.text;
    EXPECT_EQ(0u, world.offered(*one));
    EXPECT_EQ(0u, world.figures().ahead_bytes);
    EXPECT_EQ(MBR_OVER_BUDGET, world.append(one, next_tokens));
    for (int i = 0; i < 10; i++)
        world.pass(5); // the limit is full: nothing can be adopted, and nobody is pressed
    EXPECT_EQ(0u, world.offered(*one));
    EXPECT_EQ(MBR_OVER_BUDGET, world.append(one, next_tokens));
    EXPECT_TRUE(world.holds(*one));
    EXPECT_TRUE(world.holds(other));
    EXPECT_TRUE(world.clean());
    EXPECT_EQ(MBR_OK, world.destroy(&other));
    world.settle();
    EXPECT_EQ(MBR_OK, world.append(one, next_tokens));
    EXPECT_EQ(MBR_OK, world.destroy(one));
}

TEST(KvAhead, WhatIsOffered_GoesToWhoeverIsRefusedInTheCache)
{
    AheadWorld world(kPlain, "window-major", 4 * kMiB, kTight);
    Tracked one;
    ASSERT_NO_FATAL_FAILURE(world.offer(&one));
    another_takes_what_is_ready(world, &one, 1);
}

TEST(KvAhead, WhatIsOffered_AnswersTheTicketOfAnotherHolder)
{
    AheadWorld world(kPlain, "window-major", 4 * kMiB, kTight);
    auto holder_request = world.holder_request(MBR_ROLE_WORKSPACE, "another");
    mbr_holder_handle another;
    ASSERT_EQ(
        MBR_OK, mbr_manager_create_holder(world.manager, &holder_request, &another, &world.error));
    Tracked one;
    ASSERT_NO_FATAL_FAILURE(world.offer(&one));
    auto request = sized<mbr_ticket_request>();
    request.holder = another;
    request.bytes = kTight - kExtent; // all but what the sequence needs
    request.timeout_ns = kMs;
    mbr_ticket_handle ticket;
    ASSERT_EQ(
        MBR_OK, mbr_manager_submit_ticket(world.manager, &request, &ticket, nullptr, &world.error))
        << world.error.text;
    EXPECT_EQ(MBR_OK, mbr_manager_claim_ticket(world.manager, ticket, &world.error));
    EXPECT_EQ(0u, world.offered(one));
    EXPECT_EQ(kTight - kExtent, world.paid(another).granted_bytes);
    EXPECT_EQ(MBR_OK, mbr_manager_end_ticket(world.manager, ticket, &world.error));
    EXPECT_EQ(MBR_OK, mbr_manager_return_aside(world.manager, another, nullptr, &world.error));
    EXPECT_TRUE(world.holds(one));
    EXPECT_EQ(MBR_OK, world.destroy(&one));
    EXPECT_TRUE(world.clean());
    ASSERT_EQ(MBR_OK, mbr_manager_destroy_holder(world.manager, another, &world.error));
}

TEST(KvAhead, AllowanceThatIsUsedUp_OffersNothingAndIsToldByTheGrowth)
{
    AheadWorld world;
    auto request = world.holder_request(MBR_ROLE_KV, "narrow");
    request.allowance_bytes = kExtent;
    mbr_holder_handle narrow;
    ASSERT_EQ(MBR_OK, mbr_manager_create_holder(world.manager, &request, &narrow, &world.error))
        << world.error.text;
    auto kv_request = sized<mbr_kv_request>();
    kv_request.binding = world.binding;
    kv_request.holder = narrow;
    kv_request.geometry = kPlain;
    kv_request.max_tokens = 100;
    kv_request.window_tokens = 16;
    kv_request.extent_bytes = kExtent;
    mbr_kv *kv;
    ASSERT_EQ(MBR_OK, mbr_kv_create(world.manager, &kv_request, &kv, &world.error));
    auto sequence_request = sized<mbr_sequence_request>();
    sequence_request.tokens = 10;
    mbr_sequence *one;
    ASSERT_EQ(MBR_OK, mbr_sequence_create(kv, &sequence_request, &one, &world.error));
    for (int i = 0; i < 6; i++) {
        ASSERT_EQ(MBR_OK, mbr_sequence_append(one, 1, nullptr, &world.error));
        world.pass(5);
        world.pass(5);
    }
    EXPECT_EQ(kExtent, world.figures().ahead_bytes); // the cache's
    EXPECT_EQ(kExtent, world.paid(narrow).charged_bytes);
    auto refusal = sized<mbr_refusal>();
    EXPECT_EQ(MBR_OVER_BUDGET, mbr_sequence_append(one, 1, &refusal, &world.error));
    EXPECT_EQ(MBR_REFUSED_ALLOWANCE, refusal.reason);
    EXPECT_EQ(kExtent, world.paid(narrow).charged_bytes);
    ASSERT_EQ(MBR_OK, mbr_sequence_destroy(one, nullptr, 0, &world.error)) << world.error.text;
    world.settle();
    ASSERT_EQ(MBR_OK, mbr_kv_destroy(kv, &world.error)) << world.error.text;
    ASSERT_EQ(MBR_OK, mbr_manager_destroy_holder(world.manager, narrow, &world.error));
    EXPECT_TRUE(world.clean());
}

TEST(KvAhead, SequenceThatEndsWithAnOffer_LeavesNothing)
{
    AheadWorld world;
    Tracked one;
    ASSERT_NO_FATAL_FAILURE(world.offer(&one));
    ASSERT_EQ(MBR_OK, world.destroy(&one));
    world.settle();
    EXPECT_EQ(0u, world.paid(world.holder).charged_bytes);
    EXPECT_TRUE(world.clean());
}

TEST(KvAhead, LentSequence_KeepsWhatItWasOfferedAndIsOfferedNothing)
{
    AheadWorld world;
    Tracked one;
    ASSERT_NO_FATAL_FAILURE(world.offer(&one));
    ASSERT_EQ(16u, world.read(one).capacity_tokens);
    mbr_range_handle range;
    ASSERT_EQ(MBR_OK, mbr_sequence_lend(one.sequence, 0, &range, &world.error));
    EXPECT_EQ(32u, world.read(one).capacity_tokens);
    EXPECT_EQ(0u, world.decode(&one, 16)); // they fit into it
    EXPECT_EQ(0u, world.offered(one));
    for (int i = 0; i < 10; i++)
        world.pass(5);
    EXPECT_EQ(0u, world.offered(one));
    EXPECT_FALSE(world.append_is_quiet(&one, 1));
    world.rest();
    EXPECT_TRUE(world.holds(one));
    EXPECT_EQ(MBR_OK, world.destroy(&one));
    EXPECT_TRUE(world.clean());
}

TEST(KvAhead, WithoutABound_NothingStandsAhead)
{
    AheadWorld world(kPlain, "window-major", 0);
    Tracked one;
    ASSERT_EQ(MBR_OK, world.create(&one, 15));
    EXPECT_NE(0u, world.decode(&one, 100));
    EXPECT_EQ(0u, world.figures().ahead_bytes);
    EXPECT_EQ(MBR_OK, world.destroy(&one));
}

TEST(KvAhead, SequenceThatRests_IsNotLookedAheadOf)
{
    AheadWorld world;
    Tracked one;
    ASSERT_EQ(MBR_OK, world.create(&one, 15));
    world.decode(&one, 30);
    while (world.read(one).capacity_tokens != world.read(one).tokens)
        ASSERT_EQ(MBR_OK, world.append(&one, 1));
    world.pass(1001);
    world.pass(5);
    uint64_t calls = world.calls();
    for (int i = 0; i < 100; i++)
        world.pass(50);
    EXPECT_EQ(calls, world.calls());
    EXPECT_EQ(MBR_OK, world.append(&one, 1)); // which wakes it
    world.decode(&one, 4);
    EXPECT_EQ(0u, world.decode(&one, 100));
    EXPECT_EQ(MBR_OK, world.destroy(&one));
}

// It is looked at in the middle of the growth that wakes it, and has not grown yet.
TEST(KvAhead, GrowthDuringALook_IsNotSleptOver)
{
    AheadWorld world;
    Tracked one;
    ASSERT_EQ(MBR_OK, world.create(&one, 15));
    while (world.read(one).capacity_tokens != world.read(one).tokens)
        ASSERT_EQ(MBR_OK, world.append(&one, 1));
    world.pass(1001);
    world.pass(1001);
    bool polled = false;
    world.meanwhile = [&] {
        polled = true;
        world.pass(5);
    };
    ASSERT_EQ(MBR_OK, world.append(&one, 1));
    EXPECT_TRUE(polled);
    EXPECT_EQ(0u, world.decode(&one, 100)); // its next growth comes when its pace is known
    EXPECT_EQ(MBR_OK, world.destroy(&one));
}

TEST(KvAhead, WhatStands_IsTheCachesAndGoesToWhoeverIsRefused)
{
    AheadWorld world(kPlain, "window-major", 4 * kMiB, kTight);
    Tracked one;
    ASSERT_EQ(MBR_OK, world.create(&one, 10));
    ASSERT_EQ(0u, world.decode(&one, 5));
    ASSERT_EQ(kExtent, world.figures().ahead_bytes);
    EXPECT_EQ(kExtent, world.paid(world.holder).charged_bytes);
    another_takes_what_is_ready(world, &one, 16);
}

TEST(KvAhead, UpToMaxTokens_AndNotBehind)
{
    AheadWorld world;
    Tracked one;
    ASSERT_EQ(MBR_OK, world.create(&one, 380));
    world.decode(&one, 20);
    for (int i = 0; i < 20; i++)
        world.pass(5);
    EXPECT_EQ(0u, world.figures().ahead_bytes);
    EXPECT_EQ(MBR_OK, world.destroy(&one));
}

TEST(KvAhead, CacheThatMapsAhead_PinsItsEpUntilItEnds)
{
    AheadWorld world;
    auto figures = sized<mbr_ep_figures>();
    ASSERT_EQ(MBR_OK, mbr_ep_read(world.manager, world.ep, &figures, &world.error));
    EXPECT_EQ(1u, figures.pin_count);
    auto request = sized<mbr_kv_request>();
    request.binding = world.binding;
    request.holder = world.holder;
    request.geometry = kPlain;
    request.max_tokens = 100;
    mbr_kv *another;
    ASSERT_EQ(MBR_OK, mbr_kv_create(world.manager, &request, &another, &world.error));
    ASSERT_EQ(MBR_OK, mbr_ep_read(world.manager, world.ep, &figures, &world.error));
    EXPECT_EQ(2u, figures.pin_count);
    ASSERT_EQ(MBR_OK, mbr_kv_destroy(another, &world.error));
    ASSERT_EQ(MBR_OK, mbr_ep_read(world.manager, world.ep, &figures, &world.error));
    EXPECT_EQ(1u, figures.pin_count);
}

/* ---- Aliases that a sharer leaves ------------------------------------------------------------ */

TEST(KvAlias, SharerAfterAnEndedOne_CallsNothingInAnyLayout)
{
    in_each_layout([](const char *geometry, const char *layout) {
        AheadWorld world(geometry, layout, 0);
        Tracked source, first, second, third;
        TrackedPrefix prefix;
        ASSERT_EQ(MBR_OK, world.create(&source, 200));
        ASSERT_EQ(MBR_OK, world.share(&source, 200, &prefix)) << world.error.text;
        ASSERT_EQ(MBR_OK, world.create(&first, 230, &prefix, 200, 1));
        ASSERT_EQ(MBR_OK, world.destroy(&first));
        world.settle();
        uint64_t calls = world.calls();
        ASSERT_EQ(MBR_OK, world.create(&second, 230, &prefix, 200, 1));
        EXPECT_EQ(calls, world.calls());
        EXPECT_TRUE(world.holds(second));
        EXPECT_TRUE(world.holds(source));
        ASSERT_EQ(MBR_OK, world.create(&third, 230, &prefix, 150, 2)); // beside it: afresh
        EXPECT_TRUE(world.holds(third));
        EXPECT_TRUE(world.clean());
        ASSERT_EQ(MBR_OK, world.destroy(&second));
        ASSERT_EQ(MBR_OK, world.destroy(&third));
        world.settle();
        // A shorter one takes what it needs; the rest makes room for its own rows.
        ASSERT_EQ(MBR_OK, world.create(&first, 230, &prefix, 120, 1));
        ASSERT_EQ(MBR_OK, world.append(&first, 100));
        EXPECT_TRUE(world.holds(first));
        EXPECT_TRUE(world.holds(source));
        world.end(&prefix);
        EXPECT_TRUE(world.holds(first));
        EXPECT_TRUE(world.clean());
        EXPECT_EQ(MBR_OK, world.destroy(&first));
        EXPECT_EQ(MBR_OK, world.destroy(&source));
    });
}

TEST(KvAlias, TrimToNothing_GivesUpTheAliasesToo)
{
    AheadWorld world(kPlain, "window-major", 0);
    Tracked source, first;
    TrackedPrefix prefix;
    ASSERT_EQ(MBR_OK, world.create(&source, 200));
    ASSERT_EQ(MBR_OK, world.share(&source, 200, &prefix)) << world.error.text;
    world.settle();
    uint64_t mapped = world.figures().mapped_bytes, released = 0;
    ASSERT_EQ(MBR_OK, world.create(&first, 200, &prefix, 200, 1));
    ASSERT_EQ(MBR_OK, world.destroy(&first));
    world.settle();
    EXPECT_LT(mapped, world.figures().mapped_bytes);
    EXPECT_EQ(MBR_OK, mbr_manager_trim(world.manager, world.mechanism, 0, &released, nullptr));
    EXPECT_EQ(mapped, world.figures().mapped_bytes);
    EXPECT_TRUE(world.holds(source));
    world.end(&prefix);
    EXPECT_EQ(MBR_OK, world.destroy(&source));
    EXPECT_TRUE(world.clean());
}

/* One thread maps and adopts ahead, and another is refused and takes back what is offered, while
 * sequences grow, share and end: contents are their own throughout, and the books exact. */
TEST(KvAhead, BesideGrowingSharingAndEnding_NothingOfItShows)
{
    constexpr uint64_t kLimit = 3 * kMiB;
    KvWorld world({kPlain, "window-major", 4000, 16, 16384, MBR_KV_GROWING, 2 * kMiB}, kLimit);
    std::atomic<bool> done{false};
    std::thread refused([&] {
        auto request = sized<mbr_sequence_request>();
        request.tokens = kLimit / 1024 + 1;
        while (!done) {
            mbr_sequence *none;
            EXPECT_EQ(MBR_OVER_BUDGET, mbr_sequence_create(world.kv, &request, &none, nullptr));
        }
    });
    std::atomic<uint64_t> looks{0};
    std::thread poller([&] {
        while (!done) {
            mbr_manager_poll(world.manager);
            looks++;
            std::this_thread::yield();
        }
    });
    auto until_looked = [&] {
        for (uint64_t seen = looks; looks == seen;)
            std::this_thread::yield();
    };
    Tracked source;
    TrackedPrefix prefix;
    ASSERT_EQ(MBR_OK, world.create(&source, 40));
    ASSERT_EQ(MBR_OK, world.share(&source, 40, &prefix));
    for (int life = 0; life < 4; life++) {
        Tracked sharer;
        ASSERT_EQ(MBR_OK, world.create(&sharer, 50, &prefix, 40, 1)) << world.error.text;
        for (int i = 0; i < 60; i++) {
            ASSERT_EQ(MBR_OK, world.append(&sharer, 1 + i % 3));
            ASSERT_EQ(MBR_OK, world.append(&source, 1));
            until_looked();
        }
        EXPECT_TRUE(world.holds(sharer));
        EXPECT_TRUE(world.holds(source));
        ASSERT_EQ(MBR_OK, world.destroy(&sharer));
    }
    done = true;
    poller.join();
    refused.join();
    world.settle();
    auto figures = world.read();
    EXPECT_EQ(figures.committed_bytes + figures.shared_bytes,
        world.paid(world.holder).charged_bytes + world.paid(world.prefix_holder).charged_bytes);
    EXPECT_TRUE(world.clean());
    world.end(&prefix);
    EXPECT_EQ(MBR_OK, world.destroy(&source));
}

} // namespace

} // namespace membrane
