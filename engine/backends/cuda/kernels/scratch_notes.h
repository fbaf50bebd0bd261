// Notes of the scratch memory that a library's choices take on a device, kept
// among its plans. A process that plans for the device without opening it reads
// them.
//
// Thread-safety: as PlanCache.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"
#include "engine/backends/cuda/kernels/plan_cache.h"

namespace gpupool::engine::cuda {

// Keeps `bytes` under the key. Writes nothing when the note is already there.
void NoteScratch(PlanCache& cache, absl::string_view key, uint64_t bytes);

// Returns the noted bytes, or nullopt when the key has no note.
std::optional<uint64_t> FindScratch(PlanCache& cache, absl::string_view key);

}  // namespace gpupool::engine::cuda
