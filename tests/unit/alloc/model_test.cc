// Random work against a naive model: a map of what is out, where, for whom, with which content. The
// model shares no code with the arena; its only knowledge is what each call answered.
#include "tests/unit/alloc/world.h"

#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <vector>

namespace alloc_test
{
namespace
{

struct Block {
    uint64_t handle, address, asked, usable, charged, tag;
    mbr_holder *holder;
    bool queued = false;
    bool given_again = false;
};

uint64_t Seed()
{
    const char *given = std::getenv("MEMBRANE_SEED");
    return given != nullptr ? std::strtoull(given, nullptr, 10) : 20260;
}

class Model
{
  public:
    Model(uint64_t seed, uint64_t limit_bytes)
        : world_(limit_bytes, 24 * kMiB), random_(seed), exact_(world_.Holder("exact", 3 * kMiB)),
          limit_bytes_(limit_bytes)
    {
        world_.context.hold(kStream);
    }

    ~Model()
    {
        world_.context.finish(kStream);
        world_.context.reap();
        for (auto &[address, block] : blocks_)
            if (!block.queued) {
                EXPECT_EQ(world_.Free({block.handle}), MBR_OK);
            }
        world_.context.reap(); /* what was given again */
    }

    void Step()
    {
        switch (random_() % 16) {
        case 0:
        case 1:
        case 2:
        case 3:
        case 4:
        case 5:
            return Alloc();
        case 6:
        case 7:
        case 8:
        case 9:
            return FreeOne();
        case 10:
            return Misuse();
        case 11:
            return random_() % 8 == 0 ? Finish() : Look();
        case 12:
            return Trim();
        case 13:
            return Fault();
        default:
            return Look();
        }
    }

    // Every figure against the model's.
    void Compare()
    {
        uint64_t live = 0, live_bytes = 0, queued = 0, queued_bytes = 0;
        std::map<mbr_holder *, uint64_t> charges = {
            {world_.kv, 0}, {world_.weights, 0}, {exact_, 0}};
        for (auto &[address, block] : blocks_) {
            (block.queued ? queued : live)++;
            (block.queued ? queued_bytes : live_bytes) += block.charged;
            charges[block.holder] += block.charged;
            CheckPattern(block);
        }
        mbr_arena_figures figures = world_.Figures();
        EXPECT_EQ(figures.live_count, live);
        EXPECT_EQ(figures.live_bytes, live_bytes);
        EXPECT_EQ(figures.queued_count, queued);
        EXPECT_EQ(figures.queued_bytes, queued_bytes);
        EXPECT_EQ(figures.slab_bytes, world_.backing->span_bytes());
        EXPECT_LE(figures.slab_bytes, limit_bytes_);
        EXPECT_LE(figures.idle_bytes, 24 * kMiB);
        for (auto &[holder, bytes] : charges)
            EXPECT_EQ(world_.Charged(holder), bytes);
        EXPECT_TRUE(world_.Agree());
    }

    uint64_t allocated_count() const { return allocated_; }
    uint64_t refused_count() const { return refused_; }
    uint64_t reactivated_count() const { return reactivated_; }

  private:
    static unsigned char Byte(const Block &block, uint64_t offset)
    {
        return static_cast<unsigned char>(block.handle * 31 + offset * 7 + 1);
    }

    // Both ends of the block, and a few bytes of each page of the map between them.
    template <typename Each> static void Places(const Block &block, Each each)
    {
        for (uint64_t offset = 0; offset < block.usable;) {
            each(offset, reinterpret_cast<unsigned char *>(block.address + offset));
            bool at_end = offset + 32 >= block.usable;
            offset += at_end || offset % (64 * kKiB) < 32
                ? 1
                : std::min(64 * kKiB - offset % (64 * kKiB), block.usable - offset - 32);
        }
    }

    void Write(const Block &block)
    {
        Places(block, [&](uint64_t offset, unsigned char *at) { *at = Byte(block, offset); });
    }

