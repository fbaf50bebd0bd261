// Texts that say what values are made of, so that programs of one model can
// tell that they mean the same bytes. Immutable; owns its texts.
#pragma once

#include <string>
#include <vector>

#include "engine/graph/graph.h"

namespace gpupool::engine {

class ValueIdentities {
 public:
  explicit ValueIdentities(const Graph& graph);

  // Two values with the same text in graphs over one weight store hold the
  // same numbers: persistent values by name, constants by a digest of their
  // numbers, derived values by their op, attributes and operands. Empty for
  // all others.
  const std::string& of(ValueId id) const {
    return texts_[static_cast<size_t>(id.index)];
  }

 private:
  std::vector<std::string> texts_;  // by value index
};

}  // namespace gpupool::engine
