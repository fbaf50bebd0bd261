// The end of a worker, what it tells about the work that the worker did, and
// when work takes too long: pure functions.
//
// Thread-safety: any thread.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/ipc/work_page.h"

namespace gpupool::server {

// Text in the reason of the loss of a worker that was killed because it sent no
// heartbeats.
inline constexpr char kNoHeartbeat[] = "no heartbeat from the worker";
// Text after the signal in the reason of the loss of a worker that the server
// killed.
inline constexpr char kByServer[] = ", by the server";

struct WorkerEnd {
  // The reason as in WorkerObserver::OnWorkerLost.
  absl::Status reason;
  std::string how;   // "killed by signal 6"; empty: unknown
  WorkReading work;  // what the page showed at the end
};

// Returns the time within which the process of a worker ends after its
// connection. It is longer without a device: users are told how those processes
// ended, also on a busy machine.
int ReapMilliseconds(absl::string_view device);

// Returns whether a SIGKILL from outside of the server ended the worker. It is
// usually from the system, because memory ran out, or from an operator.
// `reason` is the argument of WorkerObserver::OnWorkerLost.
bool WasKilledFromOutside(const absl::Status& reason);

// Returns whose work may have ended the worker. A SIGKILL during a batch of
// requests suspects nobody: a process does not send it to itself, and a batch
// takes no memory for which the system would. So it came from outside, unless
// the batch hung.
WorkOwner SuspectOf(const WorkerEnd& end);

// Returns whether a request ended the worker by what was done for it. It must
// have been the only one that was not answered; it was sent `sent` ago.
bool WasEndedByRequest(const WorkerEnd& end, std::chrono::nanoseconds sent);

// Returns the text about busy work that hangs, by PoolOptions::hang_timeout;
// nothing if it does not.
std::optional<std::string> HangText(const WorkReading& work,
                                    absl::Duration hang_timeout);

// Returns the text about a request that `worker` has not answered in time.
std::string LateText(absl::string_view worker, absl::Duration timeout);

}  // namespace gpupool::server
