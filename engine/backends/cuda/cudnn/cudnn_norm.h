// Makes kernels of batch norm in training and its gradient by cuDNN.
#pragma once

#include "engine/backends/cuda/cudnn/cudnn_kernel.h"
#include "engine/backends/portable/launch/kernel_makers.h"

namespace gpupool::engine::cuda {

// Makes kernels of kBatchNormTraining and kBatchNormTrainingGrad of float32,
// float16 and bfloat16 with float32 statistics, in either layout. The library
// keeps 1 / sqrt(variance + epsilon) where the graph keeps the variance, so a
// small kernel converts it before or after the plan. Null for float64 and
// 16-bit statistics, which the portable kernels compute. UNIMPLEMENTED when
// cuDNN has no engine. The library must outlive the kernel.
portable::KernelOr MakeCudnnNorm(const CudnnLibrary* library,
                                 const CompileRequest& request,
                                 const portable::PortableContext& context);

}  // namespace gpupool::engine::cuda
