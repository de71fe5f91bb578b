/* Which group's bytes an extent holds (I21): by the fake's books, and where a real mechanism is
 * below also by what is really there, which each user marks as its group's. */
#ifndef MEMBRANE_TESTS_UNIT_BACKING_CONTENTS_H
#define MEMBRANE_TESTS_UNIT_BACKING_CONTENTS_H

#include "tests/support/plugin.h"
#include "tests/unit/backing/world.h"

#include <map>

namespace membrane
{

class Contents
{
  public:
    Contents(World &world, bool is_real) : world_(world), is_real_(is_real) {}

    void fill(const ManualLine::Fill &fill)
    {
        uint64_t extent = world_.fake.extent_at(fill.address);
        EXPECT_NE(0u, extent) << "a fill reached memory that was unmapped meanwhile (I11)";
        groups_.erase(extent);
        if (is_real_)
            std::memset(view_of(fill.address), 0, fill.bytes);
    }

    /* The place is the group's from now on. */
    void show(uint64_t address, uint32_t group)
    {
        uint64_t extent = world_.fake.extent_at(address);
        EXPECT_NE(0u, extent);
        auto found = groups_.find(extent);
        bool is_filled = is_to_be_filled(address);
        if (found != groups_.end() && found->second != group) {
            EXPECT_TRUE(is_filled) << "another group's bytes are shown";
        }
        groups_[extent] = group;
        if (!is_real_)
            return;
        auto *word = reinterpret_cast<uint64_t *>(view_of(address));
        EXPECT_TRUE(is_filled || (*word | kGroups) != (kMark | kGroups) || *word == (kMark | group))
            << "another group's bytes are there";
        if (!is_filled)
            *word = kMark | group;
    }

  private:
    static constexpr uint64_t kMark = UINT64_C(0x67726F7570000000), kGroups = 0xFF;

    bool is_to_be_filled(uint64_t address) const
    {
        for (const auto &fill : world_.line.fills) {
            if (address - fill.address < fill.bytes)
                return true;
        }
        return false;
    }

    World &world_;
    bool is_real_;
    std::map<uint64_t, uint32_t> groups_;
};

} // namespace membrane

#endif
