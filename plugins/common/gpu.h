/* The mechanisms of a GPU's driver behind their slots, for drivers with CUDA's shape of interface.
 * An extent is one handle of the driver, a reservation an address range of its, a mapping the whole
 * handle at a place of the range; an allocation is the driver's own; a line's values are events.
 * Nothing is cached, rounded or retried here. The books are those of this folder's other files.
 *
 * A plugin brings a backend: how its library is opened, what its results mean, how a thread gets
 * to the device, and what its driver does otherwise than CUDA's.
 *
 * The calling thread's state is the caller's. A call that needs the device's context or the device
 * to be current makes it so and puts back what was; a call that the driver forbids while any thread
 * captures a graph in the global mode (it would destroy that capture) is made in the relaxed mode,
 * and the mode is put back. What manages virtual memory needs neither. */
#ifndef MEMBRANE_PLUGINS_COMMON_GPU_H
#define MEMBRANE_PLUGINS_COMMON_GPU_H

#include "plugins/common/allocation.h"
#include "plugins/common/gpu_calls.h"
#include "plugins/common/handles.h"
#include "plugins/common/lines.h"
#include "plugins/common/space.h"
#include "plugins/common/transfers.h"

#define MBR_GPU_DEVICE_LIMIT MBR_ANSWER_DEVICE_LIMIT
#define MBR_GPU_MECHANISM_LIMIT (3 * MBR_GPU_DEVICE_LIMIT)

#define MBR_GPU_DECLARE_CALL(member, parameters) mbr_gpu_result(*member) parameters;
struct mbr_gpu_calls {
    MBR_GPU_CALLS(MBR_GPU_DECLARE_CALL)
};
#undef MBR_GPU_DECLARE_CALL

#define MBR_GPU_DECLARE_NAME(member, parameters) const char *member;
struct mbr_gpu_names { /* as the library exports them, for texts */
    MBR_GPU_CALLS(MBR_GPU_DECLARE_NAME)
};
#undef MBR_GPU_DECLARE_NAME

/* What a version of a driver does otherwise than CUDA's; zero is CUDA's. */
struct mbr_gpu_quirks {
    uint64_t granule_least_bytes;   /* what is asked for in smaller pieces works by chance */
    uint64_t extent_max_bytes;      /* 0: the device's memory */
    bool unmaps_single_mappings;    /* one call for several leaves addresses that are not freed */
    bool refuses_access_spuriously; /* a second attempt may be granted */
    bool is_usable_late;            /* not yet when access was granted */
    bool aligns_by_itself;          /* a reservation's alignment is to be 0 */
    bool wants_own_device_last;     /* in a list of accesses */
    bool is_stuck_after_loss;       /* nobody promises that anything is given back then */
};

struct mbr_gpu_backend;

/* Of the process, made once, never changed: two instances cannot tell each other apart by it. */
struct mbr_gpu_driver {
    const struct mbr_gpu_backend *backend;
    struct mbr_gpu_calls call;
    struct mbr_gpu_names name;
    struct mbr_gpu_quirks quirks;
    bool has_no_virtual; /* whatever the devices say */
    uint32_t device_count;
    bool has_virtual[MBR_GPU_DEVICE_LIMIT];
    uint64_t total_bytes[MBR_GPU_DEVICE_LIMIT];
    uint32_t described_count;
    mbr_mechanism_description described[MBR_GPU_MECHANISM_LIMIT];
};

struct mbr_instance {
    struct mbr_objects objects; /* first */
    /* Fixed from open to close. */
    const struct mbr_gpu_driver *driver;
    uint32_t domain; /* MBR_DOMAIN_… */
    mbr_gpu_device device;
    void *context;    /* the backend's */
    bool is_retained; /* the context, by this instance */
    uint64_t granule_least_bytes, granule_recommended_bytes;
    /* What a probe found out. */
    bool has_no_aliasing, has_no_read_only;
    bool takes_descriptors; /* one a handle; without one the driver says "out of memory" */
};

/* The calling thread while it is inside and no capture minds. */
struct mbr_gpu_scope {
    bool is_changed; /* by push */
    mbr_gpu_device device_before;
    uint32_t capture_mode; /* of the caller */
};

struct mbr_gpu_class {
    mbr_gpu_result result;
    mbr_status status;
};

