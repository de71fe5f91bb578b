// Prints what a pair of allocate and free costs, beside malloc and free of the C library and of the
// allocators that are given by path. Not a test: figures mean something on a quiet machine only,
// built with --config=release. Both sides touch the first byte of each block.
//
//     bazel run --config=release //tests/unit/alloc:measure -- [libjemalloc.so.2 ...]
#include "tests/support/fake_spans.h"

#include <dlfcn.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

extern "C" {
#include "host/alloc/arena.h"
}

namespace
{

constexpr uint64_t kKiB = 1024, kMiB = 1024 * kKiB, kGiB = 1024 * kMiB;

struct Side {
    std::string name;
    std::function<uint64_t(uint64_t bytes, uint64_t *handle)> allocate; // the address
    std::function<void(uint64_t handle)> release;
};

struct World {
    mbr_governor *governor = nullptr;
    mbr_authority *authority = nullptr;
    mbr_holder *holder = nullptr;
    mbr_backing *backing = nullptr;
    mbr_context context;
    mbr_alloc_table *table = nullptr;
    mbr_arena *arena = nullptr;

    World()
    {
        mbr_governor_create(nullptr, &governor, nullptr);
        mbr_authority_options authority_options = {
            "pool", MBR_TIER_HOST, UINT64_C(1) << 50, nullptr, 0, nullptr};
        mbr_authority_create(governor, &authority_options, &authority, nullptr);
        mbr_holder_options holder_options = {"kv", MBR_ROLE_KV, MBR_NO_ALLOWANCE, false, {}};
        mbr_holder_create(authority, &holder_options, &holder, nullptr);
        backing = new mbr_backing(authority);
        mbr_alloc_table_create(nullptr, &table, nullptr);
        mbr_arena_options options = {table, backing, &context, 0, 4 * kGiB, nullptr};
        mbr_arena_create(&options, &arena, nullptr);
    }

    uint64_t Allocate(mbr_holder *payer, uint64_t bytes, uint64_t *handle)
    {
        mbr_arena_request request = {payer, 0, bytes, 0, 0, 0, nullptr};
        mbr_alloc_result result;
        result.struct_size = sizeof(result);
        if (mbr_arena_alloc(arena, &request, &result, nullptr) != MBR_OK)
            std::abort();
        *handle = result.allocation.value;
        return result.address;
    }

