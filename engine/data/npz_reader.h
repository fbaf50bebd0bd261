// Reader of NPZ: a zip archive of NPY arrays, as written by numpy.savez and
// numpy.savez_compressed.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/data/array_reader.h"
#include "engine/data/table.h"

namespace gpupool::engine {

struct NpzOptions {
  std::string features_array = "x";
  std::string labels_array = "y";
  // Arrays by the names of inputs and targets. They replace features_array and
  // labels_array.
  std::map<std::string, std::string> input_arrays;
  std::map<std::string, std::string> target_arrays;
};

// The arrays of a table, with the streams that they use.
struct OpenArrays {
  std::vector<OpenArray> inputs;
  std::vector<OpenArray> targets;
  std::vector<std::unique_ptr<ByteStream>> streams;
};

// Opens the arrays of the archive `bytes`, which must outlive the result. They
// are those of `file`, or it is null. INVALID_ARGUMENT names the array, also
// one that the archive holds twice; for a missing array it lists those present.
absl::StatusOr<OpenArrays> OpenNpz(absl::string_view bytes,
                                   const NpzOptions& options,
                                   std::shared_ptr<const MappedFile> file);

// Reads the arrays into a table. Errors as OpenNpz and TableFromArrays.
absl::StatusOr<Table> ReadNpz(absl::string_view bytes,
                              const NpzOptions& options,
                              const ReadLimits& limits);

}  // namespace gpupool::engine
