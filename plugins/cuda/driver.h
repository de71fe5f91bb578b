/* The CUDA driver's interface as far as this project calls it: prototypes, types and constants of
 * our own, so that nothing here needs a toolkit to be built. Names follow the house; the driver's
 * own stand beside them, and //plugins/cuda:toolkit_check (manual) holds every line of this file
 * against a toolkit's cuda.h.
 *
 * Facts that hold for all functions:
 *   - The name in the library carries a version (cuMemAlloc_v2); the plain one is an older layout.
 *   - Structs below stand in the driver's ABI, not in ours: they never grow.
 *   - Stream value 0 is the legacy default stream (of the functions without _ptsz in their name),
 *     1 the same by name, 2 the calling thread's own default stream. */
#ifndef MEMBRANE_PLUGINS_CUDA_DRIVER_H
#define MEMBRANE_PLUGINS_CUDA_DRIVER_H

#include "plugins/common/gpu_calls.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MBR_CUDA_LIBRARY "libcuda.so.1"

#define MBR_CUDA_STREAM_PER_THREAD 2 /* CU_STREAM_PER_THREAD: a value, no address */

/* cuDeviceGetUuid_v2 is of 11.4, the mapping of memory by handles of 10.2, and cuDeviceGetAttribute
 * says for each device whether it has it. */
#define MBR_CUDA_VERSION_MIN 11040 /* 1000 * major + 10 * minor, as cuDriverGetVersion has it */

/* ---- Types ---------------------------------------------------------------------------------- */

typedef mbr_gpu_result mbr_cuda_result; /* CUresult */
typedef mbr_gpu_device mbr_cuda_device; /* CUdevice */
typedef mbr_gpu_address mbr_cuda_address;
typedef mbr_gpu_handle mbr_cuda_handle;
typedef struct mbr_cuda_context_record *mbr_cuda_context;
typedef mbr_gpu_stream mbr_cuda_stream;
typedef mbr_gpu_event mbr_cuda_event;
typedef struct mbr_cuda_graph_record *mbr_cuda_graph;
typedef struct mbr_cuda_graph_exec_record *mbr_cuda_graph_exec;
typedef struct mbr_cuda_module_record *mbr_cuda_module;
typedef struct mbr_cuda_function_record *mbr_cuda_function;
typedef struct mbr_cuda_pool_record *mbr_cuda_pool;
typedef void (*mbr_cuda_host_function)(void *argument);

#define mbr_cuda_uuid mbr_gpu_uuid             /* CUuuid */
#define mbr_cuda_location mbr_gpu_location     /* CUmemLocation */
#define mbr_cuda_properties mbr_gpu_properties /* CUmemAllocationProp */
#define mbr_cuda_access mbr_gpu_access         /* CUmemAccessDesc */

/* ---- Constants ------------------------------------------------------------------------------ */

