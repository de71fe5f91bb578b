/* Responsible for opening and closing both sides of a row on a GPU. Measures nothing. */
#include "tools/bench/gpu/device.h"

#include <errno.h>
#include <time.h>

#define QUICK_DIVISOR 256
#define QUICK_MIN_BYTES (UINT64_C(2) << 20) /* a granule */
#define LIMIT_SHARE 4 /* of the device's free bytes, three quarters are the budget */

uint64_t mbr_bench_device_bytes(const mbr_bench *bench, uint64_t bytes)
{
    if (!bench->options->quick)
        return bytes;
    return bytes / QUICK_DIVISOR > QUICK_MIN_BYTES ? bytes / QUICK_DIVISOR : QUICK_MIN_BYTES;
}

static bool open_world(
    mbr_bench *bench, const mbr_bench_world_options *asked, mbr_bench_device *device)
{
    size_t free_bytes, total_bytes;
    mbr_hand *hand = &device->hand;
    if (!mbr_hand_did(hand, hand->call.memory_info(&free_bytes, &total_bytes), "cuMemGetInfo"))
        return mbr_bench_fail_hand(bench, hand);
    uint64_t most_bytes = free_bytes - free_bytes / LIMIT_SHARE;
    mbr_bench_world_options options = *asked;
    options.populate = options.on_device = true;
    if (options.limit_bytes > most_bytes)
        options.limit_bytes = most_bytes;
    return mbr_bench_world_open(bench, &options, &device->world);
}

mbr_native mbr_bench_native(const mbr_bench_device *device, mbr_cuda_stream stream)
{
    return (mbr_native){device->stream_kind, 0, (uint64_t)(uintptr_t)stream};
}

/* The plugin's own streams tell of which kind they are. */
static bool learn_kind(mbr_bench *bench, mbr_bench_device *device)
{
    mbr_bench_world *world = &device->world;
    mbr_native own = {0};
    mbr_status status = mbr_ep_create_stream(world->manager, world->ep, &own, &world->error);
    device->stream_kind = own.kind;
    if (status == MBR_OK)
        status = mbr_ep_destroy_stream(world->manager, world->ep, own, &world->error);
    return status == MBR_OK ||
        mbr_bench_fail_status(bench, "a stream of the plugin's own", status, &world->error);
}

static bool attach(mbr_bench *bench, mbr_bench_device *device)
{
    mbr_hand *hand = &device->hand;
    if (!mbr_hand_did(hand, hand->call.stream_create(&device->stream, MBR_CUDA_STREAM_NON_BLOCKING),
            "cuStreamCreate"))
        return mbr_bench_fail_hand(bench, hand);
    mbr_bench_world *world = &device->world;
    mbr_status status = mbr_ep_attach_stream(world->manager, world->ep,
        mbr_bench_native(device, device->stream), &device->attached, &world->error);
    return status == MBR_OK ||
        mbr_bench_fail_status(bench, "attaching a stream", status, &world->error);
}

bool mbr_bench_device_open(mbr_bench *bench, uint64_t keep_bytes, mbr_bench_device *device)
{
    const mbr_bench_world_options options = {.limit_bytes = UINT64_MAX, .keep_bytes = keep_bytes};
    return mbr_bench_device_open_as(bench, &options, device);
}

bool mbr_bench_device_open_as(
    mbr_bench *bench, const mbr_bench_world_options *options, mbr_bench_device *device)
{
    *device = (mbr_bench_device){0};
    if (!mbr_hand_open(bench, &device->hand))
        return false;
    bool done = open_world(bench, options, device);
    if (!done)
        mbr_hand_close(&device->hand);
    else if (!learn_kind(bench, device) || !attach(bench, device))
        done = mbr_bench_device_close(bench, device, false);
    if (!done)
        *device = (mbr_bench_device){0};
    return done;
}

bool mbr_bench_device_rest(uint32_t ms)
{
    struct timespec rest = {ms / 1000, ms % 1000 * 1000000L};
    while (nanosleep(&rest, &rest) != 0)
        if (errno != EINTR)
            return false;
    return true;
}

static uint64_t calls_of(mbr_bench_device *device, mbr_counted whose)
{
    return whose == MBR_COUNT_OURS ? mbr_bench_world_calls(&device->world) : mbr_hand_calls();
}

bool mbr_bench_device_count(mbr_bench_device *device, const mbr_contestant *one, mbr_counted whose,
    uint64_t count, mbr_bench_side *side)
{
    uint64_t before_bytes, after_bytes;
    if (!mbr_hand_free_bytes(&device->hand, &before_bytes) ||
        (one->before != NULL && !one->before(one->context)))
        return false;
    uint64_t begin = calls_of(device, whose);
    if (!one->work(one->context, 0, count != 0 ? count : one->count))
        return false;
    side->calls = calls_of(device, whose) - begin;
    if (!mbr_hand_free_bytes(&device->hand, &after_bytes))
        return false;
    if (whose == MBR_COUNT_OURS)
        side->owned_bytes = mbr_bench_world_owned(&device->world);
    else
        side->owned_bytes = before_bytes > after_bytes ? before_bytes - after_bytes : 0;
    return one->after == NULL || one->after(one->context);
}

bool mbr_bench_device_close(mbr_bench *bench, mbr_bench_device *device, bool done)
{
    mbr_bench_world *world = &device->world;
    if (!done && !mbr_bench_fail_hand(bench, &device->hand))
        mbr_bench_fail_world(bench, "a call of the client", world);
    device->hand.call.context_synchronize();
    if (device->attached.value != 0)
        mbr_ep_detach_stream(world->manager, device->attached, &world->error);
    bool closed = mbr_bench_world_close(bench, world);
    if (device->stream != NULL)
        device->hand.call.stream_destroy(device->stream);
    mbr_hand_close(&device->hand);
    return done && closed;
}
