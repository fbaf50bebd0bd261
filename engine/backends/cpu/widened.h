// Runs the float32 kernel of an op on 16-bit numbers: converts operands into
// planned workspace, computes, and rounds the results. For what has no kernel
// of its own for them; far faster than the reference kernel.
#pragma once

#include "engine/backends/cpu/kernel/kernels.h"

namespace gpupool::engine {

// Makes the kernel of a request; null where there is none.
using KernelMaker = KernelOr (*)(const CompileRequest&, const CpuContext&);

// Null where `make` has none for the same node in float32.
KernelOr MakeWidened(const CompileRequest& request, const CpuContext& context,
                     KernelMaker make);

}  // namespace gpupool::engine
