// Runs the reference kernel of any op on any element type. The kernel converts
// inputs to double, computes, and rounds the results. It is slow but takes
// every node. Conversions use planned workspace, so a run allocates nothing.
#pragma once

#include "engine/backends/cpu/kernel/kernels.h"

namespace gpupool::engine {

KernelOr MakeFallback(const CompileRequest& request);

}  // namespace gpupool::engine
