#include "server/server_tracer.h"

#include <cstddef>
#include <cstdint>
#include <utility>

#include "engine/base/check.h"
#include "server/trace/collector_url.h"
#include "spdlog/spdlog.h"

namespace gpupool::server {
namespace {

// Label of the gauges of the spans that wait.
constexpr char kTraceQueue[] = "traces";

const char* OutcomeLabel(SpanOutcome outcome) {
  switch (outcome) {
    case SpanOutcome::kSent:
      return "sent";
    case SpanOutcome::kDropped:
      return "dropped";
    case SpanOutcome::kFailed:
      return "failed";
  }
  return "";
}

// Lets the exporter count its spans. All series exist from the start.
void CountIn(Metrics* metrics, SpanExporterOptions* options) {
  for (const SpanOutcome outcome :
       {SpanOutcome::kSent, SpanOutcome::kDropped, SpanOutcome::kFailed}) {
    metrics->Count(CounterName::kTraceSpans, {OutcomeLabel(outcome)}, 0);
  }
  metrics->Set(GaugeName::kQueueLimit, {kTraceQueue},
               static_cast<double>(options->buffer_limit));
  options->count = [metrics](SpanOutcome outcome, uint64_t spans) {
    metrics->Count(CounterName::kTraceSpans, {OutcomeLabel(outcome)},
                   static_cast<double>(spans));
  };
  options->waiting = [set = metrics->Setter(GaugeName::kQueueDepth,
                                            {kTraceQueue})](size_t spans) {
    set(static_cast<double>(spans));
  };
}

}  // namespace

std::unique_ptr<Tracer> MakeTracer(const Config& config,
                                   const TracedServer& server,
                                   Metrics* metrics) {
  if (config.trace_endpoint.empty()) return nullptr;
  auto url = ParseCollectorUrl(config.trace_endpoint);
  GPUPOOL_CHECK(url.ok());  // it was checked when set
  TracerOptions options;
  options.sampling = config.trace_sampling;
  options.limited = [metrics] {
    metrics->Count(CounterName::kTraceRequestsLimited, {});
  };
  options.exporter.url = *std::move(url);
  options.exporter.resource = {.service_name = config.trace_service_name,
                               .service_version = server.version,
                               .instance_id = server.boot_id};
  CountIn(metrics, &options.exporter);
  spdlog::info("traces are sent url={} sampling={}",
               options.exporter.url.Text(), options.sampling);
  return std::make_unique<Tracer>(std::move(options));
}

}  // namespace gpupool::server
