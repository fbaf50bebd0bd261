// The arithmetic limit of one core, for the floor of measured times.
// Thread-safe.
#pragma once

#include <cstdint>

namespace gpupool {

// Runs `rounds` rounds of float32 multiply-adds with the widest vectors of this
// machine, and returns the number of multiplications and additions. `result`
// must hold a factor below 1 and receives a sum. The caller must use the sum,
// so that the compiler cannot remove the work.
int64_t MultiplyAdd(int64_t rounds, float* result);

}  // namespace gpupool