/* CONSTANT(ours, the driver's, value) */
#define MBR_CUDA_CONSTANTS(CONSTANT)                                                               \
    CONSTANT(MBR_CUDA_SUCCESS, CUDA_SUCCESS, 0)                                                    \
    CONSTANT(MBR_CUDA_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE, 1)                                  \
    CONSTANT(MBR_CUDA_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY, 2)                                  \
    CONSTANT(MBR_CUDA_NOT_INITIALIZED, CUDA_ERROR_NOT_INITIALIZED, 3)                              \
    CONSTANT(MBR_CUDA_DEINITIALIZED, CUDA_ERROR_DEINITIALIZED, 4)                                  \
    CONSTANT(MBR_CUDA_STUB_LIBRARY, CUDA_ERROR_STUB_LIBRARY, 34)                                   \
    CONSTANT(MBR_CUDA_DEVICE_UNAVAILABLE, CUDA_ERROR_DEVICE_UNAVAILABLE, 46)                       \
    CONSTANT(MBR_CUDA_NO_DEVICE, CUDA_ERROR_NO_DEVICE, 100)                                        \
    CONSTANT(MBR_CUDA_INVALID_DEVICE, CUDA_ERROR_INVALID_DEVICE, 101)                              \
    CONSTANT(MBR_CUDA_INVALID_CONTEXT, CUDA_ERROR_INVALID_CONTEXT, 201)                            \
    CONSTANT(MBR_CUDA_ECC_UNCORRECTABLE, CUDA_ERROR_ECC_UNCORRECTABLE, 214)                        \
    CONSTANT(MBR_CUDA_NVLINK_UNCORRECTABLE, CUDA_ERROR_NVLINK_UNCORRECTABLE, 220)                  \
    CONSTANT(MBR_CUDA_CONTAINED, CUDA_ERROR_CONTAINED, 226)                                        \
    CONSTANT(MBR_CUDA_OPERATING_SYSTEM, CUDA_ERROR_OPERATING_SYSTEM, 304)                          \
    CONSTANT(MBR_CUDA_INVALID_HANDLE, CUDA_ERROR_INVALID_HANDLE, 400)                              \
    CONSTANT(MBR_CUDA_NOT_FOUND, CUDA_ERROR_NOT_FOUND, 500)                                        \
    CONSTANT(MBR_CUDA_NOT_READY, CUDA_ERROR_NOT_READY, 600)                                        \
    CONSTANT(MBR_CUDA_ILLEGAL_ADDRESS, CUDA_ERROR_ILLEGAL_ADDRESS, 700)                            \
    CONSTANT(MBR_CUDA_LAUNCH_TIMEOUT, CUDA_ERROR_LAUNCH_TIMEOUT, 702)                              \
    CONSTANT(MBR_CUDA_CONTEXT_IS_DESTROYED, CUDA_ERROR_CONTEXT_IS_DESTROYED, 709)                  \
    CONSTANT(MBR_CUDA_ASSERT_TRIGGERED, CUDA_ERROR_ASSERT, 710)                                    \
    CONSTANT(MBR_CUDA_HARDWARE_STACK_ERROR, CUDA_ERROR_HARDWARE_STACK_ERROR, 714)                  \
    CONSTANT(MBR_CUDA_ILLEGAL_INSTRUCTION, CUDA_ERROR_ILLEGAL_INSTRUCTION, 715)                    \
    CONSTANT(MBR_CUDA_MISALIGNED_ADDRESS, CUDA_ERROR_MISALIGNED_ADDRESS, 716)                      \
    CONSTANT(MBR_CUDA_INVALID_ADDRESS_SPACE, CUDA_ERROR_INVALID_ADDRESS_SPACE, 717)                \
    CONSTANT(MBR_CUDA_INVALID_PC, CUDA_ERROR_INVALID_PC, 718)                                      \
    CONSTANT(MBR_CUDA_LAUNCH_FAILED, CUDA_ERROR_LAUNCH_FAILED, 719)                                \
    CONSTANT(MBR_CUDA_TENSOR_MEMORY_LEAK, CUDA_ERROR_TENSOR_MEMORY_LEAK, 721)                      \
    CONSTANT(MBR_CUDA_NOT_PERMITTED, CUDA_ERROR_NOT_PERMITTED, 800)                                \
    CONSTANT(MBR_CUDA_NOT_SUPPORTED, CUDA_ERROR_NOT_SUPPORTED, 801)                                \
    CONSTANT(MBR_CUDA_SYSTEM_NOT_READY, CUDA_ERROR_SYSTEM_NOT_READY, 802)                          \
    CONSTANT(MBR_CUDA_SYSTEM_DRIVER_MISMATCH, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, 803)              \
    CONSTANT(MBR_CUDA_COMPAT_NOT_SUPPORTED, CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, 804)        \
    CONSTANT(MBR_CUDA_MPS_CLIENT_TERMINATED, CUDA_ERROR_MPS_CLIENT_TERMINATED, 810)                \
    CONSTANT(MBR_CUDA_CAPTURE_UNSUPPORTED, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, 900)             \
    CONSTANT(MBR_CUDA_CAPTURE_INVALIDATED, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, 901)             \
    CONSTANT(MBR_CUDA_CAPTURE_UNMATCHED, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, 903)                 \
    CONSTANT(MBR_CUDA_CAPTURE_ISOLATION, CUDA_ERROR_STREAM_CAPTURE_ISOLATION, 905)                 \
    CONSTANT(MBR_CUDA_CAPTURE_IMPLICIT, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, 906)                   \
    CONSTANT(MBR_CUDA_CAPTURED_EVENT, CUDA_ERROR_CAPTURED_EVENT, 907)                              \
    CONSTANT(MBR_CUDA_CAPTURE_WRONG_THREAD, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, 908)           \
    CONSTANT(MBR_CUDA_EXTERNAL_DEVICE, CUDA_ERROR_EXTERNAL_DEVICE, 911)                            \
    CONSTANT(MBR_CUDA_UNKNOWN, CUDA_ERROR_UNKNOWN, 999)                                            \
    CONSTANT(MBR_CUDA_HAS_INTEGRATED_MEMORY, CU_DEVICE_ATTRIBUTE_INTEGRATED, 18)                   \
    CONSTANT(MBR_CUDA_HAS_UNIFIED_ADDRESSING, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 41)          \
    CONSTANT(MBR_CUDA_CAPABILITY_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 75)          \
    CONSTANT(MBR_CUDA_CAPABILITY_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 76)          \
    CONSTANT(MBR_CUDA_HAS_MANAGED_MEMORY, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 83)                  \
    CONSTANT(                                                                                      \
        MBR_CUDA_HAS_CONCURRENT_MANAGED_ACCESS, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 89) \
    CONSTANT(                                                                                      \
        MBR_CUDA_HAS_VIRTUAL_MEMORY, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 102) \
    CONSTANT(MBR_CUDA_HAS_POSIX_EXPORT,                                                            \
        CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 103)                      \
    CONSTANT(MBR_CUDA_HAS_RDMA, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, 110)  \
    CONSTANT(MBR_CUDA_ALLOCATION_PINNED, CU_MEM_ALLOCATION_TYPE_PINNED, 1)                         \
    CONSTANT(MBR_CUDA_LOCATION_DEVICE, CU_MEM_LOCATION_TYPE_DEVICE, 1)                             \
    CONSTANT(MBR_CUDA_HANDLE_NONE, CU_MEM_HANDLE_TYPE_NONE, 0)                                     \
    CONSTANT(MBR_CUDA_HANDLE_POSIX_FD, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 1)                \
    CONSTANT(MBR_CUDA_ACCESS_NONE, CU_MEM_ACCESS_FLAGS_PROT_NONE, 0)                               \
    CONSTANT(MBR_CUDA_ACCESS_READ, CU_MEM_ACCESS_FLAGS_PROT_READ, 1)                               \
    CONSTANT(MBR_CUDA_ACCESS_READ_WRITE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE, 3)                    \
    CONSTANT(MBR_CUDA_GRANULARITY_MINIMUM, CU_MEM_ALLOC_GRANULARITY_MINIMUM, 0)                    \
    CONSTANT(MBR_CUDA_GRANULARITY_RECOMMENDED, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED, 1)            \
    CONSTANT(MBR_CUDA_HOST_PORTABLE, CU_MEMHOSTALLOC_PORTABLE, 1)                                  \
    CONSTANT(MBR_CUDA_HOST_DEVICE_MAP, CU_MEMHOSTALLOC_DEVICEMAP, 2)                               \
    CONSTANT(MBR_CUDA_ATTACH_GLOBAL, CU_MEM_ATTACH_GLOBAL, 1)                                      \
    CONSTANT(MBR_CUDA_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING, 1)                              \
    CONSTANT(MBR_CUDA_EVENT_DISABLE_TIMING, CU_EVENT_DISABLE_TIMING, 2)                            \
    CONSTANT(MBR_CUDA_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_GLOBAL, 0)                       \
    CONSTANT(MBR_CUDA_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, 1)           \
    CONSTANT(MBR_CUDA_CAPTURE_MODE_RELAXED, CU_STREAM_CAPTURE_MODE_RELAXED, 2)                     \
    CONSTANT(MBR_CUDA_POOL_RELEASE_THRESHOLD, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, 4)                \
    CONSTANT(MBR_CUDA_CAPTURE_NONE, CU_STREAM_CAPTURE_STATUS_NONE, 0)                              \
    CONSTANT(MBR_CUDA_CAPTURE_ACTIVE, CU_STREAM_CAPTURE_STATUS_ACTIVE, 1)

