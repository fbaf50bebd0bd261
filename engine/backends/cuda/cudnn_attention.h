// Attention and its gradient by cuDNN's flash attention engines.
//
// The library recognises a graph of two matrix products with a softmax between
// them; what must stand where is NVIDIA's cudnn-frontend documentation, "Scaled
// dot product attention".
#pragma once

#include "engine/backends/cuda/cudnn_kernel.h"
#include "engine/backends/portable/kernel_makers.h"

namespace gpupool::engine::cuda {

// kAttention and kAttentionGrad in float16 and bfloat16, with or without the
// causal rule. Null for what the portable kernels keep: float32, a mask, heads
// whose depth is no multiple of 8 or above 128, and causal attention of other
// than as many keys as queries. UNIMPLEMENTED when cuDNN has no engine.
portable::KernelOr MakeCudnnAttention(const CudnnLibrary* library,
                                      const CompileRequest& request);

}  // namespace gpupool::engine::cuda
