/* The CUDA driver by hand: what a runtime without Membrane would call. The baselines of the rows
 * P1 to P20 stand on it.
 *
 * It opens the driver's library at run time and uses device 0's primary context, current on the
 * thread that opened it; other threads make hand->context current first. Each false leaves the
 * call's name and answer in hand->text. */
#ifndef MEMBRANE_TOOLS_BENCH_GPU_HAND_H
#define MEMBRANE_TOOLS_BENCH_GPU_HAND_H

#include "plugins/cuda/driver.h"
#include "tools/bench/row.h"

#define MBR_HAND_TEXT_BYTES 160

typedef struct mbr_hand {
#define MBR_HAND_MEMBER(member, exported, parameters) mbr_cuda_result(*member) parameters;
    struct {
        MBR_CUDA_FUNCTIONS(MBR_HAND_MEMBER)
        MBR_CUDA_FUNCTIONS_OF_TESTS(MBR_HAND_MEMBER)
    } call;
#undef MBR_HAND_MEMBER
    void *library;
    mbr_cuda_device device;
    mbr_cuda_context context;
    uint64_t granule_bytes;
    char text[MBR_HAND_TEXT_BYTES];
} mbr_hand;

/* False: bench->text says why, and nothing is left open. */
bool mbr_hand_open(mbr_bench *bench, mbr_hand *hand);
void mbr_hand_close(mbr_hand *hand);
/* Whether the call succeeded; keeps the first failure in hand->text, and counts the call. */
bool mbr_hand_did(mbr_hand *hand, mbr_cuda_result result, const char *what);
/* Calls of this thread that were counted so far. */
uint64_t mbr_hand_calls(void);
/* Of the device, free now, as the driver says; not counted. */
bool mbr_hand_free_bytes(mbr_hand *hand, uint64_t *bytes);
/* Tells that failure, if there is one. Returns false. */
bool mbr_bench_fail_hand(mbr_bench *bench, const mbr_hand *hand);

/* ---- Physical memory behind addresses */
typedef enum mbr_hand_way {
    MBR_HAND_AT_ONCE, /* create and map each extent, one call gives access to all; one unmaps all */
    MBR_HAND_EACH,    /* extent by extent */
} mbr_hand_way;

bool mbr_hand_reserve(mbr_hand *hand, uint64_t bytes, mbr_cuda_address *address);
bool mbr_hand_unreserve(mbr_hand *hand, mbr_cuda_address address, uint64_t bytes);
/* handles: one an extent. */
bool mbr_hand_commit(mbr_hand *hand, mbr_cuda_address address, uint64_t bytes,
    uint64_t extent_bytes, mbr_hand_way way, mbr_cuda_handle *handles);
/* The same of handles that are there: at once. */
bool mbr_hand_map(mbr_hand *hand, mbr_cuda_address address, uint64_t bytes, uint64_t extent_bytes,
    const mbr_cuda_handle *handles);
bool mbr_hand_decommit(mbr_hand *hand, mbr_cuda_address address, uint64_t bytes,
    uint64_t extent_bytes, mbr_hand_way way, const mbr_cuda_handle *handles);

/* ---- A graph of what `launch` submits to the stream */
bool mbr_hand_capture(mbr_hand *hand, mbr_cuda_stream stream, bool (*launch)(void *context),
    void *context, mbr_cuda_graph_exec *replayed);

/* ---- The driver's own pool: it keeps what is freed */
bool mbr_hand_keep_pool(mbr_hand *hand);
bool mbr_hand_empty_pool(mbr_hand *hand);

#endif
