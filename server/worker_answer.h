// Runs a command of the worker binary and returns its output. With it the
// daemon, which loads no driver, asks about the machine.
//
// Thread-safety: any thread; blocks until the process has ended.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace gpupool::server {

struct WorkerAnswer {
  std::string end;   // "exit code 0"
  std::string text;  // standard output and error, up to 1 MiB
};

// Runs `arguments`, the binary being the first. Ends it and its children after
// `timeout`, or as soon as `give_up`, which may be empty, is true. It is killed
// when the calling thread ends, as with a daemon that dies. Errors:
//   * UNAVAILABLE: it cannot be started
//   * DEADLINE_EXCEEDED: it does not answer
//   * CANCELLED: `give_up` was true
absl::StatusOr<WorkerAnswer> AskWorker(
    const std::vector<std::string>& arguments, absl::Duration timeout,
    const std::function<bool()>& give_up = nullptr);

}  // namespace gpupool::server
