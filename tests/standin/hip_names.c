/* Codes of the HIP front end, and their names. */
#include "tests/standin/hip.h"

#include <string.h>

static const mbr_hip_result codes[SIM_STATUS_COUNT] = {
    [SIM_OK] = MBR_HIP_SUCCESS,
    [SIM_INVALID_VALUE] = MBR_HIP_INVALID_VALUE,
    [SIM_OUT_OF_MEMORY] = MBR_HIP_OUT_OF_MEMORY,
    [SIM_NOT_INITIALIZED] = MBR_HIP_NOT_INITIALIZED,
    [SIM_NO_DEVICE] = MBR_HIP_INVALID_DEVICE, /* hipInit's way to say so */
    [SIM_INVALID_DEVICE] = MBR_HIP_INVALID_DEVICE,
    [SIM_INVALID_IMAGE] = MBR_HIP_UNKNOWN,
    [SIM_INVALID_CONTEXT] = MBR_HIP_INVALID_CONTEXT,
    [SIM_INVALID_HANDLE] = MBR_HIP_INVALID_HANDLE,
    [SIM_ILLEGAL_STATE] = MBR_HIP_ILLEGAL_STATE,
    [SIM_NOT_FOUND] = MBR_HIP_NOT_FOUND,
    [SIM_NOT_READY] = MBR_HIP_NOT_READY,
    [SIM_ILLEGAL_ADDRESS] = MBR_HIP_ILLEGAL_ADDRESS,
    [SIM_CONTEXT_IS_DESTROYED] = MBR_HIP_CONTEXT_IS_DESTROYED,
    [SIM_HOST_ALREADY_REGISTERED] = MBR_HIP_UNKNOWN,
    [SIM_HOST_NOT_REGISTERED] = MBR_HIP_UNKNOWN,
    [SIM_OPERATING_SYSTEM] = MBR_HIP_OPERATING_SYSTEM,
    [SIM_NOT_PERMITTED] = MBR_HIP_NOT_SUPPORTED,
    [SIM_NOT_SUPPORTED] = MBR_HIP_NOT_SUPPORTED,
    [SIM_CAPTURE_UNSUPPORTED] = MBR_HIP_CAPTURE_UNSUPPORTED,
    [SIM_CAPTURE_INVALIDATED] = MBR_HIP_CAPTURE_INVALIDATED,
    [SIM_CAPTURE_MERGE] = MBR_HIP_CAPTURE_MERGE,
    [SIM_CAPTURE_UNJOINED] = MBR_HIP_CAPTURE_UNJOINED,
    [SIM_CAPTURE_ISOLATION] = MBR_HIP_CAPTURE_ISOLATION,
    [SIM_CAPTURE_IMPLICIT] = MBR_HIP_CAPTURE_IMPLICIT,
    [SIM_CAPTURED_EVENT] = MBR_HIP_CAPTURED_EVENT,
    [SIM_CAPTURE_WRONG_THREAD] = MBR_HIP_CAPTURE_WRONG_THREAD,
};

mbr_hip_result hip_of(int status)
{
    return status >= SIM_RAW ? (mbr_hip_result)(status - SIM_RAW) : codes[status];
}

int sim_front_code(int status)
{
    return (int)hip_of(status);
}

/* A result's name stands among the constants before those that are none. */
const char *hipGetErrorName(mbr_hip_result result)
{
#define NAME(ours, theirs, value)                                                                  \
    if (result == (value) && (result == 0 || strncmp(#theirs, "hipError", 8) == 0))                \
        return #theirs;
    MBR_HIP_CONSTANTS(NAME)
#undef NAME
    return "hipErrorUnknown";
}

/* The name again: nobody may rely on the runtime's words. */
const char *hipGetErrorString(mbr_hip_result result)
{
    return hipGetErrorName(result);
}
