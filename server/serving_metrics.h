// Writes serving's observations into the metrics.
//
// Thread-safety: as ServingObserver. Metrics must outlive it.
#pragma once

#include <memory>
#include <string>

#include "server/metrics/metrics.h"
#include "server/serving/serving_observer.h"

namespace gpupool::server {

class ServingMetrics : public ServingObserver {
 public:
  explicit ServingMetrics(Metrics* metrics) : metrics_(metrics) {}

  std::unique_ptr<VersionObserver> Observe(const std::string& model,
                                           uint64_t version,
                                           uint32_t queue_limit) override;
  void RequestUnrouted(absl::StatusCode code) override;

 private:
  Metrics* const metrics_;
};

}  // namespace gpupool::server
