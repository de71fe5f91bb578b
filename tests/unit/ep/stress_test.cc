// Many threads on one context: producers, pollers, drains, detaches, loss and the end, in any
// order. Every entry is settled exactly once and never before its values. Contents check themselves
// on the CPU EP: a settled buffer is overwritten at once, and a copy still under way would carry
// that over.
#include "tests/unit/ep/cpu_fixture.h"
#include "tests/unit/ep/world.h"

#include <random>
#include <thread>

using namespace ep_test;

namespace
{

constexpr int kProducers = 8;
constexpr int kRounds = 1000;

// A buffer that a queued copy still reads: its release must come after the copy.
struct Buffer {
    mbr_deferred deferred = {};
    std::vector<uint8_t> bytes = std::vector<uint8_t>(512, 0x11);
    std::vector<uint8_t> copy = std::vector<uint8_t>(512, 0);
    std::atomic<int> settled{0};

    static void settle(mbr_deferred *deferred, mbr_settled how)
    {
        mbr_lock_assert_none_held();
        Buffer *buffer = reinterpret_cast<Buffer *>(deferred);
        EXPECT_EQ(MBR_SETTLED_RELEASED, how);
        std::fill(buffer->bytes.begin(), buffer->bytes.end(), uint8_t{0xee});
        buffer->settled++;
    }
};

class CpuContext
{
  public:
    explicit CpuContext(bool reaper)
    {
        mbr_context_options options = {};
        options.name = "cpu";
        options.order = ep.order;
        options.transfer = ep.transfer;
        options.instance = ep.instance;
        options.reaper = reaper;
        EXPECT_EQ(MBR_OK, mbr_context_create(&options, &context, nullptr));
    }
    ~CpuContext()
    {
        EXPECT_EQ(MBR_OK, mbr_context_drain(context, soon(), nullptr));
        EXPECT_EQ(nullptr, mbr_context_audit(context));
        EXPECT_EQ(MBR_OK, mbr_context_destroy(context, nullptr));
    }
    uint64_t attach(mbr_native native)
    {
        uint64_t id = 0;
        EXPECT_EQ(MBR_OK, mbr_context_attach_stream(context, native, &id, nullptr));
        return id;
    }

    Cpu ep;
    mbr_context *context = nullptr;
};

void produce(CpuContext *cpu, int seed)
{
    std::mt19937 random(static_cast<unsigned>(seed));
    mbr_native natives[2] = {cpu->ep.stream(), cpu->ep.stream()};
    uint64_t ids[2] = {cpu->attach(natives[0]), cpu->attach(natives[1])};
    std::deque<Buffer> buffers;
    for (int round = 0; round < kRounds; round++) {
        Buffer *buffer = &buffers.emplace_back();
        size_t stream = random() % 2;
        uint64_t to = reinterpret_cast<uint64_t>(buffer->copy.data());
        uint64_t from = reinterpret_cast<uint64_t>(buffer->bytes.data());
        EXPECT_EQ(MBR_OK, mbr_context_copy(cpu->context, ids[stream], to, from, 512, nullptr));
        buffer->deferred.bytes = 512;
        buffer->deferred.settle = Buffer::settle;
        // Behind the copy's stream, at times behind both.
        bool both = random() % 4 == 0;
        EXPECT_EQ(MBR_OK,
            mbr_context_defer(
                cpu->context, both ? ids : &ids[stream], both ? 2 : 1, &buffer->deferred, nullptr));
        switch (random() % 32) {
        case 0:
            EXPECT_EQ(MBR_OK, mbr_context_drain(cpu->context, soon(), nullptr));
            for (Buffer &settled : buffers)
                EXPECT_EQ(1, settled.settled);
            break;
        case 1:
            EXPECT_EQ(MBR_OK, mbr_context_synchronize(cpu->context, ids[stream], soon(), nullptr));
            EXPECT_EQ(std::vector<uint8_t>(512, 0x11), buffer->copy);
            break;
        case 2: // the native stream goes; what is queued behind it is settled all the same
            EXPECT_EQ(MBR_OK, mbr_context_detach_stream(cpu->context, ids[stream], nullptr));
            cpu->ep.destroy(natives[stream]);
            while (mbr_cpu_stream_create(cpu->ep.cpu, &natives[stream], nullptr) != MBR_OK)
                std::this_thread::yield();
            ids[stream] = cpu->attach(natives[stream]);
            break;
        case 3:
        case 4:
            mbr_context_reap(cpu->context, true);
            break;
        default:
            break;
        }
    }
    EXPECT_EQ(MBR_OK, mbr_context_drain(cpu->context, soon(), nullptr));
    for (Buffer &buffer : buffers) {
        EXPECT_EQ(1, buffer.settled);
        EXPECT_EQ(std::vector<uint8_t>(512, 0x11), buffer.copy);
    }
    for (int i = 0; i < 2; i++) {
        EXPECT_EQ(MBR_OK, mbr_context_detach_stream(cpu->context, ids[i], nullptr));
        cpu->ep.destroy(natives[i]);
    }
}

void run_producers(CpuContext *cpu, bool reaper)
{
    std::vector<std::thread> threads;
    for (int i = 0; i < kProducers; i++)
        threads.emplace_back(produce, cpu, i + 1);
    std::atomic<bool> stop{false};
    std::thread poller([&] {
        while (!stop) {
            mbr_context_reap(cpu->context, false);
            std::this_thread::yield();
        }
    });
    for (std::thread &thread : threads)
        thread.join();
    stop = true;
    poller.join();
    mbr_ep_figures figures = sized<mbr_ep_figures>();
    do // the reaper may still ask a line, which it closes afterwards
        mbr_context_read(cpu->context, &figures);
    while (reaper && figures.line_count != 0);
    EXPECT_EQ(uint64_t{kProducers} * kRounds, figures.released_count);
    EXPECT_EQ(0u, figures.line_count);
}

TEST(ContextStress, EightProducersOnTheCpuEp_NoContentIsReleasedEarly)
{
    CpuContext cpu(false);
    run_producers(&cpu, false);
}

TEST(ContextStress, TheSameWithAReaper_NoContentIsReleasedEarly)
{
    CpuContext cpu(true);
    run_producers(&cpu, true);
}

// Producers until the context refuses; each entry is settled by whoever gets to it.
struct Race {
    World world{{.reaper = true, .real_clock = true}};
    uint64_t ids[4];
    std::atomic<bool> stop{false};
    std::atomic<uint64_t> queued{0};

