// Products of small matrices that lie in the cache, for Winograd's algorithm.
#if defined(GPUPOOL_ENGINE_BACKENDS_CPU_WINOGRAD_GEMM_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef GPUPOOL_ENGINE_BACKENDS_CPU_WINOGRAD_GEMM_INL_H_
#undef GPUPOOL_ENGINE_BACKENDS_CPU_WINOGRAD_GEMM_INL_H_
#else
#define GPUPOOL_ENGINE_BACKENDS_CPU_WINOGRAD_GEMM_INL_H_
#endif

#include <cstdint>

#include "engine/backends/cpu/kernel/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gpupool::engine {
namespace HWY_NAMESPACE {

// Returns the columns of a panel. Two vectors of columns times the rows of a
// group fill the registers, which reuses each loaded number enough.
HWY_INLINE int64_t PanelColumns() { return 2 * FloatLanes(); }

// c [rows, columns] = a [rows, depth] b [depth, columns], or += with `add`. The
// other members are distances in numbers between rows or between steps of
// depth.
struct PanelProduct {
  int64_t rows, depth;
  int64_t a_row, a_depth, b_depth, c_row;
  bool add;
};

template <int kRows, int kVectors>
HWY_INLINE void MultiplyRows(const PanelProduct& p, const float* a,
                             const float* b, float* c) {
  const FloatTag d;
  FloatVector sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      sum[r][v] = p.add ? hn::LoadU(d, c + r * p.c_row + v * FloatLanes())
                        : hn::Zero(d);
    }
  }
  for (int64_t k = 0; k < p.depth; ++k) {
    FloatVector row[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      row[v] = hn::LoadU(d, b + v * FloatLanes());
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const FloatVector factor = hn::Set(d, a[r * p.a_row]);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        sum[r][v] = hn::MulAdd(factor, row[v], sum[r][v]);
      }
    }
    a += p.a_depth;
    b += p.b_depth;
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      hn::StoreU(sum[r][v], d, c + r * p.c_row + v * FloatLanes());
    }
  }
}

template <int kVectors>
HWY_INLINE void MultiplyColumns(const PanelProduct& p, const float* a,
                                const float* b, float* c) {
  constexpr int kGroup = HWY_TARGET <= HWY_AVX3 ? 8 : 6;
  int64_t r = 0;
  for (; r + kGroup <= p.rows; r += kGroup) {
    MultiplyRows<kGroup, kVectors>(p, a + r * p.a_row, b, c + r * p.c_row);
  }
  for (; r + 2 <= p.rows; r += 2) {
    MultiplyRows<2, kVectors>(p, a + r * p.a_row, b, c + r * p.c_row);
  }
  if (r < p.rows) {
    MultiplyRows<1, kVectors>(p, a + r * p.a_row, b, c + r * p.c_row);
  }
}

// Multiplies one panel. `columns` must be one or two vectors.
HWY_INLINE void MultiplyPanel(const PanelProduct& p, int64_t columns,
                              const float* a, const float* b, float* c) {
  if (columns == PanelColumns()) return MultiplyColumns<2>(p, a, b, c);
  MultiplyColumns<1>(p, a, b, c);
}

}  // namespace HWY_NAMESPACE
}  // namespace gpupool::engine
HWY_AFTER_NAMESPACE();

#endif  // GPUPOOL_ENGINE_BACKENDS_CPU_WINOGRAD_GEMM_INL_H_
