// A collector that takes OTLP over HTTP or HTTPS.
//
// Thread-safety: one thread at a time sends; Stop may be called from any.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "server/trace/collector_url.h"

namespace httplib {
class ClientImpl;
}  // namespace httplib

namespace gpupool::server {

// The outcome of one request.
struct CollectorAnswer {
  bool taken = false;
  bool may_retry = false;    // whether the same request may succeed later
  uint64_t rejected = 0;     // spans of a taken request that were not kept
  std::string problem = {};  // empty: none
  // Time for which the collector wants to be left alone.
  std::optional<absl::Duration> retry_after = std::nullopt;
};

class Collector {
 public:
  explicit Collector(CollectorUrl url);
  ~Collector();
  Collector(const Collector&) = delete;
  Collector& operator=(const Collector&) = delete;

  // Sends an ExportTraceRequest in wire format and blocks until it is answered,
  // which takes limited time. The certificate of an https collector must be
  // signed by an authority that the system trusts.
  CollectorAnswer Send(const std::string& body);

  // Ends a Send that waits for the collector's answer.
  void Stop();

 private:
  CollectorAnswer Unreached(int error) const;

  const CollectorUrl url_;
  const std::unique_ptr<httplib::ClientImpl> http_;
};

// Reads the header Retry-After: whole seconds, at most 60. Nothing for another
// form.
std::optional<absl::Duration> ReadRetryAfter(const std::string& text);

}  // namespace gpupool::server
