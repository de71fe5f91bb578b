// A graph capture on the mechanism's device: no slot that it would not survive is called while it
// is open, what is made meanwhile belongs to its graph, and everything is made up for afterwards.
// Pins and remap epochs of ranges.
#include "tests/unit/backing/capture_world.h"

#include <algorithm>
#include <random>

namespace membrane
{
namespace
{

TEST(Capture, ReserveAndGrow_WorkWhileItIsOpen)
{
    CaptureWorld world;
    world.begin();
    mbr_range *range = world.reserve(64 * kGranule);
    ASSERT_NE(nullptr, range);
    EXPECT_EQ(MBR_OK, world.grow(range, 0, 4 * kGranule));
    EXPECT_EQ(MBR_OK, world.grow(range, 4 * kGranule, 4 * kGranule));
    world.end_capture();
    EXPECT_TRUE(world.agree());
    world.retire();
    EXPECT_EQ(MBR_OK, world.end(range));
}

TEST(Capture, MappingAhead_WorksWhileItIsOpenAndBelongsToItsGraph)
{
    CaptureWorld world;
    mbr_backing_set_ahead(world.backing, 16 * kGranule);
    mbr_range *range = world.reserve(64 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(range, 0, kGranule));
    world.begin();
    EXPECT_EQ(MBR_OK, world.ahead(range, kGranule, 2 * kGranule));
    EXPECT_EQ(MBR_OK, world.grow(range, kGranule, 2 * kGranule));
    EXPECT_EQ(0u, world.kept().ahead_bytes);
    world.fake.faults.push_back({Slot::kCreate, world.fake.calls(Slot::kCreate) + 2});
    EXPECT_EQ(MBR_OUT_OF_MEMORY, world.ahead(range, 3 * kGranule, 2 * kGranule));
    world.fake.faults.clear();
    EXPECT_EQ(kGranule, world.kept().pooled_bytes); // made in vain, and not destroyed now
    EXPECT_EQ(0u, mbr_backing_evict(world.backing, kGranule));
    world.end_capture();
    EXPECT_EQ(MBR_OK, world.end(range)); // it waits for the graph
    world.reap();
    EXPECT_EQ(3 * kGranule, world.charged(world.kv));
    world.retire();
    EXPECT_EQ(0u, world.charged(world.kv));
    EXPECT_TRUE(world.agree());
}

// What stands ahead was given to nobody: its range is no graph's for that.
TEST(Capture, MappingAheadAlone_LeavesTheRangeFree)
{
    CaptureWorld world;
    mbr_backing_set_ahead(world.backing, 16 * kGranule);
    mbr_range *range = world.reserve(64 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(range, 0, kGranule));
    world.begin();
    EXPECT_EQ(MBR_OK, world.ahead(range, kGranule, 2 * kGranule));
    world.end_capture();
    EXPECT_EQ(MBR_OK, world.decommit(range, 0, kGranule));
    EXPECT_EQ(0u, world.charged(world.kv)) << "it waits for no graph";
    EXPECT_EQ(MBR_OK, world.end(range));
    EXPECT_TRUE(world.agree());
    world.retire();
}

TEST(Capture, WhatIsParkedElsewhere_IsNotMoved)
{
    CaptureWorld world;
    mbr_range *former = world.reserve(8 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(former, 0, 4 * kGranule));
    ASSERT_EQ(MBR_OK, world.end(former));
    world.begin();
    mbr_range *range = world.reserve(16 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(range, 0, 4 * kGranule));
    EXPECT_EQ(8u, world.fake.extents());
    world.end_capture();
    ASSERT_EQ(MBR_OK, world.grow(range, 4 * kGranule, 4 * kGranule));
    EXPECT_EQ(8u, world.fake.extents()); // moved now
    EXPECT_TRUE(world.agree());
    world.retire();
    EXPECT_EQ(MBR_OK, world.end(range));
}

TEST(Capture, ReleasesThatSayNow_AreQueuedUntilItEnds)
{
    CaptureWorld world(0); // keeps nothing: whoever gives back unmaps and destroys
    mbr_range *whole = world.reserve(8 * kGranule), *part = world.reserve(8 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(whole, 0, 8 * kGranule));
    ASSERT_EQ(MBR_OK, world.grow(part, 0, 8 * kGranule));
    world.begin();
    EXPECT_EQ(MBR_OK, world.end(whole));
    EXPECT_EQ(MBR_OK, world.decommit(part, 4 * kGranule, 4 * kGranule));
    world.reap();
    EXPECT_EQ(16u, world.fake.mappings());
    EXPECT_EQ(16 * kGranule, world.charged(world.kv));
    EXPECT_TRUE(world.agree());
    world.end_capture();
    world.reap();
    EXPECT_EQ(4u, world.fake.mappings());
    EXPECT_EQ(4 * kGranule, world.charged(world.kv));
    EXPECT_EQ(0u, world.cached());
    EXPECT_TRUE(world.agree());
    world.retire();
    EXPECT_EQ(MBR_OK, world.end(part));
}

TEST(Capture, CacheAboveItsWatermark_IsGivenBackWhenItEnds)
{
    CaptureWorld world(0);
    mbr_span span;
    ASSERT_EQ(MBR_OK,
        mbr_backing_take_span(world.backing, world.context, world.stream, 0, 16 * kGranule, 0,
            &span, nullptr, nullptr));
    world.begin();
    mbr_backing_give_span(world.backing, &span);
    EXPECT_EQ(16 * kGranule, world.cached());
    EXPECT_EQ(0u, mbr_backing_evict(world.backing, UINT64_MAX));
    EXPECT_EQ(0u, mbr_backing_trim(world.backing, 0));
    world.end_capture();
    EXPECT_EQ(0u, world.cached());
    EXPECT_TRUE(world.agree());
    world.retire();
}

TEST(Capture, AttachOverWhatIsParked_IsRefusedUnlessTheTargetHasNone)
{
    CaptureWorld world;
    mbr_range *source = world.reserve(8 * kGranule), *former = world.reserve(8 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(source, 0, 2 * kGranule));
    ASSERT_EQ(MBR_OK, world.grow(former, 0, 2 * kGranule));
    ASSERT_EQ(MBR_OK, world.end(former));
    mbr_prefix *prefix = world.make_prefix(source, 0, 2 * kGranule);
    world.begin();
    mbr_range *parked = world.reserve(8 * kGranule);
    ASSERT_EQ(2 * kGranule, world.figures(parked).parked_bytes);
    mbr_range *plain = world.reserve(8 * kGranule, {kGranule, kGranule, 0}, MBR_RANGE_UNPARKED);
    mbr_error error = new_error();
    EXPECT_EQ(MBR_BUSY, world.attach(prefix, parked, nullptr, &error));
    EXPECT_NE(nullptr, strstr(error.text, "MBR_RANGE_UNPARKED")) << error.text;
    EXPECT_EQ(MBR_OK, world.attach(prefix, plain));
    EXPECT_TRUE(world.agree());
    world.end_capture();
    world.retire();
    mbr_prefix_end(prefix);
    for (mbr_range *range : {source, parked, plain})
        EXPECT_EQ(MBR_OK, world.end(range));
}

TEST(Capture, WithoutVirtual_AllocateIsBusyAndReleaseIsMadeUpFor)
{
    CaptureWorld world;
    world.fake.mechanism.has_virtual = false;
    world.mechanism()->has_virtual = false;
    mbr_span span, other;
    ASSERT_EQ(MBR_OK,
        mbr_backing_take_span(world.backing, world.context, world.stream, 0, 16 * kGranule, 0,
            &span, nullptr, nullptr));
    world.begin();
    mbr_error error = new_error();
    EXPECT_EQ(MBR_BUSY,
        mbr_backing_take_span(world.backing, world.context, world.stream, 0, 16 * kGranule, 0,
            &other, nullptr, &error));
    EXPECT_NE(nullptr, strstr(error.text, "captured")) << error.text;
    mbr_backing_give_span(world.backing, &span);
    EXPECT_EQ(16 * kGranule, world.books().quarantined_bytes);
    EXPECT_EQ(1u, world.kept().quarantined_count);
    world.end_capture();
    EXPECT_EQ(0u, world.books().charged_bytes);
    EXPECT_EQ(0u, world.kept().quarantined_count);
    EXPECT_TRUE(world.agree());
    world.retire();
}

TEST(Capture, GrowthThatNeedsAFillOnItsStream_IsRefusedWhole)
{
    CaptureWorld world;
    mbr_range *former = world.reserve(8 * kGranule); // leaves extents with old bytes
    ASSERT_EQ(MBR_OK, world.grow(former, 0, 2 * kGranule));
    ASSERT_EQ(MBR_OK, world.decommit(former, 0, 2 * kGranule));
    world.begin();
    mbr_range *range = world.reserve(8 * kGranule, {kGranule, kGranule, 0}, 0, 7); // of a new group
    mbr_grow_options options = {};
    options.stream_id = world.stream;
    mbr_status status = world.grow_with(options, {range, 0, 0, 2 * kGranule});
    EXPECT_TRUE(status == MBR_BUSY || status == MBR_RESIDUAL) << status; // never bytes of others
    EXPECT_EQ(0u, world.line.fill_count);
    EXPECT_EQ(0u, world.figures(range).committed_bytes);
    EXPECT_TRUE(world.agree());
    world.end_capture();
    EXPECT_EQ(0u, world.kept().quarantined_count);
    EXPECT_EQ(MBR_OK, world.grow_with(options, {range, 0, 0, 2 * kGranule}));
    EXPECT_EQ(2u, world.line.fill_count);
    EXPECT_TRUE(world.agree());
    world.retire();
    EXPECT_EQ(MBR_OK, world.end(range));
    EXPECT_EQ(MBR_OK, world.end(former));
}

TEST(Capture, MovingNumbers_AreNotAskedFor)
{
    CaptureWorld world;
    world.begin();
    mbr_mechanism_stats stats;
    EXPECT_FALSE(mbr_port_stats(world.port, &stats));
    EXPECT_EQ(MBR_BUSY, mbr_port_audit(world.port, nullptr));
    world.end_capture();
    world.retire();
}

// ---- What the graph owns ----

TEST(Capture, RangeGrownInIt_GivesNothingBackBeforeTheGraphIsRetired)
{
    CaptureWorld world(0);
    mbr_range *grown = world.reserve(8 * kGranule), *old = world.reserve(8 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(grown, 0, 2 * kGranule));
    ASSERT_EQ(MBR_OK, world.grow(old, 0, 2 * kGranule));
    world.begin();
    ASSERT_EQ(MBR_OK, world.grow(grown, 2 * kGranule, 2 * kGranule));
    mbr_range *made = world.reserve(8 * kGranule);
    world.end_capture();
    ASSERT_EQ(MBR_OK, world.grow(made, 0, kGranule));
    EXPECT_EQ(MBR_OK, world.decommit(grown, 0, kGranule));
    EXPECT_EQ(MBR_OK, world.end(grown, false));
    EXPECT_EQ(MBR_OK, world.end(made));
    EXPECT_EQ(MBR_OK, world.end(old)); // not the graph's: at once
    world.reap();
    EXPECT_EQ(5u, world.fake.mappings()); // I11
    mbr_range *next = world.reserve(8 * kGranule);
    EXPECT_NE(mbr_range_address(grown), mbr_range_address(next)); // I10
    EXPECT_TRUE(world.agree());
    world.retire();
    EXPECT_EQ(0u, world.fake.mappings());
    EXPECT_EQ(0u, world.books().charged_bytes);
    EXPECT_TRUE(world.agree());
    mbr_range *again = world.reserve(8 * kGranule); // in its next life nobody owns it
    ASSERT_EQ(MBR_OK, world.grow(again, 0, kGranule));
    EXPECT_EQ(MBR_OK, world.end(again));
    EXPECT_EQ(0u, world.fake.mappings());
    EXPECT_EQ(MBR_OK, world.end(next));
}

TEST(Capture, LossWhileRangesWait_RetainsThem)
{
    CaptureWorld world;
    world.line.automatic = false;
    mbr_range *owned = nullptr;
    world.begin();
    owned = world.reserve(8 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(owned, 0, 2 * kGranule));
    ASSERT_EQ(MBR_OK, world.end(owned));
    mbr_context_lose(world.context);
    EXPECT_EQ(2 * kGranule, world.books().retained_bytes);
    EXPECT_EQ(2u, world.fake.mappings());
    mbr_graph *graph = nullptr;
    EXPECT_EQ(
        MBR_DEVICE_LOST, mbr_context_end_capture(world.context, world.stream, &graph, nullptr));
    mbr_context_confirm_end(world.context);
    mbr_backing_confirm_lost(world.backing, world.context);
    EXPECT_EQ(0u, world.books().charged_bytes);
    world.fake.forget_all();
}

// ---- At random ----

// Ranges come, grow, shrink and go, captures begin and end, slots refuse: nothing gated is called
// while a capture is open, every byte is paid for, and in the end all is given back.
class RandomLife
{
  public:
    explicit RandomLife(uint64_t seed) : random_(seed), world_(64 * kGranule) {}