struct mbr_gpu_backend {
    const char *vendor; /* for texts */
    uint32_t native_domain, stream_kind, context_kind;
    uint32_t virtual_attribute, unified_attribute;
    const struct mbr_gpu_class *classes; /* up to result 0; what is not named is MBR_SYSTEM */
    /* Opens the library and starts it: sets call, name and quirks of a driver that is else zero. */
    mbr_status (*load)(struct mbr_gpu_driver *driver, mbr_error *error);
    void (*tell)(mbr_gpu_result result, const char **name, const char **text); /* NULL: unknown */
    /* Makes the instance's context or device current; after a failure all is as before. */
    const char *push_name;
    mbr_gpu_result (*push)(const mbr_instance *instance, struct mbr_gpu_scope *scope);
    void (*pop)(const mbr_instance *instance, const struct mbr_gpu_scope *scope);
    /* Of an instance that is being opened. After a failure `give` follows, too. */
    mbr_status (*take)(mbr_instance *instance, mbr_native native, mbr_error *error);
    void (*give)(mbr_instance *instance);
    /* Finds out what no version tells, where there is virtual memory. NULL: there is nothing. */
    mbr_status (*probe)(mbr_instance *instance, mbr_error *error);
};

/* Opens the library and asks for the devices. MBR_NO_DEVICE: no library, or no device;
 * MBR_UNSUPPORTED: a driver that is too old or lacks a function. A failure may be tried again. */
mbr_status mbr_gpu_driver_get(
    const struct mbr_gpu_backend *backend, const struct mbr_gpu_driver **driver, mbr_error *error);

/* The status of a result, with the error of a failure; `call` names the function. */
mbr_status mbr_gpu_answer(const struct mbr_gpu_driver *driver, mbr_gpu_result result,
    const char *call, uint64_t bytes, mbr_error *error);

/* The same failure under another status, where the call tells more than its result. */
mbr_status mbr_gpu_rename(mbr_status status, mbr_error *error);

mbr_status mbr_gpu_enter(
    const mbr_instance *instance, struct mbr_gpu_scope *scope, mbr_error *error);
/* Puts the caller's state back and answers for the call that was made inside. */
mbr_status mbr_gpu_leave(const mbr_instance *instance, const struct mbr_gpu_scope *scope,
    mbr_gpu_result result, const char *call, uint64_t bytes, mbr_error *error);

/* The calling thread's capture mode alone: relaxed between the two, *mode is the caller's. */
mbr_status mbr_gpu_relax(const struct mbr_gpu_driver *driver, uint32_t *mode, mbr_error *error);
void mbr_gpu_unrelax(const struct mbr_gpu_driver *driver, uint32_t mode);

/* What a failed call left at an address, from a look at it. */
static inline enum mbr_end mbr_gpu_end_of_look(mbr_gpu_result look)
{
    return look == MBR_GPU_SUCCESS                                   ? MBR_END_THERE
        : look == MBR_GPU_INVALID_VALUE || look == MBR_GPU_NOT_FOUND ? MBR_END_GONE
                                                                     : MBR_END_UNKNOWN;
}

/* What every handle of the instance is made with. */
struct mbr_gpu_properties mbr_gpu_properties_of(const mbr_instance *instance);

/* The lowest one that is free; without one -1, and errno says why. */
int mbr_gpu_lowest_descriptor(void);

/* Sets the granules of a device with virtual memory. MBR_INVALID_ARGUMENT: no extent is as large as
 * the granule that was asked for. */
mbr_status mbr_gpu_read_granules(mbr_instance *instance, mbr_error *error);

/* The slots of a plugin's table; of `mechanisms` and `open` with the backend in front, and the heap
 * of the instance, which is copied. */
mbr_status mbr_gpu_mechanisms(const struct mbr_gpu_backend *backend,
    const mbr_mechanisms_request *request, mbr_mechanism_description *outcome, mbr_error *error);
mbr_status mbr_gpu_open(const struct mbr_gpu_backend *backend, const mbr_heap *heap,
    const mbr_open_request *raw, mbr_open_outcome *outcome, mbr_error *error);
mbr_status mbr_gpu_slot_capability(mbr_instance *instance, const mbr_capability_request *raw,
    mbr_capability_outcome *outcome, mbr_error *error);
mbr_status mbr_gpu_slot_close(
    mbr_instance *instance, const mbr_close_request *raw, mbr_outcome *outcome, mbr_error *error);

extern const mbr_allocator_vtable mbr_gpu_allocator;
extern const mbr_virtual_vtable mbr_gpu_virtual;
extern const mbr_shared_vtable mbr_gpu_shared;
extern const mbr_order_vtable mbr_gpu_order;
extern const mbr_transfer_vtable mbr_gpu_transfer;
extern const struct mbr_allocation_port mbr_gpu_allocation_port;
extern const struct mbr_line_port mbr_gpu_line_port;
extern const struct mbr_space_port mbr_gpu_space_port;
extern const struct mbr_handle_port mbr_gpu_handle_port;
extern const struct mbr_transfer_port mbr_gpu_transfer_port;

#endif
