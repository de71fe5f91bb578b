// Aliases that sharers leave parked are reached by their extents, too: a prefix ends while ranges
// are discarded, sharers end and captures begin.
#include "tests/sched/backing_world.h"

#include <gtest/gtest.h>

using namespace sched_test;

namespace
{

constexpr uint64_t kShared = 2; // extents of a prefix

// Prefixes whose sources have ended, and sharers of them. In the end nothing is parked that no
// prefix keeps, and nothing is quarantined: no slot was refused.
class PrefixScenario : public BackingScenario
{
  public:
    using BackingScenario::BackingScenario;

  protected:
    mbr_prefix *Make(mbr_range *of)
    {
        mbr_range_part part = {of, 0, 0, kShared * kGranule};
        mbr_prefix *made = nullptr;
        mbr_prefix_result result = {};
        result.struct_size = sizeof(result);
        SCHED_REQUIRE(mbr_backing_make_prefix(
                          backing_, &part, 1, holder_, &made, &result, nullptr) == MBR_OK);
        return made;
    }

    // Of what it grows by, whose work is done.
    mbr_prefix *GrowAndMake(const Range &source)
    {
        SCHED_REQUIRE(Grow(source, 0, kShared, 0) == MBR_OK);
        memory_.Leave(source.range, source.address, kShared * kGranule);
        ep_.device.streams[0].done = ep_.device.streams[0].submitted;
        return Make(source.range);
    }

    mbr_prefix *MakeOfItsOwn()
    {
        Range source = Reserve(4);
        mbr_prefix *made = GrowAndMake(source);
        EndNow(source.range);
        return made;
    }

    mbr_range *ReserveFor(mbr_prefix *prefix)
    {
        mbr_range_options options = {};
        options.context = ep_.context;
        options.bytes = 4 * kGranule;
        options.growth.unit_bytes = kGranule;
        options.alias = mbr_prefix_hint(prefix, 0);
        mbr_range *range = nullptr;
        SCHED_REQUIRE(mbr_backing_reserve(backing_, &options, &range, nullptr) == MBR_OK);
        return range;
    }

    mbr_status Attach(mbr_prefix *prefix, mbr_range *range)
    {
        mbr_prefix_attach_result result = {};
        result.struct_size = sizeof(result);
        return mbr_prefix_map_into(prefix, &range, 1, nullptr, holder_, &result, nullptr);
    }

    mbr_range *Share(mbr_prefix *prefix)
    {
        mbr_range *range = ReserveFor(prefix);
        SCHED_REQUIRE(Attach(prefix, range) == MBR_OK);
        return range;
    }

    static void EndNow(mbr_range *range)
    {
        SCHED_REQUIRE(mbr_range_end(range, true, nullptr, 0, nullptr) == MBR_OK);
    }

    mbr_backing_figures Kept() const
    {
        mbr_backing_figures figures = {};
        mbr_backing_read(backing_, &figures);
        return figures;
    }

    void EndOthers() override
    {
        SCHED_REQUIRE(Kept().quarantined_count == 0, "something was quarantined");
        SCHED_REQUIRE(Kept().prefix_count != 0 || Kept().parked_alias_count == 0,
            "%" PRIu64 " aliases are parked without a prefix", Kept().parked_alias_count);
    }
};

// The system has no addresses left for another shape: what is cached is discarded, parked aliases
// with it, while their prefix ends.
class DiscardAgainstPrefixEnd : public PrefixScenario
{
  public:
    explicit DiscardAgainstPrefixEnd(Draw &draw) : PrefixScenario(draw), prefix_(MakeOfItsOwn())
    {
        EndNow(Share(prefix_));
        SCHED_REQUIRE(Kept().parked_alias_count == kShared);
        memory_.faults.push_back(
            {membrane::Slot::kReserve, memory_.calls(membrane::Slot::kReserve) + 1,
                membrane::FaultKind::kRefuse, MBR_OUT_OF_ADDRESSES});
    }

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { EndNow(Reserve(8).range); }, [this] { mbr_prefix_end(prefix_); }};
    }

  private:
    mbr_prefix *prefix_;
};

TEST(Sched_Alias, DiscardAgainstAPrefixsEnd_UnmapsEachOnce)
{
    ExpectHolds(ExploreRandom(Make<DiscardAgainstPrefixEnd>()));
}

