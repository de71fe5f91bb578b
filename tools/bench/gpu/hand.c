/* Responsible for the driver's calls that baselines are made of. Measures nothing, and pools
 * nothing. */
#include "tools/bench/gpu/hand.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

static _Thread_local uint64_t call_count;
static pthread_mutex_t telling = PTHREAD_MUTEX_INITIALIZER; /* of the first failure */

bool mbr_hand_did(mbr_hand *hand, mbr_cuda_result result, const char *what)
{
    call_count++;
    if (result == MBR_CUDA_SUCCESS)
        return true;
    const char *name = NULL;
    if (hand->call.error_name(result, &name) != MBR_CUDA_SUCCESS)
        name = "an unknown code";
    pthread_mutex_lock(&telling);
    if (hand->text[0] == '\0')
        snprintf(hand->text, sizeof hand->text, "%s: %s (%u)", what, name, result);
    pthread_mutex_unlock(&telling);
    return false;
}

uint64_t mbr_hand_calls(void)
{
    return call_count;
}

bool mbr_hand_free_bytes(mbr_hand *hand, uint64_t *bytes)
{
    size_t free_bytes = 0, total_bytes = 0;
    bool done =
        mbr_hand_did(hand, hand->call.memory_info(&free_bytes, &total_bytes), "cuMemGetInfo");
    call_count--;
    *bytes = free_bytes;
    return done;
}

bool mbr_bench_fail_hand(mbr_bench *bench, const mbr_hand *hand)
{
    return hand->text[0] != '\0' && mbr_bench_fail(bench, "the driver by hand: %s", hand->text);
}

