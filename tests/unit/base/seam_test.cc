// The default seams and the way that a seam of a test's own is called.
extern "C" {
#include "abi/base/seam.h"
}

#include <gtest/gtest.h>

#include <cstring>
#include <ctime>
#include <vector>

namespace
{

// A heap that fails the call whose number is `fail_at` and knows how many blocks are out.
struct CountedHeap {
    int calls = 0;
    int fail_at = 0;
    int blocks_out = 0;
    size_t last_bytes = 0;

    static void *Allocate(void *context, size_t bytes)
    {
        auto *self = static_cast<CountedHeap *>(context);
        self->last_bytes = bytes;
        if (++self->calls == self->fail_at)
            return nullptr;
        self->blocks_out++;
        return mbr_heap_allocate(&mbr_heap_libc, bytes);
    }

    static void Release(void *context, void *memory)
    {
        static_cast<CountedHeap *>(context)->blocks_out -= memory != nullptr;
        mbr_heap_release(&mbr_heap_libc, memory);
    }

    mbr_heap Seam() { return {Allocate, Release, this}; }
};

uint64_t RealNow()
{
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

TEST(Seam, LibcHeap_GivesZeroedMemory)
{
    // A block that was written and given back is likely to come again: it must be zero again.
    for (int round = 0; round < 16; round++) {
        auto *bytes = static_cast<unsigned char *>(mbr_heap_allocate(&mbr_heap_libc, 4096));
        ASSERT_NE(bytes, nullptr);
        for (size_t i = 0; i < 4096; i++)
            ASSERT_EQ(bytes[i], 0) << "byte " << i << " in round " << round;
        memset(bytes, 0xA5, 4096);
        mbr_heap_release(&mbr_heap_libc, bytes);
    }
}

TEST(Seam, LibcHeapReleaseOfNull_IsAllowed)
{
    mbr_heap_release(&mbr_heap_libc, nullptr);
}

TEST(Seam, HeapOfATest_GetsItsContextSizeAndBlocks)
{
    CountedHeap counted;
    mbr_heap heap = counted.Seam();
    void *first = mbr_heap_allocate(&heap, 40);
    EXPECT_EQ(counted.last_bytes, 40u);
    void *second = mbr_heap_allocate(&heap, 7);
    EXPECT_EQ(counted.last_bytes, 7u);
    EXPECT_EQ(counted.blocks_out, 2);
    mbr_heap_release(&heap, first);
    mbr_heap_release(&heap, second);
    mbr_heap_release(&heap, nullptr);
    EXPECT_EQ(counted.blocks_out, 0);
}

TEST(Seam, HeapThatFailsTheNthCall_FailsThatCallOnly)
{
    for (int fail_at = 1; fail_at <= 5; fail_at++) {
        CountedHeap counted;
        counted.fail_at = fail_at;
        mbr_heap heap = counted.Seam();
        std::vector<void *> blocks;
        for (int call = 1; call <= 5; call++) {
            void *block = mbr_heap_allocate(&heap, 16);
            EXPECT_EQ(block == nullptr, call == fail_at);
            blocks.push_back(block);
        }
        for (void *block : blocks)
            mbr_heap_release(&heap, block);
        EXPECT_EQ(counted.blocks_out, 0);
    }
}

TEST(Seam, MonotonicClock_IsTheKernelsAndNeverGoesBack)
{
    uint64_t last = RealNow();
    for (int i = 0; i < 1000; i++) {
        uint64_t now = mbr_clock_now(&mbr_clock_monotonic);
        ASSERT_GE(now, last);
        last = now;
    }
    EXPECT_LE(last, RealNow());
}

TEST(Seam, ClockOfATest_IsReadThroughItsContext)
{
    uint64_t hand = UINT64_C(18446744073709551615);
    mbr_clock clock = {[](void *context) { return *static_cast<uint64_t *>(context); }, &hand};
    EXPECT_EQ(mbr_clock_now(&clock), UINT64_MAX);
    hand = 3;
    EXPECT_EQ(mbr_clock_now(&clock), 3u);
}

} // namespace
