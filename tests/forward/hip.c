/* HIP's runtime on an NVIDIA card: a library under the name of HIP's that hands each call to CUDA's
 * driver, so that the HIP plugin runs unmodified where there is no AMD card; over the CUDA stand-in
 * it runs on a processor. For tests alone. It answers as CUDA does, under HIP's numbers: what HIP's
 * own runtime does otherwise is the stand-in's to show.
 *
 * A thread's current device is one of its own here, at first device 0, and that device's primary
 * context is pushed for the calls that want one; it is kept to the end, as HIP keeps it. */
#include "plugins/cuda/driver.h"
#include "tests/standin/hip_exports.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define DEVICE_LIMIT 64
#define VERSION_VARIABLE "FORWARD_HIP_VERSION" /* what to claim to be */

#define MEMBER(member, exported, parameters) mbr_cuda_result(*member) parameters;
static struct {
    MBR_CUDA_FUNCTIONS(MEMBER)
    MBR_CUDA_FUNCTIONS_OF_TESTS(MEMBER)
} cuda;
#undef MEMBER

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool has_cuda; /* its library is open and has all functions */

static pthread_mutex_t context_lock = PTHREAD_MUTEX_INITIALIZER;
static mbr_cuda_context contexts[DEVICE_LIMIT]; /* set once each, read without the lock */

static __thread mbr_gpu_device current_device;

/* ---- CUDA ----------------------------------------------------------------------------------- */

static void open_cuda(void)
{
    void *library = dlopen(MBR_CUDA_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    void *found;
    has_cuda = library != NULL;
#define FIND(member, exported, parameters)                                                         \
    found = library ? dlsym(library, #exported) : NULL;                                            \
    memcpy(&cuda.member, &found, sizeof found);                                                    \
    has_cuda = has_cuda && found;
    MBR_CUDA_FUNCTIONS(FIND)
    MBR_CUDA_FUNCTIONS_OF_TESTS(FIND)
#undef FIND
}

static bool is_open(void)
{
    pthread_once(&once, open_cuda);
    return has_cuda;
}

/* The current device's primary context, retained at its first use. */
static mbr_cuda_result primary_context(mbr_cuda_context *context)
{
    mbr_cuda_context *kept = &contexts[current_device];
    *context = __atomic_load_n(kept, __ATOMIC_ACQUIRE);
    if (*context)
        return MBR_CUDA_SUCCESS;
    pthread_mutex_lock(&context_lock);
    mbr_cuda_result result = MBR_CUDA_SUCCESS;
    *context = *kept;
    if (!*context)
        result = cuda.primary_retain(context, current_device);
    if (result == MBR_CUDA_SUCCESS)
        __atomic_store_n(kept, *context, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&context_lock);
    return result;
}

/* Makes that context current, on top of the caller's own. */
static mbr_cuda_result enter(bool *is_pushed)
{
    mbr_cuda_context wanted, current = NULL;
    *is_pushed = false;
    mbr_cuda_result result = primary_context(&wanted);
    if (result == MBR_CUDA_SUCCESS)
        result = cuda.context_current(&current);
    if (result != MBR_CUDA_SUCCESS || current == wanted)
        return result;
    result = cuda.context_push(wanted);
    *is_pushed = result == MBR_CUDA_SUCCESS;
    return result;
}

static void leave(bool is_pushed)
{
    mbr_cuda_context popped;
    if (is_pushed)
        (void)cuda.context_pop(&popped);
}

/* ---- Numbers -------------------------------------------------------------------------------- */

static const struct {
    mbr_hip_result result;
    const char *name;
} names[] = {
#define NAME(ours, theirs, value) {value, #theirs},
    MBR_HIP_CONSTANTS(NAME)
#undef NAME
};

/* HIP's name of a number, which stands among the constants before those that are no results. */
static const char *name_of(mbr_hip_result result)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].result == result)
            return strncmp(names[i].name, "hipErr", 6) == 0 || result == 0 ? names[i].name : NULL;
    return NULL;
}

/* Most numbers are the same in both; CUDA's others become what HIP has for the like. */
static mbr_hip_result hip_of(mbr_cuda_result result)
{
    switch (result) {
    case MBR_CUDA_STUB_LIBRARY:
        return MBR_HIP_NO_DEVICE;
    case MBR_CUDA_SYSTEM_NOT_READY:
    case MBR_CUDA_SYSTEM_DRIVER_MISMATCH:
    case MBR_CUDA_COMPAT_NOT_SUPPORTED:
        return MBR_HIP_INSUFFICIENT_DRIVER;
    case MBR_CUDA_NVLINK_UNCORRECTABLE:
    case MBR_CUDA_CONTAINED:
    case MBR_CUDA_HARDWARE_STACK_ERROR:
    case MBR_CUDA_ILLEGAL_INSTRUCTION:
    case MBR_CUDA_MISALIGNED_ADDRESS:
    case MBR_CUDA_INVALID_ADDRESS_SPACE:
    case MBR_CUDA_INVALID_PC:
    case MBR_CUDA_TENSOR_MEMORY_LEAK:
    case MBR_CUDA_MPS_CLIENT_TERMINATED:
    case MBR_CUDA_EXTERNAL_DEVICE:
        return MBR_HIP_LAUNCH_FAILED;
    default:
        return name_of(result) ? result : MBR_HIP_UNKNOWN;
    }
}

