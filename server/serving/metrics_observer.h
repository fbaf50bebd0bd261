// Carries what serving observes to the Prometheus families.
//
// Thread-safety: any thread. Ownership: borrows Metrics, which outlives it and
// the observers that it made.
#pragma once

#include <memory>
#include <string>

#include "server/metrics/metrics.h"
#include "server/serving/serving_observer.h"

namespace gpupool::server {

class MetricsObserver : public ServingObserver {
 public:
  explicit MetricsObserver(Metrics* metrics) : metrics_(metrics) {}

  std::unique_ptr<VersionObserver> Observe(const std::string& model,
                                           uint64_t version,
                                           uint32_t queue_limit) override;
  void RequestUnrouted(absl::StatusCode code) override;

 private:
  Metrics* const metrics_;
};

}  // namespace gpupool::server
