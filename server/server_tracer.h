// Makes the tracer of the server's settings, and writes what becomes of its
// spans into the metrics.
#pragma once

#include <memory>
#include <string>

#include "server/config.h"
#include "server/metrics/metrics.h"
#include "server/trace/tracer.h"

namespace gpupool::server {

// The run of the server that the tracer belongs to.
struct TracedServer {
  std::string version;  // of the build
  std::string boot_id;
};

// Returns null when the settings name no collector. `metrics` must outlive the
// tracer.
std::unique_ptr<Tracer> MakeTracer(const Config& config,
                                   const TracedServer& server,
                                   Metrics* metrics);

}  // namespace gpupool::server
