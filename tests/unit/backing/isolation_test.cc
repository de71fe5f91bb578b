// I21, by chance: whatever way memory goes from one isolation group to another (the pool, ranges
// that stay parked, what is mapped ahead, aliases, prefixes that end, places that were quarantined
// and tried again, spans), nobody gets an extent that another group had without its being filled.
#include "tests/unit/backing/world.h"

#include <algorithm>
#include <cstdlib>
#include <list>
#include <map>
#include <random>

namespace membrane
{
namespace
{

constexpr uint64_t kSlots = 8;

struct Held {
    mbr_range *range;
    uint32_t group;
    bool aliased; // a prefix was mapped into it
};

class Groups
{
  public:
    explicit Groups(uint64_t seed) : random_(seed), world_(48 * kGranule)
    {
        world_.line.on_fill = [this](const ManualLine::Fill &fill) {
            for (uint64_t at = 0; at < fill.bytes; at += kGranule)
                last_[world_.fake.extent_at(fill.address + at)] = 0; // nobody's any more
        };
        mbr_backing_set_ahead(world_.backing, 6 * kGranule);
    }
    ~Groups()
    {
        world_.fake.faults.clear();
        for (auto &[prefix, group] : prefixes_)
            mbr_prefix_end(prefix);
        for (Held &one : held_)
            EXPECT_EQ(MBR_OK, world_.end(one.range));
        mbr_backing_trim(world_.backing, 0);
        EXPECT_EQ(0u, world_.fake.owned());
    }

    void step()
    {
        switch (between(0, 9)) {
        case 0:
            reserve(mbr_alias_hint{0, 0}, group());
            break;
        case 1:
            end();
            break;
        case 2:
            decommit();
            break;
        case 3:
            make_prefix();
            break;
        case 4:
            share();
            break;
        case 5:
            if (!prefixes_.empty() && between(0, 2) == 0) {
                mbr_prefix_end(prefixes_.front().first);
                prefixes_.pop_front();
            }
            break;
        case 6:
            span();
            break;
        case 7: // an unmap is refused; a trim tries again
            world_.fake.faults.assign(
                1, Fault{Slot::kUnmap, world_.fake.calls(Slot::kUnmap) + between(1, 3)});
            break;
        default:
            grow(between(0, 2) == 0);
        }
        if (between(0, 7) == 0) {
            world_.fake.faults.clear();
            mbr_backing_trim(world_.backing, between(0, 20) * kGranule);
        }
        ASSERT_TRUE(world_.agree());
    }

    uint64_t crossed = 0, refused = 0, aliases = 0;

  private:
    uint64_t between(uint64_t low, uint64_t high) { return low + random_() % (high - low + 1); }
    uint32_t group() { return static_cast<uint32_t>(between(1, 3)); }
    Held *any()
    {
        if (held_.empty())
            return nullptr;
        auto at = held_.begin();
        std::advance(at, static_cast<ptrdiff_t>(between(0, held_.size() - 1)));
        return &*at;
    }

    Held *reserve(mbr_alias_hint hint, uint32_t of)
    {
        if (held_.size() >= 6)
            return nullptr;
        mbr_range_options options = {};
        options.context = world_.context;
        options.bytes = kSlots * kGranule;
        options.growth = {kGranule, kGranule, 0};
        options.isolation_group = of;
        options.alias = hint;
        mbr_range *range = nullptr;
        EXPECT_EQ(MBR_OK, mbr_backing_reserve(world_.backing, &options, &range, nullptr));
        // What still stands there is its own group's, mapped for nobody else.
        for (uint64_t i = 0; i < kSlots; i++) {
            uint64_t extent = world_.fake.extent_at(mbr_range_address(range) + i * kGranule);
            EXPECT_TRUE(extent == 0 || last_[extent] == 0 || last_[extent] == of);
        }
        held_.push_back({range, of, false});
        return &held_.back();
    }

    void grow(bool ahead)
    {
        Held *one = any();
        if (one == nullptr)
            return;
        uint64_t first = between(0, kSlots - 1), count = between(1, kSlots - first);
        std::vector<bool> had;
        for (uint64_t i = 0; i < kSlots; i++)
            had.push_back(committed(*one, i));
        mbr_grow_options options = {};
        options.stream_id = world_.stream;
        options.flags = ahead ? MBR_GROW_AHEAD : 0;
        mbr_status status =
            world_.grow_with(options, {one->range, 0, first * kGranule, count * kGranule});
        if (status != MBR_OK || ahead) {
            refused += status != MBR_OK;
            return;
        }
        world_.line.reach_all(); // the fills are before whatever the caller does
        for (uint64_t i = first; i < first + count; i++)
            if (!had[i])
                take(mbr_range_address(one->range) + i * kGranule, one->group);
        for (uint64_t i = first; i < first + count; i++)
            states_[one->range].insert(i);
    }
    bool committed(const Held &one, uint64_t slot) { return states_[one.range].count(slot) != 0; }

