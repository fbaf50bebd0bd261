// Ops on the colours of an image. Formulas are those of
// torchvision.transforms.functional on float tensors, of version 0.14. Pure.
#pragma once

#include "absl/types/span.h"
#include "engine/data/transform/image.h"

namespace gpupool::engine {

// Multiplies every number.
void Multiply(float factor, Image& image);

// Computes (x - mean) / deviation. Both have a number for each channel, or one
// for all. Deviations must not be 0.
void NormalizeChannels(absl::Span<const float> mean,
                       absl::Span<const float> deviation, Image& image);

// Mix the image with another one: factor * image + (1 - factor) * other, cut to
// 0 .. maximum. With three channels these are red, green and blue.
//   brightness  other = 0
//   contrast    other = the mean of the grey image, one number
//   saturation  other = the grey image; an image without three channels stays
// The grey image is 0.2989 red + 0.587 green + 0.114 blue, or the image itself
// if it does not have three channels.
void AdjustBrightness(float factor, float maximum, Image& image);
void AdjustContrast(float factor, float maximum, Image& image);
void AdjustSaturation(float factor, float maximum, Image& image);

}  // namespace gpupool::engine
