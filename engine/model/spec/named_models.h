// Models that go by a name: the layers that the name stands for. Pure.
#pragma once

#include "absl/status/statusor.h"
#include "gpupool/v1/model.pb.h"

namespace gpupool::engine {

// Returns `spec` with layers in place of `named`, and with the model's own
// input_shape if it has none. Errors are INVALID_ARGUMENT and begin with
// "named" and the model's name.
absl::StatusOr<v1::ModelSpec> ExpandNamed(const v1::ModelSpec& spec);

}  // namespace gpupool::engine
