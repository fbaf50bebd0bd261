// Checks the form of job and model specifications; see convert.h for the rules
// of the answers.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gpupool/v1/job.pb.h"
#include "gpupool/v1/model.pb.h"
#include "server/control/jobs/array_spec.h"

namespace gpupool::server {

// Checks the spec. Fills in tenant, retry and serving defaults, so that equal
// requests give equal specifications.
absl::Status CheckJobSpec(v1::JobSpec* spec);

// Returns the tasks of a spec with an array, each as CheckJobSpec leaves it.
// Sets the tenant of the spec itself. Errors name the task.
absl::StatusOr<std::vector<ArrayTask>> CheckArraySpec(v1::JobSpec* spec);

// Checks sizes, and that layer names are well-formed and unique.
absl::Status CheckModelSpec(absl::string_view field, const v1::ModelSpec& spec);

}  // namespace gpupool::server
