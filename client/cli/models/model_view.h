// Text about models and their versions.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cli/command/context.h"
#include "client/cli/output/console.h"
#include "gpupool/v1/model.pb.h"

namespace gpupool::client {

// Returns "ready", "load failed", ...
std::string VersionStateText(v1::VersionState state);

// Prints one line per version.
void PrintVersions(const Stream& stream, bool headers,
                   const v1::ListModelsResponse& models, absl::Time now);

// Returns a sentence for each version that is ready beside a newer one of its
// model. It keeps its memory, but requests without a version go to the newer.
std::vector<std::string> IdleVersions(const v1::Model& model);

void PrintVersion(const Stream& stream, bool headers,
                  const v1::ModelVersion& version, absl::Time now);

// Prints the version and returns the exit code. A version that could not be
// loaded is a failure.
int ReportVersion(Context& context, const v1::ModelVersion& version);

// A version on the command line, "digits" or "digits/3". `version` is 0 when
// none is named. InvalidArgument for "digits/x".
struct VersionName {
  std::string model;
  uint64_t version = 0;
};
absl::StatusOr<VersionName> ParseVersionName(const std::string& text);

}  // namespace gpupool::client
