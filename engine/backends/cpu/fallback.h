// Runs the reference kernel of any op on any element type: converts inputs to
// double, computes, rounds back. Slow, but there is nothing it cannot do. The
// conversions live in planned workspace; nothing is allocated by a run.
#pragma once

#include "engine/backends/cpu/kernel/kernels.h"

namespace gpupool::engine {

KernelOr MakeFallback(const CompileRequest& request);

}  // namespace gpupool::engine
