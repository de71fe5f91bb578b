/* HIP's library: opening it, finding its functions, what its version and its results mean, and a
 * thread's way to a device and back. Never closes the library. */
#include "plugins/hip/backend.h"

#include "abi/base/error.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct mbr_hip_functions hip; /* written once, before there is an instance */

const struct mbr_hip_functions *mbr_hip(void)
{
    return &hip;
}

#define COUNT(member, exported, parameters) +1
#define COPY_COUNT 1
_Static_assert(sizeof(struct mbr_gpu_calls) / sizeof(void (*)(void)) ==
        MBR_HIP_PLAIN_FUNCTIONS(COUNT) MBR_HIP_VIRTUAL_FUNCTIONS(COUNT) + COPY_COUNT,
    "each of the shared functions is listed");
#undef COPY_COUNT
#undef COUNT

#define SAME(name, value) _Static_assert((int)MBR_HIP_##name == (value), "HIP's " #name);
MBR_GPU_CONSTANTS(SAME)
#undef SAME

/* ---- Results -------------------------------------------------------------------------------- */

static const struct mbr_gpu_class classes[] = {
    {MBR_HIP_OUT_OF_MEMORY, MBR_OUT_OF_MEMORY},
    {MBR_HIP_RUNTIME_MEMORY, MBR_OUT_OF_MEMORY},
    {MBR_HIP_INVALID_HANDLE, MBR_INVALID_ARGUMENT},       /* the caller's stream */
    {MBR_HIP_CONTEXT_IS_DESTROYED, MBR_INVALID_ARGUMENT}, /* its answer for one that is none */
    {MBR_HIP_NO_DEVICE, MBR_NO_DEVICE},
    {MBR_HIP_INSUFFICIENT_DRIVER, MBR_UNSUPPORTED},
    {MBR_HIP_INVALID_DEVICE, MBR_UNSUPPORTED}, /* of an access: a peer that cannot reach it */
    {MBR_HIP_PEER_UNSUPPORTED, MBR_UNSUPPORTED},
    {MBR_HIP_NOT_SUPPORTED, MBR_UNSUPPORTED},
    {MBR_HIP_NOT_READY, MBR_NOT_READY},
    {MBR_HIP_CAPTURE_UNSUPPORTED, MBR_BUSY},
    {MBR_HIP_CAPTURE_INVALIDATED, MBR_BUSY},
    {MBR_HIP_CAPTURE_UNMATCHED, MBR_BUSY},
    {MBR_HIP_CAPTURE_ISOLATION, MBR_BUSY},
    {MBR_HIP_CAPTURE_IMPLICIT, MBR_BUSY},
    {MBR_HIP_CAPTURED_EVENT, MBR_BUSY},
    {MBR_HIP_CAPTURE_WRONG_THREAD, MBR_BUSY},
    {MBR_HIP_DEINITIALIZED, MBR_DEVICE_LOST},
    {MBR_HIP_INVALID_CONTEXT, MBR_DEVICE_LOST},
    {MBR_HIP_ECC_UNCORRECTABLE, MBR_DEVICE_LOST},
    {MBR_HIP_ILLEGAL_ADDRESS, MBR_DEVICE_LOST},
    {MBR_HIP_LAUNCH_TIMEOUT, MBR_DEVICE_LOST},
    {MBR_HIP_ASSERT_TRIGGERED, MBR_DEVICE_LOST},
    {MBR_HIP_LAUNCH_FAILED, MBR_DEVICE_LOST},
    {MBR_HIP_SUCCESS, MBR_OK},
};

static void tell(mbr_gpu_result result, const char **name, const char **text)
{
    *name = hip.error_name(result);
    *text = hip.error_string(result);
}

/* ---- The library ---------------------------------------------------------------------------- */

/* The file that is configured, or the first of the usual ones; the error tells of the first. */
static void *open_library(mbr_error *error)
{
    static const char *const usual[] = {MBR_HIP_LIBRARIES};
    const char *configured = secure_getenv(MBR_HIP_LIBRARY_VARIABLE);
    if (configured && !*configured)
        configured = NULL; /* as a name it would be that of the program */
    const char *const *names = configured ? &configured : usual;
    size_t count = configured ? 1 : sizeof usual / sizeof *usual;
    char reason[128] = "";
    for (size_t i = 0; i < count; i++) {
        void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (library)
            return library;
        if (i == 0)
            snprintf(reason, sizeof reason, "%s", dlerror());
    }
    mbr_fail(error, MBR_NO_DEVICE, "no HIP runtime is installed: %s%s", reason,
        configured ? " (" MBR_HIP_LIBRARY_VARIABLE " names it)" : "");
    return NULL;
}

