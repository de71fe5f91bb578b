/* Codes of the CUDA front end, their names and texts, and the search for functions. */
#include "tests/standin/cuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static const mbr_cuda_result codes[SIM_STATUS_COUNT] = {
    [SIM_OK] = MBR_CUDA_SUCCESS,
    [SIM_INVALID_VALUE] = MBR_CUDA_INVALID_VALUE,
    [SIM_OUT_OF_MEMORY] = MBR_CUDA_OUT_OF_MEMORY,
    [SIM_NOT_INITIALIZED] = MBR_CUDA_NOT_INITIALIZED,
    [SIM_NO_DEVICE] = MBR_CUDA_NO_DEVICE,
    [SIM_INVALID_DEVICE] = MBR_CUDA_INVALID_DEVICE,
    [SIM_INVALID_IMAGE] = STANDIN_INVALID_IMAGE,
    [SIM_INVALID_CONTEXT] = MBR_CUDA_INVALID_CONTEXT,
    [SIM_INVALID_HANDLE] = MBR_CUDA_INVALID_HANDLE,
    [SIM_ILLEGAL_STATE] = STANDIN_ILLEGAL_STATE,
    [SIM_NOT_FOUND] = MBR_CUDA_NOT_FOUND,
    [SIM_NOT_READY] = MBR_CUDA_NOT_READY,
    [SIM_ILLEGAL_ADDRESS] = MBR_CUDA_ILLEGAL_ADDRESS,
    [SIM_CONTEXT_IS_DESTROYED] = MBR_CUDA_CONTEXT_IS_DESTROYED,
    [SIM_HOST_ALREADY_REGISTERED] = STANDIN_HOST_ALREADY_REGISTERED,
    [SIM_HOST_NOT_REGISTERED] = STANDIN_HOST_NOT_REGISTERED,
    [SIM_OPERATING_SYSTEM] = MBR_CUDA_OPERATING_SYSTEM,
    [SIM_NOT_PERMITTED] = MBR_CUDA_NOT_PERMITTED,
    [SIM_NOT_SUPPORTED] = MBR_CUDA_NOT_SUPPORTED,
    [SIM_CAPTURE_UNSUPPORTED] = MBR_CUDA_CAPTURE_UNSUPPORTED,
    [SIM_CAPTURE_INVALIDATED] = MBR_CUDA_CAPTURE_INVALIDATED,
    [SIM_CAPTURE_MERGE] = STANDIN_CAPTURE_MERGE,
    [SIM_CAPTURE_UNJOINED] = STANDIN_CAPTURE_UNJOINED,
    [SIM_CAPTURE_ISOLATION] = MBR_CUDA_CAPTURE_ISOLATION,
    [SIM_CAPTURE_IMPLICIT] = MBR_CUDA_CAPTURE_IMPLICIT,
    [SIM_CAPTURED_EVENT] = MBR_CUDA_CAPTURED_EVENT,
    [SIM_CAPTURE_WRONG_THREAD] = MBR_CUDA_CAPTURE_WRONG_THREAD,
};

mbr_cuda_result cuda_of(int status)
{
    return status >= SIM_RAW ? (mbr_cuda_result)(status - SIM_RAW) : codes[status];
}

int sim_front_code(int status)
{
    return (int)cuda_of(status);
}

static const char *name_of(mbr_cuda_result code)
{
#define NAME(ours, theirs, value)                                                                  \
    if (code == (value) && strncmp(#theirs, "CUDA_", 5) == 0)                                      \
        return #theirs;
    MBR_CUDA_CONSTANTS(NAME)
    STANDIN_CONSTANTS(NAME)
#undef NAME
    return NULL;
}

static int name(mbr_cuda_result code, const char **text)
{
    if (!text)
        return SIM_INVALID_VALUE;
    *text = name_of(code);
    return *text ? SIM_OK : SIM_INVALID_VALUE;
}

mbr_cuda_result cuGetErrorName(mbr_cuda_result code, const char **text)
{
    return CUDA_CALL(cuGetErrorName, SIM_NEEDS_NOTHING, name(code, text));
}

/* The name again: nobody may rely on the driver's words. */
mbr_cuda_result cuGetErrorString(mbr_cuda_result code, const char **text)
{
    return CUDA_CALL(cuGetErrorString, SIM_NEEDS_NOTHING, name(code, text));
}

static void *find_exported(const char *wanted)
{
    static const char *const endings[] = {"_v3", "_v2", ""};
    Dl_info self;
    void *library = dladdr((void *)(uintptr_t)cuda_of, &self)
        ? dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD)
        : NULL;
    void *function = NULL;
    for (size_t i = 0; library && !function && i < sizeof endings / sizeof *endings; i++) {
        char full[128];
        snprintf(full, sizeof full, "%s%s", wanted, endings[i]);
        function = dlsym(library, full);
    }
    if (library)
        dlclose(library);
    return function;
}

/* Virtual memory came with 10.2; what is older is not told apart. */
static bool is_newer(const char *wanted, int version)
{
    return strncmp(wanted, "cuMem", 5) == 0 && version < 10020;
}

static int find(const char *wanted, void **function, int version, uint32_t *found)
{
    if (!wanted || !function)
        return SIM_INVALID_VALUE;
    *function = find_exported(wanted);
    uint32_t how = !*function       ? STANDIN_SYMBOL_NOT_FOUND
        : is_newer(wanted, version) ? STANDIN_SYMBOL_TOO_NEW
                                    : STANDIN_SYMBOL_FOUND;
    if (how != STANDIN_SYMBOL_FOUND)
        *function = NULL;
    if (found)
        *found = how;
    return SIM_OK;
}

mbr_cuda_result cuGetProcAddress_v2(
    const char *wanted, void **function, int version, uint64_t flags, uint32_t *found)
{
    (void)flags;
    return CUDA_CALL(
        cuGetProcAddress_v2, SIM_NEEDS_NOTHING, find(wanted, function, version, found));
}
