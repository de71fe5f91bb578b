/* One life of a backing: everything that it does, at random, against a second opinion on who pays
 * what, with faults that are undone whole or, in a dirty life, with faults of every kind. */
#ifndef MEMBRANE_TESTS_UNIT_BACKING_LIFE_H
#define MEMBRANE_TESTS_UNIT_BACKING_LIFE_H

#include "tests/unit/backing/contents.h"
#include "tests/unit/backing/payers.h"
#include "tests/unit/backing/world.h"

#include <random>
#include <set>

namespace membrane
{

class Life
{
  public:
    /* `real`: a mechanism to stand on, which outlives it. */
    Life(uint64_t seed, bool dirty, RealBelow *real = nullptr)
        : dirty_(dirty), random_(seed), real_(real),
          world_(kLimit, seed % 3 == 0 ? 16 * kGranule : UINT64_MAX, 0, nullptr, real),
          contents_(world_, real != nullptr)
    {
        mbr_holder_options options = {"tight", MBR_ROLE_KV, kAllowance, false, {}};
        EXPECT_EQ(MBR_OK, mbr_holder_create(world_.authority, &options, &tight_, nullptr));
        world_.line.automatic = false;
        world_.line.works_while_waited = true;
        world_.line.on_fill = [this](const ManualLine::Fill &fill) { contents_.fill(fill); };
    }

    uint64_t operations() const { return operations_; }
    uint64_t what() const { return what_; }
    uint64_t stayed() const { return stayed_; }

    void step()
    {
        operations_++;
        arm();
        what_ = pick(16);
        switch (what_) {
        case 0:
        case 1:
            reserve();
            break;
        case 2:
        case 3:
        case 4:
        case 5:
        case 6:
            grow();
            break;
        case 7:
        case 8:
            decommit();
            break;
        case 9:
            end(pick(live_.size() + 1), pick(2) == 0);
            break;
        case 10:
            make_prefix();
            break;
        case 11:
        case 12:
            attach();
            break;
        case 13:
            end_prefix(pick(prefixes_.size() + 1));
            break;
        case 14:
            settle();
            break;
        default:
            cache_or_span();
        }
        disarm();
        if (!damaged_)
            compare();
        if (operations_ % 50 == 0) {
            EXPECT_TRUE(world_.agree());
            EXPECT_TRUE(real_ == nullptr || real_->agrees());
        }
    }

    /* Ends everything; the world's own end asserts that all books are empty. */
    void finish()
    {
        while (!live_.empty())
            end(0, true);
        while (!prefixes_.empty())
            end_prefix(0);
        while (!spans_.empty())
            give_span(0);
        settle();
        EXPECT_TRUE(world_.agree());
        if (!damaged_)
            compare();
        mbr_backing_trim(world_.backing, 0); // what a destroy refused is tried once more
        mbr_backing_figures kept = world_.kept();
        world_.leaks = kept.extent_count + kept.quarantined_count != 0;
        EXPECT_TRUE(damaged_ || !world_.leaks);
        EXPECT_TRUE(world_.agree());
        write_off_tight();
    }

  private:
    uint64_t pick(uint64_t below) { return random_() % below; }

    /* ---- Faults. Clean: refused before any effect, undone whole. Else anything goes. */
    void arm()
    {
        met_before_ = world_.fake.faults_met();
        world_.line.fill_count = 0;
        if (pick(8) != 0)
            return;
        static const Slot clean[] = {Slot::kCreate, Slot::kMap, Slot::kMapShared, Slot::kProtect};
        static const Slot any[] = {Slot::kCreate, Slot::kMap, Slot::kMapShared, Slot::kProtect,
            Slot::kUnmap, Slot::kDestroy, Slot::kReserve, Slot::kUnreserve};
        static const FaultKind kinds[] = {FaultKind::kRefuse, FaultKind::kPartial,
            FaultKind::kQuarantine, FaultKind::kIllegalPair};
        if (!dirty_ && pick(6) == 0) {
            world_.line.fail_fill_at = 1 + pick(2);
        } else if (!dirty_ && pick(3) == 0) {
            world_.heap.fail_at = world_.heap.allocations + 1 + pick(3);
        } else {
            Slot slot = dirty_ ? any[pick(8)] : clean[pick(4)];
            FaultKind kind = dirty_ ? kinds[pick(4)] : FaultKind::kRefuse;
            world_.fake.faults.push_back(
                {slot, world_.fake.calls(slot) + 1 + pick(3), kind, MBR_OUT_OF_MAPPINGS, false});
        }
    }

