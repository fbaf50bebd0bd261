// Checks of the server's queues for clients that submit jobs and for operators.
//
// Thread-safety: pure functions; as the state.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "scheduler/state/queues.h"

namespace gpupool::v1 {
class JobSpec;
class Queue;
}  // namespace gpupool::v1
namespace gpupool::scheduler {
class State;
}  // namespace gpupool::scheduler

namespace gpupool::server {

// Returns OK or
//   * INVALID_ARGUMENT: there is no such queue, or its jobs may never hold that
//     many devices
//   * PERMISSION_DENIED: it takes no jobs of the tenant
absl::Status CheckQueue(const scheduler::Queues& queues,
                        const v1::JobSpec& spec);

v1::Queue ToProto(const scheduler::Queues::Entry& entry);

// Returns warnings for the operator: queues without any device, and jobs whose
// queue is no longer configured.
std::vector<std::string> QueueWarnings(const scheduler::State& state);

}  // namespace gpupool::server
