/* Quantiles of a stream of samples: exact while all of them are held, and of an even random sample
 * of a fixed size beyond that. The count, the minimum and the maximum are always exact.
 *
 * A quantile is a sample that occurred: the smallest one with at least that share of the samples at
 * or below it. Thread rule: one thread at a time. */
#ifndef MEMBRANE_TOOLS_CLI_QUANTILE_H
#define MEMBRANE_TOOLS_CLI_QUANTILE_H

#include "abi/base/seam.h"

#include <stdbool.h>
#include <stdint.h>

#define MBR_QUANTILE_MAX_SAMPLES_COUNT (UINT64_C(1) << 20) /* 8 MiB */

/* samples[0, held_count) are held, held_count = min(count, max_held_count) <= capacity_count. */
typedef struct mbr_quantiles {
    const mbr_heap *heap;
    uint64_t *samples;
    uint64_t capacity_count;
    uint64_t max_held_count;
    uint64_t held_count;
    uint64_t count; /* of all samples added */
    uint64_t minimum;
    uint64_t maximum;
    uint64_t random_state;
    bool is_sorted;
} mbr_quantiles;

typedef struct mbr_quantile_summary {
    uint64_t count; /* everything else is 0 when this is */
    uint64_t minimum;
    uint64_t p50;
    uint64_t p99;
    uint64_t p999;
    uint64_t maximum;
    bool is_sampled; /* there were more samples than are held: p50, p99 and p999 are estimates */
} mbr_quantile_summary;

/* heap NULL is the C library's; it must outlive the quantiles. At most max_held_count samples are
 * held, 0 means MBR_QUANTILE_MAX_SAMPLES_COUNT. The same seed and samples give the same answers. */
void mbr_quantiles_init(
    mbr_quantiles *quantiles, const mbr_heap *heap, uint64_t max_held_count, uint64_t seed);
void mbr_quantiles_finish(mbr_quantiles *quantiles);

/* False when there is no memory; nothing has changed then. */
bool mbr_quantiles_add(mbr_quantiles *quantiles, uint64_t sample);

/* The quantile at numerator / denominator, from 0 to 1; 0 without samples. */
uint64_t mbr_quantiles_at(mbr_quantiles *quantiles, uint32_t numerator, uint32_t denominator);

void mbr_quantiles_summarize(mbr_quantiles *quantiles, mbr_quantile_summary *out);

#endif
