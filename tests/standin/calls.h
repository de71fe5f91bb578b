/* What the stand-in and the contract table have of the CUDA driver beyond what
 * plugins/cuda/driver.h lists for the plugin and its tests; the same form, the same rules. */
#ifndef MEMBRANE_TESTS_STANDIN_CALLS_H
#define MEMBRANE_TESTS_STANDIN_CALLS_H

#include "plugins/cuda/driver.h"

/* CONSTANT(ours, the driver's, value) */
#define STANDIN_CONSTANTS(CONSTANT)                                                                \
    CONSTANT(STANDIN_INVALID_IMAGE, CUDA_ERROR_INVALID_IMAGE, 200)                                 \
    CONSTANT(STANDIN_ILLEGAL_STATE, CUDA_ERROR_ILLEGAL_STATE, 401)                                 \
    CONSTANT(STANDIN_PRIMARY_CONTEXT_ACTIVE, CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, 708)               \
    CONSTANT(STANDIN_HOST_ALREADY_REGISTERED, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, 712)      \
    CONSTANT(STANDIN_HOST_NOT_REGISTERED, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, 713)              \
    CONSTANT(STANDIN_CAPTURE_MERGE, CUDA_ERROR_STREAM_CAPTURE_MERGE, 902)                          \
    CONSTANT(STANDIN_CAPTURE_UNJOINED, CUDA_ERROR_STREAM_CAPTURE_UNJOINED, 904)                    \
    CONSTANT(STANDIN_ATTRIBUTE_MAX_THREADS, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1)          \
    CONSTANT(STANDIN_ATTRIBUTE_WARP, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 10)                            \
    CONSTANT(STANDIN_ATTRIBUTE_PROCESSORS, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 16)           \
    CONSTANT(STANDIN_ATTRIBUTE_MAP_HOST, CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 19)              \
    CONSTANT(STANDIN_ATTRIBUTE_PCI_BUS, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 33)                        \
    CONSTANT(STANDIN_ATTRIBUTE_PCI_DEVICE, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, 34)                  \
    CONSTANT(STANDIN_ATTRIBUTE_PCI_DOMAIN, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, 50)                  \
    CONSTANT(STANDIN_ATTRIBUTE_POOLS, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 115)             \
    CONSTANT(STANDIN_POINTER_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 2)                     \
    CONSTANT(STANDIN_POINTER_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, 9)                      \
    CONSTANT(STANDIN_MEMORY_HOST, CU_MEMORYTYPE_HOST, 1)                                           \
    CONSTANT(STANDIN_MEMORY_DEVICE, CU_MEMORYTYPE_DEVICE, 2)                                       \
    CONSTANT(STANDIN_CAPTURE_STATUS_INVALIDATED, CU_STREAM_CAPTURE_STATUS_INVALIDATED, 2)          \
    CONSTANT(STANDIN_SYMBOL_FOUND, CU_GET_PROC_ADDRESS_SUCCESS, 0)                                 \
    CONSTANT(STANDIN_SYMBOL_NOT_FOUND, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND, 1)                    \
    CONSTANT(STANDIN_SYMBOL_TOO_NEW, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT, 2)

#define STANDIN_DECLARE_CONSTANT(ours, theirs, value) ours = value,
enum standin_constant { STANDIN_CONSTANTS(STANDIN_DECLARE_CONSTANT) };
#undef STANDIN_DECLARE_CONSTANT

typedef struct mbr_cuda_graph_node_record *standin_graph_node;

/* FUNCTION(member, name in the library, parameters) */
#define STANDIN_FUNCTIONS(FUNCTION)                                                                \
    FUNCTION(find_function, cuGetProcAddress_v2,                                                   \
        (const char *name, void **function, int version, uint64_t flags, uint32_t *found))         \
    FUNCTION(device_by_pci, cuDeviceGetByPCIBusId, (mbr_cuda_device * device, const char *text))   \
    FUNCTION(primary_reset, cuDevicePrimaryCtxReset_v2, (mbr_cuda_device device))                  \
    FUNCTION(                                                                                      \
        handle_retain, cuMemRetainAllocationHandle, (mbr_cuda_handle * handle, void *address))     \
    FUNCTION(handle_export, cuMemExportToShareableHandle,                                          \
        (void *shareable, mbr_cuda_handle handle, uint32_t type, unsigned long long flags))        \
    FUNCTION(handle_import, cuMemImportFromShareableHandle,                                        \
        (mbr_cuda_handle * handle, void *shareable, uint32_t type))                                \
    FUNCTION(host_register, cuMemHostRegister_v2, (void *address, size_t bytes, unsigned flags))   \
    FUNCTION(host_unregister, cuMemHostUnregister, (void *address))                                \
    FUNCTION(host_device_address, cuMemHostGetDevicePointer_v2,                                    \
        (mbr_cuda_address * device_address, void *address, unsigned flags))                        \
    FUNCTION(host_flags, cuMemHostGetFlags, (unsigned *flags, void *address))                      \
    FUNCTION(pointer_attribute, cuPointerGetAttribute,                                             \
        (void *value, uint32_t attribute, mbr_cuda_address address))                               \
    FUNCTION(copy, cuMemcpy, (mbr_cuda_address to, mbr_cuda_address from, size_t bytes))           \
    FUNCTION(copy_on_device, cuMemcpyDtoD_v2,                                                      \
        (mbr_cuda_address to, mbr_cuda_address from, size_t bytes))                                \
    FUNCTION(fill16, cuMemsetD16_v2, (mbr_cuda_address address, uint16_t value, size_t count))     \
    FUNCTION(fill32, cuMemsetD32_v2, (mbr_cuda_address address, uint32_t value, size_t count))     \
    FUNCTION(fill32_async, cuMemsetD32Async,                                                       \
        (mbr_cuda_address address, uint32_t value, size_t count, mbr_cuda_stream stream))          \
    FUNCTION(stream_create_priority, cuStreamCreateWithPriority,                                   \
        (mbr_cuda_stream * stream, unsigned flags, int priority))                                  \
    FUNCTION(priority_range, cuCtxGetStreamPriorityRange, (int *least, int *greatest))             \
    FUNCTION(stream_context, cuStreamGetCtx, (mbr_cuda_stream stream, mbr_cuda_context * context)) \
    FUNCTION(event_elapsed, cuEventElapsedTime,                                                    \
        (float *milliseconds, mbr_cuda_event start, mbr_cuda_event end))                           \
    FUNCTION(graph_nodes, cuGraphGetNodes,                                                         \
        (mbr_cuda_graph graph, standin_graph_node * nodes, size_t * count))

#endif
