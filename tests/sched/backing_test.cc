// The real backing over the real release queue: ranges that end, shrink and grow while others reap,
// trim, capture and lose the device. What is checked at each slot is backing_world.h's.
#include "tests/sched/backing_world.h"

extern "C" {
#include "host/alloc/arena.h"
}

#include <gtest/gtest.h>

using namespace sched_test;

namespace
{

// Ranges end behind their work, and their extents are parked, adopted, and taken by a trim.
class EndAgainstTrim : public BackingScenario
{
  public:
    explicit EndAgainstTrim(Draw &draw) : BackingScenario(draw, draw.Coin() ? 0 : UINT64_MAX) {}

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { Live(0, 2); }, [this] { Live(1, 1); },
            [this] {
                Reap(1);
                Trim();
                Reap(1);
            }};
    }
};

TEST(Sched_Backing, EndAgainstTrim_NothingGoesUnderWork)
{
    ExpectHolds(ExploreRandom(Make<EndAgainstTrim>()));
}

// A part is given back behind one stream and perhaps grown again, on that stream or another; the
// range ends behind the streams of its own work, and waits for the part's as well.
class DecommitAgainstGrowth : public BackingScenario
{
  public:
    explicit DecommitAgainstGrowth(Draw &draw) : BackingScenario(draw)
    {
        range_ = Reserve(2);
        back_on_ = draw.Coin() ? 0 : 1;
        SCHED_REQUIRE(Grow(range_, 0, 1, back_on_) == MBR_OK);
        SCHED_REQUIRE(Grow(range_, 1, 1, 0) == MBR_OK);
        again_on_ = draw.Coin() ? 0 : 1;
        grows_ = draw.Coin();
    }

    std::vector<std::function<void()>> Bodies() override
    {
        return {
            [this] { Work(); }, [this] { Live(1, 1); }, [this] { Reap(2); }, [this] { Trim(); }};
    }

  private:
    void Work()
    {
        SCHED_REQUIRE(GiveBack(range_, 0, 1, back_on_) == MBR_OK);
        if (grows_)
            Grow(range_, 0, 1, again_on_);
        End(range_, 2, 0, grows_);
    }

    Range range_;
    int back_on_, again_on_;
    bool grows_;
};

TEST(Sched_Backing, DecommitAgainstGrowth_WaitsForAllOfItsStreams)
{
    ExpectHolds(ExploreRandom(Make<DecommitAgainstGrowth>()));
}

// What is mapped ahead is adopted as soon as it stands, before its maker is done with the range.
class AheadAgainstGrowth : public BackingScenario
{
  public:
    explicit AheadAgainstGrowth(Draw &draw) : BackingScenario(draw)
    {
        mbr_backing_set_ahead(backing_, 4 * kGranule);
        range_ = Reserve(2);
    }

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { MapAhead(); },
            [this] {
                while (Grow(range_, 0, 2, 0) == MBR_BUSY)
                    ;
            }};
    }

  protected:
    void EndOthers() override
    {
        mbr_holder_figures figures = {};
        figures.struct_size = sizeof(figures);
        mbr_holder_figures_read(holder_, &figures);
        SCHED_REQUIRE(figures.charged_bytes == 2 * kGranule, "it pays for %" PRIu64 " bytes",
            figures.charged_bytes);
        memory_.Leave(range_.range, range_.address, 2 * kGranule);
        SCHED_REQUIRE(mbr_range_end(range_.range, true, nullptr, 0, nullptr) == MBR_OK);
    }

  private:
    void MapAhead()
    {
        mbr_range_part part = {range_.range, 0, 0, 2 * kGranule};
        mbr_grow_options options = {};
        options.flags = MBR_GROW_AHEAD;
        options.parts = &part;
        options.part_count = 1;
        mbr_range_grow_result result = {};
        result.struct_size = sizeof(result);
        mbr_status status = mbr_backing_grow(backing_, &options, &result, nullptr);
        SCHED_REQUIRE(status == MBR_OK || status == MBR_BUSY, "status %d", status);
    }

    Range range_;
};

TEST(Sched_Backing, AheadAgainstAGrowth_WhoHasItPaysForIt)
{
    ExpectHolds(ExploreRandom(Make<AheadAgainstGrowth>()));
}

