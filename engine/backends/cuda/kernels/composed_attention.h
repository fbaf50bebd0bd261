// Attention in float32, composed of a library's batched matrix products and
// portable kernels for the softmax between them. cuDNN's fused attention takes
// 16-bit operands only.
//
// Scores lie in scratch memory, for as many heads at a time as fit.
#pragma once

#include <cstdint>
#include <functional>

#include "engine/backends/portable/launch/kernel_makers.h"

namespace gpupool::engine::cuda {

struct ComposedAttentionLimits {
  // Least multiplications and additions of a product over all heads. Below it,
  // one launch of the portable kernel costs less than several launches. This is
  // a guess: neither was measured on a GPU.
  int64_t least_work = int64_t{1} << 22;
  // Most bytes of scratch memory for the scores of one head.
  uint64_t most_scratch = uint64_t{256} << 20;
  // Most parts into which batch times heads may be cut.
  int64_t most_parts = 64;
};

// Makes the kernel of a kBatchMatMul node. Null where there is none. The kernel
// must not refer to the request.
using ProductMaker =
    std::function<portable::KernelOr(const CompileRequest& request)>;

// Makes kernels of kAttention and kAttentionGrad in float32, with or without a
// mask and the causal rule. Null for other types and where the portable kernels
// are as fast. UNIMPLEMENTED when `products` has no kernel or when scores need
// more scratch memory than `limits` allow.
portable::KernelOr MakeComposedAttention(
    const CompileRequest& request, const portable::PortableContext& context,
    const ProductMaker& products, const ComposedAttentionLimits& limits = {});

}  // namespace gpupool::engine::cuda
