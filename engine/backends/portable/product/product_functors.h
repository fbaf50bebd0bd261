// Functors of matrix products, one element of the result per call. (Host and
// device; plain C++.)
#pragma once

#include <cstdint>

#include "engine/backends/portable/arithmetic/host_device.h"
#include "engine/backends/portable/arithmetic/numbers.h"
#include "engine/backends/portable/arithmetic/real.h"
#include "engine/backends/portable/arithmetic/walk.h"
#include "engine/backends/portable/product/attention_functors.h"
#include "engine/backends/portable/product/attention_parts_functors.h"
#include "engine/backends/portable/product/blocked_functors.h"
#include "engine/backends/portable/product/convolution_functors.h"
#include "engine/backends/portable/product/epilogue.h"

namespace gpupool::engine::portable {

// The sizes and strides of y [batch, rows, columns] = a b. Operands may repeat
// along batch axes.
struct ProductShape {
  int64_t rows = 1;
  int64_t columns = 1;
  int64_t inner = 1;
  int64_t a_row = 1, a_inner = 1;     // elements between neighbours
  int64_t b_inner = 1, b_column = 1;  // the same
  Walk<2> batch;                      // first elements of a and b

  struct Operands {
    int64_t row, column;
    int64_t a, b;  // first elements
  };
  GPUPOOL_HOST_DEVICE Operands Find(int64_t i) const {
    Operands at;
    const int64_t line = i / columns;
    const int64_t matrix = line / rows;
    at.column = i - line * columns;
    at.row = line - matrix * rows;
    int64_t first[2];
    batch.Find(matrix, first);
    at.a = first[0] + at.row * a_row;
    at.b = first[1] + at.column * b_column;
    return at;
  }
};

template <typename T>
struct ProductFunctor {
  const T* a = nullptr;
  const T* b = nullptr;
  T* y = nullptr;
  ProductShape shape;
  EpilogueOf<T> epilogue;
  double scale = 1;

  GPUPOOL_HOST_DEVICE void operator()(int64_t i) const {
    using R = Real_t<T>;
    const auto at = shape.Find(i);
    const T* left = a + at.a;
    const T* right = b + at.b;
    R sum = 0;
    for (int64_t k = 0; k < shape.inner; ++k) {
      sum += Load(left, k * shape.a_inner) * Load(right, k * shape.b_inner);
    }
    Store(y, i, epilogue.Apply(sum * static_cast<R>(scale), at.column, i));
  }
};

// Computes products of integers, modulo 2^bits.
struct WholeProductFunctor {
  const void* a = nullptr;
  const void* b = nullptr;
  void* y = nullptr;
  DType type = DType::kInt32;
  ProductShape shape;

  GPUPOOL_HOST_DEVICE void operator()(int64_t i) const {
    const auto at = shape.Find(i);
    uint64_t sum = 0;
    for (int64_t k = 0; k < shape.inner; ++k) {
      const int64_t left = LoadNumber(type, a, at.a + k * shape.a_inner).whole;
      const int64_t right = LoadNumber(type, b, at.b + k * shape.b_inner).whole;
      sum += static_cast<uint64_t>(left) * static_cast<uint64_t>(right);
    }
    StoreNumber(type, y, i, Whole(static_cast<int64_t>(sum)));
  }
};

}  // namespace gpupool::engine::portable

#define GPUPOOL_PRODUCT_FUNCTORS_OF(FOR, ROWS, T) \
  FOR(ProductFunctor<T>)                          \
  FOR(ConvolutionFunctor<T>)                      \
  FOR(ConvolutionInputGradFunctor<T>)             \
  ROWS(ConvolutionWeightGradFunctor<T>)           \
  ROWS(ConvolutionBiasGradFunctor<T>)             \
  ROWS(AttentionFunctor<T>)                       \
  ROWS(AttentionQueryGradFunctor<T>)              \
  ROWS(AttentionKeyGradFunctor<T>)

// Calls FOR with every functor of LaunchFor, ROWS with those of LaunchRows.
#define GPUPOOL_PRODUCT_FUNCTORS(FOR, ROWS)        \
  FOR(WholeProductFunctor)                         \
  FOR(FiniteMaskFunctor<BFloat16>)                 \
  FOR(FiniteMaskFunctor<Float16>)                  \
  FOR(FiniteLogarithmsFunctor)                     \
  ROWS(BlockedMatMulFunctor)                       \
  ROWS(BlindRowsFunctor<BFloat16>)                 \
  ROWS(BlindRowsFunctor<Float16>)                  \
  ROWS(AttentionSharesFunctor)                     \
  ROWS(AttentionSlopesFunctor)                     \
  GPUPOOL_PRODUCT_FUNCTORS_OF(FOR, ROWS, float)    \
  GPUPOOL_PRODUCT_FUNCTORS_OF(FOR, ROWS, BFloat16) \
  GPUPOOL_PRODUCT_FUNCTORS_OF(FOR, ROWS, Float16)  \
  GPUPOOL_PRODUCT_FUNCTORS_OF(FOR, ROWS, double)
