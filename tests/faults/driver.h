/* What below_gpu.c has to know of one vendor's driver; driver_DEVICE.c says it. */
#ifndef MEMBRANE_TESTS_FAULTS_DRIVER_H
#define MEMBRANE_TESTS_FAULTS_DRIVER_H

#include "plugins/common/gpu.h"
#include "tests/faults/fault.h"

#include <stdlib.h>

struct fault_call {
    const char *member, *name; /* of the driver's table; as exported */
    int kind;
};

/* Of a FUNCTION(member, name, parameters) of a driver.h. */
#define FAULT_DRIVER_CALL(member, name, parameters) {#member, #name, FAULT_DRIVER(name)},

struct fault_driver {
    const char *library;
    const struct mbr_gpu_backend *backend;
    const struct fault_call *calls;
    size_t call_count;
    const mbr_option *options; /* of every opening */
    uint32_t option_count;
    /* Calls of the test's own. */
    void (*find)(void *library);
    void (*begin)(void); /* after each restart, which has forgotten all */
    mbr_gpu_stream (*stream_create)(void);
};

extern const struct fault_driver fault_driver;

/* Ends the process where the stand-in lacks it. */
void *fault_driver_find(void *library, const char *name);

#define FAULT_DRIVER_NEED(call)                                                                    \
    do {                                                                                           \
        if ((call) != MBR_GPU_SUCCESS)                                                             \
            abort();                                                                               \
    } while (0)

#endif