// What ends before, at and after a loss is charged until the end is confirmed, and refunded once.
class EndAgainstLoss : public BackingScenario
{
  public:
    explicit EndAgainstLoss(Draw &draw)
        : BackingScenario(draw), says_so_(draw.Coin()), confirms_(draw.Coin())
    {
        if (!says_so_)
            ep_.device.calls_to_loss = draw.From(0, 3);
    }

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { Live(0, 1); }, [this] { Live(1, 1); }, [this] { Lose(); }};
    }

  private:
    void Lose()
    {
        if (says_so_ && confirms_)
            ConfirmEnd();
        else if (says_so_)
            mbr_context_lose(ep_.context);
        else
            Reap(2);
    }

    bool says_so_, confirms_;
};

TEST(Sched_Backing, EndAgainstALoss_IsChargedUntilTheEndIsConfirmed)
{
    ExpectHolds(ExploreRandom(Make<EndAgainstLoss>()));
}

// Somebody is about to unmap when another says that the device is lost: what he finds so is charged
// until the end is confirmed, and then gone with the rest.
class UnmapAgainstLoss : public BackingScenario
{
  public:
    explicit UnmapAgainstLoss(Draw &draw)
        : BackingScenario(draw, draw.Coin() ? 0 : UINT64_MAX), range_(Reserve(2))
    {
        Live(0, 1); // something to trim
        SCHED_REQUIRE(Grow(range_, 0, 2, 0) == MBR_OK);
        ep_.device.streams[0].done = ep_.device.streams[0].submitted;
        Reap(1);
    }

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { GiveBackNow(); }, [this] { mbr_context_lose(ep_.context); },
            [this] { Trim(); }};
    }

  private:
    void GiveBackNow()
    {
        memory_.Leave(range_.range, range_.address, 2 * kGranule);
        mbr_range_decommit_result result = {};
        result.struct_size = sizeof(result);
        SCHED_REQUIRE(mbr_range_give_back(
                          range_.range, 0, kGranule, true, nullptr, 0, &result, nullptr) == MBR_OK);
        SCHED_REQUIRE(mbr_range_end(range_.range, true, nullptr, 0, nullptr) == MBR_OK);
    }

    Range range_;
};

TEST(Sched_Backing, UnmapAgainstALoss_IsChargedUntilTheEndIsConfirmed)
{
    ExpectHolds(ExploreRandom(Make<UnmapAgainstLoss>()));
}

// Nothing is unmapped or destroyed while a capture is open, whoever reaps, ends or trims.
class EndAgainstCapture : public BackingScenario
{
  public:
    explicit EndAgainstCapture(Draw &draw) : BackingScenario(draw, draw.Coin() ? 0 : UINT64_MAX)
    {
        Live(0, 1); // something to trim
        ep_.device.streams[0].done = ep_.device.streams[0].submitted;
        Reap(1);
    }

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { Live(0, 1); }, [this] { Capture(); },
            [this] {
                Trim();
                Reap(1);
                Trim();
            }};
    }
};

TEST(Sched_Backing, EndAgainstACapture_TakesNothingAwayWhileItIsOpen)
{
    ExpectHolds(ExploreRandom(Make<EndAgainstCapture>()));
}

// A growth has work behind it as it fails in a capture, which forbids to wait for the work and to
// unmap. The work is done: once the capture has ended nothing waits for a trim.
class UndoAgainstCapturesEnd : public BackingScenario
{
  public:
    explicit UndoAgainstCapturesEnd(Draw &draw) : BackingScenario(draw), range_(Reserve(2)) {}

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { FailToGrow(); },
            [this] {
                begun_.Await();
                EndCapture();
            }};
    }

  protected:
    void EndOthers() override
    {
        mbr_backing_figures kept = {};
        mbr_backing_read(backing_, &kept);
        SCHED_REQUIRE(kept.quarantined_count == 0, "something is quarantined");
        SCHED_REQUIRE(mbr_range_end(range_.range, true, nullptr, 0, nullptr) == MBR_OK);
    }

  private:
    static mbr_status Stand(void *self, uint64_t, uint64_t, bool *has_enqueued)
    {
        auto *scenario = static_cast<UndoAgainstCapturesEnd *>(self);
        scenario->BeginCapture();
        scenario->begun_.Open();
        *has_enqueued = true;
        return MBR_NOT_READY;
    }

    void FailToGrow()
    {
        mbr_growth_watch watch = {2 * kGranule, Stand, this};
        mbr_range_part part = {range_.range, 0, 0, 2 * kGranule};
        mbr_grow_options options = {};
        options.holder = holder_;
        options.stream_id = IdOf(0);
        options.parts = &part;
        options.part_count = 1;
        options.watch = &watch;
        mbr_range_grow_result result = {};
        result.struct_size = sizeof(result);
        mbr_status status = mbr_backing_grow(backing_, &options, &result, nullptr);
        SCHED_REQUIRE(status == MBR_NOT_READY || status == MBR_RESIDUAL, "status %d", status);
    }

    Range range_;
    Gate begun_;
};

