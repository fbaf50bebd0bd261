// Reads from a config.pbtxt what an ensemble is.
//
// Pure functions; any thread.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "inference/model_config.pb.h"
#include "server/serving/ensemble_spec.h"

namespace gpupool::server {

// Requests that an ensemble works on at a time, if max_inflight_requests is 0.
inline constexpr uint32_t kDefaultEnsemblesInFlight = 1024;
inline constexpr uint32_t kMostEnsemblesInFlight = 1 << 16;

// Returns whether the config says that the model is an ensemble.
bool IsEnsemble(const inference::ModelConfig& config);

// The model whose config is read.
struct EnsembleFolder {
  absl::string_view model;
  uint64_t version = 0;
};

// Returns the ensemble of a config whose fields CheckConfigFields takes, and
// whose steps make a graph. InvalidArgument has the path of the field or the
// step, its value, what is allowed and what to do.
absl::StatusOr<EnsembleSpec> ReadEnsemble(const EnsembleFolder& folder,
                                          const inference::ModelConfig& config);

}  // namespace gpupool::server
