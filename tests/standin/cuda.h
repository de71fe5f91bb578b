/* What the files of the CUDA front end share: its functions, and its codes. */
#ifndef MEMBRANE_TESTS_STANDIN_CUDA_H
#define MEMBRANE_TESTS_STANDIN_CUDA_H

#include "tests/standin/exports.h"
#include "tests/standin/front.h"

#define CUDA_BLOCK_MAX_THREADS 1024

mbr_cuda_result cuda_of(int status);

#define CUDA_CALL(function, needs, expression) cuda_of(SIM_CALL(function, needs, expression))

#endif
