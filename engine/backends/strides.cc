#include "engine/backends/strides.h"

namespace gpupool::engine {

std::vector<int> MemoryOrder(int rank, Layout layout) {
  std::vector<int> order;
  for (int axis = 0; axis < rank; ++axis) order.push_back(axis);
  // The channels, axis 1, become the innermost axis.
  if (layout == Layout::kChannelsLast && rank > 2) {
    order.erase(order.begin() + 1);
    order.push_back(1);
  }
  return order;
}

std::vector<int64_t> MemoryStrides(const Shape& shape, Layout layout) {
  const std::vector<int> order = MemoryOrder(shape.rank(), layout);
  std::vector<int64_t> strides(order.size());
  int64_t stride = 1;
  for (auto axis = order.rbegin(); axis != order.rend(); ++axis) {
    strides[static_cast<size_t>(*axis)] = stride;
    stride *= shape[*axis];
  }
  return strides;
}

int64_t LoopNest::count() const {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  return count;
}

void LoopNest::Collapse() {
  size_t kept = 0;
  for (size_t loop = 0; loop < sizes.size(); ++loop) {
    // A loop of one iteration moves no operand.
    if (sizes[loop] == 1) continue;
    bool merge = kept > 0;
    for (const auto& stride : strides) {
      // Two loops are one when a step of the outer loop is a whole run of the
      // inner one, for all operands.
      merge = merge && stride[kept - 1] == stride[loop] * sizes[loop];
    }
    const size_t at = merge ? kept - 1 : kept++;
    sizes[at] = merge ? sizes[at] * sizes[loop] : sizes[loop];
    for (auto& stride : strides) stride[at] = stride[loop];
  }
  sizes.resize(kept);
  for (auto& stride : strides) stride.resize(kept);
}

LoopNest BroadcastLoops(const std::vector<const Value*>& from,
                        const Value& to) {
  std::vector<const Value*> operands = from;
  operands.push_back(&to);
  LoopNest loops;
  const std::vector<int> order = MemoryOrder(to.shape.rank(), to.layout);
  for (const int axis : order) loops.sizes.push_back(to.shape[axis]);
  for (const Value* operand : operands) {
    const auto strides = MemoryStrides(operand->shape, operand->layout);
    // Broadcasting aligns axes at the last one.
    const int missing = to.shape.rank() - operand->shape.rank();
    std::vector<int64_t> walk;
    for (const int axis : order) {
      const int own = axis - missing;
      const bool repeats = own < 0 || operand->shape[own] == 1;
      walk.push_back(repeats ? 0 : strides[static_cast<size_t>(own)]);
    }
    loops.strides.push_back(std::move(walk));
  }
  return loops;
}

}  // namespace gpupool::engine
