// Text about arrays of jobs.
#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/cli/output/console.h"
#include "gpupool/v1/job.pb.h"

namespace gpupool::client {

// Returns "2 running, 5 queued, 1 succeeded".
std::string CountsText(const v1::JobArray& array);
// Returns "8 tasks (0-7), at most 2 at once".
std::string TasksText(const v1::JobArray& array);

// Prints everything about one array, one fact per line.
void PrintArray(const Stream& stream, const v1::JobArray& array,
                absl::Time now);

// Returns SUCCEEDED when all tasks have succeeded, FAILED when all have ended
// and one has not succeeded, else RUNNING.
v1::JobState StateOf(const v1::JobArray& array);

}  // namespace gpupool::client
