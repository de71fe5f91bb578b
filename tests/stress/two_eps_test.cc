// Eight threads on two EPs under one budget that is too small for them: allocations and ranges that
// are freed behind one stream or two, by whoever comes by, taken again while they wait, refused,
// and drained. Each stream writes what it was given and reads it back when it comes to it: memory
// that two owners have at once shows as wrong bytes. MEMBRANE_SECONDS says how long; a seed is
// printed, and MEMBRANE_SEED takes another.
#include "tests/unit/bind/host_world.h"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <random>
#include <thread>

namespace membrane
{
namespace
{

constexpr int kThreads = 8;
constexpr int kEps = 2;
constexpr int kSlots = 32; // blocks that lie about for others to free
constexpr uint64_t kLimit = 24 * kMiB;

uint64_t Number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text != nullptr ? strtoull(text, nullptr, 0) : otherwise;
}

struct Stream {
    mbr_native native;
    mbr_stream_handle handle;
};

struct Ep {
    mbr_ep_handle ep;
    mbr_binding_handle binding;
    Stream own[kThreads], shared; // the shared one reads what the others wrote
};

struct Counts {
    std::atomic<uint64_t> wrong{0}, refused{0}, frees{0}, failed{0};
};

// What one piece of work wrote, and whether that is done.
struct Written {
    uint64_t address, bytes;
    uint8_t byte;
    Counts *counts;
    std::atomic<bool> done{false};
    std::atomic<int> readers;
};

void Write(void *context)
{
    const Written *written = static_cast<const Written *>(context);
    memset(view_of(written->address), written->byte, written->bytes);
}

bool Holds(const Written &written)
{
    const uint8_t *at = view_of(written.address);
    return at[0] == written.byte && memcmp(at, at + 1, written.bytes - 1) == 0;
}

void Leave(Written *written)
{
    if (--written->readers == 0)
        delete written;
}

void ReadBack(void *context)
{
    Written *written = static_cast<Written *>(context);
    written->counts->wrong += !Holds(*written);
    written->done = true;
    Leave(written);
}

// On another stream, behind what was submitted before it: it cannot wait in a circle.
void ReadElsewhere(void *context)
{
    Written *written = static_cast<Written *>(context);
    while (!written->done)
        std::this_thread::yield();
    written->counts->wrong += !Holds(*written);
    Leave(written);
}

// A block that is freed later, by anybody; with the streams that may touch it.
struct Block {
    mbr_allocation_handle allocation = {0};
    mbr_stream_handle streams[2];
    uint32_t stream_count;
};

class Stress
{
  public:
    Stress()
    {
        eps_[0] = {world_.ep, world_.binding, {}, {world_.native, world_.stream}};
        mbr_ep_request request = world_.ep_request("second");
        Check(mbr_ep_create(world_.manager, &request, &eps_[1].ep, nullptr));
        mbr_bind_request bind = world_.bind_request();
        bind.ep = eps_[1].ep;
        Check(mbr_manager_bind(world_.manager, &bind, &eps_[1].binding, nullptr));
        Attach(&eps_[1], &eps_[1].shared);
        for (Ep &ep : eps_)
            for (Stream &stream : ep.own)
                Attach(&ep, &stream);
    }
    ~Stress()
    {
        for (Ep &ep : eps_)
            for (Stream &stream : ep.own)
                Detach(&stream);
        Detach(&eps_[1].shared);
        Check(mbr_manager_unbind(world_.manager, eps_[1].binding, nullptr));
        Check(mbr_ep_destroy(world_.manager, eps_[1].ep, kNever, nullptr));
    }

    void Run(int number, uint64_t seed, std::chrono::steady_clock::time_point end)
    {
        std::mt19937_64 random(seed + static_cast<uint64_t>(number));
        for (uint64_t i = 0; std::chrono::steady_clock::now() < end; i++) {
            Ep *ep = &eps_[random() % kEps];
            switch (random() % 16) {
            case 0:
                UseRange(ep, number, &random);
                break;
            case 1:
                mbr_manager_poll(world_.manager);
                break;
            case 2:
                if (random() % 16 == 0)
                    (void)mbr_ep_drain(world_.manager, ep->ep, 0, nullptr); // past its deadline
                break;
            default:
                UseBlock(ep, number, &random);
                break;
            }
        }
    }

    // Nothing is left, nothing was read wrong, and every free was settled or taken again.
    void End()
    {
        for (std::atomic<Block *> &slot : slots_)
            FreeIn(&slot, nullptr);
        uint64_t settled = 0, reactivated = 0, waits = 0, signals = 0;
        for (Ep &ep : eps_) {
            Check(mbr_ep_drain(world_.manager, ep.ep, kNever, nullptr));
            auto figures = sized<mbr_ep_figures>();
            Check(mbr_ep_read(world_.manager, ep.ep, &figures, nullptr));
            settled += figures.released_count + figures.reactivated_count;
            reactivated += figures.reactivated_count;
            waits += figures.stream_wait_count;
            signals += figures.signal_count;
            EXPECT_EQ(0u, figures.queued_count + figures.lost_count + figures.violation_count);
        }
        EXPECT_EQ(counts_.frees, settled);
        EXPECT_EQ(0u, counts_.wrong);
        EXPECT_EQ(0u, counts_.failed);
        EXPECT_TRUE(world_.clean());
        printf("%llu frees, %llu of them taken again, %llu waits of streams, %llu signals, "
               "%llu refused\n",
            static_cast<unsigned long long>(settled), static_cast<unsigned long long>(reactivated),
            static_cast<unsigned long long>(waits), static_cast<unsigned long long>(signals),
            static_cast<unsigned long long>(counts_.refused));
        EXPECT_GT(reactivated, 0u);
        EXPECT_GT(settled, 100u);
    }

