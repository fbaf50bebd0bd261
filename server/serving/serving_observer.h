// The interface through which serving reports to the metrics, once per request
// and once per batch.
//
// Thread-safety: an implementation is called from any thread, several at a
// time, on the path of every request. It must only add to counters and return.
// Ownership: the ServingObserver must outlive serving; serving owns the
// VersionObservers that it asks for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace gpupool::server {

// Times of one answered request. For a request that reached the worker the
// stages add up to `total`; other stages are zero.
struct RequestSample {
  absl::StatusCode code = absl::StatusCode::kOk;
  uint32_t rows = 0;
  absl::Duration total;
  absl::Duration queue;     // before the copy, and in the ring
  absl::Duration copy_in;   // into the slot
  absl::Duration compute;   // in the engine
  absl::Duration copy_out;  // from the worker's answer on
};

// A batch that the worker answered.
struct BatchSample {
  absl::StatusCode code = absl::StatusCode::kOk;
  uint32_t requests = 0;
  uint32_t rows = 0;
  absl::Duration copy_in;
  absl::Duration compute;
  absl::Duration copy_out;
  uint32_t compiled = 0;  // programs made for its sizes
  uint32_t evicted = 0;   // programs removed for them
};

// A request that was looked up in the response cache and answered with success.
struct CacheSample {
  bool hit = false;
  // Time of a hit: to find the answer and to copy it. Time of a miss: to look
  // for an answer, and to keep the one that was computed.
  absl::Duration time;
};

// A response of a decoupled version.
struct ResponseSample {
  enum class Kind { kSuccess, kFailure, kEmpty, kCancelled };
  uint32_t index = 0;  // of the response to its request, from 0
  Kind kind = Kind::kSuccess;
  // Time since the response before it, or since the request.
  absl::Duration time;
  absl::Duration copy_out;  // until the front end had it
};

// Sequences of a version that serves sequences.
struct SequenceCounts {
  size_t active = 0;   // with a place
  size_t waiting = 0;  // requests that wait for their turn
};

class VersionObserver {
 public:
  virtual ~VersionObserver() = default;
  virtual void RequestDone(const RequestSample& sample) = 0;
  virtual void BatchDone(const BatchSample& sample) = 0;
  // Receives each request that the response cache has answered, or has missed
  // and that was computed with success. RequestDone is called for misses only.
  virtual void CacheDone(const CacheSample& sample) = 0;
  // Receives the number of requests that wait for a batch, after each change.
  virtual void QueueLength(size_t requests) = 0;
  // Receives whether its requests wait for too long
  // (scheduler/serve/load_policy.h).
  virtual void UnderLoad(bool under_load) = 0;
  // Receives the numbers after changes, if the version serves sequences.
  virtual void Sequences(const SequenceCounts& counts) = 0;
};

class ServingObserver {
 public:
  virtual ~ServingObserver() = default;
  // Begins to observe a version; `queue_limit` bounds its QueueLength. May
  // return null.
  virtual std::unique_ptr<VersionObserver> Observe(const std::string& model,
                                                   uint64_t version,
                                                   uint32_t queue_limit) = 0;
  // Receives a request that named no served version.
  virtual void RequestUnrouted(absl::StatusCode code) = 0;
};

}  // namespace gpupool::server
