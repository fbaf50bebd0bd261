// The level of the daemon's log, which LogSettings reads and sets. It is not
// stored: after a restart --log-level applies again. Workers keep their own.
//
// Thread-safety: any thread.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "server/api/inference/log_control.h"

namespace gpupool::server {

class ServerLog : public LogControl {
 public:
  // `format` is a value of --log-format.
  explicit ServerLog(absl::string_view format);

  LogLevel Level() const override;
  // Sets the level, and logs the change if info is logged before or after it.
  void SetLevel(LogLevel level) override;
  std::string Format() const override;

 private:
  const std::string format_;
};

}  // namespace gpupool::server
