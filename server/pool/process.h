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

// Returns why `path` cannot be started: NOT_FOUND when it is not there,
// FAILED_PRECONDITION when it is a folder or must not be executed.
absl::Status CheckProgram(const std::string& path);

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

  // Starts argv[0] as Spawn does, but its output goes to `output`, and the
  // process is killed when the thread that calls this ends, as with a daemon
  // that dies.
  static absl::StatusOr<Process> SpawnTied(const std::vector<std::string>& argv,
                                           int output);

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
  // Sends SIGKILL to a child that was spawned here and to its own children. To
  // be called before the child's end is known.
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