    bool failed_on_purpose() const
    {
        return world_.fake.faults_met() != met_before_ ||
            (world_.heap.fail_at != 0 && world_.heap.allocations >= world_.heap.fail_at) ||
            (world_.line.fail_fill_at != 0 && world_.line.fill_count >= world_.line.fail_fill_at);
    }

    void disarm()
    {
        damaged_ = damaged_ || (dirty_ && world_.fake.faults_met() != met_before_);
        world_.fake.faults.clear();
        world_.heap.fail_at = 0;
        world_.line.fail_fill_at = 0;
    }

    /* What a status must be is known only while nothing was damaged. */
    void expect(mbr_status wanted, mbr_status status, const char *what)
    {
        if (damaged_ || (dirty_ && failed_on_purpose()))
            return;
        if (failed_on_purpose()) {
            EXPECT_NE(MBR_RESIDUAL, status) << what;
            return;
        }
        EXPECT_EQ(wanted, status) << what;
    }

    /* ---- Operations */
    mbr_holder *holder(int index) const
    {
        return index == kKv ? world_.kv : index == kPrefix ? world_.prefix : tight_;
    }

    void reserve()
    {
        if (live_.size() == kRanges)
            return;
        auto made = std::make_unique<LiveRange>();
        made->shape = pick(3);
        made->group = static_cast<uint32_t>(pick(2));
        const Shape &shape = kShapes[made->shape];
        made->range = world_.reserve(shape.granules * kGranule, shape.growth,
            pick(2) == 0 ? MBR_RANGE_UNPARKED : 0, made->group);
        expect(MBR_OK, made->range != nullptr ? MBR_OK : MBR_SYSTEM, "reserve");
        if (made->range == nullptr)
            return;
        made->slots = cut(shape.granules * kGranule, shape.growth.unit_bytes,
            shape.growth.max_bytes, shape.growth.divisor);
        live_.push_back(std::move(made));
    }

    struct Part {
        LiveRange *range;
        uint64_t offset, bytes;
    };

    Part random_part()
    {
        LiveRange *range = live_[pick(live_.size())].get();
        uint64_t whole = kShapes[range->shape].granules * kGranule;
        uint64_t offset = pick(3) == 0 ? pick(whole) : 0;
        return {range, offset, 1 + pick(std::min<uint64_t>(whole - offset, 14 * kGranule))};
    }

    template <typename Each> static void touched(const Part &part, Each each)
    {
        for (PaidSlot &slot : part.range->slots) {
            if (slot.offset < part.offset + part.bytes && part.offset < slot.offset + slot.bytes)
                each(slot);
        }
    }

    void grow()
    {
        if (live_.empty())
            return;
        std::vector<Part> parts(1 + pick(3));
        std::vector<mbr_range_part> asked;
        std::map<PaidSlot *, LiveRange *> holes;
        std::set<PaidSlot *> stays_here; // on its way back, behind the stream of this growth
        int who = static_cast<int>(pick(3));
        bool busy = false;
        for (Part &part : parts) {
            part = random_part();
            asked.push_back({part.range->range, 0, part.offset, part.bytes});
            touched(part, [&](PaidSlot &slot) {
                busy = busy || (slot.place == Place::kLeaving && !slot.may_stay(who));
                if (slot.place == Place::kLeaving && slot.may_stay(who))
                    stays_here.insert(&slot);
                if (slot.place == Place::kFree)
                    holes[&slot] = part.range;
            });
        }
        bool refuses = pick(8) == 0;
        mbr_grow_options options = {};
        options.holder = holder(who);
        options.stream_id = world_.stream;
        options.flags = pick(4) == 0 ? MBR_GROW_ZEROED : 0;
        options.parts = asked.data();
        options.part_count = static_cast<uint32_t>(asked.size());
        options.publish = [](void *context) -> mbr_status {
            return *static_cast<bool *>(context) ? MBR_NOT_READY : MBR_OK;
        };
        options.publish_context = &refuses;
        mbr_range_grow_result result = {};
        result.struct_size = sizeof(result);
        uint64_t fresh = 0;
        for (auto &[slot, range] : holes)
            fresh += slot->bytes;
        uint64_t stays = parked_of(parts);
        mbr_status status = mbr_backing_grow(world_.backing, &options, &result, nullptr);
        judge_growth(status, busy, refuses, who, fresh, stays);
        if (status != MBR_OK)
            return;
        uint64_t stayed = 0;
        for (PaidSlot *slot : stays_here) {
            stayed += slot->bytes;
            slot->stay();
        }
        EXPECT_TRUE(damaged_ || result.new_bytes == fresh + stayed);
        stayed_ += stays_here.size();
        for (auto &[slot, range] : holes) {
            payers_.commit(*slot, who);
            if (!damaged_)
                contents_.show(mbr_range_address(range->range) + slot->offset, range->group);
        }
    }

