#include "engine/data/transform/random_boxes.h"

#include <algorithm>
#include <cmath>

namespace gpupool::engine {
namespace {

constexpr int kTries = 10;

// Rounds halves to the even number, as Python does.
int64_t Rounded(double number) {
  return static_cast<int64_t>(std::nearbyint(number));
}

// Returns a number of 0 .. most.
int64_t DrawUpTo(int64_t most, Philox& random) {
  return static_cast<int64_t>(
      random.NextBelow(static_cast<uint64_t>(most) + 1));
}

// Sides of a box before it has a place.
struct Sides {
  int64_t along_ratio = 0;  // grows with the ratio
  int64_t against_ratio = 0;
};

Sides DrawSides(const ImageShape& image, const BoxRanges& ranges,
                Philox& random) {
  const double area =
      static_cast<double>(image.plane()) * DrawFrom(ranges.scale, random);
  const double ratio = std::exp(DrawFrom(
      {std::log(ranges.ratio.least), std::log(ranges.ratio.most)}, random));
  return {Rounded(std::sqrt(area * ratio)), Rounded(std::sqrt(area / ratio))};
}

ImageBox Placed(const ImageShape& image, int64_t height, int64_t width,
                Philox& random) {
  ImageBox box = {.height = height, .width = width};
  box.top = DrawUpTo(image.height - height, random);
  box.left = DrawUpTo(image.width - width, random);
  return box;
}

}  // namespace

double DrawFrom(const NumberRange& range, Philox& random) {
  return range.least + (range.most - range.least) * random.NextDouble();
}

ImageBox DrawCrop(const ImageShape& image, const ImageBox& size,
                  int64_t padding, Philox& random) {
  const ImageShape padded = {image.channels, image.height + 2 * padding,
                             image.width + 2 * padding};
  ImageBox box = Placed(padded, size.height, size.width, random);
  box.top -= padding;
  box.left -= padding;
  return box;
}

ImageBox CentreBox(const ImageShape& image, int64_t height, int64_t width) {
  // A larger box has the smaller half of what it adds in front.
  const auto before = [](int64_t whole, int64_t part) {
    return part > whole ? -((part - whole) / 2)
                        : Rounded(static_cast<double>(whole - part) / 2);
  };
  return {before(image.height, height), before(image.width, width), height,
          width};
}

ImageBox DrawResizedCrop(const ImageShape& image, const BoxRanges& ranges,
                         Philox& random) {
  for (int i = 0; i < kTries; ++i) {
    const Sides sides = DrawSides(image, ranges, random);
    const int64_t width = sides.along_ratio, height = sides.against_ratio;
    if (width > 0 && width <= image.width && height > 0 &&
        height <= image.height) {
      return Placed(image, height, width, random);
    }
  }
  ImageBox box = {.height = image.height, .width = image.width};
  const double ratio =
      static_cast<double>(image.width) / static_cast<double>(image.height);
  if (ratio < ranges.ratio.least) {
    box.height = Rounded(static_cast<double>(box.width) / ranges.ratio.least);
  } else if (ratio > ranges.ratio.most) {
    box.width = Rounded(static_cast<double>(box.height) * ranges.ratio.most);
  }
  box.height = std::max<int64_t>(box.height, 1);
  box.width = std::max<int64_t>(box.width, 1);
  box.top = (image.height - box.height) / 2;
  box.left = (image.width - box.width) / 2;
  return box;
}

std::optional<ImageBox> DrawErasedBox(const ImageShape& image,
                                      const BoxRanges& ranges, Philox& random) {
  for (int i = 0; i < kTries; ++i) {
    const Sides sides = DrawSides(image, ranges, random);
    const int64_t height = sides.along_ratio, width = sides.against_ratio;
    if (height < image.height && width < image.width) {
      return Placed(image, height, width, random);
    }
  }
  return std::nullopt;
}

ImageBox LargestBox(const ImageShape& image, int64_t height, int64_t width) {
  const double ratio = static_cast<double>(width) / static_cast<double>(height);
  const int64_t fitting_width =
      Rounded(static_cast<double>(image.height) * ratio);
  if (fitting_width <= image.width) {
    return CentreBox(image, image.height, std::max<int64_t>(fitting_width, 1));
  }
  const int64_t fitting_height =
      Rounded(static_cast<double>(image.width) / ratio);
  return CentreBox(image, std::clamp<int64_t>(fitting_height, 1, image.height),
                   image.width);
}

}  // namespace gpupool::engine