const char *hipGetErrorName(mbr_hip_result result)
{
    const char *name = name_of(result);
    return name ? name : "hipErrorUnknown";
}

const char *hipGetErrorString(mbr_hip_result result)
{
    return hipGetErrorName(result);
}

static uint32_t attribute_of(uint32_t hip)
{
    switch (hip) {
    case MBR_HIP_HAS_CONCURRENT_MANAGED_ACCESS:
        return MBR_CUDA_HAS_CONCURRENT_MANAGED_ACCESS;
    case MBR_HIP_HAS_MANAGED_MEMORY:
        return MBR_CUDA_HAS_MANAGED_MEMORY;
    case MBR_HIP_PROCESSORS:
        return 16; /* CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT */
    case MBR_HIP_HAS_UNIFIED_ADDRESSING:
        return MBR_CUDA_HAS_UNIFIED_ADDRESSING;
    case MBR_HIP_HAS_POOLS:
        return 115; /* CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED */
    case MBR_HIP_HAS_VIRTUAL_MEMORY:
        return MBR_CUDA_HAS_VIRTUAL_MEMORY;
    default:
        return 0; /* CUDA refuses it */
    }
}

/* ---- Calls ---------------------------------------------------------------------------------- */

/* `call` is CUDA's. Without its library nearly everything is an invalid device, as HIP says. */
#define ANYWHERE(exported, parameters, call)                                                       \
    mbr_hip_result exported parameters                                                             \
    {                                                                                              \
        return is_open() ? hip_of(cuda.call) : MBR_HIP_INVALID_DEVICE;                             \
    }
#define ON_DEVICE(exported, parameters, call)                                                      \
    mbr_hip_result exported parameters                                                             \
    {                                                                                              \
        bool is_pushed;                                                                            \
        if (!is_open())                                                                            \
            return MBR_HIP_INVALID_DEVICE;                                                         \
        mbr_cuda_result result = enter(&is_pushed);                                                \
        if (result == MBR_CUDA_SUCCESS)                                                            \
            result = cuda.call;                                                                    \
        leave(is_pushed);                                                                          \
        return hip_of(result);                                                                     \
    }

mbr_hip_result hipInit(unsigned flags)
{
    mbr_cuda_result result = is_open() ? cuda.init(flags) : MBR_CUDA_NO_DEVICE;
    return result == MBR_CUDA_NO_DEVICE ? MBR_HIP_INVALID_DEVICE : hip_of(result);
}

mbr_hip_result hipRuntimeGetVersion(int *version)
{
    const char *claimed = getenv(VERSION_VARIABLE);
    *version = claimed ? atoi(claimed) : MBR_HIP_VERSION(7, 14);
    return MBR_HIP_SUCCESS;
}

mbr_hip_result hipGetDeviceCount(int *count)
{
    *count = 0;
    mbr_cuda_result result = is_open() ? cuda.device_count(count) : MBR_CUDA_NO_DEVICE;
    return result == MBR_CUDA_SUCCESS && *count == 0 ? MBR_HIP_NO_DEVICE : hip_of(result);
}

mbr_hip_result hipGetDevice(mbr_gpu_device *device)
{
    *device = current_device;
    return is_open() ? MBR_HIP_SUCCESS : MBR_HIP_INVALID_DEVICE;
}

mbr_hip_result hipSetDevice(mbr_gpu_device device)
{
    int count = 0;
    if (!is_open() || cuda.device_count(&count) != MBR_CUDA_SUCCESS || device < 0 ||
        device >= count || device >= DEVICE_LIMIT)
        return MBR_HIP_INVALID_DEVICE;
    current_device = device;
    return MBR_HIP_SUCCESS;
}

ANYWHERE(hipDeviceGet, (mbr_gpu_device * device, int ordinal), device_get(device, ordinal))
ANYWHERE(hipDeviceGetAttribute, (int *value, uint32_t attribute, mbr_gpu_device device),
    device_attribute(value, attribute_of(attribute), device))
ANYWHERE(hipDeviceGetName, (char *name, int room, mbr_gpu_device device),
    device_name(name, room, device))
ANYWHERE(hipDeviceGetUuid, (struct mbr_gpu_uuid * uuid, mbr_gpu_device device),
    device_uuid(uuid, device))
ANYWHERE(hipDeviceGetPCIBusId, (char *text, int room, mbr_gpu_device device),
    device_pci(text, room, device))
ANYWHERE(hipDeviceTotalMem, (size_t * bytes, mbr_gpu_device device), device_total(bytes, device))

