// Reads from a config.pbtxt how to serve: options, device and choice of
// versions.
//
// Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gpupool/v1/model.pb.h"
#include "inference/model_config.pb.h"

namespace gpupool::server {

// The versions of a model that are served.
struct VersionChoice {
  // Number of newest versions; 0: all, or those in `specific`.
  uint32_t newest = 1;
  std::vector<uint64_t> specific;

  // Returns the chosen ones of `numbers`, rising.
  std::vector<uint64_t> Of(std::vector<uint64_t> numbers) const;
};

struct ConfiguredServing {
  // With defaults. What stands in files of the folder is missing: initial
  // states (ReadInitialStates) and labels (ReadLabels).
  v1::ServingOptions serving;
  std::string device;  // as LoadVersionRequest.device; may be empty
  VersionChoice versions;
  bool response_cache = false;  // whether answers are kept
  // Fields that only advise another server, each with the reason.
  std::vector<std::string> notes;
};

// Returns what a config whose fields CheckConfigFields takes says about the
// model of this name. An empty config says the defaults. InvalidArgument has
// the path of the field, its value, what is allowed and what to do.
absl::StatusOr<ConfiguredServing> ReadConfiguredServing(
    absl::string_view model, const inference::ModelConfig& config);

}  // namespace gpupool::server
