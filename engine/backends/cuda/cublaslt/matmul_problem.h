// Describes a matrix product of the graph in cuBLASLt's terms: column-major
// matrices, at most one batch axis, and an epilogue. Pure. Needs no CUDA.
//
// Row-major Y = op(A) op(B), read column by column, is Y' = op(B)' op(A)'. So
// the library's first operand is the node's second one. The library's bias has
// one number per row of Y', which is per column of Y.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/runtime/device_backend.h"

namespace gpupool::engine::cuda {

// A column-major matrix in memory, before it is transposed.
struct ProductMatrix {
  int64_t rows = 0, columns = 0;
  int64_t leading = 0;       // in elements, between columns
  bool transposed = false;   // operands only
  int64_t batch_stride = 0;  // in elements; 0: all use the same matrix

  friend bool operator==(const ProductMatrix&, const ProductMatrix&) = default;
};

// The part of the node's epilogue that the library computes. A kernel that runs
// afterwards computes the rest.
struct ProductEpilogue {
  bool bias = false;
  bool residual = false;                      // the addend with factor 1
  Activation activation = Activation::kNone;  // kNone, kRelu or kGeluTanh

  friend bool operator==(const ProductEpilogue&,
                         const ProductEpilogue&) = default;
};

// The first elements of one call's operands.
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
  Activation left_over = Activation::kNone;  // for the kernel afterwards
  UnaryAttributes left_over_unary;
  std::vector<ProductOffsets> calls;  // at least one

  // Returns a text of everything that the choice of an algorithm depends on.
  std::string Text() const;
  // Returns the largest power of two that divides the operand's addresses in
  // all calls, at most the alignment of allocations. Algorithms need a certain
  // alignment.
  uint32_t AlignmentOf(int64_t ProductOffsets::*operand) const;
};

// A node with more calls goes to the portable kernel.
inline constexpr size_t kMaxProductCalls = 64;

// Returns nullopt where the library has no product of these types or shapes.
std::optional<MatmulProblem> DescribeMatmul(const CompileRequest& request);

}  // namespace gpupool::engine::cuda
