#include "client/cli/command/program_output.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace gpupool::client {
namespace {

constexpr size_t kMostBytes = size_t{4} << 20;
// The pauses between checks of `stop`, and between checks for the program's end
// once its output is closed.
constexpr absl::Duration kTurn = absl::Milliseconds(50);
constexpr absl::Duration kShortTurn = absl::Milliseconds(2);

// The system reports a folder as a lack of permission.
absl::Status SpawnError(const std::string& program, int error) {
  struct stat facts = {};
  const bool folder =
      ::stat(program.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode);
  const std::string text =
      absl::StrCat("cannot start ", program, ": ",
                   folder ? "it is a folder" : std::strerror(error));
  if (error == ENOENT) return absl::NotFoundError(text);
  return absl::UnavailableError(text);
}

absl::StatusOr<pid_t> Spawn(const std::vector<std::string>& arguments,
                            int output) {
  std::vector<char*> pointers;
  for (const std::string& argument : arguments) {
    pointers.push_back(const_cast<char*>(argument.c_str()));
  }
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawnattr_init(&attributes);
  const absl::Cleanup drop = [&] {
    ::posix_spawn_file_actions_destroy(&actions);
    ::posix_spawnattr_destroy(&attributes);
  };
  ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  // A separate process group, so that children can be killed with the program.
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, pointers[0], &actions, &attributes,
                                  pointers.data(), ::environ);
  if (error != 0) return SpawnError(arguments[0], error);
  return pid;
}

// A running program, and its output so far.
class Running {
 public:
  Running(pid_t pid, int input) : pid_(pid), input_(input) {}
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  // Kills the program and its children. Does not wait for a process that the
  // system cannot kill.
  ~Running() {
    if (!ended_) ::kill(-pid_, SIGKILL);
    for (int turn = 0; !ended_ && turn < kTurnsAfterKill; ++turn) {
      HasEnded();
      if (!ended_) absl::SleepFor(kShortTurn);
    }
  }

  // Waits until the program has ended, even if another process holds its output
  // then.
  absl::Status Await(absl::Duration limit, const std::stop_token& stop) {
    const absl::Time deadline = absl::Now() + limit;
    while (!HasEnded()) {
      if (stop.stop_requested()) return absl::CancelledError("interrupted");
      const absl::Duration left = deadline - absl::Now();
      if (left <= absl::ZeroDuration()) {
        return absl::DeadlineExceededError(absl::StrCat(
            "it did not end within ", absl::FormatDuration(limit)));
      }
      // Most programs close their output when they end, so the end is found by
      // polling.
      Take(std::min(left, open_ ? kTurn : kShortTurn));
    }
    // Output from before the end may still be in the pipe.
    while (Take(absl::ZeroDuration())) {
    }
    return absl::OkStatus();
  }

  ProgramOutput Output() {
    if (WIFEXITED(status_)) return {WEXITSTATUS(status_), 0, std::move(text_)};
    return {128 + WTERMSIG(status_), WTERMSIG(status_), std::move(text_)};
  }

 private:
  static constexpr int kTurnsAfterKill = 100;

  // Returns whether the program has ended, and kills its children then. They
  // are killed before the process id is released, so that the id cannot belong
  // to another process.
  bool HasEnded() {
    siginfo_t info = {};
    if (ended_) return true;
    // WNOWAIT leaves a zombie, which keeps the process id reserved.
    if (::waitid(P_PID, static_cast<id_t>(pid_), &info,
                 WEXITED | WNOHANG | WNOWAIT) != 0 ||
        info.si_pid == 0) {
      return false;
    }
    ::kill(-pid_, SIGKILL);
    ::waitpid(pid_, &status_, 0);
    return ended_ = true;
  }

  // Waits for a part of the output and reads it. Drops everything beyond the
  // bound, so that the program never waits for a reader. Returns false at the
  // end of the output.
  bool Take(absl::Duration wait) {
    const auto milliseconds = static_cast<int>(absl::ToInt64Milliseconds(wait));
    pollfd watched = {open_ ? input_ : -1, POLLIN, 0};
    if (::poll(&watched, 1, milliseconds) <= 0) return false;
    std::array<char, 65536> part;
    const ssize_t count = ::read(input_, part.data(), part.size());
    if (count < 0 && errno == EINTR) return true;
    if (count <= 0) return open_ = false;
    text_.append(part.data(), std::min(static_cast<size_t>(count),
                                       kMostBytes - text_.size()));
    return true;
  }

  const pid_t pid_;
  const int input_;
  bool open_ = true;
  bool ended_ = false;
  int status_ = 0;
  std::string text_;
};

}  // namespace

absl::StatusOr<ProgramOutput> RunProgram(
    const std::vector<std::string>& arguments, absl::Duration limit,
    std::stop_token stop) {
  std::array<int, 2> ends = {-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return absl::UnavailableError("the system cannot create a pipe");
  }
  const absl::Cleanup close_input = [&] { ::close(ends[0]); };
  const auto pid = Spawn(arguments, ends[1]);
  ::close(ends[1]);
  if (!pid.ok()) return pid.status();
  Running program(*pid, ends[0]);
  const absl::Status ended = program.Await(limit, stop);
  if (!ended.ok()) {
    return absl::Status(ended.code(),
                        absl::StrCat(arguments[0], ": ", ended.message()));
  }
  return program.Output();
}

}  // namespace gpupool::client
