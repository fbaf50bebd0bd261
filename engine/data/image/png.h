// Decoder of PNG files, by libpng.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/data/image/image.h"

namespace gpupool::engine {

// Returns the image: grey if the file is, else colors. 16 bits become 8,
// palettes become colors, and transparency is dropped. Color profiles and gamma
// are not applied. INVALID_ARGUMENT says what is wrong for files that are
// damaged, cut off or larger than the bounds of image.h.
absl::StatusOr<DecodedImage> DecodePng(absl::string_view bytes);

}  // namespace gpupool::engine
