// A context's life against its queue: retirement, pins, losses, streams that come and go, two EPs.
#include "tests/sched/ep_world.h"

#include <gtest/gtest.h>

using namespace sched_test;

namespace
{

class ContextScenario : public EpScenario
{
  public:
    explicit ContextScenario(Draw &draw) : EpScenario(draw) { Create(&ep_); }

  protected:
    uint32_t State() const { return sched_context_look(ep_.context).state; }
    bool IsLost() const { return State() == MBR_CONTEXT_LOST; }

    void Reap(int times)
    {
        for (int i = 0; i < times; i++)
            mbr_context_reap(ep_.context, true);
    }

    void Retire() { SCHED_REQUIRE(mbr_context_retire(ep_.context, nullptr) == MBR_OK || IsLost()); }

    // It ends by itself when nothing is left.
    void RequireTerminated()
    {
        ep_.device.RunFreely();
        SCHED_REQUIRE(EpScenario::Drain(&ep_, kForever) == MBR_OK);
        SCHED_REQUIRE(State() == MBR_CONTEXT_TERMINATED, "state %u", State());
    }
};

// Releases go on while it retires; none is taken once it has ended.
class RetireAgainstDefer : public ContextScenario
{
  public:
    explicit RetireAgainstDefer(Draw &draw) : ContextScenario(draw)
    {
        is_pinned_ = draw.Coin();
        if (is_pinned_)
            SCHED_REQUIRE(mbr_context_pin(ep_.context, nullptr) == MBR_OK);
    }

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { Produce(); }, [this] { End(); }, [this] { Reap(2); }};
    }

    void Judge() override
    {
        RequireTerminated();
        EpScenario::Judge();
    }

  private:
    void Produce()
    {
        for (uint32_t streams : {kFirst, kBoth, UINT32_C(0)}) {
            mbr_status status = Defer(&ep_, streams);
            SCHED_REQUIRE(status == (State() == MBR_CONTEXT_TERMINATED ? MBR_BUSY : MBR_OK) ||
                    status == MBR_OK,
                "status %d", status);
        }
    }

    void End()
    {
        Retire();
        if (is_pinned_)
            mbr_context_unpin(ep_.context);
    }

    bool is_pinned_;
};

TEST(Sched_Retire, AgainstDefer_EndsWithAnEmptyQueueAndTakesNothingMore)
{
    ExpectHolds(ExploreRandom(Make<RetireAgainstDefer>()));
}

// A pin that was had holds it; a pin that comes late is refused.
class PinAgainstRetire : public ContextScenario
{
  public:
    explicit PinAgainstRetire(Draw &draw) : ContextScenario(draw) {}

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { Pin(); }, [this] { Pin(); }, [this] { Retire(); }};
    }

    void Judge() override
    {
        RequireTerminated();
        EpScenario::Judge();
    }

  private:
    void Pin()
    {
        mbr_status status = mbr_context_pin(ep_.context, nullptr);
        SCHED_REQUIRE(status == MBR_OK || (status == MBR_BUSY && State() != MBR_CONTEXT_ACTIVE));
        if (status != MBR_OK)
            return;
        SCHED_REQUIRE(State() != MBR_CONTEXT_TERMINATED, "a pin does not hold it");
        SCHED_CALLBACK_POINT();
        SCHED_REQUIRE(State() != MBR_CONTEXT_TERMINATED, "a pin does not hold it");
        mbr_context_unpin(ep_.context);
    }
};

TEST(Sched_Pin, AgainstRetire_HoldsItOrIsRefused)
{
    ExpectHolds(ExploreRandom(Make<PinAgainstRetire>()));
}

TEST(Sched_Pin, AgainstRetireInEveryScheduleWithTwoPreemptions_HoldsItOrIsRefused)
{
    ExpectHoldsInAll(ExploreAll(Make<PinAgainstRetire>(), 2), 1000);
}

TEST(Sched_Pin, AgainstRetireWithTornChanges_IsCaught)
{
    ExpectCaught(ExploreRandom(Make<PinAgainstRetire>(), SCHED_TORN_CHANGE));
}

// Whoever sees the last pin go may end the context: nobody touches it afterwards.
class UnpinAgainstDestroy : public ContextScenario
{
  public:
    explicit UnpinAgainstDestroy(Draw &draw) : ContextScenario(draw), retires_(draw.Coin())
    {
        for (int i = 0; i < 2; i++)
            SCHED_REQUIRE(mbr_context_pin(ep_.context, nullptr) == MBR_OK);
    }

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { mbr_context_unpin(ep_.context); }, [this] { mbr_context_unpin(held_); },
            [this] { End(); }};
    }

  private:
    void End()
    {
        if (retires_)
            Retire();
        for (int i = 0; i < 8 && sched_context_look(ep_.context).pin_count != 0; i++)
            SCHED_CALLBACK_POINT();
        mbr_context *context = ep_.context;
        if (sched_context_look(context).pin_count == 0)
            Destroy(&ep_);
    }

    bool retires_;
    mbr_context *held_ = ep_.context;
};

