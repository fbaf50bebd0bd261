// A child process that shuts itself into a sandbox and tries something.
#pragma once

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <string>

#include "server/worker/sandbox/sandbox.h"

namespace gpupool::server {

// Exit codes of a child.
inline constexpr int kWorked = 0;
inline constexpr int kNoLayer = 77;  // the kernel or the build lacks a layer
inline constexpr int kKilled = -1;

// Runs `attempt` in a child and returns its result: 0, or the error number of
// the call that failed. kKilled if a signal ended the child.
inline int InChild(const std::function<int()>& attempt) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(attempt());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : kKilled;
}

// Does the same inside a sandbox. kNoLayer if a layer is missing.
inline int InSandbox(const SandboxOptions& options,
                     const std::function<int()>& attempt) {
  return InChild([&] {
    if (!InstallSandbox(options).missing.empty()) return kNoLayer;
    return attempt();
  });
}

// Starts the program and returns its exit code, or the error number of the
// start. kKilled if a signal ended it.
inline int Started(const char* program) {
  std::string name = program;
  char* const arguments[] = {name.data(), nullptr};
  pid_t pid = 0;
  if (const int error =
          ::posix_spawn(&pid, program, nullptr, nullptr, arguments, nullptr);
      error != 0) {
    return error;
  }
  int status = 0;
  if (::waitpid(pid, &status, 0) != pid) return errno;
  return WIFEXITED(status) ? WEXITSTATUS(status) : kKilled;
}

}  // namespace gpupool::server
