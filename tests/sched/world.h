// A governor for one schedule: its heap, the clock of the schedule, and the judgment that all
// scenarios share: nothing is booked at the end and the audit holds.
#ifndef MEMBRANE_TESTS_SCHED_WORLD_H
#define MEMBRANE_TESTS_SCHED_WORLD_H

#include "tests/sched/explore.h"
#include "tests/sched/heap.h"

extern "C" {
#include "governor/ticket.h"
#include "tests/sched/door.h"
}

#include "tests/support/figures.h"

#include <cinttypes>
#include <cstdlib>
#include <cstring>
#include <string>

namespace sched_test
{

constexpr uint64_t kKiB = 1024;
constexpr uint64_t kMiB = 1024 * kKiB;
constexpr uint64_t kSecond = 1000000000;
constexpr uint64_t kCreditLimit = 16 * kMiB;            // the least limit whose threads hold credit
constexpr uint64_t kCreditCap = kCreditLimit / 64 / 64; // of one thread

using governor_figures::Figures;
using governor_figures::NewError;

// One authority and its holders. A scenario gives back in its bodies or in its own Judge what it
// took, and then calls this one's.
class GovernorScenario : public Scenario
{
  public:
    explicit GovernorScenario(
        uint64_t limit_bytes, const mbr_probe *probe = nullptr, mbr_shared *shared = nullptr)
        : limit_(limit_bytes)
    {
        mbr_heap heap = heap_.Seam();
        mbr_governor_options options = {&heap, &sched_clock};
        SCHED_REQUIRE(mbr_governor_create(&options, &governor_, nullptr) == MBR_OK);
        authority_ = Authority("pool", limit_bytes, probe, shared);
        last_room_ = sched_room_bytes(authority_);
    }

    // Where nobody may pass the limit. A scenario that lowers it, or records bytes past it, says
    // who may take the room below zero.
    void Look(uint8_t fiber) override
    {
        int64_t room = sched_room_bytes(authority_);
        SCHED_REQUIRE(room >= 0 || room >= last_room_ || (may_go_below_ >> fiber & 1) != 0,
            "room fell from %" PRId64 " to %" PRId64, last_room_, room);
        last_room_ = room;
    }

    void Judge() override
    {
        Audit();
        for (mbr_holder *holder : holders_)
            Destroy(holder);
        mbr_authority_collect_credit(authority_);
        SCHED_REQUIRE(Figures(authority_).claimed_bytes == 0);
        Audit();
        mbr_error error = NewError();
        SCHED_REQUIRE(mbr_authority_destroy(authority_, &error) == MBR_OK, "%s", error.text);
        SCHED_REQUIRE(mbr_governor_destroy(governor_, &error) == MBR_OK, "%s", error.text);
        heap_.Judge();
    }

  protected:
    mbr_authority *Authority(const char *name, uint64_t limit_bytes, const mbr_probe *probe,
        mbr_shared *shared = nullptr)
    {
        mbr_authority_options options = {};
        options.name = name;
        options.tier = MBR_TIER_DEVICE;
        options.limit_bytes = limit_bytes;
        options.probe = probe;
        options.shared = shared;
        mbr_authority *made = nullptr;
        mbr_error error = NewError();
        SCHED_REQUIRE(
            mbr_authority_create(governor_, &options, &made, &error) == MBR_OK, "%s", error.text);
        sched_journal_authority(made);
        return made;
    }

    mbr_holder *HolderOf(mbr_authority *authority, const mbr_holder_options &options)
    {
        mbr_holder *made = nullptr;
        mbr_error error = NewError();
        SCHED_REQUIRE(
            mbr_holder_create(authority, &options, &made, &error) == MBR_OK, "%s", error.text);
        sched_journal_holder(made);
        return made;
    }

    mbr_holder *Holder(uint64_t allowance_bytes = MBR_NO_ALLOWANCE, uint32_t role = MBR_ROLE_KV)
    {
        holders_.push_back(LooseHolder(allowance_bytes, role));
        return holders_.back();
    }

    // One that the scenario destroys itself.
    mbr_holder *LooseHolder(
        uint64_t allowance_bytes = MBR_NO_ALLOWANCE, uint32_t role = MBR_ROLE_KV)
    {
        return Pressed({}, role, allowance_bytes);
    }

    // One that is asked for bytes; the scenario destroys it.
    mbr_holder *Pressed(const mbr_pressure_callbacks &callbacks, uint32_t role = MBR_ROLE_CACHE,
        uint64_t allowance_bytes = MBR_NO_ALLOWANCE)
    {
        mbr_holder_options options = {};
        options.name = "holder";
        options.role = role;
        options.allowance_bytes = allowance_bytes;
        options.pressed = callbacks;
        return HolderOf(authority_, options);
    }

    void Destroy(mbr_holder *holder)
    {
        mbr_error error = NewError();
        SCHED_REQUIRE(mbr_holder_destroy(holder, &error) == MBR_OK, "%s", error.text);
    }

    void Audit()
    {
        mbr_error error = NewError();
        SCHED_REQUIRE(mbr_authority_audit(authority_, &error) == MBR_OK, "%s", error.text);
    }

    // Charged bytes before the schedule begins.
    void Charge(mbr_holder *holder, uint64_t bytes)
    {
        SCHED_REQUIRE(mbr_grant(holder, bytes, nullptr) == MBR_OK);
        mbr_charge(holder, bytes);
    }

    uint64_t limit_;
    uint64_t may_go_below_ = 0; // a bit for each fiber
    mbr_governor *governor_ = nullptr;
    mbr_authority *authority_ = nullptr;

  private:
    GuardedHeap heap_;
    int64_t last_room_ = 0;
    std::vector<mbr_holder *> holders_;
};

} // namespace sched_test

#endif
