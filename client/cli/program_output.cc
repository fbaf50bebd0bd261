#include "client/cli/program_output.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace gpupool::client {
namespace {

constexpr size_t kMostBytes = size_t{4} << 20;
// How often `stop` is looked at.
constexpr absl::Duration kTurn = absl::Milliseconds(100);

absl::Status SpawnError(const std::string& program, int error) {
  const std::string text =
      absl::StrCat("cannot start ", program, ": ", std::strerror(error));
  return error == ENOENT ? absl::NotFoundError(text)
                         : absl::UnavailableError(text);
}

absl::StatusOr<pid_t> Spawn(const std::vector<std::string>& arguments,
                            int output) {
  std::vector<char*> pointers;
  for (const std::string& argument : arguments) {
    pointers.push_back(const_cast<char*>(argument.c_str()));
  }
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  const absl::Cleanup drop = [&] {
    ::posix_spawn_file_actions_destroy(&actions);
  };
  ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, pointers[0], &actions, nullptr,
                                  pointers.data(), ::environ);
  if (error != 0) return SpawnError(arguments[0], error);
  return pid;
}

// Until the program closes its output. What is more than the bound is read
// and forgotten, so that the program does not wait for a reader.
absl::Status ReadToEnd(int input, absl::Time deadline,
                       const std::stop_token& stop, std::string& text) {
  std::array<char, 65536> part;
  while (true) {
    if (stop.stop_requested()) return absl::CancelledError("interrupted");
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError("it did not end in time");
    }
    pollfd watched = {input, POLLIN, 0};
    const auto turn = absl::ToInt64Milliseconds(std::min(left, kTurn)) + 1;
    if (::poll(&watched, 1, static_cast<int>(turn)) <= 0) continue;
    const ssize_t count = ::read(input, part.data(), part.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return absl::OkStatus();
    text.append(part.data(),
                std::min(static_cast<size_t>(count), kMostBytes - text.size()));
  }
}

}  // namespace

absl::StatusOr<ProgramOutput> RunProgram(
    const std::vector<std::string>& arguments, absl::Duration limit,
    std::stop_token stop) {
  std::array<int, 2> ends = {-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return absl::UnavailableError("the system has no pipe left");
  }
  const absl::Cleanup close_input = [&] { ::close(ends[0]); };
  const auto pid = Spawn(arguments, ends[1]);
  ::close(ends[1]);
  if (!pid.ok()) return pid.status();
  ProgramOutput output;
  const absl::Status read =
      ReadToEnd(ends[0], absl::Now() + limit, stop, output.text);
  if (!read.ok()) ::kill(*pid, SIGKILL);
  int status = 0;
  while (::waitpid(*pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!read.ok()) {
    return absl::Status(read.code(),
                        absl::StrCat(arguments[0], ": ", read.message()));
  }
  output.exit_code =
      WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return output;
}

}  // namespace gpupool::client
