// NPZ: a zip archive of NPY arrays, as numpy.savez and savez_compressed write
// it.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/data/table.h"

namespace gpupool::engine {

struct NpzOptions {
  absl::string_view features_array = "x";
  absl::string_view labels_array = "y";
};

// InvalidArgument names the array; for a missing one it lists those present.
absl::StatusOr<Table> ReadNpz(absl::string_view bytes,
                              const NpzOptions& options,
                              const ReadLimits& limits);

}  // namespace gpupool::engine
