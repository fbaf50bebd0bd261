// Arrays of jobs as people read them.
#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/cli/output/console.h"
#include "gpupool/v1/job.pb.h"

namespace gpupool::client {

// "2 running, 5 queued, 1 succeeded".
std::string CountsText(const v1::JobArray& array);
// "8 tasks (0-7), at most 2 at once".
std::string TasksText(const v1::JobArray& array);

// All of one array, a line a fact.
void PrintArray(const Stream& stream, const v1::JobArray& array,
                absl::Time now);

// SUCCEEDED when all tasks have, FAILED when all have ended and one has not;
// else RUNNING.
v1::JobState StateOf(const v1::JobArray& array);

}  // namespace gpupool::client
