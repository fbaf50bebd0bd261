// Serves /metrics over HTTP for Prometheus to scrape.
//
// Ownership: owns the listener and its threads. Metrics must outlive it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/metrics/metrics.h"

namespace prometheus {
class Exposer;
}  // namespace prometheus

namespace gpupool::server {

class MetricsEndpoint {
 public:
  // Listens and serves. `listen` is an IP address; port 0 takes any free port.
  // Unavailable when the address is not available.
  static absl::StatusOr<std::unique_ptr<MetricsEndpoint>> Start(
      const std::string& listen, uint16_t port, const Metrics& metrics);
  ~MetricsEndpoint();

  uint16_t port() const;

 private:
  MetricsEndpoint(std::string listen,
                  std::unique_ptr<prometheus::Exposer> exposer);

  const std::string listen_;
  std::unique_ptr<prometheus::Exposer> exposer_;
};

}  // namespace gpupool::server
