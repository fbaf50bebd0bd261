// Products with blocked codes.
#include "engine/backends/reference/kernels.h"

namespace gpupool::engine::reference {
namespace {

// Returns code i of a row of packed codes.
double CodeAt(absl::Span<const double> bytes, int64_t i, int bits) {
  if (bits == 8) return bytes[static_cast<size_t>(i)];
  const auto byte = static_cast<int>(bytes[static_cast<size_t>(i / 2)]);
  return i % 2 == 0 ? byte % 16 : byte / 16;
}

// Returns the zero point of a block of a column.
double ZeroOf(const Operands& o, int64_t column, int64_t block) {
  const auto& matmul = o.node.get<BlockedMatMulAttributes>();
  if (!matmul.with_zeros) return 1 << (matmul.bits - 1);
  const auto width = static_cast<size_t>(o.in_shape(3)[1]);
  const auto row = o.in(3).subspan(static_cast<size_t>(column) * width, width);
  const bool packed = o.input_types[3].dtype == DType::kUint8;
  return CodeAt(row, block, packed ? matmul.bits : 8);
}

}  // namespace

void BlockedMatMul(const Operands& o) {
  const int bits = o.node.get<BlockedMatMulAttributes>().bits;
  const int64_t rows = o.in_shape(0)[0];
  const int64_t inner = o.in_shape(0)[1];
  const int64_t columns = o.in_shape(2)[0];
  const int64_t blocks = o.in_shape(2)[1];
  const auto bytes =
      static_cast<size_t>(o.in(1).size()) / static_cast<size_t>(columns);
  for (int64_t column = 0; column < columns; ++column) {
    const auto codes =
        o.in(1).subspan(static_cast<size_t>(column) * bytes, bytes);
    for (int64_t k = 0; k < inner; ++k) {
      const int64_t block = k / (inner / blocks);
      const double weight =
          (CodeAt(codes, k, bits) - ZeroOf(o, column, block)) *
          o.in(2)[static_cast<size_t>(column * blocks + block)];
      for (int64_t row = 0; row < rows; ++row) {
        o.out()[static_cast<size_t>(row * columns + column)] +=
            o.in(0)[static_cast<size_t>(row * inner + k)] * weight;
      }
    }
  }
}

}  // namespace gpupool::engine::reference
