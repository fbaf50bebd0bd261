// gpupool logs --mlflow: sends the curves of a job to an MLflow server.
#pragma once

#include <string>

#include "client/cli/command/context.h"
#include "client/cli/jobs/log_source.h"

namespace gpupool::client {

inline constexpr char kDefaultExperiment[] = "gpupool";

struct MlflowOptions {
  std::string url;  // of the server; valid for ParseTrackingUrl
  std::string experiment = kDefaultExperiment;
};

// Sends the job's params and those of its points that its run does not have,
// and the status of the run if the job has ended. Prints what was sent. Returns
// the exit code.
int SendToMlflow(Context& context, const LogSource& read,
                 const MlflowOptions& options);

}  // namespace gpupool::client
