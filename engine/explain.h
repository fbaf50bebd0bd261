// Reports what the graph compiler makes of a model, as text for people: the
// effect and time of each pass, the remaining nodes, the bytes of a run, and
// the nodes without a fast kernel. It reads files but computes nothing of the
// model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"

namespace gpupool::engine {

struct ExplainOptions {
  // An ONNX file (".onnx"), or a ModelSpec as JSON.
  std::string model_path;
  int64_t batch = 1;
  // Explains the training step, with the loss that fits the output and SGD with
  // momentum, instead of inference.
  bool training = false;
  std::string precision = "highest";  // or "high", "bf16", "fp16"
  // ONNX: the sizes of named dimensions.
  absl::flat_hash_map<std::string, int64_t> dimensions;
  bool passes = false;           // adds a line for each pass
  bool dump = false;             // adds the graph after the last pass
  std::vector<std::string> off;  // passes to skip
  std::vector<std::string> recompute_layers;  // PassOptions::recompute
  uint64_t recompute_budget_bytes = 0;
  int threads = 1;
};

// Returns the report. Errors of the model as ModelSource::Open and Build;
// NOT_FOUND for a missing file.
absl::StatusOr<std::string> Explain(const ExplainOptions& options);

}  // namespace gpupool::engine
