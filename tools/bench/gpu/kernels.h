/* Kernels on the device, loaded from kernels.ptx, which is part of this program; and words that
 * host and device both see. */
#ifndef MEMBRANE_TOOLS_BENCH_GPU_KERNELS_H
#define MEMBRANE_TOOLS_BENCH_GPU_KERNELS_H

#include "tools/bench/gpu/hand.h"

typedef struct mbr_kernels {
    mbr_cuda_module module;
    mbr_cuda_function spin, store, read_all, write_all, check_all, write_floats, attend;
    /* Pinned; at the same address for host and device. */
    volatile uint32_t *flag;
    volatile uint32_t *seen;
} mbr_kernels;

bool mbr_kernels_open(mbr_hand *hand, mbr_kernels *kernels);
bool mbr_kernels_close(mbr_hand *hand, mbr_kernels *kernels);

/* The stream is busy until the flag is raised. */
bool mbr_kernels_hold(mbr_hand *hand, mbr_kernels *kernels, mbr_cuda_stream stream);
void mbr_kernels_let_go(mbr_kernels *kernels);
/* `seen` becomes `value` behind the stream's work. */
bool mbr_kernels_tell(mbr_hand *hand, mbr_kernels *kernels, mbr_cuda_stream stream, uint32_t value);

bool mbr_kernels_read(mbr_hand *hand, mbr_kernels *kernels, mbr_cuda_address address,
    uint64_t bytes, mbr_cuda_stream stream);
/* Contents that depend on the place from `address` on and on the seed. */
bool mbr_kernels_write(mbr_hand *hand, mbr_kernels *kernels, mbr_cuda_address address,
    uint64_t bytes, uint32_t seed, mbr_cuda_stream stream);
/* Behind the stream's work: `seen` rises by the number of words that differ from that. */
bool mbr_kernels_check(mbr_hand *hand, mbr_kernels *kernels, mbr_cuda_address address,
    uint64_t bytes, uint32_t seed, mbr_cuda_stream stream);

/* ---- Attention: one query a sequence and head, over a paged cache of floats */
#define MBR_ATTEND_DIM 128 /* of a head */

/* As the kernel reads it, in the device's memory. */
struct mbr_attend_job {
    uint64_t query;       /* floats: [sequence][head][dim], times log2(e) / sqrt(dim) */
    uint64_t table;       /* addresses: [sequence][page] */
    uint64_t out;         /* floats: [sequence][head][dim] */
    uint64_t tokens;      /* of each sequence; even */
    uint64_t page_tokens; /* at least 16 */
    uint64_t token_bytes, head_bytes, plane_bytes;
    uint64_t heads, pages, sequences;
};

/* Numbers from -1 to 1 that depend on the place from `address` on and on the seed. */
bool mbr_kernels_write_floats(mbr_hand *hand, mbr_kernels *kernels, mbr_cuda_address address,
    uint64_t bytes, uint32_t seed, mbr_cuda_stream stream);
/* `job` is at `job_address`, too. offset_bytes: from a page to the layer's keys. */
bool mbr_kernels_attend(mbr_hand *hand, mbr_kernels *kernels, const struct mbr_attend_job *job,
    mbr_cuda_address job_address, uint64_t offset_bytes, mbr_cuda_stream stream);

#endif