    void run(int steps)
    {
        for (int i = 0; i < steps; i++) {
            step();
            if (i % 16 == 0) {
                EXPECT_TRUE(world_.agree());
            }
        }
        if (open_)
            end_capture();
        for (mbr_range *range : ranges_)
            EXPECT_EQ(MBR_OK, world_.end(range));
        if (kept_)
            world_.retire();
        world_.fake.faults.clear();
        world_.reap();
        mbr_backing_trim(world_.backing, 0);
        EXPECT_EQ(0u, world_.books().charged_bytes);
        EXPECT_EQ(0u, world_.kept().quarantined_count);
        EXPECT_TRUE(world_.agree());
        EXPECT_LT(0, captures_);
    }

  private:
    uint64_t pick(uint64_t below) { return random_() % below; }

    void end_capture()
    {
        world_.end_capture(); // which looks at the calls
        open_ = false;
        kept_ = true;
    }

    void step()
    {
        static const Slot slots[] = {Slot::kCreate, Slot::kProtect, Slot::kUnmap, Slot::kDestroy};
        world_.fake.faults.clear();
        if (pick(4) == 0) {
            Slot slot = slots[pick(4)];
            world_.fake.faults = {{slot, world_.fake.calls(slot) + 1 + pick(3)}};
        }
        mbr_range *range = ranges_.empty() ? nullptr : ranges_[pick(ranges_.size())];
        switch (pick(8)) {
        case 0:
            if (ranges_.size() < 6)
                ranges_.push_back(world_.reserve((8 + 8 * pick(2)) * kGranule));
            break;
        case 1:
        case 2:
            if (range != nullptr)
                world_.grow(range, pick(4) * kGranule, (1 + pick(4)) * kGranule);
            break;
        case 3:
            if (range != nullptr)
                world_.decommit(range, pick(6) * kGranule, (1 + pick(2)) * kGranule, pick(2) == 0);
            break;
        case 4:
            if (range != nullptr && world_.end(range, pick(2) == 0) == MBR_OK)
                ranges_.erase(std::find(ranges_.begin(), ranges_.end(), range));
            break;
        case 5:
            mbr_context_reap(world_.context, true);
            break;
        case 6:
            mbr_backing_trim(world_.backing, pick(32) * kGranule);
            break;
        default:
            turn_capture();
        }
    }

