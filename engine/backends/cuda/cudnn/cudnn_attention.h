// Attention and its gradient by cuDNN's flash attention engines.
//
// The library recognises a graph of two matrix products with a softmax between
// them; what must stand where is NVIDIA's cudnn-frontend documentation, "Scaled
// dot product attention".
#pragma once

#include "engine/backends/cuda/cudnn/cudnn_kernel.h"
#include "engine/backends/portable/launch/kernel_makers.h"

namespace gpupool::engine::cuda {

// kAttention and kAttentionGrad in float16 and bfloat16, with or without a mask
// and the causal rule. Null for other types and for nothing to compute.
// UNIMPLEMENTED when cuDNN has no engine, and for what its engines take but get
// wrong: cuDNN before 9.16, causal attention of other than as many keys as
// queries, gradients of one query, and gradients with a mask whose number of
// keys leaves 64 when divided by 128.
//
// The library gets a copy of the mask without -infinity. Queries that see no
// key have y = 0, lse = -infinity and no gradient, as the op promises.
portable::KernelOr MakeCudnnAttention(const CudnnLibrary* library,
                                      const CompileRequest& request,
                                      const portable::PortableContext& context);

}  // namespace gpupool::engine::cuda
