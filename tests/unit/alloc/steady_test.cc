// I20: allocate and free in the steady state perform no malloc, take no lock and make no system
// call. Locks and the C library's heap are counted at link time (--wrap); system calls end the
// process: the work runs in a child that the kernel allows nothing but to exit.
#include "tests/unit/alloc/heap_count.h"
#include "tests/unit/alloc/world.h"

#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <vector>

static std::atomic<uint64_t> lock_count{0};

extern "C" {

void __real_mbr_lock_take(mbr_lock *lock);
void __wrap_mbr_lock_take(mbr_lock *lock);

void __wrap_mbr_lock_take(mbr_lock *lock)
{
    lock_count++;
    __real_mbr_lock_take(lock);
}

} // extern "C"

namespace alloc_test
{
namespace
{

constexpr uint64_t kSizes[] = {1, 512, 4096, 64 * kKiB, kMiB, 2 * kMiB, 64 * kMiB};

// One pair of each size, by handle or by address, for two holders and on a stream.
void Pairs(World *world, int count)
{
    for (int i = 0; i < count; i++)
        for (uint64_t bytes : kSizes) {
            Request request{bytes, 0, i % 3 == 0 ? kStream : 0, 0, i % 5 == 0 ? UINT64_C(9) : 0};
            request.holder = i % 2 == 0 ? world->kv : world->weights;
            mbr_alloc_result block = {};
            if (world->TryAlloc(request, &block) != MBR_OK ||
                (i % 2 == 0 ? world->Free(block.allocation) : world->FreeAt(block.address)) !=
                    MBR_OK)
                _exit(99);
        }
}

TEST(ArenaSteady, Pairs_OfEverySize_TakeNoLockAndNoHeap)
{
    World world;
    Pairs(&world, 20);
    uint64_t locks = lock_count, heap = heap_count, seam = world.heap.calls;
    Pairs(&world, 1000);
    EXPECT_EQ(lock_count - locks, 0u);
    EXPECT_EQ(heap_count - heap, 0u);
    EXPECT_EQ(world.heap.calls - seam, 0u);
    // The counters are awake: another thread's first block needs all of them.
    mbr_alloc_result fresh = world.Alloc(5 * kMiB);
    EXPECT_GT(lock_count - locks, 0u);
    EXPECT_GT(heap_count - heap, 0u);
    EXPECT_GT(world.heap.calls - seam, 0u);
    EXPECT_EQ(world.Free(fresh.allocation), MBR_OK);
}

TEST(ArenaSteady, Batches_OfAThousand_TakeFewLocksAndNoHeap)
{
    World world(64 * kGiB, 4 * kGiB);
    std::vector<mbr_allocation_handle> handles(1000);
    auto batch = [&](uint64_t bytes) {
        for (auto &handle : handles)
            handle = world.Alloc(bytes).allocation;
        for (auto handle : handles)
            EXPECT_EQ(world.Free(handle), MBR_OK);
    };
    for (uint64_t bytes : {UINT64_C(512), 4 * kKiB, 64 * kKiB, 2 * kMiB}) {
        for (int i = 0; i < 6; i++) // the magazine grows from 64 to 1024, or from 8 to 32
            batch(bytes);
        uint64_t locks = lock_count, heap = heap_count, takes = world.backing->take_count;
        batch(bytes);
        // Small blocks stay with the thread; larger ones move by half a magazine, at most 64.
        uint64_t magazine = bytes <= 4 * kKiB ? UINT64_MAX : bytes < kMiB ? 64 : 32;
        EXPECT_LE(lock_count - locks, 2000 / (magazine / 2) + (bytes <= 4 * kKiB ? 0 : 4)) << bytes;
        EXPECT_EQ(heap_count - heap, 0u) << bytes;
        EXPECT_EQ(world.backing->take_count, takes) << bytes;
    }
}

TEST(ArenaSteady, FreesThatWait_AtTheirSteadyState_TakeNoHeap)
{
    World world;
    auto round = [&] {
        std::vector<mbr_allocation_handle> handles;
        for (int i = 0; i < 200; i++)
            handles.push_back(world.Alloc(Request{4096, 0, kStream}).allocation);
        uint64_t seam = world.heap.calls;
        for (mbr_allocation_handle handle : handles)
            EXPECT_EQ(world.FreeAfter(handle, {}), MBR_OK);
        world.context.reap();
        return world.heap.calls - seam;
    };
    EXPECT_EQ(round(), 0u) << "also the first time: each record has its place in the queue";
    EXPECT_EQ(round(), 0u);
}

// The status of a child that does the work where only read, write and exit are allowed.
int StrictChild(const std::function<void()> &work)
{
    pid_t child = fork();
    if (child == 0) {
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0)
            syscall(SYS_exit, 98);
        work();
        syscall(SYS_exit, 0);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return status;
}

TEST(ArenaSteady, Pairs_OfEverySize_MakeNoSystemCall)
{
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "the sanitizer's own runtime makes system calls";
#endif
    World world;
    Pairs(&world, 20);
    EXPECT_EQ(StrictChild([&] { Pairs(&world, 1000); }), 0);
    // The cage is closed: a system call in it is the end.
    int status = StrictChild([] { getppid(); });
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

} // namespace
} // namespace alloc_test
