// Makes kernels of attention and its gradient by cuDNN's flash attention
// engines.
//
// The library recognises a graph of two matrix products with a softmax between
// them. The form of the graph is described in NVIDIA's cudnn-frontend
// documentation, "Scaled dot product attention".
#pragma once

#include "engine/backends/cuda/cudnn/cudnn_kernel.h"
#include "engine/backends/portable/launch/kernel_makers.h"

namespace gpupool::engine::cuda {

// Makes kernels of kAttention and kAttentionGrad in float16 and bfloat16, with
// or without a mask and the causal rule. Null for other types and when there is
// nothing to compute. UNIMPLEMENTED when cuDNN has no engine, and in cases
// where an engine gives wrong results:
// - cuDNN before 9.16
// - causal attention whose numbers of keys and queries differ
// - gradients of one query
// - gradients with a mask, when the number of keys modulo 128 is 64
//
// The library gets a copy of the mask without -infinity. Queries that see no
// key get y = 0, lse = -infinity and no gradient, as the op promises.
portable::KernelOr MakeCudnnAttention(const CudnnLibrary* library,
                                      const CompileRequest& request,
                                      const portable::PortableContext& context);

}  // namespace gpupool::engine::cuda