#define MBR_CUDA_DECLARE_CONSTANT(ours, theirs, value) ours = value,
enum mbr_cuda_constant { MBR_CUDA_CONSTANTS(MBR_CUDA_DECLARE_CONSTANT) };
#undef MBR_CUDA_DECLARE_CONSTANT

/* ---- Functions ------------------------------------------------------------------------------ */

/* FUNCTION(member, name in the library, parameters); each returns mbr_cuda_result. What the plugin
 * calls: what CUDA has in common with others, and what it has alone. */
#define MBR_CUDA_SHARED_FUNCTIONS(FUNCTION)                                                        \
    FUNCTION(device_count, cuDeviceGetCount, (int *count))                                         \
    FUNCTION(device_get, cuDeviceGet, (mbr_cuda_device * device, int ordinal))                     \
    FUNCTION(device_attribute, cuDeviceGetAttribute,                                               \
        (int *value, uint32_t attribute, mbr_cuda_device device))                                  \
    FUNCTION(device_name, cuDeviceGetName, (char *name, int room, mbr_cuda_device device))         \
    FUNCTION(                                                                                      \
        device_uuid, cuDeviceGetUuid_v2, (struct mbr_cuda_uuid * uuid, mbr_cuda_device device))    \
    FUNCTION(device_pci, cuDeviceGetPCIBusId, (char *text, int room, mbr_cuda_device device))      \
    FUNCTION(device_total, cuDeviceTotalMem_v2, (size_t * bytes, mbr_cuda_device device))          \
    FUNCTION(memory_info, cuMemGetInfo_v2, (size_t * free_bytes, size_t * total_bytes))            \
    FUNCTION(granularity, cuMemGetAllocationGranularity,                                           \
        (size_t * bytes, const struct mbr_cuda_properties *properties, uint32_t which))            \
    FUNCTION(address_reserve, cuMemAddressReserve,                                                 \
        (mbr_cuda_address * address, size_t bytes, size_t align_bytes, mbr_cuda_address wish,      \
            unsigned long long flags))                                                             \
    FUNCTION(address_free, cuMemAddressFree, (mbr_cuda_address address, size_t bytes))             \
    FUNCTION(handle_create, cuMemCreate,                                                           \
        (mbr_cuda_handle * handle, size_t bytes, const struct mbr_cuda_properties *properties,     \
            unsigned long long flags))                                                             \
    FUNCTION(handle_release, cuMemRelease, (mbr_cuda_handle handle))                               \
    FUNCTION(map, cuMemMap,                                                                        \
        (mbr_cuda_address address, size_t bytes, size_t offset_bytes, mbr_cuda_handle handle,      \
            unsigned long long flags))                                                             \
    FUNCTION(unmap, cuMemUnmap, (mbr_cuda_address address, size_t bytes))                          \
    FUNCTION(set_access, cuMemSetAccess,                                                           \
        (mbr_cuda_address address, size_t bytes, const struct mbr_cuda_access *list,               \
            size_t count))                                                                         \
    FUNCTION(get_access, cuMemGetAccess,                                                           \
        (unsigned long long *flags, const struct mbr_cuda_location *location,                      \
            mbr_cuda_address address))                                                             \
    FUNCTION(device_allocate, cuMemAlloc_v2, (mbr_cuda_address * address, size_t bytes))           \
    FUNCTION(managed_allocate, cuMemAllocManaged,                                                  \
        (mbr_cuda_address * address, size_t bytes, unsigned flags))                                \
    FUNCTION(address_range, cuMemGetAddressRange_v2,                                               \
        (mbr_cuda_address * start, size_t * bytes, mbr_cuda_address address))                      \
    FUNCTION(device_free, cuMemFree_v2, (mbr_cuda_address address))                                \
    FUNCTION(host_allocate, cuMemHostAlloc, (void **address, size_t bytes, unsigned flags))        \
    FUNCTION(host_free, cuMemFreeHost, (void *address))                                            \
    FUNCTION(copy_async, cuMemcpyAsync,                                                            \
        (mbr_cuda_address to, mbr_cuda_address from, size_t bytes, mbr_cuda_stream stream))        \
    FUNCTION(fill_async, cuMemsetD8Async,                                                          \
        (mbr_cuda_address address, unsigned char value, size_t bytes, mbr_cuda_stream stream))     \
    FUNCTION(stream_create, cuStreamCreate, (mbr_cuda_stream * stream, unsigned flags))            \
    FUNCTION(stream_destroy, cuStreamDestroy_v2, (mbr_cuda_stream stream))                         \
    FUNCTION(stream_wait, cuStreamWaitEvent,                                                       \
        (mbr_cuda_stream stream, mbr_cuda_event event, unsigned flags))                            \
    FUNCTION(stream_capturing, cuStreamIsCapturing,                                                \
        (mbr_cuda_stream stream, uint32_t * capture_status))                                       \
    FUNCTION(exchange_capture_mode, cuThreadExchangeStreamCaptureMode, (uint32_t * mode))          \
    FUNCTION(event_create, cuEventCreate, (mbr_cuda_event * event, unsigned flags))                \
    FUNCTION(event_record, cuEventRecord, (mbr_cuda_event event, mbr_cuda_stream stream))          \
    FUNCTION(event_query, cuEventQuery, (mbr_cuda_event event))                                    \
    FUNCTION(event_destroy, cuEventDestroy_v2, (mbr_cuda_event event))

