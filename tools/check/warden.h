/* The warden of one check: a process of its own that starts the child, waits for it, and leaves
 * nothing of it behind. */
#ifndef MEMBRANE_TOOLS_CHECK_WARDEN_H
#define MEMBRANE_TOOLS_CHECK_WARDEN_H

#include "tools/check/result.h"

typedef struct mbr_warden_orders {
    const char *path; /* of the plugin, absolute */
    uint32_t device_index;
    uint32_t timeout_ms;
    uint64_t seed;
} mbr_warden_orders;

/* Runs result->check once in a child of this process and fills in the result. The caller is a
 * process that has no other child and may wait for any. */
void mbr_warden_run(const mbr_warden_orders *orders, mbr_result *result);

#endif