// A sharer ends while the prefix does, or both prefixes that keep the extents, or in a capture.
class PrefixEndAgainstSharersEnd : public PrefixScenario
{
  public:
    explicit PrefixEndAgainstSharersEnd(Draw &draw)
        : PrefixScenario(draw), prefix_(MakeOfItsOwn()), sharer_(Share(prefix_)),
          captures_(draw.Coin())
    {
        if (draw.Coin())
            other_ = PrefixScenario::Make(sharer_);
    }

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { mbr_prefix_end(prefix_); },
            [this] {
                EndNow(sharer_);
                if (other_ != nullptr)
                    mbr_prefix_end(other_);
            },
            [this] {
                if (captures_)
                    Capture();
            }};
    }

  private:
    mbr_prefix *prefix_, *other_ = nullptr;
    mbr_range *sharer_;
    bool captures_;
};

TEST(Sched_Alias, PrefixEndAgainstASharersEnd_NoOrphanIsForgotten)
{
    ExpectHolds(ExploreRandom(Make<PrefixEndAgainstSharersEnd>()));
}

// One prefix is attached where aliases of another, which lives, are parked.
class AttachAgainstCapture : public PrefixScenario
{
  public:
    explicit AttachAgainstCapture(Draw &draw)
        : PrefixScenario(draw), first_(MakeOfItsOwn()), second_(MakeOfItsOwn())
    {
        EndNow(Share(first_));
        target_ = ReserveFor(first_);
    }

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] {
                    mbr_status status = Attach(second_, target_);
                    SCHED_REQUIRE(status == MBR_OK || status == MBR_BUSY, "status %d", status);
                },
            [this] { Capture(); }};
    }

  protected:
    void EndOthers() override
    {
        EndNow(target_);
        EndNow(Share(first_)); // it was not harmed
        mbr_prefix_end(first_);
        mbr_prefix_end(second_);
        PrefixScenario::EndOthers();
    }

  private:
    mbr_prefix *first_, *second_;
    mbr_range *target_ = nullptr;
};

TEST(Sched_Alias, AttachAgainstACapture_StrandsNoOthersPrefix)
{
    ExpectHolds(ExploreRandom(Make<AttachAgainstCapture>()));
}

// A part of a sharer is given back now, while a capture begins; the prefix and its source end long
// after it.
class SharersPartAgainstCapture : public PrefixScenario
{
  public:
    explicit SharersPartAgainstCapture(Draw &draw) : PrefixScenario(draw, 0), source_(Reserve(4))
    {
        prefix_ = GrowAndMake(source_);
        sharer_ = Share(prefix_);
    }

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] {
                    mbr_range_decommit_result result = {};
                    result.struct_size = sizeof(result);
                    SCHED_REQUIRE(mbr_range_give_back(sharer_, 0, kShared * kGranule, true, nullptr,
                                      0, &result, nullptr) == MBR_OK);
                },
            [this] { Capture(); }};
    }

  protected:
    void EndOthers() override
    {
        mbr_prefix_end(prefix_);
        EndNow(source_.range);
        PrefixScenario::EndOthers();
        EndNow(sharer_);
    }

  private:
    Range source_;
    mbr_prefix *prefix_ = nullptr;
    mbr_range *sharer_ = nullptr;
};

TEST(Sched_Alias, SharersPartAgainstACapture_GoesWithTheLastUserOfItsExtents)
{
    ExpectHolds(ExploreRandom(Make<SharersPartAgainstCapture>()));
}

// A source that may only read what it shares: the prefix and the sharer end while it grows. Whoever
// is last to look has to give the access back.
class SealedSourceAgainstEnds : public PrefixScenario
{
  public:
    explicit SealedSourceAgainstEnds(Draw &draw) : PrefixScenario(draw), source_(Reserve(4))
    {
        prefix_ = GrowAndMake(source_);
        SCHED_REQUIRE(mbr_prefix_seal(prefix_, nullptr) == MBR_OK);
        sharer_ = Share(prefix_);
        SCHED_REQUIRE(Access(0) == MBR_ACCESS_READ);
    }

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { mbr_prefix_end(prefix_); }, [this] { EndNow(sharer_); },
            [this] {
                mbr_status status = Grow(source_, kShared, 1, 0);
                SCHED_REQUIRE(status == MBR_OK || status == MBR_BUSY, "status %d", status);
                grown_ = status == MBR_OK;
            }};
    }

  protected:
    void EndOthers() override
    {
        for (uint64_t i = 0; i < kShared + grown_; i++)
            SCHED_REQUIRE(Access(i) == MBR_ACCESS_READ_WRITE, "extent %" PRIu64 " is read-only", i);
        memory_.Leave(source_.range, source_.address + kShared * kGranule, grown_ * kGranule);
        ep_.device.streams[0].done = ep_.device.streams[0].submitted;
        EndNow(source_.range);
        PrefixScenario::EndOthers();
    }

  private:
    uint32_t Access(uint64_t extent) const
    {
        return memory_.access_at(source_.address + extent * kGranule);
    }

    Range source_;
    mbr_prefix *prefix_ = nullptr;
    mbr_range *sharer_ = nullptr;
    uint64_t grown_ = 0;
};

