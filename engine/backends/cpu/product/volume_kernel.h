// Runs kernels for channels-last volumes on the row-major ones of the graph.
#pragma once

#include <memory>

#include "engine/backends/cpu/kernel/kernels.h"

namespace gpupool::engine {

// Returns a kernel that copies the node's volumes, but not its weights, to [N,
// D, H, W, C], runs `inner` on the copies, and copies its result back if that
// is a volume.
std::unique_ptr<Kernel> MakeOnVolumes(const CompileRequest& request,
                                      const CpuContext& context,
                                      std::unique_ptr<Kernel> inner);

}  // namespace gpupool::engine
