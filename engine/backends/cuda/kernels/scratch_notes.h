// What scratch memory a library's choice took on a device, noted beside its
// plans: a process that plans for the device without opening it asks there.
//
// Thread-safety: as PlanCache.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"
#include "engine/backends/cuda/kernels/plan_cache.h"

namespace gpupool::engine::cuda {

// Writes nothing when the same is noted already.
void NoteScratch(PlanCache& cache, absl::string_view key, uint64_t bytes);

// Nothing when nobody noted it under this key.
std::optional<uint64_t> FindScratch(PlanCache& cache, absl::string_view key);

}  // namespace gpupool::engine::cuda