    /* It is the group's now, which writes there. */
    void take(uint64_t address, uint32_t of)
    {
        uint64_t extent = world_.fake.extent_at(address);
        ASSERT_NE(0u, extent);
        uint32_t before = last_[extent];
        EXPECT_TRUE(before == 0 || before == of)
            << "group " << of << " sees what group " << before << " wrote";
        crossed += owners_[extent] != 0 && owners_[extent] != of;
        last_[extent] = owners_[extent] = of;
    }

    void decommit()
    {
        Held *one = any();
        if (one == nullptr)
            return;
        uint64_t first = between(0, kSlots - 1), count = between(1, kSlots - first);
        mbr_range_decommit_result result = {};
        result.struct_size = sizeof(result);
        if (mbr_range_give_back(one->range, first * kGranule, count * kGranule, true, nullptr, 0,
                &result, nullptr) == MBR_OK)
            for (uint64_t i = first; i < first + count; i++)
                states_[one->range].erase(i);
    }

    void end()
    {
        if (held_.empty())
            return;
        Held one = held_.front();
        held_.pop_front();
        states_.erase(one.range);
        EXPECT_EQ(MBR_OK, world_.end(one.range));
    }

    void make_prefix()
    {
        Held *one = any();
        if (one == nullptr || one->aliased || !committed(*one, 0) || prefixes_.size() >= 3)
            return;
        mbr_range_part part = {one->range, 0, 0, kGranule};
        mbr_prefix *made = nullptr;
        mbr_prefix_result result = {};
        result.struct_size = sizeof(result);
        if (mbr_backing_make_prefix(
                world_.backing, &part, 1, world_.prefix, &made, &result, nullptr) == MBR_OK)
            prefixes_.push_back({made, one->group});
    }

    void share()
    {
        if (prefixes_.empty())
            return;
        auto [prefix, of] = prefixes_.back();
        bool foreign = between(0, 2) == 0;
        Held *one = reserve(mbr_prefix_hint(prefix, 0), foreign ? of % 3 + 1 : of);
        if (one == nullptr)
            return;
        mbr_prefix_attach_result result = {};
        result.struct_size = sizeof(result);
        mbr_status status =
            mbr_prefix_map_into(prefix, &one->range, 1, nullptr, world_.kv, &result, nullptr);
        EXPECT_TRUE(!foreign || status == MBR_INVALID_ARGUMENT);
        if (status != MBR_OK)
            return;
        one->aliased = true;
        aliases += result.adopted_bytes != 0;
        states_[one->range].insert(0);
    }

    void span()
    {
        mbr_span span = {};
        uint32_t of = group();
        if (mbr_backing_take_span(world_.backing, world_.context, world_.stream, of, 2 * kGranule,
                kGranule, &span, nullptr, nullptr) != MBR_OK)
            return;
        world_.line.reach_all();
        for (uint64_t at = 0; at < span.bytes; at += kGranule)
            take(span.address + at, of);
        mbr_backing_give_span(world_.backing, &span);
    }

    std::mt19937_64 random_;
    World world_;
    std::list<Held> held_;
    std::list<std::pair<mbr_prefix *, uint32_t>> prefixes_;
    std::map<mbr_range *, std::set<uint64_t>> states_; // committed slots
    std::map<uint64_t, uint32_t> last_;                // who wrote an extent last; 0: filled
    std::map<uint64_t, uint32_t> owners_;              // who had it last
};

TEST(Isolation, EveryWayThatMemoryTravels_NobodySeesAnothersBytes)
{
    const char *given = std::getenv("MEMBRANE_SEED");
    uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 20261130;
    uint64_t crossed = 0, refused = 0, aliases = 0;
    for (int life = 0; life < 40; life++, seed++) {
        SCOPED_TRACE("MEMBRANE_SEED=" + std::to_string(seed));
        Groups groups(seed);
        for (int i = 0; i < 400 && !::testing::Test::HasFailure(); i++)
            groups.step();
        crossed += groups.crossed;
        refused += groups.refused;
        aliases += groups.aliases;
    }
    EXPECT_LT(500u, crossed);
    EXPECT_LT(50u, refused);
    EXPECT_LT(5u, aliases);
}

} // namespace
} // namespace membrane
