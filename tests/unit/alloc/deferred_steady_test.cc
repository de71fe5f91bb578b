// I20 for frees that wait, over the real queue and the real backing: allocate and deferred free in
// the steady state take no heap, make no system call, and signal once for 64 frees, or not at all
// where the memory is used again on its own stream. Heap calls are counted at link time (--wrap); a
// system call ends the child that makes it.
#include "tests/unit/alloc/heap_count.h"
#include "tests/unit/backing/world.h"

extern "C" {
#include "host/alloc/arena.h"
}

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace membrane
{
namespace
{

constexpr uint64_t kMiB = UINT64_C(1) << 20;
constexpr uint64_t kEpoch = MBR_EPOCH_ENTRY_COUNT;

class Steady : public World
{
  public:
    Steady() : World(256 * kMiB, 64 * kMiB)
    {
        mbr_native native = {MBR_NATIVE_STREAM_CPU, 0, 2};
        EXPECT_EQ(MBR_OK, mbr_context_attach_stream(context, native, &copy, nullptr));
        EXPECT_EQ(MBR_OK, mbr_alloc_table_create(&heap.heap, &table, nullptr));
        mbr_arena_options options = {table, backing, context, 3, 64 * kMiB, &heap.heap};
        EXPECT_EQ(MBR_OK, mbr_arena_create(&options, &arena, nullptr));
    }
    ~Steady()
    {
        line.reached = UINT64_MAX;
        EXPECT_EQ(MBR_OK, mbr_context_drain(context, UINT64_MAX, nullptr));
        EXPECT_EQ(MBR_OK, mbr_context_detach_stream(context, copy, nullptr));
        EXPECT_EQ(MBR_OK, mbr_arena_destroy(arena, nullptr));
        mbr_alloc_table_destroy(table);
    }

    // False where a call is refused: what runs in a cage may not print.
    bool Alloc(uint64_t bytes, mbr_allocation_handle *handle)
    {
        mbr_arena_request request = {kv, stream, bytes, 0, 0, 0, nullptr};
        mbr_alloc_result result = {};
        result.struct_size = sizeof(result);
        mbr_status status = mbr_arena_alloc(arena, &request, &result, nullptr);
        *handle = result.allocation;
        return status == MBR_OK;
    }
    bool Free(mbr_allocation_handle handle, uint32_t streams)
    {
        const uint64_t ids[] = {stream, copy};
        return mbr_alloc_free(table, handle, 0, false, ids, streams, nullptr) == MBR_OK;
    }

    // A step that uses its memory on one stream, whose work is never done in time.
    bool Pairs(uint64_t count)
    {
        bool good = true;
        for (uint64_t i = 0; i < count && good; i++)
            for (uint64_t bytes : {UINT64_C(512), UINT64_C(70000), 2 * kMiB}) {
                mbr_allocation_handle handle;
                good = good && Alloc(bytes, &handle) && Free(handle, 1);
            }
        return good;
    }
    // Whole epochs of frees that wait for two streams; the device is done by the next one.
    bool Epochs(uint64_t count)
    {
        bool good = true;
        mbr_allocation_handle handles[kEpoch];
        for (uint64_t i = 0; i < count && good; i++) {
            for (mbr_allocation_handle &handle : handles)
                good = good && Alloc(4096, &handle);
            for (mbr_allocation_handle handle : handles)
                good = good && Free(handle, 2);
            line.reach_all();
            mbr_context_reap(context, false);
        }
        return good;
    }
    mbr_ep_figures Figures()
    {
        mbr_ep_figures figures = {};
        figures.struct_size = sizeof(figures);
        mbr_context_read(context, &figures);
        return figures;
    }

    uint64_t copy = 0;
    mbr_alloc_table *table = nullptr;
    mbr_arena *arena = nullptr;
};

TEST(DeferredSteady, PairsOnABusyStream_TakeNoHeapAndNoSignalAndNoSlot)
{
    Steady world;
    world.line.automatic = false;
    ASSERT_TRUE(world.Pairs(300)); // until what the thread had is queued
    uint64_t heap = heap_count, slots = world.fake.all_calls();
    mbr_ep_figures before = world.Figures();
    ASSERT_TRUE(world.Pairs(10000));
    mbr_ep_figures after = world.Figures();
    EXPECT_EQ(heap, heap_count);
    EXPECT_EQ(slots, world.fake.all_calls());
    EXPECT_EQ(before.queued_count, after.queued_count);
    EXPECT_EQ(30000u, after.reactivated_count - before.reactivated_count);
    // An epoch of 64 frees or of 64 MiB, and nothing in between.
    EXPECT_LE(after.signal_count - before.signal_count, 30000 / kEpoch + 20000 / 64 + 1);
}

TEST(DeferredSteady, EpochsOfTwoStreams_TakeNoHeapAndOneSignalForEachStream)
{
    Steady world;
    world.line.automatic = false;
    ASSERT_TRUE(world.Epochs(10));
    uint64_t heap = heap_count, slots = world.fake.all_calls();
    mbr_ep_figures before = world.Figures();
    ASSERT_TRUE(world.Epochs(200));
    mbr_ep_figures after = world.Figures();
    EXPECT_EQ(heap, heap_count);
    EXPECT_EQ(slots, world.fake.all_calls());
    EXPECT_EQ(400u, after.signal_count - before.signal_count);
    EXPECT_EQ(200 * kEpoch, after.released_count - before.released_count);
}

// From here on the thread may exit, and any other system call ends it. Not the strict mode, in
// which the clock of the processor cannot be read either.
bool Cage()
{
    sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    sock_fprog filter = {sizeof(program) / sizeof(program[0]), program};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

// The status of a child that makes a world of its own and then works in the cage.
int Caged(bool (*work)(Steady *world))
{
    pid_t child = fork();
    if (child == 0) {
        Steady *world = new Steady; // never ended: the end needs more than the cage allows
        world->line.automatic = false;
        bool good = world->Pairs(300) && world->Epochs(10);
        if (!Cage())
            syscall(SYS_exit, 98);
        syscall(SYS_exit, good && work(world) ? 0 : 97);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return status;
}

TEST(DeferredSteady, InACage_MakesNoSystemCall)
{
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "the sanitizer's own runtime makes system calls";
#endif
    EXPECT_EQ(0, Caged([](Steady *world) { return world->Pairs(3000) && world->Epochs(200); }));
    // The cage is closed.
    int status = Caged([](Steady *) { return getppid() != 0; });
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS) << status;
}

} // namespace
} // namespace membrane
