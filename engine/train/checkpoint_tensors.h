// Which tensors of a training's weight store go into which file of its
// checkpoints. Views into the store: they hold as long as it does.
//
// Without averages "weights" has the model's tensors and "optimizer" the
// optimizer's state. With them "weights", which are what is served, has the
// averages under the names of the weights, and "optimizer" also has the
// weights themselves. Accumulated gradients are in none: a step begins anew.
#pragma once

#include <vector>

#include "engine/runtime/weight_store.h"
#include "engine/train/checkpoint.h"

namespace gpupool::engine {

// In the order of the store's layout.
std::vector<TensorBytes> ModelTensors(const WeightStore& store);
std::vector<TensorBytes> OptimizerTensors(const WeightStore& store);

// Copies the weights into their averages, where there are any.
void StartAverages(const WeightStore& store);

}  // namespace gpupool::engine
