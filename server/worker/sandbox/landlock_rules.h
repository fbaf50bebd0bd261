// Files that a process may use, as the kernel's Landlock enforces it. Private
// to server/worker/sandbox.
#pragma once

#include "absl/status/status.h"
#include "server/worker/sandbox/sandbox.h"

namespace gpupool::server {

// Leaves to this thread, and to the threads that it starts, the files of
// `options`. Of programs the named ones alone can be executed, and the dynamic
// loader if there are any. Newer kernels also enforce that the process
//   * connects over TCP to ports of the range of ephemeral ports only, and only
//     if it joins groups: no service listens there
//   * signals only itself
//   * reaches no abstract Unix socket of another process, unless it joins
//     groups on GPUs
// Needs no_new_privs. UNIMPLEMENTED when the kernel has no Landlock, or one
// before version 2, which cannot move a file to another folder. UNAVAILABLE
// when the system refuses. Then nothing has changed.
absl::Status RestrictFiles(const SandboxOptions& options);

}  // namespace gpupool::server
