// Counts and times of one served version since it was loaded, for the
// protocol's ModelStatistics.
//
// Thread-safety: any thread. Counters are relaxed atomics, so that a snapshot
// may miss parts of requests that end meanwhile.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/time/time.h"
#include "server/serving/serving_observer.h"

namespace gpupool::server {

struct StageSum {
  uint64_t count = 0;
  uint64_t nanos = 0;
};

struct BatchSizeStatistics {
  uint32_t rows = 0;
  StageSum copy_in, compute, copy_out;
};

// Responses of one index. `compute` and `copy_out` count all but empty ones.
struct ResponseStatistics {
  uint32_t index = 0;
  StageSum compute, copy_out, success, fail, empty, cancel;
};

struct StatisticsSnapshot {
  int64_t last_inference_unix_millis = 0;  // 0: none yet
  uint64_t rows = 0;                       // computed with success
  uint64_t batches = 0;                    // executed by the worker
  StageSum success, fail, queue, copy_in, compute, copy_out;
  StageSum cache_hit, cache_miss;
  std::vector<BatchSizeStatistics> batch_sizes;  // rising; used ones only
  std::vector<ResponseStatistics> responses;     // the same
};

class VersionStatistics {
 public:
  // Responses that are counted apart. Further ones count as the last of these.
  static constexpr uint32_t kResponseIndices = 256;

  // Takes the limit of a batch's rows.
  explicit VersionStatistics(uint32_t max_batch_size);

  void RequestDone(const RequestSample& sample, absl::Time now);
  void BatchDone(const BatchSample& sample);
  // Counts as Triton does: a hit as a success, with no row and no other stage;
  // the time of a miss as time of its request.
  void CacheDone(const CacheSample& sample);
  void ResponseDone(const ResponseSample& sample);
  StatisticsSnapshot Snapshot() const;

 private:
  class Counter {
   public:
    void Add(absl::Duration time);
    void AddTime(absl::Duration time);
    StageSum Load() const;

   private:
    std::atomic<uint64_t> count_{0};
    std::atomic<uint64_t> nanos_{0};
  };
  struct BatchCounters {
    Counter copy_in, compute, copy_out;
  };
  struct ResponseCounters {
    Counter compute, copy_out, success, fail, empty, cancel;
  };

  // Returns the counters of all indices, which the first response makes.
  ResponseCounters* Responses();
  void AddResponses(StatisticsSnapshot* snapshot) const;

  const uint32_t max_batch_size_;
  std::atomic<int64_t> last_inference_unix_millis_{0};
  std::atomic<uint64_t> rows_{0};
  std::atomic<uint64_t> batches_{0};
  Counter success_, fail_, queue_, copy_in_, compute_, copy_out_;
  Counter cache_hit_, cache_miss_;
  std::unique_ptr<BatchCounters[]> by_rows_;
  std::once_flag responses_made_;
  std::unique_ptr<ResponseCounters[]> responses_;  // set once
  std::atomic<const ResponseCounters*> made_responses_{nullptr};
};

}  // namespace gpupool::server
