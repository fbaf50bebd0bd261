// Describes a model that runs in stages by its stages: inputs, outputs, weights
// and layers. Belongs to one thread.
#pragma once

#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "engine/model/layer_spec.h"
#include "engine/serving/inference_programs.h"

namespace gpupool::engine {

class StageSummary {
 public:
  // Fills in `programs`, which must outlive it.
  explicit StageSummary(InferencePrograms& programs) : programs_(programs) {}

  // Adds a stage. The first one describes the inputs, the last ones of all ways
  // the outputs. INVALID_ARGUMENT when two ways give an output another type or
  // another number of dimensions, or when it could have too many elements;
  // names the output and the node that chose the way.
  absl::Status Add(const ModelGraph& stage);
  // Makes all dimensions of the outputs vary up to the largest that was added.
  void Finish();

 private:
  absl::Status AddOutputs(const ModelGraph& last);

  InferencePrograms& programs_;
  absl::flat_hash_set<std::string> names_;  // of persistents
  std::string chooser_;                     // the node of the last branch
  bool any_ = false;
};

}  // namespace gpupool::engine
