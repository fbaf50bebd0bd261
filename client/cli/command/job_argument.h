// The JOB argument of the verbs: a job's id, its name, or an array.
#pragma once

#include <string>
#include <variant>

#include "absl/status/statusor.h"
#include "client/client.h"

namespace gpupool::client {

inline constexpr const char* kJobArgumentHelp =
    "The job: its id, its name (the newest job with that name), or ARRAY_I for "
    "task I of an array";
inline constexpr const char* kJobOrArrayHelp =
    "The job: its id, its name (the newest job with that name), ARRAY_I for "
    "task I of an array, or an array's id for all its tasks";

// Returns the job that `text` names. NotFound when there is none,
// InvalidArgument when `text` names an array.
absl::StatusOr<v1::Job> FindJob(Client& client, const std::string& text);

using JobOrArray = std::variant<v1::Job, v1::JobArray>;
absl::StatusOr<JobOrArray> FindJobOrArray(Client& client,
                                          const std::string& text);

}  // namespace gpupool::client
