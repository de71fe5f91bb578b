/* Responsible for a trace that is the same on every machine. */
#include "tools/bench/trace.h"

/* xorshift64*, Vigna 2014: the same numbers everywhere, from any seed but 0. */
static uint64_t next_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717);
}

/* In [low, high], by thirds: half of all in the lowest, a third in the middle one. */
static uint32_t skewed(uint64_t *state, uint32_t low, uint32_t high)
{
    uint32_t third = (high - low) / 3;
    uint32_t which = (uint32_t)(next_random(state) >> 33) % 6;
    uint32_t begin = low + (which < 3 ? 0 : which < 5 ? 1 : 2) * third;
    return begin + (uint32_t)(next_random(state) >> 33) % (third + 1);
}

void mbr_bench_trace_make(mbr_bench_request *requests, uint64_t count, uint64_t seed)
{
    uint64_t state = seed | 1;
    for (uint64_t i = 0; i < count; i++)
        requests[i] = (mbr_bench_request){skewed(&state, 64, 2048), skewed(&state, 16, 512)};
}
