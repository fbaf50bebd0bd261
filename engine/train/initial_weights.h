// Sets the weights with which training begins. Pure but for the store.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "engine/import/model_source.h"
#include "engine/runtime/weight_store.h"

namespace gpupool::engine {

// Fills every persistent value of a new store by its initializer. Each takes
// its random numbers from its own Philox stream, derived from its name, so
// neither the order of the layers nor other layers' sizes change what it gets.
// Stored values are read from `source`. InvalidArgument when the store lacks a
// value; Unimplemented for element types other than float32 that begin with
// something else than zero or a stored value.
absl::Status SetInitialWeights(const ModelSource& source,
                               const std::vector<PersistentSpec>& persistents,
                               uint64_t seed, const WeightStore& store);

}  // namespace gpupool::engine
