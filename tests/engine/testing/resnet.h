// Residual networks of bottlenecks (He et al. 2015, arXiv 1512.03385), with the
// stride in the 3x3 convolution ("v1.5"), as torchvision's.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/import/model_source.h"

namespace gpupool::engine::testing {

// By default ResNet-50: 25,557,032 parameters.
struct ResNetSizes {
  std::vector<int> blocks = {3, 4, 6, 3};  // of each stage
  int64_t width = 64;                      // of the first stage
  int64_t image = 224;                     // pixels of a side
  int64_t classes = 1000;
};

// For tests: learns in a minute on a processor.
inline ResNetSizes TinyResNet() {
  return {.blocks = {1, 1}, .width = 8, .image = 32, .classes = 10};
}

// Input "input" float32 [batch, 3, image, image], output "output" float32
// [batch, classes].
std::shared_ptr<const ModelSource> ResNet(const ResNetSizes& sizes);

}  // namespace gpupool::engine::testing
