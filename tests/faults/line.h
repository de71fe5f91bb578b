/* Streams and lines without threads: work is done when it is submitted, and lines reach their
 * values when somebody waits or the test says so. So one run is like the next. */
#ifndef MEMBRANE_TESTS_FAULTS_LINE_H
#define MEMBRANE_TESTS_FAULTS_LINE_H

#include "membrane/membrane_plugin.h"

#define FAULT_LINE_COUNT 64

struct fault_line {
    uint64_t id, signalled, reached; /* id 0: free */
};

struct fault_device {
    struct fault_line lines[FAULT_LINE_COUNT];
    uint64_t stream_count;
};

/* Their instance is a struct fault_device. */
extern const mbr_order_vtable fault_order;
extern const mbr_transfer_vtable fault_transfer;

void fault_device_run(struct fault_device *device);
uint64_t fault_device_line_count(const struct fault_device *device);

#endif
