// Headers of this folder that say "Host and device" in their first lines are
// compiled by the host's compiler and by nvcc. They include each other, the
// C++ standard library and what of the engine says the same or consists of
// enumerations: base/host_device.h, base/philox_block.h, graph/functions.h and
// tensor/dtype_enum.h.
#pragma once

#include "engine/base/host_device.h"

// Before a loop whose loads are to be under way at the same time: memory takes
// several hundred cycles to answer. (On a GPU only; hosts run ahead.)
#ifdef __CUDA_ARCH__
#define GPUPOOL_UNROLL _Pragma("unroll 8")
// Before a short loop that is compiled into many places: copies of its body
// gain nothing and make kernels several times as large.
#define GPUPOOL_ROLLED _Pragma("unroll 1")
#else
#define GPUPOOL_UNROLL
#define GPUPOOL_ROLLED
#endif
