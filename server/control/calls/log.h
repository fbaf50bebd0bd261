// Private to server/control: writes lines to the server's log. A line is
// "event=NAME key=value ...". Callers format the line themselves, so that only
// log.cc compiles the logging library's formatting.
//
// Thread-safety: any thread.
#pragma once

#include "absl/strings/string_view.h"

namespace gpupool::server {

void LogInfo(absl::string_view line);
void LogWarning(absl::string_view line);
void LogCritical(absl::string_view line);

}  // namespace gpupool::server
