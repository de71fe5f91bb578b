// Random operations on a context against an independent tiny model: a list of entries with the work
// they wait for. MEMBRANE_SEED picks the seed; it is printed with every failure.
//
// The model knows nothing of epochs, marks or passes. It predicts every status and figure exactly,
// and of settling it says: never before the work (the entry checks it), never twice, and always
// after two passes with the device done in between (liveness), whatever other streams do.
#include "tests/unit/ep/world.h"

#include <algorithm>
#include <cstdlib>
#include <random>

using namespace ep_test;

namespace
{

constexpr uint64_t kOperations = 300000;
constexpr uint32_t kQueueEntries = 400;
constexpr uint64_t kQueueBytes = 1000000;

uint64_t seed()
{
    const char *text = getenv("MEMBRANE_SEED");
    return text != nullptr ? strtoull(text, nullptr, 0) : UINT64_C(20260117);
}

class Model
{
  public:
    explicit Model(std::mt19937_64 *random)
        : random_(random), world_({.queue_entries = kQueueEntries, .queue_bytes = kQueueBytes})
    {
    }

    // False when the context has ended and a new one must be made.
    bool step()
    {
        using Operation = void (Model::*)();
        static const std::vector<std::pair<uint64_t, Operation>> weighted = {
            {40, &Model::defer},
            {10, &Model::submit},
            {10, &Model::reach},
            {10, &Model::reap},
            {10, &Model::take},
            {4, &Model::attach},
            {3, &Model::detach},
            {3, &Model::pin},
            {3, &Model::unpin},
            {3, &Model::pass_time},
            {2, &Model::capture},
            {2, &Model::synchronize},
            {1, &Model::drain},
            {1, &Model::everything_settles},
            {1, &Model::refuse_heap},
        };
        uint64_t total = 0;
        for (const auto &[weight, operation] : weighted)
            total += weight;
        uint64_t choice = pick(total);
        for (const auto &[weight, operation] : weighted) {
            if (choice < weight) {
                (this->*operation)();
                break;
            }
            choice -= weight;
        }
        if (pick(3000) == 0)
            mbr_context_lose(world_.context);
        if (world_.fake.lost_at == 0 && pick(1500) == 0)
            world_.fake.lost_at = world_.fake.calls() + 1 + pick(20);
        check();
        if (!lost() && pick(3000) != 0)
            return true;
        end();
        return false;
    }

    uint64_t settled_count() const { return settled_; }
    uint64_t taken_count() const { return taken_; }

  private:
    struct Stream {
        uint64_t id;
        uint64_t native;
    };

    uint64_t pick(uint64_t count) { return (*random_)() % count; }
    bool lost() { return world_.state() == MBR_CONTEXT_LOST; }

    // ---- operations ----

    void attach()
    {
        uint64_t native = 1 + next_native_++;
        uint64_t id = 0;
        mbr_status status = mbr_context_attach_stream(world_.context, {1, 0, native}, &id, nullptr);
        EXPECT_EQ(lost() ? MBR_DEVICE_LOST : MBR_OK, status);
        if (status != MBR_OK)
            return;
        EXPECT_GT(id, last_id_);
        last_id_ = id;
        world_.natives[id] = native;
        streams_.push_back({id, native});
    }

    bool is_captured(const Stream &stream)
    {
        return world_.fake.captured.count(stream.native) != 0;
    }

    void detach()
    {
        if (streams_.empty())
            return;
        size_t index = pick(streams_.size());
        Stream stream = streams_[index];
        uint64_t signals = world_.fake.signalled(stream.native);
        mbr_status status = mbr_context_detach_stream(world_.context, stream.id, nullptr);
        if (status == MBR_OK) {
            streams_.erase(streams_.begin() + static_cast<ptrdiff_t>(index));
            EXPECT_EQ(
                MBR_UNKNOWN_OBJECT, mbr_context_detach_stream(world_.context, stream.id, nullptr));
        } else {
            EXPECT_EQ(MBR_BUSY, status);
            EXPECT_TRUE(is_captured(stream));
            EXPECT_EQ(signals, world_.fake.signalled(stream.native));
        }
        EXPECT_EQ(status != MBR_OK, mbr_context_knows_stream(world_.context, stream.id));
    }

    void pin()
    {
        EXPECT_EQ(MBR_OK, mbr_context_pin(world_.context, nullptr));
        pins_++;
    }
    void unpin()
    {
        if (pins_ == 0)
            return;
        mbr_context_unpin(world_.context);
        pins_--;
    }

    // Whether work on the stream runs after the entry's: it is the same stream, its work is done,
    // or the device was told to wait for it.
    bool is_after(uint64_t native, std::pair<uint64_t, uint64_t> need)
    {
        if (need.first == native || world_.fake.done(need.first) >= need.second)
            return true;
        for (const FakeOrder::DeviceWait &wait : world_.fake.device_waits)
            if (wait.on == native && wait.behind == need.first && wait.work >= need.second)
                return true;
        return false;
    }