    uint64_t parked_of(const std::vector<Part> &parts)
    {
        std::map<mbr_range *, uint64_t> parked;
        for (const Part &part : parts)
            parked[part.range->range] = world_.figures(part.range->range).parked_bytes;
        uint64_t sum = 0;
        for (auto &[range, bytes] : parked)
            sum += bytes;
        return sum;
    }

    void judge_growth(
        mbr_status status, bool busy, bool refuses, int who, uint64_t fresh, uint64_t stays)
    {
        if (damaged_ || failed_on_purpose()) {
            expect(status, status == MBR_RESIDUAL ? MBR_RESIDUAL : status, "grow");
            return;
        }
        auto charged = payers_.charged();
        uint64_t others = charged[0] + charged[1] + charged[2] + world_.kept().span_bytes;
        bool fits = others + fresh <= kLimit &&
            (who != kTight || charged[kTight] + fresh <= kAllowance || fresh == 0);
        if (busy) {
            EXPECT_EQ(MBR_BUSY, status);
        } else if (!fits) {
            EXPECT_EQ(MBR_OVER_BUDGET, status);
        } else if (status == MBR_OVER_BUDGET) { /* only for what stands in the growing ranges */
            EXPECT_GT(others + fresh + stays, kLimit);
        } else {
            EXPECT_EQ(refuses ? MBR_NOT_READY : MBR_OK, status);
        }
    }

    void decommit()
    {
        if (live_.empty())
            return;
        Part part = random_part();
        bool now = pick(2) == 0;
        uint64_t end = part.offset + part.bytes, inside = 0, usable = 0;
        std::vector<PaidSlot *> leaving;
        touched(part, [&](PaidSlot &slot) {
            if (!slot.usable())
                return;
            usable += std::min(slot.offset + slot.bytes, end) - std::max(slot.offset, part.offset);
            if (slot.offset >= part.offset && slot.offset + slot.bytes <= end) {
                leaving.push_back(&slot);
                inside += slot.bytes;
            }
        });
        quiesce_if(now);
        mbr_range_decommit_result result = {};
        result.struct_size = sizeof(result);
        mbr_status status = mbr_range_give_back(part.range->range, part.offset, part.bytes, now,
            &world_.stream, now ? 0 : 1, &result, nullptr);
        expect(MBR_OK, status, "decommit");
        if (status != MBR_OK) {
            EXPECT_EQ(0u, result.decommitted_bytes);
            return;
        }
        if (!damaged_) {
            EXPECT_EQ(inside, result.decommitted_bytes);
            EXPECT_EQ(usable - inside, result.kept_bytes);
        }
        auto made = std::make_shared<PaidDecommit>(PaidDecommit{part.offset, end, false});
        if (!now && !leaving.empty()) /* it waits also if all stays after all */
            part.range->decommits.push_back(made);
        for (PaidSlot *slot : leaving) {
            auto waits = now ? part.range->former(*slot) : made;
            if (waits)
                slot->leave_with(waits);
            else
                payers_.leave(*slot);
        }
    }

    static bool holds(const LiveRange &range)
    {
        return std::any_of(range.slots.begin(), range.slots.end(),
            [](const PaidSlot &slot) { return slot.place != Place::kFree; });
    }

    void end(size_t index, bool now)
    {
        if (index >= live_.size())
            return;
        LiveRange *range = live_[index].get();
        quiesce_if(now);
        mbr_status status = world_.end(range->range, now);
        expect(MBR_OK, status, "end");
        if (status != MBR_OK)
            return;
        range->ended = true;
        if (range->decommits.empty() && (now || !holds(*range)))
            leave_all(*range);
        else
            ending_.push_back(std::move(live_[index]));
        live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(index));
    }

