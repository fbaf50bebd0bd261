#include "engine/backends/reference/kernels.h"

#include <array>
#include <type_traits>

namespace gpupool::engine::reference {
namespace {

// A kernel that can fail, or one that cannot, as one that can.
template <auto kernel>
absl::Status Call(const Operands& operands) {
  if constexpr (std::is_void_v<decltype(kernel(operands))>) {
    kernel(operands);
    return absl::OkStatus();
  } else {
    return kernel(operands);
  }
}

using Kernel = absl::Status (*)(const Operands&);

constexpr std::array<Kernel, kOpCount> kKernels = {
#define GPUPOOL_OP(op, name, inputs, outputs, attributes, type_rule, layout,   \
                   in_place, traits, cost, autocast, gradient, reference, ...) \
  Call<reference>,
#include "engine/graph/op_table.inc"
};

}  // namespace

absl::Status RunKernel(const Operands& operands) {
  return kKernels[static_cast<size_t>(operands.node.op)](operands);
}

}  // namespace gpupool::engine::reference
