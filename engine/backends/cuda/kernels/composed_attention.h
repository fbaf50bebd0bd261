// Attention in float32 out of a library's batched matrix products and, between
// them, portable kernels for the softmax: cuDNN's fused attention computes with
// 16-bit operands.
//
// Scores lie in scratch memory, those of as many heads at a time as it holds.
#pragma once

#include <cstdint>
#include <functional>

#include "engine/backends/portable/launch/kernel_makers.h"

namespace gpupool::engine::cuda {

struct ComposedAttentionLimits {
  // Below so many multiplications and additions of a product over all heads,
  // one launch of the portable kernel costs less than several. A guess: no GPU
  // has run either.
  int64_t least_work = int64_t{1} << 22;
  // Scores of one head must fit in so many bytes of scratch memory.
  uint64_t most_scratch = uint64_t{256} << 20;
  // Batch times heads may be cut into so many parts.
  int64_t most_parts = 64;
};

// Makes the kernel of a kBatchMatMul node; null where there is none. The kernel
// must not refer to the request.
using ProductMaker =
    std::function<portable::KernelOr(const CompileRequest& request)>;

// kAttention and kAttentionGrad in float32, with or without a mask and the
// causal rule. Null for other types, and for what the portable kernels do as
// fast. UNIMPLEMENTED when scores need more scratch memory than there may be,
// or when there is no product.
portable::KernelOr MakeComposedAttention(
    const CompileRequest& request, const portable::PortableContext& context,
    const ProductMaker& products, const ComposedAttentionLimits& limits = {});

}  // namespace gpupool::engine::cuda
