// What the members at the edge and the one who watches them agree upon.
#ifndef MEMBRANE_TESTS_UNIT_GOVERNOR_SHARED_EDGE_H
#define MEMBRANE_TESTS_UNIT_GOVERNOR_SHARED_EDGE_H

#include <cstdint>

namespace governor_test
{

constexpr uint64_t kGranule = 65536;
constexpr uint64_t kEdgeLimit = 33 * 1024 * 1024; // an odd number of chunks, and half of one
constexpr uint64_t kEdgeMembers = 2;
constexpr uint64_t kEdgeThreads = 8;
constexpr uint64_t kPiecesOfThread = kEdgeLimit / kGranule / 4; // together four times the limit

} // namespace governor_test

#endif
