/* What is under the engine of libmembrane-seams.so: a plugin's own code behind its slots, and the
 * calls that it makes itself. One file for each plugin that is swept. */
#ifndef MEMBRANE_TESTS_FAULTS_BELOW_H
#define MEMBRANE_TESTS_FAULTS_BELOW_H

#include "tests/faults/hooks.h"

struct fault_below {
    uint32_t tier;
    int first_kind, last_kind; /* of its own calls */
    const mbr_plugin_vtable *plugin;
    const mbr_allocator_vtable *allocator;
    const mbr_virtual_vtable *virtual_;
    const mbr_shared_vtable *shared;
    const mbr_order_vtable *order; /* fault_order: lines that a test moves by hand, of a shell's */
    const mbr_transfer_vtable *transfer;
    /* Whenever the file is asked for its entry; the first time before the first run. */
    void (*start)(const struct fault_hooks *hooks);
    /* The mechanism that is swept, with those of the options that it knows. *own is handed to
     * `purge`, which gives back what the instance has of the system. */
    mbr_status (*open)(
        const mbr_open_request *request, mbr_open_outcome *outcome, void **own, mbr_error *error);
    void (*purge)(void *own);
    void (*purge_rest)(void); /* after all instances */
    void (*run)(void);        /* what streams have is done */
    uint64_t (*left)(void);   /* handles, mappings, ranges and allocations of the driver's */
    mbr_native (*stream)(uint64_t number);
    uint64_t (*view)(uint64_t address); /* where a test reads and writes */
};

extern const struct fault_below fault_below;

#endif
