/* One fault: which call fails, before or after its effect, once or for good. The engine counts the
 * calls of each kind and tells each whether it is the one; it knows neither what a call does nor
 * what comes of it.
 *
 * A kind is a seam: a slot of a plugin, a heap, a call of the operating system. Calls that are made
 * while the engine pauses, or on another thread than the one that began the run, are not counted:
 * their number is not the scenario's. */
#ifndef MEMBRANE_TESTS_FAULTS_FAULT_H
#define MEMBRANE_TESTS_FAULTS_FAULT_H

#include "abi/base/seam.h"
#include "abi/derive/slots.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(kind, name) for each call of a seam that is no slot. */
#define FAULT_HOST_PLUGIN_CALLS(X)                                                                 \
    X(FAULT_OS_MMAP, "os.mmap")                                                                    \
    X(FAULT_OS_MUNMAP, "os.munmap")                                                                \
    X(FAULT_OS_MPROTECT, "os.mprotect")                                                            \
    X(FAULT_OS_MADVISE, "os.madvise")                                                              \
    X(FAULT_OS_FILE_CREATE, "os.file_create")                                                      \
    X(FAULT_OS_FILE_CLOSE, "os.file_close")                                                        \
    X(FAULT_OS_FILE_TRUNCATE, "os.file_truncate")                                                  \
    X(FAULT_OS_FILE_ALLOCATE, "os.file_allocate")                                                  \
    X(FAULT_OS_FILE_OWNED, "os.file_owned")                                                        \
    X(FAULT_OS_FILE_SIZE_LIMIT, "os.file_size_limit")                                              \
    X(FAULT_OS_MEMORY, "os.memory")                                                                \
    X(FAULT_OS_INSPECT, "os.inspect")
/* X(kind, name, whether a failure after the effect is another one) for each function of the CUDA
 * driver that its plugin calls. */
#define FAULT_CUDA_CALLS(X)                                                                        \
    X(FAULT_CUDA_ERROR_NAME, "cuGetErrorName", false)                                              \
    X(FAULT_CUDA_ERROR_STRING, "cuGetErrorString", false)                                          \
    X(FAULT_CUDA_INIT, "cuInit", false)                                                            \
    X(FAULT_CUDA_DRIVER_VERSION, "cuDriverGetVersion", false)                                      \
    X(FAULT_CUDA_DEVICE_COUNT, "cuDeviceGetCount", false)                                          \
    X(FAULT_CUDA_DEVICE_GET, "cuDeviceGet", false)                                                 \
    X(FAULT_CUDA_DEVICE_ATTRIBUTE, "cuDeviceGetAttribute", false)                                  \
    X(FAULT_CUDA_DEVICE_NAME, "cuDeviceGetName", false)                                            \
    X(FAULT_CUDA_DEVICE_UUID, "cuDeviceGetUuid_v2", false)                                         \
    X(FAULT_CUDA_DEVICE_PCI, "cuDeviceGetPCIBusId", false)                                         \
    X(FAULT_CUDA_DEVICE_TOTAL, "cuDeviceTotalMem_v2", false)                                       \
    X(FAULT_CUDA_PRIMARY_RETAIN, "cuDevicePrimaryCtxRetain", true)                                 \
    X(FAULT_CUDA_PRIMARY_RELEASE, "cuDevicePrimaryCtxRelease_v2", true)                            \
    X(FAULT_CUDA_CONTEXT_CURRENT, "cuCtxGetCurrent", false)                                        \
    X(FAULT_CUDA_CONTEXT_PUSH, "cuCtxPushCurrent_v2", true)                                        \
    X(FAULT_CUDA_CONTEXT_POP, "cuCtxPopCurrent_v2", true)                                          \
    X(FAULT_CUDA_CONTEXT_DEVICE, "cuCtxGetDevice", false)                                          \
    X(FAULT_CUDA_MEMORY_INFO, "cuMemGetInfo_v2", false)                                            \
    X(FAULT_CUDA_GRANULARITY, "cuMemGetAllocationGranularity", false)                              \
    X(FAULT_CUDA_ADDRESS_RESERVE, "cuMemAddressReserve", true)                                     \
    X(FAULT_CUDA_ADDRESS_FREE, "cuMemAddressFree", true)                                           \
    X(FAULT_CUDA_HANDLE_CREATE, "cuMemCreate", true)                                               \
    X(FAULT_CUDA_HANDLE_RELEASE, "cuMemRelease", true)                                             \
    X(FAULT_CUDA_MAP, "cuMemMap", true)                                                            \
    X(FAULT_CUDA_UNMAP, "cuMemUnmap", true)                                                        \
    X(FAULT_CUDA_SET_ACCESS, "cuMemSetAccess", true)                                               \
    X(FAULT_CUDA_GET_ACCESS, "cuMemGetAccess", false)                                              \
    X(FAULT_CUDA_DEVICE_ALLOCATE, "cuMemAlloc_v2", true)                                           \
    X(FAULT_CUDA_MANAGED_ALLOCATE, "cuMemAllocManaged", true)                                      \
    X(FAULT_CUDA_ADDRESS_RANGE, "cuMemGetAddressRange_v2", false)                                  \
    X(FAULT_CUDA_DEVICE_FREE, "cuMemFree_v2", true)                                                \
    X(FAULT_CUDA_HOST_ALLOCATE, "cuMemHostAlloc", true)                                            \
    X(FAULT_CUDA_HOST_FREE, "cuMemFreeHost", true)                                                 \
    X(FAULT_CUDA_COPY_ASYNC, "cuMemcpyAsync", true)                                                \
    X(FAULT_CUDA_FILL_ASYNC, "cuMemsetD8Async", true)                                              \
    X(FAULT_CUDA_STREAM_CREATE, "cuStreamCreate", true)                                            \
    X(FAULT_CUDA_STREAM_DESTROY, "cuStreamDestroy_v2", true)                                       \
    X(FAULT_CUDA_STREAM_WAIT, "cuStreamWaitEvent", true)                                           \
    X(FAULT_CUDA_STREAM_CAPTURING, "cuStreamIsCapturing", false)                                   \
    X(FAULT_CUDA_EXCHANGE_CAPTURE_MODE, "cuThreadExchangeStreamCaptureMode", true)                 \
    X(FAULT_CUDA_EVENT_CREATE, "cuEventCreate", true)                                              \
    X(FAULT_CUDA_EVENT_RECORD, "cuEventRecord", true)                                              \
    X(FAULT_CUDA_EVENT_QUERY, "cuEventQuery", false)                                               \
    X(FAULT_CUDA_EVENT_SYNCHRONIZE, "cuEventSynchronize", true)                                    \
    X(FAULT_CUDA_EVENT_DESTROY, "cuEventDestroy_v2", true)
