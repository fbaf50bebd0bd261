// One process of another program: a child that this process started, or one
// that it found alive. Refers to it by pidfd, so a recycled pid is never
// signalled.
//
// Thread-safety: one thread. Dropping the object lets the process live on.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/ipc/unique_fd.h"

namespace gpupool::server {

class Process {
 public:
  // Starts argv[0] (a path) without a shell, as leader of a new session with
  // default signal handling, no standard input, its output appended to
  // `log_path`, and no other descriptor. It inherits our environment and, of
  // `defaults` ("NAME=value"), what that does not set. Unavailable when the
  // system refuses.
  static absl::StatusOr<Process> Spawn(
      const std::vector<std::string>& argv, const std::string& log_path,
      const std::vector<std::string>& defaults = {});

  // A process that runs already. NotFound when there is none with that pid.
  static absl::StatusOr<Process> Watch(pid_t pid);

  pid_t pid() const { return pid_; }
  // Readable when the process has ended.
  int fd() const { return pidfd_.get(); }

  // How the process ended ("exit code 3", "killed by signal 9"), after waiting
  // up to `wait_milliseconds` for the end; nothing while it lives. Reaps a
  // child.
  std::optional<std::string> HowItEnded(int wait_milliseconds = 0);

  // Sends SIGKILL.
  void Kill();

 private:
  Process(pid_t pid, UniqueFd pidfd, bool is_child)
      : pid_(pid), pidfd_(std::move(pidfd)), is_child_(is_child) {}

  pid_t pid_;
  UniqueFd pidfd_;
  bool is_child_;
  std::optional<std::string> end_;
};

}  // namespace gpupool::server
