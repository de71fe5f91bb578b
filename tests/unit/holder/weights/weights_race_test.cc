// Weights, and what other threads do to them at exactly the moment when a call waits for a stream.
#include "tests/unit/holder/meanwhile.h"
#include "tests/unit/holder/soon.h"
#include "tests/unit/holder/weights/weights_world.h"

#include <thread>

namespace membrane
{
namespace
{

/* The first items, over an EP whose waits act. */
mbr_weights *watched_weights(
    WeightsWorld &world, const Meanwhile &meanwhile, uint32_t item_count = 1)
{
    mbr_weights *watched = nullptr;
    auto request = world.request(item_count * kItem);
    request.item_count = item_count;
    request.binding = meanwhile.binding;
    EXPECT_EQ(MBR_OK, mbr_weights_create(world.manager, &request, &watched, &world.error))
        << world.error.text;
    return watched;
}

/* Both of them wait for the same stream to have its place, and the place has another one's name
 * once the first has taken it. */
TEST(Weights, TwoUsesWaitForOnePlace_TheSecondForgetsNobodyElses)
{
    WeightsWorld world(1, 1);
    SKIP_WITHOUT_CPU_EP(world);
    Meanwhile meanwhile(world);
    mbr_weights *watched = watched_weights(world, meanwhile);
    auto use = [&](mbr_stream_handle on) {
        uint64_t address;
        EXPECT_EQ(MBR_OK, mbr_weights_use(watched, 0, on, &address, nullptr, nullptr));
    };
    mbr_stream_handle others[] = {meanwhile.attach(), meanwhile.attach()};
    mbr_stream_handle late[] = {meanwhile.attach(), meanwhile.attach()}, busy = meanwhile.attach();
    Gate gate(world, meanwhile.streams.back().first);
    for (mbr_stream_handle on : {meanwhile.stream, others[0], others[1]}) {
        use(on);
        mbr_weights_done(watched, 0, on);
    }
    use(busy); /* the last place, which the one that is free gets */
    std::promise<void> inside, on_its_way;
    std::thread second;
    meanwhile.in_next_wait([&] {
        meanwhile.in_next_wait([&] {
            inside.set_value();
            on_its_way.get_future().wait();
        });
        second = std::thread([&] { use(late[1]); });
        inside.get_future().wait();
        meanwhile.in_next_wait([&] { /* for the same place again, after the second's use began */
            on_its_way.set_value();
            second.join();
        });
    });
    use(late[0]);
    for (mbr_stream_handle on : {late[0], late[1], busy})
        mbr_weights_done(watched, 0, on);
    EXPECT_EQ(0u, mbr_weights_could_give(watched, kItem)) << "work on the last place's runs";
    gate.open();
    EXPECT_EQ(kItem, given_soon(kItem, [&](uint64_t n) { return mbr_weights_give(watched, n); }));
    EXPECT_EQ(MBR_OK, mbr_weights_destroy(watched, &world.error)) << world.error.text;
}

TEST(Weights, DestroyedWhileItLooksWhatToGive_WaitsForTheLook)
{
    WeightsWorld world(1, 1);
    SKIP_WITHOUT_CPU_EP(world);
    Meanwhile meanwhile(world);
    mbr_weights *watched = watched_weights(world, meanwhile);
    uint64_t address;
    ASSERT_EQ(
        MBR_OK, mbr_weights_use(watched, 0, meanwhile.stream, &address, nullptr, &world.error));
    mbr_weights_done(watched, 0, meanwhile.stream);
    std::future<mbr_status> destroyed;
    meanwhile.be_patient(); /* it looks at who paged it in, and at who used it */
    meanwhile.in_next_wait(
        [&] { destroyed = call_meanwhile([&] { return mbr_weights_destroy(watched, nullptr); }); });
    EXPECT_EQ(kItem, mbr_weights_could_give(watched, kItem));
    EXPECT_EQ(MBR_OK, destroyed.get());
}

/* Layers that are used in turns on two streams, say. */
TEST(Weights, ItemsOfTwoBusyStreams_EachStreamIsWaitedForOnce)
{
    WeightsWorld world(6, 6);
    SKIP_WITHOUT_CPU_EP(world);
    Meanwhile meanwhile(world);
    mbr_weights *watched = watched_weights(world, meanwhile, 6);
    mbr_stream_handle streams[] = {meanwhile.stream, meanwhile.attach()};
    {
        Gate first(world, meanwhile.streams[0].first), second(world, meanwhile.streams[1].first);
        for (uint32_t i = 0; i < 6; i++) {
            uint64_t address;
            ASSERT_EQ(MBR_OK,
                mbr_weights_use(watched, i, streams[i % 2], &address, nullptr, &world.error));
            mbr_weights_done(watched, i, streams[i % 2]);
        }
        uint64_t before = Meanwhile::waits();
        EXPECT_EQ(0u, mbr_weights_could_give(watched, UINT64_MAX));
        EXPECT_EQ(before + 2, Meanwhile::waits());
        EXPECT_EQ(0u, mbr_weights_give(watched, UINT64_MAX));
        EXPECT_EQ(before + 4, Meanwhile::waits());
    }
    EXPECT_EQ(
        6 * kItem, given_soon(6 * kItem, [&](uint64_t n) { return mbr_weights_give(watched, n); }));
    EXPECT_EQ(MBR_OK, mbr_weights_destroy(watched, &world.error)) << world.error.text;
}

} // namespace
} // namespace membrane
