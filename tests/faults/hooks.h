/* What the test and libmembrane-seams.so know of each other. The test owns the struct and says
 * where it is in the environment, MEMBRANE_FAULT_HOOKS in hexadecimal, before it opens the plugin.
 */
#ifndef MEMBRANE_TESTS_FAULTS_HOOKS_H
#define MEMBRANE_TESTS_FAULTS_HOOKS_H

#include "tests/faults/fault.h"

struct fault_hooks {
    enum fault_verdict (*meet)(int kind, bool has_after);
    const mbr_heap *heap; /* the plugin's */
    bool is_lost;         /* the device is gone with its memory: no slot may be called any more */
    bool has_ended;       /* and so is its context: there are no objects any more */

    /* Kept by the plugin. */
    uint64_t late_calls;  /* into a lost device */
    uint64_t owned_bytes; /* from the outcomes of the real slots, not from its figures */
    uint64_t mapped_bytes;
    uint64_t instance_count;
    uint32_t tier;             /* of its mechanism */
    int first_kind, last_kind; /* of the calls below its slots, its heap aside */
    void (*run_streams)(void); /* all work that was submitted is done */
    void (*purge)(void);       /* whatever is left of all instances goes back to the system */
    mbr_native (*stream)(uint64_t number); /* streams of the device, the same until the purge */
    uint64_t (*left)(void);                /* what is out below the slots */
    uint64_t (*view)(uint64_t address);    /* where the process has what is at an address */
};

#define FAULT_HOOKS_VARIABLE "MEMBRANE_FAULT_HOOKS"

#endif
