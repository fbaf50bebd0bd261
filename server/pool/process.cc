#include "server/pool/process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace gpupool::server {
namespace {

// Direct system calls: glibc 2.36 has wrappers, but their headers clash with
// <csignal> in C++.
int PidfdOpen(pid_t pid) {
  return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
}

class SpawnSettings {
 public:
  // Sets up: no standard input, output to the log, no other descriptors, own
  // session, default signals.
  explicit SpawnSettings(const std::string& log_path) {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null",
                                       O_RDONLY, 0);
    ::posix_spawn_file_actions_addopen(&actions_, STDOUT_FILENO,
                                       log_path.c_str(),
                                       O_WRONLY | O_CREAT | O_APPEND, 0600);
    ::posix_spawn_file_actions_adddup2(&actions_, STDOUT_FILENO, STDERR_FILENO);
    ::posix_spawn_file_actions_addclosefrom_np(&actions_, STDERR_FILENO + 1);
    ::posix_spawnattr_init(&attributes_);
    sigset_t none;
    sigset_t all;
    ::sigemptyset(&none);
    ::sigfillset(&all);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    ::posix_spawnattr_setsigdefault(&attributes_, &all);
    ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSID |
                                                 POSIX_SPAWN_SETSIGMASK |
                                                 POSIX_SPAWN_SETSIGDEF);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;
  ~SpawnSettings() {
    ::posix_spawn_file_actions_destroy(&actions_);
    ::posix_spawnattr_destroy(&attributes_);
  }
  const posix_spawn_file_actions_t* actions() const { return &actions_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

// Returns the texts as exec wants them: pointers with a null at the end.
std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) {
    pointers.push_back(const_cast<char*>(text.c_str()));
  }
  pointers.push_back(nullptr);
  return pointers;
}

// Returns our environment and those defaults that it does not set.
std::vector<std::string> Environment(const std::vector<std::string>& defaults) {
  std::vector<std::string> variables;
  for (char** entry = ::environ; *entry != nullptr; ++entry) {
    variables.emplace_back(*entry);
  }
  for (const std::string& variable : defaults) {
    const std::string name = variable.substr(0, variable.find('='));
    if (std::getenv(name.c_str()) == nullptr) variables.push_back(variable);
  }
  return variables;
}

std::string Words(int error) { return std::generic_category().message(error); }

absl::Status CannotStart(const std::string& program, int error) {
  return absl::UnavailableError(
      absl::StrCat("cannot start ", program, ": ", Words(error)));
}

// Prepares the child between fork and exec. Only system calls are allowed:
// another thread may have held a lock, of the allocator for example, at the
// fork.
void SetUpTied(int output, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The parent may have died before prctl; then no signal will come.
  if (::getppid() != parent) ::_exit(127);
  ::setsid();
  for (int number = 1; number < NSIG; ++number) ::signal(number, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const int nothing = ::open("/dev/null", O_RDONLY);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(output, STDERR_FILENO);
  // Closes descriptors that were opened without O_CLOEXEC. Needs Linux 5.11.
  constexpr unsigned kCloseOnExec = 4;
  ::syscall(SYS_close_range, STDERR_FILENO + 1, ~0U, kCloseOnExec);
}

// Returns the error of a failed exec, or 0 after a successful one, which closes
// the pipe.
int ErrorOfExec(int pipe) {
  int error = 0;
  ssize_t count = 0;
  do {
    count = ::read(pipe, &error, sizeof(error));
  } while (count < 0 && errno == EINTR);
  return count == static_cast<ssize_t>(sizeof(error)) ? error : 0;
}

std::string Describe(const siginfo_t& info) {
  return info.si_code == CLD_EXITED
             ? absl::StrCat("exit code ", info.si_status)
             : absl::StrCat("killed by signal ", info.si_status);
}

}  // namespace

