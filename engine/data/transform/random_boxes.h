// Random parts of images, and numbers from a range. Formulas are those of
// get_params in torchvision.transforms of version 0.14, with our own random
// numbers. Pure but for the generator.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/base/philox.h"
#include "engine/data/transform/image.h"

namespace gpupool::engine {

struct NumberRange {
  double least = 0;
  double most = 0;
};

// Returns a uniform number of [least, most).
double DrawFrom(const NumberRange& range, Philox& random);

// Returns a box of this height and width at a random place of the image, which
// is larger by `padding` on each side. The box must fit.
ImageBox DrawCrop(const ImageShape& image, const ImageBox& size,
                  int64_t padding, Philox& random);

// Returns a box of this height and width in the centre of the image
// (CenterCrop). It may be larger than the image.
ImageBox CentreBox(const ImageShape& image, int64_t height, int64_t width);

// The area of a random box as a share of the image's, and its form.
struct BoxRanges {
  NumberRange scale;
  NumberRange ratio;
};

// Returns a box for RandomResizedCrop; its ratio is width / height. After ten
// tries that do not fit it is the largest box in the centre whose ratio is in
// the range.
ImageBox DrawResizedCrop(const ImageShape& image, const BoxRanges& ranges,
                         Philox& random);

// Returns a box for RandomErasing; its ratio is height / width. Nothing after
// ten tries that do not fit.
std::optional<ImageBox> DrawErasedBox(const ImageShape& image,
                                      const BoxRanges& ranges, Philox& random);

// Returns the largest box in the centre whose ratio of width to height is that
// of the numbers, rounded to pixels.
ImageBox LargestBox(const ImageShape& image, int64_t height, int64_t width);

}  // namespace gpupool::engine
