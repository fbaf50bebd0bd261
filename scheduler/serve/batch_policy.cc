#include "scheduler/serve/batch_policy.h"

namespace gpupool::scheduler {
namespace {

struct Prefix {
  size_t count = 0;
  uint64_t rows = 0;
  bool full = false;  // whether no further request can join
};

// Returns the longest prefix of the queue that makes one batch. A first request
// above max_rows is a batch of its own.
Prefix LongestPrefix(absl::Span<const WaitingRequest> queue,
                     uint64_t max_rows) {
  Prefix prefix;
  for (const WaitingRequest& request : queue) {
    if (prefix.count > 0 && prefix.rows + request.rows > max_rows) {
      prefix.full = true;
      return prefix;
    }
    prefix.rows += request.rows;
    ++prefix.count;
  }
  prefix.full = prefix.rows >= max_rows;
  return prefix;
}

}  // namespace

int MaxInFlight(const BatchOptions& options, absl::Duration batch_time) {
  return batch_time <= kShortBatch ? 1 : options.max_in_flight;
}

BatchDecision DecideBatch(absl::Span<const WaitingRequest> queue,
                          const BatchOptions& options, int in_flight,
                          absl::Time now) {
  if (queue.empty() || in_flight >= options.max_in_flight) return {};
  const Prefix prefix = LongestPrefix(queue, options.max_batch_size);
  const absl::Time since = queue.front().enqueue_time;
  const absl::Time deadline = since + options.max_queue_delay;
  // If the oldest came after `now`, the clock was set back and the deadline is
  // meaningless.
  const bool enough =
      options.enough_rows > 0 && prefix.rows >= options.enough_rows;
  if (prefix.full || enough || now >= deadline || now < since) {
    return {.close_count = prefix.count};
  }
  return {.close_count = 0, .wait_until = deadline};
}

}  // namespace gpupool::scheduler
