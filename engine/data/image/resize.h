// Resizes images: bilinear, where every pixel of the result is a mean over all
// pixels that it covers, as Pillow's Image.resize does.
#pragma once

#include <cstdint>

#include "engine/data/image/image.h"

namespace gpupool::engine {

// The treatment of an image with other proportions than the result.
enum class ImageFit : uint8_t {
  // It is resized until it just covers the result, and its middle is taken, as
  // by torchvision's Resize and CenterCrop.
  kCrop,
  // Its proportions change.
  kStretch,
};

struct ImageSize {
  uint32_t width = 0;
  uint32_t height = 0;
};

// Returns the image in that size, at least 1 x 1. Takes memory for the result
// and for one image of the source's height and the result's width.
DecodedImage ResizeImage(const DecodedImage& image, ImageSize size,
                         ImageFit fit);

}  // namespace gpupool::engine
