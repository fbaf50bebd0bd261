// From a job file to a job on the server: the common part of `submit`, `run`
// and `compare`.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "client/cli/command/context.h"
#include "client/cli/command/job_argument.h"
#include "client/cli/models/data_options.h"
#include "gpupool/v1/job.pb.h"

namespace gpupool::client {

struct SubmitOptions {
  std::string file;
  std::string request_id;  // empty: a random one
  std::string name;        // overrides the file's, when not empty
  std::string queue;       // the same
  DataOptions data;
};

// Adds FILE, --name, --queue and --data.
void AddJobFileOptions(CLI::App& verb, SubmitOptions& options);
// Adds the same options and --request-id.
void AddSubmitOptions(CLI::App& verb, SubmitOptions& options);

// Reads the job file. A job without a name gets the file's name without folder
// and extension.
absl::StatusOr<v1::JobSpec> ReadJobFile(const std::string& path);

// Uploads the model file that the spec names, if there is one, and replaces its
// path by its digest. The path is relative to the job file's folder.
absl::Status EnsureModel(Context& context, Client& client,
                         const std::string& job_file, v1::JobSpec& spec);

// Reads the job file with the name and the queue of the options.
absl::StatusOr<v1::JobSpec> ReadJob(const SubmitOptions& options);

// Uploads the model of the spec and the data of the options if required.
absl::Status EnsureFiles(Context& context, Client& client,
                         const SubmitOptions& options, v1::JobSpec& spec);

// Submits a job, or an array if the spec describes one. The error about a
// missing dataset says what the user can do.
absl::StatusOr<JobOrArray> SubmitSpec(Client& client,
                                      const v1::SubmitJobRequest& request);

// Reads the file, uploads its model and data if required, and submits the job,
// or the array if the file describes one.
absl::StatusOr<JobOrArray> SubmitFile(Context& context, Client& client,
                                      const SubmitOptions& options);

}  // namespace gpupool::client
