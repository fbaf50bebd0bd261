#include "tests/fuzz/guarded_child.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"

namespace gpupool::engine::fuzz {
namespace {

constexpr int kExceptionCode = 11;

void SetLimit(int resource, uint64_t most) {
  const rlimit limit = {.rlim_cur = most, .rlim_max = most};
  setrlimit(static_cast<__rlimit_resource_t>(resource), &limit);
}

std::string Describe(int status) {
  if (WIFEXITED(status)) {
    const int code = WEXITSTATUS(status);
    return code == 0 ? "" : absl::StrCat("exit code ", code);
  }
  const int signal = WTERMSIG(status);
  if (signal == SIGPROF) return "hang: all time of the processor is used";
  if (signal == SIGALRM) return "hang: all time is used, and the process waits";
  return absl::StrCat("signal ", signal, " (", strsignal(signal), ")");
}

}  // namespace

SharedBytes::SharedBytes(size_t bytes)
    : data_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)),
      bytes_(bytes) {
  GPUPOOL_CHECK(data_ != MAP_FAILED);
}

SharedBytes::~SharedBytes() { munmap(data_, bytes_); }

void AllowProcessorSeconds(int seconds) {
  itimerval timer = {};
  timer.it_value.tv_sec = seconds;
  setitimer(ITIMER_PROF, &timer, nullptr);
}

std::string RunInChild(const ChildLimits& limits,
                       const std::function<void()>& work) {
  std::fflush(nullptr);
  const pid_t child = fork();
  GPUPOOL_CHECK(child >= 0);
  if (child == 0) {
    signal(SIGPROF, SIG_DFL);
    signal(SIGALRM, SIG_DFL);
    SetLimit(RLIMIT_CORE, 0);
    if (limits.memory_bytes > 0) SetLimit(RLIMIT_DATA, limits.memory_bytes);
    alarm(static_cast<unsigned>(limits.wall_seconds));
    // An exception must not reach the caller, who would go on in the child.
    try {
      work();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "exception in a child: %s\n", error.what());
      std::fflush(nullptr);
      _exit(kExceptionCode);
    }
    std::fflush(nullptr);
    _exit(0);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0) GPUPOOL_CHECK(errno == EINTR);
  return Describe(status);
}

}  // namespace gpupool::engine::fuzz
