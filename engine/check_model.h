// Checks a model without a server: what it is, whether it can be served and
// trained, what that takes, and what its exporter may have changed. Runs the
// planning code that the server runs, for a CPU.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "engine/session.h"
#include "gpupool/v1/model_check.pb.h"

namespace gpupool::engine {

struct CheckOptions {
  // A chain of layers, or an ONNX file as the path in onnx.file.
  v1::ModelSpec spec;
  ServingLimits serving;
  uint32_t training_batch = 32;
  int threads = 1;
};

// Returns the report. A model that cannot be served or trained is no error.
// Errors of a file that is no model as ModelSource::Open.
absl::StatusOr<v1::ModelCheck> CheckModel(const CheckOptions& options);

}  // namespace gpupool::engine
