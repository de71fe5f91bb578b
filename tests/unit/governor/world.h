// A governor with seams of the test's own: a heap that counts and fails, a clock and a probe that
// the test turns by hand. Its end is the end of everything: no block may be out.
#ifndef MEMBRANE_TESTS_UNIT_GOVERNOR_WORLD_H
#define MEMBRANE_TESTS_UNIT_GOVERNOR_WORLD_H

extern "C" {
#include "abi/base/lock.h"
#include "governor/governor.h"
}

#include "tests/support/figures.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>

namespace governor_test
{

constexpr uint64_t kKiB = 1024;
constexpr uint64_t kMiB = 1024 * kKiB;
constexpr uint64_t kGiB = 1024 * kMiB;
constexpr uint64_t kSecond = 1000000000;
constexpr uint64_t kNone = UINT64_MAX;

struct CountedHeap {
    std::atomic<int> calls{0};
    std::atomic<int> fail_at{0};
    std::atomic<int> blocks_out{0};

    static void *Allocate(void *context, size_t bytes)
    {
        auto *self = static_cast<CountedHeap *>(context);
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

struct HandClock {
    std::atomic<uint64_t> now_ns{5 * kSecond};

    static uint64_t Now(void *context) { return static_cast<HandClock *>(context)->now_ns; }

    mbr_clock Seam() { return {Now, this}; }
};

struct FakeProbe {
    std::atomic<uint64_t> free_bytes{0};
    std::atomic<bool> known{true};
    std::atomic<int> calls{0};
    void (*inside)(void *) = nullptr; // runs while the governor waits for the answer
    void *inside_context = nullptr;

    static bool FreeBytes(void *context, uint64_t *bytes)
    {
        auto *self = static_cast<FakeProbe *>(context);
        mbr_lock_assert_none_held();
        self->calls++;
        if (self->inside != nullptr)
            self->inside(self->inside_context);
        *bytes = self->free_bytes;
        return self->known;
    }

    mbr_probe Seam() { return {FreeBytes, this}; }
};

using governor_figures::Figures;
using governor_figures::NewError;

inline mbr_refusal NewRefusal()
{
    mbr_refusal refusal = {};
    refusal.struct_size = sizeof(refusal);
    return refusal;
}

class World
{
  public:
    World()
    {
        mbr_heap heap_seam = heap.Seam();
        mbr_clock clock_seam = clock.Seam();
        mbr_governor_options options = {&heap_seam, &clock_seam};
        EXPECT_EQ(mbr_governor_create(&options, &governor, nullptr), MBR_OK);
    }

    ~World()
    {
        EXPECT_EQ(mbr_governor_destroy(governor, nullptr), MBR_OK);
        EXPECT_EQ(heap.blocks_out, 0);
        mbr_lock_assert_none_held();
    }

    mbr_authority *Authority(uint64_t limit_bytes, const mbr_probe *probe = nullptr,
        uint64_t margin_bytes = 0, mbr_shared *shared = nullptr)
    {
        std::string name = "pool-" + std::to_string(++names_);
        mbr_authority_options options = {
            name.c_str(), MBR_TIER_DEVICE, limit_bytes, probe, margin_bytes, shared};
        mbr_authority *authority = nullptr;
        EXPECT_EQ(mbr_authority_create(governor, &options, &authority, nullptr), MBR_OK);
        return authority;
    }

    mbr_holder *Holder(mbr_authority *authority, uint64_t allowance_bytes = MBR_NO_ALLOWANCE,
        uint32_t role = MBR_ROLE_KV)
    {
        mbr_holder_options options = {};
        options.role = role;
        options.allowance_bytes = allowance_bytes;
        return Holder(authority, options);
    }

    // The options' name is given here.
    mbr_holder *Holder(mbr_authority *authority, mbr_holder_options options)
    {
        std::string name = "holder-" + std::to_string(++names_);
        options.name = name.c_str();
        mbr_holder *holder = nullptr;
        EXPECT_EQ(mbr_holder_create(authority, &options, &holder, nullptr), MBR_OK);
        return holder;
    }

    CountedHeap heap;
    HandClock clock;
    mbr_governor *governor = nullptr;

  private:
    int names_ = 0;
};

// Ends an authority and its holders; everything must have been given back.
template <typename... Holders> void End(mbr_authority *authority, Holders... holders)
{
    mbr_error error = NewError();
    EXPECT_EQ(mbr_authority_audit(authority, &error), MBR_OK) << error.text;
    for (mbr_holder *holder : {holders...})
        EXPECT_EQ(mbr_holder_destroy(holder, &error), MBR_OK) << error.text;
    mbr_authority_collect_credit(authority);
    EXPECT_EQ(Figures(authority).claimed_bytes, 0u);
    EXPECT_EQ(mbr_authority_audit(authority, &error), MBR_OK) << error.text;
    EXPECT_EQ(mbr_authority_destroy(authority, &error), MBR_OK) << error.text;
}

} // namespace governor_test

#endif