    void CheckPattern(const Block &block)
    {
        bool whole = true;
        Places(block,
            [&](uint64_t offset, unsigned char *at) { whole &= *at == Byte(block, offset); });
        EXPECT_TRUE(whole) << "bytes of a block of " << block.asked << " were written by another";
    }

    void CheckZero(const Block &block)
    {
        bool zero = true;
        Places(block, [&](uint64_t, unsigned char *at) { zero &= *at == 0; });
        const char *at = reinterpret_cast<const char *>(block.address);
        uint64_t bytes = std::min(block.usable, 16 * kKiB);
        zero &= memcmp(at, at + 1, bytes - 1) == 0;
        EXPECT_TRUE(zero) << "content is said to be zero";
    }

    uint64_t Bytes()
    {
        int bits = static_cast<int>(random_() % 23);
        if (random_() % 200 == 0)
            return 64 * kMiB + random_() % (8 * kMiB);
        return random_() % (UINT64_C(2) << bits);
    }

    void Alloc()
    {
        if (blocks_.size() > 1500)
            return FreeOne();
        Request request{Bytes()};
        request.align_bytes = random_() % 4 == 0 ? UINT64_C(1) << (random_() % 23) : 0;
        request.stream_id = random_() % 2 == 0 ? kStream : 0;
        request.flags = random_() % 4 == 0 && request.bytes < kMiB ? MBR_ALLOC_ZEROED : 0;
        request.tag = random_() % 3;
        mbr_holder *holders[] = {world_.kv, world_.kv, world_.weights, exact_};
        request.holder = holders[random_() % 4];
        mbr_alloc_result result = {};
        mbr_status status = world_.TryAlloc(request, &result);
        if (status != MBR_OK) {
            refused_++;
            EXPECT_TRUE(status == MBR_OVER_BUDGET || faulty_) << status;
            return;
        }
        allocated_++;
        Block block = {result.allocation.value, result.address, request.bytes, result.usable_bytes,
            result.charged_bytes, request.tag, request.holder};
        EXPECT_GE(block.usable, block.asked);
        EXPECT_GE(block.charged, block.usable);
        EXPECT_EQ(block.address % std::max<uint64_t>(request.align_bytes, 256), 0u);
        auto queued = blocks_.find(block.address);
        block.given_again = queued != blocks_.end();
        if (queued != blocks_.end() && queued->second.queued) {
            EXPECT_EQ(request.stream_id, kStream) << "taken again for work that does not wait";
            EXPECT_EQ(request.flags, 0u);
            CheckPattern(queued->second);
            blocks_.erase(queued);
            reactivated_++;
        }
        auto after = blocks_.lower_bound(block.address);
        EXPECT_TRUE(after == blocks_.end() || block.address + block.usable <= after->first);
        EXPECT_TRUE(after == blocks_.begin() ||
            std::prev(after)->first + std::prev(after)->second.usable <= block.address);
        if (result.content == MBR_CONTENT_ZERO)
            CheckZero(block);
        EXPECT_TRUE((request.flags & MBR_ALLOC_ZEROED) == 0 || result.content == MBR_CONTENT_ZERO);
        Write(block);
        blocks_[block.address] = block;
    }

    Block *Any()
    {
        if (blocks_.empty())
            return nullptr;
        auto found = blocks_.lower_bound(blocks_.begin()->first +
            random_() % (blocks_.rbegin()->first - blocks_.begin()->first + 1));
        return found == blocks_.end() ? &blocks_.begin()->second : &found->second;
    }

    void FreeOne()
    {
        Block *block = Any();
        if (block == nullptr)
            return;
        CheckPattern(*block);
        bool by_address = random_() % 2 == 0, now = random_() % 3 != 0;
        uint64_t stream = kStream;
        mbr_status status = mbr_alloc_free(world_.table, {by_address ? 0 : block->handle},
            block->address, now, now ? nullptr : &stream, now ? 0 : 1, nullptr);
        EXPECT_EQ(status, block->queued ? MBR_UNKNOWN_OBJECT : MBR_OK);
        if (status != MBR_OK)
            return;
        dead_.push_back(block->handle);
        if (now && !block->given_again) /* else work of its former life is not done */
            blocks_.erase(block->address);
        else
            block->queued = true;
    }

