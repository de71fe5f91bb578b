// What a capture forbids to give back is given back right at its end, whoever was in the midst of
// it: nothing waits for a trim that nobody may ever make.
#include "tests/sched/backing_world.h"

extern "C" {
#include "host/backing/port.h"
}

#include <gtest/gtest.h>

using namespace sched_test;

namespace
{

class GateScenario : public BackingScenario
{
  public:
    explicit GateScenario(Draw &draw, uint64_t keep_bytes = UINT64_MAX)
        : BackingScenario(draw, keep_bytes)
    {
    }

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { Work(); }, [this] { Capture(); }};
    }

  protected:
    virtual void Work() = 0;

    void EndOthers() override
    {
        mbr_backing_figures kept = {};
        mbr_backing_read(backing_, &kept);
        SCHED_REQUIRE(
            kept.quarantined_count == 0, "%" PRIu64 " wait for a trim", kept.quarantined_count);
    }
};

// The client refuses what was mapped, or the fill of it is not to be waited for: all is undone.
class GrowthAgainstACapture : public GateScenario
{
  public:
    explicit GrowthAgainstACapture(Draw &draw)
        : GateScenario(draw), range_(Reserve(2)), fills_(draw.Coin())
    {
    }

  protected:
    void Work() override
    {
        mbr_range_part part = {range_.range, 0, 0, 2 * kGranule};
        mbr_grow_options options = {};
        options.holder = holder_;
        options.stream_id = IdOf(0);
        options.flags = fills_ ? MBR_GROW_ZEROED : 0;
        options.parts = &part;
        options.part_count = 1;
        options.publish = [](void *) -> mbr_status { return MBR_NOT_READY; };
        mbr_range_grow_result result = {};
        result.struct_size = sizeof(result);
        mbr_status status = mbr_backing_grow(backing_, &options, &result, nullptr);
        SCHED_REQUIRE(status == MBR_NOT_READY || status == MBR_RESIDUAL, "status %d", status);
    }

    void EndOthers() override
    {
        GateScenario::EndOthers();
        SCHED_REQUIRE(mbr_range_end(range_.range, true, nullptr, 0, nullptr) == MBR_OK);
    }

  private:
    Range range_;
    bool fills_;
};

TEST(Sched_Gate, GrowthThatIsUndone_KeepsNothingAfterTheCapture)
{
    ExpectHolds(ExploreRandom(Make<GrowthAgainstACapture>()));
}

// A part and then the whole range, of which the client says that nobody uses it any more.
class ReleaseAgainstACapture : public GateScenario
{
  public:
    explicit ReleaseAgainstACapture(Draw &draw)
        : GateScenario(draw, draw.Coin() ? 0 : UINT64_MAX), range_(Reserve(2))
    {
        SCHED_REQUIRE(Grow(range_, 0, 2, 0) == MBR_OK);
        ep_.device.streams[0].done = ep_.device.streams[0].submitted;
    }

  protected:
    void Work() override
    {
        memory_.Leave(range_.range, range_.address, 2 * kGranule);
        mbr_range_decommit_result result = {};
        result.struct_size = sizeof(result);
        SCHED_REQUIRE(mbr_range_give_back(
                          range_.range, 0, kGranule, true, nullptr, 0, &result, nullptr) == MBR_OK);
        SCHED_REQUIRE(mbr_range_end(range_.range, true, nullptr, 0, nullptr) == MBR_OK);
    }

  private:
    Range range_;
};

TEST(Sched_Gate, ReleaseThatSaysNow_KeepsNothingAfterTheCapture)
{
    ExpectHolds(ExploreRandom(Make<ReleaseAgainstACapture>()));
}

// A growth that would have what is parked elsewhere makes new extents where a capture has begun
// since it planned: it works as ever.
class GrowthThatMovesAgainstACapture : public GateScenario
{
  public:
    explicit GrowthThatMovesAgainstACapture(Draw &draw) : GateScenario(draw), range_(Reserve(3))
    {
        Live(0, 1); // two parked
        ep_.device.streams[0].done = ep_.device.streams[0].submitted;
        Reap(1);
    }

  protected:
    void Work() override { SCHED_REQUIRE(Grow(range_, 0, 3, 0) == MBR_OK); }

    void EndOthers() override
    {
        GateScenario::EndOthers();
        memory_.Leave(range_.range, range_.address, 3 * kGranule);
        SCHED_REQUIRE(mbr_range_end(range_.range, true, nullptr, 0, nullptr) == MBR_OK);
    }

  private:
    Range range_;
};

TEST(Sched_Gate, GrowthThatMovesWhatIsParked_IsNotRefusedForACapture)
{
    ExpectHolds(ExploreRandom(Make<GrowthThatMovesAgainstACapture>()));
}

// Without `virtual`: a span is taken and given, while another's group comes to the device.
class SpanAgainstACapture : public GateScenario
{
  public:
    explicit SpanAgainstACapture(Draw &draw) : GateScenario(draw)
    {
        auto *mechanism = const_cast<mbr_mechanism *>(mbr_port_mechanism(port_));
        mechanism->has_virtual = false;
        mechanism->fresh_content = MBR_CONTENT_UNDEFINED;
    }

    std::vector<std::function<void()>> Bodies() override
    {
        auto bodies = GateScenario::Bodies();
        bodies.push_back([this] { mbr_port_serve_group(port_, 2); });
        return bodies;
    }

  protected:
    void Work() override
    {
        mbr_span span;
        mbr_status status = mbr_backing_take_span(
            backing_, ep_.context, IdOf(0), 0, kGranule, 0, &span, nullptr, nullptr);
        SCHED_REQUIRE(status == MBR_OK || status == MBR_BUSY, "status %d", status);
        if (status == MBR_OK)
            mbr_backing_give_span(backing_, &span);
    }
};

TEST(Sched_Gate, SpanOfAnAllocator_IsNotKeptAfterTheCapture)
{
    ExpectHolds(ExploreRandom(Make<SpanAgainstACapture>()));
}

} // namespace
