// A process of another program: a child that this process started, or one that
// was found alive. Refers to it by pidfd, so that a recycled pid is never
// signalled.
//
// Thread-safety: one thread. Destroying the object lets the process live on.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/ipc/unique_fd.h"

namespace gpupool::server {

// Returns OK if `path` can be started. NOT_FOUND when it does not exist,
// FAILED_PRECONDITION when it is a folder or is not executable.
absl::Status CheckProgram(const std::string& path);

class Process {
 public:
  // Starts argv[0] (a path) without a shell, as leader of a new session, with
  // default signal handling and no standard input. Its output is appended to
  // `log_path`. It gets no other descriptor. It inherits our environment and
  // those `defaults` ("NAME=value") that our environment does not set.
  // Unavailable when the system refuses.
  static absl::StatusOr<Process> Spawn(
      const std::vector<std::string>& argv, const std::string& log_path,
      const std::vector<std::string>& defaults = {});

  // Starts argv[0] as Spawn does, with two differences: its output goes to
  // `output`, and it is killed when the calling thread ends, as with a daemon
  // that dies.
  static absl::StatusOr<Process> SpawnTied(const std::vector<std::string>& argv,
                                           int output);

  // Refers to a running process. NotFound when there is none with that pid.
  static absl::StatusOr<Process> Watch(pid_t pid);

  pid_t pid() const { return pid_; }
  // Returns a descriptor that is readable when the process has ended.
  int fd() const { return pidfd_.get(); }

  // Returns how the process ended ("exit code 3", "killed by signal 9"), or
  // nothing while it lives. Waits up to `wait_milliseconds` for the end. Reaps
  // a child.
  std::optional<std::string> HowItEnded(int wait_milliseconds = 0);

  // Sends SIGKILL.
  void Kill();
  // Sends SIGKILL to a child that was spawned here and to its own children.
  // Must be called before the child's end is known.
  void KillSession();

 private:
  static absl::StatusOr<Process> WatchChild(pid_t pid);
  Process(pid_t pid, UniqueFd pidfd, bool is_child)
      : pid_(pid), pidfd_(std::move(pidfd)), is_child_(is_child) {}

  pid_t pid_;
  UniqueFd pidfd_;
  bool is_child_;
  std::optional<std::string> end_;
};

}  // namespace gpupool::server
