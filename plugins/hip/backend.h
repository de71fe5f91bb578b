/* HIP as a backend of plugins/common/gpu.h. */
#ifndef MEMBRANE_PLUGINS_HIP_BACKEND_H
#define MEMBRANE_PLUGINS_HIP_BACKEND_H

#include "plugins/common/gpu.h"
#include "plugins/hip/driver.h"

extern const struct mbr_gpu_backend mbr_hip_backend;

/* The library's functions: set before there is an instance. */
const struct mbr_hip_functions *mbr_hip(void);

/* Sets what no version tells: aliasing, read-only access, descriptors. */
mbr_status mbr_hip_probe(mbr_instance *instance, mbr_error *error);

#endif
