#include "server/worker/doctor/apart.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "server/ipc/unique_fd.h"

namespace gpupool::server {
namespace {

constexpr size_t kMostBytes = 1 << 20;
constexpr int kAfterKillMilliseconds = 500;

// Answers and ends the child. Never returns, since neither destructors nor exit
// handlers of the parent may run.
[[noreturn]] void Answer(const std::function<std::string()>& question,
                         int answer) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  const std::string text = question();
  const ssize_t written = ::write(answer, text.data(), text.size());
  ::_exit(written == static_cast<ssize_t>(text.size()) ? 0 : 1);
}

std::string ReadAll(int fd) {
  std::string text(kMostBytes, '\0');
  const ssize_t count = ::pread(fd, text.data(), text.size(), 0);
  text.resize(count < 0 ? 0 : static_cast<size_t>(count));
  return text;
}

bool Ends(int pidfd, int milliseconds) {
  pollfd watched = {pidfd, POLLIN, 0};
  int ready = 0;
  do {
    ready = ::poll(&watched, 1, milliseconds);
  } while (ready < 0 && errno == EINTR);
  return ready > 0;
}

absl::Status SystemError(absl::string_view what) {
  return absl::UnavailableError(
      absl::StrCat("cannot ", what, ": ", std::strerror(errno)));
}

}  // namespace

absl::StatusOr<std::string> AskApart(
    const std::function<std::string()>& question, absl::Duration limit) {
  const UniqueFd answer(::memfd_create("answer", MFD_CLOEXEC));
  if (!answer.valid()) return SystemError("make a place for an answer");
  const pid_t pid = ::fork();
  if (pid < 0) return SystemError("start a process");
  if (pid == 0) Answer(question, answer.get());
  const UniqueFd watch(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!watch.valid()) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    return SystemError("watch a process");
  }
  if (!Ends(watch.get(), static_cast<int>(absl::ToInt64Milliseconds(limit)))) {
    ::kill(pid, SIGKILL);
    // A process that sleeps inside the driver may never end.
    if (Ends(watch.get(), kAfterKillMilliseconds)) ::waitpid(pid, nullptr, 0);
    return absl::DeadlineExceededError(
        absl::StrCat("no answer in ", absl::FormatDuration(limit)));
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  if (WIFSIGNALED(status)) {
    return absl::AbortedError(absl::StrCat("killed by signal ",
                                           WTERMSIG(status), " (",
                                           ::strsignal(WTERMSIG(status)), ")"));
  }
  if (WEXITSTATUS(status) != 0) {
    return absl::AbortedError(
        absl::StrCat("ended with exit code ", WEXITSTATUS(status)));
  }
  return ReadAll(answer.get());
}

}  // namespace gpupool::server
