/* The CUDA mechanisms behind their slots. Contract, in one paragraph: an extent is one handle of
 * the driver, a reservation an address range of its, a mapping the whole handle at a place of the
 * range; an allocation is the driver's own; a line's values are events. Nothing is cached, rounded
 * or retried here. The books are plugins/common's.
 *
 * The calling thread's state is the caller's. A call that needs a current context pushes the
 * instance's and pops it; a call that the driver forbids while any thread captures a graph in the
 * global mode (it would destroy that capture) is made in the relaxed mode, and the mode is put
 * back. What manages virtual memory needs neither. */
#ifndef MEMBRANE_PLUGINS_CUDA_CORE_H
#define MEMBRANE_PLUGINS_CUDA_CORE_H

#include "plugins/common/allocation.h"
#include "plugins/common/handles.h"
#include "plugins/common/lines.h"
#include "plugins/common/space.h"
#include "plugins/common/transfers.h"
#include "plugins/cuda/driver.h"

#define MBR_CUDA_DEVICE_LIMIT MBR_ANSWER_DEVICE_LIMIT
#define MBR_CUDA_MECHANISM_LIMIT (3 * MBR_CUDA_DEVICE_LIMIT)

/* Of the process, made once, never changed: two instances cannot tell each other apart by it. */
struct mbr_cuda_driver {
    struct mbr_cuda_functions call;
    uint32_t device_count;
    bool has_virtual[MBR_CUDA_DEVICE_LIMIT];
    uint64_t total_bytes[MBR_CUDA_DEVICE_LIMIT];
    uint32_t described_count;
    mbr_mechanism_description described[MBR_CUDA_MECHANISM_LIMIT];
};

/* Opens the driver's library and asks for the devices. MBR_NO_DEVICE: no library, or no device;
 * MBR_UNSUPPORTED: a driver that is too old or lacks a function. A failure may be tried again. */
mbr_status mbr_cuda_driver_get(const struct mbr_cuda_driver **driver, mbr_error *error);

/* The status of a result, with the error of a failure; `call` names the function. */
mbr_status mbr_cuda_answer(const struct mbr_cuda_driver *driver, mbr_cuda_result result,
    const char *call, uint64_t bytes, mbr_error *error);

/* The same failure under another status, where the call tells more than its result. */
mbr_status mbr_cuda_rename(mbr_status status, mbr_error *error);

struct mbr_instance {
    struct mbr_objects objects; /* first */
    /* Fixed from open to close. */
    const struct mbr_cuda_driver *driver;
    uint32_t domain; /* MBR_DOMAIN_… */
    mbr_cuda_device device;
    mbr_cuda_context context;
    bool is_retained; /* the device's primary context, held by this instance */
    uint64_t granule_recommended_bytes;
};

/* The calling thread while it is inside the instance's context and no capture minds. */
struct mbr_cuda_scope {
    bool is_pushed;
    uint32_t capture_mode; /* of the caller */
};
mbr_status mbr_cuda_enter(
    const mbr_instance *instance, struct mbr_cuda_scope *scope, mbr_error *error);
/* Puts the caller's state back and answers for the call that was made inside. */
mbr_status mbr_cuda_leave(const mbr_instance *instance, const struct mbr_cuda_scope *scope,
    mbr_cuda_result result, const char *call, uint64_t bytes, mbr_error *error);

/* What a failed call left at an address, from a look at it. */
static inline enum mbr_end mbr_cuda_end_of_look(mbr_cuda_result look)
{
    return look == MBR_CUDA_SUCCESS                                    ? MBR_END_THERE
        : look == MBR_CUDA_INVALID_VALUE || look == MBR_CUDA_NOT_FOUND ? MBR_END_GONE
                                                                       : MBR_END_UNKNOWN;
}

/* The calling thread's capture mode alone: relaxed between the two, *mode is the caller's. */
mbr_status mbr_cuda_relax(const struct mbr_cuda_driver *driver, uint32_t *mode, mbr_error *error);
void mbr_cuda_unrelax(const struct mbr_cuda_driver *driver, uint32_t mode);

extern const mbr_plugin_vtable mbr_cuda_plugin;
extern const mbr_allocator_vtable mbr_cuda_allocator;
extern const mbr_virtual_vtable mbr_cuda_virtual;
extern const mbr_shared_vtable mbr_cuda_shared;
extern const mbr_order_vtable mbr_cuda_order;
extern const mbr_transfer_vtable mbr_cuda_transfer;
extern const struct mbr_allocation_port mbr_cuda_allocation_port;
extern const struct mbr_space_port mbr_cuda_space_port;
extern const struct mbr_handle_port mbr_cuda_handle_port;
extern const struct mbr_line_port mbr_cuda_line_port;
extern const struct mbr_transfer_port mbr_cuda_transfer_port;

/* Sets the granules of a device with virtual memory. */
mbr_status mbr_cuda_read_granules(mbr_instance *instance, mbr_error *error);

#endif
