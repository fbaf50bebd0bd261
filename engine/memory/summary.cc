#include "engine/memory/summary.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace gpupool::engine {
namespace {

void AddBytes(std::string& text, absl::string_view name, uint64_t bytes) {
  absl::StrAppendFormat(&text, "| %-28s | %14s | %20u |\n", name,
                        FormatBytes(bytes), bytes);
}

void AddCount(std::string& text, absl::string_view name, uint64_t count) {
  absl::StrAppendFormat(&text, "| %-28s | %14s | %20u |\n", name, "", count);
}

void AddShare(std::string& text, absl::string_view name, uint64_t lost,
              uint64_t whole) {
  const double percent = whole == 0 ? 0.0 : 100.0 * lost / whole;
  absl::StrAppendFormat(&text, "| %-28s | %13.1f%% | %20s |\n", name, percent,
                        "");
}

}  // namespace

std::string FormatBytes(uint64_t bytes) {
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return absl::StrCat(bytes, " bytes");
  double value = static_cast<double>(bytes) / 1024;
  int unit = 0;
  while (value >= 1024 && unit < 5) {
    value /= 1024;
    ++unit;
  }
  return absl::StrFormat("%.2f %s", value, kUnits[unit]);
}

std::string FormatSummary(absl::string_view device,
                          const MemoryStatistics& statistics) {
  const std::string rule(72, '-');
  const uint64_t cached =
      statistics.reserved_bytes - statistics.allocated_bytes;
  std::string text = absl::StrFormat("%s\n| %-68s |\n%s\n", rule,
                                     absl::StrCat("memory of ", device), rule);
  AddBytes(text, "limit", statistics.limit_bytes);
  AddBytes(text, "allocated", statistics.allocated_bytes);
  AddBytes(text, "requested", statistics.requested_bytes);
  AddBytes(text, "reserved", statistics.reserved_bytes);
  AddBytes(text, "cached", cached);
  AddBytes(text, "peak allocated", statistics.peak_allocated_bytes);
  AddBytes(text, "peak reserved", statistics.peak_reserved_bytes);
  AddShare(text, "lost to rounding",
           statistics.allocated_bytes - statistics.requested_bytes,
           statistics.allocated_bytes);
  // A high share means that the cache is fragmented.
  AddShare(text, "cache outside largest block",
           cached - statistics.largest_free_bytes, cached);
  AddCount(text, "allocations", statistics.allocations);
  AddCount(text, "frees", statistics.frees);
  AddCount(text, "segment allocations", statistics.segment_allocations);
  AddCount(text, "segment frees", statistics.segment_frees);
  AddCount(text, "retries", statistics.retries);
  AddCount(text, "out of memory", statistics.out_of_memory);
  absl::StrAppend(&text, rule, "\n");
  for (const OwnerUsage& owner : statistics.owners) {
    AddBytes(text, owner.label, owner.bytes);
  }
  if (!statistics.owners.empty()) absl::StrAppend(&text, rule, "\n");
  return text;
}

}  // namespace gpupool::engine
