// Batch norm in training and its gradient by cuDNN.
#pragma once

#include "engine/backends/cuda/cudnn/cudnn_kernel.h"
#include "engine/backends/portable/launch/kernel_makers.h"

namespace gpupool::engine::cuda {

// kBatchNormTraining and kBatchNormTrainingGrad of float32, float16 and
// bfloat16 with float32 statistics, in either layout. The library keeps 1 /
// sqrt(variance + epsilon) where the graph has the variance: a small kernel
// before or after the plan translates. Null for what the portable kernels keep:
// float64 and 16-bit statistics. UNIMPLEMENTED when cuDNN has no engine. The
// library must outlive the kernel.
portable::KernelOr MakeCudnnNorm(const CudnnLibrary* library,
                                 const CompileRequest& request,
                                 const portable::PortableContext& context);

}  // namespace gpupool::engine::cuda
