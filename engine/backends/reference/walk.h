// Positions in a shape, for kernels that move single elements. Plain values.
// Internal to the reference back end.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "engine/tensor/shape.h"

namespace gpupool::engine::reference {

// One coordinate per axis. Unused ones are 0.
using Position = std::array<int64_t, kMaxRank>;

// Returns the row-major index of the element at `position`, which must lie
// inside.
inline size_t IndexOf(const Shape& shape, const Position& position) {
  int64_t index = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    index = index * shape[axis] + position[static_cast<size_t>(axis)];
  }
  return static_cast<size_t>(index);
}

// Returns the same for `small`, which broadcasts to a shape of `rank` axes.
// Axes are aligned at the last one, and an axis of 1 repeats.
inline size_t BroadcastIndexOf(const Shape& small, const Position& position,
                               int rank) {
  int64_t index = 0;
  for (int axis = 0; axis < small.rank(); ++axis) {
    const auto at = static_cast<size_t>(rank - small.rank() + axis);
    index = index * small[axis] + (small[axis] == 1 ? 0 : position[at]);
  }
  return static_cast<size_t>(index);
}

// Visits all positions of a shape in row-major order:
//   for (Walk walk(shape); !walk.done(); walk.Next())
class Walk {
 public:
  explicit Walk(const Shape& shape) : shape_(shape) {}

  bool done() const { return index_ == static_cast<size_t>(shape_.elements()); }
  size_t index() const { return index_; }
  const Position& position() const { return position_; }
  int64_t operator[](int axis) const {
    return position_[static_cast<size_t>(axis)];
  }

  void Next() {
    ++index_;
    for (int axis = shape_.rank() - 1; axis >= 0; --axis) {
      int64_t& coordinate = position_[static_cast<size_t>(axis)];
      if (++coordinate < shape_[axis]) return;
      coordinate = 0;
    }
  }

 private:
  const Shape shape_;
  Position position_{};
  size_t index_ = 0;
};

// The lanes of cells along one axis: `before` * `after` lanes of `cells` cells,
// which are `after` apart.
struct Lanes {
  Lanes(const Shape& shape, int axis)
      : cells(static_cast<size_t>(shape[axis])) {
    for (int i = 0; i < axis; ++i) before *= static_cast<size_t>(shape[i]);
    for (int i = axis + 1; i < shape.rank(); ++i) {
      after *= static_cast<size_t>(shape[i]);
    }
  }

  // Returns the index of a cell of lane (b, a).
  size_t At(size_t b, size_t cell, size_t a) const {
    return (b * cells + cell) * after + a;
  }

  size_t before = 1;
  size_t cells;
  size_t after = 1;
};

}  // namespace gpupool::engine::reference