/* ---- Opening */
static bool open_library(mbr_bench *bench, mbr_hand *hand)
{
    hand->library = dlopen(MBR_CUDA_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (hand->library == NULL)
        return mbr_bench_fail(bench, "no driver to compare with: %s", dlerror());
    const char *missing = NULL;
    void *symbol;
#define RESOLVE(member, exported, parameters)                                                      \
    symbol = dlsym(hand->library, #exported);                                                      \
    __builtin_memcpy(&hand->call.member, &symbol, sizeof symbol);                                  \
    if (symbol == NULL)                                                                            \
        missing = #exported;
    MBR_CUDA_FUNCTIONS(RESOLVE)
    MBR_CUDA_FUNCTIONS_OF_TESTS(RESOLVE)
#undef RESOLVE
    if (missing == NULL)
        return true;
    return mbr_bench_fail(bench,
        "%s has no %s, which the baselines call; a newer driver would work", MBR_CUDA_LIBRARY,
        missing);
}

static struct mbr_cuda_properties properties_of(const mbr_hand *hand)
{
    return (struct mbr_cuda_properties){
        .type = MBR_CUDA_ALLOCATION_PINNED, .location = {MBR_CUDA_LOCATION_DEVICE, hand->device}};
}

static bool enter(mbr_hand *hand)
{
    return mbr_hand_did(hand, hand->call.context_set(hand->context), "cuCtxSetCurrent");
}

static bool open_device(mbr_hand *hand)
{
    size_t granule = 0;
    struct mbr_cuda_properties properties = properties_of(hand);
    bool done = mbr_hand_did(hand, hand->call.init(0), "cuInit") &&
        mbr_hand_did(hand, hand->call.device_get(&hand->device, 0), "cuDeviceGet") &&
        mbr_hand_did(hand, hand->call.primary_retain(&hand->context, hand->device),
            "cuDevicePrimaryCtxRetain") &&
        enter(hand) &&
        mbr_hand_did(hand,
            hand->call.granularity(&granule, &properties, MBR_CUDA_GRANULARITY_RECOMMENDED),
            "cuMemGetAllocationGranularity");
    hand->granule_bytes = granule;
    return done;
}

bool mbr_hand_open(mbr_bench *bench, mbr_hand *hand)
{
    *hand = (mbr_hand){0};
    if (open_library(bench, hand) && open_device(hand))
        return true;
    mbr_bench_fail_hand(bench, hand);
    mbr_hand_close(hand);
    return false;
}

void mbr_hand_close(mbr_hand *hand)
{
    if (hand->context != NULL) {
        hand->call.context_set(NULL);
        hand->call.primary_release(hand->device);
    }
    if (hand->library != NULL)
        dlclose(hand->library);
    hand->context = NULL;
    hand->library = NULL;
}

/* ---- Physical memory behind addresses */
bool mbr_hand_reserve(mbr_hand *hand, uint64_t bytes, mbr_cuda_address *address)
{
    return mbr_hand_did(
        hand, hand->call.address_reserve(address, bytes, 0, 0, 0), "cuMemAddressReserve");
}

bool mbr_hand_unreserve(mbr_hand *hand, mbr_cuda_address address, uint64_t bytes)
{
    return mbr_hand_did(hand, hand->call.address_free(address, bytes), "cuMemAddressFree");
}

static bool give_access(mbr_hand *hand, mbr_cuda_address address, uint64_t bytes)
{
    struct mbr_cuda_access access = {
        {MBR_CUDA_LOCATION_DEVICE, hand->device}, MBR_CUDA_ACCESS_READ_WRITE};
    return mbr_hand_did(hand, hand->call.set_access(address, bytes, &access, 1), "cuMemSetAccess");
}

bool mbr_hand_commit(mbr_hand *hand, mbr_cuda_address address, uint64_t bytes,
    uint64_t extent_bytes, mbr_hand_way way, mbr_cuda_handle *handles)
{
    struct mbr_cuda_properties properties = properties_of(hand);
    for (uint64_t i = 0; i < bytes / extent_bytes; i++) {
        mbr_cuda_address at = address + i * extent_bytes;
        if (!mbr_hand_did(hand, hand->call.handle_create(&handles[i], extent_bytes, &properties, 0),
                "cuMemCreate") ||
            !mbr_hand_did(hand, hand->call.map(at, extent_bytes, 0, handles[i], 0), "cuMemMap"))
            return false;
        if (way == MBR_HAND_EACH && !give_access(hand, at, extent_bytes))
            return false;
    }
    return way == MBR_HAND_EACH || give_access(hand, address, bytes);
}

bool mbr_hand_map(mbr_hand *hand, mbr_cuda_address address, uint64_t bytes, uint64_t extent_bytes,
    const mbr_cuda_handle *handles)
{
    for (uint64_t i = 0; i < bytes / extent_bytes; i++)
        if (!mbr_hand_did(hand,
                hand->call.map(address + i * extent_bytes, extent_bytes, 0, handles[i], 0),
                "cuMemMap"))
            return false;
    return give_access(hand, address, bytes);
}

bool mbr_hand_decommit(mbr_hand *hand, mbr_cuda_address address, uint64_t bytes,
    uint64_t extent_bytes, mbr_hand_way way, const mbr_cuda_handle *handles)
{
    if (way == MBR_HAND_AT_ONCE &&
        !mbr_hand_did(hand, hand->call.unmap(address, bytes), "cuMemUnmap"))
        return false;
    for (uint64_t i = 0; i < bytes / extent_bytes; i++) {
        if (way == MBR_HAND_EACH &&
            !mbr_hand_did(
                hand, hand->call.unmap(address + i * extent_bytes, extent_bytes), "cuMemUnmap"))
            return false;
        if (!mbr_hand_did(hand, hand->call.handle_release(handles[i]), "cuMemRelease"))
            return false;
    }
    return true;
}

/* ---- A graph */
bool mbr_hand_capture(mbr_hand *hand, mbr_cuda_stream stream, bool (*launch)(void *context),
    void *context, mbr_cuda_graph_exec *replayed)
{
    mbr_cuda_graph graph;
    if (!mbr_hand_did(hand, hand->call.capture_begin(stream, MBR_CUDA_CAPTURE_MODE_THREAD_LOCAL),
            "cuStreamBeginCapture"))
        return false;
    bool done = launch(context);
    if (!mbr_hand_did(hand, hand->call.capture_end(stream, &graph), "cuStreamEndCapture") || !done)
        return false;
    return mbr_hand_did(
               hand, hand->call.graph_instantiate(replayed, graph, 0), "cuGraphInstantiate") &&
        mbr_hand_did(hand, hand->call.graph_destroy(graph), "cuGraphDestroy");
}

/* ---- The driver's own pool */
bool mbr_hand_keep_pool(mbr_hand *hand)
{
    mbr_cuda_pool pool;
    uint64_t keep_bytes = UINT64_MAX;
    return mbr_hand_did(
               hand, hand->call.default_pool(&pool, hand->device), "cuDeviceGetDefaultMemPool") &&
        mbr_hand_did(hand, hand->call.pool_set(pool, MBR_CUDA_POOL_RELEASE_THRESHOLD, &keep_bytes),
            "cuMemPoolSetAttribute");
}

bool mbr_hand_empty_pool(mbr_hand *hand)
{
    mbr_cuda_pool pool;
    return mbr_hand_did(
               hand, hand->call.default_pool(&pool, hand->device), "cuDeviceGetDefaultMemPool") &&
        mbr_hand_did(hand, hand->call.pool_trim(pool, 0), "cuMemPoolTrimTo");
}
