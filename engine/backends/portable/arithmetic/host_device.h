// A header of this folder that says "Host and device" at its top is compiled by
// the host's compiler and by nvcc. It may include only other such headers, the
// C++ standard library, and of the engine: base/host_device.h,
// base/philox_block.h, graph/functions.h, and tensor/dtype_enum.h with the
// table that it includes.
#pragma once

#include "engine/base/host_device.h"

// Stands before a loop whose loads should overlap, since memory takes several
// hundred cycles to answer. (On a GPU only: hosts run ahead.)
#ifdef __CUDA_ARCH__
#define GPUPOOL_UNROLL _Pragma("unroll 8")
// Stands before a short loop that is compiled into many places. Copies of its
// body gain nothing and make kernels several times as large.
#define GPUPOOL_ROLLED _Pragma("unroll 1")
#else
#define GPUPOOL_UNROLL
#define GPUPOOL_ROLLED
#endif
