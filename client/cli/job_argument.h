// The JOB argument of the verbs: a job's id, or its name.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "client/client.h"

namespace gpupool::client {

inline constexpr const char* kJobArgumentHelp =
    "The job: its id, or its name (then the newest job of that name)";

// The job that `text` names. NotFound when there is none.
absl::StatusOr<v1::Job> FindJob(Client& client, const std::string& text);

}  // namespace gpupool::client
