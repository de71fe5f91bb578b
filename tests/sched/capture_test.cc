// Graph captures on fibers: who begins and ends them against who settles, and what a graph owns
// against its retirement.
#include "tests/sched/ep_world.h"

#include <gtest/gtest.h>

using namespace sched_test;

namespace
{

struct Graph : mbr_graph {
    bool is_gone = false;
};

class CaptureScenario : public EpScenario
{
  public:
    explicit CaptureScenario(Draw &draw) : EpScenario(draw)
    {
        Create(&ep_);
        for (Graph &graph : graphs_)
            graph.gone = [](mbr_graph *gone) {
                sched_context_check_no_lock();
                SCHED_REQUIRE(!static_cast<Graph *>(gone)->is_gone, "let go twice");
                static_cast<Graph *>(gone)->is_gone = true;
                sched_journal_line("gone 1 %" PRIu64, gone->serial);
            };
    }

  protected:
    uint64_t IdOf(int stream) const { return ep_.device.streams[stream].id; }

    void Begin(int stream)
    {
        SCHED_REQUIRE(mbr_context_begin_capture(ep_.context, IdOf(stream), kForever,
                          &graphs_[stream], nullptr) == MBR_OK);
        open_count_++;
        sched_journal_line("captures 1 %" PRIu64, graphs_[stream].serial);
    }
    void End(int stream)
    {
        open_count_--;
        mbr_graph *ended = nullptr;
        SCHED_REQUIRE(
            mbr_context_end_capture(ep_.context, IdOf(stream), &ended, nullptr) == MBR_OK);
        SCHED_REQUIRE(ended == &graphs_[stream]);
    }
    void Retire(int stream)
    {
        ep_.accepted_count++; // its end is an entry, too
        SCHED_REQUIRE(
            mbr_context_retire_graph(ep_.context, &graphs_[stream], nullptr, 0, nullptr) == MBR_OK);
    }
    void Reap(int times)
    {
        for (int i = 0; i < times; i++)
            mbr_context_reap(ep_.context, true);
    }

    Graph graphs_[kStreams];
    int open_count_ = 0; // captures whose begin has returned and whose end was not called
};

// One defers and reaps, two capture: nothing is settled while a capture is open.
class SettleAgainstCaptures : public CaptureScenario
{
  public:
    explicit SettleAgainstCaptures(Draw &draw) : CaptureScenario(draw) {}

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { Work(); }, [this] { Capture(0); }, [this] { Capture(1); }};
    }

  protected:
    void Settled(Entry *) override { SCHED_REQUIRE(open_count_ == 0, "settled in a capture"); }

  private:
    void Work()
    {
        SCHED_REQUIRE(Defer(&ep_, 0) == MBR_OK); // of no stream: ready at once
        Reap(1);
        SCHED_REQUIRE(Defer(&ep_, kFirst) == MBR_OK);
        Reap(1);
    }
    void Capture(int stream)
    {
        Begin(stream);
        SCHED_CALLBACK_POINT();
        End(stream);
        Retire(stream);
    }
};

TEST(Sched_Capture, AgainstSettles_NoneIsInsideWhileOneIsOpen)
{
    ExpectHolds(ExploreRandom(Make<SettleAgainstCaptures>()));
}

// What was made in a capture is freed by one, the graph is retired by another: the memory goes
// after the graph has.
class FreeAgainstRetirement : public CaptureScenario
{
  public:
    explicit FreeAgainstRetirement(Draw &draw) : CaptureScenario(draw)
    {
        Begin(0);
        owned_ = mbr_context_graphs_now(ep_.context, IdOf(0));
        End(0);
    }

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { Free(); }, [this] { RetireAndReap(); }, [this] { Reap(2); }};
    }

  protected:
    void Settled(Entry *entry) override
    {
        SCHED_REQUIRE(entry->deferred.graphs.first == 0 || graphs_[0].is_gone,
            "settled while a graph owned it");
    }

  private:
    void Free()
    {
        SCHED_REQUIRE(Defer(&ep_, 0, kSmall, nullptr, owned_) == MBR_OK);
        SCHED_REQUIRE(Defer(&ep_, kFirst, kSmall, nullptr, owned_) == MBR_OK);
    }
    void RetireAndReap()
    {
        Retire(0);
        Reap(1);
    }

    mbr_graphs owned_;
};

TEST(Sched_Capture, OwnedMemoryAgainstRetirement_GoesAfterTheGraph)
{
    ExpectHolds(ExploreRandom(Make<FreeAgainstRetirement>()));
}

// The device is lost while a capture begins, is open, or ends.
class LossAgainstCapture : public CaptureScenario
{
  public:
    explicit LossAgainstCapture(Draw &draw) : CaptureScenario(draw) {}

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { Capture(); }, [this] { EpScenario::Lose(&ep_); }};
    }

    void Judge() override
    {
        mbr_context_forget_graphs(ep_.context);
        SCHED_REQUIRE(!sched_context_look(ep_.context).is_gated, "a lost capture bars others");
        CaptureScenario::Judge();
    }

  private:
    void Capture()
    {
        mbr_status status =
            mbr_context_begin_capture(ep_.context, IdOf(0), kForever, &graphs_[0], nullptr);
        SCHED_REQUIRE(status == MBR_OK || status == MBR_DEVICE_LOST || status == MBR_BUSY);
        if (status != MBR_OK)
            return;
        mbr_graph *ended = nullptr;
        status = mbr_context_end_capture(ep_.context, IdOf(0), &ended, nullptr);
        SCHED_REQUIRE(status == MBR_OK || (status == MBR_DEVICE_LOST && graphs_[0].is_gone));
    }
};

TEST(Sched_Capture, LostMeanwhile_GoesOnceAndBarsNobody)
{
    ExpectHolds(ExploreRandom(Make<LossAgainstCapture>()));
}

// The device is lost and its graphs are let go while one of them is being retired.
class LossAgainstRetirement : public CaptureScenario
{
  public:
    explicit LossAgainstRetirement(Draw &draw) : CaptureScenario(draw)
    {
        Begin(0);
        End(0);
    }

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { RetireOrBeLate(); }, [this] { LoseAndForget(); }};
    }

    void Judge() override
    {
        SCHED_REQUIRE(graphs_[0].is_gone);
        mbr_ep_figures figures = {};
        figures.struct_size = sizeof(figures);
        mbr_context_read(ep_.context, &figures);
        ep_.accepted_count = figures.released_count + figures.lost_count;
        SCHED_REQUIRE(ep_.accepted_count <= 1); // its end was queued, or the loss came before
        CaptureScenario::Judge();
    }

  private:
    void RetireOrBeLate()
    {
        mbr_status status = mbr_context_retire_graph(ep_.context, &graphs_[0], nullptr, 0, nullptr);
        SCHED_REQUIRE(status == MBR_OK || status == MBR_STALE);
    }
    void LoseAndForget()
    {
        EpScenario::Lose(&ep_);
        mbr_context_forget_graphs(ep_.context);
    }
};

TEST(Sched_Capture, LossAgainstRetirement_TheGraphIsLetGoOnce)
{
    ExpectHolds(ExploreRandom(Make<LossAgainstRetirement>()));
}

} // namespace