/* ---- Virtual memory, which looks at no context ---------------------------------------------- */

ANYWHERE(hipMemGetAllocationGranularity,
    (size_t * bytes, const struct mbr_gpu_properties *properties, uint32_t which),
    granularity(bytes, properties, which))
ANYWHERE(hipMemAddressReserve,
    (mbr_gpu_address * address, size_t bytes, size_t align_bytes, mbr_gpu_address wish,
        unsigned long long flags),
    address_reserve(address, bytes, align_bytes, wish, flags))
ANYWHERE(hipMemAddressFree, (mbr_gpu_address address, size_t bytes), address_free(address, bytes))
ANYWHERE(hipMemCreate,
    (mbr_gpu_handle * handle, size_t bytes, const struct mbr_gpu_properties *properties,
        unsigned long long flags),
    handle_create(handle, bytes, properties, flags))
ANYWHERE(hipMemRelease, (mbr_gpu_handle handle), handle_release(handle))
ANYWHERE(hipMemMap,
    (mbr_gpu_address address, size_t bytes, size_t offset_bytes, mbr_gpu_handle handle,
        unsigned long long flags),
    map(address, bytes, offset_bytes, handle, flags))
ANYWHERE(hipMemUnmap, (mbr_gpu_address address, size_t bytes), unmap(address, bytes))
ANYWHERE(hipMemSetAccess,
    (mbr_gpu_address address, size_t bytes, const struct mbr_gpu_access *list, size_t count),
    set_access(address, bytes, list, count))
ANYWHERE(hipMemGetAccess,
    (unsigned long long *flags, const struct mbr_gpu_location *location, mbr_gpu_address address),
    get_access(flags, location, address))

/* ---- Memory --------------------------------------------------------------------------------- */

ON_DEVICE(
    hipMemGetInfo, (size_t * free_bytes, size_t *total_bytes), memory_info(free_bytes, total_bytes))
ON_DEVICE(hipMalloc, (mbr_gpu_address * address, size_t bytes), device_allocate(address, bytes))
ON_DEVICE(hipMallocManaged, (mbr_gpu_address * address, size_t bytes, unsigned flags),
    managed_allocate(address, bytes, flags))
ON_DEVICE(hipMemGetAddressRange, (mbr_gpu_address * start, size_t *bytes, mbr_gpu_address address),
    address_range(start, bytes, address))
ON_DEVICE(hipFree, (mbr_gpu_address address), device_free(address))
ON_DEVICE(hipHostMalloc, (void **address, size_t bytes, unsigned flags),
    host_allocate(address, bytes, flags))
ON_DEVICE(hipHostFree, (void *address), host_free(address))

/* ---- Work ----------------------------------------------------------------------------------- */

ON_DEVICE(hipMemsetD8Async,
    (mbr_gpu_address address, unsigned char value, size_t bytes, mbr_gpu_stream stream),
    fill_async(address, value, bytes, stream))

/* CUDA always finds the direction by itself. */
ON_DEVICE(hipMemcpyAsync,
    (mbr_gpu_address to, mbr_gpu_address from, size_t bytes, uint32_t kind, mbr_gpu_stream stream),
    copy_async(to, from, bytes, ((void)kind, stream)))
ON_DEVICE(hipStreamCreateWithFlags, (mbr_gpu_stream * stream, unsigned flags),
    stream_create(stream, flags))
ON_DEVICE(hipStreamDestroy, (mbr_gpu_stream stream), stream_destroy(stream))
ON_DEVICE(hipStreamSynchronize, (mbr_gpu_stream stream), stream_synchronize(stream))
ON_DEVICE(hipStreamWaitEvent, (mbr_gpu_stream stream, mbr_gpu_event event, unsigned flags),
    stream_wait(stream, event, flags))
ON_DEVICE(hipStreamIsCapturing, (mbr_gpu_stream stream, uint32_t *status),
    stream_capturing(stream, status))
ANYWHERE(hipThreadExchangeStreamCaptureMode, (uint32_t * mode), exchange_capture_mode(mode))
ON_DEVICE(
    hipEventCreateWithFlags, (mbr_gpu_event * event, unsigned flags), event_create(event, flags))
ON_DEVICE(hipEventRecord, (mbr_gpu_event event, mbr_gpu_stream stream), event_record(event, stream))
ANYWHERE(hipEventQuery, (mbr_gpu_event event), event_query(event))
ANYWHERE(hipEventDestroy, (mbr_gpu_event event), event_destroy(event))
ON_DEVICE(
    hipStreamBeginCapture, (mbr_gpu_stream stream, uint32_t mode), capture_begin(stream, mode))
ON_DEVICE(hipStreamEndCapture, (mbr_gpu_stream stream, mbr_hip_graph *graph),
    capture_end(stream, (mbr_cuda_graph *)graph))
ANYWHERE(hipGraphDestroy, (mbr_hip_graph graph), graph_destroy((mbr_cuda_graph)graph))
