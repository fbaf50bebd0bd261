#include "engine/data/transform/image_color.h"

#include <algorithm>

#include "engine/base/check.h"

namespace gpupool::engine {
namespace {

float Mixed(float factor, float x, float other, float maximum) {
  return std::clamp(factor * x + (1 - factor) * other, 0.0f, maximum);
}

float GreyOf(float red, float green, float blue) {
  return 0.2989f * red + 0.587f * green + 0.114f * blue;
}

// Returns the mean of the grey image.
float MeanGrey(const Image& image) {
  const auto plane = static_cast<size_t>(image.shape.plane());
  const std::vector<float>& pixels = image.pixels;
  double sum = 0;
  if (image.shape.channels == 3) {
    for (size_t i = 0; i < plane; ++i) {
      sum +=
          double{GreyOf(pixels[i], pixels[plane + i], pixels[2 * plane + i])};
    }
    return static_cast<float>(sum / static_cast<double>(plane));
  }
  for (const float x : pixels) sum += double{x};
  return static_cast<float>(sum / static_cast<double>(pixels.size()));
}

void MixWithNumber(float factor, float other, float maximum, Image& image) {
  for (float& x : image.pixels) x = Mixed(factor, x, other, maximum);
}

}  // namespace

void Multiply(float factor, Image& image) {
  for (float& x : image.pixels) x *= factor;
}

void NormalizeChannels(absl::Span<const float> mean,
                       absl::Span<const float> deviation, Image& image) {
  const auto plane = static_cast<size_t>(image.shape.plane());
  const auto channels = static_cast<size_t>(image.shape.channels);
  GPUPOOL_CHECK(mean.size() == 1 || mean.size() == channels);
  GPUPOOL_CHECK(deviation.size() == 1 || deviation.size() == channels);
  for (size_t c = 0; c < channels; ++c) {
    const float from = mean[mean.size() == 1 ? 0 : c];
    const float by = deviation[deviation.size() == 1 ? 0 : c];
    float* const pixels = image.pixels.data() + c * plane;
    for (size_t i = 0; i < plane; ++i) pixels[i] = (pixels[i] - from) / by;
  }
}

void AdjustBrightness(float factor, float maximum, Image& image) {
  MixWithNumber(factor, 0, maximum, image);
}

void AdjustContrast(float factor, float maximum, Image& image) {
  MixWithNumber(factor, MeanGrey(image), maximum, image);
}

void AdjustSaturation(float factor, float maximum, Image& image) {
  if (image.shape.channels != 3) return;
  const auto plane = static_cast<size_t>(image.shape.plane());
  float* const red = image.pixels.data();
  float* const green = red + plane;
  float* const blue = green + plane;
  for (size_t i = 0; i < plane; ++i) {
    const float grey = GreyOf(red[i], green[i], blue[i]);
    red[i] = Mixed(factor, red[i], grey, maximum);
    green[i] = Mixed(factor, green[i], grey, maximum);
    blue[i] = Mixed(factor, blue[i], grey, maximum);
  }
}

}  // namespace gpupool::engine
