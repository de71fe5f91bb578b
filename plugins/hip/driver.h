/* HIP's runtime as far as this project calls it: names, prototypes and constants of our own, so
 * that nothing here needs ROCm to be built. Types and layouts are those that it shares with CUDA
 * (plugins/common/gpu_calls.h). HIP's own names stand beside ours. Source of each: the interface
 * that hip_runtime_api.h of HIP 5.2 to 7.1 publishes, whose numbers did not change since.
 *
 * Facts that hold for all functions:
 *   - Each thread has a current device, at first device 0; there are no contexts to hold.
 *   - Numbers of results are CUDA's where both have one of a name.
 *   - What handles are made with has this layout from 5.3 on, with the same size before: an older
 *     library would misread it in silence.
 *   - hipGetDeviceProperties, hipChooseDevice and hipPointerGetAttributes are never called: their
 *     structs grew behind names that stayed.
 *   - Stream value 0 is the default stream that the others of its device wait for, 2 the calling
 *     thread's own. */
#ifndef MEMBRANE_PLUGINS_HIP_DRIVER_H
#define MEMBRANE_PLUGINS_HIP_DRIVER_H

#include "plugins/common/gpu_calls.h"

#ifdef __cplusplus
extern "C" {
#endif

/* In the order in which they are tried, after the file that the environment names. */
#define MBR_HIP_LIBRARIES "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so"
#define MBR_HIP_LIBRARY_VARIABLE "MEMBRANE_HIP_LIBRARY"

/* As hipRuntimeGetVersion has it; the last five digits are of the build. */
#define MBR_HIP_VERSION(major, minor) ((major)*10000000 + (minor)*100000)

typedef mbr_gpu_result mbr_hip_result; /* hipError_t */
typedef struct mbr_hip_graph_record *mbr_hip_graph;

/* CONSTANT(ours, HIP's, value) */
#define MBR_HIP_CONSTANTS(CONSTANT)                                                                \
    CONSTANT(MBR_HIP_SUCCESS, hipSuccess, 0)                                                       \
    CONSTANT(MBR_HIP_INVALID_VALUE, hipErrorInvalidValue, 1)                                       \
    CONSTANT(MBR_HIP_OUT_OF_MEMORY, hipErrorOutOfMemory, 2)                                        \
    CONSTANT(MBR_HIP_NOT_INITIALIZED, hipErrorNotInitialized, 3)                                   \
    CONSTANT(MBR_HIP_DEINITIALIZED, hipErrorDeinitialized, 4)                                      \
    CONSTANT(MBR_HIP_INVALID_DEVICE_POINTER, hipErrorInvalidDevicePointer, 17)                     \
    CONSTANT(MBR_HIP_INSUFFICIENT_DRIVER, hipErrorInsufficientDriver, 35)                          \
    CONSTANT(MBR_HIP_NO_DEVICE, hipErrorNoDevice, 100)                                             \
    CONSTANT(MBR_HIP_INVALID_DEVICE, hipErrorInvalidDevice, 101)                                   \
    CONSTANT(MBR_HIP_INVALID_CONTEXT, hipErrorInvalidContext, 201)                                 \
    CONSTANT(MBR_HIP_ECC_UNCORRECTABLE, hipErrorECCNotCorrectable, 214)                            \
    CONSTANT(MBR_HIP_PEER_UNSUPPORTED, hipErrorPeerAccessUnsupported, 217)                         \
    CONSTANT(MBR_HIP_OPERATING_SYSTEM, hipErrorOperatingSystem, 304)                               \
    CONSTANT(MBR_HIP_INVALID_HANDLE, hipErrorInvalidHandle, 400)                                   \
    CONSTANT(MBR_HIP_ILLEGAL_STATE, hipErrorIllegalState, 401)                                     \
    CONSTANT(MBR_HIP_NOT_FOUND, hipErrorNotFound, 500)                                             \
    CONSTANT(MBR_HIP_NOT_READY, hipErrorNotReady, 600)                                             \
    CONSTANT(MBR_HIP_ILLEGAL_ADDRESS, hipErrorIllegalAddress, 700)                                 \
    CONSTANT(MBR_HIP_LAUNCH_TIMEOUT, hipErrorLaunchTimeOut, 702)                                   \
    CONSTANT(MBR_HIP_CONTEXT_IS_DESTROYED, hipErrorContextIsDestroyed, 709)                        \
    CONSTANT(MBR_HIP_ASSERT_TRIGGERED, hipErrorAssert, 710)                                        \
    CONSTANT(MBR_HIP_LAUNCH_FAILED, hipErrorLaunchFailure, 719)                                    \
    CONSTANT(MBR_HIP_NOT_SUPPORTED, hipErrorNotSupported, 801)                                     \
    CONSTANT(MBR_HIP_CAPTURE_UNSUPPORTED, hipErrorStreamCaptureUnsupported, 900)                   \
    CONSTANT(MBR_HIP_CAPTURE_INVALIDATED, hipErrorStreamCaptureInvalidated, 901)                   \
    CONSTANT(MBR_HIP_CAPTURE_MERGE, hipErrorStreamCaptureMerge, 902)                               \
    CONSTANT(MBR_HIP_CAPTURE_UNMATCHED, hipErrorStreamCaptureUnmatched, 903)                       \
    CONSTANT(MBR_HIP_CAPTURE_UNJOINED, hipErrorStreamCaptureUnjoined, 904)                         \
    CONSTANT(MBR_HIP_CAPTURE_ISOLATION, hipErrorStreamCaptureIsolation, 905)                       \
    CONSTANT(MBR_HIP_CAPTURE_IMPLICIT, hipErrorStreamCaptureImplicit, 906)                         \
    CONSTANT(MBR_HIP_CAPTURED_EVENT, hipErrorCapturedEvent, 907)                                   \
    CONSTANT(MBR_HIP_CAPTURE_WRONG_THREAD, hipErrorStreamCaptureWrongThread, 908)                  \
    CONSTANT(MBR_HIP_UNKNOWN, hipErrorUnknown, 999)                                                \
    CONSTANT(MBR_HIP_RUNTIME_MEMORY, hipErrorRuntimeMemory, 1052)                                  \
    CONSTANT(MBR_HIP_RUNTIME_OTHER, hipErrorRuntimeOther, 1053)                                    \
    CONSTANT(MBR_HIP_HAS_CONCURRENT_MANAGED_ACCESS, hipDeviceAttributeConcurrentManagedAccess, 9)  \
    CONSTANT(MBR_HIP_HAS_MANAGED_MEMORY, hipDeviceAttributeManagedMemory, 24)                      \
    CONSTANT(MBR_HIP_PROCESSORS, hipDeviceAttributeMultiprocessorCount, 63)                        \
    CONSTANT(MBR_HIP_HAS_UNIFIED_ADDRESSING, hipDeviceAttributeUnifiedAddressing, 85)              \
    CONSTANT(MBR_HIP_HAS_POOLS, hipDeviceAttributeMemoryPoolsSupported, 88)                        \
    CONSTANT(MBR_HIP_HAS_VIRTUAL_MEMORY, hipDeviceAttributeVirtualMemoryManagementSupported, 89)   \
    CONSTANT(MBR_HIP_ALLOCATION_PINNED, hipMemAllocationTypePinned, 1)                             \
    CONSTANT(MBR_HIP_LOCATION_DEVICE, hipMemLocationTypeDevice, 1)                                 \
    CONSTANT(MBR_HIP_ACCESS_NONE, hipMemAccessFlagsProtNone, 0)                                    \
    CONSTANT(MBR_HIP_ACCESS_READ, hipMemAccessFlagsProtRead, 1)                                    \
    CONSTANT(MBR_HIP_ACCESS_READ_WRITE, hipMemAccessFlagsProtReadWrite, 3)                         \
    CONSTANT(MBR_HIP_GRANULARITY_MINIMUM, hipMemAllocationGranularityMinimum, 0)                   \
    CONSTANT(MBR_HIP_GRANULARITY_RECOMMENDED, hipMemAllocationGranularityRecommended, 1)           \
    CONSTANT(MBR_HIP_HOST_PORTABLE, hipHostMallocPortable, 1)                                      \
    CONSTANT(MBR_HIP_HOST_DEVICE_MAP, hipHostMallocMapped, 2)                                      \
    CONSTANT(MBR_HIP_ATTACH_GLOBAL, hipMemAttachGlobal, 1)                                         \
    CONSTANT(MBR_HIP_COPY_BY_ADDRESS, hipMemcpyDefault, 4)                                         \
    CONSTANT(MBR_HIP_STREAM_PER_THREAD, hipStreamPerThread, 2)                                     \
    CONSTANT(MBR_HIP_STREAM_NON_BLOCKING, hipStreamNonBlocking, 1)                                 \
    CONSTANT(MBR_HIP_EVENT_DISABLE_TIMING, hipEventDisableTiming, 2)                               \
    CONSTANT(MBR_HIP_CAPTURE_MODE_GLOBAL, hipStreamCaptureModeGlobal, 0)                           \
    CONSTANT(MBR_HIP_CAPTURE_MODE_THREAD_LOCAL, hipStreamCaptureModeThreadLocal, 1)                \
    CONSTANT(MBR_HIP_CAPTURE_MODE_RELAXED, hipStreamCaptureModeRelaxed, 2)                         \
    CONSTANT(MBR_HIP_CAPTURE_NONE, hipStreamCaptureStatusNone, 0)                                  \
    CONSTANT(MBR_HIP_CAPTURE_ACTIVE, hipStreamCaptureStatusActive, 1)

#define MBR_HIP_DECLARE_CONSTANT(ours, theirs, value) ours = value,
enum mbr_hip_constant { MBR_HIP_CONSTANTS(MBR_HIP_DECLARE_CONSTANT) };
#undef MBR_HIP_DECLARE_CONSTANT

/* FUNCTION(member, name in the library, parameters); each returns mbr_hip_result. What HIP has in
 * common with CUDA, without virtual memory and with it. */
#define MBR_HIP_PLAIN_FUNCTIONS(FUNCTION)                                                          \
    FUNCTION(device_count, hipGetDeviceCount, (int *count))                                        \
    FUNCTION(device_get, hipDeviceGet, (mbr_gpu_device * device, int ordinal))                     \
    FUNCTION(device_attribute, hipDeviceGetAttribute,                                              \
        (int *value, uint32_t attribute, mbr_gpu_device device))                                   \
    FUNCTION(device_name, hipDeviceGetName, (char *name, int room, mbr_gpu_device device))         \
    FUNCTION(device_uuid, hipDeviceGetUuid, (struct mbr_gpu_uuid * uuid, mbr_gpu_device device))   \
    FUNCTION(device_pci, hipDeviceGetPCIBusId, (char *text, int room, mbr_gpu_device device))      \
    FUNCTION(device_total, hipDeviceTotalMem, (size_t * bytes, mbr_gpu_device device))             \
    FUNCTION(memory_info, hipMemGetInfo, (size_t * free_bytes, size_t * total_bytes))              \
    FUNCTION(device_allocate, hipMalloc, (mbr_gpu_address * address, size_t bytes))                \
    FUNCTION(managed_allocate, hipMallocManaged,                                                   \
        (mbr_gpu_address * address, size_t bytes, unsigned flags))                                 \
    FUNCTION(address_range, hipMemGetAddressRange,                                                 \
        (mbr_gpu_address * start, size_t * bytes, mbr_gpu_address address))                        \
    FUNCTION(device_free, hipFree, (mbr_gpu_address address))                                      \
    FUNCTION(host_allocate, hipHostMalloc, (void **address, size_t bytes, unsigned flags))         \
    FUNCTION(host_free, hipHostFree, (void *address))                                              \
    FUNCTION(fill_async, hipMemsetD8Async,                                                         \
        (mbr_gpu_address address, unsigned char value, size_t bytes, mbr_gpu_stream stream))       \
    FUNCTION(stream_create, hipStreamCreateWithFlags, (mbr_gpu_stream * stream, unsigned flags))   \
    FUNCTION(stream_destroy, hipStreamDestroy, (mbr_gpu_stream stream))                            \
    FUNCTION(stream_wait, hipStreamWaitEvent,                                                      \
        (mbr_gpu_stream stream, mbr_gpu_event event, unsigned flags))                              \
    FUNCTION(stream_capturing, hipStreamIsCapturing,                                               \
        (mbr_gpu_stream stream, uint32_t * capture_status))                                        \
    FUNCTION(exchange_capture_mode, hipThreadExchangeStreamCaptureMode, (uint32_t * mode))         \
    FUNCTION(event_create, hipEventCreateWithFlags, (mbr_gpu_event * event, unsigned flags))       \
    FUNCTION(event_record, hipEventRecord, (mbr_gpu_event event, mbr_gpu_stream stream))           \
    FUNCTION(event_query, hipEventQuery, (mbr_gpu_event event))                                    \
    FUNCTION(event_destroy, hipEventDestroy, (mbr_gpu_event event))

#define MBR_HIP_VIRTUAL_FUNCTIONS(FUNCTION)                                                        \
    FUNCTION(granularity, hipMemGetAllocationGranularity,                                          \
        (size_t * bytes, const struct mbr_gpu_properties *properties, uint32_t which))             \
    FUNCTION(address_reserve, hipMemAddressReserve,                                                \
        (mbr_gpu_address * address, size_t bytes, size_t align_bytes, mbr_gpu_address wish,        \
            unsigned long long flags))                                                             \
    FUNCTION(address_free, hipMemAddressFree, (mbr_gpu_address address, size_t bytes))             \
    FUNCTION(handle_create, hipMemCreate,                                                          \
        (mbr_gpu_handle * handle, size_t bytes, const struct mbr_gpu_properties *properties,       \
            unsigned long long flags))                                                             \
    FUNCTION(handle_release, hipMemRelease, (mbr_gpu_handle handle))                               \
    FUNCTION(map, hipMemMap,                                                                       \
        (mbr_gpu_address address, size_t bytes, size_t offset_bytes, mbr_gpu_handle handle,        \
            unsigned long long flags))                                                             \
    FUNCTION(unmap, hipMemUnmap, (mbr_gpu_address address, size_t bytes))                          \
    FUNCTION(set_access, hipMemSetAccess,                                                          \
        (mbr_gpu_address address, size_t bytes, const struct mbr_gpu_access *list, size_t count))  \
    FUNCTION(get_access, hipMemGetAccess,                                                          \
        (unsigned long long *flags, const struct mbr_gpu_location *location,                       \
            mbr_gpu_address address))

/* What it has alone, and what the probes call. */
#define MBR_HIP_OWN_FUNCTIONS(FUNCTION)                                                            \
    FUNCTION(init, hipInit, (unsigned flags))                                                      \
    FUNCTION(runtime_version, hipRuntimeGetVersion, (int *version))                                \
    FUNCTION(get_device, hipGetDevice, (mbr_gpu_device * device))                                  \
    FUNCTION(set_device, hipSetDevice, (mbr_gpu_device device))                                    \
    FUNCTION(copy_async, hipMemcpyAsync,                                                           \
        (mbr_gpu_address to, mbr_gpu_address from, size_t bytes, uint32_t kind,                    \
            mbr_gpu_stream stream))                                                                \
    FUNCTION(stream_synchronize, hipStreamSynchronize, (mbr_gpu_stream stream))

/* What only tests call. */
#define MBR_HIP_FUNCTIONS_OF_TESTS(FUNCTION)                                                       \
    FUNCTION(capture_begin, hipStreamBeginCapture, (mbr_gpu_stream stream, uint32_t mode))         \
    FUNCTION(capture_end, hipStreamEndCapture, (mbr_gpu_stream stream, mbr_hip_graph * graph))     \
    FUNCTION(graph_destroy, hipGraphDestroy, (mbr_hip_graph graph))

/* TEXT(member, name in the library): of a result, never NULL. */
#define MBR_HIP_TEXTS(TEXT)                                                                        \
    TEXT(error_name, hipGetErrorName)                                                              \
    TEXT(error_string, hipGetErrorString)

#define MBR_HIP_DECLARE_MEMBER(member, exported, parameters) mbr_hip_result(*member) parameters;
#define MBR_HIP_DECLARE_TEXT(member, exported) const char *(*member)(mbr_hip_result result);
struct mbr_hip_functions {
    MBR_HIP_PLAIN_FUNCTIONS(MBR_HIP_DECLARE_MEMBER)
    MBR_HIP_VIRTUAL_FUNCTIONS(MBR_HIP_DECLARE_MEMBER)
    MBR_HIP_OWN_FUNCTIONS(MBR_HIP_DECLARE_MEMBER)
    MBR_HIP_TEXTS(MBR_HIP_DECLARE_TEXT)
};
#undef MBR_HIP_DECLARE_MEMBER
#undef MBR_HIP_DECLARE_TEXT

#ifdef __cplusplus
}
#endif

#endif
