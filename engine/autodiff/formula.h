// Writes the formula of a gradient as nodes, one call for each term. After the
// first failure every call does nothing, so a rule checks the status once. Not
// thread-safe; does not own the builder.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "engine/graph/builder.h"

namespace gpupool::engine::autodiff {

class Formula {
 public:
  explicit Formula(GraphBuilder* builder) : builder_(builder) {}

  // The functions below return an invalid value after a failure.
  ValueId Unary(UnaryFunction function, ValueId x);
  ValueId Binary(BinaryFunction function, ValueId a, ValueId b);
  ValueId Where(ValueId condition, ValueId a, ValueId b);
  ValueId Cast(ValueId x, DType dtype);
  // Reduces over the axes, which stay with size 1.
  ValueId Reduce(ReduceFunction function, ValueId x,
                 const std::vector<int>& axes);
  ValueId Reshape(ValueId x, const Shape& shape);
  ValueId Broadcast(ValueId x, const Shape& shape);
  // Returns a scalar of the element type of `like`.
  ValueId Number(double number, ValueId like);
  // Sums x over the axes along which a value of `shape` was broadcast to x.
  ValueId ReduceTo(ValueId x, const Shape& shape);

  const absl::Status& status() const { return status_; }

 private:
  ValueId Emit(Op op, absl::Span<const ValueId> inputs,
               Attributes attributes = {});

  GraphBuilder* builder_;
  absl::Status status_;
};

}  // namespace gpupool::engine::autodiff
