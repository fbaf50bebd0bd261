#include "engine/serving/resident_budget.h"

#include <algorithm>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "engine/base/align.h"

namespace gpupool::engine {
namespace {

// Returns the keys of items that do not belong to one size: programs of two
// sizes have them. With one planned size all but constants are taken as shared,
// since constants may hold shapes.
absl::flat_hash_set<std::string> SharedKeys(
    const std::vector<SizedBytes>& planned) {
  const bool one_size = std::all_of(planned.begin(), planned.end(),
                                    [&](const SizedBytes& program) {
                                      return program.sizes == planned[0].sizes;
                                    });
  absl::flat_hash_map<std::string, const std::vector<int64_t>*> seen;
  absl::flat_hash_set<std::string> shared;
  for (const SizedBytes& program : planned) {
    for (const ResidentItem& item : program.bytes.residents) {
      if (item.key.empty()) continue;
      const auto [first, fresh] = seen.insert({item.key, &program.sizes});
      const bool constant = absl::StartsWith(item.key, "constant ");
      if (one_size ? !constant : *first->second != program.sizes) {
        shared.insert(item.key);
      }
    }
  }
  return shared;
}

}  // namespace

uint64_t ResidentBudget(const std::vector<SizedBytes>& planned,
                        uint64_t count) {
  const absl::flat_hash_set<std::string> shared = SharedKeys(planned);
  absl::flat_hash_set<std::string> counted;
  uint64_t shared_bytes = 0;
  uint64_t most = 0;
  for (const SizedBytes& program : planned) {
    uint64_t own = 0;
    absl::flat_hash_set<std::string> taken;
    for (const ResidentItem& item : program.bytes.residents) {
      const uint64_t bytes = AlignUp(item.bytes);
      if (shared.contains(item.key)) {
        if (counted.insert(item.key).second) shared_bytes += bytes;
      } else if (item.key.empty() || taken.insert(item.key).second) {
        own += bytes;
      }
    }
    // Any of the programs may be as large as the largest planned one.
    most = std::max(most, own);
  }
  return shared_bytes + count * most;
}

}  // namespace gpupool::engine