TEST(Sched_Pin, LastOneAgainstDestroy_IsTheLastTouch)
{
    ExpectHolds(ExploreRandom(Make<UnpinAgainstDestroy>()));
}

// Any call may find the device lost. No slot is called after that, and nothing stays queued.
class LossInEachStep : public ContextScenario
{
  public:
    explicit LossInEachStep(Draw &draw) : ContextScenario(draw)
    {
        ep_.device.calls_to_loss = draw.From(0, 9);
    }

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { Produce(); }, [this] { Reap(2); }, [this] { Synchronize(); },
            [this] { Detach(); }};
    }

  private:
    void Require(mbr_status status, const char *what)
    {
        SCHED_REQUIRE(status == MBR_OK || (status == MBR_DEVICE_LOST && IsLost()), "%s: status %d",
            what, status);
    }

    void Produce()
    {
        Require(Defer(&ep_, kFirst, MBR_EPOCH_BYTES), "defer");
        Require(Defer(&ep_, kFirst), "defer");
        std::vector<uint64_t> marks = Marked();
        mbr_status status = EpScenario::Drain(&ep_, kForever);
        Require(status, "drain");
        if (status == MBR_OK)
            RequireSettled(marks);
    }

    void Synchronize()
    {
        Require(EpScenario::Synchronize(&ep_, ep_.device.streams[0].id, kForever), "synchronize");
    }

    // The other stream: nothing waits for it.
    void Detach()
    {
        Require(
            mbr_context_detach_stream(ep_.context, ep_.device.streams[1].id, nullptr), "detach");
    }
};

TEST(Sched_Loss, FoundInAnyCall_NoCallFollowsAndAllIsSettled)
{
    ExpectHolds(ExploreRandom(Make<LossInEachStep>()));
}

// The client says so, while others settle and from inside of a settle function.
class LoseAgainstSettle : public ContextScenario
{
  public:
    explicit LoseAgainstSettle(Draw &draw) : ContextScenario(draw), settle_loses_(draw.Coin())
    {
        SCHED_REQUIRE(Defer(&ep_, kFirst) == MBR_OK);
        SCHED_REQUIRE(Defer(&ep_, kBoth) == MBR_OK);
        SCHED_REQUIRE(Defer(&ep_, 0) == MBR_OK);
    }

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { Lose(); }, [this] { Reap(2); }, [this] { Lose(); }};
    }

  protected:
    void Settled(Entry *) override
    {
        if (settle_loses_)
            EpScenario::Lose(&ep_);
    }

  private:
    void Lose()
    {
        EpScenario::Lose(&ep_);
        SCHED_REQUIRE(IsLost());
        RequireSettled(Marked());
    }

    bool settle_loses_;
};

TEST(Sched_Loss, SaidWhileOthersSettle_AllIsSettledWhenItReturns)
{
    ExpectHolds(ExploreRandom(Make<LoseAgainstSettle>()));
}

// When a detach returns MBR_OK the native stream may go: nobody signals on it any more.
class DetachAgainstDefer : public ContextScenario
{
  public:
    explicit DetachAgainstDefer(Draw &draw) : ContextScenario(draw)
    {
        ep_.device.busy_answers = draw.From(0, 1);
    }

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { Produce(); }, [this] { Detach(); }, [this] { Reap(2); }};
    }

  private:
    void Produce()
    {
        for (uint32_t streams : {kFirst, kBoth}) {
            mbr_status status = Defer(&ep_, streams);
            SCHED_REQUIRE(status == MBR_OK || status == MBR_UNKNOWN_OBJECT, "status %d", status);
        }
    }

    void Detach()
    {
        Stream *stream = &ep_.device.streams[0];
        mbr_status status = mbr_context_detach_stream(ep_.context, stream->id, nullptr);
        SCHED_REQUIRE(status == MBR_OK || status == MBR_BUSY, "status %d", status);
        stream->is_gone = status == MBR_OK;
    }
};

TEST(Sched_Detach, AgainstDeferAndSignal_NobodySignalsOnAStreamThatIsGone)
{
    ExpectHolds(ExploreRandom(Make<DetachAgainstDefer>()));
}

TEST(Sched_Detach, AgainstDeferInEveryScheduleWithTwoPreemptions_NobodySignalsOnAStreamThatIsGone)
{
    ExpectHoldsInAll(ExploreAll(Make<DetachAgainstDefer>(), 2), 5000);
}

