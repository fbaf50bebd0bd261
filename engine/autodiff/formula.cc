#include "engine/autodiff/formula.h"

#include <utility>

namespace gpupool::engine::autodiff {

ValueId Formula::Emit(Op op, absl::Span<const ValueId> inputs,
                      Attributes attributes) {
  if (!status_.ok()) return {};
  absl::StatusOr<ValueId> result =
      builder_->EmitOne(op, inputs, std::move(attributes));
  if (result.ok()) return *result;
  status_ = result.status();
  return {};
}

ValueId Formula::Unary(UnaryFunction function, ValueId x) {
  return Emit(Op::kUnary, {x}, UnaryAttributes{function});
}

ValueId Formula::Binary(BinaryFunction function, ValueId a, ValueId b) {
  return Emit(Op::kBinary, {a, b}, BinaryAttributes{function});
}

ValueId Formula::Where(ValueId condition, ValueId a, ValueId b) {
  return Emit(Op::kWhere, {condition, a, b});
}

ValueId Formula::Cast(ValueId x, DType dtype) {
  return Emit(Op::kCast, {x}, CastAttributes{dtype});
}

ValueId Formula::Reduce(ReduceFunction function, ValueId x,
                        const std::vector<int>& axes) {
  return Emit(Op::kReduce, {x}, ReduceAttributes{function, axes, true});
}

ValueId Formula::Reshape(ValueId x, const Shape& shape) {
  if (status_.ok() && builder_->shape(x) == shape) return x;
  return Emit(Op::kReshape, {x}, ShapeAttributes{shape});
}

ValueId Formula::Broadcast(ValueId x, const Shape& shape) {
  if (status_.ok() && builder_->shape(x) == shape) return x;
  return Emit(Op::kBroadcast, {x}, ShapeAttributes{shape});
}

ValueId Formula::Number(double number, ValueId like) {
  if (!status_.ok()) return {};
  return builder_->Constant({builder_->value(like).dtype, {}}, {number});
}

ValueId Formula::ReduceTo(ValueId x, const Shape& shape) {
  if (!status_.ok()) return {};
  const Shape from = builder_->shape(x);
  // `shape` may refer to a value, which moves when the graph grows.
  const Shape to = shape;
  const int extra = from.rank() - to.rank();
  std::vector<int> axes;
  for (int i = 0; i < from.rank(); ++i) {
    // Axes that the value lacks, or has with size 1, were repeated.
    if (from[i] != 1 && (i < extra || to[i - extra] == 1)) axes.push_back(i);
  }
  if (!axes.empty()) {
    const bool keep_dims = axes.back() >= extra;
    x = Emit(Op::kReduce, {x},
             ReduceAttributes{ReduceFunction::kSum, axes, keep_dims});
  }
  return Reshape(x, to);
}

}  // namespace gpupool::engine::autodiff
