// What serving tells the metrics, once per request and once per batch.
//
// Thread-safety: an implementation is called from any thread, several at a
// time, on the path of every request: it adds to counters and returns.
// Ownership: the ServingObserver outlives serving; serving owns the
// VersionObservers that it asks for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace gpupool::server {

// One answered request. The stages of a request that reached the worker add
// up to `total`; stages that it did not reach are zero.
struct RequestSample {
  absl::StatusCode code = absl::StatusCode::kOk;
  uint32_t rows = 0;
  absl::Duration total;
  absl::Duration queue;     // before the copy, and in the ring
  absl::Duration copy_in;   // into the slot
  absl::Duration compute;   // in the engine
  absl::Duration copy_out;  // from the worker's answer on
};

// One batch that the worker answered.
struct BatchSample {
  absl::StatusCode code = absl::StatusCode::kOk;
  uint32_t requests = 0;
  uint32_t rows = 0;
  absl::Duration copy_in;
  absl::Duration compute;
  absl::Duration copy_out;
  uint32_t compiled = 0;  // programs that were made for its sizes
  uint32_t evicted = 0;   // and removed for them
};

class VersionObserver {
 public:
  virtual ~VersionObserver() = default;
  virtual void RequestDone(const RequestSample& sample) = 0;
  virtual void BatchDone(const BatchSample& sample) = 0;
  // Requests that wait for a batch, after each change.
  virtual void QueueLength(size_t requests) = 0;
  // Its requests wait for too long (scheduler/serve/load_policy.h), or no
  // longer.
  virtual void UnderLoad(bool under_load) = 0;
};

class ServingObserver {
 public:
  virtual ~ServingObserver() = default;
  // A version starts to be served; `queue_limit` bounds its QueueLength.
  // Null: nobody wants to know.
  virtual std::unique_ptr<VersionObserver> Observe(const std::string& model,
                                                   uint64_t version,
                                                   uint32_t queue_limit) = 0;
  // A request that named no version that is served.
  virtual void RequestUnrouted(absl::StatusCode code) = 0;
};

}  // namespace gpupool::server
