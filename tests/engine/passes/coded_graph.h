// Conversions to and from codes as the importer of ONNX files writes them, for
// tests of quantised graphs. Aborts if a node does not type-check.
#pragma once

#include <string>
#include <vector>

#include "engine/base/check.h"
#include "engine/graph/builder.h"

namespace gpupool::engine::testing {

class CodedGraph {
 public:
  explicit CodedGraph(GraphBuilder* builder) : builder_(builder) {}

  ValueId Emit(Op op, const ValueIds& inputs, Attributes attributes = {}) {
    auto result = builder_->EmitOne(op, inputs, std::move(attributes));
    GPUPOOL_CHECK(result.ok());
    return *result;
  }
  ValueId Binary(BinaryFunction function, ValueId a, ValueId b) {
    return Emit(Op::kBinary, {a, b}, BinaryAttributes{function});
  }
  ValueId Number(double number) {
    return builder_->Constant({DType::kFloat32, {}}, {number});
  }

  // Returns (codes - zero) * scale.
  ValueId Dequantize(ValueId codes, const DequantizeAttributes& from) {
    return Scaled(codes, Number(from.scale), from.zero);
  }
  ValueId Scaled(ValueId codes, ValueId scale, int zero) {
    const ValueId whole =
        Emit(Op::kCast, {codes}, CastAttributes{DType::kFloat32});
    const ValueId centered =
        Binary(BinaryFunction::kSubtract, whole, Number(zero));
    return Binary(BinaryFunction::kMultiply, centered, scale);
  }
  // Returns the codes of x, whose range is the whole type.
  ValueId Quantize(ValueId x, const QuantizeAttributes& to) {
    return Quantize(x, to, Number(to.scale));
  }
  ValueId Quantize(ValueId x, const QuantizeAttributes& to, ValueId scale) {
    const CodeRange& codes = to.codes;
    const ValueId ratio = Binary(BinaryFunction::kDivide, x, scale);
    const ValueId whole =
        Emit(Op::kUnary, {ratio}, UnaryAttributes{UnaryFunction::kRound});
    const ValueId shifted =
        Binary(BinaryFunction::kAdd, whole, Number(codes.zero));
    const auto low = static_cast<double>(codes.low);
    const auto high = static_cast<double>(codes.high);
    const ValueId held = Emit(Op::kUnary, {shifted},
                              UnaryAttributes{UnaryFunction::kClip, low, high});
    return Emit(Op::kCast, {held}, CastAttributes{codes.dtype});
  }
  // Returns x after it was turned into codes and back.
  ValueId Coded(ValueId x, const QuantizeAttributes& to) {
    return Dequantize(Quantize(x, to), {to.scale, to.codes.zero});
  }
  // Returns persistent int8 weights as numbers. Their scales, one for each
  // filter, are persistent, too.
  ValueId Weights(const std::string& name, const Shape& shape) {
    const ValueId codes = *builder_->Persistent(name, {DType::kInt8, shape},
                                                MemoryClass::kWeight);
    const ValueId scales = *builder_->Persistent(
        name + "_scale", {DType::kFloat32, {shape[0]}}, MemoryClass::kWeight);
    const ValueId column =
        Emit(Op::kReshape, {scales}, ShapeAttributes{{shape[0], 1, 1, 1}});
    return Scaled(codes, column, 0);
  }

 private:
  GraphBuilder* builder_;
};

}  // namespace gpupool::engine::testing
