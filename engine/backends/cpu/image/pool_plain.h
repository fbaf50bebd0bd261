// Pools in plain loops, for what oneDNN does not support: dilated windows,
// average windows that reach beyond the padding, an int32 argmax. Any layout.
#pragma once

#include "engine/backends/cpu/kernel/kernels.h"

namespace gpupool::engine {

// Returns the attributes of a pool, given the pool or its gradient node.
const Pool2dAttributes& PoolOf(const Node& node);

// Makes any pool or pool gradient except the global ones.
KernelOr MakePlainPool(const CompileRequest& request, int threads);

}  // namespace gpupool::engine
