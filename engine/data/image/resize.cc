#include "engine/data/image/resize.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace gpupool::engine {
namespace {

// Weights are whole numbers of this unit, so that every machine has the same
// result. A sum of 2^8 * 2^22 fits 32 bits.
constexpr int kWeightBits = 22;

// One axis: `from` pixels become `to`, of which `count` are wanted, from
// `first` on.
struct Axis {
  uint32_t from = 0;
  uint64_t to = 0;
  uint64_t first = 0;
  uint32_t count = 0;
};

// The pixels that one pixel of the result is made of.
struct Window {
  uint32_t first = 0;
  std::vector<int32_t> weights;
};

// Returns the window around `center`, a place on the axis of the source. The
// filter is a triangle that falls to zero at `reach` on both sides.
Window WindowAt(double center, double reach, uint32_t from) {
  Window window;
  const double low = std::max(center - reach + 0.5, 0.0);
  const double high = std::min<double>(center + reach + 0.5, from);
  window.first = static_cast<uint32_t>(low);
  const auto end = static_cast<uint32_t>(high);
  std::vector<double> shares;
  double sum = 0;
  for (uint32_t i = window.first; i < end; ++i) {
    const double share =
        std::max(0.0, 1.0 - std::abs((i - center + 0.5) / reach));
    shares.push_back(share);
    sum += share;
  }
  for (const double share : shares) {
    window.weights.push_back(
        static_cast<int32_t>(share / sum * (1 << kWeightBits) + 0.5));
  }
  return window;
}

std::vector<Window> WindowsOf(const Axis& axis) {
  const double scale =
      static_cast<double>(axis.from) / static_cast<double>(axis.to);
  const double reach = std::max(scale, 1.0);
  std::vector<Window> windows;
  for (uint32_t i = 0; i < axis.count; ++i) {
    const double center = (static_cast<double>(axis.first + i) + 0.5) * scale;
    windows.push_back(WindowAt(center, reach, axis.from));
  }
  return windows;
}

// Returns the weighted sum of pixels that lie `stride` bytes apart.
uint8_t Blend(const uint8_t* pixels, size_t stride, const Window& window) {
  int64_t sum = int64_t{1} << (kWeightBits - 1);
  for (size_t i = 0; i < window.weights.size(); ++i) {
    sum += int64_t{window.weights[i]} * pixels[i * stride];
  }
  return static_cast<uint8_t>(std::clamp<int64_t>(sum >> kWeightBits, 0, 255));
}

DecodedImage ResizeRows(const DecodedImage& image, const Axis& axis) {
  DecodedImage result = {axis.count, image.height, image.channels, {}};
  result.pixels.reserve(size_t{axis.count} * image.height * image.channels);
  const std::vector<Window> windows = WindowsOf(axis);
  for (size_t y = 0; y < image.height; ++y) {
    for (const Window& window : windows) {
      const size_t first = (y * image.width + window.first) * image.channels;
      for (size_t c = 0; c < image.channels; ++c) {
        result.pixels.push_back(
            Blend(&image.pixels[first + c], image.channels, window));
      }
    }
  }
  return result;
}

DecodedImage ResizeColumns(const DecodedImage& image, const Axis& axis) {
  DecodedImage result = {image.width, axis.count, image.channels, {}};
  const size_t row = size_t{image.width} * image.channels;
  result.pixels.reserve(row * axis.count);
  for (const Window& window : WindowsOf(axis)) {
    for (size_t i = 0; i < row; ++i) {
      result.pixels.push_back(
          Blend(&image.pixels[window.first * row + i], row, window));
    }
  }
  return result;
}

// Returns half of `count`, where a half goes to the even neighbour.
uint64_t HalfOf(uint64_t count) {
  const uint64_t half = count / 2;
  return half + (count % 2 == 1 && half % 2 == 1 ? 1 : 0);
}

// Returns whether the axis changes nothing.
bool IsSame(const Axis& axis) {
  return axis.to == axis.from && axis.count == axis.from;
}

}  // namespace

DecodedImage ResizeImage(const DecodedImage& image, ImageSize size,
                         ImageFit fit) {
  Axis across = {image.width, size.width, 0, size.width};
  Axis down = {image.height, size.height, 0, size.height};
  if (fit == ImageFit::kCrop) {
    // The side that needs the larger factor fits exactly, the other one is cut.
    const uint64_t w = image.width, h = image.height;
    if (size.width * h >= size.height * w) {
      down.to = std::max<uint64_t>(size.height, size.width * h / w);
      down.first = HalfOf(down.to - size.height);
    } else {
      across.to = std::max<uint64_t>(size.width, size.height * w / h);
      across.first = HalfOf(across.to - size.width);
    }
  }
  DecodedImage result = IsSame(across) ? image : ResizeRows(image, across);
  if (!IsSame(down)) result = ResizeColumns(result, down);
  return result;
}

}  // namespace gpupool::engine
