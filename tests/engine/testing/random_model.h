// Random layer specs for property tests. They are always valid.
#pragma once

#include <cstdint>

#include "gpupool/v1/model.pb.h"

namespace gpupool::engine::testing {

// Returns a model of 2 to 9 layers over a small image or vector, determined by
// the seed. It ends in a dense layer of 3 units on a flat input.
v1::ModelSpec RandomModel(uint64_t seed);

}  // namespace gpupool::engine::testing
