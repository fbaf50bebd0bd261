#include "server/serving/metrics_observer.h"

#include <utility>

namespace gpupool::server {
namespace {

class VersionMetricsObserver : public VersionObserver {
 public:
  explicit VersionMetricsObserver(std::shared_ptr<VersionMetrics> metrics)
      : metrics_(std::move(metrics)) {}

  void RequestDone(const RequestSample& sample) override {
    metrics_->CountRequest(sample.code);
    metrics_->ObserveTotal(sample.total);
    // Stages of refused requests would pull the histograms towards zero.
    if (sample.code == absl::StatusCode::kOk) {
      metrics_->ObserveQueue(sample.queue);
    }
  }

  void BatchDone(const BatchSample& sample) override {
    if (sample.code != absl::StatusCode::kOk) return;
    metrics_->ObserveBatch(sample.rows);
    metrics_->ObserveCompute(sample.compute);
  }

  void QueueLength(size_t requests) override {
    metrics_->SetQueueDepth(requests);
  }

 private:
  const std::shared_ptr<VersionMetrics> metrics_;
};

}  // namespace

std::unique_ptr<VersionObserver> MetricsObserver::Observe(
    const std::string& model, uint64_t version, uint32_t queue_limit) {
  return std::make_unique<VersionMetricsObserver>(
      metrics_->ForVersion(model, std::to_string(version), queue_limit));
}

void MetricsObserver::RequestUnrouted(absl::StatusCode code) {
  metrics_->CountUnroutedRequest(code);
}

}  // namespace gpupool::server
