// Private to server/pool: the settings with which a worker is started, and the
// checks of the hello with which it answers.
//
// Thread-safety: pure functions, apart from the log.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace gpupool::worker::v1 {
class HelloReply;
}  // namespace gpupool::worker::v1

namespace gpupool::server {

struct PoolDevice;
struct PoolOptions;

inline constexpr uint32_t kWorkerProtocolVersion = 1;

// Returns whether jobs may run on `device` and others together: whether it is
// one of several devices of the pool. The planner and the rehearsal are none.
bool JoinsGroups(const PoolOptions& options, const PoolDevice& device);

// Returns the program and the flags that start the worker of `device`.
std::vector<std::string> WorkerArguments(const PoolOptions& options,
                                         const PoolDevice& device);

// Returns OK if the worker may be used for `device`. Errors:
//   FAILED_PRECONDITION  it speaks another version of the protocol
//   INTERNAL             it owns another device
absl::Status CheckWorkerHello(const worker::v1::HelloReply& hello,
                              const PoolDevice& device);

// Checks the limit and the threads of a worker that was found alive, and
// whether it may join groups if it has to. Returns FAILED_PRECONDITION if they
// differ from those of `device` and the worker is idle: it is then to be
// replaced. A busy one keeps its settings until it ends, which is logged.
absl::Status CheckWorkerSettings(const worker::v1::HelloReply& hello,
                                 const PoolDevice& device);

}  // namespace gpupool::server
