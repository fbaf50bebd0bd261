#include "server/serving_metrics.h"

#include <algorithm>
#include <utility>

namespace gpupool::server {
namespace {

class VersionAdapter : public VersionObserver {
 public:
  explicit VersionAdapter(std::shared_ptr<VersionMetrics> metrics)
      : metrics_(std::move(metrics)) {}

  // Stages that the request did not reach are not observed.
  void RequestDone(const RequestSample& sample) override {
    metrics_->CountRequest(sample.code);
    metrics_->ObserveTotal(sample.total);
    if (sample.queue > absl::ZeroDuration()) {
      metrics_->ObserveQueue(sample.queue);
    }
    if (sample.compute > absl::ZeroDuration()) {
      metrics_->ObserveCompute(sample.compute);
    }
    if (sample.code == absl::StatusCode::kOk) CountForTriton(sample);
  }

  void BatchDone(const BatchSample& sample) override {
    metrics_->Observe(HistogramName::kBatchSize, sample.rows);
    metrics_->Count(CounterName::kProgramsCompiled, sample.compiled);
    metrics_->Count(CounterName::kProgramsEvicted, sample.evicted);
    if (sample.code == absl::StatusCode::kOk) {
      metrics_->Count(CounterName::kTritonBatches, 1);
    }
  }

  void CacheDone(const CacheSample& sample) override {
    const double time = Microseconds(sample.time);
    metrics_->Count(CounterName::kTritonRequestTime, time);
    if (!sample.hit) {
      metrics_->Count(CounterName::kCacheMisses, 1);
      metrics_->Count(CounterName::kTritonCacheMisses, 1);
      metrics_->Count(CounterName::kTritonCacheMissTime, time);
      return;
    }
    metrics_->CountRequest(absl::StatusCode::kOk);
    metrics_->ObserveTotal(sample.time);
    metrics_->Count(CounterName::kCacheHits, 1);
    metrics_->Count(CounterName::kTritonCacheHits, 1);
    metrics_->Count(CounterName::kTritonCacheHitTime, time);
  }

  void QueueLength(size_t requests) override {
    const auto waiting = static_cast<double>(requests);
    metrics_->Set(GaugeName::kInferenceQueueDepth, waiting);
    metrics_->Set(GaugeName::kTritonPending, waiting);
  }

  void UnderLoad(bool under_load) override {
    metrics_->Set(GaugeName::kInferenceUnderLoad, under_load ? 1 : 0);
  }

  void Sequences(const SequenceCounts& counts) override {
    metrics_->Set(GaugeName::kSequences, static_cast<double>(counts.active));
    metrics_->Set(GaugeName::kSequenceWaiting,
                  static_cast<double>(counts.waiting));
  }

 private:
  // A clock that was set back makes negative times.
  static double Microseconds(absl::Duration time) {
    return std::max(0.0, absl::ToDoubleMicroseconds(time));
  }

  void CountForTriton(const RequestSample& sample) {
    metrics_->Count(CounterName::kTritonRows, sample.rows);
    const std::pair<CounterName, absl::Duration> times[] = {
        {CounterName::kTritonRequestTime, sample.total},
        {CounterName::kTritonQueueTime, sample.queue},
        {CounterName::kTritonInputTime, sample.copy_in},
        {CounterName::kTritonInferTime, sample.compute},
        {CounterName::kTritonOutputTime, sample.copy_out}};
    for (const auto& [counter, time] : times) {
      metrics_->Count(counter, Microseconds(time));
    }
  }

  const std::shared_ptr<VersionMetrics> metrics_;
};

}  // namespace

std::unique_ptr<VersionObserver> ServingMetrics::Observe(
    const std::string& model, uint64_t version, uint32_t queue_limit) {
  return std::make_unique<VersionAdapter>(
      metrics_->ForVersion(model, std::to_string(version), queue_limit));
}

void ServingMetrics::RequestUnrouted(absl::StatusCode code) {
  metrics_->CountUnroutedRequest(code);
}

std::unique_ptr<ResponseCache> MakeResponseCache(uint64_t limit_bytes,
                                                 Metrics* metrics) {
  if (limit_bytes == 0) return nullptr;
  metrics->Set(GaugeName::kCacheLimit, {}, static_cast<double>(limit_bytes));
  return std::make_unique<ResponseCache>(ResponseCacheOptions{
      .limit_bytes = limit_bytes, .changed = [metrics](const CacheUsage& now) {
        metrics->Set(GaugeName::kCacheBytes, {},
                     static_cast<double>(now.bytes));
        metrics->Set(GaugeName::kCacheAnswers, {},
                     static_cast<double>(now.answers));
        metrics->Count(CounterName::kCacheEvictions, {},
                       static_cast<double>(now.evicted));
      }});
}

}  // namespace gpupool::server
