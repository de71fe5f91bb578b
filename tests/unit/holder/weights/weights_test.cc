// Weights residency: contents, what is kept and what passes, hits against the least recently used
// and against the optimum, and what is given under pressure.
#include "tests/support/faulty/failing.h"
#include "tests/unit/holder/soon.h"
#include "tests/unit/holder/weights/weights_world.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <map>
#include <thread>

namespace membrane
{
namespace
{

TEST(Weights, AllFit_EachIsPagedInOnce)
{
    WeightsWorld world(4, 4);
    world.scan(3);
    auto figures = world.read();
    EXPECT_EQ(4u, figures.page_in_count);
    EXPECT_EQ(8u, figures.hit_count);
    EXPECT_EQ(4u, figures.resident_count);
    EXPECT_EQ(0u, figures.passing_count);
    EXPECT_EQ(4 * kItem, world.charged());
}

/* ---- Hits */

/* Page-ins of the optimum: of each sequence the fewest, by trying every victim. Every item has to
 * be there when it is used; `room` of them are there at once. */
uint64_t fewest_page_ins(const std::vector<uint32_t> &uses, uint32_t items, uint32_t room)
{
    std::map<uint32_t, uint64_t> costs = {{0, 0}}; /* by the set that is there */
    for (uint32_t used : uses) {
        std::map<uint32_t, uint64_t> next;
        auto reach = [&](uint32_t set, uint64_t cost) {
            auto at = next.emplace(set, cost).first;
            at->second = std::min(at->second, cost);
        };
        for (const auto &[set, cost] : costs) {
            uint32_t bit = 1U << used;
            if ((set & bit) != 0)
                reach(set, cost);
            else if (static_cast<uint32_t>(__builtin_popcount(set)) < room)
                reach(set | bit, cost + 1);
            else
                for (uint32_t victim = 0; victim < items; victim++)
                    if ((set >> victim & 1U) != 0)
                        reach((set & ~(1U << victim)) | bit, cost + 1);
        }
        costs.swap(next);
    }
    uint64_t fewest = std::numeric_limits<uint64_t>::max();
    for (const auto &[set, cost] : costs)
        fewest = std::min(fewest, cost);
    return fewest;
}

uint64_t lru_page_ins(const std::vector<uint32_t> &uses, uint32_t room)
{
    std::vector<uint32_t> there; /* the oldest first */
    uint64_t page_ins = 0;
    for (uint32_t used : uses) {
        auto at = std::find(there.begin(), there.end(), used);
        if (at != there.end())
            there.erase(at);
        else if (++page_ins != 0 && there.size() == room)
            there.erase(there.begin());
        there.push_back(used);
    }
    return page_ins;
}

std::vector<uint32_t> cyclic(uint32_t items, uint32_t cycles)
{
    std::vector<uint32_t> uses;
    for (uint32_t i = 0; i < items * cycles; i++)
        uses.push_back(i % items);
    return uses;
}

TEST(Weights, CyclicScan_StableHitsNearlyAsOftenAsTheOptimumAndLruNever)
{
    constexpr uint32_t kItems = 10, kCycles = 10;
    for (uint32_t room : {2u, 5u, 9u}) {
        auto uses = cyclic(kItems, kCycles);
        uint64_t best = uses.size() - fewest_page_ins(uses, kItems, room);
        WeightsWorld stable(kItems, room);
        stable.scan(kCycles);
        WeightsWorld lru(kItems, room, mbr_weights_policy_lru(), MBR_WEIGHTS_NO_PASSING);
        lru.scan(kCycles);
        EXPECT_EQ(0u, lru.read().hit_count) << room;
        EXPECT_EQ(uses.size(), lru.read().page_in_count);
        EXPECT_EQ((room - 1) * (kCycles - 1), stable.read().hit_count);
        EXPECT_LE(stable.read().hit_count, best);
        EXPECT_GE(stable.read().hit_count * 100, best * 85)
            << stable.read().hit_count << " of the optimum's " << best;
        RecordProperty(
            "stable_hits_" + std::to_string(room), static_cast<int>(stable.read().hit_count));
        RecordProperty("optimum_hits_" + std::to_string(room), static_cast<int>(best));
    }
}

/* Every sequence of five uses, against the models of both policies and the optimum. */
TEST(Weights, EverySmallSequence_PagesInAsItsPolicySaysAndNeverLessThanTheOptimum)
{
    constexpr uint32_t kItems = 3, kRoom = 2, kLength = 5;
    for (uint32_t code = 0; code < 243; code++) { /* 3^5 */
        std::vector<uint32_t> uses;
        for (uint32_t i = 0, rest = code; i < kLength; i++, rest /= kItems)
            uses.push_back(rest % kItems);
        uint64_t best = fewest_page_ins(uses, kItems, kRoom);
        WeightsWorld stable(kItems, kRoom);
        WeightsWorld lru(kItems, kRoom, mbr_weights_policy_lru(), MBR_WEIGHTS_NO_PASSING);
        for (uint32_t used : uses) {
            stable.touch(used);
            lru.touch(used);
        }
        uint64_t kept = uses[0], page_ins = 1; /* one is kept, one comes in passing */
        for (size_t i = 1; i < uses.size(); i++)
            page_ins += uses[i] != kept;
        EXPECT_EQ(page_ins, stable.read().page_in_count) << code;
        EXPECT_EQ(lru_page_ins(uses, kRoom), lru.read().page_in_count) << code;
        EXPECT_GE(stable.read().page_in_count, best);
        EXPECT_GE(lru.read().page_in_count, best);
    }
}

TEST(Weights, PolicyOfTheClients_DecidesAndItsMistakesAreNotFollowed)
{
    struct Choice {
        uint32_t victim = 0;
        uint32_t asked = 0;
    } choice;
    auto policy = sized<mbr_weights_policy>();
    policy.context = &choice;
    policy.victim = [](void *self, const mbr_weight_view *, uint32_t, uint32_t) {
        auto *it = static_cast<Choice *>(self);
        it->asked++;
        return it->victim;
    };
    WeightsWorld world(3, 2, &policy, MBR_WEIGHTS_NO_PASSING);
    world.touch(0);
    world.touch(1);
    world.touch(2); /* for which 0 goes */
    EXPECT_EQ(1u, choice.asked);
    EXPECT_EQ(2u, world.read().resident_count);
    world.touch(1);
    EXPECT_EQ(1u, world.read().hit_count);
    for (uint32_t wrong : {0u, 7u, MBR_WEIGHTS_NONE}) { /* not resident, unknown, none */
        choice.victim = wrong;
        uint64_t address;
        EXPECT_EQ(MBR_BUSY, world.use(0, &address)) << "nothing is kept for those in passing";
        EXPECT_EQ(0u, mbr_weights_give(world.weights, kItem));
    }
}

/* ---- Uses */

TEST(Weights, ItemsInUseFillTheBudget_IsBusyUntilOneEnds)
{
    WeightsWorld world(4, 2);
    uint64_t first, second, third;
    ASSERT_EQ(MBR_OK, world.use(0, &first));
    ASSERT_EQ(MBR_OK, world.use(1, &second));
    EXPECT_EQ(MBR_BUSY, world.use(2, &third));
    EXPECT_EQ(0u, third);
    EXPECT_EQ(MBR_IN_USE, mbr_weights_destroy(world.weights, &world.error));
    EXPECT_EQ(MBR_OUT_OF_RANGE, world.use(4, &third));
    world.done(1);
    ASSERT_EQ(MBR_OK, world.use(2, &third)) << world.error.text;
    EXPECT_TRUE(world.holds(0, first) && world.holds(2, third));
    world.done(0);
    world.done(2);
    EXPECT_EQ(1u, world.read().resident_count);
    EXPECT_EQ(2u, world.read().passing_count);
}

TEST(Weights, AnotherStream_SeesWhatTheFirstHasPagedIn)
{
    WeightsWorld world(2, 2);
    mbr_stream_handle other = world.attach();
    uint64_t here, there;
    {
        Gate gate(world);
        ASSERT_EQ(MBR_OK, world.use(0, &here));
        std::thread later([&] { gate.open(); });
        ASSERT_EQ(MBR_OK, mbr_weights_use(world.weights, 0, other, &there, nullptr, &world.error));
        later.join();
    }
    EXPECT_EQ(here, there);
    EXPECT_EQ(world.sources[0], world.get(there, kItem)) << "it was waited for";
    mbr_weights_done(world.weights, 0, other);
    world.done(0);
    EXPECT_EQ(1u, world.read().page_in_count);
}

TEST(Weights, MoreStreamsThanItRemembers_ForgetNoneWhoseWorkRuns)
{
    WeightsWorld world(1, 1);
    mbr_graph_handle graph;
    world.touch(0);
    mbr_stream_handle streams[4];
    for (auto &stream : streams)
        stream = world.attach();
    ASSERT_EQ(MBR_OK, world.use_on(streams[0], 0)) << "what paged it in is waited for";
    mbr_weights_done(world.weights, 0, streams[0]);
    {
        Gate gate(world);
        ASSERT_EQ(MBR_OK, world.use_on(world.stream, 0));
        for (int i = 0; i < 3; i++)
            ASSERT_EQ(MBR_OK, world.use_on(streams[i], 0)) << world.error.text;
        EXPECT_EQ(MBR_BUSY, world.use_on(streams[3], 0)) << "four uses, four streams";
        EXPECT_EQ(1u, world.read().used_count);
        world.done(0);
        for (int i = 0; i < 3; i++)
            mbr_weights_done(world.weights, 0, streams[i]);
        ASSERT_EQ(MBR_OK, mbr_ep_capture_begin(world.manager, streams[0], kNever, &world.error));
        EXPECT_EQ(MBR_BUSY, world.use_on(streams[3], 0)) << "nobody can tell what is done";
        EXPECT_EQ(0u, world.read().used_count);
        ASSERT_EQ(MBR_OK, mbr_ep_capture_end(world.manager, streams[0], &graph, &world.error));
        EXPECT_EQ(0u, mbr_weights_could_give(world.weights, kItem)) << "the first stream's work";
    }
    EXPECT_EQ(MBR_OK, world.use_on(streams[3], 0)) << world.error.text;
    mbr_weights_done(world.weights, 0, streams[3]);
    EXPECT_EQ(MBR_OK, mbr_ep_graph_retire(world.manager, graph, nullptr, 0, &world.error));
    EXPECT_EQ(
        kItem, given_soon(kItem, [&](uint64_t n) { return mbr_weights_give(world.weights, n); }));
}

TEST(Weights, WrongRequests_AreRefused)
{
    WeightsWorld world(2, 2);
    mbr_weights *other;
    auto create = [&](const mbr_weights_request &request) {
        return mbr_weights_create(world.manager, &request, &other, &world.error);
    };
    EXPECT_EQ(MBR_OUT_OF_RANGE, create(world.request(kItem - 1)));
    auto request = world.request(kItem);
    request.passing_bytes = kItem + 1;
    EXPECT_EQ(MBR_OUT_OF_RANGE, create(request));
    request = world.request(kItem);
    auto policy = sized<mbr_weights_policy>();
    request.policy = &policy;
    EXPECT_EQ(MBR_INVALID_ARGUMENT, create(request)) << "no victim";
    policy = *mbr_weights_policy_lru();
    policy.struct_size = 8;
    EXPECT_EQ(MBR_INVALID_ARGUMENT, create(request)) << "the victim is past its end";
    request = world.request(kItem);
    request.item_count = 0;
    EXPECT_EQ(MBR_OUT_OF_RANGE, create(request));
    world.described[1].bytes = 0;
    EXPECT_EQ(MBR_INVALID_ARGUMENT, create(world.request(kItem)));
    world.described[1].bytes = UINT64_MAX;
    EXPECT_EQ(MBR_OVERFLOW, create(world.request(kItem)));
}

/* ---- Pressure */

TEST(Weights, AskedForBytes_GivesWhatNobodyUsesAndNothingInFlight)
{
    WeightsWorld world(4, 4);
    world.scan(1);
    uint64_t address;
    ASSERT_EQ(MBR_OK, world.use(0, &address));
    EXPECT_EQ(3 * kItem,
        soon(3 * kItem, [&] { return mbr_weights_could_give(world.weights, UINT64_MAX); }));
    EXPECT_EQ(kItem / 2,
        soon(kItem / 2, [&] { return mbr_weights_could_give(world.weights, kItem / 2); }));
    EXPECT_EQ(kItem, given_soon(kItem / 2, [&](uint64_t n) {
        return mbr_weights_give(world.weights, n);
    })) << "whole items";
    EXPECT_EQ(3 * kItem, world.charged());
    {
        Gate gate(world);
        ASSERT_EQ(MBR_OK, world.use(1, &address)); /* of work under way */
        ASSERT_EQ(MBR_OK, mbr_ep_fill(world.manager, world.stream, address, 2, kItem, nullptr));
        world.done(1);
        world.done(0);
        EXPECT_EQ(0u, mbr_weights_could_give(world.weights, UINT64_MAX));
        EXPECT_EQ(0u, mbr_weights_give(world.weights, UINT64_MAX));
        EXPECT_EQ(3 * kItem, world.charged());
    }
    ASSERT_EQ(MBR_OK, mbr_ep_synchronize(world.manager, world.stream, kNever, &world.error));
    EXPECT_EQ(3 * kItem,
        soon(3 * kItem, [&] { return mbr_weights_could_give(world.weights, UINT64_MAX); }));
    EXPECT_EQ(3 * kItem,
        given_soon(3 * kItem, [&](uint64_t n) { return mbr_weights_give(world.weights, n); }));
    EXPECT_EQ(0u, world.charged());
    EXPECT_TRUE(world.clean());
    world.scan(1);
}

TEST(Weights, FirstToGoIsInFlight_TheOthersAreGivenAllTheSame)
{
    WeightsWorld world(4, 4);
    world.scan(1);
    mbr_stream_handle other = world.attach();
    Gate gate(world, world.others[0].first);
    ASSERT_EQ(MBR_OK, world.use_on(other, 3));
    mbr_weights_done(world.weights, 3, other);
    EXPECT_EQ(3 * kItem,
        soon(3 * kItem, [&] { return mbr_weights_could_give(world.weights, UINT64_MAX); }));
    EXPECT_EQ(3 * kItem,
        given_soon(3 * kItem, [&](uint64_t n) { return mbr_weights_give(world.weights, n); }));
    EXPECT_EQ(0u, mbr_weights_give(world.weights, kItem));
    EXPECT_EQ(kItem, world.charged());
}

TEST(Weights, LedgerFullAndVictimsInFlight_NoMoreGoThanAreNeeded)
{
    WeightsWorld world(4, 4, nullptr, 0, 8 * kMiB);
    world.sources.emplace_back(2 * kItem, 9); /* no span of a victim serves it by itself */
    world.described.push_back(
        {reinterpret_cast<uint64_t>(world.sources[4].data()), world.sources[4].size()});
    auto request = world.request(6 * kItem);
    mbr_weights *mixed;
    ASSERT_EQ(MBR_OK, mbr_weights_create(world.manager, &request, &mixed, &world.error));
    std::swap(mixed, world.weights);
    for (uint32_t i = 0; i < 4; i++)
        world.touch(i);
    auto hog = world.reserve(8 * kMiB, 64 * 1024);
    ASSERT_EQ(MBR_OK, mbr_manager_trim(world.manager, world.mechanism, 0, nullptr, &world.error));
    ASSERT_EQ(MBR_OK, world.grow(hog.range, 0, 8 * kMiB - world.books().charged_bytes));
    {
        Gate gate(world);
        EXPECT_EQ(MBR_BUSY, world.use_on(world.stream, 4)) << world.error.text;
        EXPECT_EQ(2u, world.read().resident_count) << "two of them are as large as it is";
    }
    ASSERT_EQ(MBR_OK, world.drain());
    EXPECT_EQ(MBR_OK, world.use_on(world.stream, 4)) << world.error.text;
    EXPECT_EQ(3u, world.read().resident_count);
    world.done(4);
    ASSERT_EQ(MBR_OK, world.release(hog.range));
    EXPECT_EQ(MBR_OK, mbr_weights_destroy(mixed, &world.error));
}

TEST(Weights, LedgerTakenByOthers_PagesThroughWhatIsLeft)
{
    WeightsWorld world(6, 6, nullptr, 0, 6 * kMiB);
    world.scan(1);
    auto hog = world.reserve(6 * kMiB, 64 * 1024);
    EXPECT_EQ(4 * kItem,
        given_soon(4 * kItem, [&](uint64_t n) { return mbr_weights_give(world.weights, n); }));
    uint64_t room = 6 * kMiB - world.books().charged_bytes;
    ASSERT_EQ(MBR_OK, mbr_manager_trim(world.manager, world.mechanism, 0, nullptr, &world.error));
    room = 6 * kMiB - world.books().charged_bytes;
    ASSERT_EQ(MBR_OK, world.grow(hog.range, 0, room)) << world.error.text;
    world.scan(2); /* two of six have room */
    EXPECT_EQ(6u, world.read().item_count);
    EXPECT_TRUE(world.clean());
    ASSERT_EQ(MBR_OK, world.release(hog.range));
}

/* ---- Faults and threads */

TEST(WeightsFault, EachCallOfAScan_FailsOnceAndTheNextUseWorks)
{
    uint64_t met = 0;
    bool more = true;
    for (uint64_t nth = 1; more && !::testing::Test::HasFailure(); nth++) {
        FailingHeap heap;
        mbr_manager_seams seams = {&heap.heap, nullptr, nullptr, nullptr, nullptr};
        {
            WeightsWorld world(4, 2, nullptr, 0, 64 * kMiB, &seams);
            heap.fail_at = heap.calls + nth;
            more = false;
            for (uint32_t i = 0; i < 8; i++) {
                uint64_t address;
                auto before = world.read();
                mbr_status status = world.use(i % 4, &address);
                if (status != MBR_OK) {
                    more = true;
                    EXPECT_EQ(MBR_OUT_OF_HOST_MEMORY, status) << world.error.text;
                    EXPECT_EQ(before.loaded_bytes, world.read().loaded_bytes);
                    EXPECT_EQ(before.resident_bytes, world.read().resident_bytes);
                    status = world.use(i % 4, &address);
                }
                ASSERT_EQ(MBR_OK, status) << world.error.text;
                EXPECT_TRUE(world.holds(i % 4, address));
                world.done(i % 4);
            }
            more |= heap.calls >= std::exchange(heap.fail_at, 0);
            EXPECT_TRUE(world.clean());
        }
        EXPECT_EQ(0, heap.live);
        met += more;
    }
    EXPECT_LT(1u, met);
}

TEST(WeightsFault, SlotsFail_TheUseIsRefusedAndTheNextOneWorks)
{
    for (uint32_t slot : {FAULTY_RESERVE, FAULTY_EXTENT_CREATE, FAULTY_MAP, FAULTY_PROTECT}) {
        Faulty faulty;
        WeightsWorld world(3, 2, nullptr, 0, 64 * kMiB, nullptr,
            "tests/support/libmembrane-faulty.so", faulty.options());
        faulty.fail(slot, 1);
        uint64_t address;
        EXPECT_EQ(MBR_SYSTEM, world.use(0, &address)) << slot;
        EXPECT_EQ(0u, world.read().loaded_bytes);
        EXPECT_EQ(0u, world.charged());
        EXPECT_TRUE(faulty.stop());
        world.scan(2);
        EXPECT_TRUE(world.clean());
    }
}

TEST(Weights, ThreadsThatScanAndPress_SeeTheirItemsAlone)
{
    constexpr uint32_t kItems = 6;
    WeightsWorld world(kItems, 5, nullptr, 3 * kItem);
    std::atomic<bool> done{false};
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (uint32_t t = 0; t < 2; t++)
        threads.emplace_back([&, t] {
            for (uint32_t i = 0; i < 40; i++) {
                uint32_t index = (i + 3 * t) % kItems;
                uint64_t address;
                mbr_status status =
                    mbr_weights_use(world.weights, index, world.stream, &address, nullptr, nullptr);
                if (status == MBR_BUSY)
                    continue;
                wrong += status != MBR_OK ||
                    mbr_ep_synchronize(world.manager, world.stream, kNever, nullptr) != MBR_OK ||
                    world.get(address, kItem) != world.sources[index];
                mbr_weights_done(world.weights, index, world.stream);
            }
        });
    std::thread presser([&] {
        while (!done.load())
            mbr_weights_give(world.weights, mbr_weights_could_give(world.weights, kItem));
    });
    for (auto &thread : threads)
        thread.join();
    done = true;
    presser.join();
    EXPECT_EQ(0, wrong.load());
    EXPECT_EQ(0u, world.read().used_count);
    EXPECT_LE(world.read().loaded_bytes, 5 * kItem);
    EXPECT_TRUE(world.clean());
}

} // namespace
} // namespace membrane
