#include "absl/algorithm/container.h"
#include "engine/backends/reference/kernels.h"
#include "engine/base/philox.h"

namespace gpupool::engine::reference {

void Reshape(const Operands& o) { absl::c_copy(o.in(0), o.out().begin()); }

void Add(const Operands& o) {
  for (size_t i = 0; i < o.out().size(); ++i) {
    o.out()[i] = o.in(0)[i] + o.in(1)[i];
  }
}

void ActivationForward(const Operands& o) {
  const Activation activation = ActivationOf(o.node.op, o.node.attributes);
  for (size_t i = 0; i < o.out().size(); ++i) {
    o.out()[i] = Activate(activation, o.in(0)[i]);
  }
}

void ActivationGradient(const Operands& o) {
  const Activation activation = ActivationOf(o.node.op, o.node.attributes);
  for (size_t i = 0; i < o.out().size(); ++i) {
    o.out()[i] = o.in(0)[i] * ActivationSlope(activation, o.in(1)[i]);
  }
}

void ScaleShift(const Operands& o) {
  const size_t features = o.in(1).size();
  for (size_t i = 0; i < o.out().size(); ++i) {
    const size_t f = i % features;
    o.out()[i] = o.in(0)[i] * o.in(1)[f] + o.in(2)[f];
  }
}

void Dropout(const Operands& o) {
  const auto& dropout = o.node.get<DropoutAttributes>();
  const auto seed = static_cast<uint64_t>(static_cast<int64_t>(o.in(1)[0]));
  const auto step = static_cast<uint64_t>(static_cast<int64_t>(o.in(2)[0]));
  for (size_t i = 0; i < o.out().size(); ++i) {
    // Each Philox block gives four words, for four neighbouring elements.
    const auto words = PhiloxBlock(seed, dropout.stream, step << 32 | i / 4);
    const bool keep = PhiloxUniformFloat(words[i % 4]) >=
                      static_cast<float>(dropout.probability);
    o.out()[i] = keep ? o.in(0)[i] / (1 - dropout.probability) : 0;
  }
}

void MatMul(const Operands& o) {
  const auto& matmul = o.node.get<MatMulAttributes>();
  const auto& epilogue = matmul.epilogue;
  const auto rows = static_cast<size_t>(o.out_shape()[0]);
  const auto columns = static_cast<size_t>(o.out_shape()[1]);
  const auto inner =
      static_cast<size_t>(o.in_shape(0)[matmul.transpose_a ? 0 : 1]);
  const absl::Span<const double> a = o.in(0);
  const absl::Span<const double> b = o.in(1);
  for (size_t m = 0; m < rows; ++m) {
    for (size_t n = 0; n < columns; ++n) {
      double sum = epilogue.bias ? o.in(2)[n] : 0;
      for (size_t k = 0; k < inner; ++k) {
        sum += a[matmul.transpose_a ? k * rows + m : m * inner + k] *
               b[matmul.transpose_b ? n * inner + k : k * columns + n];
      }
      const size_t at = m * columns + n;
      if (epilogue.residual) sum += o.inputs.back()[at];
      o.out()[at] = Activate(epilogue, sum);
    }
  }
}

void ColumnSum(const Operands& o) {
  const size_t columns = o.out().size();
  for (size_t i = 0; i < o.in(0).size(); ++i) {
    o.out()[i % columns] += o.in(0)[i];
  }
}

}  // namespace gpupool::engine::reference
