// Eight threads on one instance of the real file: balanced churn ends at zero, contents are never
// another thread's, and of several that race for one thing exactly one gets it.
#include "tests/unit/plugins_host/mechanism.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

using namespace host_test;

namespace
{

constexpr uint64_t G = 4096;
constexpr int kThreads = 8;

template <typename Work> void together(Work work)
{
    std::vector<std::thread> threads;
    std::atomic<int> waiting{kThreads};
    for (int i = 0; i < kThreads; i++)
        threads.emplace_back([&, i] {
            waiting--;
            while (waiting > 0)
                std::this_thread::yield();
            work(i);
        });
    for (std::thread &thread : threads)
        thread.join();
}

} // namespace

TEST(HostThreads, BalancedChurn_EndsAtZeroWithContentsIntact)
{
    Mechanism host = Mechanism::open({{"granule", "4096"}});
    std::atomic<uint64_t> next_id{1};
    std::atomic<int> failures{0};
    together([&](int thread) {
        auto check = [&](bool good) { failures += !good; };
        uint64_t reservation = next_id++;
        Result reserved = host.reserve(reservation, 16 * G);
        check(reserved.ok());
        for (uint64_t round = 0; round < 300; round++) {
            uint64_t extent = next_id++, second = next_id++, allocation = next_id++;
            uint64_t bytes = (round % 5 + 1) * G, tag = (uint64_t)thread << 32 | round;
            uint64_t base = reserved.outcome.address;
            check(host.create(extent, bytes).ok());
            check(host.create(second, G).ok());
            check(host.map(reservation, 0, extent).ok());
            check(host.map(reservation, bytes, second).ok());
            check(host.protect(reservation, 0, bytes + G, MBR_ACCESS_READ_WRITE).ok());
            check(word(base) == 0 && word(base + bytes) == 0);
            word(base) = tag;
            check(host.map_shared(reservation, 8 * G, extent, MBR_ACCESS_READ).ok());
            Result allocated = host.allocate(allocation, 100 + round, round % 2 ? 0 : 8192);
            check(allocated.ok());
            word(allocated.outcome.address) = tag;
            check(word(base + 8 * G) == tag);
            check(host.unmap(reservation, 0, bytes + G).ok());
            check(word(base + 8 * G) == tag);
            check(host.unmap(reservation, 8 * G, bytes).ok());
            check(host.destroy(second).ok());
            check(host.destroy(extent).ok());
            check(word(allocated.outcome.address) == tag);
            check(host.release(allocation, allocated.outcome.address).ok());
        }
        check(host.unreserve(reservation).ok());
    });
    EXPECT_EQ(failures, 0);
    EXPECT_EQ(file_bytes(), 0u);
    expect_empty_and_close(host);
}

TEST(HostThreads, RacesForOneObject_HaveOneWinner)
{
    Mechanism host = Mechanism::open({{"granule", "4096"}});
    uint64_t id = 0;
    for (int round = 0; round < 50; round++) {
        id++;
        std::atomic<int> created{0}, reserved{0}, mapped{0}, destroyed{0}, released{0};
        together([&](int) { created += host.create(id, G).ok(); });
        together([&](int) { reserved += host.reserve(id, 16 * G).ok(); });
        // Serial for the reservation is the host's duty; a plugin that is called all the same
        // answers BUSY and keeps its books.
        together([&](int thread) { mapped += host.map(id, (uint64_t)thread * G, id).ok(); });
        EXPECT_EQ(created, 1);
        EXPECT_EQ(reserved, 1);
        EXPECT_EQ(mapped, 1);
        EXPECT_EQ(host.stats().mapped_bytes, G);
        mbr_query_outcome at;
        uint64_t offset = 0;
        do {
            ASSERT_EQ(host.query(id, offset, &at), MBR_OK);
            offset = at.offset_bytes + at.bytes;
        } while (at.extent_id == 0);
        ASSERT_TRUE(host.unmap(id, at.offset_bytes, at.bytes).ok());
        together([&](int) { destroyed += host.destroy(id).ok(); });
        EXPECT_EQ(destroyed, 1);
        Result allocation = host.allocate(id, 1);
        together([&](int) { released += host.release(id, allocation.outcome.address).ok(); });
        EXPECT_EQ(released, 1);
        ASSERT_TRUE(host.unreserve(id).ok());
    }
    EXPECT_EQ(file_bytes(), 0u);
    expect_empty_and_close(host);
}

TEST(HostThreads, MapAgainstDestroy_NeverLeavesAMappingOfAHole)
{
    Mechanism host = Mechanism::open({{"granule", "4096"}});
    Result reserved = host.reserve(1, kThreads * G);
    ASSERT_TRUE(reserved.ok());
    int wins = 0;
    for (uint64_t id = 2; id < 300; id++) {
        ASSERT_TRUE(host.create(id, G).ok());
        std::atomic<bool> mapped{false}, destroyed{false};
        together([&](int thread) {
            if (thread == 0)
                mapped = host.map(1, 0, id).ok();
            if (thread == 1)
                destroyed = host.destroy(id).ok();
        });
        ASSERT_NE(mapped, destroyed);
        wins += mapped;
        ASSERT_EQ(file_bytes(), mapped ? G : 0);
        if (mapped) {
            ASSERT_TRUE(host.unmap(1, 0, G).ok());
            ASSERT_TRUE(host.destroy(id).ok());
        }
    }
    EXPECT_TRUE(host.unreserve(1).ok());
    expect_empty_and_close(host);
    std::cout << "map won " << wins << " of 298\n";
}
