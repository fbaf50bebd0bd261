// The blocks that convolutional networks are made of, each between two
// convolutions: what must not leave the channels-last layout.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "engine/graph/graph.h"

namespace gpupool::engine::testing {

struct ImageBlock {
  std::string name;
  Graph (*build)();

  friend void PrintTo(const ImageBlock& block, std::ostream* out) {
    *out << block.name;
  }
};

// Input "x" is [2, 4, 8, 8]; output "y" is what the last convolution makes.
const std::vector<ImageBlock>& ImageBlocks();

}  // namespace gpupool::engine::testing
