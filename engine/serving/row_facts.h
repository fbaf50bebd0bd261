// Describes how a value of a graph depends on the rows of a batch. A row is one
// example: the part of every input at one position of its first dimension.
//
// Pure functions over plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "engine/graph/graph.h"
#include "engine/tensor/shape.h"

namespace gpupool::engine {

struct RowFacts {
  enum class Kind : uint8_t {
    kSame,   // the same numbers whatever the batch holds
    kRows,   // part i depends on row i alone, in the same way for every i
    kMixed,  // anything else
  };
  Kind kind = Kind::kMixed;
  // kRows: element ((o * batch) + i) * inner + e, in row-major order, belongs
  // to row i, for o below `outer` and e below `inner`.
  int64_t outer = 1;
  int64_t inner = 1;
  // kSame: a bit mask of the axes along which all elements are equal.
  uint32_t even = 0;
  // kMixed: the position of the node that is to blame.
  int node = -1;

  friend bool operator==(const RowFacts&, const RowFacts&) = default;
};

// Masks of axes.
inline constexpr uint32_t kAllAxes = ~0u;
inline uint32_t AxisBit(int axis) { return 1u << static_cast<unsigned>(axis); }

// The axis that holds the rows of a kRows value. It has outer * batch * inner
// cells.
struct RowAxis {
  int axis = 0;
  int64_t outer = 1;
  int64_t inner = 1;
};

// Returns the axis that holds the rows; nothing when they are spread over
// several axes. `batch` must be above 1.
std::optional<RowAxis> FindRowAxis(const RowFacts& facts, const Shape& shape,
                                   int64_t batch);

// Returns the facts of a value of that shape with rows at `axis`.
RowFacts RowsAt(const RowAxis& axis, const Shape& shape);

// Returns the axes along which the numbers of a constant are equal.
uint32_t EvenAxes(const Value& constant);

// Returns the facts of a value after a reshape.
RowFacts ReshapedFacts(const RowFacts& facts, const Shape& from,
                       const Shape& to);

// An operand of an op, by the axis of the result to which each of its axes
// belongs. Result cells depend on the operand's cells at their own place along
// such axes. -1: they depend on cells along the whole axis.
struct RowOperand {
  RowFacts facts;
  Shape shape;
  std::vector<int> to;
};

// The result of an op.
struct RowResult {
  Shape shape;
  int64_t batch = 2;
  int node = -1;  // to blame if rows mix
  // A bit mask of the axes along which the op itself makes cells differ, even
  // if its operands are equal along them.
  uint32_t own = 0;
};

// Returns the facts of a result.
RowFacts JoinedFacts(const RowResult& result,
                     absl::Span<const RowOperand> operands);

}  // namespace gpupool::engine
