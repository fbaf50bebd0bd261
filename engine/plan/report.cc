#include "engine/plan/report.h"

#include "absl/container/flat_hash_set.h"
#include "engine/base/align.h"

namespace gpupool::engine {

PlannedBytes ReportBytes(const PersistentBytes& persistent,
                         absl::Span<const ProgramBytes> programs) {
  PlannedBytes report;
  report.weights = persistent.model;
  report.optimizer = persistent.optimizer;
  uint64_t arena = 0;
  uint64_t scratch = 0;
  const uint64_t resident = ResidentBytes(programs);
  for (const ProgramBytes& program : programs) {
    // Programs run in turn, so only the one with the largest arena counts.
    if (program.arena <= arena) continue;
    arena = program.arena;
    scratch = program.workspace;
    report.gradients = program.gradients;
    report.activations = program.activations;
  }
  report.workspace = scratch + resident;
  report.peak = persistent.model + persistent.optimizer + arena + resident;
  return report;
}

uint64_t ResidentBytes(absl::Span<const ProgramBytes> programs) {
  absl::flat_hash_set<std::string> counted;
  uint64_t bytes = 0;
  for (const ProgramBytes& program : programs) {
    for (const ResidentItem& item : program.residents) {
      const bool shared = !item.key.empty();
      if (shared && !counted.insert(item.key).second) continue;
      bytes += AlignUp(item.bytes);
    }
  }
  return bytes;
}

uint64_t SharedArenaBytes(absl::Span<const ProgramBytes> programs) {
  uint64_t arena = 0;
  for (const ProgramBytes& program : programs) {
    if (program.arena > arena) arena = program.arena;
  }
  return arena;
}

}  // namespace gpupool::engine
