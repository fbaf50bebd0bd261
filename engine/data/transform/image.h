// One image of a batch while it is transformed, and the ops that move its
// pixels. Formulas are those of torchvision.transforms on float tensors, of
// version 0.14, except where a function says otherwise. Pure.
#pragma once

#include <cstdint>
#include <vector>

namespace gpupool::engine {

struct ImageShape {
  int64_t channels = 0;
  int64_t height = 0;
  int64_t width = 0;

  int64_t plane() const { return height * width; }
  int64_t numbers() const { return channels * plane(); }
  bool operator==(const ImageShape&) const = default;
};

struct Image {
  ImageShape shape;
  std::vector<float> pixels;  // [channels, height, width]
  std::vector<float> spare;   // memory that ops reuse
};

// A part of an image, in pixels. It may reach beyond the image.
struct ImageBox {
  int64_t top = 0;
  int64_t left = 0;
  int64_t height = 0;
  int64_t width = 0;
};

// Mirrors the image: left and right, or top and bottom, change places.
void FlipHorizontally(Image& image);
void FlipVertically(Image& image);

// Cuts the image to the box. Pixels beyond the image are 0.
void Crop(const ImageBox& box, Image& image);

// Turns the image counterclockwise around its centre. Each pixel becomes the
// nearest one of the original, or 0 beyond it (RandomRotation with its default
// interpolation).
void Rotate(double degrees, Image& image);

// Sets the part of the box, which must be inside the image, to `value` in all
// channels.
void Erase(const ImageBox& box, float value, Image& image);

// Changes the size to height x width, both at least 1, by linear interpolation
// in both directions. When an axis shrinks, each pixel is a weighted mean of
// all pixels that it covers, with a triangle as weights: Pillow's BILINEAR, and
// torchvision's Resize with antialias=True, which later versions have as the
// default.
void Resize(int64_t height, int64_t width, Image& image);

}  // namespace gpupool::engine
