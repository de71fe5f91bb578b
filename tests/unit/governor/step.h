// Steps of the model tests are data, so that a failing sequence can be cut down and printed.
#ifndef MEMBRANE_TESTS_UNIT_GOVERNOR_STEP_H
#define MEMBRANE_TESTS_UNIT_GOVERNOR_STEP_H

#include "membrane/pressure.h"

extern "C" {
#include "abi/base/state.h"
#include "governor/ticket_states.h"
}

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

namespace governor_test
{

inline uint64_t FromEnvironment(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text == nullptr ? otherwise : strtoull(text, nullptr, 10);
}

// How many operations a run has: MEMBRANE_OPERATIONS, which .bazelrc sets for the address and the
// undefined behaviour sanitizer. The thread sanitizer slows them down thirtyfold and has nothing to
// see in a single thread.
constexpr uint64_t kMostOperations = 3000000;
#ifdef __SANITIZE_THREAD__
constexpr uint64_t kDefaultOperations = 20000;
#else
constexpr uint64_t kDefaultOperations = kMostOperations;
#endif

inline uint64_t OperationCount()
{
    return FromEnvironment("MEMBRANE_OPERATIONS", kDefaultOperations);
}

enum class Do {
    kCreate,
    kDestroy,
    kGrant,
    kReturn,
    kCharge,
    kRefund,
    kTransfer,
    kTryTransfer,
    kRecord,
    kMap,
    kUnmap,
    kMapTransfer,
    kQuarantine,
    kQuarantineSettle,
    kRetain,
    kRetainSettle,
    kSetLimit,
    kChangeLimit,
    kExhausted,
    kSample,
    kSampleIfDue,
    kClock,
    kManners,
    kSubmit,
    kPoll,
    kClaim,
    kCancel,
    kDestroyTicket,
    kRetire,
    kPollAll,
    kDeliver,
    kAdmit,
    kGrow,
    kShrink,
    kLeave,
    kCollect,
    kPressCaches,
    kGrantAll, // of several authorities: the walk's
    kCount
};

constexpr const char *kDoNames[] = {"create", "destroy", "grant", "return", "charge", "refund",
    "transfer", "try_transfer", "record", "map", "unmap", "map_transfer", "quarantine",
    "quarantine_settle", "retain", "retain_settle", "set_limit", "change_limit", "exhausted",
    "sample", "sample_if_due", "clock", "manners", "submit", "poll", "claim", "cancel",
    "destroy_ticket", "retire", "poll_all", "deliver", "admit", "grow", "shrink", "leave",
    "collect", "press_caches", "grant_all"};
static_assert(sizeof(kDoNames) / sizeof(kDoNames[0]) == static_cast<size_t>(Do::kCount));

enum Flags : uint32_t {
    kQuiet = 1,
    kTells = 2,
    kBorrows = 4,
    kPressed = 8,
    kRestore = 16,
    kGreedy = 32
};

struct Step {
    Do what = Do::kPoll;
    int at = 0;         // which authority
    int a = 0, b = 0;   // holders; of a ticket or a member: a is its holder
    int name = 0;       // of a ticket or a member
    uint64_t bytes = 0; // or nanoseconds, or an allowance
    uint64_t more =
        0; // deadline, expected revision, bytes that are given, of grant_all the others'
    uint32_t rank = 0; // priority or role
    uint32_t flags = 0;
};

inline std::string Text(const Step &step)
{
    std::ostringstream text;
    text << kDoNames[static_cast<int>(step.what)] << " at=" << step.at << " a=" << step.a
         << " b=" << step.b << " name=" << step.name << " bytes=" << step.bytes
         << " more=" << step.more << " rank=" << step.rank << " flags=" << step.flags;
    return text.str();
}

// Whether a sequence still fails.
using Fails = std::function<bool(const std::vector<Step> &)>;

// The failing sequence with pieces left out, down to where each step is needed.
inline std::vector<Step> Shrunk(std::vector<Step> steps, const Fails &fails)
{
    for (size_t piece = (steps.size() + 1) / 2; piece != 0;) {
        bool cut = false;
        for (size_t end = steps.size(); end >= piece; end -= std::min(end, piece)) {
            std::vector<Step> fewer(steps.begin(), steps.begin() + static_cast<long>(end - piece));
            fewer.insert(fewer.end(), steps.begin() + static_cast<long>(end), steps.end());
            if (!fails(fewer))
                continue;
            steps = fewer;
            cut = true;
        }
        piece = cut && piece <= steps.size() ? piece : piece / 2;
    }
    return steps;
}

// How often each edge of the table of tickets was seen.
using Edges = std::array<std::array<uint64_t, MBR_TICKET_STATE_COUNT>, MBR_TICKET_STATE_COUNT>;

struct Tally {
    Edges edges = {};
    std::array<uint64_t, 8> limit_kinds = {}; // MBR_LIMIT_…
    std::array<uint64_t, 8> reasons = {};     // MBR_REFUSED_…, of grants
    uint64_t gave = 0, held = 0; // steps in which holders gave, after which bytes were held
};

inline std::string EdgesTaken(const Edges &edges, uint64_t at_least)
{
    std::string missing;
    for (uint32_t from = 0; from < MBR_TICKET_STATE_COUNT; from++)
        for (uint32_t to = 0; to < MBR_TICKET_STATE_COUNT; to++) {
            if (!mbr_state_allows(&mbr_ticket_states, from, to))
                continue;
            std::string edge =
                std::string(mbr_ticket_states.names[from]) + " -> " + mbr_ticket_states.names[to];
            printf("%s: %llu\n", edge.c_str(), static_cast<unsigned long long>(edges[from][to]));
            if (edges[from][to] < at_least)
                missing += edge + "; ";
        }
    return missing;
}

} // namespace governor_test

#endif
