// The bytes of a program's arena that are in use at each of its nodes, by the
// memory plan. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace gpupool::engine {

class Program;

// A value, or the scratch of a kernel, that lives in the arena.
struct LiveValue {
  std::string name;   // unique in the graph; empty for scratch
  std::string layer;  // of the node that makes it; empty: no layer
  std::string op;     // of that node; empty for an input
  std::string kind;  // "input", "activation", "gradient", "workspace" and so on
  uint64_t bytes = 0;  // rounded to the alignment
};

struct ArenaUse {
  // Bytes that live during each node, its scratch included; by position.
  std::vector<uint64_t> live_bytes;
  // The first of the nodes that run in a step at which most bytes live. -1: no
  // node runs.
  int peak_node = -1;
  // The largest values at the peak, largest first.
  std::vector<LiveValue> largest;

  uint64_t peak_bytes() const {
    return peak_node < 0 ? 0 : live_bytes[static_cast<size_t>(peak_node)];
  }
};

// Returns the use, with at most `most_values` values at the peak.
ArenaUse ArenaUseOf(const Program& program, size_t most_values = 10);

}  // namespace gpupool::engine
