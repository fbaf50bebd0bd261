// Following a job's events through lost connections: after a break the stream
// is opened again behind the last event that arrived, so that every event is
// seen once and in order.
//
// Thread-safety: a call uses the calling thread; a stop may be asked for from
// any thread. A Client is borrowed for the call.
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
  // How long to try to come back after a break; counted anew after each event.
  absl::Duration reconnect_window = absl::Minutes(2);
  // Called when the connection breaks, before each new try.
  std::function<void(const absl::Status&)> on_reconnect;
  // Ends (Ok) once every event that was stored before has come.
  bool stored_only = false;
  // True: a first connection that fails is not tried again.
  bool fail_fast = true;
  // Ends the watch (Cancelled) from any thread.
  std::stop_token stop;
};

// Calls `on_event` for each event of the job until the job ends (Ok), its
// stored events have all come where only those are asked for (Ok), or
// `on_event` returns false (Ok). Cancelled when `options.stop` was asked for;
// NotFound for an unknown job; Unavailable when the server did not come back.
absl::Status WatchJob(Client& client, uint64_t job_id,
                      const WatchOptions& options,
                      const std::function<bool(const v1::JobEvent&)>& on_event);

// True for the states that a job does not leave.
bool IsFinal(v1::JobState state);

}  // namespace gpupool::client
