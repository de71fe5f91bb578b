// Eight threads on several streams of one CPU EP, with contents that check themselves: each chain
// of operations doubles and copies a buffer, and any operation out of order leaves another content.
#include "tests/unit/ep/cpu_fixture.h"

#include <random>
#include <thread>
#include <vector>

using namespace ep_test;

namespace
{

constexpr int kThreads = 8;
constexpr int kStreams = 4; // of each thread
constexpr int kRounds = 60;
constexpr size_t kBytes = 256;

uint64_t address_of(const void *memory)
{
    return reinterpret_cast<uint64_t>(memory);
}

// What one round must have left: `seed` in every byte of both buffers, written by a fill on one
// stream and carried over by a copy on another that waits for it.
struct Chain {
    std::vector<uint8_t> first = std::vector<uint8_t>(kBytes);
    std::vector<uint8_t> second = std::vector<uint8_t>(kBytes);
    uint8_t seed = 0;
    std::atomic<uint64_t> *faults = nullptr;

    static void check(void *context)
    {
        Chain *chain = static_cast<Chain *>(context);
        for (uint8_t byte : chain->second)
            *chain->faults += byte != chain->seed;
    }
};

void work(Cpu *ep, int thread, std::atomic<uint64_t> *faults)
{
    std::mt19937 random(static_cast<unsigned>(thread) + 1);
    std::vector<mbr_native> streams(kStreams);
    std::vector<uint64_t> ids(kStreams);
    // The fixture's slots keep one outcome each; a thread calls with its own.
    mbr_outcome outcome = sized<mbr_outcome>();
    for (int i = 0; i < kStreams; i++) {
        ids[static_cast<size_t>(i)] = static_cast<uint64_t>(thread * kStreams + i + 1);
        EXPECT_EQ(
            MBR_OK, mbr_cpu_stream_create(ep->cpu, &streams[static_cast<size_t>(i)], nullptr));
        mbr_line_open_request open = sized<mbr_line_open_request>();
        open.line_id = ids[static_cast<size_t>(i)];
        open.stream = streams[static_cast<size_t>(i)];
        EXPECT_EQ(MBR_OK, ep->order->line_open(ep->instance, &open, &outcome, nullptr));
    }
    Chain chain;
    chain.faults = faults;
    for (int round = 0; round < kRounds; round++) {
        size_t from = random() % kStreams, to = random() % kStreams;
        chain.seed = static_cast<uint8_t>(random());
        EXPECT_EQ(MBR_OK,
            mbr_cpu_fill(ep->cpu, streams[from], address_of(chain.first.data()), chain.seed, kBytes,
                nullptr));
        mbr_line_request line = sized<mbr_line_request>();
        line.line_id = ids[from];
        EXPECT_EQ(MBR_OK, ep->order->signal(ep->instance, &line, &outcome, nullptr));
        mbr_stream_wait_request wait = sized<mbr_stream_wait_request>();
        wait.line_id = ids[from];
        wait.value = outcome.value;
        wait.stream = streams[to];
        while (ep->order->stream_wait(ep->instance, &wait, &outcome, nullptr) != MBR_OK)
            EXPECT_EQ(MBR_OK, mbr_cpu_synchronize(ep->cpu, streams[to], soon(), nullptr));
        EXPECT_EQ(MBR_OK,
            mbr_cpu_copy(ep->cpu, streams[to], address_of(chain.second.data()),
                address_of(chain.first.data()), kBytes, nullptr));
        EXPECT_EQ(
            MBR_OK, mbr_cpu_host_function(ep->cpu, streams[to], Chain::check, &chain, nullptr));
        line.line_id = ids[to];
        EXPECT_EQ(MBR_OK, ep->order->signal(ep->instance, &line, &outcome, nullptr));
        mbr_line_wait_request done = sized<mbr_line_wait_request>();
        done.line_id = ids[to];
        done.value = outcome.value;
        done.deadline_ns = soon();
        EXPECT_EQ(MBR_OK, ep->order->wait(ep->instance, &done, &outcome, nullptr));
        if (random() % 8 == 0) { // the next round uses a new stream with a new line
            size_t renewed = random() % kStreams;
            line.line_id = ids[renewed];
            EXPECT_EQ(MBR_OK, ep->order->line_close(ep->instance, &line, &outcome, nullptr));
            EXPECT_EQ(MBR_OK, mbr_cpu_stream_destroy(ep->cpu, streams[renewed], nullptr));
            while (mbr_cpu_stream_create(ep->cpu, &streams[renewed], nullptr) != MBR_OK)
                std::this_thread::yield();
            ids[renewed] += kThreads * kStreams;
            mbr_line_open_request open = sized<mbr_line_open_request>();
            open.line_id = ids[renewed];
            open.stream = streams[renewed];
            EXPECT_EQ(MBR_OK, ep->order->line_open(ep->instance, &open, &outcome, nullptr));
        }
    }
    for (int i = 0; i < kStreams; i++) {
        mbr_line_request line = sized<mbr_line_request>();
        line.line_id = ids[static_cast<size_t>(i)];
        EXPECT_EQ(MBR_OK, ep->order->line_close(ep->instance, &line, &outcome, nullptr));
        EXPECT_EQ(
            MBR_OK, mbr_cpu_stream_destroy(ep->cpu, streams[static_cast<size_t>(i)], nullptr));
    }
}

TEST(CpuStress, EightThreadsOnTheirStreams_EveryContentIsRight)
{
    Cpu ep(kThreads * kStreams, 8);
    std::atomic<uint64_t> faults{0};
    std::vector<std::thread> threads;
    for (int thread = 0; thread < kThreads; thread++)
        threads.emplace_back(work, &ep, thread, &faults);
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(0u, faults);
}

TEST(CpuStress, EightThreadsOnOneSmallStream_EverySubmissionRunsOnce)
{
    Cpu ep(1, 3);
    mbr_native stream = ep.stream();
    uint64_t sum = 0; // the worker's alone
    std::vector<std::thread> threads;
    for (int thread = 0; thread < kThreads; thread++)
        threads.emplace_back([&] {
            for (int i = 0; i < 500; i++)
                EXPECT_EQ(MBR_OK,
                    mbr_cpu_host_function(
                        ep.cpu, stream, [](void *context) { ++*static_cast<uint64_t *>(context); },
                        &sum, nullptr));
        });
    for (std::thread &thread : threads)
        thread.join();
    ep.synchronize(stream);
    EXPECT_EQ(kThreads * 500u, sum);
    ep.destroy(stream);
}

TEST(CpuStress, ManyWaitersOfOneLine_AllSeeTheirValue)
{
    Cpu ep(1);
    mbr_native stream = ep.stream();
    ASSERT_EQ(MBR_OK, ep.line_open(1, stream));
    Gate gate;
    ep.call(stream, Gate::pass, &gate);
    for (int i = 0; i < kThreads; i++)
        ASSERT_EQ(MBR_OK, ep.signal(1));
    std::vector<std::thread> threads;
    for (int thread = 0; thread < kThreads; thread++)
        threads.emplace_back([&ep, thread] {
            mbr_line_wait_request wait = sized<mbr_line_wait_request>();
            wait.line_id = 1;
            wait.value = static_cast<uint64_t>(thread) + 1;
            wait.deadline_ns = kForever;
            mbr_outcome outcome = sized<mbr_outcome>();
            EXPECT_EQ(MBR_OK, ep.order->wait(ep.instance, &wait, &outcome, nullptr));
        });
    gate.open();
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(MBR_OK, ep.line_close(1));
    ep.destroy(stream);
}

} // namespace
