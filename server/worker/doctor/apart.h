// Asks a question in a process of its own, with a time limit: a driver that is
// broken may hang for ever or end whoever calls it.
//
// Thread-safety: to be called while the process has one thread, since it forks.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace gpupool::server {

// What `question` returned, up to 1 MiB; it runs in a copy of this process,
// whose standard output is that of errors. A process that does not end when it
// is killed is left behind.
//   ABORTED            the process died; "killed by signal 7 (Bus error)"
//   DEADLINE_EXCEEDED  it did not end in time
//   UNAVAILABLE        the system started none
absl::StatusOr<std::string> AskApart(
    const std::function<std::string()>& question, absl::Duration limit);

}  // namespace gpupool::server
