// The options that describe a model file, shared by `models upload`, `plan` and
// `check`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/models/served_sizes.h"
#include "gpupool/v1/model.pb.h"

namespace gpupool::client {

struct ModelFileOptions {
  std::string file;
  SizeTexts sizes;
  std::vector<std::string> unbatched_inputs;
  uint32_t max_batch_size = 0;
  uint32_t max_programs = 0;
  std::string precision = "highest";
};

// Adds FILE, --dimension, --pad, --bound, --unbatched-input, --max-batch-size,
// --max-programs and --precision.
void AddModelFileOptions(CLI::App& verb, ModelFileOptions& options);

// Returns the precision with this name. `name` is one of the option's choices.
v1::Precision PrecisionOf(const std::string& name);

// Returns the model's spec. An ONNX file is named in onnx.file and not opened.
// A YAML file holds a chain of layers. INVALID_ARGUMENT if it is given with an
// option that describes an ONNX file.
absl::StatusOr<v1::ModelSpec> ReadModelSpec(const ModelFileOptions& options);

}  // namespace gpupool::client