/* The name of the first function that the library lacks and needs, or NULL. */
static const char *find_functions(void *library, bool wants_virtual)
{
    const char *missing = NULL;
    void *found;
#define FIND_IF(needed, member, exported)                                                          \
    found = dlsym(library, #exported);                                                             \
    memcpy(&hip.member, &found, sizeof found);                                                     \
    if (!found && !missing && (needed))                                                            \
        missing = #exported;
#define FIND(member, exported, parameters) FIND_IF(true, member, exported)
#define FIND_VIRTUAL(member, exported, parameters) FIND_IF(wants_virtual, member, exported)
#define FIND_TEXT(member, exported) FIND_IF(true, member, exported)
    MBR_HIP_PLAIN_FUNCTIONS(FIND)
    MBR_HIP_VIRTUAL_FUNCTIONS(FIND_VIRTUAL)
    MBR_HIP_OWN_FUNCTIONS(FIND)
    MBR_HIP_TEXTS(FIND_TEXT)
#undef FIND_TEXT
#undef FIND_VIRTUAL
#undef FIND
#undef FIND_IF
    return missing;
}

static mbr_gpu_result copy_async(
    mbr_gpu_address to, mbr_gpu_address from, size_t bytes, mbr_gpu_stream stream)
{
    return hip.copy_async(to, from, bytes, MBR_HIP_COPY_BY_ADDRESS, stream);
}

static void hand_on(struct mbr_gpu_driver *driver)
{
#define HAND_ON(member, exported, parameters)                                                      \
    driver->call.member = hip.member;                                                              \
    driver->name.member = #exported;
    MBR_HIP_PLAIN_FUNCTIONS(HAND_ON)
    MBR_HIP_VIRTUAL_FUNCTIONS(HAND_ON)
#undef HAND_ON
    driver->call.copy_async = copy_async;
    driver->name.copy_async = "hipMemcpyAsync";
}

/* What AMD's own issues, release notes and tests tell of the versions. */
static struct mbr_gpu_quirks quirks_of(int version)
{
    const uint64_t mebibyte = UINT64_C(1) << 20;
    return (struct mbr_gpu_quirks){
        .granule_least_bytes = 2 * mebibyte, /* up to 7.2 it says 4 KiB */
        .extent_max_bytes = version < MBR_HIP_VERSION(7, 0) ? 2 * mebibyte
            : version < MBR_HIP_VERSION(7, 14)              ? 256 * mebibyte
                                                            : 0,
        .unmaps_single_mappings = true,
        .refuses_access_spuriously = true,
        .is_usable_late = version < MBR_HIP_VERSION(7, 14),
        .aligns_by_itself = true,
        .wants_own_device_last = true,
        .is_stuck_after_loss = true,
    };
}

/* Virtual memory works from 6.1 on (in 6.0 an access is granted in words only); what is older is
 * used without. */
#define VIRTUAL_VERSION_MIN MBR_HIP_VERSION(6, 1)

/* The version says which of the functions are needed. */
static mbr_status read_version(
    void *library, struct mbr_gpu_driver *driver, int *version, mbr_error *error)
{
    const char *missing = find_functions(library, false);
    mbr_gpu_result result = missing ? MBR_HIP_SUCCESS : hip.runtime_version(version);
    if (!missing && result == MBR_HIP_SUCCESS && *version >= VIRTUAL_VERSION_MIN)
        missing = find_functions(library, true);
    if (missing)
        return mbr_fail(error, MBR_UNSUPPORTED, "the HIP runtime lacks %s", missing);
    return mbr_gpu_answer(driver, result, "hipRuntimeGetVersion", 0, error);
}

static mbr_status load(struct mbr_gpu_driver *driver, mbr_error *error)
{
    int version = 0;
    void *library = open_library(error);
    if (!library)
        return MBR_NO_DEVICE;
    mbr_status status = read_version(library, driver, &version, error);
    if (status != MBR_OK)
        return status;
    driver->has_no_virtual = version < VIRTUAL_VERSION_MIN;
    driver->quirks = quirks_of(version);
    hand_on(driver);
    mbr_gpu_result result = hip.init(0);
    status = mbr_gpu_answer(driver, result, "hipInit", 0, error);
    /* Its way to say that it sees no device. */
    return result == MBR_HIP_INVALID_DEVICE ? mbr_gpu_rename(MBR_NO_DEVICE, error) : status;
}

/* ---- The current device --------------------------------------------------------------------- */

/* A second attempt is right whether the first had its effect or not. */
static void set_back(mbr_gpu_device device)
{
    if (hip.set_device(device) != MBR_HIP_SUCCESS)
        (void)hip.set_device(device);
}

static mbr_gpu_result push(const mbr_instance *instance, struct mbr_gpu_scope *scope)
{
    scope->is_changed = false;
    mbr_gpu_result result = hip.get_device(&scope->device_before);
    if (result != MBR_HIP_SUCCESS || scope->device_before == instance->device)
        return result;
    result = hip.set_device(instance->device);
    scope->is_changed = result == MBR_HIP_SUCCESS;
    if (!scope->is_changed)
        set_back(scope->device_before); /* it may have failed after its effect */
    return result;
}

static void pop(const mbr_instance *instance, const struct mbr_gpu_scope *scope)
{
    (void)instance;
    if (scope->is_changed)
        set_back(scope->device_before);
}

/* There is nothing to hold: the runtime keeps a device's context from its first use on. */
static mbr_status take(mbr_instance *instance, mbr_native native, mbr_error *error)
{
    (void)instance, (void)native, (void)error;
    return MBR_OK;
}

static void give(mbr_instance *instance)
{
    (void)instance;
}

const struct mbr_gpu_backend mbr_hip_backend = {
    .vendor = "HIP",
    .native_domain = MBR_NATIVE_HIP,
    .stream_kind = MBR_NATIVE_STREAM_HIP,
    .context_kind = MBR_NATIVE_STREAM_NONE,
    .virtual_attribute = MBR_HIP_HAS_VIRTUAL_MEMORY,
    .unified_attribute = MBR_HIP_HAS_CONCURRENT_MANAGED_ACCESS,
    .classes = classes,
    .load = load,
    .tell = tell,
    .push_name = "hipSetDevice",
    .push = push,
    .pop = pop,
    .take = take,
    .give = give,
    .probe = mbr_hip_probe,
};
