// Decides when to close a batch of inference requests: a pure function of the
// waiting requests, the batches in flight and the time.
//
// Thread-safety: no state, any thread. The caller owns the queue and calls
// again when a request arrives, when a batch comes back, and at `wait_until`.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"
#include "absl/types/span.h"

namespace gpupool::scheduler {

// Default limit of the waiting requests of a version.
inline constexpr uint32_t kDefaultMaxQueueSize = 1024;

struct BatchOptions {
  // Maximum number of rows of one batch, >= 1.
  uint32_t max_batch_size = 1;
  // Maximum wait of the oldest request for others. Zero: send at once.
  absl::Duration max_queue_delay = absl::ZeroDuration();
  // Number of rows that are not kept waiting for others. Zero: max_batch_size.
  uint32_t enough_rows = 0;
  // Maximum number of batches at the worker at a time, >= 1. While one is
  // computed the next is copied, so two keep a device busy. More only wait
  // inside the worker, where requests can no longer share a batch.
  int max_in_flight = 2;
};

// Time up to which a batch is short: of copying, of computing, and of waiting
// for a worker that was busy with something else.
inline constexpr absl::Duration kShortBatch = absl::Microseconds(100);

// Returns the number of batches that may be at the worker at a time when one
// takes `batch_time`, as above (InfiniteDuration: not known yet). One
// while batches are short: the answer is back before a second batch would gain
// anything, and the requests that come meanwhile share the next batch.
// Otherwise options.max_in_flight.
int MaxInFlight(const BatchOptions& options, absl::Duration batch_time);

struct WaitingRequest {
  uint32_t rows = 1;  // >= 1
  absl::Time enqueue_time;
};

struct BatchDecision {
  // Number of requests to take from the front of the queue as one batch now.
  // Zero: wait.
  size_t close_count = 0;
  // When close_count is zero: time to ask again, unless the queue or the number
  // in flight changes before. InfiniteFuture: ask only after such a change.
  absl::Time wait_until = absl::InfiniteFuture();
};

// Decides for `queue`, oldest first. Order is kept: a request never overtakes
// an earlier one, so a batch is closed when the next request does not fit.
//   * nothing waits, or max_in_flight batches are out: wait for a change
//   * the batch is full, or the next request would not fit: close
//   * the batch has enough_rows: close
//   * the oldest has waited max_queue_delay: close with what is there
//   * the oldest came after `now`, so the clock was set back: close as well
//   * otherwise wait until then
// A single request of more than max_batch_size rows, which admission should
// have refused, is sent alone rather than blocking the queue.
BatchDecision DecideBatch(absl::Span<const WaitingRequest> queue,
                          const BatchOptions& options, int in_flight,
                          absl::Time now);

}  // namespace gpupool::scheduler
