/* The driver's library: opening it, finding its functions, what its results mean, and a thread's
 * way into a context and back. Never closes the library: drivers do not bear it. */
#include "plugins/cuda/backend.h"

#include "abi/base/error.h"
#include "plugins/cuda/driver.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <string.h>

static struct mbr_cuda_functions cuda; /* written once, before there is an instance */

#define COUNT(member, exported, parameters) +1
_Static_assert(
    sizeof(struct mbr_gpu_calls) / sizeof(void (*)(void)) == MBR_CUDA_SHARED_FUNCTIONS(COUNT),
    "each of the shared functions is listed");
#undef COUNT

#define SAME(name, value) _Static_assert((int)MBR_CUDA_##name == (value), "CUDA's " #name);
MBR_GPU_CONSTANTS(SAME)
#undef SAME

/* ---- Results -------------------------------------------------------------------------------- */

static const struct mbr_gpu_class classes[] = {
    {MBR_CUDA_OUT_OF_MEMORY, MBR_OUT_OF_MEMORY},
    {MBR_CUDA_INVALID_HANDLE, MBR_INVALID_ARGUMENT}, /* the caller's stream */
    {MBR_CUDA_STUB_LIBRARY, MBR_NO_DEVICE},
    {MBR_CUDA_NO_DEVICE, MBR_NO_DEVICE},
    {MBR_CUDA_INVALID_DEVICE, MBR_UNSUPPORTED}, /* of an access: a peer that cannot reach it */
    {MBR_CUDA_NOT_SUPPORTED, MBR_UNSUPPORTED},
    {MBR_CUDA_SYSTEM_DRIVER_MISMATCH, MBR_UNSUPPORTED},
    {MBR_CUDA_COMPAT_NOT_SUPPORTED, MBR_UNSUPPORTED},
    {MBR_CUDA_NOT_READY, MBR_NOT_READY},
    {MBR_CUDA_SYSTEM_NOT_READY, MBR_NOT_READY},
    {MBR_CUDA_DEVICE_UNAVAILABLE, MBR_BUSY},
    {MBR_CUDA_CAPTURE_UNSUPPORTED, MBR_BUSY},
    {MBR_CUDA_CAPTURE_INVALIDATED, MBR_BUSY},
    {MBR_CUDA_CAPTURE_UNMATCHED, MBR_BUSY},
    {MBR_CUDA_CAPTURE_ISOLATION, MBR_BUSY},
    {MBR_CUDA_CAPTURE_IMPLICIT, MBR_BUSY},
    {MBR_CUDA_CAPTURED_EVENT, MBR_BUSY},
    {MBR_CUDA_CAPTURE_WRONG_THREAD, MBR_BUSY},
    /* Sticky: every later call that looks at the context answers the same, until the process
     * ends. A context that is gone is the same to its user. */
    {MBR_CUDA_DEINITIALIZED, MBR_DEVICE_LOST},
    {MBR_CUDA_INVALID_CONTEXT, MBR_DEVICE_LOST},
    {MBR_CUDA_CONTEXT_IS_DESTROYED, MBR_DEVICE_LOST},
    {MBR_CUDA_ECC_UNCORRECTABLE, MBR_DEVICE_LOST},
    {MBR_CUDA_NVLINK_UNCORRECTABLE, MBR_DEVICE_LOST},
    {MBR_CUDA_CONTAINED, MBR_DEVICE_LOST},
    {MBR_CUDA_ILLEGAL_ADDRESS, MBR_DEVICE_LOST},
    {MBR_CUDA_LAUNCH_TIMEOUT, MBR_DEVICE_LOST},
    {MBR_CUDA_ASSERT_TRIGGERED, MBR_DEVICE_LOST},
    {MBR_CUDA_HARDWARE_STACK_ERROR, MBR_DEVICE_LOST},
    {MBR_CUDA_ILLEGAL_INSTRUCTION, MBR_DEVICE_LOST},
    {MBR_CUDA_MISALIGNED_ADDRESS, MBR_DEVICE_LOST},
    {MBR_CUDA_INVALID_ADDRESS_SPACE, MBR_DEVICE_LOST},
    {MBR_CUDA_INVALID_PC, MBR_DEVICE_LOST},
    {MBR_CUDA_LAUNCH_FAILED, MBR_DEVICE_LOST},
    {MBR_CUDA_TENSOR_MEMORY_LEAK, MBR_DEVICE_LOST},
    {MBR_CUDA_MPS_CLIENT_TERMINATED, MBR_DEVICE_LOST},
    {MBR_CUDA_EXTERNAL_DEVICE, MBR_DEVICE_LOST},
    {MBR_CUDA_SUCCESS, MBR_OK},
};

static void tell(mbr_gpu_result result, const char **name, const char **text)
{
    if (cuda.error_name(result, name) != MBR_CUDA_SUCCESS)
        *name = NULL;
    if (cuda.error_string(result, text) != MBR_CUDA_SUCCESS)
        *text = NULL;
}

/* ---- The library ---------------------------------------------------------------------------- */

