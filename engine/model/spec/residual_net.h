// The layers of residual networks (He and others, "Deep Residual Learning for
// Image Recognition", 2016). Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"

namespace gpupool::v1 {
class ModelSpec;
class ResNet;
}  // namespace gpupool::v1

namespace gpupool::engine {

// The facts that tell one residual network from another.
struct ResidualNet {
  std::vector<int> blocks;  // of each stage
  // Whether a block has three convolutions, the last with four times as many
  // filters, instead of two.
  bool bottleneck = false;
  int64_t classes = 1000;
  int64_t width = 64;
  bool small_stem = false;
};

// Adds the layers to `spec`. `options` override the classes, the width and the
// stem of `net`. INVALID_ARGUMENT names the option that is out of range.
absl::Status AddResidualNet(const v1::ResNet& options, ResidualNet net,
                            v1::ModelSpec& spec);

}  // namespace gpupool::engine