#define MBR_CUDA_OWN_FUNCTIONS(FUNCTION)                                                           \
    FUNCTION(error_name, cuGetErrorName, (mbr_cuda_result code, const char **text))                \
    FUNCTION(error_string, cuGetErrorString, (mbr_cuda_result code, const char **text))            \
    FUNCTION(init, cuInit, (unsigned flags))                                                       \
    FUNCTION(driver_version, cuDriverGetVersion, (int *version))                                   \
    FUNCTION(primary_retain, cuDevicePrimaryCtxRetain,                                             \
        (mbr_cuda_context * context, mbr_cuda_device device))                                      \
    FUNCTION(primary_release, cuDevicePrimaryCtxRelease_v2, (mbr_cuda_device device))              \
    FUNCTION(context_current, cuCtxGetCurrent, (mbr_cuda_context * context))                       \
    FUNCTION(context_push, cuCtxPushCurrent_v2, (mbr_cuda_context context))                        \
    FUNCTION(context_pop, cuCtxPopCurrent_v2, (mbr_cuda_context * context))                        \
    FUNCTION(context_device, cuCtxGetDevice, (mbr_cuda_device * device))

#define MBR_CUDA_FUNCTIONS(FUNCTION)                                                               \
    MBR_CUDA_SHARED_FUNCTIONS(FUNCTION)                                                            \
    MBR_CUDA_OWN_FUNCTIONS(FUNCTION)

