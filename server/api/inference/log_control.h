// The interface of the protocol's LogSettings to the log of the server.
//
// Thread-safety: any thread. Ownership: must outlive the service.
#pragma once

#include <string>

namespace gpupool::server {

// Severities, from the lowest.
enum class LogLevel { kDebug, kInfo, kWarning, kError, kCritical };

class LogControl {
 public:
  virtual ~LogControl() = default;

  // Returns the lowest severity that is logged.
  virtual LogLevel Level() const = 0;
  virtual void SetLevel(LogLevel level) = 0;
  // Returns the protocol's name for the form of the lines, which never changes:
  // "ISO8601" for lines that begin with such a time, or "json".
  virtual std::string Format() const = 0;
};

}  // namespace gpupool::server
