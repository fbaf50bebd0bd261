// Memory statistics as a table for people.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "engine/memory/statistics.h"

namespace gpupool::engine {

// Returns "1536 bytes", "2.50 MiB": the unit keeps the number below 1024.
std::string FormatBytes(uint64_t bytes);

// Returns a table of statistics and owners, one line each, ending in a newline.
std::string FormatSummary(absl::string_view device,
                          const MemoryStatistics& statistics);

}  // namespace gpupool::engine