absl::Status CheckProgram(const std::string& path) {
  struct stat facts = {};
  if (::stat(path.c_str(), &facts) != 0) {
    return absl::NotFoundError(
        absl::StrCat("no executable worker at ", path, ": ", Words(errno),
                     "; install gpupool-worker beside gpupoold, or name it "
                     "with --worker-binary"));
  }
  if (S_ISREG(facts.st_mode) && ::access(path.c_str(), X_OK) == 0) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("no executable worker at ", path, ": ",
                   S_ISDIR(facts.st_mode)    ? "it is a folder"
                   : !S_ISREG(facts.st_mode) ? "it is no program"
                                             : "this user may not execute it",
                   "; name the program gpupool-worker with --worker-binary"));
}

absl::StatusOr<Process> Process::Spawn(
    const std::vector<std::string>& argv, const std::string& log_path,
    const std::vector<std::string>& defaults) {
  const std::vector<char*> arguments = Pointers(argv);
  const std::vector<std::string> variables = Environment(defaults);
  const std::vector<char*> environment = Pointers(variables);
  const SpawnSettings settings(log_path);
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, arguments[0], settings.actions(),
                                  settings.attributes(), arguments.data(),
                                  environment.data());
  if (error != 0) {
    return CannotStart(argv[0], error);
  }
  return WatchChild(pid);
}

absl::StatusOr<Process> Process::SpawnTied(const std::vector<std::string>& argv,
                                           int output) {
  const std::vector<char*> arguments = Pointers(argv);
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) return CannotStart(argv[0], errno);
  const UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return CannotStart(argv[0], errno);
  if (pid == 0) {
    SetUpTied(output, parent);
    ::execve(arguments[0], arguments.data(), ::environ);
    const int error = errno;
    const ssize_t told = ::write(write_end.get(), &error, sizeof(error));
    ::_exit(told < 0 ? 126 : 127);
  }
  write_end.Reset();
  if (const int error = ErrorOfExec(read_end.get()); error != 0) {
    ::waitpid(pid, nullptr, 0);
    return CannotStart(argv[0], error);
  }
  return WatchChild(pid);
}

absl::StatusOr<Process> Process::WatchChild(pid_t pid) {
  UniqueFd pidfd(PidfdOpen(pid));
  if (!pidfd.valid()) {
    const int error = errno;
    // A process that cannot be watched must not run. It has not been reaped, so
    // that the pid is still its own.
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    return absl::UnavailableError(
        absl::StrCat("cannot watch process ", pid, ": ", Words(error)));
  }
  return Process(pid, std::move(pidfd), /*is_child=*/true);
}

absl::StatusOr<Process> Process::Watch(pid_t pid) {
  UniqueFd pidfd(PidfdOpen(pid));
  if (!pidfd.valid()) {
    return absl::NotFoundError(absl::StrCat("no process ", pid));
  }
  return Process(pid, std::move(pidfd), /*is_child=*/false);
}

std::optional<std::string> Process::HowItEnded(int wait_milliseconds) {
  if (end_.has_value()) return end_;
  pollfd watched = {pidfd_.get(), POLLIN, 0};
  if (::poll(&watched, 1, wait_milliseconds) <= 0) return std::nullopt;
  end_ = "ended";
  if (is_child_) {
    siginfo_t info = {};
    if (::waitid(static_cast<idtype_t>(P_PIDFD),
                 static_cast<id_t>(pidfd_.get()), &info,
                 WEXITED | WNOHANG) == 0 &&
        info.si_pid != 0) {
      end_ = Describe(info);
    }
  }
  return end_;
}

void Process::Kill() {
  ::syscall(SYS_pidfd_send_signal, pidfd_.get(), SIGKILL, nullptr, 0);
}

void Process::KillSession() {
  // An unreaped child keeps its pid, which is also its group's.
  if (is_child_ && !end_.has_value()) ::kill(-pid_, SIGKILL);
  Kill();
}

}  // namespace gpupool::server
