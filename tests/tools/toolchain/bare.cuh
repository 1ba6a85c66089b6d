// SPDX-License-Identifier: Apache-2.0
// All of CUDA's own headers that kernels and launches need which call no function of theirs. nvcc puts cuda_runtime.h
// before every unit, and reading it is four fifths of the time that a small one takes: `-D__CUDA_RUNTIME_H__` with
// `-include` of this file leaves it out.
#define __CUDA_INCLUDE_COMPILER_INTERNAL_HEADERS__
#include <crt/host_defines.h>
#include <vector_types.h>
#include <device_launch_parameters.h>
extern "C" unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, unsigned long shared = 0, struct CUstream_st* stream = 0);
