// Copies that a library keeps: granted before they are made, declined where there is no room, and
// dropped when somebody else wants the bytes and nobody uses them.
#include "tests/support/faulty/failing.h"
#include "tests/unit/bind/host_world.h"
#include "tests/unit/holder/meanwhile.h"
#include "tests/unit/holder/soon.h"

#include <atomic>
#include <map>
#include <set>
#include <thread>

namespace membrane
{
namespace
{

class CacheWorld : public HostWorld
{
  public:
    explicit CacheWorld(uint64_t limit = 8 * kMiB, const mbr_manager_seams *seams = nullptr)
        : HostWorld(limit, seams)
    {
        auto payer = holder_request(MBR_ROLE_CACHE, "kernel caches");
        payer.pressed.ask = [](void *self, const mbr_pressure *pressure) {
            auto *world = static_cast<CacheWorld *>(self);
            return world->cache == nullptr
                ? 0
                : mbr_kernel_cache_could_give(world->cache, pressure->bytes);
        };
        payer.pressed.give = [](void *self, const mbr_pressure *, uint64_t bytes) {
            mbr_kernel_cache_give(static_cast<CacheWorld *>(self)->cache, bytes);
        };
        payer.pressed.context = this;
        EXPECT_EQ(MBR_OK, mbr_manager_create_holder(manager, &payer, &caches, &error))
            << error.text;
        auto request = sized<mbr_kernel_cache_request>();
        request.holder = caches;
        request.drop = [](void *self, uint64_t key) {
            static_cast<CacheWorld *>(self)->dropped.insert(key);
        };
        request.context = this;
        EXPECT_EQ(MBR_OK, mbr_kernel_cache_create(manager, &request, &cache, &error)) << error.text;
    }
    ~CacheWorld()
    {
        EXPECT_EQ(MBR_OK, mbr_kernel_cache_destroy(cache, &error)) << error.text;
        EXPECT_EQ(MBR_OK, mbr_manager_destroy_holder(manager, caches, &error)) << error.text;
    }

    mbr_holder_handle caches = {0};
    mbr_kernel_cache *cache = nullptr;
    std::multiset<uint64_t> dropped;
    mbr_refusal refusal = sized<mbr_refusal>();

