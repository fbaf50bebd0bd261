// The server's queues towards those who submit, ask and run it.
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

// INVALID_ARGUMENT: there is no such queue, or its jobs may never hold so many
// devices. PERMISSION_DENIED: it takes no jobs of the tenant.
absl::Status CheckQueue(const scheduler::Queues& queues,
                        const v1::JobSpec& spec);

v1::Queue ToProto(const scheduler::Queues::Entry& entry);

// What an operator should know: queues that are left no device, and jobs whose
// queue is not configured any more.
std::vector<std::string> QueueWarnings(const scheduler::State& state);

}  // namespace gpupool::server
