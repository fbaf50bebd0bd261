// The graph of an ensemble: its spec with the names resolved, so that it says
// which step waits for which.
//
// Pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/serving/ensemble_spec.h"

namespace gpupool::server {

struct EnsembleGraph {
  static constexpr int kNoStep = -1;

  struct Tensor {
    std::string name;
    int producer = kNoStep;    // kNoStep: an input of the ensemble
    std::vector<int> readers;  // steps, one entry for each input
    bool is_output = false;    // of the ensemble
  };
  // A tensor of the ensemble, and the name that it has in a step's model.
  struct Use {
    std::string name;
    int tensor = 0;
  };
  struct Step {
    std::vector<Use> inputs;
    std::vector<Use> outputs;
    int waits = 0;  // inputs that other steps give
  };

  std::vector<Tensor> tensors;  // begins with the ensemble's inputs, in order
  std::vector<Step> steps;      // in the order of the spec
  std::vector<int> outputs;     // the ensemble's outputs, in order
};

// Makes the graph. Errors are InvalidArgument and name the step and the tensor:
//   * too many steps, tensors, or steps that follow one another
//   * a step without inputs or outputs
//   * a tensor that is given twice, or read and never given
//   * an input that no step reads, an output that no step gives
//   * steps that wait for each other
absl::StatusOr<EnsembleGraph> MakeEnsembleGraph(const EnsembleSpec& spec);

// Returns the name in quotes. It comes from a file and may be anything.
std::string NameText(absl::string_view name);
// Returns "step 2 (model 'net')" for the index 1.
std::string StepText(const EnsembleSpec& spec, size_t step);

}  // namespace gpupool::server
