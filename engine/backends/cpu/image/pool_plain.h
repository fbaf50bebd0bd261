// Pools by plain loops, for what oneDNN does not do: dilated windows, windows
// of an average that reach beyond the padding, an int32 argmax. Any layout.
#pragma once

#include "engine/backends/cpu/kernel/kernels.h"

namespace gpupool::engine {

// The attributes of the forward node of a pool or of its gradient.
const Pool2dAttributes& PoolOf(const Node& node);

// A kernel for any pool but the global ones, forward or gradient.
KernelOr MakePlainPool(const CompileRequest& request, int threads);

}  // namespace gpupool::engine
