/* Names of statuses. Decides nothing. */
#include "tools/check/trial.h"

#include <stdio.h>

#define NAMED(status)                                                                              \
    case status:                                                                                   \
        return #status

const char *mbr_status_name(mbr_status status)
{
    static _Thread_local char text[48];
    switch (status) {
        NAMED(MBR_OK);
        NAMED(MBR_INVALID_ARGUMENT);
        NAMED(MBR_UNKNOWN_OBJECT);
        NAMED(MBR_ALREADY_EXISTS);
        NAMED(MBR_MISALIGNED);
        NAMED(MBR_OVERFLOW);
        NAMED(MBR_OUT_OF_RANGE);
        NAMED(MBR_UNKNOWN_KEY);
        NAMED(MBR_STALE);
        NAMED(MBR_IN_USE);
        NAMED(MBR_OUT_OF_MEMORY);
        NAMED(MBR_OUT_OF_ADDRESSES);
        NAMED(MBR_OUT_OF_DESCRIPTORS);
        NAMED(MBR_OUT_OF_MAPPINGS);
        NAMED(MBR_FILE_SIZE_LIMIT);
        NAMED(MBR_OUT_OF_HOST_MEMORY);
        NAMED(MBR_OVER_BUDGET);
        NAMED(MBR_QUEUE_FULL);
        NAMED(MBR_BUSY);
        NAMED(MBR_TIMED_OUT);
        NAMED(MBR_NOT_READY);
        NAMED(MBR_UNSUPPORTED);
        NAMED(MBR_NO_DEVICE);
        NAMED(MBR_VERSION_MISMATCH);
        NAMED(MBR_NOT_A_PLUGIN);
        NAMED(MBR_UNTRUSTED);
        NAMED(MBR_INTERNAL);
        NAMED(MBR_CONTRACT_BROKEN);
        NAMED(MBR_SYSTEM);
        NAMED(MBR_RESIDUAL);
        NAMED(MBR_DEVICE_LOST);
    default:
        snprintf(text, sizeof text, "status %d (class %d)", status, MBR_STATUS_CLASS(status));
        return text;
    }
}