    void take()
    {
        if (streams_.empty())
            return;
        Stream stream = streams_[pick(streams_.size())];
        bool behind_others = pick(2) == 0;
        world_.fake.device_waits.clear();
        world_.fake.answer[kStreamWait] = pick(8) == 0 ? MBR_BUSY : MBR_OK;
        Entry *entry = world_.take(stream.id, behind_others);
        world_.fake.answer[kStreamWait] = MBR_OK;
        EXPECT_TRUE(behind_others || world_.fake.device_waits.empty());
        if (entry == nullptr)
            return;
        for (std::pair<uint64_t, uint64_t> need : entry->needs)
            EXPECT_TRUE(is_after(stream.native, need)) << "new work would run too early";
        taken_++;
        queued_bytes_ -= entry->deferred.bytes;
    }

    void submit() { world_.fake.submit(1 + pick(next_native_ + 1)); }
    void reap() { world_.reap(pick(2) == 0); }
    void pass_time() { world_.clock.now += pick(2 * MBR_EPOCH_AGE_NS); }

    void reach()
    {
        if (streams_.empty())
            return;
        uint64_t native = streams_[pick(streams_.size())].native;
        uint64_t signalled = world_.fake.signalled(native);
        if (signalled != 0)
            world_.fake.reach(native, 1 + pick(signalled));
    }

    void capture()
    {
        if (!world_.fake.captured.empty() || streams_.empty())
            world_.fake.captured.clear();
        else
            world_.fake.captured.insert(streams_[pick(streams_.size())].native);
    }

    std::vector<uint64_t> some_streams()
    {
        std::vector<uint64_t> ids;
        uint64_t wanted = pick(8) == 0 ? pick(20) : pick(4);
        for (uint64_t i = 0; i < wanted && !streams_.empty(); i++)
            ids.push_back(streams_[pick(streams_.size())].id);
        return ids;
    }

    void defer()
    {
        std::vector<uint64_t> ids = some_streams();
        uint64_t bytes = pick(5000);
        mbr_status expected = MBR_OK;
        if (pick(50) == 0) {
            ids.push_back(last_id_ + 1 + pick(2000));
            expected = MBR_UNKNOWN_OBJECT;
        } else if (queued() == kQueueEntries || queued_bytes_ + bytes > kQueueBytes) {
            expected = MBR_QUEUE_FULL;
        }
        Entry *entry = world_.defer(ids, bytes, expected);
        if (entry == nullptr)
            return;
        queued_bytes_ += bytes;
        deferred_++;
        entry->then = [this](Entry *self) {
            settled_++;
            queued_bytes_ -= self->deferred.bytes;
            lost_ += self->how == MBR_SETTLED_LOST;
        };
    }

    void synchronize()
    {
        if (streams_.empty())
            return;
        Stream stream = streams_[pick(streams_.size())];
        world_.fake.finish_in_wait = pick(2) == 0;
        uint64_t submitted = world_.fake.submitted(stream.native);
        mbr_status status =
            mbr_context_synchronize(world_.context, stream.id, world_.clock.now + 1000, nullptr);
        if (lost())
            EXPECT_EQ(MBR_DEVICE_LOST, status);
        else if (is_captured(stream))
            EXPECT_EQ(MBR_BUSY, status);
        else if (world_.fake.finish_in_wait)
            EXPECT_EQ(MBR_OK, status);
        else
            EXPECT_EQ(MBR_TIMED_OUT, status);
        if (status == MBR_OK) {
            EXPECT_EQ(submitted, world_.fake.done(stream.native));
        }
        world_.fake.finish_in_wait = false;
    }

    void drain()
    {
        world_.fake.finish_in_wait = pick(2) == 0;
        // A deadline in the past while a stream is captured: nothing would move the fake clock
        // while the drain waits for the capture's end.
        bool waits = pick(2) == 0 && world_.fake.captured.empty();
        uint64_t deadline = waits ? world_.clock.now + 2 * MBR_REAPER_BACKOFF_MAX_NS : 0;
        mbr_status status = mbr_context_drain(world_.context, deadline, nullptr);
        EXPECT_EQ(queued() == 0 ? MBR_OK : MBR_TIMED_OUT, status);
        if (world_.fake.finish_in_wait && waits) {
            EXPECT_EQ(MBR_OK, status);
        }
        world_.fake.finish_in_wait = false;
    }

    // Liveness: what does not wait for the stalled or the captured stream is settled.
    void everything_settles()
    {
        uint64_t stalled =
            streams_.empty() || pick(2) == 0 ? 0 : streams_[pick(streams_.size())].native;
        std::set<uint64_t> stuck = world_.fake.captured;
        stuck.insert(stalled);
        world_.reap(true);
        world_.fake.reach_all({stalled});
        world_.reap(true);
        for (Entry &entry : world_.entries) {
            bool is_stuck = false; // a loss settles everything
            for (auto [native, work] : entry.needs)
                is_stuck |= !lost() && stuck.count(native) != 0;
            if (!is_stuck) {
                ASSERT_EQ(1, entry.settled + entry.taken);
            }
        }
        forget_settled();
    }

