/* The trace while it grows: room for requests and for their block ids, and the final order. Never
 * reads the file. */
#include "tools/cli/trace/reader.h"

#include "abi/base/assert.h"
#include "abi/base/checked.h"

#include <inttypes.h>
#include <string.h>

#define FIRST_REQUESTS_COUNT UINT64_C(1024)

/* Ids of one request are never split, so a chunk takes those of the longest prompt. */
#define CHUNK_IDS_COUNT (MBR_TRACE_MAX_TOKENS / MBR_TRACE_BLOCK_TOKENS)

typedef struct mbr_trace_chunk {
    struct mbr_trace_chunk *next;
    uint32_t used_count;
    uint64_t ids[CHUNK_IDS_COUNT];
} mbr_trace_chunk;

static mbr_trace_status refuse_limit(
    mbr_trace_loading *loading, const char *what, uint64_t limit, const char *limit_name)
{
    return mbr_trace_refuse(loading, MBR_TRACE_OVER_LIMIT,
        (mbr_trace_place){.line = loading->line.number},
        "more than %" PRIu64 " %s (%s); split the file or read fewer requests", limit, what,
        limit_name);
}

mbr_trace_status mbr_trace_take_hash_ids(mbr_trace_loading *loading, uint32_t count, uint64_t **out)
{
    *out = NULL;
    if (count == 0)
        return MBR_TRACE_OK;
    MBR_ASSERT(count <= CHUNK_IDS_COUNT);
    mbr_trace *trace = loading->trace;
    if (count > loading->limits.max_hash_ids_count - trace->hash_id_count)
        return refuse_limit(
            loading, "block ids", loading->limits.max_hash_ids_count, "MBR_TRACE_MAX_HASH_IDS");

    mbr_trace_chunk *chunk = trace->chunks;
    if (chunk == NULL || CHUNK_IDS_COUNT - chunk->used_count < count) {
        chunk = mbr_heap_allocate(&trace->heap, sizeof *chunk);
        if (chunk == NULL)
            return mbr_trace_refuse_memory(loading);
        chunk->next = trace->chunks;
        trace->chunks = chunk;
    }
    *out = chunk->ids + chunk->used_count;
    chunk->used_count += count;
    trace->hash_id_count += count;
    return MBR_TRACE_OK;
}

void mbr_trace_release_chunks(mbr_trace *trace)
{
    while (trace->chunks != NULL) {
        mbr_trace_chunk *next = trace->chunks->next;
        mbr_heap_release(&trace->heap, trace->chunks);
        trace->chunks = next;
    }
}

static bool grow_requests(mbr_trace *trace)
{
    uint64_t capacity = mbr_max(trace->capacity_count * 2, FIRST_REQUESTS_COUNT);
    mbr_trace_request *grown =
        mbr_heap_allocate(&trace->heap, (size_t)capacity * sizeof *trace->requests);
    if (grown == NULL)
        return false;
    if (trace->request_count != 0)
        memcpy(grown, trace->requests, (size_t)trace->request_count * sizeof *grown);
    mbr_heap_release(&trace->heap, trace->requests);
    trace->requests = grown;
    trace->capacity_count = capacity;
    return true;
}

mbr_trace_status mbr_trace_append(mbr_trace_loading *loading, const mbr_trace_request *request)
{
    mbr_trace *trace = loading->trace;
    if (request->prompt_tokens == 0 && request->output_tokens == 0)
        return mbr_trace_refuse(loading, MBR_TRACE_BAD_VALUE,
            (mbr_trace_place){.line = loading->line.number},
            "a request of 0 prompt and 0 output tokens holds nothing; delete the line");
    if (trace->request_count == loading->limits.max_requests_count)
        return refuse_limit(
            loading, "requests", loading->limits.max_requests_count, "MBR_TRACE_MAX_REQUESTS");
    if (trace->request_count == trace->capacity_count && !grow_requests(trace))
        return mbr_trace_refuse_memory(loading);

    if (trace->request_count != 0 && request->arrival_ns < loading->last_arrival_ns)
        trace->out_of_order_count++;
    loading->last_arrival_ns = mbr_max(loading->last_arrival_ns, request->arrival_ns);
    trace->requests[trace->request_count] = *request;
    trace->requests[trace->request_count].source_line = loading->line.number;
    trace->request_count++;
    return MBR_TRACE_OK;
}

/* Merges the sorted runs from[begin, middle) and from[middle, end) into `to`; of two equal arrivals
 * the one of the left run, which is earlier in the file, comes first. */
static void merge(const mbr_trace_request *from, mbr_trace_request *to, uint64_t begin,
    uint64_t middle, uint64_t end)
{
    uint64_t left = begin;
    uint64_t right = middle;
    for (uint64_t i = begin; i < end; i++) {
        bool take_right =
            left == middle || (right < end && from[right].arrival_ns < from[left].arrival_ns);
        to[i] = take_right ? from[right++] : from[left++];
    }
}

/* A merge sort from the bottom up: stable, and without a recursion or a comparison through the C
 * library, whose own buffer would pass the heap seam by. */
static bool sort_requests(mbr_trace *trace)
{
    uint64_t count = trace->request_count;
    mbr_trace_request *from = trace->requests;
    mbr_trace_request *to = mbr_heap_allocate(&trace->heap, (size_t)count * sizeof *to);
    if (to == NULL)
        return false;
    for (uint64_t run = 1; run < count; run *= 2) {
        for (uint64_t begin = 0; begin < count; begin += 2 * run)
            merge(from, to, begin, mbr_min(begin + run, count), mbr_min(begin + 2 * run, count));
        mbr_trace_request *sorted = to;
        to = from;
        from = sorted;
    }
    trace->requests = from;
    trace->capacity_count = count;
    mbr_heap_release(&trace->heap, to);
    return true;
}

mbr_trace_status mbr_trace_sort(mbr_trace_loading *loading)
{
    mbr_trace *trace = loading->trace;
    if (trace->out_of_order_count != 0 && !sort_requests(trace))
        return mbr_trace_refuse_memory(loading);
    uint64_t first_ns = trace->requests[0].arrival_ns;
    for (uint64_t i = 0; i < trace->request_count; i++)
        trace->requests[i].arrival_ns -= first_ns;
    return MBR_TRACE_OK;
}
