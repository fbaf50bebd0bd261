// The exit codes of `gpupool`: a contract with scripts. Pure.
#pragma once

#include "absl/status/status.h"
#include "gpupool/v1/job.pb.h"

namespace gpupool::client {

enum ExitCode {
  kOk = 0,
  kFailure = 1,        // the job failed, or an error without a code of its own
  kUsage = 2,          // the command line, or a file that it names, is wrong
  kNotFound = 3,       // no such job, model, dataset, device or file
  kDenied = 4,         // not allowed
  kUnreachable = 5,    // no server, or it is starting or draining
  kConflict = 6,       // exists with other content, or is in the wrong state
  kExhausted = 7,      // a limit is reached; a later try may succeed
  kTimedOut = 124,     // the time limit ran out, as with timeout(1)
  kInterrupted = 130,  // Ctrl-C (128 + SIGINT)
};

// Returns the exit code for a status code. This is the only such table.
ExitCode ExitCodeFor(const absl::Status& status);

// Returns the exit code of `run` and `wait` for a job: kOk when it succeeded,
// kFailure when it failed, was cancelled or has not ended.
ExitCode ExitCodeFor(v1::JobState state);

}  // namespace gpupool::client
