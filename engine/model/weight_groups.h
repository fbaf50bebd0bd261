// The optimizer's options of each weight, by TrainingSpec.groups and
// .decay_biases_and_norms. Pure.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/autodiff/step_tail.h"
#include "engine/graph/graph.h"

namespace gpupool::v1 {
class TrainingSpec;
}  // namespace gpupool::v1

namespace gpupool::engine {

// Returns the options of each of the parameters, which are weights of the
// graph:
// - the learning rate's factor from the first group that matches its name
// - the weight decay from that group; without one, 0 for a weight with fewer
//   than two dimensions that is not decayed, else the optimizer's
// A group may name weights that are not trained.
//   INVALID_ARGUMENT  a pattern matches no weight of the model (lists similar
//                     names), a group names no weights, or a number is out of
//                     range
absl::StatusOr<std::vector<ParameterOptions>> OptionsOfWeights(
    const v1::TrainingSpec& training, const Graph& graph,
    absl::Span<const ValueId> parameters);

}  // namespace gpupool::engine
