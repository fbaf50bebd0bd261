// A decoded image, and the bounds of what is decoded. A value.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace gpupool::engine {

struct DecodedImage {
  uint32_t width = 0;
  uint32_t height = 0;
  uint32_t channels = 0;        // 1: grey; 3: red, green, blue
  std::vector<uint8_t> pixels;  // [height, width, channels]
};

// Bounds of encoded images. Headers are untrusted: a file of a few bytes may
// claim any size.
inline constexpr uint32_t kMaxImageSide = 16384;
inline constexpr uint64_t kMaxImagePixels = uint64_t{1} << 26;

// Returns INVALID_ARGUMENT for an image that is empty or exceeds the bounds.
inline absl::Status CheckImageSize(uint64_t width, uint64_t height) {
  if (width >= 1 && height >= 1 && width <= kMaxImageSide &&
      height <= kMaxImageSide && width * height <= kMaxImagePixels) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("has ", width, " x ", height, " pixels; 1 to ",
                   kMaxImageSide, " a side are possible, and ", kMaxImagePixels,
                   " in all: make it smaller or leave it out"));
}

}  // namespace gpupool::engine