    void turn_capture()
    {
        if (open_) {
            end_capture();
        } else if (kept_) {
            world_.retire();
            kept_ = false;
        } else {
            world_.begin();
            open_ = true;
            captures_++;
        }
    }

    std::mt19937_64 random_;
    CaptureWorld world_;
    std::vector<mbr_range *> ranges_;
    bool open_ = false, kept_ = false;
    int captures_ = 0;
};

TEST(Capture, RandomWork_CallsNothingGatedAndLosesNoByte)
{
    for (uint64_t seed = 1; seed <= 40; seed++) {
        SCOPED_TRACE(seed);
        RandomLife(seed).run(400);
        if (HasFailure())
            return;
    }
}

// ---- Pins and epochs ----

TEST(Pin, HeldRange_IsNeitherDecommittedNorEnded)
{
    CaptureWorld world;
    mbr_range *range = world.reserve(8 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(range, 0, 4 * kGranule));
    ASSERT_EQ(MBR_OK, mbr_range_pin_down(range, 0, nullptr));
    ASSERT_EQ(MBR_OK, mbr_range_pin_down(range, 0, nullptr));
    EXPECT_EQ(2u, world.figures(range).pin_count);
    mbr_error error = new_error();
    EXPECT_EQ(MBR_BUSY, world.decommit(range, 0, kGranule, true, &error));
    EXPECT_NE(nullptr, strstr(error.text, "2 pins")) << error.text;
    EXPECT_EQ(MBR_BUSY, world.decommit(range, 0, kGranule, false));
    EXPECT_EQ(MBR_BUSY, world.end(range));
    EXPECT_EQ(1u, world.figures(range).remap_epoch);
    EXPECT_EQ(MBR_OK, world.grow(range, 4 * kGranule, kGranule)); // it may grow
    ASSERT_EQ(MBR_OK, mbr_range_let_up(range, 0, nullptr));
    EXPECT_EQ(MBR_BUSY, world.end(range, false));
    ASSERT_EQ(MBR_OK, mbr_range_let_up(range, 0, nullptr));
    EXPECT_EQ(MBR_INVALID_ARGUMENT, mbr_range_let_up(range, 0, nullptr));
    EXPECT_EQ(MBR_OK, world.decommit(range, 0, kGranule));
    EXPECT_EQ(MBR_OK, world.end(range));
    EXPECT_EQ(MBR_STALE, mbr_range_pin_down(range, 0, nullptr));
    EXPECT_TRUE(world.agree());
}

TEST(Epoch, OfARange_RisesWithDecommitsAndNotWithGrowth)
{
    CaptureWorld world;
    mbr_range *range = world.reserve(8 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(range, 0, 4 * kGranule));
    uint64_t epoch = world.figures(range).remap_epoch;
    ASSERT_EQ(MBR_OK, world.decommit(range, kGranule / 2, kGranule)); // no whole extent inside
    ASSERT_EQ(MBR_OK, world.grow(range, 4 * kGranule, kGranule));
    EXPECT_EQ(epoch, world.figures(range).remap_epoch);
    ASSERT_EQ(MBR_OK, world.decommit(range, kGranule, 2 * kGranule));
    EXPECT_LT(epoch, world.figures(range).remap_epoch);
    epoch = world.figures(range).remap_epoch;
    ASSERT_EQ(MBR_OK, world.grow(range, kGranule, 2 * kGranule)); // the remap: known since then
    EXPECT_EQ(epoch, world.figures(range).remap_epoch);
    ASSERT_EQ(MBR_OK, world.decommit(range, 4 * kGranule, kGranule, false)); // also when queued
    EXPECT_LT(epoch, world.figures(range).remap_epoch);
    EXPECT_EQ(MBR_OK, world.end(range));
    world.reap();
    mbr_range *next = world.reserve(8 * kGranule); // another life
    EXPECT_EQ(1u, world.figures(next).remap_epoch);
    EXPECT_EQ(MBR_OK, world.end(next));
}

} // namespace
} // namespace membrane
