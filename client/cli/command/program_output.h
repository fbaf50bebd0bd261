// Runs another program on this machine and returns its output.
//
// Thread-safety: any thread. Blocks until the program has ended.
#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace gpupool::client {

struct ProgramOutput {
  int exit_code = 0;  // 128 plus the signal's number if a signal ended it
  int signal = 0;     // the signal that ended it; 0: none
  std::string text;   // standard output, up to 4 MiB
};

// Starts arguments[0], a path, without a shell. Its standard error is ours.
// Kills its children that still run when it ends or is killed.
//   NOT_FOUND          there is no such program
//   UNAVAILABLE        the system cannot start it
//   DEADLINE_EXCEEDED  it did not end within `limit`, and was killed
//   CANCELLED          `stop` was requested, and it was killed
absl::StatusOr<ProgramOutput> RunProgram(
    const std::vector<std::string>& arguments, absl::Duration limit,
    std::stop_token stop);

}  // namespace gpupool::client
