// One arena over the fakes, two holders without an allowance and one with, a heap that counts and
// fails: what every test of arenas stands on. Its end is the end of everything: all books are empty
// and no block of the heap is out.
#ifndef MEMBRANE_TESTS_UNIT_ALLOC_WORLD_H
#define MEMBRANE_TESTS_UNIT_ALLOC_WORLD_H

#include "tests/support/fake_spans.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

extern "C" {
#include "abi/base/lock.h"
#include "host/alloc/arena.h"
}

namespace alloc_test
{

constexpr uint64_t kKiB = 1024;
constexpr uint64_t kMiB = 1024 * kKiB;
constexpr uint64_t kGiB = 1024 * kMiB;
constexpr uint64_t kStream = 7, kOtherStream = 8;

struct CountedHeap {
    std::atomic<uint64_t> calls{0};
    std::atomic<uint64_t> fail_at{0}; // the Nth call from the start; 0: none
    std::atomic<bool> fail_all{false};
    std::atomic<int64_t> blocks_out{0};
    mbr_heap seam{Allocate, Release, this};

    static void *Allocate(void *context, size_t bytes)
    {
        auto *self = static_cast<CountedHeap *>(context);
        if (++self->calls == self->fail_at || self->fail_all)
            return nullptr;
        self->blocks_out++;
        return mbr_heap_allocate(&mbr_heap_libc, bytes);
    }

    static void Release(void *context, void *memory)
    {
        static_cast<CountedHeap *>(context)->blocks_out -= memory != nullptr;
        mbr_heap_release(&mbr_heap_libc, memory);
    }
};

// A heap that uses no address twice: what it is given back it frees at its own end.
struct HoardingHeap {
    std::vector<void *> hoard;
    mbr_heap seam{Allocate, Release, this};

    ~HoardingHeap()
    {
        for (void *memory : hoard)
            mbr_heap_release(&mbr_heap_libc, memory);
    }

    static void *Allocate(void *, size_t bytes) { return mbr_heap_allocate(&mbr_heap_libc, bytes); }

    static void Release(void *context, void *memory)
    {
        static_cast<HoardingHeap *>(context)->hoard.push_back(memory);
    }
};

enum class Holders { kAnywhere, kNeverAtTheSameAddress };

inline mbr_error NewError()
{
    mbr_error error = {};
    error.struct_size = sizeof(error);
    return error;
}

struct Request {
    uint64_t bytes = 0;
    uint64_t align_bytes = 0;
    uint64_t stream_id = 0;
    uint32_t flags = 0;
    uint64_t tag = 0;
    mbr_holder *holder = nullptr; // NULL: kv
    mbr_refusal *refusal = nullptr;
};

class World
{
  public:
    explicit World(uint64_t limit_bytes = 64 * kGiB, uint64_t keep_bytes = 64 * kMiB,
        Holders holders = Holders::kAnywhere)
    {
        mbr_governor_options governor_options = {
            holders == Holders::kAnywhere ? nullptr : &hoarding_heap.seam, nullptr};
        EXPECT_EQ(mbr_governor_create(&governor_options, &governor, nullptr), MBR_OK);
        mbr_authority_options options = {"pool", MBR_TIER_HOST, limit_bytes, nullptr, 0, nullptr};
        EXPECT_EQ(mbr_authority_create(governor, &options, &authority, nullptr), MBR_OK);
        kv = Holder("kv");
        weights = Holder("weights");
        context.attach(kStream);
        context.attach(kOtherStream);
        backing = std::make_unique<mbr_backing>(authority);
        EXPECT_EQ(mbr_alloc_table_create(&heap.seam, &table, nullptr), MBR_OK);
        arena = Arena(keep_bytes);
    }

    ~World()
    {
        if (arena != nullptr)
            EndArena(arena);
        mbr_alloc_table_destroy(table);
        EXPECT_EQ(heap.blocks_out, 0);
        EXPECT_EQ(context.pin_count, 0u);
        EXPECT_EQ(context.queued_count(), 0u);
        backing.reset();
        while (!holders_.empty())
            EndHolder(holders_.back());
        mbr_error error = NewError();
        mbr_authority_collect_credit(authority);
        EXPECT_EQ(mbr_authority_audit(authority, &error), MBR_OK) << error.text;
        EXPECT_EQ(mbr_authority_destroy(authority, &error), MBR_OK) << error.text;
        EXPECT_EQ(mbr_governor_destroy(governor, nullptr), MBR_OK);
        mbr_lock_assert_none_held();
    }

    mbr_arena *Arena(uint64_t keep_bytes = 64 * kMiB, uint32_t group = 0)
    {
        mbr_arena_options options = {table, backing.get(), &context, group, keep_bytes, &heap.seam};
        mbr_arena *made = nullptr;
        EXPECT_EQ(mbr_arena_create(&options, &made, nullptr), MBR_OK);
        shared_ = arena != nullptr;
        return made;
    }

    void EndArena(mbr_arena *ended)
    {
        mbr_error error = NewError();
        EXPECT_EQ(mbr_arena_audit(ended, &error), MBR_OK) << error.text;
        EXPECT_EQ(mbr_arena_destroy(ended, &error), MBR_OK) << error.text;
        if (ended == arena)
            arena = nullptr;
    }

    mbr_holder *Holder(const std::string &name, uint64_t allowance_bytes = MBR_NO_ALLOWANCE)
    {
        mbr_holder_options options = {name.c_str(), MBR_ROLE_KV, allowance_bytes, false, {}};
        mbr_holder *holder = nullptr;
        EXPECT_EQ(mbr_holder_create(authority, &options, &holder, nullptr), MBR_OK);
        holders_.push_back(holder);
        return holder;
    }

