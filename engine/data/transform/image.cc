#include "engine/data/transform/image.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "engine/base/check.h"

namespace gpupool::engine {
namespace {

// The weights with which pixels of an axis become one pixel.
struct Taps {
  int64_t first = 0;
  std::vector<double> weights;
};

// Returns the taps of each of `to` pixels that stand for `from` pixels.
std::vector<Taps> TapsOf(int64_t from, int64_t to) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  // The triangle is as wide as two pixels of the coarser side.
  const double half = std::max(scale, 1.0);
  std::vector<Taps> all(static_cast<size_t>(to));
  for (int64_t i = 0; i < to; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale;
    const auto first = std::max<int64_t>(
        static_cast<int64_t>(std::floor(center - half + 0.5)), 0);
    const auto end = std::min<int64_t>(
        static_cast<int64_t>(std::floor(center + half + 0.5)), from);
    Taps& taps = all[static_cast<size_t>(i)];
    taps.first = first;
    double sum = 0;
    for (int64_t j = first; j < end; ++j) {
      const double distance =
          std::abs(static_cast<double>(j) + 0.5 - center) / half;
      taps.weights.push_back(std::max(1 - distance, 0.0));
      sum += taps.weights.back();
    }
    for (double& weight : taps.weights) weight /= sum;
  }
  return all;
}

// Resamples an axis: `outer` blocks of [n, inner] become [taps.size(), inner].
void ResampleAxis(int64_t outer, int64_t inner, const std::vector<Taps>& taps,
                  Image& image) {
  const auto to = static_cast<int64_t>(taps.size());
  const int64_t from =
      static_cast<int64_t>(image.pixels.size()) / (outer * inner);
  image.spare.assign(static_cast<size_t>(outer * to * inner), 0.0f);
  for (int64_t block = 0; block < outer; ++block) {
    for (int64_t i = 0; i < to; ++i) {
      const Taps& tap = taps[static_cast<size_t>(i)];
      float* const out = image.spare.data() + (block * to + i) * inner;
      const float* in =
          image.pixels.data() + (block * from + tap.first) * inner;
      for (const double weight : tap.weights) {
        for (int64_t k = 0; k < inner; ++k) {
          out[k] += static_cast<float>(weight) * in[k];
        }
        in += inner;
      }
    }
  }
  image.pixels.swap(image.spare);
}

}  // namespace

void FlipHorizontally(Image& image) {
  const int64_t width = image.shape.width;
  for (auto row = image.pixels.begin(); row != image.pixels.end();
       row += width) {
    std::reverse(row, row + width);
  }
}

void FlipVertically(Image& image) {
  const ImageShape& shape = image.shape;
  for (int64_t c = 0; c < shape.channels; ++c) {
    float* const plane = image.pixels.data() + c * shape.plane();
    for (int64_t y = 0; y < shape.height / 2; ++y) {
      float* const upper = plane + y * shape.width;
      float* const lower = plane + (shape.height - 1 - y) * shape.width;
      std::swap_ranges(upper, upper + shape.width, lower);
    }
  }
}

void Crop(const ImageBox& box, Image& image) {
  const ImageShape from = image.shape;
  const ImageShape to = {from.channels, box.height, box.width};
  image.spare.assign(static_cast<size_t>(to.numbers()), 0.0f);
  const int64_t left = std::max<int64_t>(box.left, 0);
  const int64_t right = std::min(box.left + box.width, from.width);
  const int64_t top = std::max<int64_t>(box.top, 0);
  const int64_t bottom = std::min(box.top + box.height, from.height);
  for (int64_t c = 0; c < to.channels && left < right; ++c) {
    for (int64_t y = top; y < bottom; ++y) {
      const float* const in =
          image.pixels.data() + c * from.plane() + y * from.width;
      float* const out = image.spare.data() + c * to.plane() +
                         (y - box.top) * to.width + (left - box.left);
      std::copy(in + left, in + right, out);
    }
  }
  image.pixels.swap(image.spare);
  image.shape = to;
}

void Rotate(double degrees, Image& image) {
  const ImageShape shape = image.shape;
  const double angle = degrees * std::numbers::pi / 180;
  const double cosine = std::cos(angle), sine = std::sin(angle);
  const double middle_x = static_cast<double>(shape.width - 1) / 2;
  const double middle_y = static_cast<double>(shape.height - 1) / 2;
  image.spare.assign(image.pixels.size(), 0.0f);
  for (int64_t y = 0; y < shape.height; ++y) {
    for (int64_t x = 0; x < shape.width; ++x) {
      const double dx = static_cast<double>(x) - middle_x;
      const double dy = static_cast<double>(y) - middle_y;
      const auto from_x = static_cast<int64_t>(
          std::nearbyint(cosine * dx - sine * dy + middle_x));
      const auto from_y = static_cast<int64_t>(
          std::nearbyint(sine * dx + cosine * dy + middle_y));
      if (from_x < 0 || from_x >= shape.width || from_y < 0 ||
          from_y >= shape.height) {
        continue;
      }
      const auto to = static_cast<size_t>(y * shape.width + x);
      const auto from = static_cast<size_t>(from_y * shape.width + from_x);
      for (int64_t c = 0; c < shape.channels; ++c) {
        const auto plane = static_cast<size_t>(c * shape.plane());
        image.spare[plane + to] = image.pixels[plane + from];
      }
    }
  }
  image.pixels.swap(image.spare);
}

void Erase(const ImageBox& box, float value, Image& image) {
  const ImageShape& shape = image.shape;
  GPUPOOL_CHECK(box.top >= 0 && box.top + box.height <= shape.height);
  GPUPOOL_CHECK(box.left >= 0 && box.left + box.width <= shape.width);
  for (int64_t c = 0; c < shape.channels; ++c) {
    for (int64_t y = box.top; y < box.top + box.height; ++y) {
      float* const row =
          image.pixels.data() + c * shape.plane() + y * shape.width + box.left;
      std::fill(row, row + box.width, value);
    }
  }
}

void Resize(int64_t height, int64_t width, Image& image) {
  GPUPOOL_CHECK(height > 0 && width > 0);
  ImageShape& shape = image.shape;
  if (width != shape.width) {
    ResampleAxis(shape.channels * shape.height, 1, TapsOf(shape.width, width),
                 image);
    shape.width = width;
  }
  if (height != shape.height) {
    ResampleAxis(shape.channels, shape.width, TapsOf(shape.height, height),
                 image);
    shape.height = height;
  }
}

}  // namespace gpupool::engine
