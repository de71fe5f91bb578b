/* Every function of HIP's runtime that the project knows, as a library that stands in exports it.
 */
#ifndef MEMBRANE_TESTS_STANDIN_HIP_EXPORTS_H
#define MEMBRANE_TESTS_STANDIN_HIP_EXPORTS_H

#include "plugins/hip/driver.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HIP_EXPORT(member, exported, parameters)                                                   \
    __attribute__((visibility("default"))) mbr_hip_result exported parameters;
#define HIP_EXPORT_TEXT(member, exported)                                                          \
    __attribute__((visibility("default"))) const char *exported(mbr_hip_result result);
MBR_HIP_PLAIN_FUNCTIONS(HIP_EXPORT)
MBR_HIP_VIRTUAL_FUNCTIONS(HIP_EXPORT)
MBR_HIP_OWN_FUNCTIONS(HIP_EXPORT)
MBR_HIP_FUNCTIONS_OF_TESTS(HIP_EXPORT)
MBR_HIP_TEXTS(HIP_EXPORT_TEXT)
#undef HIP_EXPORT
#undef HIP_EXPORT_TEXT

#ifdef __cplusplus
}
#endif

#endif
