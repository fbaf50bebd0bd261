// The assignment of a weight store's tensors to the files of a checkpoint. The
// returned tensors refer to the view of the store and are valid as long as it
// is.
//
// Without averages, "weights" has the model's tensors and "optimizer" the
// optimizer's state. With averages, "weights", which is served, has the
// averages under the names of the weights, and "optimizer" also has the
// weights. Neither has accumulated gradients, because checkpoints are made
// between steps.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "engine/runtime/weight_store.h"
#include "engine/runtime/weight_view.h"
#include "engine/train/checkpoint.h"

namespace gpupool::engine {

// Return the tensors in the order of the store's layout.
std::vector<TensorBytes> ModelTensors(const WeightView& weights);
std::vector<TensorBytes> OptimizerTensors(const WeightView& weights);

// Copies the weights into their averages, if there are any.
absl::Status StartAverages(const WeightStore& store);

}  // namespace gpupool::engine