/* What only tests and measurements call. */
#define MBR_CUDA_FUNCTIONS_OF_TESTS(FUNCTION)                                                      \
    FUNCTION(event_synchronize, cuEventSynchronize, (mbr_cuda_event event))                        \
    FUNCTION(handle_properties, cuMemGetAllocationPropertiesFromHandle,                            \
        (struct mbr_cuda_properties * properties, mbr_cuda_handle handle))                         \
    FUNCTION(context_set, cuCtxSetCurrent, (mbr_cuda_context context))                             \
    FUNCTION(context_synchronize, cuCtxSynchronize, (void))                                        \
    FUNCTION(primary_state, cuDevicePrimaryCtxGetState,                                            \
        (mbr_cuda_device device, unsigned *flags, int *is_active))                                 \
    FUNCTION(can_access_peer, cuDeviceCanAccessPeer,                                               \
        (int *can, mbr_cuda_device device, mbr_cuda_device peer))                                  \
    FUNCTION(                                                                                      \
        copy_to_device, cuMemcpyHtoD_v2, (mbr_cuda_address to, const void *from, size_t bytes))    \
    FUNCTION(copy_to_host, cuMemcpyDtoH_v2, (void *to, mbr_cuda_address from, size_t bytes))       \
    FUNCTION(copy_to_device_async, cuMemcpyHtoDAsync_v2,                                           \
        (mbr_cuda_address to, const void *from, size_t bytes, mbr_cuda_stream stream))             \
    FUNCTION(copy_to_host_async, cuMemcpyDtoHAsync_v2,                                             \
        (void *to, mbr_cuda_address from, size_t bytes, mbr_cuda_stream stream))                   \
    FUNCTION(copy_on_device_async, cuMemcpyDtoDAsync_v2,                                           \
        (mbr_cuda_address to, mbr_cuda_address from, size_t bytes, mbr_cuda_stream stream))        \
    FUNCTION(allocate_async, cuMemAllocAsync,                                                      \
        (mbr_cuda_address * address, size_t bytes, mbr_cuda_stream stream))                        \
    FUNCTION(free_async, cuMemFreeAsync, (mbr_cuda_address address, mbr_cuda_stream stream))       \
    FUNCTION(                                                                                      \
        default_pool, cuDeviceGetDefaultMemPool, (mbr_cuda_pool * pool, mbr_cuda_device device))   \
    FUNCTION(                                                                                      \
        pool_set, cuMemPoolSetAttribute, (mbr_cuda_pool pool, uint32_t attribute, void *value))    \
    FUNCTION(pool_trim, cuMemPoolTrimTo, (mbr_cuda_pool pool, size_t keep_bytes))                  \
    FUNCTION(fill, cuMemsetD8_v2, (mbr_cuda_address address, unsigned char value, size_t bytes))   \
    FUNCTION(stream_query, cuStreamQuery, (mbr_cuda_stream stream))                                \
    FUNCTION(stream_synchronize, cuStreamSynchronize, (mbr_cuda_stream stream))                    \
    FUNCTION(capture_begin, cuStreamBeginCapture_v2, (mbr_cuda_stream stream, uint32_t mode))      \
    FUNCTION(capture_end, cuStreamEndCapture, (mbr_cuda_stream stream, mbr_cuda_graph * graph))    \
    FUNCTION(graph_instantiate, cuGraphInstantiateWithFlags,                                       \
        (mbr_cuda_graph_exec * exec, mbr_cuda_graph graph, unsigned long long flags))              \
    FUNCTION(graph_launch, cuGraphLaunch, (mbr_cuda_graph_exec exec, mbr_cuda_stream stream))      \
    FUNCTION(graph_exec_destroy, cuGraphExecDestroy, (mbr_cuda_graph_exec exec))                   \
    FUNCTION(graph_destroy, cuGraphDestroy, (mbr_cuda_graph graph))                                \
    FUNCTION(module_load, cuModuleLoadData, (mbr_cuda_module * module, const void *image))         \
    FUNCTION(module_unload, cuModuleUnload, (mbr_cuda_module module))                              \
    FUNCTION(module_function, cuModuleGetFunction,                                                 \
        (mbr_cuda_function * function, mbr_cuda_module module, const char *name))                  \
    FUNCTION(launch, cuLaunchKernel,                                                               \
        (mbr_cuda_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,            \
            unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,           \
            mbr_cuda_stream stream, void **arguments, void **extra))                               \
    FUNCTION(launch_host, cuLaunchHostFunc,                                                        \
        (mbr_cuda_stream stream, mbr_cuda_host_function function, void *argument))

/* A table of the functions of one list. */
#define MBR_CUDA_DECLARE_MEMBER(member, exported, parameters) mbr_cuda_result(*member) parameters;
struct mbr_cuda_functions {
    MBR_CUDA_FUNCTIONS(MBR_CUDA_DECLARE_MEMBER)
};
#undef MBR_CUDA_DECLARE_MEMBER

#ifdef __cplusplus
}
#endif

#endif
