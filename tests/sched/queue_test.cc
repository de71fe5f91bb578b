// The release queue: who defers against who reaps, drains and settles.
#include "tests/sched/ep_world.h"

#include <gtest/gtest.h>

using namespace sched_test;

namespace
{

class QueueScenario : public EpScenario
{
  public:
    explicit QueueScenario(Draw &draw, const mbr_context_options &options = {}) : EpScenario(draw)
    {
        Create(&ep_, options);
    }

  protected:
    void DeferNow(uint32_t streams, uint64_t bytes = kSmall)
    {
        SCHED_REQUIRE(Defer(&ep_, streams, bytes) == MBR_OK);
    }

    void Reap(int times)
    {
        for (int i = 0; i < times; i++)
            mbr_context_reap(ep_.context, true);
    }

    // What was queued before the call is settled, or the deadline has passed.
    void Drain(uint64_t deadline_ns)
    {
        std::vector<uint64_t> marks = Marked();
        mbr_status status = EpScenario::Drain(&ep_, deadline_ns);
        SCHED_REQUIRE(
            status == MBR_OK || (status == MBR_TIMED_OUT && sched_now_ns() >= deadline_ns));
        if (status == MBR_OK)
            RequireSettled(marks);
    }

    uint64_t SomeBytes() { return draw_.Coin() ? kSmall : MBR_EPOCH_BYTES; }
};

// One defers, one reaps; a stream is being captured for a while.
class DeferAgainstReap : public QueueScenario
{
  public:
    explicit DeferAgainstReap(Draw &draw) : QueueScenario(draw)
    {
        ep_.device.busy_answers = draw.From(0, 1);
        for (uint64_t &bytes : bytes_)
            bytes = SomeBytes();
    }

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { Produce(); }, [this] { Reap(2); }};
    }

  private:
    void Produce()
    {
        DeferNow(kFirst, bytes_[0]);
        DeferNow(kBoth, bytes_[1]);
        DeferNow(kSecond);
    }

    uint64_t bytes_[2];
};

TEST(Sched_Queue, DeferAgainstReap_EachIsSettledOnceAndNoneEarly)
{
    ExpectHolds(ExploreRandom(Make<DeferAgainstReap>()));
}

TEST(Sched_Queue, DeferAgainstReapInEveryScheduleWithTwoPreemptions_EachIsSettledOnce)
{
    ExpectHoldsInAll(ExploreAll(Make<DeferAgainstReap>(), 2), 400);
}

TEST(Sched_Queue, DeferAgainstReapUnderAnOpenLock_IsCaught)
{
    ExpectCaught(ExploreRandom(Make<DeferAgainstReap>(), SCHED_OPEN_LOCK));
}

// Two defer on the same streams, a third reaps: epochs close under each other's signals.
class TwoProducers : public QueueScenario
{
  public:
    explicit TwoProducers(Draw &draw) : QueueScenario(draw)
    {
        for (uint64_t &bytes : bytes_)
            bytes = SomeBytes();
    }

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { Produce(0); }, [this] { Produce(2); }, [this] { Reap(2); }};
    }

  private:
    void Produce(int at)
    {
        DeferNow(kFirst, bytes_[at]);
        DeferNow(kBoth, bytes_[at + 1]);
    }

    uint64_t bytes_[4];
};

TEST(Sched_Queue, TwoProducersAndAPoller_EachIsSettledOnceAndNoneEarly)
{
    ExpectHolds(ExploreRandom(Make<TwoProducers>()));
}

// 62 entries stand in the open epoch; two more threads fill it while a signal is under way.
class FullEpoch : public QueueScenario
{
  public:
    explicit FullEpoch(Draw &draw) : QueueScenario(draw)
    {
        for (int i = 0; i < MBR_EPOCH_ENTRY_COUNT - 2; i++)
            DeferNow(kFirst);
        last_bytes_ = SomeBytes();
    }

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { Produce(); }, [this] { Produce(); }, [this] { Reap(1); }};
    }

  private:
    void Produce()
    {
        DeferNow(kBoth);
        DeferNow(kFirst, last_bytes_);
    }

    uint64_t last_bytes_;
};

TEST(Sched_Queue, EpochSealedBy64AgainstASignalInFlight_NoneIsSettledEarly)
{
    ExpectHolds(ExploreRandom(Make<FullEpoch>()));
}

