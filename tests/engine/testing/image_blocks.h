// The blocks of convolutional networks, each between two convolutions. They
// must stay in the channels-last layout.
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

// Returns blocks with input "x" [2, 4, 8, 8] and output "y", the result of the
// last convolution.
const std::vector<ImageBlock>& ImageBlocks();

}  // namespace gpupool::engine::testing
