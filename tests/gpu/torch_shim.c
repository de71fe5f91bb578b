/* A client of the library in the form that PyTorch's pluggable allocators have: allocation by
 * stream, free by address. One manager, one device, one budget for the whole process; what goes
 * wrong is printed, and an allocation that is refused is NULL, which PyTorch takes for out of
 * memory. */
#include "membrane/membrane.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/types.h>

#define STREAM_LIMIT_COUNT 64
#define EXPORTED __attribute__((visibility("default")))

static struct {
    mbr_manager *manager;
    mbr_plugin_handle plugin;
    mbr_mechanism_handle mechanism;
    mbr_authority_handle authority;
    mbr_holder_handle holder;
    mbr_ep_handle ep;
    mbr_binding_handle binding;
    pthread_mutex_t lock; /* of the streams */
    uint64_t natives[STREAM_LIMIT_COUNT];
    mbr_stream_handle streams[STREAM_LIMIT_COUNT];
    uint32_t stream_count;
} shim = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int tell(const char *what, mbr_status status, const mbr_error *error)
{
    if (status != MBR_OK)
        fprintf(stderr, "membrane: %s: %s\n", what, error->text);
    return status;
}

EXPORTED int membrane_torch_open(const char *plugin, uint64_t limit_bytes);
EXPORTED int membrane_torch_open(const char *plugin, uint64_t limit_bytes)
{
    mbr_error error = {MBR_SIZED(mbr_error)};
    mbr_manager_options options = {MBR_SIZED(mbr_manager_options), .threads = MBR_THREADS_INTERNAL};
    mbr_plugin_open_request open = {
        MBR_SIZED(mbr_plugin_open_request), .flags = MBR_PLUGIN_TRUSTED, .name = plugin};
    mbr_mechanism_open_request mechanism = {MBR_SIZED(mbr_mechanism_open_request)};
    mbr_authority_request authority = {MBR_SIZED(mbr_authority_request), .tier = MBR_TIER_DEVICE,
        .name = "torch", .limit_bytes = limit_bytes};
    mbr_holder_request holder = {MBR_SIZED(mbr_holder_request), .role = MBR_ROLE_ACTIVATION,
        .name = "torch", .allowance_bytes = MBR_NO_ALLOWANCE};
    mbr_ep_request ep = {MBR_SIZED(mbr_ep_request), .name = "torch"};
    mbr_bind_request bind = {MBR_SIZED(mbr_bind_request), .cache_keep_bytes = UINT64_MAX};
    mbr_status status = mbr_manager_create(&options, &shim.manager, &error);
    if (status == MBR_OK)
        status = mbr_manager_open_plugin(shim.manager, &open, &shim.plugin, &error);
    mechanism.plugin = shim.plugin;
    if (status == MBR_OK)
        status = mbr_manager_open_mechanism(shim.manager, &mechanism, &shim.mechanism, &error);
    if (status == MBR_OK)
        status = mbr_manager_create_authority(shim.manager, &authority, &shim.authority, &error);
    holder.authority = shim.authority;
    if (status == MBR_OK)
        status = mbr_manager_create_holder(shim.manager, &holder, &shim.holder, &error);
    ep.mechanism = shim.mechanism;
    if (status == MBR_OK)
        status = mbr_ep_create(shim.manager, &ep, &shim.ep, &error);
    bind.mechanism = shim.mechanism;
    bind.ep = shim.ep;
    bind.authority = shim.authority;
    if (status == MBR_OK)
        status = mbr_manager_bind(shim.manager, &bind, &shim.binding, &error);
    return tell("opening", status, &error);
}

static mbr_status find_stream(uint64_t native, mbr_stream_handle *stream, mbr_error *error)
{
    static _Thread_local uint64_t last_native;
    static _Thread_local mbr_stream_handle
        last; /* streams stay attached: a thread has mostly one */
    mbr_status status = MBR_OK;
    if (last.value != 0 && last_native == native) {
        *stream = last;
        return MBR_OK;
    }
    pthread_mutex_lock(&shim.lock);
    uint32_t place = 0;
    while (place < shim.stream_count && shim.natives[place] != native)
        place++;
    if (place == shim.stream_count && place < STREAM_LIMIT_COUNT) {
        mbr_native value = {MBR_NATIVE_STREAM_CUDA, 0, native};
        status = mbr_ep_attach_stream(shim.manager, shim.ep, value, &shim.streams[place], error);
        shim.natives[place] = native;
        shim.stream_count += status == MBR_OK;
    } else if (place == STREAM_LIMIT_COUNT) {
        status = MBR_OUT_OF_RANGE;
        snprintf(error->text, sizeof error->text, "more than %d streams", STREAM_LIMIT_COUNT);
    }
    if (status == MBR_OK) {
        *stream = last = shim.streams[place];
        last_native = native;
    }
    pthread_mutex_unlock(&shim.lock);
    return status;
}

EXPORTED void *membrane_torch_alloc(ssize_t bytes, int device, void *native);
EXPORTED void *membrane_torch_alloc(ssize_t bytes, int device, void *native)
{
    (void)device;
    mbr_error error = {MBR_SIZED(mbr_error)};
    mbr_alloc_request request = {MBR_SIZED(mbr_alloc_request), .binding = shim.binding,
        .holder = shim.holder, .bytes = bytes <= 0 ? 1 : (uint64_t)bytes};
    mbr_alloc_result result = {MBR_SIZED(mbr_alloc_result)};
    mbr_status status = find_stream((uint64_t)(uintptr_t)native, &request.stream, &error);
    if (status == MBR_OK)
        status = mbr_alloc(shim.manager, &request, &result, &error);
    return tell("allocating", status, &error) == MBR_OK ? (void *)(uintptr_t)result.address : NULL;
}

EXPORTED void membrane_torch_free(void *address, ssize_t bytes, int device, void *native);
EXPORTED void membrane_torch_free(void *address, ssize_t bytes, int device, void *native)
{
    (void)bytes;
    (void)device;
    if (address == NULL)
        return;
    mbr_error error = {MBR_SIZED(mbr_error)};
    mbr_stream_handle stream;
    mbr_status status = find_stream((uint64_t)(uintptr_t)native, &stream, &error);
    mbr_free_request request = {MBR_SIZED(mbr_free_request),
        .address = (uint64_t)(uintptr_t)address, .streams = &stream, .stream_count = 1};
    if (status == MBR_OK)
        status = mbr_free(shim.manager, &request, &error);
    tell("freeing", status, &error);
}

/* figures: queued and released entries, wake-ups of the reaper, state of the context, owned bytes.
 */
EXPORTED int membrane_torch_read(uint64_t figures[5]);
EXPORTED int membrane_torch_read(uint64_t figures[5])
{
    mbr_error error = {MBR_SIZED(mbr_error)};
    mbr_ep_figures ep = {MBR_SIZED(mbr_ep_figures)};
    mbr_mechanism_figures mechanism = {MBR_SIZED(mbr_mechanism_figures)};
    mbr_status status = mbr_ep_read(shim.manager, shim.ep, &ep, &error);
    if (status == MBR_OK)
        status = mbr_manager_read_mechanism(shim.manager, shim.mechanism, &mechanism, &error);
    figures[0] = ep.queued_count;
    figures[1] = ep.released_count;
    figures[2] = ep.wake_count;
    figures[3] = ep.context_state;
    figures[4] = mechanism.owned_bytes;
    return tell("reading", status, &error);
}
