// Sends finished spans to a collector, on a thread of its own. What the
// collector does not take is tried again a few times, then given up.
//
// Thread-safety: any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "server/trace/collector.h"
#include "server/trace/collector_url.h"
#include "server/trace/otlp_messages.h"
#include "server/trace/span_buffer.h"

namespace gpupool::server {

// The fate of finished spans.
enum class SpanOutcome {
  kSent,     // the collector took them
  kDropped,  // the buffer was full
  kFailed,   // the collector did not take them
};

struct SpanExporterOptions {
  CollectorUrl url;
  TraceResource resource;
  size_t buffer_limit = 16384;                   // spans that may wait
  absl::Duration interval = absl::Seconds(1);    // longest wait of a span
  absl::Duration first_wait = absl::Seconds(1);  // before the second try
  // Called on any thread, also by Add.
  std::function<void(SpanOutcome outcome, uint64_t spans)> count =
      [](SpanOutcome, uint64_t) {};
  // Gets the number of spans that wait after each change, on any thread but
  // never twice at a time. It must be short and must not call the exporter.
  SpanBuffer::Waiting waiting = [](size_t) {};
};

class SpanExporter {
 public:
  explicit SpanExporter(SpanExporterOptions options);
  // Tries once to send what waits, for at most about two seconds.
  ~SpanExporter();
  SpanExporter(const SpanExporter&) = delete;
  SpanExporter& operator=(const SpanExporter&) = delete;

  // Takes the spans, or drops them. Never blocks for long.
  void Add(std::vector<Span> spans);

 private:
  void Run();
  void SendAll(absl::Span<const Span> spans);
  // Returns whether the collector took the spans.
  bool Send(absl::Span<const Span> spans);
  void Count(SpanOutcome outcome, uint64_t spans);
  // Logs at most once a minute how many spans were dropped since the last time.
  void TellDropped(size_t spans);
  // Logs at most one problem a minute.
  void Tell(const CollectorAnswer& answer, size_t spans);

  const SpanExporterOptions options_;
  SpanBuffer buffer_;
  Collector collector_;
  absl::Notification stopping_;
  absl::Notification ended_;
  absl::Time next_message_ = absl::InfinitePast();  // the thread's
  absl::Mutex drops_mutex_;
  size_t untold_drops_ ABSL_GUARDED_BY(drops_mutex_) = 0;
  absl::Time next_drop_message_ ABSL_GUARDED_BY(drops_mutex_) =
      absl::InfinitePast();
  std::thread thread_;
};

// Returns for how long a request waits after `tries` tries, >= 1: as long as
// the collector asks for, but at least `first`; else `first` doubled with each
// try, at most 30 seconds.
absl::Duration WaitBeforeTry(int tries, absl::Duration first,
                             std::optional<absl::Duration> retry_after);

}  // namespace gpupool::server
