// Which values share bytes, where those bytes belong, and from when until
// when a run needs them. Pure functions of a verified graph.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/graph/graph.h"

namespace gpupool::engine {

// Where a value's bytes are.
enum class Place : uint8_t {
  kArena,       // planned offsets; undefined between runs
  kPersistent,  // the model's weight store, by the root value's name
  kResident,    // constants, and derived values that steps read: as long as
                // the program
};

// Positions of nodes, both inclusive. A value that must survive the run ends
// at nodes().size().
struct Lifetime {
  int first = 0;
  int last = 0;

  bool Overlaps(const Lifetime& other) const {
    return first <= other.last && other.first <= last;
  }
};

// Values that are the same bytes: a root and its views, in-place results and
// updates.
struct Buffer {
  ValueId root;
  Place place = Place::kArena;
  uint64_t bytes = 0;  // of the largest member, not rounded
  MemoryClass memory_class = MemoryClass::kActivation;
  Lifetime lifetime;  // of arena buffers
};

struct Liveness {
  std::vector<Buffer> buffers;
  std::vector<int> buffer_of;  // by value index; -1: nobody uses the value

  const Buffer& of(ValueId id) const {
    return buffers[static_cast<size_t>(
        buffer_of[static_cast<size_t>(id.index)])];
  }
};

// Inputs are needed from the first step node on, so they may be written at
// any time between two runs. Derived values that only load nodes read have
// their bytes in the arena while these run: the arena is theirs then.
Liveness AnalyseLiveness(const Graph& graph);

}  // namespace gpupool::engine
