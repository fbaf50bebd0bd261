// Makes kernels of convolutions and their gradients by cuDNN.
#pragma once

#include "engine/backends/cuda/cudnn/cudnn_kernel.h"
#include "engine/backends/portable/launch/kernel_makers.h"

namespace gpupool::engine::cuda {

// Makes kernels of kConv2d, kConv2dInputGrad and kConv2dWeightGrad in float32,
// float16 and bfloat16, for images and volumes of either layout. The bias, the
// residual and a ReLU are part of the plan if an engine takes them. Otherwise a
// portable kernel computes them afterwards. Null for other types. UNIMPLEMENTED
// when cuDNN has no engine. The library must outlive the kernel.
portable::KernelOr MakeCudnnConvolution(
    const CudnnLibrary* library, const CompileRequest& request,
    const portable::PortableContext& context);

}  // namespace gpupool::engine::cuda
