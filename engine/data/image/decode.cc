#include "engine/data/image/decode.h"

#include <utility>

#include "absl/strings/match.h"
#include "engine/base/status_macros.h"
#include "engine/data/image/jpeg.h"
#include "engine/data/image/png.h"

namespace gpupool::engine {
namespace {

absl::StatusOr<DecodedImage> DecodeAsStored(absl::string_view bytes) {
  if (absl::StartsWith(bytes, "\xff\xd8\xff")) return DecodeJpeg(bytes);
  if (absl::StartsWith(bytes, "\x89PNG")) return DecodePng(bytes);
  return absl::InvalidArgumentError(
      bytes.empty() ? "is empty; save it again or leave it out"
                    : "is neither JPEG nor PNG, whatever its name says; "
                      "convert it or leave it out");
}

std::vector<uint8_t> GreyOf(const std::vector<uint8_t>& colors) {
  std::vector<uint8_t> grey(colors.size() / 3);
  for (size_t i = 0; i < grey.size(); ++i) {
    // The weights in units of 2^-16.
    const uint32_t sum = 19595u * colors[3 * i] + 38470u * colors[3 * i + 1] +
                         7471u * colors[3 * i + 2];
    grey[i] = static_cast<uint8_t>((sum + 0x8000u) >> 16);
  }
  return grey;
}

std::vector<uint8_t> ColorsOf(const std::vector<uint8_t>& grey) {
  std::vector<uint8_t> colors;
  colors.reserve(grey.size() * 3);
  for (const uint8_t level : grey) colors.insert(colors.end(), 3, level);
  return colors;
}

}  // namespace

absl::StatusOr<DecodedImage> DecodeImage(absl::string_view bytes,
                                         uint32_t channels) {
  ASSIGN_OR_RETURN(DecodedImage image, DecodeAsStored(bytes));
  if (image.channels == channels) return image;
  image.pixels = channels == 1 ? GreyOf(image.pixels) : ColorsOf(image.pixels);
  image.channels = channels;
  return image;
}

}  // namespace gpupool::engine
