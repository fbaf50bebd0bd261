// Runs another program of this machine and takes what it prints.
//
// Thread-safety: any thread; blocks until the program has ended.
#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace gpupool::client {

struct ProgramOutput {
  int exit_code = 0;  // 128 and the signal's number, if that ended it
  int signal = 0;     // that ended it; 0: none did
  std::string text;   // its standard output, up to 4 MiB
};

// Starts arguments[0], a path, without a shell; its errors go where ours go.
// Children of its that run when it ends, or is ended, are ended too.
//   NOT_FOUND          there is no such program
//   UNAVAILABLE        the system starts none
//   DEADLINE_EXCEEDED  it did not end within `limit`, and was ended
//   CANCELLED          the same, because of `stop`
absl::StatusOr<ProgramOutput> RunProgram(
    const std::vector<std::string>& arguments, absl::Duration limit,
    std::stop_token stop);

}  // namespace gpupool::client
