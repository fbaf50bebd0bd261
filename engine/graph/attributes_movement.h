// Attributes of the core ops that move and index elements. Plain values. Axes
// count from 0 and are never negative; the builder of a node normalises them.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/graph/functions.h"
#include "engine/tensor/shape.h"

namespace gpupool::engine {

// Output axis i is input axis permutation[i].
struct TransposeAttributes {
  std::vector<int> permutation;

  friend bool operator==(const TransposeAttributes&,
                         const TransposeAttributes&) = default;
};

// Output cell i of an axis is input cell start + i * step, and all of these are
// inside the input. One entry for each axis.
struct SliceAttributes {
  std::vector<int64_t> starts;
  std::vector<int64_t> steps;  // not 0; negative walks backwards
  std::vector<int64_t> sizes;  // the output's

  friend bool operator==(const SliceAttributes&,
                         const SliceAttributes&) = default;
};

struct SliceGradAttributes {
  SliceAttributes slice;  // the forward node's
  Shape input;            // the forward input's

  friend bool operator==(const SliceGradAttributes&,
                         const SliceGradAttributes&) = default;
};

// One entry for each axis, each at least 0.
struct PadAttributes {
  std::vector<int64_t> before;
  std::vector<int64_t> after;
  PadMode mode = PadMode::kConstant;
  double value = 0;  // for kConstant

  friend bool operator==(const PadAttributes&, const PadAttributes&) = default;
};

struct AxisAttributes {
  int axis = 0;

  friend bool operator==(const AxisAttributes&,
                         const AxisAttributes&) = default;
};

// Gradient of gather: adds dy at the places that the indices point to, in an
// output of this shape.
struct GatherGradAttributes {
  int axis = 0;
  Shape input;  // the forward input's

  friend bool operator==(const GatherGradAttributes&,
                         const GatherGradAttributes&) = default;
};

struct GatherNdAttributes {
  int batch_dims = 0;

  friend bool operator==(const GatherNdAttributes&,
                         const GatherNdAttributes&) = default;
};

struct ScatterAttributes {
  int axis = 0;  // kScatterElements only
  ScatterReduction reduction = ScatterReduction::kNone;

  friend bool operator==(const ScatterAttributes&,
                         const ScatterAttributes&) = default;
};

// A walk takes `levels` steps through the slots. It goes on to smaller[slot] if
// the number in the slot's column is at most its threshold, else to
// larger[slot]. NaN counts as larger, unless the column is given as -1 -
// column. A leaf leads to itself.
struct TreeWalkAttributes {
  int64_t levels = 0;

  friend bool operator==(const TreeWalkAttributes&,
                         const TreeWalkAttributes&) = default;
};

struct TopKAttributes {
  int axis = 0;
  int64_t k = 1;
  bool largest = true;
  bool sorted = true;

  friend bool operator==(const TopKAttributes&,
                         const TopKAttributes&) = default;
};

// A separable linear map: along axis i, output cell o is the sum over t of
// weights[o * taps + t] * input cell indices[o * taps + t]. The builder of the
// node computes the table from mode, scale and coordinate transformation.
struct ResizeAxis {
  int axis = 0;
  int64_t size = 1;  // the output's
  int taps = 1;
  std::vector<int64_t> indices;  // size * taps of them, inside the input
  std::vector<double> weights;

  friend bool operator==(const ResizeAxis&, const ResizeAxis&) = default;
};

struct ResizeAttributes {
  std::vector<ResizeAxis> axes;  // distinct; other axes keep their size

  friend bool operator==(const ResizeAttributes&,
                         const ResizeAttributes&) = default;
};

struct ResizeGradAttributes {
  ResizeAttributes resize;  // the forward node's
  Shape input;              // the forward input's

  friend bool operator==(const ResizeGradAttributes&,
                         const ResizeGradAttributes&) = default;
};

}  // namespace gpupool::engine
