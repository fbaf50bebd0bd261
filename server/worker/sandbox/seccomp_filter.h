// System calls that a process may make, as the kernel's seccomp enforces it.
// Private to server/worker/sandbox.
//
// A worker without a GPU may make the calls of kAllowedCalls, and every other
// one fails with ENOSYS, as on a kernel that does not know it. So libraries
// take the way that they keep for older kernels. The worker of a GPU may make
// every call but those of kDeniedCalls: NVIDIA's driver is closed, and the next
// version of it may need a call that no list has.
//
// The calls of kDeniedCalls fail with EPERM in both. A call that fails is seen
// by the program, which reports it; a kill would cost a job.
#pragma once

#include "absl/status/status.h"
#include "server/worker/sandbox/sandbox.h"

namespace gpupool::server {

// Installs the filter for this thread, and for the threads that it starts.
// Beyond the lists the filter allows
//   * clone for threads, not for processes
//   * with options.programs execve, and clone as posix_spawn makes it: the new
//     process shares the memory of this one, which waits until it has a program
//   * signals to the own process only
//   * stream sockets of the kinds Unix and, for workers that join groups, TCP;
//     these may also ask for the interfaces of the network (netlink)
//   * connections for workers that join groups only
// Needs no_new_privs. UNIMPLEMENTED when the kernel has no seccomp, UNAVAILABLE
// when it refuses the filter.
// Does not look at which program is started: RestrictFiles does.
absl::Status RestrictCalls(const SandboxOptions& options);

// Installs a second filter for all threads, under which no Unix socket can be
// made. Errors as above.
absl::Status RestrictUnixSockets();

}  // namespace gpupool::server
