/* What the files of the CUDA front end share: its exports, and its codes. */
#ifndef MEMBRANE_TESTS_STANDIN_CUDA_H
#define MEMBRANE_TESTS_STANDIN_CUDA_H

#include "tests/standin/calls.h"
#include "tests/standin/model.h"

/* Every function of the driver that the project knows, as this library exports it. */
#define STANDIN_EXPORT(member, exported, parameters)                                               \
    __attribute__((visibility("default"))) mbr_cuda_result exported parameters;
MBR_CUDA_FUNCTIONS(STANDIN_EXPORT)
MBR_CUDA_FUNCTIONS_OF_TESTS(STANDIN_EXPORT)
STANDIN_FUNCTIONS(STANDIN_EXPORT)
#undef STANDIN_EXPORT

mbr_cuda_result cuda_of(int status);

#define CUDA_CALL(function, needs, expression) cuda_of(SIM_CALL(function, needs, expression))

#endif
