#include "server/serving_metrics.h"

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
  }

  void BatchDone(const BatchSample& sample) override {
    metrics_->Observe(HistogramName::kBatchSize, sample.rows);
    metrics_->Count(CounterName::kProgramsCompiled, sample.compiled);
    metrics_->Count(CounterName::kProgramsEvicted, sample.evicted);
  }

  void QueueLength(size_t requests) override {
    metrics_->Set(GaugeName::kInferenceQueueDepth,
                  static_cast<double>(requests));
  }

  void UnderLoad(bool under_load) override {
    metrics_->Set(GaugeName::kInferenceUnderLoad, under_load ? 1 : 0);
  }

 private:
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

}  // namespace gpupool::server