/* The name of the first function that the library lacks, or NULL. */
static const char *find_functions(void *library, struct mbr_gpu_driver *driver)
{
    const char *missing = NULL;
    void *found;
#define FIND(member, exported, parameters)                                                         \
    found = dlsym(library, #exported);                                                             \
    memcpy(&cuda.member, &found, sizeof found);                                                    \
    if (!found && !missing)                                                                        \
        missing = #exported;
    MBR_CUDA_FUNCTIONS(FIND)
#undef FIND
#define HAND_ON(member, exported, parameters)                                                      \
    driver->call.member = cuda.member;                                                             \
    driver->name.member = #exported;
    MBR_CUDA_SHARED_FUNCTIONS(HAND_ON)
#undef HAND_ON
    return missing;
}

/* A driver that is too old lacks functions: its version says more than the first one's name. */
static mbr_status check_functions(const char *missing, mbr_error *error)
{
    int version = 0;
    if (!cuda.driver_version || cuda.driver_version(&version) != MBR_CUDA_SUCCESS)
        version = 0;
    if (version != 0 && version < MBR_CUDA_VERSION_MIN)
        return mbr_fail(error, MBR_UNSUPPORTED,
            "the driver behind " MBR_CUDA_LIBRARY " is for CUDA %d.%d; %d.%d or later is needed",
            version / 1000, version % 1000 / 10, MBR_CUDA_VERSION_MIN / 1000,
            MBR_CUDA_VERSION_MIN % 1000 / 10);
    if (missing)
        return mbr_fail(error, MBR_UNSUPPORTED,
            MBR_CUDA_LIBRARY " lacks %s; a driver for CUDA %d.%d or later has it", missing,
            MBR_CUDA_VERSION_MIN / 1000, MBR_CUDA_VERSION_MIN % 1000 / 10);
    return MBR_OK;
}

static mbr_status load(struct mbr_gpu_driver *driver, mbr_error *error)
{
    void *library = dlopen(MBR_CUDA_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        const char *reason = dlerror();
        return mbr_fail(error, MBR_NO_DEVICE, "no CUDA driver is installed: %s",
            reason ? reason : MBR_CUDA_LIBRARY " does not open");
    }
    mbr_status status = check_functions(find_functions(library, driver), error);
    return status == MBR_OK ? mbr_gpu_answer(driver, cuda.init(0), "cuInit", 0, error) : status;
}

/* ---- Contexts ------------------------------------------------------------------------------- */

/* Nothing is pushed where the context is current already. */
static mbr_gpu_result push(const mbr_instance *instance, struct mbr_gpu_scope *scope)
{
    mbr_cuda_context current = NULL, popped;
    scope->is_changed = false;
    mbr_cuda_result result = cuda.context_current(&current);
    if (result != MBR_CUDA_SUCCESS || current == instance->context)
        return result;
    result = cuda.context_push(instance->context);
    scope->is_changed = result == MBR_CUDA_SUCCESS;
    if (!scope->is_changed && cuda.context_current(&current) == MBR_CUDA_SUCCESS &&
        current == instance->context) /* it failed after its effect */
        (void)cuda.context_pop(&popped);
    return result;
}

/* Below what was pushed is another context: while the instance's is current, nothing was popped. */
static void pop(const mbr_instance *instance, const struct mbr_gpu_scope *scope)
{
    mbr_cuda_context current = NULL, popped;
    if (scope->is_changed && cuda.context_pop(&popped) != MBR_CUDA_SUCCESS &&
        cuda.context_current(&current) == MBR_CUDA_SUCCESS && current == instance->context)
        (void)cuda.context_pop(&popped);
}

/* The context that the caller named, which must be of this device, or the device's primary one. */
static mbr_status take(mbr_instance *instance, mbr_native native, mbr_error *error)
{
    mbr_cuda_context context = NULL;
    mbr_cuda_device device = -1;
    struct mbr_gpu_scope scope;
    if (native.kind == MBR_NATIVE_STREAM_NONE) {
        mbr_cuda_result result = cuda.primary_retain(&context, instance->device);
        instance->context = context;
        instance->is_retained = context != NULL; /* also where it failed after that */
        return mbr_gpu_answer(instance->driver, result, "cuDevicePrimaryCtxRetain", 0, error);
    }
    instance->context = (void *)(uintptr_t)native.value;
    if (instance->context && push(instance, &scope) == MBR_CUDA_SUCCESS) {
        if (cuda.context_device(&device) != MBR_CUDA_SUCCESS)
            device = -1;
        pop(instance, &scope);
    }
    if (device == instance->device)
        return MBR_OK;
    return mbr_fail(error, MBR_INVALID_ARGUMENT,
        "native context 0x%" PRIx64 " is none of device %d; kind 0 takes the primary one",
        native.value, instance->device);
}

static void give(mbr_instance *instance)
{
    if (instance->is_retained)
        (void)cuda.primary_release(instance->device);
}

const struct mbr_gpu_backend mbr_cuda_backend = {
    .vendor = "CUDA",
    .native_domain = MBR_NATIVE_CUDA,
    .stream_kind = MBR_NATIVE_STREAM_CUDA,
    .context_kind = MBR_NATIVE_STREAM_CUDA,
    .virtual_attribute = MBR_CUDA_HAS_VIRTUAL_MEMORY,
    .unified_attribute = MBR_CUDA_HAS_CONCURRENT_MANAGED_ACCESS,
    .classes = classes,
    .load = load,
    .tell = tell,
    .push_name = "cuCtxPushCurrent_v2",
    .push = push,
    .pop = pop,
    .take = take,
    .give = give,
};