    mbr_status TryAlloc(const Request &wanted, mbr_alloc_result *result, mbr_error *error = nullptr,
        mbr_arena *from = nullptr)
    {
        mbr_arena_request request = {wanted.holder != nullptr ? wanted.holder : kv,
            wanted.stream_id, wanted.bytes, wanted.align_bytes, wanted.flags, wanted.tag,
            wanted.refusal};
        result->struct_size = sizeof(*result);
        mbr_arena *asked = from != nullptr ? from : arena;
        bool plain = (wanted.align_bytes | wanted.stream_id | wanted.flags | wanted.tag) == 0;
        if (plain && ++plain_count_ % 2 == 0 &&
            mbr_arena_try_alloc(
                asked, request.holder, mbr_holder_id(request.holder), request.bytes, result))
            return MBR_OK;
        mbr_status status = mbr_arena_alloc(asked, &request, result, error);
        mbr_lock_assert_none_held();
        return status;
    }

    mbr_alloc_result Alloc(const Request &wanted, mbr_arena *from = nullptr)
    {
        mbr_alloc_result result = {};
        mbr_error error = NewError();
        EXPECT_EQ(TryAlloc(wanted, &result, &error, from), MBR_OK) << error.text;
        return result;
    }

    mbr_alloc_result Alloc(uint64_t bytes) { return Alloc(Request{bytes}); }

    mbr_status Free(mbr_allocation_handle handle, mbr_error *error = nullptr)
    {
        if (++plain_count_ % 2 == 0 && mbr_alloc_try_free(table, handle))
            return MBR_OK;
        return mbr_alloc_free(table, handle, 0, true, nullptr, 0, error);
    }

    mbr_status FreeAt(uint64_t address, mbr_error *error = nullptr)
    {
        return mbr_alloc_free(table, {0}, address, true, nullptr, 0, error);
    }

    mbr_status FreeAfter(
        mbr_allocation_handle handle, std::vector<uint64_t> streams, mbr_error *error = nullptr)
    {
        return mbr_alloc_free(
            table, handle, 0, false, streams.data(), static_cast<uint32_t>(streams.size()), error);
    }

    uint32_t State(mbr_allocation_handle handle)
    {
        mbr_allocation_figures figures = {};
        figures.struct_size = sizeof(figures);
        mbr_status status = mbr_alloc_table_read(table, handle, 0, &figures, nullptr);
        return status == MBR_OK ? figures.state : MBR_ALLOCATION_RELEASED;
    }

    mbr_arena_figures Figures()
    {
        mbr_arena_figures figures;
        mbr_arena_read(arena, &figures);
        return figures;
    }

    uint64_t Charged(mbr_holder *holder)
    {
        mbr_arena_fold(arena);
        return Books(holder).charged_bytes;
    }

    mbr_holder_figures Books(mbr_holder *holder)
    {
        mbr_holder_figures figures = {};
        figures.struct_size = sizeof(figures);
        mbr_holder_figures_read(holder, &figures);
        return figures;
    }

    // Every byte of a span has one payer, on both axes, and the arena's own records agree.
    ::testing::AssertionResult Agree()
    {
        mbr_error error = NewError();
        if (arena != nullptr && mbr_arena_audit(arena, &error) != MBR_OK)
            return ::testing::AssertionFailure() << error.text;
        if (mbr_authority_audit(authority, &error) != MBR_OK)
            return ::testing::AssertionFailure() << error.text;
        if (arena != nullptr && !shared_ &&
            backing->idle_bytes < static_cast<int64_t>(Figures().idle_bytes))
            return ::testing::AssertionFailure()
                << "idle bytes, as the backing was told, " << backing->idle_bytes;
        uint64_t charged = Books(backing->cache).charged_bytes - backing->evictable_bytes;
        uint64_t mapped = Books(backing->cache).mapped_bytes;
        for (mbr_holder *holder : holders_) {
            charged += Books(holder).charged_bytes;
            mapped += Books(holder).mapped_bytes;
        }
        if (charged != backing->span_bytes() || mapped != backing->span_bytes())
            return ::testing::AssertionFailure() << "holders pay for " << charged << ", map "
                                                 << mapped << " of " << backing->span_bytes();
        return ::testing::AssertionSuccess();
    }

    void EndHolder(mbr_holder *holder, bool forget = true)
    {
        mbr_error error = NewError();
        uint64_t id = mbr_holder_id(holder);
        EXPECT_EQ(mbr_holder_destroy(holder, &error), MBR_OK) << error.text;
        if (arena != nullptr && forget)
            mbr_arena_forget_holder(arena, id);
        holders_.erase(std::find(holders_.begin(), holders_.end(), holder));
    }

    // Until FreeAll.
    void Keep(mbr_allocation_handle handle) { kept_.push_back(handle); }

    void FreeAll()
    {
        for (mbr_allocation_handle handle : kept_)
            EXPECT_EQ(Free(handle), MBR_OK);
        kept_.clear();
    }

    HoardingHeap hoarding_heap;
    CountedHeap heap;
    mbr_context context;
    mbr_governor *governor = nullptr;
    mbr_authority *authority = nullptr;
    mbr_holder *kv = nullptr, *weights = nullptr;
    std::unique_ptr<mbr_backing> backing;
    mbr_alloc_table *table = nullptr;
    mbr_arena *arena = nullptr;

  private:
    bool shared_ = false; // there is or was a second arena over the backing
    std::vector<mbr_holder *> holders_;
    std::vector<mbr_allocation_handle> kept_;
    std::atomic<uint64_t> plain_count_{0}; // every second plain call takes the shortest way
};

} // namespace alloc_test

#endif
