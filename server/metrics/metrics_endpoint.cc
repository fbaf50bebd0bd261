#include "server/metrics/metrics_endpoint.h"

#include <prometheus/exposer.h>

#include <exception>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace gpupool::server {
namespace {

constexpr size_t kThreads = 2;

}  // namespace

MetricsEndpoint::MetricsEndpoint(std::unique_ptr<prometheus::Exposer> exposer)
    : exposer_(std::move(exposer)) {}

MetricsEndpoint::~MetricsEndpoint() = default;

absl::StatusOr<std::unique_ptr<MetricsEndpoint>> MetricsEndpoint::Start(
    const std::string& listen, uint16_t port, const Metrics& metrics) {
  const bool ip6 = absl::StrContains(listen, ':');
  const std::string address =
      absl::StrCat(ip6 ? "[" : "", listen, ip6 ? "]" : "", ":", port);
  // The library reports a taken port by an exception.
  try {
    auto exposer = std::make_unique<prometheus::Exposer>(address, kThreads);
    exposer->RegisterCollectable(metrics.collectable());
    return absl::WrapUnique(new MetricsEndpoint(std::move(exposer)));
  } catch (const std::exception&) {
    return absl::UnavailableError(absl::StrCat(
        "cannot serve metrics on ", address,
        ": the address is taken or not ours; choose another --metrics-port"));
  }
}

uint16_t MetricsEndpoint::port() const {
  return static_cast<uint16_t>(exposer_->GetListeningPorts().front());
}

}  // namespace gpupool::server
