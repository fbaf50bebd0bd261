// Walks over several operands through nested loops by a linear index. (Host and
// device; plain C++.)
//
// Indices of at most 31 bits are divided by loop sizes with a multiplication
// (Granlund and Montgomery, "Division by Invariant Integers using
// Multiplication", PLDI 1994).
#pragma once

#include <cstdint>

#include "engine/backends/portable/arithmetic/host_device.h"
#include "engine/base/tensor_limits.h"

namespace gpupool::engine::portable {

// One loop for each axis.
inline constexpr int kMaxLoops = kMaxRank;

// Divides n by divisor, for 0 <= n < 2^31 and 1 <= divisor < 2^31.
struct FastDivisor {
  uint32_t divisor = 1;
  uint32_t multiplier = 1;
  uint32_t shift = 0;

  GPUPOOL_HOST_DEVICE static FastDivisor Of(uint32_t divisor) {
    FastDivisor fast;
    fast.divisor = divisor;
    while ((uint64_t{1} << fast.shift) < divisor) ++fast.shift;
    const uint64_t excess = (uint64_t{1} << fast.shift) - divisor;
    fast.multiplier = static_cast<uint32_t>((excess << 32) / divisor + 1);
    return fast;
  }
  GPUPOOL_HOST_DEVICE uint32_t Divide(uint32_t n) const {
    const auto high =
        static_cast<uint32_t>(uint64_t{n} * uint64_t{multiplier} >> 32);
    return (high + n) >> shift;
  }
};

// Nested loops, outermost first. A step of a loop moves each operand by a
// number of elements. The linear index counts the innermost loop first.
template <int kOperands>
struct Walk {
  int32_t loops = 0;
  bool wide = false;  // indices beyond 31 bits
  FastDivisor fast[kMaxLoops];
  int64_t sizes[kMaxLoops];
  int64_t strides[kOperands][kMaxLoops];

  // Sets at[k] to the offset of operand k at `index`.
  GPUPOOL_HOST_DEVICE void Find(int64_t index, int64_t* at) const {
    for (int k = 0; k < kOperands; ++k) at[k] = 0;
    if (wide) return FindWide(index, at);
    auto rest = static_cast<uint32_t>(index);
    GPUPOOL_ROLLED
    for (int loop = loops - 1; loop > 0; --loop) {
      const uint32_t quotient = fast[loop].Divide(rest);
      const auto step =
          static_cast<int64_t>(rest - quotient * fast[loop].divisor);
      for (int k = 0; k < kOperands; ++k) at[k] += step * strides[k][loop];
      rest = quotient;
    }
    if (loops > 0) {
      for (int k = 0; k < kOperands; ++k) at[k] += rest * strides[k][0];
    }
  }

  // Returns the offset of one operand.
  GPUPOOL_HOST_DEVICE int64_t FindOne(int64_t index, int k) const {
    int64_t at = 0;
    if (wide) {
      GPUPOOL_ROLLED
      for (int loop = loops - 1; loop >= 0; --loop) {
        at += index % sizes[loop] * strides[k][loop];
        index /= sizes[loop];
      }
      return at;
    }
    auto rest = static_cast<uint32_t>(index);
    GPUPOOL_ROLLED
    for (int loop = loops - 1; loop > 0; --loop) {
      const uint32_t quotient = fast[loop].Divide(rest);
      at += static_cast<int64_t>(rest - quotient * fast[loop].divisor) *
            strides[k][loop];
      rest = quotient;
    }
    return loops > 0 ? at + rest * strides[k][0] : 0;
  }

  // Calls visit(offset of operand 0) for the indices k, k + step, ... below
  // `end`. One or two loops are handled without an inner loop, so that loads
  // overlap.
  template <typename Visitor>
  GPUPOOL_HOST_DEVICE void ForEach(int64_t k, int64_t end, int64_t step,
                                   const Visitor& visit) const {
    if (loops == 1) {
      const int64_t stride = strides[0][0];
      GPUPOOL_UNROLL
      for (; k < end; k += step) visit(k * stride);
    } else if (loops == 2 && !wide) {
      const int64_t outer = strides[0][0], inner = strides[0][1];
      GPUPOOL_UNROLL
      for (; k < end; k += step) {
        const auto index = static_cast<uint32_t>(k);
        const uint32_t quotient = fast[1].Divide(index);
        visit(quotient * outer + (index - quotient * fast[1].divisor) * inner);
      }
    } else {
      GPUPOOL_ROLLED
      for (; k < end; k += step) visit(FindOne(k, 0));
    }
  }

 private:
  GPUPOOL_HOST_DEVICE void FindWide(int64_t index, int64_t* at) const {
    GPUPOOL_ROLLED
    for (int loop = loops - 1; loop >= 0; --loop) {
      const int64_t step = index % sizes[loop];
      for (int k = 0; k < kOperands; ++k) at[k] += step * strides[k][loop];
      index /= sizes[loop];
    }
  }
};

// The coordinates of a linear index by axis. The last axis is the innermost.
struct Grid {
  int32_t axes = 0;
  bool wide = false;
  FastDivisor fast[kMaxLoops];
  int64_t sizes[kMaxLoops];

  GPUPOOL_HOST_DEVICE void Split(int64_t index, int64_t* at) const {
    SplitInto(axes, index, at);
  }
  // Does the same for a grid of kAxes axes. The coordinates stay in registers.
  template <int kAxes>
  GPUPOOL_HOST_DEVICE void SplitFixed(int64_t index, int64_t* at) const {
    SplitInto(kAxes, index, at);
  }

 private:
  GPUPOOL_HOST_DEVICE void SplitInto(int count, int64_t index,
                                     int64_t* at) const {
    if (wide) {
      for (int axis = count - 1; axis >= 0; --axis) {
        at[axis] = index % sizes[axis];
        index /= sizes[axis];
      }
      return;
    }
    auto rest = static_cast<uint32_t>(index);
    for (int axis = count - 1; axis >= 0; --axis) {
      const uint32_t quotient = fast[axis].Divide(rest);
      at[axis] = rest - quotient * fast[axis].divisor;
      rest = quotient;
    }
  }
};

}  // namespace gpupool::engine::portable
