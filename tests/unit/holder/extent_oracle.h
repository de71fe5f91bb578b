// The literal walk of the extent rule's equation: one boundary after another, every power of two
// tried at each. It shares no code and no closed form with the rule.
#ifndef MEMBRANE_TESTS_UNIT_HOLDER_EXTENT_ORACLE_H
#define MEMBRANE_TESTS_UNIT_HOLDER_EXTENT_ORACLE_H

extern "C" {
#include "host/backing/extent_rule.h"
}

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace oracle
{

// size_at(o) read off the header's equation; `boundary` is a start of an extent.
inline uint64_t SizeAt(const mbr_extent_rule &rule, uint64_t boundary)
{
    uint64_t best = rule.unit_bytes;
    if (rule.divisor == 0)
        return best;
    for (uint64_t size = rule.unit_bytes; size <= rule.max_bytes; size *= 2) {
        if (size <= boundary / rule.divisor && boundary % size == 0 && size > best)
            best = size;
        if (size > UINT64_MAX / 2)
            break;
    }
    return best;
}

// The boundaries of [0, bytes) and the first one at or after `bytes`.
inline std::vector<uint64_t> Boundaries(const mbr_extent_rule &rule, uint64_t bytes)
{
    std::vector<uint64_t> boundaries = {0};
    while (boundaries.back() < bytes)
        boundaries.push_back(boundaries.back() + SizeAt(rule, boundaries.back()));
    return boundaries;
}

// One seed a process, printed so that a failure can be replayed.
inline uint64_t Seed()
{
    const char *text = std::getenv("MEMBRANE_SEED");
    uint64_t seed = text != nullptr ? std::strtoull(text, nullptr, 0) : 20240611;
    std::printf("replay with MEMBRANE_SEED=%llu\n", static_cast<unsigned long long>(seed));
    return seed;
}

} // namespace oracle

#endif
