/* A seeded request trace for H10, and the ledger calls that serving it takes. */
#ifndef MEMBRANE_TOOLS_BENCH_TRACE_H
#define MEMBRANE_TOOLS_BENCH_TRACE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct mbr_bench_request {
    uint32_t prompt_tokens, output_tokens;
} mbr_bench_request;

/* Prompts of 64 to 2048 tokens and outputs of 16 to 512, short ones more often than long ones. */
void mbr_bench_trace_make(mbr_bench_request *requests, uint64_t count, uint64_t seed);

#endif
