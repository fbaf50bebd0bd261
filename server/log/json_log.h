// Lines of the log as JSON, for programs that collect logs (--log-format json).
// The daemon and its workers use it.
//
// Thread-safety: any thread; a formatter belongs to one sink.
#pragma once

#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "spdlog/formatter.h"

namespace gpupool::server {

// The program that writes a log.
struct LogSource {
  std::string program;  // "gpupoold", "gpupool-worker"
  std::string device;   // of a worker; empty: none
};

struct LogLine {
  absl::Time time;
  absl::string_view level;
  absl::string_view message;
};

// Returns one JSON object without a line end: time (RFC 3339 in UTC, with
// microseconds), level, message and source, and those of event, job, attempt,
// device, model, version and pid that the message names as words "job=7". These
// words stand before any quoted text, and before a word that ends in a colon,
// since a job or a client may have written what follows. All values are texts.
// Bytes that are no UTF-8 become U+FFFD.
std::string JsonLogLine(const LogSource& source, const LogLine& line);

// Returns a formatter whose lines are JsonLogLine's.
std::unique_ptr<spdlog::formatter> JsonLogFormatter(LogSource source);

}  // namespace gpupool::server
