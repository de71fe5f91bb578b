/* What the files of the HIP front end share: its functions, its codes, and the current device. */
#ifndef MEMBRANE_TESTS_STANDIN_HIP_H
#define MEMBRANE_TESTS_STANDIN_HIP_H

#include "tests/standin/front.h"
#include "tests/standin/hip_exports.h"

mbr_hip_result hip_of(int status);

/* A thread that has set no device has device 0; its context is there from the first use on, and
 * nobody holds it. Before every call, outside of the model's lock. */
void hip_begin(void);

#define HIP_CALL(function, needs, expression)                                                      \
    (hip_begin(), hip_of(SIM_CALL(function, needs, expression)))

#endif
