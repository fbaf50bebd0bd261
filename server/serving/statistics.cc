#include "server/serving/statistics.h"

#include <algorithm>

namespace gpupool::server {

void VersionStatistics::Counter::Add(absl::Duration time) {
  count_.fetch_add(1, std::memory_order_relaxed);
  AddTime(time);
}

void VersionStatistics::Counter::AddTime(absl::Duration time) {
  const int64_t nanos = std::max<int64_t>(0, absl::ToInt64Nanoseconds(time));
  nanos_.fetch_add(static_cast<uint64_t>(nanos), std::memory_order_relaxed);
}

StageSum VersionStatistics::Counter::Load() const {
  return {count_.load(std::memory_order_relaxed),
          nanos_.load(std::memory_order_relaxed)};
}

VersionStatistics::VersionStatistics(uint32_t max_batch_size)
    : max_batch_size_(max_batch_size),
      by_rows_(std::make_unique<BatchCounters[]>(max_batch_size)) {}

void VersionStatistics::RequestDone(const RequestSample& sample,
                                    absl::Time now) {
  if (sample.code != absl::StatusCode::kOk) {
    fail_.Add(sample.total);
    return;
  }
  success_.Add(sample.total);
  queue_.Add(sample.queue);
  copy_in_.Add(sample.copy_in);
  compute_.Add(sample.compute);
  copy_out_.Add(sample.copy_out);
  rows_.fetch_add(sample.rows, std::memory_order_relaxed);
  last_inference_unix_millis_.store(absl::ToUnixMillis(now),
                                    std::memory_order_relaxed);
}

void VersionStatistics::BatchDone(const BatchSample& sample) {
  if (sample.code != absl::StatusCode::kOk) return;
  batches_.fetch_add(1, std::memory_order_relaxed);
  if (sample.rows == 0 || sample.rows > max_batch_size_) return;
  BatchCounters& counters = by_rows_[sample.rows - 1];
  counters.copy_in.Add(sample.copy_in);
  counters.compute.Add(sample.compute);
  counters.copy_out.Add(sample.copy_out);
}

void VersionStatistics::CacheDone(const CacheSample& sample) {
  if (sample.hit) {
    success_.Add(sample.time);
    cache_hit_.Add(sample.time);
  } else {
    success_.AddTime(sample.time);
    cache_miss_.Add(sample.time);
  }
}

VersionStatistics::ResponseCounters* VersionStatistics::Responses() {
  std::call_once(responses_made_, [this] {
    responses_ = std::make_unique<ResponseCounters[]>(kResponseIndices);
    made_responses_.store(responses_.get(), std::memory_order_release);
  });
  return responses_.get();
}

void VersionStatistics::ResponseDone(const ResponseSample& sample) {
  const uint32_t index = std::min(sample.index, kResponseIndices - 1);
  ResponseCounters& counters = Responses()[index];
  if (sample.kind == ResponseSample::Kind::kEmpty) {
    counters.empty.Add(sample.time);
    return;
  }
  counters.compute.Add(sample.time);
  counters.copy_out.Add(sample.copy_out);
  Counter& outcome =
      sample.kind == ResponseSample::Kind::kSuccess   ? counters.success
      : sample.kind == ResponseSample::Kind::kFailure ? counters.fail
                                                      : counters.cancel;
  outcome.Add(sample.time + sample.copy_out);
}

void VersionStatistics::AddResponses(StatisticsSnapshot* snapshot) const {
  const ResponseCounters* const made =
      made_responses_.load(std::memory_order_acquire);
  if (made == nullptr) return;
  for (uint32_t index = 0; index < kResponseIndices; ++index) {
    const ResponseCounters& counters = made[index];
    ResponseStatistics responses{.index = index,
                                 .compute = counters.compute.Load(),
                                 .copy_out = counters.copy_out.Load(),
                                 .success = counters.success.Load(),
                                 .fail = counters.fail.Load(),
                                 .empty = counters.empty.Load(),
                                 .cancel = counters.cancel.Load()};
    if (responses.compute.count + responses.empty.count == 0) continue;
    snapshot->responses.push_back(responses);
  }
}

StatisticsSnapshot VersionStatistics::Snapshot() const {
  StatisticsSnapshot snapshot;
  snapshot.last_inference_unix_millis =
      last_inference_unix_millis_.load(std::memory_order_relaxed);
  snapshot.rows = rows_.load(std::memory_order_relaxed);
  snapshot.batches = batches_.load(std::memory_order_relaxed);
  snapshot.success = success_.Load();
  snapshot.fail = fail_.Load();
  snapshot.queue = queue_.Load();
  snapshot.copy_in = copy_in_.Load();
  snapshot.compute = compute_.Load();
  snapshot.copy_out = copy_out_.Load();
  snapshot.cache_hit = cache_hit_.Load();
  snapshot.cache_miss = cache_miss_.Load();
  for (uint32_t rows = 1; rows <= max_batch_size_; ++rows) {
    const BatchCounters& counters = by_rows_[rows - 1];
    if (counters.compute.Load().count == 0) continue;
    snapshot.batch_sizes.push_back({rows, counters.copy_in.Load(),
                                    counters.compute.Load(),
                                    counters.copy_out.Load()});
  }
  AddResponses(&snapshot);
  return snapshot;
}

}  // namespace gpupool::server
