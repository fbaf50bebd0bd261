// Checks the chunks of a WAV file before a library reads them:
//
//   file   "RIFF" size32 "WAVE" chunk*
//   chunk  id[4] size32 content[size32], and a byte if the size is odd
//
// Sizes are little-endian. The chunk "fmt " begins with the encoding in 16
// bits, and the chunk "data" has the samples. Pure.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace gpupool::engine {

bool IsWav(absl::string_view bytes);

// Checks that each chunk up to the samples lies within the file, and that the
// encoding is PCM, floating-point, A-law or mu-law. INVALID_ARGUMENT, whose
// text continues the file's name, with the sizes or the encoding.
absl::Status CheckWavHeader(absl::string_view bytes);

}  // namespace gpupool::engine