    void Misuse()
    {
        Block *block = Any();
        if (block == nullptr)
            return;
        EXPECT_EQ(world_.FreeAt(block->address + 1 + random_() % block->usable / 2 * 2),
            MBR_UNKNOWN_OBJECT);
        if (!dead_.empty()) {
            EXPECT_EQ(world_.Free({dead_[random_() % dead_.size()]}), MBR_UNKNOWN_OBJECT);
        }
    }

    void Look()
    {
        Block *block = Any();
        if (block == nullptr)
            return;
        mbr_allocation_figures figures = {};
        figures.struct_size = sizeof(figures);
        uint64_t inside = block->address + random_() % block->usable;
        ASSERT_EQ(mbr_alloc_table_read(world_.table, {0}, inside, &figures, nullptr), MBR_OK);
        EXPECT_EQ(figures.allocation.value, block->handle);
        EXPECT_EQ(figures.bytes, block->asked);
        EXPECT_EQ(figures.tag, block->tag);
        EXPECT_EQ(figures.state,
            block->queued            ? uint32_t{MBR_ALLOCATION_QUEUED}
                : block->given_again ? uint32_t{MBR_ALLOCATION_GIVEN_AGAIN}
                                     : uint32_t{MBR_ALLOCATION_LIVE});
    }

    // The stream's work is done: what waited is released.
    void Finish()
    {
        for (auto it = blocks_.begin(); it != blocks_.end();) {
            CheckPattern(it->second);
            it = it->second.queued ? blocks_.erase(it) : std::next(it);
        }
        world_.context.finish(kStream);
        world_.context.reap();
        world_.context.hold(kStream);
    }

    void Trim()
    {
        uint64_t keep_bytes = random_() % (32 * kMiB);
        mbr_arena_trim(world_.arena, keep_bytes);
        EXPECT_LE(world_.Figures().idle_bytes, keep_bytes);
    }

    void Fault()
    {
        faulty_ = true;
        if (random_() % 2 == 0)
            world_.heap.fail_at = world_.heap.calls + 1 + random_() % 3;
        else
            world_.backing->fail_at = 1 + random_() % 3;
        for (int i = 0; i < 5; i++)
            random_() % 2 == 0 ? Alloc() : FreeOne();
        world_.heap.fail_at = 0;
        world_.backing->fail_at = 0;
        faulty_ = false;
    }

    World world_;
    std::mt19937_64 random_;
    mbr_holder *exact_;
    uint64_t limit_bytes_;
    std::map<uint64_t, Block> blocks_; // by address
    std::vector<uint64_t> dead_;
    uint64_t allocated_ = 0, refused_ = 0, reactivated_ = 0;
    bool faulty_ = false;
};

TEST(ArenaModel, RandomWork_UnderThreeLimits_NeverDiverges)
{
    uint64_t seed = Seed();
    for (int round = 0; round < 2 && !HasFailure(); round++, seed++)
        for (uint64_t limit_bytes : {8 * kMiB, 200 * kMiB, 8 * kGiB}) {
            SCOPED_TRACE(testing::Message() << "run with MEMBRANE_SEED=" << seed);
            Model model(seed, limit_bytes);
            for (int step = 0; step < 12000 && !HasFailure(); step++) {
                model.Step();
                if (step % 500 == 0)
                    model.Compare();
            }
            model.Compare();
            EXPECT_GT(model.allocated_count(), 1200u);
            EXPECT_TRUE(limit_bytes > kGiB || model.refused_count() > 50);
            EXPECT_GT(model.reactivated_count(), 20u);
        }
}

} // namespace
} // namespace alloc_test
