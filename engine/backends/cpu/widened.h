// Runs the float32 kernel of an op on 16-bit numbers: converts operands into
// planned workspace, computes, and rounds the results. For ops without a 16-bit
// kernel. Much faster than the reference kernel.
#pragma once

#include "engine/backends/cpu/kernel/kernels.h"

namespace gpupool::engine {

// Makes the kernel of a request. Null where there is none.
using KernelMaker = KernelOr (*)(const CompileRequest&, const CpuContext&);

// Makes a kernel around the one that `make` gives for the same node in float32.
// Null when `make` gives none.
KernelOr MakeWidened(const CompileRequest& request, const CpuContext& context,
                     KernelMaker make);

}  // namespace gpupool::engine
