// Several threads: who wins a race for one release, blocks that travel, threads and arenas that end
// in any order, and books that are exact once all are at rest.
#include "tests/unit/alloc/world.h"

#include <pthread.h>

#include <condition_variable>
#include <cstring>
#include <functional>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

namespace alloc_test
{
namespace
{

constexpr int kThreads = 8;

void Together(const std::function<void(int)> &work)
{
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; i++)
        threads.emplace_back(work, i);
    for (std::thread &thread : threads)
        thread.join();
}

// Lets all threads go at once, any number of times.
class Gate
{
  public:
    void Pass()
    {
        std::unique_lock<std::mutex> guard(mutex_);
        uint64_t round = round_;
        if (++waiting_ == kThreads) {
            waiting_ = 0;
            round_++;
            condition_.notify_all();
        } else {
            condition_.wait(guard, [&] { return round_ != round; });
        }
    }

  private:
    std::mutex mutex_;
    std::condition_variable condition_;
    int waiting_ = 0;
    uint64_t round_ = 0;
};

TEST(ArenaThreads, Free_OfOneAllocationByAll_SucceedsExactlyOnce)
{
    constexpr int kRounds = 500;
    World world;
    Gate gate;
    mbr_alloc_result block = {};
    std::atomic<int> winners{0};
    Together([&](int me) {
        for (int round = 0; round < kRounds; round++) {
            if (me == 0) {
                winners = 0;
                uint64_t bytes =
                    round % 50 == 0 ? 65 * kMiB : 1 + static_cast<uint64_t>(round) * 99;
                block = world.Alloc(Request{bytes, 0, kStream});
            }
            gate.Pass();
            mbr_status status = me % 4 == 0 ? world.Free(block.allocation)
                : me % 4 == 1               ? world.FreeAt(block.address)
                : me % 4 == 2               ? world.FreeAfter(block.allocation, {kStream})
                                            : world.FreeAfter(block.allocation, {});
            EXPECT_TRUE(status == MBR_OK || status == MBR_UNKNOWN_OBJECT);
            winners += status == MBR_OK;
            gate.Pass();
            if (me == 0) {
                EXPECT_EQ(winners, 1);
                world.context.reap();
            }
            gate.Pass();
        }
    });
    EXPECT_EQ(world.Charged(world.kv), 0u);
    EXPECT_TRUE(world.Agree());
}

TEST(ArenaThreads, Blocks_FreedByAnotherThread_AreRefundedToTheirHolder)
{
    World world;
    std::vector<mbr_allocation_handle> handles;
    std::thread([&] {
        for (int i = 0; i < 1000; i++)
            handles.push_back(world.Alloc(2000).allocation);
    }).join();
    EXPECT_EQ(world.Charged(world.kv), 1000u * 2048);
    EXPECT_TRUE(world.Agree());
    std::thread([&] {
        for (mbr_allocation_handle handle : handles)
            EXPECT_EQ(world.Free(handle), MBR_OK);
        EXPECT_EQ(world.Charged(world.kv), 0u);
        EXPECT_TRUE(world.Agree());
    }).join();
    EXPECT_EQ(world.Charged(world.kv), 0u);
    EXPECT_TRUE(world.Agree());
}

TEST(ArenaThreads, AThreadThatEnds_GivesItsBlocksBackToTheSlabs)
{
    World world;
    for (int i = 0; i < 10; i++)
        std::thread([&] {
            std::vector<mbr_allocation_handle> handles;
            for (uint64_t bytes = 1; bytes < 40 * kMiB; bytes *= 3)
                handles.push_back(world.Alloc(bytes).allocation);
            for (mbr_allocation_handle handle : handles)
                EXPECT_EQ(world.Free(handle), MBR_OK);
        }).join();
    EXPECT_EQ(world.Figures().idle_bytes, world.Figures().slab_bytes)
        << "no block is left with a thread that is gone";
    EXPECT_TRUE(world.Agree());
}

TEST(ArenaThreads, AThreadThatEnds_LeavesNoHostMemoryBehind)
{
    World world;
    auto work = [&] { world.Keep(world.Alloc(100).allocation); };
    std::thread(work).join();
    int64_t before = world.heap.blocks_out;
    for (int i = 0; i < 50; i++)
        std::thread(work).join();
    EXPECT_EQ(world.heap.blocks_out, before);
    world.FreeAll();
}

// A destructor of somebody else that runs after the arena's own, which was registered before.
struct LateWork {
    World *world;
    mbr_allocation_handle handle;
};

void WorkLate(void *argument)
{
    auto *late = static_cast<LateWork *>(argument);
    EXPECT_EQ(late->world->Free(late->handle), MBR_OK);
    for (int i = 0; i < 100; i++)
        EXPECT_EQ(late->world->Free(late->world->Alloc(3000).allocation), MBR_OK);
}

TEST(ArenaThreads, AThreadThatAllocatesWhileItEnds_WorksWithoutACache)
{
    World world;
    world.Keep(world.Alloc(100).allocation); // the arena's key is older than the test's
    pthread_key_t key;
    ASSERT_EQ(pthread_key_create(&key, WorkLate), 0);
    LateWork late = {&world, {0}};
    std::thread([&] {
        late.handle = world.Alloc(5000).allocation;
        EXPECT_EQ(pthread_setspecific(key, &late), 0);
    }).join();
    pthread_key_delete(key);
    world.FreeAll();
    EXPECT_EQ(world.Charged(world.kv), 0u);
    EXPECT_TRUE(world.Agree());
}

TEST(ArenaThreads, AnArenaThatEndsBeforeItsThreads_IsForgottenByThem)
{
    World world;
    Gate gate;
    Together([&](int me) {
        for (int round = 0; round < 20; round++) {
            EXPECT_EQ(world.Free(world.Alloc(1000 + static_cast<uint64_t>(me)).allocation), MBR_OK);
            gate.Pass();
            if (me == round % kThreads) {
                world.EndArena(world.arena);
                world.arena = world.Arena();
            }
            gate.Pass();
        }
    });
    EXPECT_TRUE(world.Agree());
}

TEST(ArenaThreads, ArenasAndThreads_EndAtTheSameTime)
{
    World world;
    for (int round = 0; round < 200; round++) {
        mbr_arena *arena = world.Arena(0);
        std::atomic<bool> done{false};
        std::thread thread([&] {
            EXPECT_EQ(world.Free(world.Alloc(Request{4096}, arena).allocation), MBR_OK);
            EXPECT_EQ(world.Free(world.Alloc(4096).allocation), MBR_OK);
            done = true;
        });
        while (!done)
            std::this_thread::yield();
        EXPECT_EQ(mbr_arena_destroy(arena, nullptr), MBR_OK); // while the thread leaves it
        thread.join();
    }
    EXPECT_TRUE(world.Agree());
}

// ---- All of it
struct Stamp {
    uint64_t owner, number;
};

void Churn(World *world, int me, int steps, std::vector<mbr_alloc_result> *pool, std::mutex *mutex)
{
    std::mt19937_64 random(static_cast<uint64_t>(me) + 17);
    std::vector<mbr_alloc_result> mine;
    auto check = [](const mbr_alloc_result &block) {
        auto *stamp = reinterpret_cast<Stamp *>(block.address);
        auto *last = reinterpret_cast<Stamp *>(block.address + block.usable_bytes) - 1;
        EXPECT_EQ(stamp->number, block.allocation.value);
        EXPECT_EQ(last->number, block.allocation.value);
        EXPECT_EQ(stamp->owner, last->owner);
    };
    for (int step = 0; step < steps; step++) {
        uint64_t bytes = random() % (UINT64_C(1) << (random() % 24));
        uint64_t choice = random() % 16;
        if (choice < 8 && mine.size() < 200) {
            Request request{bytes, 0, kStream};
            request.holder = random() % 2 == 0 ? world->kv : world->weights;
            mbr_alloc_result block = {};
            mbr_status status = world->TryAlloc(request, &block);
            EXPECT_TRUE(status == MBR_OK || status == MBR_OVER_BUDGET) << status;
            if (status != MBR_OK)
                continue;
            Stamp stamp = {static_cast<uint64_t>(me), block.allocation.value};
            memcpy(reinterpret_cast<void *>(block.address), &stamp, sizeof(stamp));
            memcpy(reinterpret_cast<Stamp *>(block.address + block.usable_bytes) - 1, &stamp,
                sizeof(stamp));
            mine.push_back(block);
        } else if (choice < 14 && !mine.empty()) {
            size_t index = random() % mine.size();
            std::swap(mine[index], mine.back());
            check(mine.back());
            mbr_status status = choice < 11 ? world->Free(mine.back().allocation)
                : choice < 13               ? world->FreeAt(mine.back().address)
                                            : world->FreeAfter(mine.back().allocation, {kStream});
            EXPECT_EQ(status, MBR_OK);
            mine.pop_back();
        } else { // blocks travel to other threads
            std::lock_guard<std::mutex> guard(*mutex);
            if (!mine.empty() && random() % 2 == 0) {
                pool->push_back(mine.back());
                mine.pop_back();
            } else if (!pool->empty()) {
                mine.push_back(pool->back());
                pool->pop_back();
            }
        }
    }
    std::lock_guard<std::mutex> guard(*mutex);
    pool->insert(pool->end(), mine.begin(), mine.end());
}

TEST(ArenaThreads, Churn_WithATrimmerAndAReader_KeepsContentsAndBooks)
{
    for (uint64_t limit_bytes : {96 * kMiB, 64 * kGiB}) {
        World world(limit_bytes, 16 * kMiB);
        std::vector<mbr_alloc_result> pool;
        std::mutex mutex;
        std::atomic<bool> stop{false};
        std::thread keeper([&] {
            for (uint64_t round = 0; !stop; round++) {
                world.context.reap();
                mbr_arena_fold(world.arena);
                uint64_t charged = world.Books(world.kv).charged_bytes;
                uint64_t cached = world.Books(world.backing->cache).charged_bytes;
                EXPECT_LE(charged, 16 * kGiB) << "never below zero";
                EXPECT_LE(cached, 16 * kGiB) << "never below zero";
                mbr_arena_figures figures = world.Figures();
                EXPECT_LE(figures.live_bytes, limit_bytes);
                if (round % 4 == 0)
                    mbr_arena_trim(world.arena, round % 3 * 8 * kMiB);
                mbr_allocation_figures view = {};
                for (uint64_t index = 1; index < 2000; index += 7)
                    mbr_alloc_table_read(
                        world.table, {(round % 50 + 1) << 26 | index}, 0, &view, nullptr);
            }
        });
        Together([&](int me) { Churn(&world, me, 4000, &pool, &mutex); });
        stop = true;
        keeper.join();
        world.context.reap();
        EXPECT_TRUE(world.Agree());
        EXPECT_EQ(world.Figures().live_count, pool.size());
        for (const mbr_alloc_result &block : pool)
            EXPECT_EQ(world.Free(block.allocation), MBR_OK);
        world.context.reap(); // what was given again
        EXPECT_EQ(world.Charged(world.kv) + world.Charged(world.weights), 0u);
        EXPECT_TRUE(world.Agree());
    }
}

TEST(ArenaThreads, Magazines_ThatGrowWhileOthersEmptyThem_LoseNoBlock)
{
    constexpr int kBlocks = 700;
    World world;
    Together([&](int thread) {
        std::vector<mbr_allocation_handle> handles(kBlocks);
        for (int round = 0; round < 20; round++) {
            uint64_t bytes = 256u << (round % 4);
            for (mbr_allocation_handle &handle : handles)
                handle = world.Alloc(bytes).allocation;
            for (mbr_allocation_handle handle : handles)
                EXPECT_EQ(world.Free(handle), MBR_OK);
            if (thread == 0)
                mbr_arena_trim(world.arena, UINT64_MAX); // takes what the others keep
        }
    });
    EXPECT_TRUE(world.Agree());
    mbr_arena_trim(world.arena, 0);
    EXPECT_EQ(world.Figures().slab_bytes, 0u);
}

} // namespace
} // namespace alloc_test
