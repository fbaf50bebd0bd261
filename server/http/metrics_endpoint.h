// Serves the metrics for Prometheus to scrape, over plain HTTP:
//
//   GET /metrics   the text, in gzip if the client accepts that
//
// Limits and deadlines are those of port/http_port.h, with fewer connections.
// The port and its threads serve nothing else, so that no other call delays a
// scrape.
//
// Thread-safety: Start and the destructor belong to one thread. Ownership: owns
// the port and its threads. What `text` uses must outlive them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace gpupool::server {

class HttpPort;

class MetricsEndpoint {
 public:
  // Listens and serves. `listen` is an IP address; port 0 takes any free port.
  // Several threads call `text`, which returns the metrics in Prometheus' text
  // format. Unavailable when the system refuses the address or the port, with
  // its reason; InvalidArgument when `listen` is no address.
  static absl::StatusOr<std::unique_ptr<MetricsEndpoint>> Start(
      const std::string& listen, uint16_t port,
      std::function<std::string()> text);

  // Stops. Answers that are being made are still sent.
  ~MetricsEndpoint();

  uint16_t port() const;

 private:
  explicit MetricsEndpoint(std::unique_ptr<HttpPort> port);

  const std::unique_ptr<HttpPort> port_;
};

}  // namespace gpupool::server
