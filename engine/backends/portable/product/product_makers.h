// Makers of parts of the product family. Host only.
#pragma once

#include "engine/backends/portable/launch/kernel_makers.h"

namespace gpupool::engine::portable {

// Makes kernels of convolutions and their gradients.
KernelOr MakeConvolution(const CompileRequest& request,
                         const PortableContext& context);
// Makes kernels of kBlockedMatMul.
KernelOr MakeBlockedMatMul(const CompileRequest& request,
                           const PortableContext& context);
// Makes kernels of kAttention and kAttentionGrad.
KernelOr MakeAttention(const CompileRequest& request,
                       const PortableContext& context);

}  // namespace gpupool::engine::portable
