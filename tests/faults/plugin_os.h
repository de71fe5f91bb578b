/* Linux under the host plugin's code, with the engine before each call; keeps what was taken. */
#ifndef MEMBRANE_TESTS_FAULTS_PLUGIN_OS_H
#define MEMBRANE_TESTS_FAULTS_PLUGIN_OS_H

#include "plugins/host/os.h"
#include "tests/faults/hooks.h"

#define FAULT_REGION_COUNT 256

struct fault_region {
    uint64_t address, bytes; /* bytes 0: free */
};

struct fault_os {
    struct mbr_host_os real;
    const struct fault_hooks *hooks;
    struct fault_region regions[FAULT_REGION_COUNT]; /* where the system chose the place */
    int file;                                        /* 0: none */
    uint64_t total_bytes, available_bytes;           /* asked of the system once */
};

void fault_os_init(struct fault_os *os, const struct fault_hooks *hooks, struct mbr_host_os *table);
/* Gives back what was taken and not given back. */
void fault_os_purge(struct fault_os *os);

#endif
