// Texts that identify what values are made of. Programs of one model compare
// them to share bytes. Immutable; owns its texts.
#pragma once

#include <string>
#include <vector>

#include "engine/graph/graph.h"

namespace gpupool::engine {

class ValueIdentities {
 public:
  explicit ValueIdentities(const Graph& graph);

  // Returns the identity of a value. Two values with the same text in graphs
  // over one weight store hold the same numbers. Persistent values are
  // identified by name, constants by a digest of their numbers, and derived
  // values by op, attributes and operands. Empty for all others.
  const std::string& of(ValueId id) const {
    return texts_[static_cast<size_t>(id.index)];
  }

 private:
  std::vector<std::string> texts_;  // by value index
};

}  // namespace gpupool::engine
