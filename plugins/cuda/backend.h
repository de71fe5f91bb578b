/* CUDA as a backend of plugins/common/gpu.h. */
#ifndef MEMBRANE_PLUGINS_CUDA_BACKEND_H
#define MEMBRANE_PLUGINS_CUDA_BACKEND_H

#include "plugins/common/gpu.h"

extern const struct mbr_gpu_backend mbr_cuda_backend;

#endif