  private:
    void Check(mbr_status status) { counts_.failed += status != MBR_OK; }

    void Attach(Ep *ep, Stream *stream)
    {
        stream->native = world_.make_stream();
        Check(
            mbr_ep_attach_stream(world_.manager, ep->ep, stream->native, &stream->handle, nullptr));
    }
    void Detach(Stream *stream)
    {
        Check(mbr_ep_detach_stream(world_.manager, stream->handle, nullptr));
        world_.end_stream(stream->native);
    }

    // Writes and reads back on the thread's own stream, and at times reads on the shared one.
    void Work(Ep *ep, int number, uint64_t address, uint64_t bytes, bool shared, uint8_t byte)
    {
        Written *written = new Written{address, bytes, byte, &counts_, {false}, {1 + shared}};
        world_.submit(ep->own[number].native, Write, written);
        world_.submit(ep->own[number].native, ReadBack, written);
        if (shared)
            world_.submit(ep->shared.native, ReadElsewhere, written);
    }

    void Free(const Block &block)
    {
        auto request = sized<mbr_free_request>();
        request.allocation = block.allocation;
        request.streams = block.streams;
        request.stream_count = block.stream_count;
        Check(mbr_free(world_.manager, &request, nullptr));
        counts_.frees++;
    }
    // Puts a block where others find it, and frees the one that was there.
    void FreeIn(std::atomic<Block *> *slot, Block *next)
    {
        Block *before = slot->exchange(next);
        if (before != nullptr)
            Free(*before);
        delete before;
    }

    void UseBlock(Ep *ep, int number, std::mt19937_64 *random)
    {
        static const uint64_t sizes[] = {512, 4096, 70000, 300000, 1500000};
        auto request = sized<mbr_alloc_request>();
        request.binding = ep->binding;
        request.holder = world_.holder;
        request.stream = ep->own[number].handle;
        request.bytes = sizes[(*random)() % 5];
        auto result = sized<mbr_alloc_result>();
        mbr_status status = mbr_alloc(world_.manager, &request, &result, nullptr);
        if (status == MBR_OVER_BUDGET) {
            counts_.refused++;
            FreeIn(&slots_[(*random)() % kSlots], nullptr);
            return;
        }
        Check(status);
        bool shared = (*random)() % 4 == 0;
        Work(ep, number, result.address, request.bytes, shared, static_cast<uint8_t>((*random)()));
        Block block = {
            result.allocation, {ep->own[number].handle, ep->shared.handle}, shared ? 2u : 1u};
        if ((*random)() % 4 == 0)
            FreeIn(&slots_[(*random)() % kSlots], new Block(block));
        else
            Free(block);
    }

    void UseRange(Ep *ep, int number, std::mt19937_64 *random)
    {
        constexpr uint64_t kUnit = 64 * 1024;
        auto reserve = sized<mbr_range_reserve_request>();
        reserve.binding = ep->binding;
        reserve.bytes = kMiB;
        reserve.growth = {kUnit, kUnit, 0};
        auto range = sized<mbr_range_reserve_result>();
        mbr_status status = mbr_range_reserve(world_.manager, &reserve, &range, nullptr);
        Check(status);
        if (status != MBR_OK)
            return;
        mbr_piece piece = {range.range, 0, (1 + (*random)() % 8) * kUnit};
        auto grow = sized<mbr_range_grow_request>();
        grow.holder = world_.holder;
        grow.stream = ep->own[number].handle;
        grow.pieces = &piece;
        grow.piece_count = 1;
        auto grown = sized<mbr_range_grow_result>();
        status = mbr_range_grow(world_.manager, &grow, &grown, nullptr);
        auto release = sized<mbr_range_release_request>();
        release.piece.range = range.range;
        release.streams = &ep->own[number].handle;
        release.stream_count = 1;
        if (status == MBR_OK) {
            Work(ep, number, range.address, piece.bytes, false, static_cast<uint8_t>((*random)()));
            counts_.frees++; // with nothing committed there is nothing to wait for
        } else {
            counts_.refused++;
            counts_.failed += status != MBR_OVER_BUDGET;
        }
        Check(mbr_range_release(world_.manager, &release, nullptr));
    }

    HostWorld world_{kLimit};
    Ep eps_[kEps];
    Counts counts_;
    std::atomic<Block *> slots_[kSlots] = {};
};

TEST(Stress, EightThreadsOnTwoEps_EveryContentIsItsOwners)
{
    uint64_t seed = Number("MEMBRANE_SEED", 20261130);
#if defined(__SANITIZE_THREAD__)
    uint64_t seconds = Number("MEMBRANE_SECONDS", 3);
#else
    uint64_t seconds = Number("MEMBRANE_SECONDS", 1);
#endif
    printf("run with MEMBRANE_SEED=%llu MEMBRANE_SECONDS=%llu\n",
        static_cast<unsigned long long>(seed), static_cast<unsigned long long>(seconds));
    Stress stress;
    auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; i++)
        threads.emplace_back([&stress, i, seed, end] { stress.Run(i, seed, end); });
    for (std::thread &thread : threads)
        thread.join();
    stress.End();
}

} // namespace
} // namespace membrane
