// Follows a job's events through lost connections. After a break, the stream is
// opened again after the last event that arrived, so that every event is seen
// once and in order.
//
// Thread-safety: a call uses the calling thread. Any thread may request `stop`.
// A Client is borrowed for the call.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gpupool/v1/job.pb.h"

namespace gpupool::client {

class Client;

struct WatchOptions {
  uint64_t after_sequence = 0;  // 0: from the first event
  // Time limit of reconnecting after a break. Starts again with each event.
  absl::Duration reconnect_window = absl::Minutes(2);
  // Called when the connection breaks, before each retry.
  std::function<void(const absl::Status&)> on_reconnect;
  // Whether to end (Ok) once all events that were stored before have arrived.
  bool stored_only = false;
  // Whether the first connection is not retried.
  bool fail_fast = true;
};

// Calls `on_event` for each event of the job. Returns
//   Ok           the job has ended, `on_event` returned false, or, with
//                stored_only, all stored events have arrived
//   Cancelled    `stop` was requested
//   NotFound     there is no such job
//   Unavailable  the server did not come back
absl::Status WatchJob(Client& client, uint64_t job_id,
                      const WatchOptions& options, std::stop_token stop,
                      const std::function<bool(const v1::JobEvent&)>& on_event);

// Returns whether a job never leaves the state.
bool IsFinal(v1::JobState state);

}  // namespace gpupool::client
