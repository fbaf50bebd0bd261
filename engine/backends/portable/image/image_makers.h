// Makers of parts of the image family. Host only.
#pragma once

#include "engine/backends/portable/launch/kernel_makers.h"

namespace gpupool::engine::portable {

// Makes kernels of kResize and kResizeGrad.
KernelOr MakeResize(const CompileRequest& request,
                    const PortableContext& context);

}  // namespace gpupool::engine::portable