// A drain covers what was queued before it, whoever settles that, and nothing it must wait for.
class DrainAgainstDefer : public QueueScenario
{
  public:
    explicit DrainAgainstDefer(Draw &draw) : QueueScenario(draw)
    {
        ep_.device.busy_answers = draw.From(0, 1);
        if (draw.Coin())
            DeferNow(kBoth);
    }

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { Produce(); }, [this] { Drain(kForever); }, [this] { Reap(1); }};
    }

  private:
    void Produce()
    {
        DeferNow(kFirst);
        DeferNow(kSecond);
        Drain(kForever);
    }
};

TEST(Sched_Drain, AgainstDefer_WhatWasQueuedBeforeIsSettledAfter)
{
    ExpectHolds(ExploreRandom(Make<DrainAgainstDefer>()));
}

TEST(Sched_Drain, AgainstDeferInEveryScheduleWithOnePreemption_WhatWasQueuedBeforeIsSettledAfter)
{
    ExpectHoldsInAll(ExploreAll(Make<DrainAgainstDefer>(), 1), 800);
}

// Deadlines pass while somebody else is settling.
class DrainTimeOut : public QueueScenario
{
  public:
    explicit DrainTimeOut(Draw &draw) : QueueScenario(draw)
    {
        for (uint64_t &deadline_ns : deadlines_ns_)
            deadline_ns = sched_now_ns() + draw.From(0, 300) * 1000000;
        DeferNow(kBoth);
        DeferNow(kFirst);
    }

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { Drain(deadlines_ns_[0]); }, [this] { Drain(deadlines_ns_[1]); },
            [this] { Reap(2); }};
    }

  private:
    uint64_t deadlines_ns_[2];
};

TEST(Sched_Drain, TimeOutAgainstSettle_DoneOrLateNeverNeither)
{
    ExpectHolds(ExploreRandom(Make<DrainTimeOut>()));
}

// A settle function queues its own entry again, and reaps.
class SettleQueuesAgain : public QueueScenario
{
  public:
    explicit SettleQueuesAgain(Draw &draw) : QueueScenario(draw) {}

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { Produce(); }, [this] { Reap(2); }, [this] { Drain(kForever); }};
    }

  protected:
    void Settled(Entry *entry) override
    {
        if (entry->queued_count == 1)
            SCHED_REQUIRE(Queue(entry, draw_.Coin() ? kSecond : 0) == MBR_OK);
        SCHED_REQUIRE(mbr_context_reap(ep_.context, true) == 0, "two settle at once");
    }

  private:
    void Produce()
    {
        DeferNow(kFirst);
        DeferNow(0);
        Drain(kForever);
    }
};

TEST(Sched_Settle, ThatQueuesAgain_SettlesItOnceMore)
{
    ExpectHolds(ExploreRandom(Make<SettleQueuesAgain>()));
}

// What was done before a reap that precedes a refusal is settled by it, or by one who reaps
// already.
class ReapBeforeRefusal : public QueueScenario
{
  public:
    explicit ReapBeforeRefusal(Draw &draw) : QueueScenario(draw)
    {
        DeferNow(kFirst);
        ep_.device.is_stalled = true;
        Reap(1); // signals
        ep_.device.is_stalled = false;
        entries_ = Marked();
    }

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { mbr_context_reap(ep_.context, false); }, [this] { FinishAndReap(); }};
    }

    void Judge() override
    {
        RequireSettled(entries_);
        EpScenario::Judge();
    }

  private:
    void FinishAndReap()
    {
        Stream *stream = &ep_.device.streams[0];
        stream->done = stream->submitted;
        Reap(1);
    }

    std::vector<uint64_t> entries_;
};

TEST(Sched_Queue, ReapBeforeARefusalAgainstAPoller_LeavesNothingThatWasDone)
{
    ExpectHolds(ExploreRandom(Make<ReapBeforeRefusal>()));
}

// Room for two entries: who is refused has its entry back, reaps and tries once more.
class BoundedQueue : public QueueScenario
{
  public:
    explicit BoundedQueue(Draw &draw) : QueueScenario(draw, Bound()) {}

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { Produce(); }, [this] { Produce(); }, [this] { Produce(); }};
    }

  private:
    static mbr_context_options Bound()
    {
        mbr_context_options options = {};
        options.queue_entries = 2;
        return options;
    }

    void Produce()
    {
        for (int i = 0; i < 2; i++) {
            mbr_status status = Defer(&ep_, kFirst);
            SCHED_REQUIRE(status == MBR_OK || status == MBR_QUEUE_FULL, "status %d", status);
            if (status != MBR_OK)
                Reap(1);
        }
    }
};

TEST(Sched_Queue, FullForThree_EntriesAreHandedBackOrSettledOnce)
{
    ExpectHolds(ExploreRandom(Make<BoundedQueue>()));
}

} // namespace