    /* Who gives back at once has waited for the device; what is queued still waits for a reap. */
    void quiesce_if(bool now)
    {
        if (now)
            world_.line.reach_all();
    }

    void leave_all(LiveRange &range)
    {
        for (PaidSlot &slot : range.slots) {
            if (slot.place != Place::kFree)
                payers_.leave(slot);
        }
    }

    /* The device catches up; what waited for it is given back. */
    void settle()
    {
        mbr_context_reap(world_.context, true);
        world_.line.reach_all();
        while (mbr_context_reap(world_.context, true) != 0)
            ;
        for (auto &range : ending_)
            leave_all(*range);
        ending_.clear();
        for (auto &range : live_) {
            range->decommits.clear();
            for (PaidSlot &slot : range->slots) {
                if (slot.place == Place::kLeaving)
                    payers_.leave(slot);
            }
        }
    }

    void make_prefix()
    {
        if (live_.empty() || prefixes_.size() == kPrefixes)
            return;
        std::vector<Part> parts(1 + pick(2));
        std::vector<mbr_range_part> asked;
        auto made = std::make_unique<LivePrefix>();
        bool usable = true;
        uint64_t shared = 0;
        for (size_t piece = 0; piece < parts.size(); piece++) {
            Part &part = parts[piece];
            part = random_part();
            asked.push_back({part.range->range, 0, part.offset, part.bytes});
            made->pieces.push_back({part.range->shape, part.range->group});
            touched(part, [&](PaidSlot &slot) {
                usable = usable && slot.usable();
                if (slot.offset < part.offset ||
                    slot.offset + slot.bytes > part.offset + part.bytes)
                    return;
                size_t index = static_cast<size_t>(&slot - part.range->slots.data());
                made->keeps.push_back({piece, index, slot.extent});
                shared += slot.bytes;
            });
        }
        mbr_prefix_result result = {};
        result.struct_size = sizeof(result);
        mbr_status status = mbr_backing_make_prefix(world_.backing, asked.data(),
            static_cast<uint32_t>(asked.size()), world_.prefix, &made->prefix, &result, nullptr);
        expect(usable && shared != 0 ? MBR_OK : MBR_INVALID_ARGUMENT, status, "make prefix");
        if (status != MBR_OK) {
            EXPECT_EQ(nullptr, made->prefix);
            return;
        }
        EXPECT_TRUE(damaged_ || result.shared_bytes == shared);
        for (auto &keep : made->keeps) {
            if (keep.extent) /* unknown in a damaged life */
                keep.extent->keeps.push_back({made.get(), kPrefix});
        }
        prefixes_.push_back(std::move(made));
    }

    void attach()
    {
        if (prefixes_.empty() || live_.empty())
            return;
        LivePrefix &prefix = *prefixes_[pick(prefixes_.size())];
        std::vector<mbr_range *> ranges;
        std::vector<LiveRange *> targets;
        std::vector<uint64_t> limits;
        for (size_t piece = 0; piece < prefix.pieces.size(); piece++) {
            for (auto &range : live_) {
                bool fits = range->shape == prefix.pieces[piece].first &&
                    range->group == prefix.pieces[piece].second;
                for (LiveRange *other : targets)
                    fits = fits && other != range.get();
                if (fits && targets.size() == piece && pick(3) != 0)
                    targets.push_back(range.get());
            }
            if (targets.size() == piece)
                return;
            ranges.push_back(targets[piece]->range);
            limits.push_back(pick(2) == 0 ? UINT64_MAX : pick(24) * kGranule);
        }
        bool free = true;
        uint64_t bytes = 0;
        std::vector<LivePrefix::Keep *> taken;
        for (auto &keep : prefix.keeps) {
            PaidSlot &slot = targets[keep.piece]->slots[keep.slot];
            if (slot.offset + slot.bytes > limits[keep.piece])
                continue;
            free = free && slot.place == Place::kFree;
            bytes += slot.bytes;
            taken.push_back(&keep);
        }
        int who = static_cast<int>(pick(3));
        mbr_prefix_attach_result result = {};
        result.struct_size = sizeof(result);
        mbr_status status = mbr_prefix_map_into(prefix.prefix, ranges.data(),
            static_cast<uint32_t>(ranges.size()), limits.data(), holder(who), &result, nullptr);
        expect(free ? MBR_OK : MBR_ALREADY_EXISTS, status, "attach");
        if (status != MBR_OK)
            return;
        EXPECT_TRUE(damaged_ || result.shared_bytes == bytes);
        for (LivePrefix::Keep *keep : taken) {
            PaidSlot &slot = targets[keep->piece]->slots[keep->slot];
            if (!keep->extent || slot.place != Place::kFree)
                continue; /* a damaged life */
            slot.extent = keep->extent;
            payers_.use(slot, Place::kAlias, who);
        }
    }

