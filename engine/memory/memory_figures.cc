#include "engine/memory/memory_figures.h"

#include "absl/strings/str_cat.h"

namespace gpupool::engine {
namespace {

struct FigureField {
  const char* name;
  MemoryFigure MemoryFigures::*figure;
};

constexpr FigureField kFields[] = {
    {"allocation", &MemoryFigures::allocation},
    {"segment", &MemoryFigures::segment},
    {"active", &MemoryFigures::active},
    {"inactive_split", &MemoryFigures::inactive_split},
    {"allocated_bytes", &MemoryFigures::allocated_bytes},
    {"reserved_bytes", &MemoryFigures::reserved_bytes},
    {"active_bytes", &MemoryFigures::active_bytes},
    {"inactive_split_bytes", &MemoryFigures::inactive_split_bytes},
    {"requested_bytes", &MemoryFigures::requested_bytes},
};
constexpr const char* kPools[kMemoryPools] = {"all", "small_pool",
                                              "large_pool"};

}  // namespace

void MemoryFigures::ResetPeaks() {
  for (const FigureField& field : kFields) {
    MemoryFigure& figure = this->*field.figure;
    figure.peak = figure.current;
  }
}

std::vector<std::pair<std::string, uint64_t>> NamedFigures(
    const PooledFigures& figures) {
  std::vector<std::pair<std::string, uint64_t>> named;
  for (const FigureField& field : kFields) {
    for (size_t pool = 0; pool < kMemoryPools; ++pool) {
      const MemoryFigure& figure = figures[pool].*field.figure;
      const std::string prefix =
          absl::StrCat(field.name, ".", kPools[pool], ".");
      named.emplace_back(prefix + "current", figure.current);
      named.emplace_back(prefix + "peak", figure.peak);
      named.emplace_back(prefix + "allocated", figure.allocated);
      named.emplace_back(prefix + "freed", figure.freed());
    }
  }
  return named;
}

}  // namespace gpupool::engine
