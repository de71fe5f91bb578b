/* A second opinion on who pays what: ranges as lists of places, extents as lists of users. It knows
 * nothing of pools, parking, plans or plugins, and shares no code with the host. */
#ifndef MEMBRANE_TESTS_UNIT_BACKING_PAYERS_H
#define MEMBRANE_TESTS_UNIT_BACKING_PAYERS_H

#include "tests/unit/backing/world.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace membrane
{

struct PaidExtent {
    uint64_t bytes;
    std::vector<std::pair<const void *, int>> slots; /* place and its holder, oldest first */
    std::vector<std::pair<const void *, int>> keeps; /* prefix and its holder, oldest first */
};

enum class Place { kFree, kOwn, kAlias, kLeaving };

/* A decommit in the queue; kept_from: a growth has kept a place of it, so that all of its places
 * wait for it whenever they are given back. */
struct PaidDecommit {
    uint64_t offset, end;
    bool kept_from;
};

struct PaidSlot {
    uint64_t offset, bytes;
    Place place = Place::kFree;
    int holder = 0;
    std::shared_ptr<PaidExtent> extent;
    bool was_alias = false;                 /* of a leaving one */
    std::shared_ptr<PaidDecommit> decommit; /* the same */
    bool usable() const { return place == Place::kOwn || place == Place::kAlias; }

    void leave_with(const std::shared_ptr<PaidDecommit> &waits)
    {
        decommit = waits;
        was_alias = place == Place::kAlias;
        place = Place::kLeaving;
    }
    /* Of a leaving one, for new work of this holder: nobody else uses it. */
    bool may_stay(int who) const
    {
        return holder == who && !was_alias && extent && extent->slots.size() == 1 &&
            extent->keeps.empty();
    }
    void stay()
    {
        place = Place::kOwn;
        decommit->kept_from = true;
    }
};

/* Sizes by the equation of the growth, step by step. */
inline std::vector<PaidSlot> cut(uint64_t bytes, uint64_t unit, uint64_t most, uint64_t divisor)
{
    std::vector<PaidSlot> slots;
    for (uint64_t at = 0; at < bytes;) {
        uint64_t size = unit;
        while (divisor != 0 && size * 2 <= most && size * 2 <= at / divisor && at % (size * 2) == 0)
            size *= 2;
        slots.push_back({at, size, Place::kFree, 0, nullptr, false, nullptr});
        at += size;
    }
    return slots;
}

struct Payers {
    static constexpr int kHolders = 3;
    uint64_t mapped[kHolders] = {};
    std::vector<std::weak_ptr<PaidExtent>> extents;

    /* What each holder pays: every extent once, by the oldest prefix, else by the oldest place. */
    std::vector<uint64_t> charged()
    {
        std::vector<uint64_t> sums(kHolders, 0);
        std::vector<std::weak_ptr<PaidExtent>> alive;
        for (auto &weak : extents) {
            auto extent = weak.lock();
            if (!extent || (extent->slots.empty() && extent->keeps.empty()))
                continue;
            const auto &payer = extent->keeps.empty() ? extent->slots[0] : extent->keeps[0];
            sums[static_cast<size_t>(payer.second)] += extent->bytes;
            alive.push_back(extent);
        }
        extents.swap(alive);
        return sums;
    }

    void commit(PaidSlot &slot, int holder)
    {
        slot.extent = std::make_shared<PaidExtent>(PaidExtent{slot.bytes, {}, {}});
        extents.push_back(slot.extent);
        use(slot, Place::kOwn, holder);
    }

    void use(PaidSlot &slot, Place place, int holder)
    {
        slot.place = place;
        slot.holder = holder;
        slot.extent->slots.push_back({&slot, holder});
        mapped[holder] += slot.bytes;
    }

    void leave(PaidSlot &slot)
    {
        auto &users = slot.extent->slots;
        users.erase(std::find_if(
            users.begin(), users.end(), [&](const auto &user) { return user.first == &slot; }));
        mapped[slot.holder] -= slot.bytes;
        slot.extent.reset();
        slot.place = Place::kFree;
    }
};

/* ---- What one life has at hand */
constexpr uint64_t kLimit = 96 * kGranule, kAllowance = 40 * kGranule;
constexpr int kKv = 0, kPrefix = 1, kTight = 2; /* holders; the last has an allowance */
constexpr size_t kRanges = 8, kPrefixes = 4, kSpans = 2;

struct Shape {
    uint64_t granules;
    mbr_growth growth;
};
inline const Shape kShapes[] = {{32, {kGranule, kGranule, 0}}, {48, {kGranule, 4 * kGranule, 4}},
    {32, {2 * kGranule, 2 * kGranule, 0}}};

struct LiveRange {
    mbr_range *range;
    size_t shape;
    uint32_t group;
    std::vector<PaidSlot> slots;
    bool ended = false;
    /* In the queue: they hold back the end of the whole. */
    std::vector<std::shared_ptr<PaidDecommit>> decommits;

    std::shared_ptr<PaidDecommit> former(const PaidSlot &slot) const
    {
        for (const auto &decommit : decommits) {
            if (decommit->kept_from && decommit->offset <= slot.offset &&
                slot.offset + slot.bytes <= decommit->end)
                return decommit;
        }
        return nullptr;
    }
};

struct LivePrefix {
    mbr_prefix *prefix;
    struct Keep {
        size_t piece, slot;
        std::shared_ptr<PaidExtent> extent;
    };
    std::vector<Keep> keeps;
    std::vector<std::pair<size_t, uint32_t>> pieces; /* shape and group of each */
};

} // namespace membrane

#endif
