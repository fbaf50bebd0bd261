// Asks a question in a process of its own, with a time limit: a broken driver
// may hang for ever or crash its caller.
//
// Thread-safety: call while the process has one thread, since it forks.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace gpupool::server {

// Returns the result of `question`, up to 1 MiB. It runs in a copy of this
// process, whose standard output is standard error. A process that survives
// SIGKILL is left behind. Errors:
//   * ABORTED: the process died; "killed by signal 7 (Bus error)"
//   * DEADLINE_EXCEEDED: it did not end in time
//   * UNAVAILABLE: the system could not start one
absl::StatusOr<std::string> AskApart(
    const std::function<std::string()>& question, absl::Duration limit);

}  // namespace gpupool::server
