// The reaper: nobody else reaps here, so that a wake-up which it misses leaves somebody waiting.
#include "tests/sched/ep_world.h"

#include <gtest/gtest.h>

using namespace sched_test;

namespace
{

class ReaperScenario : public EpScenario
{
  public:
    explicit ReaperScenario(Draw &draw) : EpScenario(draw)
    {
        is_awaited_ = true;
        mbr_context_options options = {};
        options.reaper = true;
        Create(&ep_, options);
    }

  protected:
    // The bodies end when the reaper has: somebody destroys the context in one of them.
    void End(uint64_t entries)
    {
        AwaitSettled(entries);
        Finish(&ep_);
    }
};

// It sleeps, perhaps, when the first entry comes, and when its signal, its value, a further entry
// comes.
class FirstEntry : public ReaperScenario
{
  public:
    explicit FirstEntry(Draw &draw) : ReaperScenario(draw)
    {
        streams_ = static_cast<uint32_t>(draw.From(kFirst, kBoth));
        second_ = draw.Coin();
        ep_.device.busy_answers = draw.From(0, 1);
    }

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { Produce(); }, [this] { End(second_ ? 2 : 1); }};
    }

  private:
    void Produce()
    {
        SCHED_REQUIRE(Defer(&ep_, streams_) == MBR_OK);
        if (second_)
            SCHED_REQUIRE(Defer(&ep_, kFirst, MBR_EPOCH_BYTES) == MBR_OK);
    }

    uint32_t streams_;
    bool second_;
};

TEST(Sched_Reaper, AsleepAgainstTheFirstEntry_NoWakeUpIsLost)
{
    ExpectHolds(ExploreRandom(Make<FirstEntry>()));
}

TEST(Sched_Reaper, AsleepAgainstTheFirstEntryInEveryScheduleWithTwoPreemptions_NoWakeUpIsLost)
{
    ExpectHoldsInAll(ExploreAll(Make<FirstEntry>(), 2), 7000);
}

TEST(Sched_Reaper, AsleepAgainstTheFirstEntryWithLostSignals_IsCaught)
{
    ExpectCaught(ExploreRandom(Make<FirstEntry>(), SCHED_LOST_SIGNAL));
}

// Nothing has to be waited for: it is settled at once.
class EntryWithoutStreams : public ReaperScenario
{
  public:
    explicit EntryWithoutStreams(Draw &draw) : ReaperScenario(draw) {}

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { Produce(); }, [this] { Produce(); }, [this] { End(2); }};
    }

  private:
    void Produce() { SCHED_REQUIRE(Defer(&ep_, 0) == MBR_OK); }
};

TEST(Sched_Reaper, AsleepAgainstAnEntryWithoutStreams_NoWakeUpIsLost)
{
    ExpectHolds(ExploreRandom(Make<EntryWithoutStreams>()));
}

// A loss that somebody's call finds: the reaper settles what is lost.
class LossAgainstReaper : public ReaperScenario
{
  public:
    explicit LossAgainstReaper(Draw &draw) : ReaperScenario(draw)
    {
        says_so_ = draw.Coin();
        if (!says_so_)
            ep_.device.calls_to_loss = draw.From(0, 3);
        SCHED_REQUIRE(Defer(&ep_, kBoth) == MBR_OK);
    }

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { Touch(); }, [this] { End(1); }};
    }

  private:
    // Before the other destroys the context.
    void Touch()
    {
        if (says_so_)
            EpScenario::Lose(&ep_);
        else
            EpScenario::Synchronize(&ep_, ep_.device.streams[0].id, kForever);
        touched_.Open();
    }

    void End(uint64_t entries)
    {
        touched_.Await();
        ReaperScenario::End(entries);
    }

    bool says_so_;
    Gate touched_;
};

TEST(Sched_Reaper, AgainstALoss_SettlesWhatIsLost)
{
    ExpectHolds(ExploreRandom(Make<LossAgainstReaper>()));
}

// The end, while the reaper is anywhere in its pass.
class DestroyAgainstReaper : public ReaperScenario
{
  public:
    explicit DestroyAgainstReaper(Draw &draw) : ReaperScenario(draw), defers_(draw.From(0, 2)) {}

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { LiveAndEnd(); }};
    }

  private:
    void LiveAndEnd()
    {
        if (defers_ != 0)
            SCHED_REQUIRE(Defer(&ep_, defers_ == 1 ? kFirst : 0) == MBR_OK);
        Finish(&ep_);
    }

    uint64_t defers_;
};

TEST(Sched_Reaper, AgainstDestroy_EndsBeforeTheContextGoes)
{
    ExpectHolds(ExploreRandom(Make<DestroyAgainstReaper>()));
}

TEST(Sched_Reaper, AgainstDestroyInEveryScheduleWithTwoPreemptions_EndsBeforeTheContextGoes)
{
    ExpectHoldsInAll(ExploreAll(Make<DestroyAgainstReaper>(), 2), 400);
}

} // namespace