#define FAULT_HOST_CALLS(X)                                                                        \
    X(FAULT_PLUGIN_HEAP, "plugin_heap")                                                            \
    X(FAULT_HEAP, "heap")                                                                          \
    X(FAULT_THREAD, "thread.start")                                                                \
    X(FAULT_LOADER_REALPATH, "loader.realpath")                                                    \
    X(FAULT_LOADER_STAT, "loader.stat")                                                            \
    X(FAULT_LOADER_LSTAT, "loader.lstat")                                                          \
    X(FAULT_LOADER_READLINK, "loader.readlink")                                                    \
    X(FAULT_LOADER_OPEN, "loader.open")                                                            \
    X(FAULT_LOADER_FSTAT, "loader.fstat")                                                          \
    X(FAULT_LOADER_PREAD, "loader.pread")                                                          \
    X(FAULT_LOADER_CLOSE, "loader.close")                                                          \
    X(FAULT_LOADER_OPEN_MAPS, "loader.open_maps")                                                  \
    X(FAULT_SHARED_OPEN, "shared.open")                                                            \
    X(FAULT_SHARED_STAT, "shared.stat")                                                            \
    X(FAULT_SHARED_FIND, "shared.find")                                                            \
    X(FAULT_SHARED_READ, "shared.read")                                                            \
    X(FAULT_SHARED_WRITE, "shared.write")                                                          \
    X(FAULT_SHARED_LOCK, "shared.lock")                                                            \
    X(FAULT_SHARED_IS_LOCKED, "shared.is_locked")                                                  \
    X(FAULT_SHARED_REMOVE, "shared.remove")                                                        \
    X(FAULT_SHARED_CLOSE, "shared.close")
#define FAULT_ALL_SLOTS(X)                                                                         \
    MBR_SLOTS_PLUGIN_VTABLE(X)                                                                     \
    MBR_SLOTS_ALLOCATOR_VTABLE(X)                                                                  \
    MBR_SLOTS_VIRTUAL_VTABLE(X)                                                                    \
    MBR_SLOTS_SHARED_VTABLE(X) MBR_SLOTS_ORDER_VTABLE(X) MBR_SLOTS_TRANSFER_VTABLE(X)

#define FAULT_SLOT(table, slot) FAULT_##table##_##slot
#define FAULT_SLOT_KIND_(table, slot, request, outcome, minor, serial) FAULT_SLOT(table, slot),
#define FAULT_CALL_KIND_(kind, name) kind,
#define FAULT_DRIVER_KIND_(kind, name, has_after) kind,
enum fault_kind {
    FAULT_ALL_SLOTS(FAULT_SLOT_KIND_) FAULT_SLOT_COUNT,
    FAULT_BEFORE_CALLS_ = FAULT_SLOT_COUNT - 1,
    FAULT_HOST_PLUGIN_CALLS(FAULT_CALL_KIND_) FAULT_CUDA_CALLS(FAULT_DRIVER_KIND_)
        FAULT_HOST_CALLS(FAULT_CALL_KIND_) FAULT_KIND_COUNT
};

enum fault_verdict {
    FAULT_NONE,   /* go on */
    FAULT_BEFORE, /* fail and change nothing */
    FAULT_AFTER,  /* do it, and fail all the same */
};

struct fault_plan {
    int kind;
    uint64_t ordinal; /* of the calls of its kind, from 1; 0: none fails */
    bool after;
    bool for_good; /* and every later call of its kind, until it is lifted */
};

#define FAULT_PLAN_COUNT 2 /* faults at once */

/* Begins a run on this thread. */
void fault_begin(const struct fault_plan *plans, uint32_t plan_count);
/* At each call. `has_after`: a failure after the effect is another one than before it. */
enum fault_verdict fault_meet(int kind, bool has_after);
/* Calls are neither counted nor failed meanwhile. May be nested. */
void fault_pause(void);
void fault_resume(void);
/* What lasts is over. */
void fault_lift(void);

uint64_t fault_met_count(void);                          /* calls that failed in this run */
const struct fault_plan *fault_plan_met(uint32_t index); /* NULL: not met */
uint64_t fault_call_count(int kind);                     /* of this run */
/* Whether a failure after its effect is told apart; of calls of this run. */
bool fault_has_after(int kind, uint64_t ordinal);

/* "virtual.map", "os.mmap"; -1: no kind has the name. */
const char *fault_kind_name(int kind);
int fault_kind_find(const char *name);

#ifdef __cplusplus
}
#endif

#endif
