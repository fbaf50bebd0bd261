// Writes the formula of a gradient as nodes, one call per term. The first
// failure is kept and makes every later call do nothing, so that a rule checks
// once. Not thread-safe; does not own the builder.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "engine/graph/builder.h"

namespace gpupool::engine::autodiff {

class Formula {
 public:
  explicit Formula(GraphBuilder* builder) : builder_(builder) {}

  // Each returns an invalid value after a failure.
  ValueId Unary(UnaryFunction function, ValueId x);
  ValueId Binary(BinaryFunction function, ValueId a, ValueId b);
  ValueId Where(ValueId condition, ValueId a, ValueId b);
  ValueId Cast(ValueId x, DType dtype);
  // keep_dims is set.
  ValueId Reduce(ReduceFunction function, ValueId x,
                 const std::vector<int>& axes);
  ValueId Reshape(ValueId x, const Shape& shape);
  ValueId Broadcast(ValueId x, const Shape& shape);
  // A scalar of the element type of `like`.
  ValueId Number(double number, ValueId like);
  // The sum over what was repeated when a value of `shape` was broadcast to
  // that of `x`.
  ValueId ReduceTo(ValueId x, const Shape& shape);

  const absl::Status& status() const { return status_; }

 private:
  ValueId Emit(Op op, absl::Span<const ValueId> inputs,
               Attributes attributes = {});

  GraphBuilder* builder_;
  absl::Status status_;
};

}  // namespace gpupool::engine::autodiff
