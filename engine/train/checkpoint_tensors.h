// Which tensors of a training's weight store go into which file of its
// checkpoints. They point into the view of the store and hold as long as it
// does.
//
// Without averages "weights" has the model's tensors and "optimizer" the
// optimizer's state. With them "weights", which are what is served, has the
// averages under the names of the weights, and "optimizer" also has the
// weights themselves. Accumulated gradients are in none: a step begins anew.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "engine/runtime/weight_store.h"
#include "engine/runtime/weight_view.h"
#include "engine/train/checkpoint.h"

namespace gpupool::engine {

// In the order of the store's layout.
std::vector<TensorBytes> ModelTensors(const WeightView& weights);
std::vector<TensorBytes> OptimizerTensors(const WeightView& weights);

// Copies the weights into their averages, where there are any.
absl::Status StartAverages(const WeightStore& store);

}  // namespace gpupool::engine
