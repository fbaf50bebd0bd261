// Writes serving's observations into the metrics.
//
// Thread-safety: as ServingObserver. Metrics must outlive what is here.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "server/metrics/metrics.h"
#include "server/serving/response_cache.h"
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

// Returns a cache of that many bytes which reports to the metrics; null for 0.
std::unique_ptr<ResponseCache> MakeResponseCache(uint64_t limit_bytes,
                                                 Metrics* metrics);

}  // namespace gpupool::server