    void Release(uint64_t handle)
    {
        if (mbr_alloc_free(table, {handle}, 0, true, nullptr, 0, nullptr) != MBR_OK)
            std::abort();
    }
};

// Of the calling thread's own processor time, so that other programs disturb it less.
double Nanoseconds(const std::function<void()> &work)
{
    auto now = [] {
        timespec time;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
        return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
    };
    double begin = now();
    work();
    return now() - begin;
}

// The least disturbed of many short rounds.
double BestOf(const std::vector<double> &values)
{
    return *std::min_element(values.begin(), values.end());
}

template <typename Allocate, typename Release>
double Batches(Allocate allocate, Release release, uint64_t bytes, int batch, int rounds)
{
    std::vector<uint64_t> handles(static_cast<size_t>(batch));
    auto once = [&] {
        for (auto &handle : handles)
            *reinterpret_cast<volatile char *>(allocate(bytes, &handle)) = 1;
        for (auto handle : handles)
            release(handle);
    };
    once();
    double spent = Nanoseconds([&] {
        for (int i = 0; i < rounds; i++)
            once();
    });
    return spent / batch / rounds;
}

uint64_t MallocAddress(void *(*allocate)(size_t), uint64_t bytes, uint64_t *handle)
{
    return *handle = reinterpret_cast<uint64_t>(allocate(bytes));
}

template <typename Work> double Threads(int count, Work work)
{
    std::vector<double> spent(static_cast<size_t>(count));
    std::vector<std::thread> threads;
    for (int i = 0; i < count; i++)
        threads.emplace_back([&, i] { spent[static_cast<size_t>(i)] = work(); });
    for (auto &thread : threads)
        thread.join();
    double rate = 0;
    for (double one : spent)
        rate += 1 / one;
    return 1 / rate; // of all threads together
}

// N live allocations; pairs at the top of the stack, or of one at random.
template <typename Allocate, typename Release>
void Scale(const char *name, Allocate allocate, Release release)
{
    for (size_t live : {1000u, 1000000u}) {
        std::vector<uint64_t> handles(live);
        std::vector<double> lifo, at_random;
        std::mt19937 random(7);
        for (auto &handle : handles)
            allocate(512, &handle);
        for (int round = 0; round < 8; round++)
            lifo.push_back(Nanoseconds([&] {
                for (size_t pass = 0; pass < 1000000 / live / (live == 1000 ? 50 : 1); pass++) {
                    for (size_t i = live; i-- > 0;)
                        release(handles[i]);
                    for (auto &handle : handles)
                        allocate(512, &handle);
                }
            }) / (live == 1000 ? 2e4 : 1e6));
        for (int round = 0; round < 60; round++)
            at_random.push_back(Nanoseconds([&] {
                for (int i = 0; i < 20000; i++) {
                    auto &handle = handles[random() % live];
                    release(handle);
                    allocate(512, &handle);
                }
            }) / 2e4);
        for (auto handle : handles)
            release(handle);
        std::printf("%-12s %8zu live  lifo %6.1f  random %6.1f ns a pair\n", name, live,
            BestOf(lifo), BestOf(at_random));
    }
}

template <typename Allocate, typename Release>
void Report(const char *name, Allocate allocate, Release release)
{
    for (uint64_t bytes : {512 * UINT64_C(1), 4 * kKiB, 64 * kKiB, 2 * kMiB}) {
        std::vector<double> hot, batch, two_hot, two_batch;
        for (int round = 0; round < 40; round++) {
            hot.push_back(Batches(allocate, release, bytes, 1, 20000));
            batch.push_back(Batches(allocate, release, bytes, 1000, 10));
        }
        for (int round = 0; round < 10; round++) {
            two_hot.push_back(
                Threads(2, [&] { return Batches(allocate, release, bytes, 1, 50000); }));
            two_batch.push_back(
                Threads(2, [&] { return Batches(allocate, release, bytes, 500, 50); }));
        }
        std::printf("%-12s %8llu B  hot %7.1f  batch %7.1f ns a pair  two threads: hot %4.2fx  "
                    "batch %4.2fx\n",
            name, static_cast<unsigned long long>(bytes), BestOf(hot), BestOf(batch),
            BestOf(hot) / BestOf(two_hot), BestOf(batch) / BestOf(two_batch));
    }
    Scale(name, allocate, release);
}

} // namespace

int main(int argc, char **argv)
{
    World world;
    Report(
        "books",
        [&](uint64_t bytes, uint64_t *handle) {
            return world.Allocate(world.holder, bytes, handle);
        },
        [&](uint64_t handle) { world.Release(handle); });
    if (argc > 1 && std::string(argv[1]) == "-")
        return 0;
    Report(
        "no books",
        [&](uint64_t bytes, uint64_t *handle) {
            return world.Allocate(world.backing->cache, bytes, handle);
        },
        [&](uint64_t handle) { world.Release(handle); });
    for (int i = 0; i < argc; i++) {
        void *library = i == 0 ? RTLD_DEFAULT : dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
        if (i != 0 && library == nullptr) {
            std::printf("%s: %s\n", argv[i], dlerror());
            continue;
        }
        const char *mimalloc = std::strstr(i == 0 ? "" : argv[i], "mimalloc");
        auto allocate =
            reinterpret_cast<void *(*)(size_t)>(dlsym(library, mimalloc ? "mi_malloc" : "malloc"));
        auto release =
            reinterpret_cast<void (*)(void *)>(dlsym(library, mimalloc ? "mi_free" : "free"));
        const char *slash = i == 0 ? nullptr : std::strrchr(argv[i], '/');
        Report(
            i == 0      ? "libc"
                : slash ? slash + 1
                        : argv[i],
            [&](uint64_t bytes, uint64_t *handle) {
                return MallocAddress(allocate, bytes, handle);
            },
            [&](uint64_t handle) { release(reinterpret_cast<void *>(handle)); });
    }
    return 0;
}
