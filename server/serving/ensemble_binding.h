// An ensemble whose steps have found their versions: which input and output of
// which version each tensor is, and what the ensemble takes and gives.
//
// Pure functions. A binding pins no version, so that versions can be unloaded.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/serving/ensemble_graph.h"
#include "server/serving/ensemble_spec.h"
#include "server/serving/model_registry.h"

namespace gpupool::server {

struct BoundStep {
  std::weak_ptr<ServedVersion> version;
  std::string text;  // for messages: "step 2 (model 'net' version 3)"
  // Tensors of the graph, by the position in the version's formats.
  std::vector<int> inputs;
  std::vector<int> outputs;  // -1: nobody wants it
};

struct EnsembleBinding {
  std::shared_ptr<const EnsembleGraph> graph;
  std::vector<BoundStep> steps;
  VersionFacts facts;      // of the ensemble; without an id
  uint64_t row_bytes = 0;  // of all tensors that steps give, for one row
};

// Binds the steps to these versions, one for each. Errors are InvalidArgument
// and name the step and the tensor:
//   * a version is an ensemble, is decoupled, or has dimensions of several
//     sizes
//   * a step names a tensor that its version does not have, or leaves an input
//     out
//   * types or shapes of a tensor differ where it is given, where it is read or
//     as it is declared; -1 fits every size
//   * some versions have a batch dimension and some do not, or one takes fewer
//     rows than the ensemble
absl::StatusOr<EnsembleBinding> BindEnsemble(
    const EnsembleSpec& spec, std::shared_ptr<const EnsembleGraph> graph,
    absl::Span<const VersionHandle> versions);

// Returns whether requests that one of them takes are taken by the other.
bool TakeTheSame(const VersionFacts& a, const VersionFacts& b);

}  // namespace gpupool::server
