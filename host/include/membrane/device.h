/* A device of a GPU's plugin as an execution provider, for clients that have streams of their own.
 * Nothing here needs the driver's headers or library: the plugin opens that at run time and brings
 * order and copies. Which plugin it is, the name that it was opened by says, and nothing else.
 *
 * From open to close the plugin holds the device's primary context, which is the one that the
 * vendor's runtime and PyTorch use; what is current on a calling thread stays so. Streams of that
 * context are attached, and then name what memory waits for; copies and fills on them are
 * mbr_ep_copy and mbr_ep_fill. Any thread may call, but none the same mbr_device as another at that
 * time.
 *
 *   mbr_device device;
 *   mbr_device_open(manager, plugin, 0, NULL, 0, &device, &error);
 *   mbr_ep_attach_stream(manager, device.ep, mbr_cuda_native(stream), &handle, &error);
 */
#ifndef MEMBRANE_DEVICE_H
#define MEMBRANE_DEVICE_H

#include "membrane/ep.h"
#include "membrane/manager.h"

#include <stdio.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mbr_device {
    mbr_mechanism_handle mechanism; /* the device's own memory, to be bound */
    mbr_ep_handle ep;
} mbr_device;

/* A CUstream or cudaStream_t. NULL is the legacy default stream, which waits for all blocking
 * streams of its context and makes them wait. */
static inline mbr_native mbr_cuda_native(const void *stream)
{
    mbr_native native = {MBR_NATIVE_STREAM_CUDA, 0, 0};
    native.value = (uint64_t)(uintptr_t)stream;
    return native;
}

/* A hipStream_t; NULL as above. */
static inline mbr_native mbr_hip_native(const void *stream)
{
    mbr_native native = {MBR_NATIVE_STREAM_HIP, 0, 0};
    native.value = (uint64_t)(uintptr_t)stream;
    return native;
}

/* Opens the memory of one device, and an EP in whose lines its releases wait.
 *
 * plugin         opened by the name `cuda` or `hip`
 * device_index   the driver's ordinal, of those that it shows to this process
 * peers          peer_count further devices, none twice and not device_index, with the access that
 *                each gets to every range and prefix of the mechanism whenever one grows; may be
 *                NULL for 0
 * device         both handles, the caller's until mbr_device_close; 0 after a failure, which leaves
 *                nothing open
 *
 * MBR_UNKNOWN_OBJECT: there is no such device. MBR_NO_DEVICE: none, or no driver.
 * MBR_UNSUPPORTED: the driver is too old, or peers of memory that is not mapped.
 * MBR_INVALID_ARGUMENT: a list of peers that is none. MBR_DEVICE_LOST: its context is. What a peer
 * cannot reach is refused when a range grows. */
static inline mbr_status mbr_device_open(mbr_manager *manager, mbr_plugin_handle plugin,
    uint32_t device_index, const mbr_access *peers, uint32_t peer_count, mbr_device *device,
    mbr_error *error)
{
    char name[64];
    mbr_mechanism_open_request opening;
    mbr_ep_request request;
    mbr_status status;
    memset(&opening, 0, sizeof opening);
    memset(&request, 0, sizeof request);
    opening.struct_size = (uint32_t)sizeof opening;
    request.struct_size = (uint32_t)sizeof request;
    device->mechanism.value = device->ep.value = 0;
    (void)snprintf(name, sizeof name, "device%u", device_index);
    opening.plugin = plugin;
    opening.mechanism = name;
    opening.peers = peers;
    opening.peer_count = peer_count;
    status = mbr_manager_open_mechanism(manager, &opening, &device->mechanism, error);
    if (status != MBR_OK)
        return status;
    request.name = name;
    request.mechanism = device->mechanism;
    status = mbr_ep_create(manager, &request, &device->ep, error);
    if (status != MBR_OK) {
        (void)mbr_manager_close_mechanism(manager, device->mechanism, NULL);
        device->mechanism.value = 0;
    }
    return status;
}

/* Waits for the EP's releases until deadline_ns, and closes both. MBR_IN_USE while streams or
 * bindings refer to them; MBR_TIMED_OUT: releases wait still; then, and where closing the mechanism
 * fails, it may be called again. Of a lost device it says that its context has ended, as
 * mbr_ep_destroy does. */
static inline mbr_status mbr_device_close(
    mbr_manager *manager, mbr_device *device, uint64_t deadline_ns, mbr_error *error)
{
    mbr_status status = MBR_OK;
    if (device->ep.value != 0)
        status = mbr_ep_destroy(manager, device->ep, deadline_ns, error);
    if (status != MBR_OK)
        return status;
    device->ep.value = 0;
    status = mbr_manager_close_mechanism(manager, device->mechanism, error);
    if (status == MBR_OK)
        device->mechanism.value = 0;
    return status;
}

#ifdef __cplusplus
}
#endif

#endif
