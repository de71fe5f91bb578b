/* Responsible for the answers of planned faults, which plugin and sweep have to agree on. */
#include "tests/faults/rules.h"

#define FAULT_RULE(table, slot) [FAULT_SLOT(mbr_##table##_vtable, slot)]
const struct fault_rule fault_rules[FAULT_SLOT_COUNT] = {
    FAULT_RULE(plugin, mechanisms) = {MBR_NO_DEVICE, false},
    FAULT_RULE(plugin, open) = {MBR_OUT_OF_DESCRIPTORS, false}, /* it gives back what it took */
    FAULT_RULE(plugin, capability) = {MBR_SYSTEM, false},
    FAULT_RULE(plugin, close) = {MBR_SYSTEM, true},
    FAULT_RULE(plugin, report) = {MBR_SYSTEM, false},
    FAULT_RULE(plugin, quiesce) = {MBR_TIMED_OUT, true},
    FAULT_RULE(allocator, fact) = {MBR_SYSTEM, false},
    FAULT_RULE(allocator, allocate) = {MBR_OUT_OF_MEMORY, true},
    FAULT_RULE(allocator, release) = {MBR_SYSTEM, true},
    FAULT_RULE(allocator, stats) = {MBR_SYSTEM, false},
    FAULT_RULE(allocator, trim) = {MBR_SYSTEM, true},
    FAULT_RULE(virtual, reserve) = {MBR_OUT_OF_ADDRESSES, true},
    FAULT_RULE(virtual, unreserve) = {MBR_SYSTEM, true},
    FAULT_RULE(virtual, extent_create) = {MBR_OUT_OF_MEMORY, true},
    FAULT_RULE(virtual, extent_destroy) = {MBR_SYSTEM, true},
    FAULT_RULE(virtual, map) = {MBR_OUT_OF_MAPPINGS, true},
    FAULT_RULE(virtual, protect) = {MBR_SYSTEM, true},
    FAULT_RULE(virtual, unmap) = {MBR_OUT_OF_MAPPINGS, true},
    FAULT_RULE(virtual, query) = {MBR_SYSTEM, false},
    FAULT_RULE(shared, map_shared) = {MBR_OUT_OF_MAPPINGS, true},
    FAULT_RULE(order, line_open) = {MBR_OUT_OF_DESCRIPTORS, true},
    FAULT_RULE(order, signal) = {MBR_SYSTEM, true},
    FAULT_RULE(order, reached) = {MBR_SYSTEM, false},
    FAULT_RULE(order, wait) = {MBR_SYSTEM, true},
    FAULT_RULE(order, stream_wait) = {MBR_SYSTEM, true},
    FAULT_RULE(order, line_close) = {MBR_SYSTEM, true},
    FAULT_RULE(transfer, stream_create) = {MBR_OUT_OF_DESCRIPTORS, false},
    FAULT_RULE(transfer, stream_destroy) = {MBR_SYSTEM, true},
    FAULT_RULE(transfer, fill) = {MBR_SYSTEM, true},
    FAULT_RULE(transfer, copy) = {MBR_SYSTEM, true},
};