TEST(Sched_Alias, SealedSourceAgainstTheEndsOfOthers_IsWritableInTheEnd)
{
    ExpectHolds(ExploreRandom(Make<SealedSourceAgainstEnds>()));
}

// The prefix of a sealed source ends, which opens its places, while the end of a capture gives back
// what a growth of the source has left.
class SealedSourceAgainstCapturesEnd : public PrefixScenario
{
  public:
    explicit SealedSourceAgainstCapturesEnd(Draw &draw) : PrefixScenario(draw), source_(Reserve(4))
    {
        prefix_ = GrowAndMake(source_);
        SCHED_REQUIRE(mbr_prefix_seal(prefix_, nullptr) == MBR_OK);
        BeginCapture();
        FailToGrow();
    }

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { mbr_prefix_end(prefix_); }, [this] { EndCapture(); }};
    }

  protected:
    void EndOthers() override
    {
        for (uint64_t i = 0; i < kShared; i++)
            SCHED_REQUIRE(
                memory_.access_at(source_.address + i * kGranule) == MBR_ACCESS_READ_WRITE,
                "extent %" PRIu64 " is read-only", i);
        PrefixScenario::EndOthers();
        EndNow(source_.range);
    }

  private:
    void FailToGrow()
    {
        mbr_range_part part = {source_.range, 0, kShared * kGranule, kGranule};
        mbr_grow_options options = {};
        options.holder = holder_;
        options.parts = &part;
        options.part_count = 1;
        options.publish = [](void *) -> mbr_status { return MBR_NOT_READY; };
        mbr_range_grow_result result = {};
        result.struct_size = sizeof(result);
        SCHED_REQUIRE(mbr_backing_grow(backing_, &options, &result, nullptr) == MBR_RESIDUAL);
    }

    Range source_;
    mbr_prefix *prefix_ = nullptr;
};

TEST(Sched_Alias, SealedSourceAgainstTheEndOfACapture_IsOpenAndLeavesNothingQuarantined)
{
    ExpectHolds(ExploreRandom(Make<SealedSourceAgainstCapturesEnd>()));
}

// A prefix is protected while the end of its source is refused: the source stays, and is read-only.
class SealAgainstARefusedEnd : public PrefixScenario
{
  public:
    explicit SealAgainstARefusedEnd(Draw &draw) : PrefixScenario(draw), source_(Reserve(4))
    {
        prefix_ = GrowAndMake(source_);
    }

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] {
                    const uint64_t unknown = ~UINT64_C(0);
                    mbr_status status = mbr_range_end(source_.range, false, &unknown, 1, nullptr);
                    SCHED_REQUIRE(status == MBR_UNKNOWN_OBJECT || status == MBR_BUSY);
                },
            [this] {
                mbr_status status = mbr_prefix_seal(prefix_, nullptr);
                SCHED_REQUIRE(status == MBR_OK || status == MBR_BUSY, "status %d", status);
                closed_ = status == MBR_OK;
            }};
    }

  protected:
    void EndOthers() override
    {
        for (uint64_t i = 0; closed_ && i < kShared; i++)
            SCHED_REQUIRE(
                memory_.access_at(source_.address + i * kGranule) == MBR_ACCESS_READ, "writable");
        mbr_prefix_end(prefix_);
        EndNow(source_.range);
        PrefixScenario::EndOthers();
    }

  private:
    Range source_;
    mbr_prefix *prefix_ = nullptr;
    bool closed_ = false;
};

TEST(Sched_Alias, PrefixIsSealedWhileItsSourcesEndIsRefused_IsReadOnly)
{
    ExpectHolds(ExploreRandom(Make<SealAgainstARefusedEnd>()));
}

} // namespace
