// Decodes an image by what its bytes begin with.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/data/image/image.h"

namespace gpupool::engine {

// Returns the image of a JPEG or PNG file with `channels` (1 or 3). Grey is
// repeated in three colors; colors become grey by ITU-R BT.601:
// 0.299 R + 0.587 G + 0.114 B. Errors as DecodeJpeg and DecodePng, and
// INVALID_ARGUMENT for other files.
absl::StatusOr<DecodedImage> DecodeImage(absl::string_view bytes,
                                         uint32_t channels);

}  // namespace gpupool::engine
