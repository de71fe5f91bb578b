/* What the rows on a GPU stand on: the client's world over a mechanism of device memory, the driver
 * by hand beside it, and one stream that both use. */
#ifndef MEMBRANE_TOOLS_BENCH_GPU_DEVICE_H
#define MEMBRANE_TOOLS_BENCH_GPU_DEVICE_H

#include "tools/bench/gpu/hand.h"
#include "tools/bench/ranges.h"
#include "tools/bench/rounds.h"
#include "tools/bench/world.h"

typedef struct mbr_bench_device {
    mbr_hand hand;
    mbr_bench_world world;
    mbr_cuda_stream stream;
    mbr_stream_handle attached;
    uint32_t stream_kind; /* as the plugin has it: another's runtime may hand its calls to CUDA */
} mbr_bench_device;

/* False: bench->text says why, and nothing is left open. keep_bytes: of the cache. The budget is
 * three quarters of what is free. */
bool mbr_bench_device_open(mbr_bench *bench, uint64_t keep_bytes, mbr_bench_device *device);
/* limit_bytes: at most that; populate and on_device are set. */
bool mbr_bench_device_open_as(
    mbr_bench *bench, const mbr_bench_world_options *options, mbr_bench_device *device);
/* Tells a failure of either side first. False: something failed. */
bool mbr_bench_device_close(mbr_bench *bench, mbr_bench_device *device, bool done);

/* A stream of the driver's as the plugin takes it. */
mbr_native mbr_bench_native(const mbr_bench_device *device, mbr_cuda_stream stream);

/* One more round of a contestant of one thread, with what stands around it, counted: slots of the
 * plugin and the bytes it owns after the work; or, by hand, calls of the driver, and the bytes that
 * the device has less after the work than before. count: operations; 0: as in the rounds. */
typedef enum mbr_counted {
    MBR_COUNT_OURS = 0,
    MBR_COUNT_BY_HAND,
} mbr_counted;
bool mbr_bench_device_count(mbr_bench_device *device, const mbr_contestant *one, mbr_counted whose,
    uint64_t count, mbr_bench_side *side);

/* What the driver clears behind a bulk release is done afterwards, beside which copies and kernels
 * are slower. For 64 GiB it has taken less than 700 ms. */
#define MBR_BENCH_REST_MS 700
bool mbr_bench_device_rest(uint32_t ms);

/* A row of a quick run is a 256th of its size. */
uint64_t mbr_bench_device_bytes(const mbr_bench *bench, uint64_t bytes);

#endif
