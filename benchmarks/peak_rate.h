// The arithmetic limit of one core, for the floor beside measured times.
// Thread-safe.
#pragma once

#include <cstdint>

namespace gpupool {

// Runs `rounds` rounds of float32 multiply-adds with the widest vectors of
// this machine; returns how many multiplications and additions that were.
// `result` holds a factor below 1 and takes a sum that is to be used: nobody
// may leave the work out.
int64_t MultiplyAdd(int64_t rounds, float* result);

}  // namespace gpupool