    void forget_settled()
    {
        while (!world_.entries.empty() &&
            world_.entries.front().settled + world_.entries.front().taken == 1)
            world_.entries.pop_front();
    }

    // The next allocation is refused: an entry is either taken or handed back, nothing between.
    void refuse_heap()
    {
        world_.heap.fail_at = world_.heap.calls + 1;
        std::vector<uint64_t> ids = some_streams();
        bool fits = queued() < kQueueEntries && queued_bytes_ < kQueueBytes;
        Entry entry;
        entry.deferred.bytes = 0;
        entry.deferred.settle = Entry::settle;
        entry.fake = &world_.fake;
        mbr_status status = mbr_context_defer(world_.context, ids.data(),
            static_cast<uint32_t>(ids.size()), &entry.deferred, nullptr);
        world_.heap.fail_at = 0;
        if (status != MBR_OK) {
            EXPECT_TRUE(status == MBR_OUT_OF_HOST_MEMORY || (!fits && status == MBR_QUEUE_FULL));
            return;
        }
        world_.fake.captured.clear();
        world_.reap(true);
        world_.fake.reach_all();
        world_.reap(true);
        EXPECT_EQ(1, entry.settled);
        (entry.how == MBR_SETTLED_RELEASED ? extra_released_ : extra_lost_)++;
    }

    // ---- ends ----

    void end()
    {
        bool orderly = !lost();
        if (orderly) {
            world_.fake.lost_at = 0;
            world_.fake.captured.clear();
            world_.fake.finish_in_wait = true;
            EXPECT_EQ(MBR_OK, mbr_context_retire(world_.context, nullptr));
            EXPECT_EQ(MBR_BUSY, mbr_context_pin(world_.context, nullptr));
        }
        for (; pins_ != 0; pins_--)
            mbr_context_unpin(world_.context);
        EXPECT_EQ(MBR_OK, mbr_context_drain(world_.context, kForever, nullptr));
        uint32_t last = orderly ? MBR_CONTEXT_TERMINATED : MBR_CONTEXT_LOST;
        EXPECT_EQ(last, world_.state());
        EXPECT_EQ(deferred_, settled_ + taken_);
        world_.finish(); // each entry once; no line, unless lost, and no block left
    }

    // ---- after each operation ----

    uint64_t queued() const { return deferred_ - settled_ - taken_; }

    void check()
    {
        mbr_ep_figures figures = world_.read();
        ASSERT_EQ(queued(), figures.queued_count);
        ASSERT_EQ(queued_bytes_, figures.queued_bytes);
        ASSERT_EQ(pins_, figures.pin_count);
        ASSERT_EQ(streams_.size(), figures.stream_count);
        ASSERT_EQ(settled_ - lost_ + extra_released_, figures.released_count);
        ASSERT_EQ(lost_ + extra_lost_, figures.lost_count);
        ASSERT_EQ(taken_, figures.reactivated_count);
        ASSERT_EQ(world_.fake.open_lines(), figures.line_count);
        ASSERT_LE(world_.fake.lost_answers, 1u);
        ASSERT_EQ(0u, figures.violation_count);
        if (pick(16) == 0)
            world_.audit();
        if (pick(64) == 0)
            forget_settled();
    }

    std::mt19937_64 *random_;
    World world_;
    std::vector<Stream> streams_;
    uint64_t next_native_ = 0;
    uint64_t last_id_ = 0;
    uint64_t pins_ = 0;
    uint64_t deferred_ = 0;
    uint64_t settled_ = 0;
    uint64_t taken_ = 0; // out of the queue again
    uint64_t lost_ = 0;
    uint64_t extra_released_ = 0; // of refuse_heap's own entries
    uint64_t extra_lost_ = 0;
    uint64_t queued_bytes_ = 0;
};

TEST(ContextProperty, RandomOperations_AgreeWithTheModel)
{
    SCOPED_TRACE("MEMBRANE_SEED=" + std::to_string(seed()));
    printf("seed %llu\n", static_cast<unsigned long long>(seed()));
    std::mt19937_64 random(seed());
    uint64_t operations = 0, contexts = 0, settled = 0, taken = 0;
    while (operations < kOperations && !testing::Test::HasFailure()) {
        Model model(&random);
        contexts++;
        do
            operations++;
        while (model.step() && !testing::Test::HasFailure());
        settled += model.settled_count();
        taken += model.taken_count();
    }
    printf("%llu operations on %llu contexts, %llu entries settled, %llu taken again\n",
        static_cast<unsigned long long>(operations), static_cast<unsigned long long>(contexts),
        static_cast<unsigned long long>(settled), static_cast<unsigned long long>(taken));
    EXPECT_GT(contexts, 50u);
    EXPECT_GT(settled, operations / 4);
    EXPECT_GT(taken, operations / 30);
}

} // namespace
