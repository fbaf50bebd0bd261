// Elementwise nodes on the CPU: one op or a fused expression, run tile by tile
// so that what a step makes is still in the cache when the next one reads it.
// float32, 16-bit floats and bool; any broadcasting and layout.
#pragma once

#include "engine/backends/cpu/kernel/kernels.h"

namespace gpupool::engine {

// Element types that tiles hold.
bool IsTileType(DType dtype);

// A null kernel when an element type is another one.
KernelOr MakeTileProgram(const CompileRequest& request,
                         const CpuContext& context);

}  // namespace gpupool::engine
