// Reader of recordings with their classes, in tar archives.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/data/samples/samples.h"
#include "engine/data/table.h"

namespace gpupool::engine {

struct AudioOptions {
  // Length of the rows, at most one of both. Both zero: all recordings must
  // have the length of the first one.
  uint64_t samples = 0;
  double seconds = 0;
  uint32_t rate = 0;  // samples a second; 0: that of the first recording
  // The classes in their order. Empty: those that are found.
  std::vector<std::string> classes;
};

// Reads WAV and FLAC files in the order of the archives. Rows are float32
// [channels, samples], and labels int64. With a length, longer recordings lose
// their end, and zeros follow shorter ones. DatasetFormat.AUDIO says how
// recordings get their classes. Files of other kinds and hidden ones are left
// out.
//   INVALID_ARGUMENT    an archive or a recording is broken, a recording has no
//                       class, or another rate, length or count of channels, a
//                       row would have too many numbers, or there is one class
//                       only; names the archive and the recording
//   RESOURCE_EXHAUSTED  the table would exceed `limits`, or the disk is full
absl::StatusOr<Table> ReadAudio(absl::Span<const SampleArchive> archives,
                                const AudioOptions& options,
                                const ReadLimits& limits);

}  // namespace gpupool::engine
