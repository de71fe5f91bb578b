// A backing over a mechanism that owns nothing, for one schedule: who works on which extent, and
// what must be true of it whenever a slot takes memory away.
#ifndef MEMBRANE_TESTS_SCHED_BACKING_WORLD_H
#define MEMBRANE_TESTS_SCHED_BACKING_WORLD_H

#include "tests/sched/ep_world.h"
#include "tests/support/fake_mechanism.h"

extern "C" {
#include "host/backing/backing.h"
}

#include <map>

namespace sched_test
{

constexpr uint64_t kGranule = UINT64_C(2) << 20; // of numbers: nobody touches it

// The work on a granule of an extent, by whoever has it or had it last.
struct Use {
    const void *owner = nullptr; // NULL: given back
    uint64_t work[kStreams] = {};
};

// The mechanism, with a point on both sides of each slot. It checks that nothing is unmapped or
// destroyed under work that may still run (I11), in a capture, or with a lock held (I14).
class Memory : public membrane::FakeMechanism
{
  public:
    explicit Memory(Device *device);

    // Extents of [address, address + bytes), which `owner` has from now on and works on, behind all
    // work of the stream.
    void Take(const void *owner, int stream, uint64_t address, uint64_t bytes);
    // The owner submits no more work there.
    void Leave(const void *owner, uint64_t address, uint64_t bytes);

    int open_captures = 0;
    uint64_t calls_after_loss = 0; // that take memory away
    bool is_over = false;          // the loss is known to all, and nobody was inside

  private:
    friend struct MemorySlots;
    void Enter();
    void RequireIdle(uint64_t extent);
    Use *Find(uint64_t address); // NULL: nothing is mapped there

    Device *device_;
    mbr_virtual_vtable slots_;
    std::map<uint64_t, std::map<uint64_t, Use>> uses_; // by extent, by offset in it
    std::map<uint64_t, uint64_t> addresses_;           // by reservation
    std::map<uint64_t, uint64_t> mapped_at_;           // by extent
};

class BackingScenario : public EpScenario
{
  public:
    explicit BackingScenario(Draw &draw, uint64_t keep_bytes = UINT64_MAX);
    void Judge() override;

  protected:
    struct Range {
        mbr_range *range = nullptr;
        uint64_t address = 0;
    };

    uint64_t IdOf(int stream) const { return ep_.device.streams[stream].id; }
    bool IsLost() const { return sched_context_look(ep_.context).state == MBR_CONTEXT_LOST; }

    Range Reserve(uint64_t granules);
    // MBR_OK, and the work that it was grown for is submitted; or what a loss or a place on its way
    // back answers.
    mbr_status Grow(const Range &range, uint64_t first, uint64_t granules, int stream);
    mbr_status GiveBack(const Range &range, uint64_t first, uint64_t granules, int stream);
    void End(const Range &range, uint64_t granules, int stream, bool behind_both = false);
    // A range from its beginning to its end, so often.
    void Live(int stream, int times);
    void Reap(int times);
    void Trim() { mbr_backing_trim(backing_, 0); }
    // A capture from its beginning to its end, and its graph's.
    void Capture();
    void BeginCapture();
    void EndCapture();
    // As mbr_ep_destroy does for a lost EP.
    virtual void ConfirmEnd();

    mbr_governor *governor_ = nullptr;
    mbr_authority *authority_ = nullptr;
    mbr_holder *holder_ = nullptr;
    Memory memory_;
    mbr_port *port_ = nullptr;
    mbr_backing *backing_ = nullptr;

    // What a scenario has beside ranges goes before the backing does.
    virtual void EndOthers() {}

  private:
    void GiveBackAll();
    uint64_t ReadSettled();

    mbr_addresses addresses_ = {};
    mbr_gate gate_ = {};
    mbr_backing_user user_ = {};
    mbr_graph graph_ = {};
};

} // namespace sched_test

#endif
