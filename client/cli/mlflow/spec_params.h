// The spec of a job as params of a run. Pure.
#pragma once

#include <cstddef>

#include "client/cli/mlflow/run_messages.h"

namespace gpupool::v1 {
class JobSpec;
}

namespace gpupool::client {

// The most params of one job. A model of thousands of layers has more fields.
inline constexpr size_t kMostSpecParams = 1000;

// Returns the fields of the spec that are set, those of the model last.
//   - A key is the path of a field, as in "training.adam.learning_rate". Items
//     of a list of messages have their index, as in "model.layers.0.conv2d".
//   - A list of numbers or texts is one param, as in "1, 8, 8".
//   - A message without fields that are set is "{}".
//   - Texts that are empty have no param.
// Keys and values are cut as entity_names.h says. Of keys that are the same
// then, the first one is kept. At most kMostSpecParams are returned.
KeyValues SpecParams(const v1::JobSpec& spec);

}  // namespace gpupool::client
