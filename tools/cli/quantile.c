/* Holds samples and answers their quantiles. Never rounds a sample into a bucket, never holds more
 * of them than it was allowed. */
#include "tools/cli/quantile.h"

#include "abi/base/assert.h"
#include "abi/base/checked.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY_COUNT UINT64_C(1024)

void mbr_quantiles_init(
    mbr_quantiles *quantiles, const mbr_heap *heap, uint64_t max_held_count, uint64_t seed)
{
    *quantiles = (mbr_quantiles){
        .heap = heap == NULL ? &mbr_heap_libc : heap,
        .max_held_count = max_held_count == 0 ? MBR_QUANTILE_MAX_SAMPLES_COUNT : max_held_count,
        .random_state = seed,
    };
}

void mbr_quantiles_finish(mbr_quantiles *quantiles)
{
    if (quantiles->heap != NULL)
        mbr_heap_release(quantiles->heap, quantiles->samples);
    *quantiles = (mbr_quantiles){0};
}

/* The splitmix64 generator. */
static uint64_t next_random(mbr_quantiles *quantiles)
{
    uint64_t z = quantiles->random_state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Even in [0, bound): the draws that would favour the small numbers are thrown away. */
static uint64_t random_below(mbr_quantiles *quantiles, uint64_t bound)
{
    uint64_t uneven_count = (UINT64_MAX - bound + 1) % bound; /* 2^64 mod bound */
    uint64_t draw;
    do {
        draw = next_random(quantiles);
    } while (draw < uneven_count);
    return draw % bound;
}

static bool grow(mbr_quantiles *quantiles)
{
    uint64_t capacity = mbr_max(quantiles->capacity_count, FIRST_CAPACITY_COUNT / 2);
    uint64_t bytes;
    if (!mbr_mul(capacity, 2, &capacity))
        return false;
    capacity = mbr_min(capacity, quantiles->max_held_count);
    if (!mbr_mul(capacity, sizeof *quantiles->samples, &bytes))
        return false;
    uint64_t *samples = mbr_heap_allocate(quantiles->heap, (size_t)bytes);
    if (samples == NULL)
        return false;
    if (quantiles->held_count != 0)
        memcpy(samples, quantiles->samples, (size_t)quantiles->held_count * sizeof *samples);
    mbr_heap_release(quantiles->heap, quantiles->samples);
    quantiles->samples = samples;
    quantiles->capacity_count = capacity;
    return true;
}

/* Reservoir sampling: the n-th sample stays with the probability max_held_count / n, in a place
 * that is drawn evenly. That a summary may have sorted the places does not matter for that. */
static void replace_one(mbr_quantiles *quantiles, uint64_t sample)
{
    uint64_t place = random_below(quantiles, quantiles->count + 1);
    if (place >= quantiles->max_held_count)
        return;
    quantiles->samples[place] = sample;
    quantiles->is_sorted = false;
}

bool mbr_quantiles_add(mbr_quantiles *quantiles, uint64_t sample)
{
    MBR_ASSERT(quantiles->heap != NULL);
    if (quantiles->held_count == quantiles->max_held_count) {
        replace_one(quantiles, sample);
    } else {
        if (quantiles->held_count == quantiles->capacity_count && !grow(quantiles))
            return false;
        quantiles->samples[quantiles->held_count++] = sample;
        quantiles->is_sorted = false;
    }
    quantiles->minimum = quantiles->count == 0 ? sample : mbr_min(quantiles->minimum, sample);
    quantiles->maximum = mbr_max(quantiles->maximum, sample);
    quantiles->count++;
    return true;
}

static int compare(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left;
    uint64_t b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

uint64_t mbr_quantiles_at(mbr_quantiles *quantiles, uint32_t numerator, uint32_t denominator)
{
    MBR_ASSERT(denominator != 0 && numerator <= denominator);
    if (quantiles->held_count == 0)
        return 0;
    if (!quantiles->is_sorted)
        qsort(
            quantiles->samples, (size_t)quantiles->held_count, sizeof *quantiles->samples, compare);
    quantiles->is_sorted = true;
    /* rank = ceil(held * numerator / denominator), from 1; held is below 2^61 and the product may
     * not fit, so whole and rest are multiplied apart. */
    uint64_t whole = quantiles->held_count / denominator;
    uint64_t rest = quantiles->held_count % denominator;
    uint64_t rank = whole * numerator + (rest * numerator + denominator - 1) / denominator;
    return quantiles->samples[rank == 0 ? 0 : rank - 1];
}

void mbr_quantiles_summarize(mbr_quantiles *quantiles, mbr_quantile_summary *out)
{
    *out = (mbr_quantile_summary){
        .count = quantiles->count,
        .minimum = quantiles->minimum,
        .p50 = mbr_quantiles_at(quantiles, 1, 2),
        .p99 = mbr_quantiles_at(quantiles, 99, 100),
        .p999 = mbr_quantiles_at(quantiles, 999, 1000),
        .maximum = quantiles->maximum,
        .is_sampled = quantiles->count > quantiles->held_count,
    };
}
