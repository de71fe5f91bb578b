// Queued entries that are taken again for new work, against whoever settles, loses and ends them.
#include "tests/sched/ep_world.h"

#include <gtest/gtest.h>

using namespace sched_test;

namespace
{

class ShelfScenario : public EpScenario
{
  public:
    explicit ShelfScenario(Draw &draw) : EpScenario(draw), behind_others_(draw.Coin())
    {
        Create(&ep_);
        ep_.device.refused_stream_waits = draw.From(0, 1);
    }

  protected:
    mbr_status Shelve(uint32_t streams, uint64_t bytes = kSmall)
    {
        return Defer(&ep_, streams, bytes, &shelf_);
    }

    void Reap(int times)
    {
        for (int i = 0; i < times; i++)
            mbr_context_reap(ep_.context, true);
    }

    Entry *TakeOne(int stream) { return Take(&ep_, &shelf_, stream, behind_others_); }

    // Takes one, uses its memory on the stream, and frees it again.
    void Reuse(int stream)
    {
        Entry *entry = TakeOne(stream);
        if (entry == nullptr)
            return;
        SCHED_CALLBACK_POINT();
        mbr_status status = Queue(entry, UINT32_C(1) << stream);
        SCHED_REQUIRE(status == MBR_OK || status == MBR_DEVICE_LOST, "status %d", status);
    }

    bool behind_others_;
    mbr_shelf shelf_ = {};
};

// It is settled or taken, never both, and never left.
class TakeAgainstSettle : public ShelfScenario
{
  public:
    explicit TakeAgainstSettle(Draw &draw) : ShelfScenario(draw)
    {
        SCHED_REQUIRE(Shelve(kFirst, MBR_EPOCH_BYTES) == MBR_OK);
        SCHED_REQUIRE(Shelve(kBoth, draw.Coin() ? kSmall : MBR_EPOCH_BYTES) == MBR_OK);
    }

    std::vector<std::function<void()>> Bodies() override
    {
        return {
            [this] { Reuse(0); }, [this] { Reuse(1); }, [this] { Reap(2); }, [this] { Drain(); }};
    }

  private:
    void Drain() { SCHED_REQUIRE(EpScenario::Drain(&ep_, kForever) == MBR_OK); }
};

TEST(Sched_Reactivate, AgainstSettle_TakenOrSettledNeverBoth)
{
    ExpectHolds(ExploreRandom(Make<TakeAgainstSettle>()));
}

TEST(Sched_Reactivate, AgainstSettleInEveryScheduleWithOnePreemption_TakenOrSettledNeverBoth)
{
    ExpectHoldsInAll(ExploreAll(Make<TakeAgainstSettle>(), 1), 5000);
}

// Two want the same entry, a third goes on freeing.
class TwoTakers : public ShelfScenario
{
  public:
    explicit TwoTakers(Draw &draw) : ShelfScenario(draw)
    {
        SCHED_REQUIRE(Shelve(kBoth, MBR_EPOCH_BYTES) == MBR_OK);
    }

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { Reuse(0); }, [this] { Reuse(1); }, [this] { Produce(); }};
    }

  private:
    void Produce()
    {
        SCHED_REQUIRE(Shelve(kSecond) == MBR_OK);
        SCHED_REQUIRE(Shelve(kFirst) == MBR_OK);
        Reap(1);
    }
};

TEST(Sched_Reactivate, ByTwo_EachEntryIsOnes)
{
    ExpectHolds(ExploreRandom(Make<TwoTakers>()));
}

// The device is lost while a wait is put on it: the entry is the taker's, or settled as lost.
class TakeAgainstLoss : public ShelfScenario
{
  public:
    explicit TakeAgainstLoss(Draw &draw) : ShelfScenario(draw)
    {
        SCHED_REQUIRE(Shelve(kBoth, MBR_EPOCH_BYTES) == MBR_OK);
        SCHED_REQUIRE(Shelve(kFirst) == MBR_OK);
        behind_others_ = true;
        says_so_ = draw.Coin();
        if (!says_so_)
            ep_.device.calls_to_loss = draw.From(0, 4);
    }

    std::vector<std::function<void()>> Bodies() override
    {
        return {
            [this] { Reuse(0); }, [this] { Reuse(1); }, [this] { Lose(); }, [this] { Reap(1); }};
    }

  private:
    void Lose()
    {
        if (says_so_)
            EpScenario::Lose(&ep_);
    }

    bool says_so_;
};

TEST(Sched_Reactivate, AgainstALoss_TakenOrLostNeverBoth)
{
    ExpectHolds(ExploreRandom(Make<TakeAgainstLoss>()));
}

// It retires: what is taken before goes back, what comes later is refused, and the end has neither.
class TakeAgainstRetire : public ShelfScenario
{
  public:
    explicit TakeAgainstRetire(Draw &draw) : ShelfScenario(draw), pins_(draw.Coin())
    {
        SCHED_REQUIRE(Shelve(kBoth, MBR_EPOCH_BYTES) == MBR_OK);
        behind_others_ = true;
    }

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { UseOne(); },
            [this] { SCHED_REQUIRE(mbr_context_retire(ep_.context, nullptr) == MBR_OK); },
            [this] { Reap(2); }};
    }

  private:
    // What was taken is no queued release: it can end meanwhile, but for an owner that pins it.
    void UseOne()
    {
        bool is_pinned = pins_ && mbr_context_pin(ep_.context, nullptr) == MBR_OK;
        Entry *entry = TakeOne(0);
        mbr_status status = entry == nullptr ? MBR_OK : Queue(entry, kFirst);
        SCHED_REQUIRE(status == MBR_OK || (status == MBR_BUSY && !is_pinned), "status %d", status);
        if (is_pinned)
            mbr_context_unpin(ep_.context);
    }

    bool pins_;
};

TEST(Sched_Reactivate, AgainstRetire_TheEndComesWhenAllIsSettled)
{
    ExpectHolds(ExploreRandom(Make<TakeAgainstRetire>()));
}

} // namespace
