#undef NDEBUG
#include <cuda_runtime_api.h>

#include <cassert>

#include "tests/gpu/fault_kernels.h"

namespace gpupool::engine::testing {
namespace {

__global__ void WriteTo(volatile int* address) { *address = 1; }
__global__ void Assert(int number) { assert(number == 0); }
__global__ void Spin(volatile const int* flag) {
  while (*flag == 0) {
  }
}

__device__ int never_set = 0;

}  // namespace

int LaunchIllegalAddress() {
  WriteTo<<<1, 1>>>(reinterpret_cast<volatile int*>(0x100));
  return static_cast<int>(cudaGetLastError());
}

int LaunchAssert() {
  Assert<<<1, 1>>>(1);
  return static_cast<int>(cudaGetLastError());
}

int LaunchEndless() {
  void* flag = nullptr;
  const cudaError_t found = cudaGetSymbolAddress(&flag, never_set);
  if (found != cudaSuccess) return static_cast<int>(found);
  Spin<<<1, 1>>>(static_cast<const int*>(flag));
  return static_cast<int>(cudaGetLastError());
}

}  // namespace gpupool::engine::testing
