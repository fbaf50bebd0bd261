#include "client/watch.h"

#include <optional>

#include "absl/time/clock.h"
#include "client/client.h"
#include "client/retry.h"

namespace gpupool::client {

bool IsFinal(v1::JobState state) {
  return state == v1::SUCCEEDED || state == v1::FAILED ||
         state == v1::CANCELLED;
}

absl::Status WatchJob(
    Client& client, uint64_t job_id, const WatchOptions& options,
    const std::function<bool(const v1::JobEvent&)>& on_event) {
  v1::WatchJobRequest request;
  request.set_id(job_id);
  request.set_after_sequence(options.after_sequence);
  request.set_mark_caught_up(options.stored_only);
  // The seed differs between jobs, so that their watches do not all reconnect
  // at the same moments.
  Backoff backoff({}, static_cast<uint32_t>(job_id));
  bool connected = false;
  std::optional<absl::Time> broken_since;
  while (true) {
    const absl::Status status =
        client.StreamJob(request, options.stop, [&](const v1::JobEvent& event) {
          connected = true;
          broken_since.reset();
          backoff.Reset();
          if (event.has_caught_up()) return false;
          // An event that the server sends twice must be reported once.
          if (event.sequence() <= request.after_sequence()) return true;
          request.set_after_sequence(event.sequence());
          return on_event(event);
        });
    if (options.stop.stop_requested()) return absl::CancelledError("stopped");
    // Ok is not retryable: the job has ended, or `on_event` wants no more.
    if (!IsRetryable(status)) return status;
    if (options.fail_fast && !connected) return status;
    // The window counts from the first break since the last event.
    if (!broken_since.has_value()) broken_since = absl::Now();
    const absl::Duration wait = backoff.Next();
    if (absl::Now() + wait > *broken_since + options.reconnect_window) {
      return status;
    }
    if (options.on_reconnect) options.on_reconnect(status);
    if (!SleepUnlessStopped(wait, options.stop)) {
      return absl::CancelledError("stopped");
    }
  }
}

}  // namespace gpupool::client
