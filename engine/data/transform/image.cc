#include "engine/data/transform/image.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "absl/types/span.h"
#include "engine/base/check.h"

namespace gpupool::engine {
namespace {

// The weights with which pixels of an axis become others.
struct Taps {
  size_t count = 0;            // weights of each pixel
  std::vector<int64_t> first;  // the first of its source pixels
  std::vector<float> weights;  // [pixels, count], 0 after its last source
};

// Returns the weights of `to` pixels that stand for `from` pixels.
Taps TapsOf(int64_t from, int64_t to) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  // The triangle is as wide as two pixels of the coarser side.
  const double half = std::max(scale, 1.0);
  Taps taps;
  taps.count = static_cast<size_t>(
      std::min<int64_t>(static_cast<int64_t>(std::ceil(half)) * 2 + 1, from));
  taps.weights.resize(static_cast<size_t>(to) * taps.count);
  for (int64_t i = 0; i < to; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale;
    const auto begin = std::max<int64_t>(
        static_cast<int64_t>(std::floor(center - half + 0.5)), 0);
    const auto end = std::min<int64_t>(
        static_cast<int64_t>(std::floor(center + half + 0.5)), from);
    // Begins so early that all weights are those of pixels.
    const int64_t first =
        std::min(begin, from - static_cast<int64_t>(taps.count));
    taps.first.push_back(first);
    const auto weight_of = [&](int64_t j) {
      return std::max(
          1 - std::abs(static_cast<double>(j) + 0.5 - center) / half, 0.0);
    };
    double sum = 0;
    for (int64_t j = begin; j < end; ++j) sum += weight_of(j);
    float* const weights =
        taps.weights.data() + static_cast<size_t>(i) * taps.count;
    for (int64_t j = begin; j < end; ++j) {
      weights[j - first] = static_cast<float>(weight_of(j) / sum);
    }
  }
  return taps;
}

// Adds up whole rows of `width` numbers. Blocks of a fixed length become SIMD
// code also at -O2.
void MixRows(const float* __restrict in, int64_t width,
             absl::Span<const float> weights, float* __restrict out) {
  constexpr int64_t kBlock = 16;
  int64_t x = 0;
  for (; x + kBlock <= width; x += kBlock) {
    float sums[kBlock] = {};
    const float* row = in + x;
    for (const float weight : weights) {
      for (int64_t k = 0; k < kBlock; ++k) sums[k] += weight * row[k];
      row += width;
    }
    std::copy(sums, sums + kBlock, out + x);
  }
  for (; x < width; ++x) {
    float sum = 0;
    const float* row = in + x;
    for (const float weight : weights) {
      sum += weight * *row;
      row += width;
    }
    out[x] = sum;
  }
}

void ResizeRows(int64_t height, Image& image) {
  const ImageShape from = image.shape;
  const Taps taps = TapsOf(from.height, height);
  image.shape.height = height;
  image.spare.resize(static_cast<size_t>(image.shape.numbers()));
  float* out = image.spare.data();
  for (int64_t c = 0; c < from.channels; ++c) {
    const float* const plane = image.pixels.data() + c * from.plane();
    for (size_t y = 0; y < taps.first.size(); ++y, out += from.width) {
      MixRows(plane + taps.first[y] * from.width, from.width,
              {taps.weights.data() + y * taps.count, taps.count}, out);
    }
  }
  image.pixels.swap(image.spare);
}

void ResizeColumns(int64_t width, Image& image) {
  const ImageShape from = image.shape;
  const Taps taps = TapsOf(from.width, width);
  image.shape.width = width;
  image.spare.resize(static_cast<size_t>(image.shape.numbers()));
  float* out = image.spare.data();
  const float* row = image.pixels.data();
  for (int64_t y = 0; y < from.channels * from.height; ++y, row += from.width) {
    const float* weights = taps.weights.data();
    for (const int64_t first : taps.first) {
      const float* const in = row + first;
      float sum = 0;
      for (size_t k = 0; k < taps.count; ++k) sum += weights[k] * in[k];
      *out++ = sum;
      weights += taps.count;
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
  // Columns of the image that has fewer rows cost less.
  const bool rows_first = height < image.shape.height;
  if (rows_first) ResizeRows(height, image);
  if (width != image.shape.width) ResizeColumns(width, image);
  if (height != image.shape.height) ResizeRows(height, image);
}

}  // namespace gpupool::engine
