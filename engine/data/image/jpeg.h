// Decoder of JPEG files, by libjpeg.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/data/image/image.h"

namespace gpupool::engine {

// Returns the image: grey if the file is, else colors. CMYK becomes RGB, with
// inks as Adobe's programs store them (inverted). The orientation in EXIF data
// is not applied. INVALID_ARGUMENT says what is wrong for files that are
// damaged, cut off or larger than the bounds of image.h.
absl::StatusOr<DecodedImage> DecodeJpeg(absl::string_view bytes);

}  // namespace gpupool::engine
