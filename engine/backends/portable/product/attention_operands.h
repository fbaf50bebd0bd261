// Makes the operands of attention from a node and its addresses. Host only.
#pragma once

#include <algorithm>

#include "engine/backends/portable/launch/maker.h"
#include "engine/backends/portable/product/attention_functors.h"

namespace gpupool::engine::portable {

// Returns sizes and attributes of attention, without addresses. q is input
// `first` of the request's node. The mask, if any, is input `mask`.
template <typename T>
AttentionOperands<T> OperandsOf(const CompileRequest& request, size_t first,
                                size_t mask) {
  const auto& attention = request.node.get<AttentionAttributes>();
  const Shape& q = InputOf(request, first).shape;
  const Shape& v = InputOf(request, first + 2).shape;
  AttentionOperands<T> in;
  in.heads = std::max<int64_t>(q[1], 1);
  in.queries = q[2];
  in.keys = v[2];
  in.depth = q[3];
  in.width = v[3];
  in.scale = attention.scale;
  in.causal = attention.causal;
  if (request.node.inputs.size() <= mask) return in;
  const Shape& shape = InputOf(request, mask).shape;
  const auto strides = MemoryStrides(shape, Layout::kRowMajor);
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const int at = 4 - shape.rank() + axis;
    in.mask_strides[at] =
        shape[axis] == 1 ? 0 : strides[static_cast<size_t>(axis)];
  }
  return in;
}

// Sets the addresses of the operands.
template <typename T>
void BindOperands(const KernelArguments& at, size_t first, size_t mask,
                  AttentionOperands<T>& in) {
  in.q = at.in<T>(first);
  in.k = at.in<T>(first + 1);
  in.v = at.in<T>(first + 2);
  in.mask = at.inputs() > mask ? at.in<T>(mask) : nullptr;
}

}  // namespace gpupool::engine::portable
