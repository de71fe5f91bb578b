/* The rules that hold for every call, looked at after each one. */
#ifndef MEMBRANE_TOOLS_CHECK_VERIFY_H
#define MEMBRANE_TOOLS_CHECK_VERIFY_H

#include "tools/check/lay.h"

/* One call, after it returned. `outcome` and `error` are where the plugin wrote; NULL: not given.
 */
typedef struct mbr_call {
    mbr_slot slot;
    mbr_status status;
    const void *request_before, *request; /* laid; request_bytes of each */
    uint32_t request_bytes;
    const void *outcome;
    uint32_t outcome_bytes; /* the struct_size that was given */
    bool outcome_was_poison;
    const mbr_error *error;
    uint32_t error_bytes;
} mbr_call;

/* Ends the check with a finding where a rule of `owned` (MBR_BREACH_…) is broken. */
void mbr_verify_call(mbr_trial *trial, const mbr_call *call, uint32_t owned);

#endif
