// Elementwise nodes on the CPU: one op or a fused expression, run tile by tile
// so that what a step makes is still in the cache when the next one reads it.
// float32 and bool; any broadcasting and layout.
#pragma once

#include "engine/backends/cpu/kernels.h"

namespace gpupool::engine {

// A null kernel when an element type is neither float32 nor bool.
KernelOr MakeTileProgram(const CompileRequest& request,
                         const CpuContext& context);

}  // namespace gpupool::engine
