/* A mechanism that owns nothing: a model of the contract's primitives with a fault plan. It keeps
 * its own books, refuses what the contract refuses, and notes every call that a host that keeps the
 * contract would not make. Addresses are numbers; with `real_memory` they are real pages, for
 * fills.
 *
 * It shares no code with the host: it is one of the oracles. */
#ifndef MEMBRANE_TESTS_SUPPORT_FAKE_MECHANISM_H
#define MEMBRANE_TESTS_SUPPORT_FAKE_MECHANISM_H

extern "C" {
#include "host/loader/loader.h"
}

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace membrane
{

enum class Slot {
    kReserve,
    kUnreserve,
    kCreate,
    kDestroy,
    kMap,
    kProtect,
    kUnmap,
    kMapShared,
    kAllocate,
    kRelease,
    kCount,
};

enum class FaultKind {
    kRefuse,      /* nothing happened */
    kPartial,     /* map: mapped all the same; create: owned all the same, residual reported */
    kQuarantine,  /* nobody knows */
    kIllegalPair, /* a failure that says done, or a success that says unchanged */
};

struct Fault {
    Slot slot;
    uint64_t ordinal; /* of that slot's calls, from 1 */
    FaultKind kind = FaultKind::kRefuse;
    mbr_status status = MBR_OUT_OF_MEMORY;
    bool sticky = false;
};

class FakeMechanism
{
  public:
    explicit FakeMechanism(uint64_t granule = 4096, uint64_t capacity = UINT64_C(1) << 30);
    ~FakeMechanism();

    mbr_mechanism mechanism; /* as the loader would have opened it */
    std::vector<Fault> faults;
    uint32_t fresh_content = MBR_CONTENT_ZERO; /* of new extents */
    int64_t owned_skew = 0;                    /* of each extent: what it owns beyond its size */
    static constexpr uint64_t kTruth = 1;
    uint64_t owned_lie = kTruth;     /* what it says that a new extent owns */
    uint64_t address_lie = 0;        /* what the next reserve or allocate answers instead; once */
    int64_t released_skew = 0;       /* what destroy, release and unmap say beyond the truth */
    bool pads_with_memory = false;   /* what aligning an allocation costs, it owns */
    std::vector<std::string> misuse; /* calls that the contract forbids a host to make */

    uint64_t calls(Slot slot) const { return calls_[static_cast<int>(slot)]; }
    uint64_t all_calls() const;
    void reset_calls();
    void forget_all(); /* the device is gone, and everything with it */
    uint64_t faults_met() const { return faults_met_; }

    uint64_t owned() const; /* of live extents and allocations */
    /* Calls with what is owned; meanwhile no slot begins or ends. */
    void look(const std::function<void(uint64_t owned)> &at) const;
    uint64_t mapped() const; /* each alias counted */
    uint64_t reserved() const;
    uint64_t extents() const { return extents_.size(); }
    uint64_t mappings() const;
    uint64_t reservations() const { return reservations_.size(); }
    /* What faults left behind: owned by nobody that the host could name. */
    uint64_t stranded() const { return stranded_; }
    uint32_t access_at(uint64_t address) const; /* MBR_ACCESS_…, or NONE where nothing is mapped */
    uint64_t extent_at(uint64_t address) const; /* 0: none */

  private:
    friend struct FakeSlots;
    friend struct RealSlots; /* real_below.h */
    friend class RealBelow;
    struct Extent {
        uint64_t bytes;
        uint64_t owned;
        uint64_t mappings = 0;
        bool lost = false; /* quarantined: never to be named again */
    };
    struct Mapping {
        uint64_t extent;
        uint64_t bytes;
        uint32_t access = MBR_ACCESS_NONE;
        bool lost = false;
    };
    struct Reservation {
        uint64_t address;
        uint64_t bytes;
        std::map<uint64_t, Mapping> mappings; /* by offset */
    };
    struct Allocation {
        uint64_t address;
        uint64_t owned;
    };

    const Fault *meet(Slot slot);
    uint64_t said_address(uint64_t address);
    uint64_t said_released(uint64_t bytes) const;
    uint64_t owned_locked() const;
    void note(const char *what, uint64_t id);

    mutable std::mutex mutex_;
    uint64_t granule_, capacity_;
    uint64_t next_address_ = UINT64_C(1) << 40;
    uint64_t calls_[static_cast<int>(Slot::kCount)] = {};
    uint64_t faults_met_ = 0;
    uint64_t stranded_ = 0;
    std::map<uint64_t, Extent> extents_;
    std::map<uint64_t, Reservation> reservations_;
    std::map<uint64_t, Allocation> allocations_;
};

} // namespace membrane

#endif
