// Reader of NPZ: a zip archive of NPY arrays, as written by numpy.savez and
// numpy.savez_compressed.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/data/table.h"

namespace gpupool::engine {

struct NpzOptions {
  absl::string_view features_array = "x";
  absl::string_view labels_array = "y";
};

// Reads the two arrays into a table. INVALID_ARGUMENT names the array; for a
// missing array it lists those present.
absl::StatusOr<Table> ReadNpz(absl::string_view bytes,
                              const NpzOptions& options,
                              const ReadLimits& limits);

}  // namespace gpupool::engine
