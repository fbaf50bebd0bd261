// Residual networks of bottlenecks (He et al. 2015, arXiv 1512.03385), with the
// stride in the 3x3 convolution ("v1.5"), like torchvision's.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/model/model_source.h"

namespace gpupool::engine::testing {

// The defaults are those of ResNet-50: 25,557,032 parameters.
struct ResNetSizes {
  std::vector<int> blocks = {3, 4, 6, 3};  // per stage
  int64_t width = 64;                      // of the first stage
  int64_t image = 224;                     // pixels per side
  int64_t classes = 1000;
};

// For tests. Learns in a minute on a processor.
inline ResNetSizes TinyResNet() {
  return {.blocks = {1, 1}, .width = 8, .image = 32, .classes = 10};
}

// Returns a model with input "input" float32 [batch, 3, image, image] and
// output "output" float32 [batch, classes].
std::shared_ptr<const ModelSource> ResNet(const ResNetSizes& sizes);

}  // namespace gpupool::engine::testing
