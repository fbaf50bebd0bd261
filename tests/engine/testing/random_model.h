// Random layer specs for property tests: always well formed.
#pragma once

#include <cstdint>

#include "gpupool/v1/model.pb.h"

namespace gpupool::engine::testing {

// A model of 2 to 9 layers over a small image or vector, fixed by the seed,
// that ends in a dense layer of 3 units on a flat input.
v1::ModelSpec RandomModel(uint64_t seed);

}  // namespace gpupool::engine::testing