TEST(Sched_Backing, UndoAgainstTheEndOfACapture_LeavesNothingQuarantined)
{
    ExpectHolds(ExploreRandom(Make<UndoAgainstCapturesEnd>()));
}

// Plain allocations over spans of the backing: blocks go through the queue, threads' caches, slabs,
// parked and pooled extents, while others trim both or confirm a loss.
class FreeAgainstTrim : public BackingScenario
{
  public:
    explicit FreeAgainstTrim(Draw &draw)
        : BackingScenario(draw, draw.Coin() ? 0 : UINT64_MAX), what_(draw.From(0, 2))
    {
        mbr_arena_options options = {};
        options.table = Table();
        options.backing = backing_;
        options.context = ep_.context;
        options.heap = Heap();
        SCHED_REQUIRE(mbr_arena_create(&options, &arena_, nullptr) == MBR_OK);
    }

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { Live(0); }, [this] { Live(1); }, [this] { Disturb(); }};
    }

  protected:
    void EndOthers() override
    {
        mbr_error error = {};
        error.struct_size = sizeof(error);
        if (IsLost())
            ConfirmEnd();
        SCHED_REQUIRE(mbr_arena_audit(arena_, &error) == MBR_OK, "%s", error.text);
        SCHED_REQUIRE(mbr_arena_destroy(arena_, &error) == MBR_OK, "%s", error.text);
        arena_ = nullptr;
    }

    void ConfirmEnd() override
    {
        mbr_context_lose(ep_.context);
        mbr_context_confirm_end(ep_.context);
        if (arena_ != nullptr)
            mbr_arena_confirm_lost(arena_);
        BackingScenario::ConfirmEnd();
    }

  private:
    void Live(int stream)
    {
        mbr_arena_request request = {};
        request.holder = holder_;
        request.stream_id = IdOf(stream);
        request.bytes = 2 * kGranule;
        for (int i = 0; i < 2; i++) {
            mbr_alloc_result result = {};
            result.struct_size = sizeof(result);
            mbr_status status = mbr_arena_alloc(arena_, &request, &result, nullptr);
            SCHED_REQUIRE(status == MBR_OK || IsLost(), "status %d", status);
            if (status != MBR_OK)
                return;
            const void *owner = reinterpret_cast<void *>(result.allocation.value);
            memory_.Take(owner, stream, result.address, 2 * kGranule);
            memory_.Leave(owner, result.address, 2 * kGranule);
            status = mbr_alloc_free(
                Table(), result.allocation, 0, false, &request.stream_id, 1, nullptr);
            SCHED_REQUIRE(status == MBR_OK, "status %d", status);
        }
    }

    void Disturb()
    {
        Reap(1);
        if (what_ == 0)
            ConfirmEnd();
        else if (what_ == 1)
            mbr_context_lose(ep_.context);
        mbr_arena_trim(arena_, 0);
        Trim();
        Reap(1);
    }

    // One for all schedules: to make it takes longer than a schedule.
    static mbr_alloc_table *Table()
    {
        static mbr_alloc_table *table = nullptr;
        if (table == nullptr)
            SCHED_REQUIRE(mbr_alloc_table_create(&mbr_heap_libc, &table, nullptr) == MBR_OK);
        return table;
    }

    uint64_t what_;
    mbr_arena *arena_ = nullptr;
};

TEST(Sched_Backing, FreeAgainstTrim_NobodyHasABlockThatIsInUse)
{
    ExpectHolds(ExploreRandom(Make<FreeAgainstTrim>()));
}

} // namespace
