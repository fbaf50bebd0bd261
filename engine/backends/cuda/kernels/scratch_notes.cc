#include "engine/backends/cuda/kernels/scratch_notes.h"

#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace gpupool::engine::cuda {
namespace {

std::string NoteKey(absl::string_view key) {
  return absl::StrCat("scratch of ", key);
}

}  // namespace

void NoteScratch(PlanCache& cache, absl::string_view key, uint64_t bytes) {
  // Saves a write of the file.
  if (FindScratch(cache, key) == bytes) return;
  cache.Put(NoteKey(key), absl::StrCat(bytes));
}

std::optional<uint64_t> FindScratch(PlanCache& cache, absl::string_view key) {
  const absl::StatusOr<std::string> note = cache.Find(NoteKey(key));
  uint64_t bytes = 0;
  if (!note.ok() || !absl::SimpleAtoi(*note, &bytes)) return std::nullopt;
  return bytes;
}

}  // namespace gpupool::engine::cuda
