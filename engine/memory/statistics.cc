#include "engine/memory/statistics.h"

namespace gpupool::engine {
namespace {

double ShareOutside(uint64_t part, uint64_t whole) {
  if (whole == 0) return 0;
  return 1 - static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

double MemoryStatistics::internal_fragmentation() const {
  // Leaves out blocks that were given back but are still in use: they are
  // active, but requested_bytes does not count them.
  return ShareOutside(requested_bytes, held_block_bytes);
}

double MemoryStatistics::external_fragmentation() const {
  return ShareOutside(largest_free_bytes,
                      figures[0].inactive_split_bytes.current);
}

std::vector<std::pair<std::string, uint64_t>> MemoryStatistics::Named() const {
  auto named = NamedFigures(figures);
  named.emplace_back("num_alloc_retries", retries);
  named.emplace_back("num_ooms", out_of_memory);
  // the allocator waits for one moment instead
  named.emplace_back("num_sync_all_streams", 0);
  named.emplace_back("num_stream_waits", stream_waits);
  named.emplace_back("num_device_alloc", segment_allocations);
  named.emplace_back("num_device_free", segment_frees);
  named.emplace_back("largest_free_bytes", largest_free_bytes);
  return named;
}

}  // namespace gpupool::engine
