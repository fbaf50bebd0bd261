// What the graph compiler makes of a model, as text for people: what each pass
// did and how long it took, what nodes are left, how many bytes a run needs and
// which nodes have no fast kernel. Reads files, computes nothing of the model.
// Pure but for that and for the clock.
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
  // The training step, with the loss that fits the output and SGD with
  // momentum, not inference.
  bool training = false;
  std::string precision = "highest";  // or "high", "bf16", "fp16"
  // ONNX: sizes of named dimensions.
  absl::flat_hash_map<std::string, int64_t> dimensions;
  bool passes = false;                        // one line per pass
  bool dump = false;                          // the graph after the last pass
  std::vector<std::string> off;               // passes to skip
  std::vector<std::string> recompute_layers;  // PassOptions::recompute
  uint64_t recompute_budget_bytes = 0;
  int threads = 1;
};

// Errors of the model as ModelSource::Open and Build; NotFound for a file that
// is not there.
absl::StatusOr<std::string> Explain(const ExplainOptions& options);

}  // namespace gpupool::engine
