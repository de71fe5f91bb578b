/* Every function of the driver that the project knows, as the stand-in's library exports it. */
#ifndef MEMBRANE_TESTS_STANDIN_EXPORTS_H
#define MEMBRANE_TESTS_STANDIN_EXPORTS_H

#include "tests/standin/calls.h"

#ifdef __cplusplus
extern "C" {
#endif

#define STANDIN_EXPORT(member, exported, parameters)                                               \
    __attribute__((visibility("default"))) mbr_cuda_result exported parameters;
MBR_CUDA_FUNCTIONS(STANDIN_EXPORT)
MBR_CUDA_FUNCTIONS_OF_TESTS(STANDIN_EXPORT)
STANDIN_FUNCTIONS(STANDIN_EXPORT)
#undef STANDIN_EXPORT

#ifdef __cplusplus
}
#endif

#endif
