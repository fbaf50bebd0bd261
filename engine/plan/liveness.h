// The buffers of a graph: which values share bytes, where those bytes are, and
// during which part of a run they are needed. Pure functions of a verified
// graph.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/graph/graph.h"

namespace gpupool::engine {

// The place of a value's bytes.
enum class Place : uint8_t {
  kArena,       // at planned offsets; undefined between runs
  kPersistent,  // in the model's weight store, by the root value's name
  // Constants and derived values that steps read; lives as long as the program.
  kResident,
};

// Positions of the first and the last node that need a value. A value that must
// survive the run ends at nodes().size().
struct Lifetime {
  int first = 0;
  int last = 0;

  bool Overlaps(const Lifetime& other) const {
    return first <= other.last && other.first <= last;
  }
};

// Values that share the same bytes: a root and its views, in-place results and
// updates.
struct Buffer {
  ValueId root;
  Place place = Place::kArena;
  uint64_t bytes = 0;  // the largest member's, not rounded
  MemoryClass memory_class = MemoryClass::kActivation;
  Lifetime lifetime;  // for arena buffers only
};

struct Liveness {
  std::vector<Buffer> buffers;
  std::vector<int> buffer_of;  // by value index; -1: the value is not used

  const Buffer& of(ValueId id) const {
    return buffers[static_cast<size_t>(
        buffer_of[static_cast<size_t>(id.index)])];
  }
};

// Returns the buffers and their lifetimes. Inputs live from the first step
// node, so they may be written at any time between two runs. Derived values
// that only load nodes read are in the arena, which is free while load nodes
// run.
Liveness AnalyseLiveness(const Graph& graph);

}  // namespace gpupool::engine
