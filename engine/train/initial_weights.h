// Sets the initial weights of training. Pure except for the store.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "engine/model/model_source.h"
#include "engine/runtime/weight_store.h"

namespace gpupool::engine {

// Fills every persistent value of a new store by its initializer. Each value
// takes its random numbers from its own Philox stream, derived from its name,
// so neither the order nor the sizes of other layers affect them. Stored values
// are read from `source`.
//   INVALID_ARGUMENT  the store lacks a value
//   UNIMPLEMENTED     an element type other than float32 begins with something
//                     else than zero or a stored value
absl::Status SetInitialWeights(const ModelSource& source,
                               const std::vector<PersistentSpec>& persistents,
                               uint64_t seed, const WeightStore& store);

}  // namespace gpupool::engine
