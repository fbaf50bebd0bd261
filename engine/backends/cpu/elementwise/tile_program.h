// Kernels of elementwise nodes: one op or a fused expression. They work tile by
// tile, so that the result of a step is still in the cache when the next step
// reads it. They take float32, 16-bit floats and bool with any broadcasting and
// layout.
#pragma once

#include "engine/backends/cpu/kernel/kernels.h"

namespace gpupool::engine {

// Returns whether tiles can hold elements of the type.
bool IsTileType(DType dtype);

// Makes the kernel of an elementwise node. Null when a tile cannot hold one of
// its element types.
KernelOr MakeTileProgram(const CompileRequest& request,
                         const CpuContext& context);

}  // namespace gpupool::engine
