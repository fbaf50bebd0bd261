// The end of a worker, and what it tells about the work that the worker did:
// pure functions.
//
// Thread-safety: any thread.
#pragma once

#include <chrono>
#include <string>

#include "absl/status/status.h"
#include "server/ipc/work_page.h"

namespace gpupool::server {

struct WorkerEnd {
  // The reason as in WorkerObserver::OnWorkerLost.
  absl::Status reason;
  std::string how;   // "killed by signal 6"; empty: unknown
  WorkReading work;  // what the page showed at the end
};

// Returns whose work may have ended the worker. A SIGKILL during a batch of
// requests suspects nobody: a process does not send it to itself, and a batch
// takes no memory for which the system would. So it came from outside, unless
// the batch hung.
WorkOwner SuspectOf(const WorkerEnd& end);

// Returns whether a request ended the worker by what was done for it. It must
// have been the only one that was not answered; it was sent `sent` ago.
bool WasEndedByRequest(const WorkerEnd& end, std::chrono::nanoseconds sent);

}  // namespace gpupool::server
