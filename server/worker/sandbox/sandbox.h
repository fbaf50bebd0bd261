// Takes from a worker what it does not need, before it reads the first byte
// that a user sent: files, programs, other processes and the network. A fault
// in a parser, a compiler or a kernel then gives an attacker the models and the
// data of this worker, and not the machine.
//
// Layers, each of which works without the others:
//   privileges  no_new_privs, no capability but that for files, not traceable
//   files       Landlock: the named files and folders, and nothing else
//   calls       seccomp: the system calls of seccomp_filter.h, and no others
//
// Thread-safety: none. The layers hold for the calling thread and for the
// threads that it starts from then on.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace gpupool::server {

struct SandboxOptions {
  // Whether the worker drives a GPU. Its driver needs files and calls that are
  // not known in advance.
  bool gpu = false;
  // Whether the worker joins other workers in jobs on several devices. It then
  // connects to them over TCP.
  bool groups = false;
  // Files and folders with all that is below them. Those that do not exist are
  // left out.
  std::vector<std::string> readable;
  std::vector<std::string> writable;
  // Device files, which may be read, written and controlled (ioctl).
  std::vector<std::string> devices;
  // Files of programs that the worker may start. What it starts is held by the
  // same layers. Without the layer of files no program starts, because the
  // layer of calls cannot tell one program from another.
  std::vector<std::string> programs;
};

struct SandboxReport {
  // Layers that hold: "privileges", "files", "calls".
  std::vector<std::string> layers;
  // Layers that do not hold, each with the reason.
  std::vector<std::string> missing;
};

// Installs every layer that the kernel has. The rest is reported. A build with
// a sanitizer has no layer, because sanitizers need files and calls of their
// own. Must be called while the process has one thread. Cannot be undone.
SandboxReport InstallSandbox(const SandboxOptions& options);

// Forbids new Unix sockets to every thread of the process. Call once the worker
// listens. Has no effect on the worker of a GPU, whose libraries need some, and
// in a build with a sanitizer. Needs no_new_privs. UNAVAILABLE when the system
// refuses.
absl::Status ForbidUnixSockets(const SandboxOptions& options);

}  // namespace gpupool::server
