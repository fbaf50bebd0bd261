#include "engine/serving/row_facts.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace gpupool::engine {
namespace {

using Kind = RowFacts::Kind;

int64_t Product(const Shape& shape, int begin, int end) {
  int64_t product = 1;
  for (int axis = begin; axis < end; ++axis) product *= shape[axis];
  return product;
}

RowFacts Mixed(int node) { return {.kind = Kind::kMixed, .node = node}; }

bool EqualNumbers(double a, double b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

bool IsEvenAlong(const Value& constant, int axis) {
  const int64_t stride =
      Product(constant.shape, axis + 1, constant.shape.rank());
  const int64_t cells = constant.shape[axis];
  for (int64_t i = 0; i < constant.shape.elements(); ++i) {
    if (i / stride % cells == 0) continue;
    const auto at = static_cast<size_t>(i);
    const auto before = static_cast<size_t>(i - stride);
    if (!EqualNumbers(constant.constant[at], constant.constant[before])) {
      return false;
    }
  }
  return true;
}

// Returns the operand's axis that belongs to that axis of the result; -1 when
// there is none.
int AxisFor(const RowOperand& operand, int result_axis) {
  const auto found =
      std::find(operand.to.begin(), operand.to.end(), result_axis);
  return found == operand.to.end()
             ? -1
             : static_cast<int>(found - operand.to.begin());
}

// Returns whether the operand's cells do not differ along that axis of the
// result.
bool IsEvenFor(const RowOperand& operand, int result_axis) {
  const int axis = AxisFor(operand, result_axis);
  return axis < 0 || operand.shape[axis] == 1 ||
         (operand.facts.even & AxisBit(axis)) != 0;
}

RowFacts SameFacts(const RowResult& result,
                   absl::Span<const RowOperand> operands) {
  RowFacts facts{.kind = Kind::kSame};
  for (int axis = 0; axis < result.shape.rank(); ++axis) {
    const bool own = (result.own & AxisBit(axis)) != 0;
    const bool even = std::all_of(
        operands.begin(), operands.end(),
        [&](const RowOperand& operand) { return IsEvenFor(operand, axis); });
    if (result.shape[axis] == 1 || (even && !own)) facts.even |= AxisBit(axis);
  }
  return facts;
}

// Returns whether the result's cells each depend on the cells at their own
// place of this operand, which has its shape or one element.
bool IsPlain(const RowResult& result, const RowOperand& operand) {
  if (operand.facts.kind == Kind::kSame && operand.shape.elements() == 1) {
    return true;
  }
  for (size_t axis = 0; axis < operand.to.size(); ++axis) {
    if (operand.to[axis] != static_cast<int>(axis)) return false;
  }
  return operand.shape == result.shape;
}

// Returns the facts of an elementwise result, whatever axes hold the rows.
RowFacts PlainFacts(const RowResult& result, const RowFacts& rows,
                    absl::Span<const RowOperand> operands) {
  for (const RowOperand& operand : operands) {
    const bool fits =
        result.own == 0 && IsPlain(result, operand) &&
        (operand.facts.kind == Kind::kSame ? operand.shape.elements() == 1
                                           : operand.facts == rows);
    if (!fits) return Mixed(result.node);
  }
  return rows;
}

// Returns whether the operand leaves the rows apart that are at `rows` in the
// result.
bool KeepsApart(const RowResult& result, const RowAxis& rows,
                const RowOperand& operand) {
  if (operand.facts.kind == Kind::kSame) return IsEvenFor(operand, rows.axis);
  const auto place = FindRowAxis(operand.facts, operand.shape, result.batch);
  return place.has_value() && place->axis == AxisFor(operand, rows.axis) &&
         place->outer == rows.outer && place->inner == rows.inner &&
         operand.shape[place->axis] == result.shape[rows.axis];
}

}  // namespace

std::optional<RowAxis> FindRowAxis(const RowFacts& facts, const Shape& shape,
                                   int64_t batch) {
  int64_t before = 1;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const int64_t after = Product(shape, axis + 1, shape.rank());
    const bool divides =
        after > 0 && facts.outer % before == 0 && facts.inner % after == 0;
    if (divides) {
      const RowAxis found{axis, facts.outer / before, facts.inner / after};
      if (found.outer * batch * found.inner == shape[axis]) return found;
    }
    before *= shape[axis];
    if (before == 0) break;
  }
  return std::nullopt;
}

RowFacts RowsAt(const RowAxis& axis, const Shape& shape) {
  return {.kind = Kind::kRows,
          .outer = Product(shape, 0, axis.axis) * axis.outer,
          .inner = axis.inner * Product(shape, axis.axis + 1, shape.rank())};
}

uint32_t EvenAxes(const Value& constant) {
  if (constant.constant.size() <= 1) return kAllAxes;
  uint32_t even = 0;
  for (int axis = 0; axis < constant.shape.rank(); ++axis) {
    if (constant.shape[axis] == 1 || IsEvenAlong(constant, axis)) {
      even |= AxisBit(axis);
    }
  }
  return even;
}

RowFacts ReshapedFacts(const RowFacts& facts, const Shape& from,
                       const Shape& to) {
  if (facts.kind != Kind::kSame) return facts;
  RowFacts reshaped{.kind = Kind::kSame};
  if (to.elements() == 0 || facts.even == kAllAxes) {
    reshaped.even = kAllAxes;
    return reshaped;
  }
  for (int axis = 0; axis < to.rank(); ++axis) {
    const int64_t inner = Product(to, axis + 1, to.rank());
    const int64_t outer = inner * to[axis];
    // Every axis of the operand along which a step in this axis moves must be
    // even. A step moves along all but those that lie wholly inside of it or
    // wholly outside.
    bool even = true;
    int64_t above = from.elements();
    for (int old = 0; old < from.rank(); ++old) {
      const int64_t stride = above / from[old];
      const bool still = inner % above == 0 || stride % outer == 0;
      even = even && (still || (facts.even & AxisBit(old)) != 0);
      above = stride;
    }
    if (even || to[axis] == 1) reshaped.even |= AxisBit(axis);
  }
  return reshaped;
}

RowFacts JoinedFacts(const RowResult& result,
                     absl::Span<const RowOperand> operands) {
  const RowOperand* first = nullptr;
  for (const RowOperand& operand : operands) {
    if (operand.facts.kind == Kind::kMixed) return operand.facts;
    if (first == nullptr && operand.facts.kind == Kind::kRows) {
      first = &operand;
    }
  }
  if (result.shape.elements() == 0) {
    return {.kind = Kind::kSame, .even = kAllAxes};
  }
  if (first == nullptr) return SameFacts(result, operands);
  const auto place = FindRowAxis(first->facts, first->shape, result.batch);
  if (!place.has_value()) return PlainFacts(result, first->facts, operands);
  const int axis = first->to[static_cast<size_t>(place->axis)];
  if (axis < 0 || (result.own & AxisBit(axis)) != 0) return Mixed(result.node);
  const RowAxis rows{axis, place->outer, place->inner};
  for (const RowOperand& operand : operands) {
    if (!KeepsApart(result, rows, operand)) return Mixed(result.node);
  }
  return RowsAt(rows, result.shape);
}

}  // namespace gpupool::engine
