// A matrix product of the graph as cuBLASLt sees it: column-major matrices, at
// most one batch axis, and an epilogue. Pure; needs no CUDA.
//
// Row-major Y = op(A) op(B) is, read column by column, Y' = op(B)' op(A)':
// the library's first operand is our second one. Its bias has one number per
// row of Y', which is per column of Y.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/runtime/device_backend.h"

namespace gpupool::engine::cuda {

// A column-major matrix in memory, before transposing.
struct ProductMatrix {
  int64_t rows = 0, columns = 0;
  int64_t leading = 0;       // elements from column to column
  bool transposed = false;   // operands only
  int64_t batch_stride = 0;  // elements; 0: the same matrix for all

  friend bool operator==(const ProductMatrix&, const ProductMatrix&) = default;
};

// What the library does to a product before it stores it; the rest of the
// node's epilogue is left to a kernel that runs behind it.
struct ProductEpilogue {
  bool bias = false;
  bool residual = false;                      // as the addend with factor 1
  Activation activation = Activation::kNone;  // kNone, kRelu or kGeluTanh

  friend bool operator==(const ProductEpilogue&,
                         const ProductEpilogue&) = default;
};

// Where one call's operands begin, in elements.
struct ProductOffsets {
  int64_t a = 0, b = 0, y = 0;  // of the node's operands
};

struct MatmulProblem {
  DType type = DType::kFloat32;
  bool tensor_float32 = false;
  int32_t batch = 1;
  double scale = 1;
  ProductMatrix first;   // the node's second operand
  ProductMatrix second;  // the node's first operand
  ProductMatrix result;
  ProductEpilogue epilogue;
  Activation left_over = Activation::kNone;  // for a kernel behind
  UnaryAttributes left_over_unary;
  std::vector<ProductOffsets> calls;  // at least one

  // Says all that matters for the choice of an algorithm.
  std::string Text() const;
  // The largest power of two, up to that of every allocation, that divides the
  // addresses of an operand in all calls. Algorithms need a certain one.
  uint32_t AlignmentOf(int64_t ProductOffsets::*operand) const;
};

// More calls than this for one node are the portable kernel's business.
inline constexpr size_t kMaxProductCalls = 64;

// nullopt where the library has no product of these types or shapes.
std::optional<MatmulProblem> DescribeMatmul(const CompileRequest& request);

}  // namespace gpupool::engine::cuda
