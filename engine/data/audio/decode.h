// Decodes WAV and FLAC files with libsndfile. Bytes are untrusted: memory grows
// with what is decoded, never with what a header claims.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gpupool::engine {

struct DecodedAudio {
  uint32_t rate = 0;  // samples a second
  uint32_t channels = 0;
  uint64_t samples = 0;  // of a channel, in the whole file
  // [samples, channels], of the first samples. Integers are scaled to [-1, 1).
  // Files of floating-point numbers keep theirs. All are finite.
  std::vector<float> numbers;
};

// Decodes at most `most_samples` samples of each channel, which may be 0, and
// no more numbers than a row may have.
// INVALID_ARGUMENT, whose text continues the file's name, for
//   - files of other formats, and encodings that are no plain numbers
//   - files without samples or without a count of them, and WAV files that
//     claim more bytes than they have
//   - files that end before a sample that was asked for
//   - more channels or a higher rate than audio_limits.h allows
//   - numbers that are not finite
absl::StatusOr<DecodedAudio> DecodeAudio(absl::string_view bytes,
                                         uint64_t most_samples);

}  // namespace gpupool::engine