// A line that is being opened while the context retires or is lost is attached or closed.
class AttachAgainstEnd : public ContextScenario
{
  public:
    explicit AttachAgainstEnd(Draw &draw) : ContextScenario(draw), is_loss_(draw.Coin())
    {
        ep_.device.refused_opens = draw.From(0, 1);
    }

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { Attach(); }, [this] { Attach(); }, [this] { End(); }};
    }

  private:
    void Attach()
    {
        uint64_t id;
        mbr_status status =
            mbr_context_attach_stream(ep_.context, {MBR_NATIVE_STREAM_CPU, 0, 0}, &id, nullptr);
        SCHED_REQUIRE((status == MBR_OK) == (id != 0));
        SCHED_REQUIRE(status == MBR_OK
                ? State() == MBR_CONTEXT_ACTIVE
                : status == MBR_OUT_OF_DESCRIPTORS || State() != MBR_CONTEXT_ACTIVE,
            "status %d in state %u", status, State());
    }

    void End()
    {
        if (is_loss_)
            EpScenario::Lose(&ep_);
        else
            Retire();
    }

    bool is_loss_;
};

TEST(Sched_Attach, AgainstRetireAndLoss_IsAttachedOrClosed)
{
    ExpectHolds(ExploreRandom(Make<AttachAgainstEnd>()));
}

// A synchronization covers what was submitted before it, whoever signals on the line as well.
class Synchronize : public ContextScenario
{
  public:
    explicit Synchronize(Draw &draw) : ContextScenario(draw) {}

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { Wait(kForever); }, [this] { Wait(sched_now_ns() + kMs); },
            [this] { Produce(); }};
    }

  private:
    static constexpr uint64_t kMs = 1000000;

    void Wait(uint64_t deadline_ns)
    {
        Stream *stream = &ep_.device.streams[0];
        uint64_t work = ++stream->submitted;
        mbr_status status = EpScenario::Synchronize(&ep_, stream->id, deadline_ns);
        SCHED_REQUIRE(
            status == MBR_OK || (status == MBR_TIMED_OUT && sched_now_ns() >= deadline_ns));
        SCHED_REQUIRE(status != MBR_OK || ep_.device.Done(*stream) >= work, "not all is done");
    }

    void Produce()
    {
        SCHED_REQUIRE(Defer(&ep_, kFirst, MBR_EPOCH_BYTES) == MBR_OK);
        SCHED_REQUIRE(Defer(&ep_, kBoth) == MBR_OK);
        Reap(1);
    }
};

TEST(Sched_Synchronize, AgainstSignalsOfOthers_CoversWhatWasSubmittedBefore)
{
    ExpectHolds(ExploreRandom(Make<Synchronize>()));
}

// A settle function of the one queues at the other and reaps there, both ways.
class TwoEps : public ContextScenario
{
  public:
    explicit TwoEps(Draw &draw) : ContextScenario(draw), other_(&draw)
    {
        mbr_context_options options = {};
        options.first_stream_id = UINT64_C(1) << 32;
        Create(&other_, options);
    }

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { Produce(&ep_); }, [this] { Produce(&other_); }};
    }

    // Both are there until nothing is queued at either.
    void Judge() override
    {
        for (Ep *ep : {&ep_, &other_, &ep_})
            SCHED_REQUIRE(EpScenario::Drain(ep, kForever) == MBR_OK);
        EpScenario::Judge();
    }

  protected:
    void Settled(Entry *entry) override
    {
        Ep *there = entry->ep == &ep_ ? &other_ : &ep_;
        if (entry->work[1] != 0)
            SCHED_REQUIRE(Defer(there, kFirst) == MBR_OK);
        mbr_context_reap(there->context, true);
    }

  private:
    void Produce(Ep *ep)
    {
        SCHED_REQUIRE(Defer(ep, kSecond) == MBR_OK);
        mbr_context_reap(ep->context, true);
        mbr_context_reap(ep->context, true);
    }

    Ep other_;
};

TEST(Sched_TwoEps, SettlesThatQueueAtTheOther_NoLockIsHeldAndAllIsSettled)
{
    ExpectHolds(ExploreRandom(Make<TwoEps>()));
}

// A call that is inside when the last entry has left the queue comes back to a context that is
// there.
class DestroyAgainstReap : public ContextScenario
{
  public:
    explicit DestroyAgainstReap(Draw &draw) : ContextScenario(draw)
    {
        SCHED_REQUIRE(Defer(&ep_, 0) == MBR_OK);
    }

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { Reap(1); }, [this] { End(); }};
    }

  protected:
    void Settled(Entry *) override { inside_.Open(); }

  private:
    void End()
    {
        inside_.Await();
        Destroy(&ep_);
    }

    Gate inside_;
};

TEST(Sched_Destroy, AgainstACallInside_WaitsForIt)
{
    ExpectHolds(ExploreRandom(Make<DestroyAgainstReap>()));
}

TEST(Sched_Destroy, AgainstACallInsideInEveryScheduleWithTwoPreemptions_WaitsForIt)
{
    ExpectHoldsInAll(ExploreAll(Make<DestroyAgainstReap>(), 2), 100);
}

} // namespace