    void produce(std::deque<Entry> *mine, int seed)
    {
        std::mt19937 random(static_cast<unsigned>(seed));
        while (!stop) {
            Entry *entry = &mine->emplace_back();
            entry->deferred.bytes = 64;
            entry->deferred.settle = Entry::settle;
            entry->fake = &world.fake;
            uint64_t native = 1 + random() % 4;
            entry->needs.push_back({native, world.fake.submit(native)});
            mbr_status status =
                mbr_context_defer(world.context, &ids[native - 1], 1, &entry->deferred, nullptr);
            if (status == MBR_OK) {
                queued++;
                continue;
            }
            mine->pop_back(); // handed back
            if (status == MBR_QUEUE_FULL) {
                std::this_thread::yield();
                continue;
            }
            EXPECT_TRUE(status == MBR_DEVICE_LOST || status == MBR_BUSY) << status;
            return;
        }
    }
    void poll(int seed)
    {
        std::mt19937 random(static_cast<unsigned>(seed));
        while (!stop) {
            world.fake.reach_all({1 + random() % 4});
            mbr_context_reap(world.context, random() % 2 == 0);
            std::this_thread::yield();
        }
    }
};

void race(const std::function<void(Race *)> &ending, bool lost)
{
    Race race;
    for (uint64_t native = 1; native <= 4; native++)
        race.ids[native - 1] = race.world.attach(native);
    std::deque<Entry> entries[4];
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++)
        threads.emplace_back([&race, &entries, i] { race.produce(&entries[i], i + 1); });
    for (int i = 0; i < 2; i++)
        threads.emplace_back([&race, i] { race.poll(i + 10); });
    threads.emplace_back([&race] {
        while (!race.stop) {
            (void)mbr_context_drain(race.world.context, now_ns() + 300000, nullptr);
            std::this_thread::yield();
        }
    });
    while (race.queued < 3000)
        std::this_thread::yield();
    ending(&race);
    race.stop = true;
    for (std::thread &thread : threads)
        thread.join();
    if (!lost) {
        race.world.fake.reach_all();
        std::lock_guard<std::mutex> lock(race.world.fake.mutex);
        race.world.fake.finish_in_wait = true;
    }
    EXPECT_EQ(MBR_OK, mbr_context_drain(race.world.context, soon(), nullptr));
    uint64_t count = 0;
    for (std::deque<Entry> &mine : entries)
        for (Entry &entry : mine) {
            EXPECT_EQ(1, entry.settled);
            count++;
        }
    EXPECT_EQ(race.queued, count);
    mbr_ep_figures figures = race.world.read();
    EXPECT_EQ(count, figures.released_count + figures.lost_count);
    EXPECT_EQ(lost, race.world.state() == MBR_CONTEXT_LOST);
    race.world.finish();
}

TEST(ContextStress, LostByTheClientInTheMiddle_EachEntryOnce)
{
    for (int round = 0; round < 4; round++)
        race([](Race *self) { mbr_context_lose(self->world.context); }, true);
}

TEST(ContextStress, LostByAQueryInTheMiddle_EachEntryOnce)
{
    for (int round = 0; round < 4; round++)
        race(
            [](Race *self) {
                {
                    // Threads that are inside a slot may all be told; none goes on afterwards.
                    std::lock_guard<std::mutex> lock(self->world.fake.mutex);
                    self->world.fake.answer[kReached] = MBR_DEVICE_LOST;
                }
                while (self->world.state() != MBR_CONTEXT_LOST)
                    std::this_thread::yield();
            },
            true);
}

TEST(ContextStress, RetiredInTheMiddle_ReleasesGoOn)
{
    race([](Race *self) { EXPECT_EQ(MBR_OK, mbr_context_retire(self->world.context, nullptr)); },
        false);
}

TEST(ContextStress, PinsFromManyThreadsAndARetirement_TerminatesOnceAtTheLastOne)
{
    for (int round = 0; round < 20; round++) {
        World world;
        std::atomic<uint64_t> refused{0};
        std::vector<std::thread> threads;
        for (int i = 0; i < 4; i++)
            threads.emplace_back([&] {
                for (;;) {
                    if (mbr_context_pin(world.context, nullptr) != MBR_OK) {
                        refused++;
                        return;
                    }
                    EXPECT_NE(uint32_t{MBR_CONTEXT_TERMINATED}, world.state());
                    mbr_context_unpin(world.context);
                }
            });
        EXPECT_EQ(MBR_OK, mbr_context_retire(world.context, nullptr));
        for (std::thread &thread : threads)
            thread.join();
        EXPECT_EQ(4u, refused);
        EXPECT_EQ(uint32_t{MBR_CONTEXT_TERMINATED}, world.state());
        EXPECT_EQ(0u, world.read().pin_count);
    }
}

} // namespace