    void end_prefix(size_t index)
    {
        if (index >= prefixes_.size())
            return;
        LivePrefix *prefix = prefixes_[index].get();
        mbr_prefix_end(prefix->prefix);
        for (auto &keep : prefix->keeps) {
            if (!keep.extent)
                continue;
            auto &keeps = keep.extent->keeps;
            auto found = std::find_if(
                keeps.begin(), keeps.end(), [&](const auto &user) { return user.first == prefix; });
            if (found != keeps.end())
                keeps.erase(found);
        }
        prefixes_.erase(prefixes_.begin() + static_cast<std::ptrdiff_t>(index));
    }

    void give_span(size_t index)
    {
        quiesce_if(true);
        mbr_backing_give_span(world_.backing, &spans_[index]);
        spans_.erase(spans_.begin() + static_cast<std::ptrdiff_t>(index));
    }

    void cache_or_span()
    {
        uint64_t what = pick(4);
        if (what == 0) {
            mbr_backing_evict(world_.backing, pick(32) * kGranule);
        } else if (what == 1) {
            mbr_backing_trim(world_.backing, pick(32) * kGranule);
        } else if (what == 2 && spans_.size() < kSpans) {
            mbr_span span;
            if (mbr_backing_take_span(world_.backing, world_.context, world_.stream,
                    static_cast<uint32_t>(pick(2)), 1 + pick(12 * kGranule), 0, &span, nullptr,
                    nullptr) == MBR_OK) {
                if (!damaged_) {
                    for (uint64_t at = 0; at < span.bytes; at += kGranule)
                        contents_.show(span.address + at, span.isolation_group);
                }
                spans_.push_back(span);
            }
        } else if (!spans_.empty()) {
            give_span(pick(spans_.size()));
        }
    }

    /* ---- Oracles */
    void compare()
    {
        auto charged = payers_.charged();
        for (int i = 0; i < Payers::kHolders; i++) {
            EXPECT_EQ(charged[static_cast<size_t>(i)], world_.charged(holder(i))) << "holder " << i;
            EXPECT_EQ(payers_.mapped[i], world_.mapped_by(holder(i))) << "holder " << i;
        }
        mbr_backing_figures kept = world_.kept();
        EXPECT_EQ(kept.pooled_bytes + kept.parked_bytes + kept.span_bytes, world_.cached());
        EXPECT_EQ(0u, kept.quarantined_count);
        EXPECT_EQ(prefixes_.size(), kept.prefix_count);
    }

    void write_off_tight()
    {
        mbr_authority_collect_credit(world_.authority);
        mbr_holder_figures figures = {};
        figures.struct_size = sizeof(figures);
        mbr_holder_figures_read(tight_, &figures);
        EXPECT_TRUE(damaged_ || figures.charged_bytes == 0);
        mbr_quarantine_settle(tight_, figures.quarantined_bytes);
        mbr_mapped_sub(tight_, figures.mapped_bytes);
        mbr_refund(tight_, figures.charged_bytes);
        EXPECT_EQ(MBR_OK, mbr_holder_destroy(tight_, nullptr));
    }

    bool dirty_, damaged_ = false;
    uint64_t stayed_ = 0; // places that were leaving
    std::mt19937_64 random_;
    RealBelow *real_;
    World world_;
    Contents contents_;
    mbr_holder *tight_ = nullptr;
    Payers payers_;
    std::vector<std::unique_ptr<LiveRange>> live_, ending_;
    std::vector<std::unique_ptr<LivePrefix>> prefixes_;
    std::vector<mbr_span> spans_;
    uint64_t met_before_ = 0, operations_ = 0, what_ = 0;
};

} // namespace membrane

#endif