    mbr_status declare(uint64_t key, uint64_t bytes)
    {
        return mbr_kernel_cache_declare(cache, key, bytes, &refusal, &error);
    }
    void make(uint64_t key, uint64_t bytes)
    {
        EXPECT_EQ(MBR_OK, declare(key, bytes)) << error.text;
        mbr_kernel_cache_release(cache, key, {0});
    }
    uint64_t granted()
    {
        auto figures = paid(caches);
        EXPECT_EQ(0u, figures.charged_bytes) << "no mechanism gave them";
        return figures.granted_bytes;
    }
    mbr_kernel_cache_figures read()
    {
        auto figures = sized<mbr_kernel_cache_figures>();
        mbr_kernel_cache_read(cache, &figures);
        return figures;
    }
};

TEST(KernelCache, Declared_TakesItsBytesFromTheBudgetUntilItIsWithdrawn)
{
    CacheWorld world;
    ASSERT_EQ(MBR_OK, world.declare(1, 3 * kMiB));
    EXPECT_EQ(3 * kMiB, world.granted());
    EXPECT_EQ(3 * kMiB, world.books().claimed_bytes);
    EXPECT_EQ(MBR_ALREADY_EXISTS, world.declare(1, kMiB));
    EXPECT_EQ(MBR_INVALID_ARGUMENT, world.declare(2, 0));
    EXPECT_EQ(
        MBR_INVALID_ARGUMENT, mbr_kernel_cache_correct(world.cache, 1, 0, nullptr, &world.error));
    EXPECT_EQ(3 * kMiB, world.granted());
    EXPECT_EQ(MBR_OK, mbr_kernel_cache_correct(world.cache, 1, 2 * kMiB, nullptr, &world.error));
    EXPECT_EQ(2 * kMiB, world.granted());
    EXPECT_EQ(MBR_OK, mbr_kernel_cache_use(world.cache, 1, &world.error));
    EXPECT_EQ(MBR_BUSY, mbr_kernel_cache_withdraw(world.cache, 1, &world.error));
    mbr_kernel_cache_release(world.cache, 1, {0});
    EXPECT_TRUE(world.clean());
    EXPECT_EQ(MBR_IN_USE, mbr_kernel_cache_destroy(world.cache, &world.error));
    EXPECT_EQ(MBR_OK, mbr_kernel_cache_withdraw(world.cache, 1, &world.error));
    EXPECT_EQ(0u, world.granted());
    EXPECT_TRUE(world.dropped.empty()) << "its own maker freed it";
    EXPECT_EQ(MBR_UNKNOWN_OBJECT, mbr_kernel_cache_withdraw(world.cache, 1, &world.error));
    EXPECT_EQ(MBR_UNKNOWN_OBJECT, mbr_kernel_cache_use(world.cache, 1, &world.error));
    EXPECT_EQ(
        MBR_UNKNOWN_OBJECT, mbr_kernel_cache_correct(world.cache, 1, kMiB, nullptr, &world.error));
    EXPECT_EQ(0u, world.granted());
}

TEST(KernelCache, WithoutRoom_IsDeclinedWithFiguresAndNothingChanges)
{
    CacheWorld world(4 * kMiB);
    auto range = world.reserve(4 * kMiB, 64 * 1024);
    ASSERT_EQ(MBR_OK, world.grow(range.range, 0, 3 * kMiB));
    EXPECT_EQ(MBR_OVER_BUDGET, world.declare(1, 2 * kMiB));
    EXPECT_EQ(2 * kMiB, world.refusal.asked_bytes);
    EXPECT_EQ(kMiB, world.refusal.available_bytes);
    EXPECT_EQ(0u, world.granted());
    EXPECT_EQ(1u, world.read().declined_count);
    EXPECT_EQ(0u, world.read().entry_count);
    ASSERT_EQ(MBR_OK, world.declare(1, kMiB));
    EXPECT_EQ(
        MBR_OVER_BUDGET, mbr_kernel_cache_correct(world.cache, 1, 2 * kMiB, nullptr, &world.error))
        << "more than was said";
    EXPECT_EQ(kMiB, world.granted());
    EXPECT_EQ(MBR_OK, mbr_kernel_cache_correct(world.cache, 1, kMiB / 2, nullptr, &world.error))
        << "less needs no room";
    EXPECT_EQ(MBR_OK, mbr_kernel_cache_correct(world.cache, 1, kMiB, nullptr, &world.error))
        << "nor does what there is";
    EXPECT_EQ(kMiB, world.granted());
    mbr_kernel_cache_release(world.cache, 1, {0});
    EXPECT_EQ(MBR_OK, world.release(range.range));
}

TEST(KernelCache, GrowthThatNeedsItsBytes_DropsTheLeastRecentlyUsed)
{
    CacheWorld world(8 * kMiB);
    for (uint64_t key = 1; key <= 4; key++)
        world.make(key, kMiB);
    ASSERT_EQ(MBR_OK, mbr_kernel_cache_use(world.cache, 1, &world.error));
    mbr_kernel_cache_release(world.cache, 1, {0});
    ASSERT_EQ(MBR_OK, mbr_kernel_cache_use(world.cache, 2, &world.error)); /* in use */
    auto range = world.reserve(8 * kMiB, 64 * 1024);
    ASSERT_EQ(MBR_OK, world.grow(range.range, 0, 6 * kMiB)) << world.error.text;
    EXPECT_EQ((std::multiset<uint64_t>{3, 4}), world.dropped);
    EXPECT_EQ(2 * kMiB, world.granted());
    EXPECT_EQ(MBR_OVER_BUDGET, world.grow(range.range, 0, 8 * kMiB))
        << "2 MiB, and 1 of it is used";
    mbr_kernel_cache_release(world.cache, 2, {0});
    EXPECT_EQ(MBR_OK, world.grow(range.range, 0, 8 * kMiB)) << world.error.text;
    EXPECT_EQ(0u, world.granted());
    EXPECT_EQ(MBR_UNKNOWN_OBJECT, mbr_kernel_cache_use(world.cache, 2, nullptr));
    EXPECT_TRUE(world.clean());
    EXPECT_EQ(MBR_OK, world.release(range.range));
}

TEST(KernelCache, StreamOfTheLastUseStillWorks_GivesNothing)
{
    CacheWorld world;
    ASSERT_EQ(MBR_OK, world.declare(1, kMiB));
    world.make(2, kMiB);
    {
        Gate gate(world);
        mbr_kernel_cache_release(world.cache, 1, world.stream);
        EXPECT_EQ(kMiB, mbr_kernel_cache_could_give(world.cache, 8 * kMiB));
        EXPECT_EQ(kMiB, mbr_kernel_cache_give(world.cache, 8 * kMiB));
        EXPECT_EQ((std::multiset<uint64_t>{2}), world.dropped);
    }
    EXPECT_EQ(kMiB / 2, soon(kMiB / 2, [&] {
        return mbr_kernel_cache_could_give(world.cache, kMiB / 2);
    })) << "no more than asked";
    EXPECT_EQ(kMiB, given_soon(kMiB / 2, [&](uint64_t n) {
        return mbr_kernel_cache_give(world.cache, n);
    })) << "whole copies";
    EXPECT_EQ(0u, world.granted());
}

TEST(KernelCache, WorkOfAnEarlierReleaseGoesOn_GivesNothing)
{
    CacheWorld world;
    ASSERT_EQ(MBR_OK, world.declare(1, kMiB));
    for (int i = 0; i < 6; i++)
        ASSERT_EQ(MBR_OK, mbr_kernel_cache_use(world.cache, 1, &world.error));
    std::vector<mbr_native> natives;
    std::vector<mbr_stream_handle> others;
    {
        Gate gate(world);
        mbr_kernel_cache_release(world.cache, 1, world.stream);
        for (int i = 0; i < 5; i++) {
            natives.push_back(world.make_stream());
            others.push_back({0});
            ASSERT_EQ(MBR_OK,
                mbr_ep_attach_stream(
                    world.manager, world.ep, natives.back(), &others.back(), &world.error));
            mbr_kernel_cache_release(world.cache, 1, others.back());
        }
        mbr_kernel_cache_release(world.cache, 1, {0});
        EXPECT_EQ(0u, world.read().used_count);
        EXPECT_EQ(0u, mbr_kernel_cache_could_give(world.cache, kMiB));
        EXPECT_EQ(0u, mbr_kernel_cache_give(world.cache, kMiB)) << "the first one works";
    }
    EXPECT_EQ(kMiB, soon(kMiB, [&] { return mbr_kernel_cache_could_give(world.cache, kMiB); }));
    for (size_t i = 0; i < others.size(); i++) {
        ASSERT_EQ(MBR_OK, mbr_ep_detach_stream(world.manager, others[i], &world.error));
        world.end_stream(natives[i]);
    }
    EXPECT_EQ(kMiB, mbr_kernel_cache_give(world.cache, kMiB)) << "they were seen to be done";
}

TEST(KernelCache, UsedWhileItLooksWhatToGive_Stays)
{
    CacheWorld world;
    SKIP_WITHOUT_CPU_EP(world);
    Meanwhile meanwhile(world);
    ASSERT_EQ(MBR_OK, world.declare(1, kMiB));
    mbr_kernel_cache_release(world.cache, 1, meanwhile.stream);
    auto use_again = [&] {
        EXPECT_EQ(MBR_OK, mbr_kernel_cache_use(world.cache, 1, &world.error));
        mbr_kernel_cache_release(world.cache, 1, meanwhile.stream);
    };
    meanwhile.in_next_wait(use_again);
    EXPECT_EQ(0u, mbr_kernel_cache_give(world.cache, kMiB)) << "the look was before the use";
    meanwhile.in_next_wait([&] {
        use_again();
        meanwhile.in_next_wait(use_again); /* another walk comes in between, and sees it, too */
        EXPECT_EQ(0u, mbr_kernel_cache_give(world.cache, kMiB));
    });
    EXPECT_EQ(0u, mbr_kernel_cache_give(world.cache, kMiB));
    EXPECT_TRUE(world.dropped.empty());
    EXPECT_EQ(
        kMiB, given_soon(kMiB, [&](uint64_t n) { return mbr_kernel_cache_give(world.cache, n); }));
}

TEST(KernelCache, DestroyedWhileItLooksWhatToGive_WaitsForTheLook)
{
    CacheWorld world;
    SKIP_WITHOUT_CPU_EP(world);
    Meanwhile meanwhile(world);
    auto request = sized<mbr_kernel_cache_request>();
    request.holder = world.caches;
    request.drop = [](void *, uint64_t) {};
    mbr_kernel_cache *watched;
    ASSERT_EQ(MBR_OK, mbr_kernel_cache_create(world.manager, &request, &watched, &world.error));
    ASSERT_EQ(MBR_OK, mbr_kernel_cache_declare(watched, 1, kMiB, nullptr, &world.error));
    mbr_kernel_cache_release(watched, 1, meanwhile.stream);
    std::future<mbr_status> destroyed;
    meanwhile.in_next_wait([&] {
        destroyed = call_meanwhile([&] { return mbr_kernel_cache_destroy(watched, nullptr); });
    });
    EXPECT_EQ(kMiB, mbr_kernel_cache_could_give(watched, kMiB));
    EXPECT_EQ(MBR_OK, destroyed.get());
    EXPECT_EQ(0u, world.granted());
}

TEST(KernelCache, CorrectedByTwoAtOnce_IsBusyAtMostAndNoByteIsLost)
{
    CacheWorld world;
    ASSERT_EQ(MBR_OK, world.declare(1, kMiB));
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (uint64_t t = 0; t < 2; t++)
        threads.emplace_back([&, t] {
            for (uint64_t i = 1; i <= 2000; i++) {
                mbr_status status =
                    mbr_kernel_cache_correct(world.cache, 1, 2 * i + t, nullptr, nullptr);
                wrong += status != MBR_OK && status != MBR_BUSY;
            }
        });
    for (auto &thread : threads)
        thread.join();
    EXPECT_EQ(0, wrong.load());
    EXPECT_EQ(world.read().declared_bytes, world.granted());
    mbr_kernel_cache_release(world.cache, 1, {0});
}

TEST(KernelCache, ReleasedOnceTooOften_Ends)
{
    CacheWorld world;
    world.make(1, kMiB);
    EXPECT_DEATH(mbr_kernel_cache_release(world.cache, 1, {0}), "user_count != 0");
    EXPECT_DEATH(mbr_kernel_cache_release(world.cache, 2, {0}), "user_count != 0");
}

TEST(KernelCache, StreamWithoutAPlaceInTheHeap_KeepsTheCopy)
{
    FailingHeap heap;
    mbr_manager_seams seams = {&heap.heap, nullptr, nullptr, nullptr, nullptr};
    {
        CacheWorld world(8 * kMiB, &seams);
        ASSERT_EQ(MBR_OK, world.declare(1, kMiB));
        heap.fail_at = heap.calls + 1;
        mbr_kernel_cache_release(world.cache, 1, world.stream);
        EXPECT_EQ(0u, mbr_kernel_cache_give(world.cache, kMiB));
        EXPECT_EQ(MBR_OK, mbr_kernel_cache_use(world.cache, 1, &world.error));
        EXPECT_EQ(MBR_OK, mbr_kernel_cache_withdraw(world.cache, 1, &world.error));
    }
    EXPECT_EQ(0, heap.live);
}

TEST(KernelCache, HeapFailsAtEachCall_DeclareIsRefusedAndTheLedgerIsAsBefore)
{
    FailingHeap heap;
    mbr_manager_seams seams = {&heap.heap, nullptr, nullptr, nullptr, nullptr};
    {
        CacheWorld world(8 * kMiB, &seams);
        auto request = sized<mbr_kernel_cache_request>();
        request.holder = world.caches;
        mbr_kernel_cache *another;
        EXPECT_EQ(MBR_INVALID_ARGUMENT,
            mbr_kernel_cache_create(world.manager, &request, &another, &world.error));
        request.drop = [](void *, uint64_t) {};
        heap.fail_at = heap.calls + 1;
        EXPECT_EQ(MBR_OUT_OF_HOST_MEMORY,
            mbr_kernel_cache_create(world.manager, &request, &another, &world.error));
        heap.fail_at = heap.calls + 1;
        EXPECT_EQ(MBR_OUT_OF_HOST_MEMORY, world.declare(1, kMiB));
        EXPECT_EQ(0u, world.granted());
        EXPECT_EQ(0u, world.read().entry_count);
        world.make(1, kMiB);
        EXPECT_EQ(kMiB, world.granted());
    }
    EXPECT_EQ(0, heap.live);
}

// Each copy's life is its client's: made once, dropped once, never while it is used.
TEST(KernelCache, ThreadsThatUseAndPress_DropNothingInUseAndLoseNoByte)
{
    CacheWorld world(16 * kMiB);
    std::atomic<int> users[4] = {};
    std::atomic<bool> wrong{false}, done{false};
    struct Context {
        std::atomic<int> *users;
        std::atomic<bool> *wrong;
    } context = {users, &wrong};
    auto request = sized<mbr_kernel_cache_request>();
    request.holder = world.caches;
    request.context = &context;
    request.drop = [](void *self, uint64_t key) {
        auto *it = static_cast<Context *>(self);
        if (it->users[key].load() != 0)
            it->wrong->store(true);
    };
    mbr_kernel_cache *cache;
    ASSERT_EQ(MBR_OK, mbr_kernel_cache_create(world.manager, &request, &cache, &world.error));
    std::vector<std::thread> threads;
    for (int t = 0; t < 2; t++)
        threads.emplace_back([&, t] {
            for (uint64_t i = 0; i < 400; i++) {
                uint64_t key = (i + static_cast<uint64_t>(t)) % 4;
                if (mbr_kernel_cache_use(cache, key, nullptr) != MBR_OK &&
                    mbr_kernel_cache_declare(cache, key, kMiB, nullptr, nullptr) != MBR_OK)
                    continue;
                users[key]++;
                users[key]--;
                mbr_kernel_cache_release(cache, key, {0});
            }
        });
    std::thread presser([&] {
        while (!done.load())
            mbr_kernel_cache_give(cache, mbr_kernel_cache_could_give(cache, 2 * kMiB));
    });
    for (auto &thread : threads)
        thread.join();
    done = true;
    presser.join();
    auto figures = sized<mbr_kernel_cache_figures>();
    mbr_kernel_cache_read(cache, &figures);
    EXPECT_FALSE(wrong.load());
    EXPECT_EQ(0u, figures.used_count);
    EXPECT_EQ(figures.declared_bytes, world.granted());
    EXPECT_EQ(MBR_OK, mbr_kernel_cache_destroy(cache, &world.error));
    EXPECT_EQ(0u, world.granted());
}

} // namespace
} // namespace membrane
