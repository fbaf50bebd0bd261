// Defines the launches of portable/launch/launch.h as CUDA kernels. Only the .cu files
// that instantiate them include this, one for each family.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "engine/backends/portable/launch/group.h"
#include "engine/backends/portable/launch/launch.h"

namespace gpupool::engine::portable {

inline constexpr int kForThreads = 256;
// Several waves of blocks on the largest chips. Each thread covers the
// remaining indices in steps of the grid.
inline constexpr int64_t kMaxForBlocks = 4096;
inline constexpr int kRowThreads = kGroupLanes;
inline constexpr int64_t kMaxRowBlocks = 1 << 20;
inline constexpr int kWarp = 32;

// The group of a row: the threads of a block. Has the members of SingleLane.
class BlockGroup {
 public:
  __device__ int lane() const { return static_cast<int>(threadIdx.x); }
  __device__ int lanes() const { return kRowThreads; }

  template <typename T>
  __device__ T Sum(T value) const {
    return Combine(value, Add<T>());
  }
  template <typename T>
  __device__ T Max(T value) const {
    return Combine(value, Larger<T>());
  }
  template <typename T>
  __device__ T SumOfColumn(T value, int columns) const {
    return CombineColumn(value, columns, Add<T>());
  }
  template <typename T>
  __device__ T MaxOfColumn(T value, int columns) const {
    return CombineColumn(value, columns, Larger<T>());
  }
  __device__ void Meet() const { __syncthreads(); }

 private:
  template <typename T>
  struct Add {
    __device__ T operator()(T a, T b) const { return a + b; }
  };
  // NaN wins, as it does in a sum.
  template <typename T>
  struct Larger {
    __device__ T operator()(T a, T b) const { return a != a || a > b ? a : b; }
  };

  // Combines in a tree of fixed form, so that the result is the same in every
  // run.
  template <typename T, typename Operation>
  __device__ T CombineColumn(T value, int columns,
                             const Operation& operation) const {
    if (columns == 1) return Combine(value, operation);
    __shared__ T cells[kRowThreads];
    __syncthreads();  // until all lanes have read the previous results
    cells[threadIdx.x] = value;
    __syncthreads();
    for (int step = kRowThreads / 2; step >= columns; step /= 2) {
      if (threadIdx.x < step) {
        cells[threadIdx.x] =
            operation(cells[threadIdx.x], cells[threadIdx.x + step]);
      }
      __syncthreads();
    }
    return cells[threadIdx.x % columns];
  }

  // Does the same over all lanes.
  template <typename T, typename Operation>
  __device__ T Combine(T value, const Operation& operation) const {
    __shared__ T parts[kRowThreads / kWarp];
    for (int step = kWarp / 2; step > 0; step /= 2) {
      value = operation(value, __shfl_xor_sync(0xffffffffu, value, step));
    }
    __syncthreads();  // until all lanes have read the previous parts
    if (threadIdx.x % kWarp == 0) parts[threadIdx.x / kWarp] = value;
    __syncthreads();
    T result = parts[0];
    for (int i = 1; i < kRowThreads / kWarp; ++i) {
      result = operation(result, parts[i]);
    }
    return result;
  }
};

template <typename Functor>
__global__ void __launch_bounds__(kForThreads)
    ForKernel(int64_t count, const __grid_constant__ Functor functor) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kForThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kForThreads + threadIdx.x;
       i < count; i += stride) {
    functor(i);
  }
}

template <typename Functor>
__global__ void __launch_bounds__(kRowThreads)
    RowsKernel(int64_t rows, const __grid_constant__ Functor functor) {
  const BlockGroup group;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    functor(group, row);
  }
}

// A launch that fails is noticed when the run is finished.
template <typename Functor>
void LaunchFor(LaunchStream stream, int64_t count, const Functor& functor) {
  static_assert(std::is_trivially_copyable_v<Functor> &&
                sizeof(Functor) <= kMaxFunctorBytes);
  if (count <= 0) return;
  const int64_t blocks =
      std::min(kMaxForBlocks, (count + kForThreads - 1) / kForThreads);
  ForKernel<Functor>
      <<<static_cast<unsigned>(blocks), kForThreads, 0,
         static_cast<cudaStream_t>(stream.handle)>>>(count, functor);
}

template <typename Functor>
void LaunchRows(LaunchStream stream, int64_t rows, const Functor& functor) {
  static_assert(std::is_trivially_copyable_v<Functor> &&
                sizeof(Functor) <= kMaxFunctorBytes);
  if (rows <= 0) return;
  const int64_t blocks = std::min(kMaxRowBlocks, rows);
  RowsKernel<Functor>
      <<<static_cast<unsigned>(blocks), kRowThreads, 0,
         static_cast<cudaStream_t>(stream.handle)>>>(rows, functor);
}

}  // namespace gpupool::engine::portable

// Variadic, since a functor's name may contain commas.
#define GPUPOOL_INSTANTIATE_FOR(...)                          \
  template void LaunchFor<__VA_ARGS__>(LaunchStream, int64_t, \
                                       const __VA_ARGS__&);
#define GPUPOOL_INSTANTIATE_ROWS(...)                          \
  template void LaunchRows<__VA_ARGS__>(LaunchStream, int64_t, \
                                        const __VA_ARGS__&);
